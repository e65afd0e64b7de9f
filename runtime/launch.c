#include "runtime/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/launch_watch.h"

enum {
    PROGRAM_BYTES = 4096,
    NUMBER_BYTES = 16,
    RANK_BYTES = 32,
    LAUNCHER_ARGUMENTS = 24,
    NOT_STARTED = 127,
    SIGNAL_BASE = 128,
    REPEAT_SECONDS = 2
};

static const char terminal_variable[] = "GALPLAN_TERMINAL";
static const char *const rank_variables[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};

static const char *rank_text(void)
{
    for (size_t i = 0; i < sizeof rank_variables / sizeof rank_variables[0]; i++) {
        const char *text = getenv(rank_variables[i]);
        if (text != NULL) {
            return text;
        }
    }
    return NULL;
}

bool gal_launched(void)
{
    return rank_text() != NULL;
}

uint32_t gal_launched_rank(void)
{
    const char *text = rank_text();
    return text != NULL ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

bool gal_launched_terminal(void)
{
    return isatty(STDERR_FILENO) != 0 || (gal_launched() && getenv(terminal_variable) != NULL);
}

/* ---- signals ---- */

/* Signal handlers have no other way to know: whether an end is asked for, and the one child that gal_launch waits for.
 */
static volatile sig_atomic_t stop_requested, child_process, first_signal_seconds;

/* The first signal asks for an orderly end. One request often arrives twice, at the process and at its group: only one
 * that comes seconds later ends the process at once. */
static void request_stop(int number)
{
    const sig_atomic_t now_seconds = (sig_atomic_t)gal_now_seconds() + 1;
    if (stop_requested != 0 && number != SIGUSR1 && now_seconds - first_signal_seconds > REPEAT_SECONDS) {
        signal(number, SIG_DFL);
        raise(number);
    }
    if (stop_requested == 0) {
        first_signal_seconds = now_seconds;
    }
    stop_requested = 1;
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

const volatile sig_atomic_t *gal_stop_on_signals(void)
{
    static bool done;
    const int numbers[] = {SIGUSR1, SIGTERM, SIGINT};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && !done; i++) {
        handle(numbers[i], request_stop);
    }
    done = true;
    return &stop_requested;
}

/* ---- the launcher as a child ---- */

/* One request often arrives twice, at the process and at its group: only a later one is a second. */
static void forward(int number)
{
    const int saved = errno;
    const sig_atomic_t now_seconds = (sig_atomic_t)gal_now_seconds() + 1;
    if (first_signal_seconds == 0) {
        first_signal_seconds = now_seconds;
        number = SIGUSR1;
    }
    if (child_process > 0 && (number == SIGUSR1 || now_seconds - first_signal_seconds > REPEAT_SECONDS)) {
        kill((pid_t)child_process, number);
    }
    errno = saved;
}

static gal_code own_path(char *path, gal_error *err)
{
    const ssize_t length = readlink("/proc/self/exe", path, PROGRAM_BYTES - 1);
    if (length <= 0) {
        return gal_fail(err, GAL_ERR_SYSTEM, "/proc/self/exe: %s", strerror(errno));
    }
    path[length] = '\0';
    return GAL_OK;
}

/* Never returns. The child is a process group of its own, so that Ctrl-C reaches the parent alone, which forwards it.
 */
static _Noreturn void become(char **argv, const char *threads, bool terminal)
{
    const int nothing = open("/dev/null", O_RDONLY);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setpgid(0, 0);
    if (nothing >= 0) {
        dup2(nothing, STDIN_FILENO);
    }
    setenv("OPENBLAS_NUM_THREADS", threads, 1);
    setenv("OMP_NUM_THREADS", threads, 1);
    if (terminal) {
        setenv(terminal_variable, "1", 1);
    } else {
        unsetenv(terminal_variable);
    }
    execvp(argv[0], argv);
    fprintf(stderr, "%s: %s (package openmpi-bin)\n", argv[0], strerror(errno));
    _exit(NOT_STARTED);
}

static gal_code wait_for(pid_t child, gal_launch_watch *watch, int *exit_code, gal_error *err)
{
    gal_code code = GAL_OK;
    int status = 0;
    char rank[RANK_BYTES] = "a rank";
    GAL_TRY(gal_launch_watch_wait(watch, child, err));
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return gal_fail(err, GAL_ERR_SYSTEM, "mpirun: %s", strerror(errno));
        }
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_STARTED) {
        return gal_fail(err, GAL_ERR_SYSTEM, "mpirun could not be started");
    }
    if (WIFSIGNALED(status)) {
        return gal_fail(err, GAL_ERR_DEVICE, "mpirun was ended by signal %d (%s)", WTERMSIG(status),
                        strsignal(WTERMSIG(status)));
    }
    if (WEXITSTATUS(status) > SIGNAL_BASE) {
        if (watch->first_ended != GAL_NO_RANK) {
            snprintf(rank, sizeof rank, "rank %u", watch->first_ended);
        }
        return gal_fail(err, GAL_ERR_DEVICE, "%s was ended by signal %d (%s)", rank, WEXITSTATUS(status) - SIGNAL_BASE,
                        strsignal(WEXITSTATUS(status) - SIGNAL_BASE));
    }
    *exit_code = WEXITSTATUS(status);
cleanup:
    return code;
}

gal_code gal_launch(uint32_t rank_count, uint32_t thread_count, char *const *arguments, int *exit_code, gal_error *err)
{
    gal_code code = GAL_OK;
    char program[PROGRAM_BYTES], ranks[NUMBER_BYTES], threads[NUMBER_BYTES];
    size_t argument_count = 0, used = 0;
    gal_launch_watch watch = {.pipe = {-1, -1}};
    while (arguments[argument_count] != NULL) {
        argument_count++;
    }
    char **argv = calloc(LAUNCHER_ARGUMENTS + argument_count, sizeof *argv);
    if (argv == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: mpirun");
    }
    GAL_TRY(own_path(program, err));
    GAL_TRY(gal_launch_watch_open(&watch, rank_count, err));
    snprintf(ranks, sizeof ranks, "%u", rank_count);
    snprintf(threads, sizeof threads, "%u", thread_count);
    /* Ranks may be more than cores: no binding, and a waiting rank gives its core away. Copies between processes by
     * the kernel (CMA) are refused in many containers. */
    const char *const launcher[] = {
        "mpirun", "-q",    "--oversubscribe",     "--bind-to", "none", "--mca", "btl_vader_single_copy_mechanism",
        "none",   "--mca", "mpi_yield_when_idle", "1",         "-n",   ranks};
    for (; used < sizeof launcher / sizeof launcher[0]; used++) {
        argv[used] = (char *)(uintptr_t)launcher[used];
    }
    if (geteuid() == 0) {
        argv[used++] = (char *)(uintptr_t) "--allow-run-as-root";
    }
    argv[used++] = program;
    for (size_t i = 1; i < argument_count; i++) {
        argv[used++] = arguments[i];
    }
    handle(SIGTERM, forward);
    handle(SIGINT, forward);
    const bool terminal = isatty(STDERR_FILENO) != 0;
    const pid_t child = fork();
    if (child == 0) {
        handle(SIGTERM, SIG_DFL);
        handle(SIGINT, SIG_DFL);
        become(argv, threads, terminal);
    }
    if (child < 0) {
        code = gal_fail(err, GAL_ERR_SYSTEM, "mpirun: %s", strerror(errno));
        goto cleanup;
    }
    child_process = (sig_atomic_t)child;
    GAL_TRY(wait_for(child, &watch, exit_code, err));
cleanup:
    child_process = 0;
    gal_launch_watch_close(&watch);
    free(argv);
    return code;
}
