/* The collectives that the profiler times, on NCCL's recording double: all ranks of a communicator ask it for the same
 * things in the same order, and nothing is made while something is timed. The device does everything at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "profiler/measure.h"
#include "runtime/comm/nccl.h"
#include "schemas/base/clock.h"
#include "tests/support/nccl_double.h"
#include "tests/support/thread_world.h"

enum { RANKS = 4, CTAS = 8, COMMUNICATORS_MAX = 256 };

/* ---- a device ---- */

static gal_code create(bool urgent, void **queue, gal_error *err)
{
    static char queues[2];
    (void)err;
    *queue = &queues[urgent];
    return GAL_OK;
}

static gal_code event_create(bool timed, void **event, gal_error *err)
{
    static char events;
    (void)timed;
    (void)err;
    *event = &events;
    return GAL_OK;
}

static void forget(void *thing)
{
    (void)thing;
}

static gal_code pass(void *queue, void *event, gal_error *err)
{
    (void)queue;
    (void)event;
    (void)err;
    return GAL_OK;
}

static gal_code reached(void *event, bool *is_reached, gal_error *err)
{
    (void)event;
    (void)err;
    *is_reached = true;
    return GAL_OK;
}

static double seconds_between(void *begin, void *end)
{
    (void)begin;
    (void)end;
    return 1e-3;
}

static const gal_device_queue_ops queues = {.create = create,
                                            .destroy = forget,
                                            .event_create = event_create,
                                            .event_destroy = forget,
                                            .record = pass,
                                            .wait = pass,
                                            .reached = reached,
                                            .seconds_between = seconds_between};
static gal_device_ops device;

static gal_code connect_nccl(const gal_connection *connection, gal_comm **out, gal_error *err)
{
    const gal_nccl_options options = {.ctas = connection->communication_ctas,
                                      .deadline_seconds = connection->deadline_seconds};
    return gal_comm_nccl_create(connection->control, &options, connection->channels->spec, connection->channels->count,
                                out, err);
}

static const gal_backend backend = {.device = &device, .connect = connect_nccl};

/* ---- ranks ---- */

typedef struct trial {
    gal_thread_world *world;
    gal_candidates candidates;
    gal_code code[RANKS];
    uint32_t begin[RANKS], end[RANKS]; /* of what is timed, among the rank's calls */
} trial;

/* Every collective, alone and beside another. */
static gal_code time_all(gal_bench *bench, const gal_candidates *all, const gal_links *links, const gal_pools *pools,
                         gal_error *err)
{
    gal_code code = GAL_OK;
    for (uint32_t i = 0; i < all->collective_count; i++) {
        gal_collective_run pair[2];
        gal_timing timing;
        gal_collective_prepare(&all->collectives[i], links, pools, false, &pair[0]);
        gal_collective_prepare(&all->collectives[i], links, pools, true, &pair[1]);
        GAL_TRY(gal_collective_time(bench, links, &pair[0], &timing, err));
        pair[1].lane = GAL_LANE_BESIDE;
        const gal_beside one = {gal_collective_repeat, &pair[0], GAL_LANE_COMPUTE, timing.seconds},
                         other = {gal_collective_repeat, &pair[1], GAL_LANE_BESIDE, timing.seconds};
        GAL_TRY(gal_bench_time_beside(bench, &one, &other, &timing, err));
    }
cleanup:
    return code;
}

static void run_rank(uint32_t rank, void *context)
{
    trial *t = context;
    gal_error err = {0};
    gal_links links = {.place_count = 0};
    gal_bench bench = {.world = {.comm = gal_thread_world_comm(t->world, rank), .deadline_seconds = 10.0},
                       .backend = &backend,
                       .sharing_count = 1,
                       .begin_seconds = gal_now_seconds()};
    /* Never read or written: the double moves nothing. */
    const gal_pools pools = {.bench = &bench,
                             .settings = {.dtype = GAL_FP32, .cold_bytes = 4096},
                             .normal = {.base = (void *)((uintptr_t)(2 * rank + 1) << 40)},
                             .written = {.base = (void *)((uintptr_t)(2 * rank + 2) << 40)}};
    const gal_links_settings settings = {.place = t->candidates.place,
                                         .place_count = t->candidates.place_count,
                                         .dtype = GAL_FP32,
                                         .bytes_max = 1 << 20,
                                         .ctas = CTAS};
    gal_double_enter(rank);
    gal_code code = gal_bench_open(&bench, &err);
    if (code == GAL_OK) {
        code = gal_links_create(&bench, &settings, &links, &err);
    }
    (void)gal_double_calls(rank, &t->begin[rank]);
    if (code == GAL_OK) {
        code = time_all(&bench, &t->candidates, &links, &pools, &err);
    }
    (void)gal_double_calls(rank, &t->end[rank]);
    t->code[rank] = code;
    gal_links_free(&links);
    gal_bench_close(&bench);
}

static bool moves_data(const gal_double_call *call)
{
    return call->kind <= GAL_DOUBLE_RECEIVE;
}

/* The n-th request of the rank on the communicator, or NULL. */
static const gal_double_call *call_on(const trial *t, uint32_t rank, uint32_t communicator, uint32_t n)
{
    uint32_t count = 0;
    const gal_double_call *calls = gal_double_calls(rank, &count);
    for (uint32_t i = 0; i < t->end[rank]; i++) {
        if (calls[i].communicator == communicator && moves_data(&calls[i]) && n-- == 0) {
            return &calls[i];
        }
    }
    return NULL;
}

/* A send meets a receive; but within an all-to-all, which is a group of both, where their order means nothing. */
static bool do_match(const gal_double_call *a, const gal_double_call *b)
{
    const bool passes[] = {a->kind == GAL_DOUBLE_SEND || a->kind == GAL_DOUBLE_RECEIVE,
                           b->kind == GAL_DOUBLE_SEND || b->kind == GAL_DOUBLE_RECEIVE};
    const bool kinds_match = passes[0] && a->grouped == 0 ? passes[1] && a->kind != b->kind
                             : passes[0]                  ? passes[1]
                                                          : a->kind == b->kind;
    return kinds_match && (a->grouped == 0) == (b->grouped == 0) && a->count == b->count && a->type == b->type &&
           a->reduce == b->reduce && a->rank_count == b->rank_count;
}

/* Every request of every rank has its match at the same place of the other ranks' sequences, from the connections of
 * the transfers on. */
static void assert_all_match(const trial *t, uint32_t *timed)
{
    int32_t under_way[COMMUNICATORS_MAX] = {0}; /* sent, less received */
    for (uint32_t a = 0; a < RANKS; a++) {
        uint32_t count = 0;
        const gal_double_call *calls = gal_double_calls(a, &count);
        uint32_t seen[COMMUNICATORS_MAX] = {0};
        for (uint32_t i = 0; i < t->end[a]; i++) {
            const gal_double_call call = calls[i];
            uint32_t members = 1;
            assert_true(moves_data(&call) || (call.kind == GAL_DOUBLE_MAKE && i < t->begin[a]));
            if (!moves_data(&call)) {
                continue;
            }
            assert_true(call.communicator < COMMUNICATORS_MAX && call.stream != NULL);
            const uint32_t n = seen[call.communicator]++;
            under_way[call.communicator] += (call.kind == GAL_DOUBLE_SEND) - (call.kind == GAL_DOUBLE_RECEIVE);
            for (uint32_t b = 0; b < RANKS; b++) {
                const gal_double_call *other = b != a ? call_on(t, b, call.communicator, n) : NULL;
                members += other != NULL;
                assert_true(other == NULL || do_match(&call, other));
            }
            assert_int_equal(members, call.rank_count);
            ++*timed;
        }
    }
    for (uint32_t c = 0; c < COMMUNICATORS_MAX; c++) {
        assert_int_equal(under_way[c], 0);
    }
}

static gal_model small_model(void)
{
    gal_model model;
    gal_model_defaults(&model);
    model.layer_count = 2;
    model.hidden = 32;
    model.head_count = 4;
    model.ffn_hidden = 64;
    model.sequence_length = 8;
    model.vocabulary = 100;
    model.vocabulary_multiple = 4;
    model.tied_embeddings = true;
    model.compute_dtype = GAL_FP32;
    model.global_batch_samples = 4;
    return model;
}

static void test_ranks_agree(void **state)
{
    (void)state;
    gal_error err = {0};
    trial t = {.world = gal_thread_world_create(RANKS)};
    gal_cluster cluster = {.device_count = RANKS, .level_count = 1};
    const uint32_t microbatches[] = {2};
    const gal_model model = small_model();
    uint32_t timed = 0;
    device = (gal_device_ops){.name = "immediate", .queue = &queues};
    cluster.level[0].span_devices = RANKS;
    const gal_candidate_settings settings = {.model = &model,
                                             .model_count = 1,
                                             .rank_count = RANKS,
                                             .cluster = &cluster,
                                             .microbatches = microbatches,
                                             .microbatches_count = 1};
    assert_int_equal(gal_candidates_list(&settings, &t.candidates, &err), GAL_OK);
    gal_double_reset();
    gal_thread_world_run(RANKS, run_rank, &t);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(t.code[rank], GAL_OK);
        assert_int_equal(gal_double_alive(rank), 0);
    }
    assert_null(gal_double_misuse());
    assert_all_match(&t, &timed);
    assert_true(timed > 1000);
    gal_candidates_free(&t.candidates);
    gal_thread_world_free(t.world);
    gal_double_reset();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ranks_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
