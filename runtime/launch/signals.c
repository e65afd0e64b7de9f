#include "runtime/launch/signals.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "schemas/base/clock.h"

enum { REPEAT_SECONDS = 2 };

static volatile sig_atomic_t stop_requested, child_process, first_seconds;

/* Notes the first signal; true for one that comes seconds later. */
static bool is_second(void)
{
    const sig_atomic_t now_seconds = (sig_atomic_t)gal_now_seconds() + 1;
    if (first_seconds == 0) {
        first_seconds = now_seconds;
    }
    return now_seconds - first_seconds > REPEAT_SECONDS;
}

static void handle(int number, void (*handler)(int))
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    sigaction(number, &action, NULL);
}

static void request_stop(int number)
{
    if (is_second() && number != SIGUSR1) {
        signal(number, SIG_DFL);
        raise(number);
    }
    stop_requested = 1;
}

const volatile sig_atomic_t *gal_stop_on_signals(void)
{
    static bool done;
    const int numbers[] = {SIGUSR1, SIGTERM, SIGINT};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && !done; i++) {
        handle(numbers[i], request_stop);
    }
    if (!done) { /* a file at its limit is an error of the call that writes */
        signal(SIGXFSZ, SIG_IGN);
    }
    done = true;
    return &stop_requested;
}

static void forward(int number)
{
    const int saved = errno;
    const bool first = first_seconds == 0, second = is_second();
    if (child_process > 0 && (first || second)) {
        kill((pid_t)child_process, first ? SIGUSR1 : number);
    }
    errno = saved;
}

void gal_signals_forward(pid_t child)
{
    child_process = (sig_atomic_t)child;
    handle(SIGTERM, forward);
    handle(SIGINT, forward);
}

bool gal_signals_came(void)
{
    return first_seconds != 0;
}

void gal_signals_restore(void)
{
    handle(SIGTERM, SIG_DFL);
    handle(SIGINT, SIG_DFL);
}
