/* The profiler on a GPU, against a double of the CUDA runtime: kernels are queued and do nothing, every timed span is
 * said to be a millisecond, and the double fails on a time between events that are not reached. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "profiler/measure.h"
#include "profiler/profile.h"
#include "runtime/device/cuda/cuda.h"
#include "schemas/base/clock.h"
#include "tests/support/cuda_double.h"
#include "tests/support/cuda_kernels.h"

static uint32_t standins, standin_ctas_max, standins_with_room;

static void do_nothing(void *payload)
{
    (void)payload;
}

/* In place of the kernel. */
gal_code gal_standin_queue(void *queue, uint32_t ctas, float *target, const float *a, const float *b, uint64_t elements,
                           gal_error *err)
{
    (void)err;
    assert_true(target != a && target != b && elements > 0 && elements % 4 == 0);
    standins++;
    /* Where kernels leave room it is as much as communication takes; where they do not, 16 blocks run beside them. */
    assert_int_equal(ctas, gal_queued_choice.communication_ctas > 0 ? gal_queued_choice.communication_ctas : 16);
    standins_with_room += gal_queued_choice.communication_ctas > 0;
    standin_ctas_max = ctas > standin_ctas_max ? ctas : standin_ctas_max;
    gal_cuda_double_launch(queue, do_nothing, &ctas, sizeof ctas);
    return GAL_OK;
}

/* As CUDA's: no fp64. Kernels that do nothing are of any type. */
static const gal_ops *idle_ops(gal_dtype dtype)
{
    static gal_ops narrow, wide;
    gal_ops *ops = dtype == GAL_BF16 ? &narrow : &wide;
    *ops = gal_ops_queued_idle;
    ops->dtype = dtype;
    return dtype == GAL_FP64 ? NULL : ops;
}

static const gal_backend backend = {.device = &gal_device_cuda, .ops = idle_ops};

static const gal_gpu gpu = {.name = "GPU of tests",
                            .bus_id = "0000:1b:00.0",
                            .version = "CUDA of tests",
                            .memory_bytes = UINT64_C(256) << 20,
                            .cache_bytes = UINT64_C(1) << 20,
                            .multiprocessor_count = 132,
                            .fp64_ratio = 0.5};

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
    model.compute_dtype = GAL_BF16;
    model.global_batch_samples = 8;
    return model;
}

static void must(gal_code code, const gal_error *err)
{
    if (code != GAL_OK) {
        fail_msg("%s", err->text);
    }
}

/* ---- one measurement ---- */

static void open_bench(gal_bench *out)
{
    gal_error err = {0};
    *out = (gal_bench){.world = {.deadline_seconds = 60.0},
                       .backend = &backend,
                       .sharing_count = 1,
                       .begin_seconds = gal_now_seconds()};
    must(gal_bench_open(out, &err), &err);
}

static gal_candidates list(const gal_model *model)
{
    gal_cluster cluster = {.device_count = 1, .level_count = 1};
    cluster.level[0].span_devices = 1;
    const uint32_t microbatches[] = {1, 2};
    const gal_candidate_settings settings = {.model = model,
                                             .model_count = 1,
                                             .rank_count = 1,
                                             .cluster = &cluster,
                                             .microbatches = microbatches,
                                             .microbatches_count = 2};
    gal_candidates out = {0};
    gal_error err = {0};
    must(gal_candidates_list(&settings, &out, &err), &err);
    return out;
}

/* Every kernel of the model: queued some times, all of it done when its time is told, and nothing made meanwhile. */
static void test_kernels_are_waited_for(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_bench bench;
    gal_pools pools;
    const gal_model model = small_model();
    gal_candidates all = list(&model);
    gal_cuda_double_reset(1, true);
    open_bench(&bench);
    const gal_pool_settings settings = {.dtype = GAL_BF16,
                                        .bytes = UINT64_C(8) << 20,
                                        .token_bytes = 4096,
                                        .staging_bytes = 4096,
                                        .vocabulary = model.vocabulary,
                                        .samples_max = all.samples_max,
                                        .cold_bytes = 65536};
    must(gal_pools_create(&bench, &settings, &pools, &err), &err);
    for (uint32_t i = 0; i < all.operator_count; i++) {
        gal_operator_run run;
        gal_timing timing = {0.0, 1.0};
        must(gal_operator_prepare(&all.operators[i], &pools, &run, &err), &err);
        const uint64_t made = gal_cuda_double_counts().made;
        gal_cuda_double_clear_log();
        must(gal_bench_time(&bench, gal_operator_repeat, &run, &timing, &err), &err);
        size_t queued = 0;
        (void)gal_cuda_double_log(&queued);
        assert_int_equal(gal_cuda_double_counts().made, made);
        assert_true(gal_cuda_double_is_drained());
        assert_int_equal(queued, 33); /* to warm up, then 16 samples, each of one behind one */
        assert_float_equal(timing.seconds, 1e-3, 1e-9);
        assert_float_equal(timing.spread_seconds, 0.0, 1e-9);
    }
    gal_pools_free(&pools);
    gal_bench_close(&bench);
    gal_candidates_free(&all);
    const gal_double_counts counts = gal_cuda_double_counts();
    assert_true(counts.streams == 0 && counts.events == 0 && counts.allocations == 0 && counts.pinned == 0);
}

typedef struct piece {
    const gal_bench *bench;
    gal_lane lane;
} piece;

static gal_code queue_pieces(void *context, uint32_t count, gal_error *err)
{
    const piece *at = context;
    (void)err;
    for (uint32_t i = 0; i < count; i++) {
        gal_cuda_double_launch(at->bench->queue[at->lane], do_nothing, at, sizeof *at);
    }
    return GAL_OK;
}

/* What is measured begins behind the cover's first piece, and is not ordered against the others: 2 ms at 1 ms each are
 * 2 of it, twice as long a cover is 4 and the first. */
static void test_cover_begins_first(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_bench bench;
    gal_timing timing;
    size_t count = 0;
    gal_cuda_double_reset(2, true);
    open_bench(&bench);
    piece measured = {&bench, GAL_LANE_COMPUTE}, cover = {&bench, GAL_LANE_BESIDE};
    const gal_beside one = {queue_pieces, &measured, GAL_LANE_COMPUTE, 1e-3},
                     other = {queue_pieces, &cover, GAL_LANE_BESIDE, 1e-3};
    const uint64_t made = gal_cuda_double_counts().made;
    must(gal_bench_time_beside(&bench, &one, &other, &timing, &err), &err);
    assert_int_equal(gal_cuda_double_counts().made, made);
    const gal_double_work *work = gal_cuda_double_log(&count);
    assert_int_equal(count, 5 * (1 + 4 + 2));
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(work[i].stream, i < 5 ? 1 : 0);
        assert_int_equal(work[i].after[1 - work[i].stream], i < 5 ? 0 : 1);
    }
    assert_true(gal_cuda_double_priority(1) < gal_cuda_double_priority(0));
    assert_float_equal(timing.seconds, 0.5e-3, 1e-9);
    gal_bench_close(&bench);
}

/* ---- a whole profile ---- */

static gal_code profile(bool tf32, gal_profile *out, gal_error *err)
{
    static const uint32_t microbatches[] = {2, 4};
    const gal_model model = small_model();
    gal_fabric fabric;
    gal_fabric_read(NULL, gpu.bus_id, "no NVML", &fabric);
    const gal_world world = {.deadline_seconds = 60.0};
    const gal_profile_settings settings = {.model = &model,
                                           .model_count = 1,
                                           .microbatches = microbatches,
                                           .microbatches_count = 2,
                                           .backend = &backend,
                                           .gpu = &gpu,
                                           .fabric = &fabric,
                                           .thread_count = 3,
                                           .tf32 = tf32,
                                           .budget_seconds =
                                               600.0, /* all of it is measured, however busy the machine */
                                           .blas = "BLAS",
                                           .command = "galplan profile --device cuda"};
    gal_profile_report report;
    return gal_profile_measure(&settings, &world, out, &report, err);
}

/* A kernel takes 1 ms, alone as in its program. With full recompute both kinds of block run kernels again, with
 * selective recompute the attention alone: one. */
static void assert_what_runs_again(const gal_profile *read)
{
    uint32_t attention = 0, ffn = 0;
    for (uint32_t i = 0; i < read->block_count; i++) {
        const gal_profile_block *block = &read->blocks[i];
        const double without = block->backward_operator_seconds;
        assert_true(fabs(block->backward_full.seconds - block->backward_full.operator_seconds) < 1e-9);
        assert_true(block->backward_full.seconds > 0.0 && block->backward_full.operator_seconds > without + 0.5e-3);
        if (block->kind == GAL_BLOCK_ATTENTION) {
            assert_true(block->backward_selective.seconds > 0.0);
            assert_true(fabs(block->backward_selective.operator_seconds - without - 1e-3) < 1e-9);
            attention++;
        } else {
            assert_true(block->kind == GAL_BLOCK_FFN && block->backward_selective.seconds == 0.0);
            ffn++;
        }
    }
    assert_true(attention > 0 && attention == ffn);
}

/* One rank, on one node; Adam by as many threads as a rank has, which are between two powers of two, and all copies
 * beside kernels, messages and each other: whatever is queued takes a millisecond, in company too. */
static void assert_host(const gal_profile *read)
{
    const gal_profile_host *host = &read->host;
    assert_true(read->has_host && host->threads_per_rank == 3 && host->node_count == 1);
    assert_true(host->node[0].to_device.bytes_per_second > 0.0 && host->node[0].from_device.bytes_per_second > 0.0);
    uint32_t own = 0;
    for (uint32_t i = 0; i < host->adam_count; i++) {
        own += host->adam[i].threads == 3;
        assert_true(host->adam[i].elements_per_second > 1e6);
    }
    assert_true(own == 1 && host->adam[0].threads == 1 && host->adam[1].threads <= 3);
    for (uint32_t i = 0; i < GAL_ACTIVITY_COUNT; i++) {
        assert_true(read->slowdown[i][GAL_ACTIVITY_COPY] >= 1.0 && read->slowdown[GAL_ACTIVITY_COPY][i] >= 1.0);
    }
}

/* Written, and read again as galplan check does. */
static void test_profile_is_accepted(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_profile made = {0}, read = {0};
    char path[] = "/tmp/test_cuda_profiler.XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    (void)close(file);
    gal_cuda_double_reset(3, false);
    gal_cuda_double_clock_counts();
    standins = standin_ctas_max = standins_with_room = 0;
    must(profile(true, &made, &err), &err);
    assert_true(gal_queued_choice.tf32);
    must(gal_profile_write(path, &made, &err), &err);
    must(gal_profile_read(path, &read, &err), &err);
    (void)unlink(path);
    assert_true(read.operator_count > 20 && read.collective_count == 0);
    assert_string_equal(read.cluster.device.kind, "GPU of tests");
    assert_string_equal(read.cluster.level[0].name, "nvlink");
    assert_int_equal(read.cluster.device.multiprocessor_count, 132);
    assert_non_null(strstr(read.processor, "no NVML"));
    assert_non_null(strstr(read.libraries, "CUDA of tests"));
    const gal_device *device = &read.cluster.device;
    assert_true(device->bf16_flops_per_second > 0.0 && device->fp16_flops_per_second > 0.0);
    assert_true(device->fp64_flops_per_second == 0.5 * device->fp32_flops_per_second);
    assert_true(read.has_gpu && read.gpu.tf32);
    assert_int_equal(read.gpu.context_bytes, 3000); /* what the double says is used, all the time */
    assert_int_equal(read.gpu.by_ctas_count, 6);
    assert_int_equal(read.gpu.by_ctas[5].ctas, 32);
    assert_host(&read);
    assert_true(standins > standins_with_room && standins_with_room > 0 && standin_ctas_max == 32);
    assert_true(read.gpu.by_ctas[5].communication_alone == 0.0); /* a stand-in knows no links */
    assert_what_runs_again(&read);
    gal_profile_free(&made);
    gal_profile_free(&read);
    const gal_double_counts counts = gal_cuda_double_counts();
    assert_true(counts.streams == 0 && counts.events == 0 && counts.allocations == 0 && counts.pinned == 0);
}

/* A GPU that fails at any moment: that is the code, and all is given back. */
static void test_failures(void **state)
{
    (void)state;
    for (uint64_t call = 1; call < 40000; call = call * 3 + 1) {
        gal_error err = {0};
        gal_profile made = {0};
        gal_cuda_double_reset(call, false);
        gal_cuda_double_fail_at(call);
        const gal_code code = profile(false, &made, &err);
        assert_true(code == GAL_ERR_DEVICE || code == GAL_ERR_SYSTEM);
        assert_true(err.text[0] != '\0');
        const gal_double_counts counts = gal_cuda_double_counts();
        assert_true(counts.streams == 0 && counts.events == 0 && counts.allocations == 0 && counts.pinned == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels_are_waited_for),
        cmocka_unit_test(test_cover_begins_first),
        cmocka_unit_test(test_profile_is_accepted),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
