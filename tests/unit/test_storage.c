/* The file of a rank: what is written is read again, by each way, from within steps and between them; and what it says
 * when there is no room, no directory, or a device that fails. */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "runtime/device/storage.h"
#include "schemas/base/clock.h"
#include "schemas/plan.h"

enum { BLOCK = GAL_STORAGE_BLOCK_BYTES, FILE_BYTES = 3 << 20, SMALL_TRANSFERS = 3000 };
static const double patience_seconds = 20.0;

/* Stands before liburing's: a kernel that is short of memory, or has too many entries, takes none for a while. */
struct io_uring;
int io_uring_submit(struct io_uring *ring);
static int refusals, refusal;

int io_uring_submit(struct io_uring *ring)
{
    static int (*real)(struct io_uring *);
    if (refusals > 0) {
        refusals--;
        return -refusal;
    }
    if (real == NULL) {
        void *symbol = dlsym(RTLD_NEXT, "io_uring_submit");
        memcpy(&real, &symbol, sizeof real);
    }
    return real(ring);
}

static const char *directory(void)
{
    const char *given = getenv("TMPDIR");
    return given != NULL ? given : "/tmp";
}

static gal_storage *open_by(gal_storage_way way, uint64_t bytes)
{
    gal_error err = {0};
    gal_storage *s = NULL;
    if (gal_storage_open(directory(), bytes, way, &s, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    return s;
}

static unsigned char *blocks(uint64_t bytes)
{
    void *memory = NULL;
    assert_int_equal(posix_memalign(&memory, BLOCK, bytes), 0);
    return memory;
}

static void move(gal_storage *s, gal_storage_direction direction, uint64_t offset, void *memory, uint64_t bytes)
{
    gal_error err = {0};
    bool done = false;
    const double begin = gal_now_seconds();
    assert_int_equal(gal_storage_start(s, direction, offset, memory, bytes, &err), GAL_OK);
    while (!done) {
        if (gal_storage_test(s, direction, &done, &err) != GAL_OK) {
            fail_msg("%s", err.text);
        }
        assert_true(gal_now_seconds() - begin < patience_seconds);
    }
}

static void fill(unsigned char *memory, uint64_t bytes, uint64_t seed)
{
    for (uint64_t i = 0; i < bytes; i++) {
        memory[i] = (unsigned char)((i * 131 + seed * 7919) >> 3);
    }
}

/* A transfer of many pieces, one of a block, and both directions at a time. */
static void check_way(gal_storage_way way)
{
    gal_storage *s = open_by(way, FILE_BYTES);
    unsigned char *wrote = blocks(FILE_BYTES), *read = blocks(FILE_BYTES);
    fill(wrote, FILE_BYTES, 1);
    move(s, GAL_STORAGE_READ, 0, read, FILE_BYTES);
    for (uint64_t i = 0; i < FILE_BYTES; i++) {
        assert_int_equal(read[i], 0);
    }
    move(s, GAL_STORAGE_WRITE, 0, wrote, FILE_BYTES);
    move(s, GAL_STORAGE_READ, 0, read, FILE_BYTES);
    assert_memory_equal(read, wrote, FILE_BYTES);
    gal_error err = {0};
    fill(wrote, BLOCK, 2);
    memset(read, 0, 2 * BLOCK);
    assert_int_equal(gal_storage_start(s, GAL_STORAGE_WRITE, BLOCK, wrote, BLOCK, &err), GAL_OK);
    assert_int_equal(gal_storage_start(s, GAL_STORAGE_READ, 2 * BLOCK, read, 2 * BLOCK, &err), GAL_OK);
    for (bool out = false, in = false; !out || !in;) {
        assert_int_equal(gal_storage_test(s, GAL_STORAGE_WRITE, &out, &err), GAL_OK);
        assert_int_equal(gal_storage_test(s, GAL_STORAGE_READ, &in, &err), GAL_OK);
    }
    assert_memory_equal(read, wrote + 2 * BLOCK, 2 * BLOCK);
    move(s, GAL_STORAGE_READ, BLOCK, read, BLOCK);
    assert_memory_equal(read, wrote, BLOCK);
    assert_int_equal(gal_storage_facts_of(s).bytes, FILE_BYTES);
    assert_int_equal(gal_storage_facts_of(s).written_bytes, FILE_BYTES);
    free(read);
    free(wrote);
    gal_storage_close(s);
}

static void check_small(gal_storage_way way)
{
    enum { BLOCKS = 16 };
    gal_storage *s = open_by(way, BLOCKS * BLOCK);
    unsigned char *wrote = blocks(BLOCK), *read = blocks(BLOCK);
    for (uint64_t i = 0; i < SMALL_TRANSFERS; i++) {
        const uint64_t offset = i * 5 % BLOCKS * BLOCK;
        fill(wrote, BLOCK, i);
        move(s, GAL_STORAGE_WRITE, offset, wrote, BLOCK);
        move(s, GAL_STORAGE_READ, offset, read, BLOCK);
        assert_memory_equal(read, wrote, BLOCK);
    }
    free(read);
    free(wrote);
    gal_storage_close(s);
}

static void test_threads(void **unused)
{
    (void)unused;
    check_way(GAL_STORAGE_THREADS);
    check_small(GAL_STORAGE_THREADS);
}

static void test_io_uring(void **unused)
{
    (void)unused;
    gal_storage *s = open_by(GAL_STORAGE_DEFAULT, BLOCK);
    const gal_storage_way way = gal_storage_facts_of(s).way;
    gal_storage_close(s);
    if (way == GAL_STORAGE_IO_URING) {
        check_way(way);
        check_small(way);
    } else {
        gal_error err = {0};
        assert_int_equal(gal_storage_open(directory(), BLOCK, GAL_STORAGE_IO_URING, &s, &err), GAL_ERR_SYSTEM);
        assert_non_null(strstr(err.text, "no io_uring"));
    }
}

/* Entries that are not taken at once are taken later, by the next look or by the end; others are an error. */
static void test_not_taken(void **unused)
{
    (void)unused;
    static const int passing[] = {EAGAIN, EBUSY, EINTR};
    gal_error err = {0};
    gal_storage *s = open_by(GAL_STORAGE_DEFAULT, FILE_BYTES);
    unsigned char *wrote = blocks(FILE_BYTES), *read = blocks(FILE_BYTES);
    for (uint64_t i = 0; i < sizeof passing / sizeof passing[0]; i++) {
        refusal = passing[i];
        fill(wrote, FILE_BYTES, i);
        refusals = 3;
        move(s, GAL_STORAGE_WRITE, 0, wrote, FILE_BYTES);
        refusals = 3;
        move(s, GAL_STORAGE_READ, 0, read, FILE_BYTES);
        assert_memory_equal(read, wrote, FILE_BYTES);
    }
    refusals = 1;
    assert_int_equal(gal_storage_start(s, GAL_STORAGE_WRITE, 0, wrote, FILE_BYTES, &err), GAL_OK);
    gal_storage_close(s);
    s = open_by(GAL_STORAGE_DEFAULT, FILE_BYTES);
    const bool ring = gal_storage_facts_of(s).way == GAL_STORAGE_IO_URING;
    refusal = EBADF;
    refusals = 1;
    assert_int_equal(gal_storage_start(s, GAL_STORAGE_WRITE, 0, wrote, FILE_BYTES, &err),
                     ring ? GAL_ERR_SYSTEM : GAL_OK);
    refusals = 0;
    gal_storage_close(s);
    free(read);
    free(wrote);
}

/* Any bytes, and what is around them stays. */
static void test_between_steps(void **unused)
{
    (void)unused;
    enum { BEGIN = 1000, BYTES = (2 << 20) + 77 };
    gal_storage *s = open_by(GAL_STORAGE_DEFAULT, FILE_BYTES);
    unsigned char *wrote = blocks(FILE_BYTES), *read = blocks(FILE_BYTES);
    gal_storage_zero(s, 0, FILE_BYTES);
    fill(wrote, FILE_BYTES, 3);
    move(s, GAL_STORAGE_WRITE, 0, wrote, FILE_BYTES);
    fill(wrote + BEGIN, BYTES, 4);
    gal_storage_put(s, BEGIN, wrote + BEGIN, BYTES);
    memset(wrote + BEGIN + 10, 0, 5000);
    gal_storage_zero(s, BEGIN + 10, 5000);
    gal_storage_get(s, 0, read, FILE_BYTES);
    assert_memory_equal(read, wrote, FILE_BYTES);
    gal_storage_get(s, BEGIN - 3, read, BYTES);
    assert_memory_equal(read, wrote + BEGIN - 3, BYTES);
    assert_int_equal(gal_storage_status(s, NULL), GAL_OK);
    free(read);
    free(wrote);
    gal_storage_close(s);
}

/* Reading behind the file's end is what a device that fails looks like: once, and from then on. */
static void test_failure(void **unused)
{
    (void)unused;
    static const gal_storage_way ways[] = {GAL_STORAGE_THREADS, GAL_STORAGE_DEFAULT};
    for (uint32_t w = 0; w < 2; w++) {
        gal_storage *s = open_by(ways[w], BLOCK);
        unsigned char *memory = blocks(BLOCK);
        gal_error err = {0};
        gal_code code = gal_storage_start(s, GAL_STORAGE_READ, 4 * BLOCK, memory, BLOCK, &err);
        for (bool done = false; code == GAL_OK && !done;) {
            code = gal_storage_test(s, GAL_STORAGE_READ, &done, &err);
        }
        assert_int_equal(code, GAL_ERR_SYSTEM);
        assert_non_null(strstr(err.text, "reading 4096 bytes at 16384: No data available"));
        gal_storage_get(s, 4 * BLOCK, memory, 10);
        err = (gal_error){0};
        assert_int_equal(gal_storage_status(s, &err), GAL_ERR_SYSTEM);
        assert_non_null(strstr(err.text, "No data available"));
        free(memory);
        gal_storage_close(s);
    }
}

static void test_no_room(void **unused)
{
    (void)unused;
    gal_error err = {0};
    gal_storage *s = NULL;
    assert_int_equal(gal_storage_open("/nowhere/at/all", BLOCK, GAL_STORAGE_DEFAULT, &s, &err), GAL_ERR_SYSTEM);
    assert_string_equal(err.text, "storage /nowhere/at/all: No such file or directory");
    err = (gal_error){0};
    const uint64_t too_much = UINT64_C(1) << 60;
    assert_int_equal(gal_storage_open(directory(), too_much, GAL_STORAGE_DEFAULT, &s, &err), GAL_ERR_SYSTEM);
    assert_non_null(strstr(err.text, ": a file of 1152921504606846976 bytes: "));
    assert_null(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),       cmocka_unit_test(test_io_uring), cmocka_unit_test(test_not_taken),
        cmocka_unit_test(test_between_steps), cmocka_unit_test(test_failure),  cmocka_unit_test(test_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
