/* Requests over a slow link are complete when it would have brought them: by the bytes of each operation, one behind
 * another, from when the last member started. The communicator inside is a double: it notes requests and says when they
 * are complete. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/comm/slow_link.h"
#include "schemas/base/clock.h"

enum { REQUESTS_MAX = 16, RANKS = 4, ELEMENTS = 1000 };

static const double bytes_per_second = 1e6;

/* What the double was given, by handle; whether it is complete; when another member says that it started. */
static struct {
    gal_comm_request request[REQUESTS_MAX];
    uint32_t count;
    bool complete;
    double others_start_seconds;
    bool freed;
} inner;

static gal_code start(gal_comm *comm, const gal_comm_request *request, uint32_t *handle, gal_error *err)
{
    (void)comm;
    (void)err;
    assert_true(inner.count < REQUESTS_MAX);
    inner.request[inner.count] = *request;
    *handle = inner.count++;
    return GAL_OK;
}

static bool is_meeting(const gal_comm_request *request)
{
    return request->op == GAL_OP_ALL_REDUCE && request->reduce == GAL_REDUCE_MAX && request->elements == 1;
}

static gal_code test(gal_comm *comm, uint32_t handle, bool *done, gal_error *err)
{
    const gal_comm_request *request = &inner.request[handle];
    (void)comm;
    (void)err;
    *done = inner.complete;
    if (*done && is_meeting(request)) {
        double *seconds = request->target;
        *seconds = inner.others_start_seconds > *seconds ? inner.others_start_seconds : *seconds;
    }
    return GAL_OK;
}

static void release(gal_comm *comm)
{
    inner.freed = true;
    free(comm);
}

static void roll_call(gal_comm *comm, const gal_comm_wait *waits, uint32_t wait_count, double deadline_seconds)
{
    (void)comm;
    (void)waits;
    (void)wait_count;
    (void)deadline_seconds;
}

static const gal_comm_ops ops = {
    .name = "double", .release = release, .start = start, .test = test, .roll_call = roll_call};

static gal_comm *create(void)
{
    static const uint32_t ranks[RANKS] = {0, 1, 2, 3};
    const gal_channel_spec channel[] = {{.ranks = ranks, .rank_count = RANKS}, {.ranks = ranks, .rank_count = 2}};
    gal_error err = {GAL_OK, ""};
    gal_comm *comm = calloc(1, sizeof *comm), *slow = NULL;
    assert_non_null(comm);
    comm->ops = &ops;
    comm->world_size = RANKS;
    memset(&inner, 0, sizeof inner);
    assert_int_equal(gal_comm_slow_create(comm, bytes_per_second, channel, 2, &slow, &err), GAL_OK);
    assert_int_equal(slow->world_size, RANKS);
    return slow;
}

static uint32_t begin(gal_comm *slow, gal_op op, uint32_t channel)
{
    static float memory[RANKS * ELEMENTS];
    const gal_comm_request request = {
        .op = op, .channel = channel, .dtype = GAL_FP32, .elements = ELEMENTS, .source = memory, .target = memory};
    gal_error err = {GAL_OK, ""};
    uint32_t handle = 0;
    assert_int_equal(slow->ops->start(slow, &request, &handle, &err), GAL_OK);
    return handle;
}

static bool is_done(gal_comm *slow, uint32_t handle)
{
    gal_error err = {GAL_OK, ""};
    bool done = false;
    assert_int_equal(slow->ops->test(slow, handle, &done, &err), GAL_OK);
    return done;
}

static void wait_until_done(gal_comm *slow, uint32_t handle)
{
    while (!is_done(slow, handle)) {
    }
}

/* 4,000 bytes at 1 MB/s take 4 ms. All-reduce of four: 2 * 3/4 of them, 6 ms. Gather: three shares of 4,000 bytes, 12
 * ms; so scatter and exchange. Of two ranks: 4 ms each. A transfer: 4 ms. */
static void test_takes_what_its_bytes_take(void **unused)
{
    static const struct {
        gal_op op;
        uint32_t channel;
        double seconds;
    } cases[] = {{GAL_OP_ALL_REDUCE, 0, 6e-3},     {GAL_OP_ALL_GATHER, 0, 12e-3}, {GAL_OP_REDUCE_SCATTER, 0, 12e-3},
                 {GAL_OP_ALL_TO_ALL, 0, 12e-3},    {GAL_OP_ALL_REDUCE, 1, 4e-3},  {GAL_OP_ALL_GATHER, 1, 4e-3},
                 {GAL_OP_REDUCE_SCATTER, 1, 4e-3}, {GAL_OP_SEND, 1, 4e-3},        {GAL_OP_RECEIVE, 1, 4e-3},
                 {GAL_OP_ROTATE, 0, 4e-3}};
    (void)unused;
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gal_comm *slow = create();
        const double before_seconds = gal_now_seconds();
        const uint32_t handle = begin(slow, cases[i].op, cases[i].channel);
        const double after_seconds = gal_now_seconds();
        inner.complete = true;
        assert_false(is_done(slow, handle));
        const double due_seconds = slow->ops->due(slow);
        assert_true(due_seconds >= before_seconds + cases[i].seconds &&
                    due_seconds <= after_seconds + cases[i].seconds);
        wait_until_done(slow, handle);
        assert_true(gal_now_seconds() >= due_seconds);
        gal_comm_free(slow);
        assert_true(inner.freed);
    }
}

/* The members are asked behind the request, on its channel: they start in the same order on all of them. */
static void test_members_meet(void **unused)
{
    (void)unused;
    gal_comm *slow = create();
    const uint32_t handle = begin(slow, GAL_OP_ALL_REDUCE, 1);
    assert_int_equal(inner.count, 2);
    assert_int_equal(inner.request[0].elements, ELEMENTS);
    assert_true(is_meeting(&inner.request[1]) && inner.request[1].channel == 1 && inner.request[1].dtype == GAL_FP64);
    assert_false(is_done(slow, handle));
    assert_true(slow->ops->due(slow) <= 0.0); /* nothing is known before they have met */
    inner.others_start_seconds = gal_now_seconds() + 5e-3;
    inner.complete = true;
    wait_until_done(slow, handle);
    assert_true(gal_now_seconds() >= inner.others_start_seconds + 4e-3);
    gal_comm_free(slow);
}

/* Two requests share the link: the second one is 4 ms behind the first, though both started at once. */
static void test_one_link_for_all(void **unused)
{
    (void)unused;
    gal_comm *slow = create();
    const uint32_t first = begin(slow, GAL_OP_SEND, 1), second = begin(slow, GAL_OP_RECEIVE, 1);
    inner.complete = true;
    assert_false(is_done(slow, first));
    const double due_seconds = slow->ops->due(slow);
    assert_true(due_seconds <= 0.0); /* of the second one nothing is known yet */
    assert_false(is_done(slow, second));
    const double first_seconds = slow->ops->due(slow);
    wait_until_done(slow, first);
    const double second_seconds = slow->ops->due(slow);
    assert_true(second_seconds - first_seconds > 4e-3 - 1e-9 && second_seconds - first_seconds < 4e-3 + 1e-9);
    wait_until_done(slow, second);
    assert_true(slow->ops->due(slow) <= 0.0);
    gal_comm_free(slow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_takes_what_its_bytes_take),
                                       cmocka_unit_test(test_members_meet), cmocka_unit_test(test_one_link_for_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
