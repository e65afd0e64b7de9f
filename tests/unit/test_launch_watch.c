/* The watch over a launch, with processes of this test as ranks and as the launcher: what it concludes from who has
 * said what, who has ended and who is stopped. No MPI. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/launch/launch_rank.h"
#include "runtime/launch/launch_watch.h"
#include "runtime/launch/signals.h"
#include "schemas/base/clock.h"

enum { RANKS = 3 };

static const double deadline_seconds = 0.4, start_seconds = 0.6, patience_seconds = 20.0;
static const uint32_t all[] = {0, 1, 2}, last_two[] = {1, 2};

typedef struct launch {
    gal_launch_watch watch;
    pid_t launcher, rank[RANKS];
    double begin_seconds;
} launch;

/* A process that lives until it is killed, or this one ends. */
static pid_t spawn(void)
{
    const pid_t parent = getpid(), child = fork();
    assert_true(child >= 0);
    while (child == 0) {
        usleep(10000);
        if (getppid() != parent) {
            _exit(0);
        }
    }
    return child;
}

static void begin(launch *l)
{
    gal_error err = {0};
    assert_int_equal(gal_launch_watch_open(&l->watch, RANKS, &err), GAL_OK);
    l->launcher = spawn();
    memset(l->rank, 0, sizeof l->rank);
    l->begin_seconds = gal_now_seconds();
}

static void end_process(pid_t process)
{
    if (process > 0) {
        kill(process, SIGKILL);
        waitpid(process, NULL, 0);
    }
}

static void end(launch *l)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        end_process(l->rank[r]);
    }
    end_process(l->launcher);
    gal_launch_watch_close(&l->watch);
}

typedef enum what { START, JOIN, BLOCK_ALL, BLOCK_LAST_TWO } what;

/* The rank's process says it has started, has left the start of MPI, or is blocked for others; then lives on. */
static void start_rank(launch *l, uint32_t rank, what does)
{
    int done[2];
    char text[16], said = 0;
    assert_int_equal(pipe(done), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        snprintf(text, sizeof text, "%u", rank);
        setenv("OMPI_COMM_WORLD_RANK", text, 1);
        gal_launch_deadline("test", deadline_seconds);
        gal_launch_register();
        if (does == JOIN) {
            gal_launch_unblocked();
        } else if (does != START) {
            const bool two = does == BLOCK_LAST_TWO;
            gal_launch_blocked(&(gal_comm_wait){
                .text = two ? "group" : "world", .ranks = two ? last_two : all, .rank_count = two ? 2 : 3});
        }
        (void)!write(done[1], "x", 1);
        for (;;) {
            pause();
        }
    }
    assert_int_equal(read(done[0], &said, 1), 1);
    close(done[0]);
    close(done[1]);
    l->rank[rank] = child;
}

/* The watch ends with the error, not before the time and long before the test gives up. */
static void assert_verdict(launch *l, double seconds, const char *text)
{
    gal_error err = {0};
    const gal_code code = gal_launch_watch_wait(&l->watch, l->launcher, deadline_seconds, start_seconds, &err);
    const double took_seconds = gal_now_seconds() - l->begin_seconds;
    assert_int_equal(code, GAL_ERR_DEVICE);
    assert_string_equal(err.text, text);
    assert_true(took_seconds >= seconds && took_seconds < patience_seconds);
    assert_int_equal(waitpid(l->launcher, NULL, WNOHANG), 0); /* it is left to the caller */
}

static void test_nobody_starts(void **state)
{
    (void)state;
    launch l;
    char late[64];
    begin(&l);
    assert_verdict(&l, start_seconds, "mpirun has started no rank within 0.6 s");
    gal_launch_watch_list_late(&l.watch, late, sizeof late);
    assert_string_equal(late, "rank 0, rank 1, rank 2");
    assert_false(gal_launch_watch_kill(&l.watch));
    end(&l);
}

static void test_absent_ranks_are_named(void **state)
{
    (void)state;
    launch l;
    begin(&l);
    start_rank(&l, 1, START);
    start_rank(&l, 0, BLOCK_ALL);
    assert_verdict(&l, deadline_seconds,
                   "not there after 0.4 s: rank 1 (busy), rank 2 (not started); rank 0 waits in world");
    end(&l);
    begin(&l);
    start_rank(&l, 1, BLOCK_ALL);
    start_rank(&l, 2, BLOCK_ALL);
    kill(l.rank[1], SIGSTOP); /* inside the call */
    start_rank(&l, 0, BLOCK_ALL);
    assert_verdict(&l, deadline_seconds, "not there after 0.4 s: rank 1 (stopped); rank 0 waits in world");
    end(&l);
}

/* Rank 0 waits for all, of whom 1 is blocked for 2 alone: 2 is to blame, and 0 is not missed by 1. */
static void test_members_of_a_group(void **state)
{
    (void)state;
    launch l;
    begin(&l);
    start_rank(&l, 0, START);
    start_rank(&l, 2, START);
    start_rank(&l, 1, BLOCK_LAST_TWO);
    assert_verdict(&l, deadline_seconds, "not there after 0.4 s: rank 2 (busy); rank 1 waits in group");
    end(&l);
}

static void test_nobody_is_missing(void **state)
{
    (void)state;
    launch l;
    begin(&l);
    for (uint32_t r = 0; r < RANKS; r++) {
        start_rank(&l, r, BLOCK_ALL);
    }
    assert_verdict(&l, deadline_seconds, "no progress for 0.4 s, though no rank is missing: rank 0 waits in world");
    assert_true(gal_launch_watch_kill(&l.watch));
    end(&l);
}

/* Has ended when this returns; as mpirun the test takes its status later. */
static void kill_rank(const launch *l, uint32_t rank)
{
    siginfo_t ended;
    kill(l->rank[rank], SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)l->rank[rank], &ended, WEXITED | WNOWAIT), 0);
}

/* Ended while it was blocked, as in the end of MPI: the others are left alone, the launcher has the deadline. */
static void test_launcher_does_not_end(void **state)
{
    (void)state;
    launch l;
    begin(&l);
    start_rank(&l, 0, JOIN);
    start_rank(&l, 1, BLOCK_ALL);
    kill(l.rank[1], SIGKILL);
    assert_verdict(&l, deadline_seconds, "not ended 0.4 s after rank 1: rank 0 (busy), rank 2 (not started)");
    assert_int_equal(waitpid(l.rank[0], NULL, WNOHANG), 0);
    end(&l);
}

/* All ended in the end of MPI but one, which a signal has stopped there: it is the one to blame. */
static void test_stopped_at_the_end(void **state)
{
    (void)state;
    launch l;
    begin(&l);
    for (uint32_t r = 0; r < RANKS; r++) {
        start_rank(&l, r, BLOCK_ALL);
    }
    kill(l.rank[0], SIGSTOP);
    kill_rank(&l, 1);
    kill_rank(&l, 2);
    assert_verdict(&l, deadline_seconds, "not ended 0.4 s after rank 1: rank 0 (stopped)");
    end(&l);
}

static void test_launcher_outlives_its_ranks(void **state)
{
    (void)state;
    launch l;
    begin(&l);
    for (uint32_t r = 0; r < RANKS; r++) {
        start_rank(&l, r, BLOCK_ALL);
        kill_rank(&l, r);
    }
    assert_verdict(&l, deadline_seconds, "not ended 0.4 s after rank 0: mpirun, though all ranks have");
    end(&l);
}

/* Ended at work: the others are killed soon, and the first is known though they end before it is asked for. */
static void test_death_at_work(void **state)
{
    (void)state;
    launch l;
    gal_error err = {0};
    int status = 0;
    begin(&l);
    for (uint32_t r = 0; r < RANKS; r++) {
        start_rank(&l, r, JOIN);
    }
    kill(l.rank[2], SIGKILL);   /* as mpirun the test takes its status later */
    const pid_t ender = fork(); /* as mpirun: ends when its ranks have */
    if (ender == 0) {
        sleep(1);
        kill(l.launcher, SIGKILL);
        _exit(0);
    }
    assert_int_equal(gal_launch_watch_wait(&l.watch, l.launcher, patience_seconds, start_seconds, &err), GAL_OK);
    assert_int_equal(l.watch.first_ended, 2);
    for (uint32_t r = 0; r < 2; r++) {
        assert_int_equal(waitpid(l.rank[r], &status, 0), l.rank[r]);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        l.rank[r] = 0;
    }
    waitpid(ender, NULL, 0);
    end(&l);
}

/* The rank says that it has failed, and ends. */
static void fail_rank(uint32_t rank, gal_code code, const char *text)
{
    const pid_t child = fork();
    int status = 0;
    assert_true(child >= 0);
    if (child == 0) {
        char number[16];
        gal_error err = {0};
        snprintf(number, sizeof number, "%u", rank);
        setenv("OMPI_COMM_WORLD_RANK", number, 1);
        (void)gal_fail(&err, code, "%s", text);
        _exit(gal_launch_say(&err) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Of ranks that fail at once the first is heard, whichever it is; also when they say so at the very end. */
static void test_first_error_is_kept(void **state)
{
    (void)state;
    launch l;
    gal_error err = {0};
    begin(&l);
    assert_int_equal(l.watch.said.code, GAL_OK);
    start_rank(&l, 0, JOIN);
    fail_rank(2, GAL_ERR_SYSTEM, "rank 2: gone");
    fail_rank(1, GAL_ERR_DOCUMENT, "rank 1: wrong");
    kill(l.launcher, SIGKILL);
    assert_int_equal(gal_launch_watch_wait(&l.watch, l.launcher, patience_seconds, start_seconds, &err), GAL_OK);
    fail_rank(0, GAL_ERR_DEVICE, "rank 0: late");
    gal_launch_watch_hear(&l.watch);
    assert_int_equal(l.watch.said.code, GAL_ERR_SYSTEM);
    assert_string_equal(l.watch.said.text, "rank 2: gone");
    end(&l);
    begin(&l);
    fail_rank(1, GAL_ERR_DOCUMENT, "rank 1: wrong");
    gal_launch_watch_hear(&l.watch); /* nobody has been waited for */
    assert_int_equal(l.watch.said.code, GAL_ERR_DOCUMENT);
    end(&l);
}

/* Without a launcher of ours the rank has to speak itself. */
static void test_nobody_to_hear_an_error(void **state)
{
    (void)state;
    launch l;
    gal_error err = {0};
    (void)gal_fail(&err, GAL_ERR_SYSTEM, "gone");
    assert_false(gal_launch_say(&err)); /* not a rank */
    begin(&l);
    end(&l); /* the environment still names the pipe */
    setenv("OMPI_COMM_WORLD_RANK", "1", 1);
    assert_false(gal_launch_say(&err));
    unsetenv("OMPI_COMM_WORLD_RANK");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_starts),
        cmocka_unit_test(test_absent_ranks_are_named),
        cmocka_unit_test(test_members_of_a_group),
        cmocka_unit_test(test_nobody_is_missing),
        cmocka_unit_test(test_launcher_does_not_end),
        cmocka_unit_test(test_stopped_at_the_end),
        cmocka_unit_test(test_launcher_outlives_its_ranks),
        cmocka_unit_test(test_death_at_work),
        cmocka_unit_test(test_first_error_is_kept),
        cmocka_unit_test(test_nobody_to_hear_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
