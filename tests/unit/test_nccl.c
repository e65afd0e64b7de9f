/* The NCCL communicator's errors, against a double of the library: each is one line, names rank, operation and group,
 * and ends with every communicator aborted and exit code 5. A test that ends a process does so in a child. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/comm/nccl.h"
#include "runtime/program/program.h"
#include "tests/support/nccl_double.h"
#include "tests/support/thread_world.h"

enum { RANKS = 4, TEXT_BYTES = GAL_ERROR_TEXT_BYTES, SOON_SECONDS = 20 };

/* What a child leaves to its parent. */
typedef struct left {
    uint32_t aborts[GAL_DOUBLE_RANKS_MAX], alive;
    uint32_t told;
    char text[4][TEXT_BYTES];
} left;

static left *shared;

static void tell(const char *text)
{
    const uint32_t line = __atomic_fetch_add(&shared->told, 1, __ATOMIC_SEQ_CST);
    (void)snprintf(shared->text[line % 4], TEXT_BYTES, "%s", text);
}

/* Ranks 0 1 | 2 3 on the tensor stream; 0 2 and 1 3 on the reduce stream; 0 -> 2 and 1 -> 3 forward. */
static const uint32_t tensor[2][2] = {{0, 1}, {2, 3}}, across[2][2] = {{0, 2}, {1, 3}};

static void channels_of(uint32_t rank, gal_channel_spec spec[3])
{
    spec[0] = (gal_channel_spec){.ranks = tensor[rank / 2], .rank_count = 2, .stream = GAL_STREAM_TENSOR};
    spec[1] = (gal_channel_spec){.ranks = across[rank % 2], .rank_count = 2, .stream = GAL_STREAM_REDUCE};
    spec[2] = (gal_channel_spec){.ranks = across[rank % 2],
                                 .rank_count = 2,
                                 .stream = GAL_STREAM_SEND_FORWARD,
                                 .transfers = rank < 2 ? GAL_TRANSFER_SENDS : GAL_TRANSFER_RECEIVES};
}

typedef struct scene {
    gal_thread_world *world;
    double deadline_seconds;
    uint32_t ctas;
    void (*body)(gal_comm *comm, gal_error *err);
    gal_code code[RANKS];
    gal_error err[RANKS];
} scene;

static void run_rank(uint32_t rank, void *context)
{
    scene *s = context;
    gal_comm *comm = NULL;
    gal_channel_spec spec[3];
    const gal_nccl_options options = {.ctas = s->ctas, .deadline_seconds = s->deadline_seconds, .tell = tell};
    gal_double_enter(rank);
    channels_of(rank, spec);
    s->code[rank] =
        gal_comm_nccl_create(gal_thread_world_comm(s->world, rank), &options, spec, 3, &comm, &s->err[rank]);
    if (s->code[rank] == GAL_OK) {
        s->body(comm, &s->err[rank]);
    }
    gal_comm_free(comm);
}

static void play(scene *s)
{
    s->world = gal_thread_world_create(RANKS);
    gal_thread_world_run(RANKS, run_rank, s);
    gal_thread_world_free(s->world);
}

/* The exit code of a child that plays the scene. */
static int exit_of(scene *s)
{
    int status = 0;
    memset(shared, 0, sizeof *shared);
    gal_double_reset();
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        gal_double_share_aborts(shared->aborts);
        alarm(SOON_SECONDS); /* never a hang */
        play(s);
        _Exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static gal_comm_request all_reduce(uint64_t elements)
{
    static float buffer[1];
    return (gal_comm_request){.op = GAL_OP_ALL_REDUCE,
                              .channel = 0,
                              .dtype = GAL_FP32,
                              .reduce = GAL_REDUCE_SUM,
                              .elements = elements,
                              .target = buffer,
                              .queue = buffer};
}

static void put(gal_comm *comm, uint64_t elements)
{
    uint32_t handle = 0;
    gal_error err = {0};
    const gal_comm_request request = all_reduce(elements);
    if (comm->ops->start(comm, &request, &handle, &err) != GAL_OK) {
        tell(err.text);
    }
}

/* The number of the communicator of the rank's latest operation. */
static uint32_t communicator_of(uint32_t rank)
{
    uint32_t count = 0;
    const gal_double_call *calls = gal_double_calls(rank, &count);
    return calls[count - 1].communicator;
}

/* ---- creation ---- */

static void nothing(gal_comm *comm, gal_error *err)
{
    (void)err;
    assert_true(comm->ops->queued && comm->ops->test == NULL);
    assert_int_equal(comm->communicator_count, 4);
}

/* Left to the library, or exactly so many blocks. */
static void test_blocks(void **state)
{
    (void)state;
    for (uint32_t ctas = 0; ctas <= 16; ctas += 16) {
        scene s = {.deadline_seconds = 10.0, .ctas = ctas, .body = nothing};
        gal_double_reset();
        play(&s);
        uint32_t count = 0;
        const gal_double_call *calls = gal_double_calls(2, &count);
        for (uint32_t i = 0; i < count; i++) {
            const bool is_communicator = calls[i].kind == GAL_DOUBLE_MAKE && calls[i].max_ctas != 0;
            const int expected = ctas == 0 ? NCCL_CONFIG_UNDEF_INT : (int)ctas;
            assert_true(!is_communicator || (calls[i].min_ctas == expected && calls[i].max_ctas == expected));
        }
        assert_null(gal_double_misuse());
        assert_int_equal(gal_double_alive(2), 0);
    }
}

static void test_library_refuses(void **state)
{
    (void)state;
    scene s = {.deadline_seconds = 10.0, .body = nothing};
    gal_double_reset();
    gal_double_refuse(ncclUnhandledCudaError);
    play(&s);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(s.code[r], GAL_ERR_DEVICE);
        assert_string_equal(s.err[r].text, "ncclCommInitRankConfig on the world: NCCL: unhandled cuda error (the "
                                           "double's last error)");
    }
}

/* Ranks 1 and 3 know of a channel that 2 does not. */
static void disagree(uint32_t rank, void *context)
{
    scene *s = context;
    static const uint32_t most[3] = {1, 2, 3};
    gal_comm *comm = NULL;
    const gal_channel_spec spec = {.ranks = most, .rank_count = 3, .stream = GAL_STREAM_TENSOR};
    const gal_nccl_options options = {.deadline_seconds = 10.0, .tell = tell};
    gal_double_enter(rank);
    s->code[rank] =
        gal_comm_nccl_create(gal_thread_world_comm(s->world, rank), &options, &spec, rank % 2, &comm, &s->err[rank]);
    assert_null(comm);
}

static void test_channels_disagree(void **state)
{
    (void)state;
    scene s = {.world = gal_thread_world_create(RANKS)};
    gal_double_reset();
    gal_thread_world_run(RANKS, disagree, &s);
    gal_thread_world_free(s.world);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(s.code[r], GAL_ERR_DEVICE);
    }
    assert_string_equal(s.err[2].text, "the ranks do not agree on their communication channels: rank 1 has one with "
                                       "rank 2 that rank 2 lacks");
}

/* ---- requests ---- */

static void stall_then_put(gal_comm *comm, gal_error *err)
{
    uint32_t handle = 0;
    if (comm->rank != 3) {
        return;
    }
    const gal_comm_request request = all_reduce(40);
    gal_double_stall(3);
    assert_int_equal(comm->ops->start(comm, &request, &handle, err), GAL_ERR_DEVICE);
}

static void test_request_that_is_never_done(void **state)
{
    (void)state;
    scene s = {.deadline_seconds = 0.3, .body = stall_then_put};
    gal_double_reset();
    play(&s);
    assert_string_equal(s.err[3].text,
                        "no answer from the other ranks within 0.3 s (all_reduce on tensor of ranks 2, 3)");
}

static void put_nothing(gal_comm *comm, gal_error *err)
{
    (void)err;
    uint32_t before = 0, after = 0;
    (void)gal_double_calls(comm->rank, &before);
    put(comm, 0);
    (void)gal_double_calls(comm->rank, &after);
    assert_int_equal(before, after);
}

static void test_request_of_nothing(void **state)
{
    (void)state;
    scene s = {.deadline_seconds = 10.0, .body = put_nothing};
    gal_double_reset();
    play(&s);
    assert_null(gal_double_misuse());
}

/* ---- the watchdog ---- */

static void stay(void)
{
    sleep(SOON_SECONDS);
}

/* The tensor group of ranks 2 and 3 breaks: 3 has the cause, 2 sees a remote error. */
static void break_group(gal_comm *comm, gal_error *err)
{
    (void)err;
    for (uint32_t i = 0; i < 70; i++) { /* more than the ring holds */
        put(comm, 100 + i);
    }
    if (comm->rank >= 2) {
        gal_double_fail(comm->rank, communicator_of(comm->rank),
                        comm->rank == 3 ? ncclUnhandledCudaError : ncclRemoteError);
    }
    stay();
}

static void test_first_cause(void **state)
{
    (void)state;
    scene s = {.deadline_seconds = 10.0, .body = break_group};
    assert_int_equal(exit_of(&s), GAL_ERR_DEVICE);
    assert_int_equal(shared->told, 1);
    assert_string_equal(shared->text[0], "rank 3: NCCL: unhandled cuda error (the double's last error); last put on "
                                         "tensor of ranks 2, 3: all_reduce of 169 fp32, the 70th");
    assert_int_equal(shared->aborts[3], 4); /* the world's and three channels */
}

/* A remote error alone is told all the same. */
static void lose_peer(gal_comm *comm, gal_error *err)
{
    (void)err;
    put(comm, 8);
    if (comm->rank == 2) {
        gal_double_fail(2, communicator_of(2), ncclRemoteError);
    }
    stay();
}

static void test_lost_peer(void **state)
{
    (void)state;
    scene s = {.deadline_seconds = 10.0, .body = lose_peer};
    assert_int_equal(exit_of(&s), GAL_ERR_DEVICE);
    assert_int_equal(shared->told, 1);
    assert_string_equal(shared->text[0],
                        "rank 2: NCCL: remote process exited or there was a network error (the double's last error); "
                        "last put on tensor of ranks 2, 3: all_reduce of 8 fp32, the 1st");
    assert_int_equal(shared->aborts[2], 4);
}

/* All ranks are stuck; the lowest speaks. */
static void watch_and_hang(gal_comm *comm, gal_error *err)
{
    (void)err;
    put(comm, 8);
    put(comm, 9);
    comm->ops->watch(comm, 0.2);
    stay();
}

static void test_step_deadline(void **state)
{
    (void)state;
    scene s = {.deadline_seconds = 10.0, .body = watch_and_hang};
    assert_int_equal(exit_of(&s), GAL_ERR_DEVICE);
    assert_int_equal(shared->told, 1);
    assert_string_equal(shared->text[0], "rank 0: no progress of a step for 0.2 s; last put on tensor of ranks 0, 1: "
                                         "all_reduce of 9 fp32, the 2nd");
    assert_int_equal(shared->aborts[0], 4);
}

/* A step that is over is not watched: longer than the deadline with the spare second of rank 0. */
static void watch_and_end(gal_comm *comm, gal_error *err)
{
    (void)err;
    comm->ops->watch(comm, 0.1);
    put(comm, 8);
    comm->ops->watch(comm, 0.0);
    usleep(1500 * 1000);
}

static void test_step_in_time(void **state)
{
    (void)state;
    scene s = {.deadline_seconds = 10.0, .body = watch_and_end};
    assert_int_equal(exit_of(&s), 0);
    assert_int_equal(shared->told, 0);
    assert_int_equal(shared->aborts[0], 0);
}

int main(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_library_refuses),
        cmocka_unit_test(test_channels_disagree),
        cmocka_unit_test(test_request_that_is_never_done),
        cmocka_unit_test(test_request_of_nothing),
        cmocka_unit_test(test_first_cause),
        cmocka_unit_test(test_lost_peer),
        cmocka_unit_test(test_step_deadline),
        cmocka_unit_test(test_step_in_time),
    };
    return shared == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
