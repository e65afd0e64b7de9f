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

static double processor_seconds(const struct rusage *of)
{
    return (double)(of->ru_utime.tv_sec + of->ru_stime.tv_sec) +
           1e-6 * (double)(of->ru_utime.tv_usec + of->ru_stime.tv_usec);
}

/* Milliseconds on the core for each time that it was left. */
static double milliseconds_without_rest(void (*look)(double begin_seconds))
{
    struct rusage before, after;
    assert_int_equal(getrusage(RUSAGE_THREAD, &before), 0);
    (void)looks_in_a_wait(look);
    assert_int_equal(getrusage(RUSAGE_THREAD, &after), 0);
    const long rests = after.ru_nvcsw - before.ru_nvcsw;
    const double seconds = processor_seconds(&after) - processor_seconds(&before);
    print_message("%ld rests in %.3f s on a core\n", rests, seconds);
    return 1e3 * seconds / (double)(rests + 1);
}

/* Also where nobody is seen to want the core: a rest once a millisecond; twice that, as a tick of the kernel's clock
 * may be counted to who does not run. Without rests it would be all of the 300 ms that this thread has a core. */
static void test_alone(void **unused)
{
    (void)unused;
    assert_true(milliseconds_without_rest(give_way) < 2.0);
    assert_true(milliseconds_without_rest(library_gives_way) < 2.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_alone), cmocka_unit_test(test_shared_core),
                                       cmocka_unit_test(test_libraries)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
