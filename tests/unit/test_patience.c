/* Who waits on a core that others have too rests: it does not look again and again. */
#include <dlfcn.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/comm/comm.h"
#include "schemas/base/clock.h"

static const double wait_seconds = 0.3;

/* The first core that this process may run on, for it and for those that it makes. */
static void stay_on_one_core(void)
{
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    size_t core = 0;
    while (!CPU_ISSET(core, &set)) {
        core++;
    }
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    assert_int_equal(sched_setaffinity(0, sizeof set, &set), 0);
}

static pid_t give_away_for_ever(void)
{
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            syscall(SYS_sched_yield);
        }
    }
    assert_true(child > 0);
    return child;
}

static void give_way(double begin_seconds)
{
    gal_comm_give_way(NULL, begin_seconds);
}

/* As a library finds it. */
static void library_gives_way(double begin_seconds)
{
    (void)begin_seconds;
    static int (*found)(void);
    if (found == NULL) {
        *(void **)&found = dlsym(RTLD_DEFAULT, "sched_yield");
        assert_non_null(found);
    }
    found();
}

static uint32_t looks_in_a_wait(void (*look)(double begin_seconds))
{
    uint32_t looks = 0;
    for (const double begin = gal_now_seconds(); gal_now_seconds() < begin + wait_seconds; looks++) {
        look(begin);
    }
    return looks;
}

static uint32_t looks_on_a_shared_core(void (*look)(double begin_seconds))
{
    stay_on_one_core();
    const pid_t child = give_away_for_ever();
    const uint32_t looks = looks_in_a_wait(look);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    print_message("%u looks\n", looks);
    return looks;
}

/* Rests of an eighth: from 40 us on (16 looks of 2.8 us) ln(200 us / 25 us) / ln(9/8) = 18 of them until each is of
 * 200 us, then 0.3 s / 200 us = 1,500. By giving away alone it would be some 80,000. */
static void test_shared_core(void **unused)
{
    (void)unused;
    assert_in_range(looks_on_a_shared_core(give_way), 1, 3000);
}

/* What Open MPI waits by in its own calls: 0.3 s / 20 us = 15,000 rests at most. */
static void test_libraries(void **unused)
{
    (void)unused;
    assert_in_range(looks_on_a_shared_core(library_gives_way), 1, 15100);
}

static long sleeps_in_a_wait(void (*look)(double begin_seconds))
{
    struct rusage before, after;
    assert_int_equal(getrusage(RUSAGE_THREAD, &before), 0);
    (void)looks_in_a_wait(look);
    assert_int_equal(getrusage(RUSAGE_THREAD, &after), 0);
    return after.ru_nvcsw - before.ru_nvcsw;
}

/* Also where nobody is seen to want the core: of 0.3 s every 1.2 ms at least, looks and a rest of 0.2 ms, makes 250;
 * half of them where this thread itself does not get the core. */
static void test_alone(void **unused)
{
    (void)unused;
    assert_in_range(sleeps_in_a_wait(give_way), 125, 15100);
    assert_in_range(sleeps_in_a_wait(library_gives_way), 125, 15100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_alone), cmocka_unit_test(test_shared_core),
                                       cmocka_unit_test(test_libraries)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
