/* The owner of a folder: one at a time; a stale file is seen as such, a living one is not. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/train/owner.h"
#include "schemas/base/clock.h"
#include "tests/support/scratch_folder.h"

enum { PATH_BYTES = 256, TEXT_BYTES = 512 };

static const char *owner_path(void)
{
    static char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/owner", gal_scratch_folder);
    return path;
}

static void read_owner(char text[TEXT_BYTES])
{
    FILE *file = fopen(owner_path(), "r");
    assert_non_null(file);
    text[fread(text, 1, TEXT_BYTES - 1, file)] = '\0';
    fclose(file);
}

static void write_owner(const char *text)
{
    FILE *file = fopen(owner_path(), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    fclose(file);
}

static bool there(void)
{
    struct stat status;
    return stat(owner_path(), &status) == 0;
}

/* Taken, refused to a second one, which names the process; free again after the release. */
static void test_one_at_a_time(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_owner *first = NULL, *second = NULL;
    char process[64];
    assert_int_equal(gal_owner_take(gal_scratch_folder, 0.2, NULL, &first, &err), GAL_OK);
    assert_true(there());
    assert_int_equal(gal_owner_check(first, &err), GAL_OK);
    assert_int_equal(gal_owner_take(gal_scratch_folder, 0.2, NULL, &second, &err), GAL_ERR_SYSTEM);
    snprintf(process, sizeof process, "another run writes there: process %ld on ", (long)getpid());
    assert_non_null(strstr(err.text, process));
    assert_null(second);
    gal_owner_release(first);
    assert_false(there());
    assert_int_equal(gal_owner_take(gal_scratch_folder, 0.2, NULL, &second, NULL), GAL_OK);
    gal_owner_release(second);
}

/* A process that has ended without a release, one that has not been waited for, and a number that another process has
 * by now: each is stale. */
static void test_stale_on_this_host(void **state)
{
    (void)state;
    gal_owner *owner = NULL;
    char text[TEXT_BYTES];
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        _exit(gal_owner_take(gal_scratch_folder, 0.2, NULL, &owner, NULL) == GAL_OK ? 0 : 1);
    }
    while (!there()) {
        usleep(1000);
    }
    usleep(100000); /* it ends, and is not waited for */
    assert_int_equal(gal_owner_take(gal_scratch_folder, 5.0, NULL, &owner, NULL), GAL_OK);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    read_owner(text);
    gal_owner_release(owner);
    char *started = strstr(text, "started ");
    assert_non_null(started);
    started[strlen("started ")] =
        started[strlen("started ")] == '1' ? '2' : '1'; /* this process began at another time */
    write_owner(text);
    assert_int_equal(gal_owner_take(gal_scratch_folder, 0.0, NULL, &owner, NULL), GAL_OK);
    gal_owner_release(owner);
}

/* Of another host nothing but the renewal is known: an owner that renews is not stale. */
static void test_renewed_elsewhere(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_owner *owner = NULL;
    write_owner("host far\nboot 1\nprocesses pid:[1]\nprocess 1\nstarted 1\n");
    const pid_t child = fork();
    if (child == 0) {
        for (;;) {
            (void)utimensat(AT_FDCWD, owner_path(), NULL, 0);
            usleep(100000);
        }
    }
    const double begin_seconds = gal_now_seconds();
    assert_int_equal(gal_owner_take(gal_scratch_folder, 0.5, NULL, &owner, &err), GAL_ERR_SYSTEM);
    assert_true(gal_now_seconds() - begin_seconds < (double)GAL_OWNER_STALE_SECONDS);
    assert_non_null(strstr(err.text, "process 1 on far"));
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(unlink(owner_path()), 0);
}

/* The wish to end ends the waiting. */
static void test_stops_waiting(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_owner *first = NULL, *second = NULL;
    const volatile sig_atomic_t stop = 1;
    const double begin_seconds = gal_now_seconds();
    assert_int_equal(gal_owner_take(gal_scratch_folder, 0.2, NULL, &first, &err), GAL_OK);
    assert_int_equal(gal_owner_take(gal_scratch_folder, 100.0, &stop, &second, &err), GAL_ERR_SYSTEM);
    assert_true(gal_now_seconds() - begin_seconds < 20.0);
    gal_owner_release(first);
}

/* An owner whose file was removed, or is another's, knows it and leaves the other's alone. */
static void test_lost(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_owner *first = NULL, *second = NULL;
    assert_int_equal(gal_owner_take(gal_scratch_folder, 0.2, NULL, &first, &err), GAL_OK);
    assert_int_equal(unlink(owner_path()), 0);
    assert_int_equal(gal_owner_check(first, &err), GAL_ERR_SYSTEM);
    assert_int_equal(gal_owner_take(gal_scratch_folder, 0.2, NULL, &second, NULL), GAL_OK);
    assert_int_equal(gal_owner_check(first, NULL), GAL_ERR_SYSTEM);
    gal_owner_release(first);
    assert_true(there());
    assert_int_equal(gal_owner_check(second, NULL), GAL_OK);
    gal_owner_release(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_at_a_time),
        cmocka_unit_test(test_stale_on_this_host),
        cmocka_unit_test(test_renewed_elsewhere),
        cmocka_unit_test(test_stops_waiting),
        cmocka_unit_test(test_lost),
    };
    return cmocka_run_group_tests(tests, gal_scratch_folder_make, gal_scratch_folder_remove);
}
