/* The engine on queues against a double of the CUDA runtime, under random plans: nothing starts before what the program
 * makes it wait for, a step makes nothing and leaves nothing, and the bits are those of the host. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/device/cuda/cuda.h"
#include "runtime/engine/engine.h"
#include "runtime/narrow.h"
#include "runtime/train/weights.h"
#include "tests/support/cuda_double.h"
#include "tests/support/cuda_kernels.h"
#include "tests/support/random_plan.h"

enum { CLOCK_PLANS = 240, SAME_PLANS = 24, PAIR_PLANS = 120, STEPS = 3, SLOTS = 64 };

/* ---- one rank ---- */

typedef struct rank {
    gal_plan plan;
    gal_program *program;
    uint32_t device;
    gal_channels channels;
    gal_engine *engine;
} rank;

static gal_code fill(void *context, const gal_token_request *request, int32_t *out, gal_error *err)
{
    (void)err;
    const gal_model *model = context;
    for (uint32_t s = 0; s < request->sample_count; s++) {
        for (uint32_t i = 0; i < request->sequence_length; i++) {
            const uint64_t token = request->samples[s] * 31u + (i + request->targets) * 7u + request->batch * 3u;
            out[s * request->sequence_length + i] = (int32_t)(token % model->vocabulary);
        }
    }
    return GAL_OK;
}

static gal_code fill_lengths(void *context, const gal_token_request *request, int32_t *out, gal_error *err)
{
    (void)err;
    (void)context;
    for (uint32_t s = 0; s < request->sample_count; s++) {
        out[s] = (int32_t)(1 + (request->samples[s] * 5u + request->batch) % request->sequence_length);
    }
    return GAL_OK;
}

/* Not what fill gives: any number does, if it is the same on all ranks. */
static gal_code count_targets(void *context, uint64_t batch, bool evaluation, uint64_t *out, gal_error *err)
{
    (void)err;
    (void)context;
    (void)evaluation;
    *out = 50 + batch;
    return GAL_OK;
}

static gal_code fill_patches(void *context, const gal_patch_request *request, void *out, gal_error *err)
{
    (void)err;
    (void)context;
    for (uint32_t i = 0; i < request->position_count * request->sample_count * request->features; i++) {
        const double value = (double)((i * 37u + request->batch) % 64u) / 64.0 - 0.5;
        gal_put_real(request->dtype, out, i, value);
    }
    return GAL_OK;
}

/* Of the plan that r has. */
static void lower_rank(uint32_t number, gal_dtype dtype, rank *r)
{
    gal_error err = {0};
    r->plan.model.compute_dtype = dtype;
    r->device = number % gal_plan_stage_devices(&r->plan);
    assert_int_equal(gal_lower(&r->plan, number / gal_plan_stage_devices(&r->plan), &r->program, &err), GAL_OK);
    assert_int_equal(gal_channels_of(r->program, r->device, &r->channels, &err), GAL_OK);
}

static void open_rank(uint64_t seed, uint32_t world, gal_dtype dtype, rank *r)
{
    memset(r, 0, sizeof *r);
    gal_random_plan(seed, world, &r->plan);
    gal_random_offload(seed, &r->plan);
    lower_rank((uint32_t)(seed % world), dtype, r);
}

/* ---- the host beside the device ---- */

static uint64_t updates; /* by the host, of nothing */

static gal_code update_nothing(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    assert_true(call->stream == NULL && call->operand_count >= 5);
    updates++;
    return GAL_OK;
}

static const gal_ops idle_host = {.name = "idle", .kernel = {[GAL_OP_HOST_ADAM] = update_nothing}};

static void open_engine(rank *r, const gal_device_ops *device, const gal_ops *ops, gal_comm *comm, bool graphs)
{
    gal_error err = {0};
    const gal_engine_options options = {.device = device,
                                        .ops = ops,
                                        .wide_ops = gal_dtype_is_narrow(ops->dtype) ? &gal_ops_queued_idle_fp32 : NULL,
                                        .host_ops = ops == &gal_ops_queued_fp64 ? &gal_ops_host_fp64 : &idle_host,
                                        .comm = comm,
                                        .tokens = {&r->plan.model, fill, fill_patches, fill_lengths, count_targets},
                                        .deadline_seconds = 20.0,
                                        .graphs = graphs};
    if (gal_engine_create(r->program, &r->plan.model, r->device, &r->channels, &options, &r->engine, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
}

static void close_rank(rank *r)
{
    gal_engine_free(r->engine);
    gal_channels_free(&r->channels);
    gal_program_free(r->program);
    gal_plan_free(&r->plan);
}

static gal_step_result step(rank *r, uint64_t number)
{
    gal_error err = {0};
    gal_step_result result = {0};
    const gal_step_settings settings = {.step = number, .seed = 5, .learning_rate = 0.01};
    if (gal_engine_step(r->engine, &settings, &result, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    return result;
}

/* ---- communication of nobody ---- */

static void do_nothing(void *payload)
{
    (void)payload;
}

static gal_code start_queued(gal_comm *comm, const gal_comm_request *request, uint32_t *handle, gal_error *err)
{
    (void)comm;
    (void)handle;
    (void)err;
    assert_non_null(request->queue);
    gal_cuda_double_launch(request->queue, do_nothing, request, 0);
    return GAL_OK;
}

/* Of requests that the host carries out: it says when, and then has put the result on the queue. */
typedef struct slow {
    uint64_t random;
    void *queue[SLOTS]; /* NULL: free */
    bool never;
} slow;

static gal_code start_slow(gal_comm *comm, const gal_comm_request *request, uint32_t *handle, gal_error *err)
{
    slow *state = comm->state;
    (void)err;
    for (*handle = 0; state->queue[*handle] != NULL; ++*handle) {
    }
    state->queue[*handle] = request->queue;
    return GAL_OK;
}

static gal_code test_slow(gal_comm *comm, uint32_t handle, bool *done, gal_error *err)
{
    slow *state = comm->state;
    (void)err;
    *done = !state->never && gal_random_below(&state->random, 3) == 0;
    if (*done) {
        gal_cuda_double_launch(state->queue[handle], do_nothing, state, 0);
        state->queue[handle] = NULL;
    }
    return GAL_OK;
}

static const gal_comm_ops queued_ops = {.name = "nobody", .queued = true, .start = start_queued};
static const gal_comm_ops slow_ops = {.name = "nobody", .start = start_slow, .test = test_slow};

/* ---- clocks ---- */

/* Whether an entry puts a kernel or a copy on its queue: an in-place collective of one rank does not. */
static bool works(const rank *r, const gal_queue_entry *entry)
{
    const gal_instruction *instruction = &r->program->instruction[entry->instruction];
    const bool alone =
        gal_op_is_collective[instruction->op] && r->channels.of_instruction[entry->instruction] == GAL_NO_CHANNEL;
    return !alone || (instruction->operand_count == 2 && r->program->shape[instruction->shape].dims[0] > 0);
}

/* The number of the queue of a stream, in the order in which the engine makes them. */
static void number_queues(const rank *r, uint32_t number[GAL_STREAM_COUNT])
{
    bool used[GAL_STREAM_COUNT] = {[GAL_STREAM_COMPUTE] = true};
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->program->instruction_count; i++) {
        used[r->program->instruction[i].stream] = true;
    }
    for (uint32_t s = 0; s < GAL_STREAM_COUNT; s++) {
        number[s] = used[s] ? count++ : UINT32_MAX;
    }
}

/* How much work a stream has had when so many of its entries are complete. The record of the step comes first. */
static uint32_t work_of(const rank *r, const gal_queues *queues, uint32_t stream, uint32_t entries)
{
    uint32_t work = stream == GAL_STREAM_COMPUTE ? 1 : 0;
    for (uint32_t e = 0; e < entries; e++) {
        work += works(r, &queues->entry[stream][e]);
    }
    return work;
}

/* Every entry of the log that is an entry of the step starts after all that it needs. Returns how many needs there
 * were. */
static uint64_t check_clocks(const rank *r, const gal_queues *queues)
{
    size_t count = 0;
    uint64_t needs = 0;
    uint32_t number[GAL_STREAM_COUNT], *first[GAL_STREAM_COUNT];
    const gal_double_work *log = gal_cuda_double_log(&count);
    size_t expected = 1;
    number_queues(r, number);
    for (uint32_t s = 0; s < GAL_STREAM_COUNT; s++) { /* first[s][e]: work before entry e */
        first[s] = calloc((size_t)queues->count[s] + 1, sizeof *first[s]);
        first[s][0] = work_of(r, queues, s, 0);
        for (uint32_t e = 0; e < queues->count[s]; e++) {
            first[s][e + 1] = first[s][e] + works(r, &queues->entry[s][e]);
            expected += works(r, &queues->entry[s][e]);
        }
    }
    assert_int_equal(count, expected);
    uint32_t at[GAL_STREAM_COUNT] = {0}, seen[GAL_STREAM_COUNT] = {0};
    for (size_t i = 0; i < count; i++) {
        uint32_t s = 0;
        while (number[s] != log[i].stream) {
            s++;
        }
        if (s == GAL_STREAM_COMPUTE && seen[s]++ == 0) {
            continue; /* the record of the step */
        }
        while (!works(r, &queues->entry[s][at[s]])) {
            at[s]++;
        }
        assert_int_equal(log[i].after[number[s]], first[s][at[s]]); /* and after those before it */
        const gal_queue_entry *entry = &queues->entry[s][at[s]++];
        for (uint32_t n = 0; n < entry->need_count; n++) {
            const gal_need *need = &queues->need[entry->first_need + n];
            assert_true(log[i].after[number[need->stream]] >= first[need->stream][need->completed]);
            needs++;
        }
    }
    for (uint32_t s = 0; s < GAL_STREAM_COUNT; s++) {
        free(first[s]);
    }
    return needs;
}

static bool same_counts(gal_double_counts a, gal_double_counts b)
{
    return a.streams == b.streams && a.events == b.events && a.graphs == b.graphs && a.allocations == b.allocations &&
           a.pinned == b.pinned && a.made == b.made;
}

static void check_priorities(const rank *r)
{
    uint32_t number[GAL_STREAM_COUNT];
    number_queues(r, number);
    for (uint32_t s = GAL_STREAM_COMPUTE + 1; s < GAL_STREAM_COUNT; s++) {
        assert_true(number[s] == UINT32_MAX ||
                    gal_cuda_double_priority(number[s]) < gal_cuda_double_priority(number[GAL_STREAM_COMPUTE]));
    }
}

/* Steps and a batch of evaluation of one rank of every plan; graph_count NULL: without graphs, else it counts them. The
 * first step is as it is also with graphs, which are captured behind it. */
static uint64_t check_plan(uint64_t seed, const gal_ops *kernels, const gal_comm_ops *ops, uint64_t *graph_count)
{
    static const uint32_t worlds[] = {1, 2, 3, 4, 6, 8};
    rank r;
    uint64_t needs = 0;
    slow state = {.random = seed};
    gal_comm comm = {.ops = ops, .state = &state};
    gal_cuda_double_reset(seed, seed % 2 == 0);
    open_rank(seed, worlds[seed % (sizeof worlds / sizeof worlds[0])], kernels->dtype, &r);
    open_engine(&r, &gal_device_cuda, kernels, &comm, graph_count != NULL);
    check_priorities(&r);
    const gal_engine_bytes held = gal_engine_bytes_of(r.engine);
    assert_true(held.arena_bytes == r.program->arena_bytes && held.workspace_bytes > 0 && held.pinned_bytes > 0);
    gal_double_counts before = gal_cuda_double_counts();
    for (uint64_t t = 0; t < STEPS; t++) {
        gal_cuda_double_clear_log();
        (void)step(&r, t);
        assert_true(gal_cuda_double_is_drained());
        if (graph_count != NULL && t == 0) {
            before = gal_cuda_double_counts();
            *graph_count += before.graphs;
        }
        assert_true(same_counts(before, gal_cuda_double_counts()));
        needs += check_clocks(&r, gal_engine_queues(r.engine));
    }
    double loss;
    gal_error err = {0};
    assert_int_equal(gal_engine_evaluate(r.engine, 0, &loss, NULL, &err), GAL_OK);
    assert_true(gal_cuda_double_is_drained() && same_counts(before, gal_cuda_double_counts()));
    close_rank(&r);
    const gal_double_counts after = gal_cuda_double_counts();
    assert_int_equal(after.streams + after.events + after.graphs + after.allocations + after.pinned, 0);
    return needs;
}

static void test_clocks(void **state)
{
    (void)state;
    uint64_t needs = 0;
    updates = 0;
    for (uint64_t seed = 0; seed < CLOCK_PLANS; seed++) {
        needs += check_plan(seed, &gal_ops_queued_idle, &queued_ops, NULL);
    }
    print_message("%d plans, %llu waits, %llu updates by the host\n", CLOCK_PLANS, (unsigned long long)needs,
                  (unsigned long long)updates);
    assert_true(needs > 10000 && updates > 500);
    gal_cuda_double_reset(0, false);
}

/* Every instruction goes to the table of its type: neither of the two has all kernels. */
static void test_clocks_of_16_bits(void **state)
{
    (void)state;
    uint64_t needs = 0, graphs = 0;
    for (uint64_t seed = 3000; seed < 3000 + CLOCK_PLANS; seed++) {
        needs += check_plan(seed, &gal_ops_queued_idle_bf16, &queued_ops, seed % 2 == 0 ? &graphs : NULL);
    }
    print_message("%d plans, %llu graphs, %llu waits\n", CLOCK_PLANS, (unsigned long long)graphs,
                  (unsigned long long)needs);
    assert_true(needs > 10000 && graphs > 500);
    gal_cuda_double_reset(0, false);
}

static void test_clocks_of_graphs(void **state)
{
    (void)state;
    uint64_t needs = 0, graphs = 0;
    for (uint64_t seed = 2000; seed < 2000 + CLOCK_PLANS; seed++) {
        needs += check_plan(seed, &gal_ops_queued_idle, &queued_ops, &graphs);
    }
    print_message("%d plans, %llu graphs, %llu waits\n", CLOCK_PLANS, (unsigned long long)graphs,
                  (unsigned long long)needs);
    assert_true(needs > 10000 && graphs > 1000);
    gal_cuda_double_reset(0, false);
}

static void test_clocks_by_the_host(void **state)
{
    (void)state;
    uint64_t needs = 0;
    for (uint64_t seed = 1000; seed < 1000 + CLOCK_PLANS; seed++) {
        needs += check_plan(seed, &gal_ops_queued_idle, &slow_ops, NULL);
    }
    print_message("%d plans, %llu waits\n", CLOCK_PLANS, (unsigned long long)needs);
    assert_true(needs > 10000);
    gal_cuda_double_reset(0, false);
}

/* ---- bits ---- */

/* host_bytes: adds what the program has in the host's memory. */
static void check_same(uint64_t seed, uint64_t *host_bytes)
{
    rank host, device;
    gal_step_result result[2];
    double loss[2], right[2];
    gal_error err = {0};
    gal_cuda_double_reset(seed, seed % 2 == 0);
    open_rank(seed, 1, GAL_FP64, &host);
    open_rank(seed, 1, GAL_FP64, &device);
    open_engine(&host, &gal_device_host, &gal_ops_host_fp64, NULL, false);
    open_engine(&device, &gal_device_cuda, &gal_ops_queued_fp64, NULL, seed % 3 == 0);
    gal_weights_initialize(host.program, &host.plan.model, 0, seed, &gal_device_host, gal_engine_memory(host.engine));
    gal_weights_initialize(device.program, &device.plan.model, 0, seed, &gal_device_cuda,
                           gal_engine_memory(device.engine));
    for (uint64_t t = 0; t < STEPS; t++) {
        result[0] = step(&host, t);
        result[1] = step(&device, t);
        assert_memory_equal(&result[0], &result[1], sizeof result[0]);
    }
    assert_int_equal(gal_engine_evaluate(host.engine, 1, &loss[0], &right[0], &err), GAL_OK);
    assert_int_equal(gal_engine_evaluate(device.engine, 1, &loss[1], &right[1], &err), GAL_OK);
    assert_true(loss[0] == loss[1] && right[0] == right[1]);
    const gal_class_arena *arena = &host.program->arena[GAL_CLASS_STATE];
    assert_memory_equal((const char *)gal_engine_memory(host.engine)->base + arena->offset,
                        (const char *)gal_engine_memory(device.engine)->base + arena->offset, arena->item_bytes);
    const gal_memory *beside[] = {gal_engine_memory(host.engine)->host, gal_engine_memory(device.engine)->host};
    assert_true((beside[0] != NULL) == (host.program->host_bytes > 0));
    if (beside[0] != NULL) {
        assert_memory_equal(beside[0]->base, beside[1]->base, host.program->host_bytes);
        *host_bytes += host.program->host_bytes;
    }
    close_rank(&device);
    close_rank(&host);
}

static void test_same_bits(void **state)
{
    (void)state;
    uint64_t host_bytes = 0;
    for (uint64_t seed = 0; seed < SAME_PLANS; seed++) {
        check_same(seed, &host_bytes);
    }
    assert_true(host_bytes > 0);
    for (uint32_t kind = 0; kind < GAL_PAIR_KINDS; kind++) {
        assert_true(gal_fused_pairs[kind] > 0);
    }
    gal_cuda_double_reset(0, false);
}

/* ---- pairs ---- */

/* FFNs whose activation is not gated, of each sub-batch: their products and the two directions of their activation are
 * pairs. 0: the plan has a grid, where a product comes in parts, or gradients take their weights' place behind dX. */
static uint32_t pairs_of_plan(const gal_plan *plan)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        if (plan->run[r].strategy.tp_mode != GAL_TP_1D || plan->gradient_reuses_parameter) {
            return 0;
        }
    }
    for (uint32_t b = 0; b < gal_model_block_count(&plan->model); b++) {
        gal_block_shape shape;
        gal_model_block(&plan->model, b, &shape);
        const bool plain = shape.kind == GAL_BLOCK_FFN && plan->model.family != GAL_FAMILY_LLAMA && !plan->model.gated;
        count += !plain ? 0 : gal_strategy_halves(gal_plan_block_strategy(plan, b), shape.kind) ? 2 : 1;
    }
    return count;
}

static bool is_plain(const gal_plan *plan, uint32_t block)
{
    const gal_strategy *s = gal_plan_block_strategy(plan, block);
    gal_block_shape shape;
    gal_model_block(&plan->model, block, &shape);
    return (shape.kind == GAL_BLOCK_ATTENTION || shape.kind == GAL_BLOCK_FFN) && s->tp_mode == GAL_TP_1D &&
           s->recompute == GAL_RECOMPUTE_NONE && !gal_strategy_halves(s, shape.kind);
}

/* Residuals of decoders before the norm of the next block, where both blocks lie alike in one piece of the chain: pairs
 * of a microbatch's forward. */
static uint32_t norms_of_plan(const gal_plan *plan)
{
    uint32_t count = 0;
    const bool has = plan->model.family == GAL_FAMILY_DECODER || plan->model.family == GAL_FAMILY_LLAMA;
    for (uint32_t piece = 0; has && piece < gal_plan_piece_count(plan); piece++) {
        const uint32_t begin = gal_plan_stage_first_block(plan, piece);
        for (uint32_t b = begin; b + 1 < begin + gal_plan_stage_block_count(plan, piece); b++) {
            const bool alike = gal_plan_block_strategy(plan, b) == gal_plan_block_strategy(plan, b + 1);
            count += alike && is_plain(plan, b) && is_plain(plan, b + 1);
        }
    }
    return count;
}

/* A step of the first rank of every stage. */
static void step_all_stages(uint64_t seed, uint32_t world)
{
    gal_comm comm = {.ops = &queued_ops};
    uint32_t stages = 1;
    for (uint32_t stage = 0; stage < stages; stage++) {
        rank r = {0};
        gal_cuda_double_reset(seed, false);
        gal_random_plan(seed, world, &r.plan);
        stages = r.plan.stage_count;
        lower_rank(stage * gal_plan_stage_devices(&r.plan), GAL_FP64, &r);
        open_engine(&r, &gal_device_cuda, &gal_ops_queued_fp64, &comm, false);
        (void)step(&r, 0);
        close_rank(&r);
    }
}

/* Of every FFN and microbatch one pair backward under every schedule: nothing comes between them. Forward at least one:
 * what is computed again is another. */
static void test_pairs_of_schedules(void **state)
{
    (void)state;
    uint64_t met[GAL_SCHEDULE_COUNT] = {0};
    for (uint64_t seed = 0; seed < PAIR_PLANS; seed++) {
        gal_plan plan;
        gal_random_plan(seed, 4, &plan);
        const uint64_t expected = (uint64_t)pairs_of_plan(&plan) * plan.microbatch_count;
        if (expected > 0 && plan.stage_count > 1) {
            memset(gal_fused_pairs, 0, sizeof gal_fused_pairs);
            step_all_stages(seed, 4);
            assert_true(gal_fused_pairs[GAL_PAIR_ACTIVATION] >= expected);
            assert_int_equal(gal_fused_pairs[GAL_PAIR_DERIVATIVE], expected);
            met[plan.schedule] += expected;
        }
        gal_plan_free(&plan);
    }
    for (uint32_t s = 0; s < GAL_SCHEDULE_COUNT; s++) {
        print_message("%s: %llu pairs backward\n", gal_schedule_names[s], (unsigned long long)met[s]);
        assert_true(met[s] > 0);
    }
    gal_cuda_double_reset(0, false);
}

static void test_pairs_of_norms(void **state)
{
    (void)state;
    uint64_t fused = 0, wanted = 0;
    for (uint64_t seed = 0; seed < PAIR_PLANS; seed++) {
        gal_plan plan;
        gal_random_plan(seed, 4, &plan);
        const uint64_t expected = (uint64_t)norms_of_plan(&plan) * plan.microbatch_count;
        if (expected > 0) {
            memset(gal_fused_pairs, 0, sizeof gal_fused_pairs);
            step_all_stages(seed, 4);
            assert_true(gal_fused_pairs[GAL_PAIR_NORM] >= expected);
            fused += gal_fused_pairs[GAL_PAIR_NORM];
            wanted += expected;
        }
        gal_plan_free(&plan);
    }
    print_message("%llu sums and their norms, %llu of them between blocks that lie alike\n", (unsigned long long)fused,
                  (unsigned long long)wanted);
    assert_true(wanted > 20);
    gal_cuda_double_reset(0, false);
}

/* ---- times ---- */

typedef struct times {
    const gal_program *program;
    uint32_t count[GAL_STREAM_COUNT];
} times;

static void note(void *context, uint32_t instruction, uint32_t microbatch, double start_seconds, double end_seconds)
{
    times *seen = context;
    assert_true(microbatch < seen->program->microbatch_count && end_seconds >= start_seconds);
    seen->count[seen->program->instruction[instruction].stream]++;
}

/* Every entry of a training step is told once; nothing of an evaluated batch is. */
static void test_trace(void **state)
{
    (void)state;
    rank r;
    double loss;
    gal_error err = {0};
    gal_comm comm = {.ops = &queued_ops};
    gal_cuda_double_reset(1, false);
    open_rank(9, 4, GAL_FP64, &r);
    times seen = {.program = r.program};
    const gal_engine_options options = {.device = &gal_device_cuda,
                                        .ops = &gal_ops_queued_idle,
                                        .host_ops = &idle_host,
                                        .comm = &comm,
                                        .tokens = {&r.plan.model, fill, fill_patches, fill_lengths, count_targets},
                                        .trace = {&seen, note},
                                        .deadline_seconds = 20.0};
    assert_int_equal(gal_engine_create(r.program, &r.plan.model, r.device, &r.channels, &options, &r.engine, &err),
                     GAL_OK);
    (void)step(&r, 0);
    assert_int_equal(gal_engine_evaluate(r.engine, 0, &loss, NULL, &err), GAL_OK);
    assert_memory_equal(seen.count, gal_engine_queues(r.engine)->count, sizeof seen.count);
    close_rank(&r);
    gal_cuda_double_reset(0, false);
}

/* Kernels that do nothing leave the norm that is written here. */
static void step_with_norm(rank *r, uint64_t number, double norm, double loss)
{
    const gal_buffer *buffer = &r->program->buffer[r->program->norm_buffer];
    const double values[2] = {norm, loss};
    gal_device_cuda.write(gal_engine_memory(r->engine), r->program->arena[buffer->arena].offset + buffer->offset,
                          values, sizeof values);
    (void)step(r, number);
}

/* The scale of the loss in fp16: halved where gradients alone overflow, and the same again when the step is looked at
 * once more. In bf16 there is none. */
static void test_scale_of_the_loss(void **state)
{
    (void)state;
    rank r;
    gal_error err = {0};
    gal_engine_fault fault;
    const gal_step_settings settings = {.seed = 5, .learning_rate = 0.01};
    gal_cuda_double_reset(1, false);
    open_rank(3, 1, GAL_FP16, &r);
    open_engine(&r, &gal_device_cuda, &gal_ops_queued_idle_fp16, NULL, false);
    step_with_norm(&r, 0, 1.0, 1.0);
    assert_true(gal_queued_step.gradient_scale == 32768.0 && !gal_engine_overflowed(r.engine));
    step_with_norm(&r, 1, INFINITY, 1.0);
    assert_true(gal_queued_step.gradient_scale == 32768.0 && gal_engine_overflowed(r.engine));
    step_with_norm(&r, 2, INFINITY, NAN);
    assert_true(gal_queued_step.gradient_scale == 16384.0 && !gal_engine_overflowed(r.engine));
    assert_int_equal(gal_engine_find_fault(r.engine, &settings, &fault, &err), GAL_OK);
    assert_true(gal_queued_step.gradient_scale == 16384.0);
    step_with_norm(&r, 3, 1.0, 1.0);
    assert_true(gal_queued_step.gradient_scale == 8192.0 && !gal_engine_overflowed(r.engine));
    close_rank(&r);
    open_rank(3, 1, GAL_BF16, &r);
    open_engine(&r, &gal_device_cuda, &gal_ops_queued_idle_bf16, NULL, false);
    step_with_norm(&r, 0, INFINITY, 1.0);
    assert_true(gal_queued_step.gradient_scale == 0.0 && !gal_engine_overflowed(r.engine));
    close_rank(&r);
    gal_cuda_double_reset(0, false);
}

/* A gradient that is not finite: the block is found on the device too, and nothing is updated. */
static void test_fault(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_engine_fault fault[2];
    const gal_step_settings settings = {.seed = 5, .learning_rate = 0.01};
    const gal_device_ops *devices[] = {&gal_device_host, &gal_device_cuda};
    const gal_ops *ops[] = {&gal_ops_host_fp64, &gal_ops_queued_fp64};
    gal_cuda_double_reset(1, true);
    for (uint32_t i = 0; i < 2; i++) {
        rank r = {0};
        gal_random_plan(3, 1, &r.plan); /* nothing of it in the host's memory, whose copy would heal the weight */
        lower_rank(0, GAL_FP64, &r);
        open_engine(&r, devices[i], ops[i], NULL, i == 1);
        gal_weights_initialize(r.program, &r.plan.model, 0, 3, devices[i], gal_engine_memory(r.engine));
        const gal_unit *unit = &r.program->unit[r.program->unit_count / 2];
        const gal_buffer *weight = &r.program->buffer[unit->weight];
        const uint64_t offset = r.program->arena[weight->arena].offset + weight->offset;
        const double infinite = INFINITY;
        devices[i]->write(gal_engine_memory(r.engine), offset, &infinite, sizeof infinite);
        assert_true(!isfinite(step(&r, 0).gradient_norm));
        assert_int_equal(gal_engine_find_fault(r.engine, &settings, &fault[i], &err), GAL_OK);
        assert_true(fault[i].found && fault[i].forward);
        close_rank(&r);
    }
    assert_int_equal(fault[0].block, fault[1].block);
    gal_cuda_double_reset(0, false);
}

/* ---- failures ---- */

/* Whatever cannot be made, creation fails with a line and leaves nothing. */
static void test_creation_fails(void **state)
{
    (void)state;
    rank r;
    gal_error err = {0};
    gal_comm comm = {.ops = &queued_ops};
    uint64_t call = 0;
    gal_code code = GAL_ERR_DEVICE;
    gal_cuda_double_reset(1, false);
    open_rank(9, 4, GAL_FP64, &r);
    const gal_engine_options options = {.device = &gal_device_cuda,
                                        .ops = &gal_ops_queued_idle,
                                        .host_ops = &idle_host,
                                        .comm = &comm,
                                        .tokens = {&r.plan.model, fill, fill_patches, fill_lengths, count_targets},
                                        .deadline_seconds = 5.0};
    while (code != GAL_OK) {
        err = (gal_error){0};
        gal_cuda_double_reset(1, false);
        gal_cuda_double_fail_at(++call);
        code = gal_engine_create(r.program, &r.plan.model, r.device, &r.channels, &options, &r.engine, &err);
        if (code != GAL_OK) {
            const gal_double_counts left = gal_cuda_double_counts();
            assert_true(code == GAL_ERR_DEVICE || code == GAL_ERR_SYSTEM);
            assert_true(err.text[0] != '\0');
            assert_int_equal(left.streams + left.events + left.allocations + left.pinned, 0);
        }
    }
    assert_true(call > 10);
    close_rank(&r);
    gal_cuda_double_reset(0, false);
}

static void test_step_fails(void **state)
{
    (void)state;
    rank r;
    gal_error err = {0};
    gal_step_result result;
    gal_comm comm = {.ops = &queued_ops};
    const gal_step_settings settings = {.learning_rate = 0.01};
    gal_cuda_double_reset(1, false);
    open_rank(9, 4, GAL_FP64, &r);
    open_engine(&r, &gal_device_cuda, &gal_ops_queued_idle, &comm, false);
    gal_cuda_double_fail_at(40);
    assert_int_equal(gal_engine_step(r.engine, &settings, &result, &err), GAL_ERR_DEVICE);
    assert_non_null(strstr(err.text, "unspecified launch failure (runtime/device/cuda/queue.c:"));
    close_rank(&r);
    gal_cuda_double_reset(0, false);
}

static void test_deadline(void **state)
{
    (void)state;
    rank r;
    gal_error err = {0};
    gal_step_result result;
    slow never = {.never = true};
    gal_comm comm = {.ops = &slow_ops, .state = &never};
    gal_cuda_double_reset(1, false);
    open_rank(9, 4, GAL_FP64, &r);
    const gal_engine_options options = {.device = &gal_device_cuda,
                                        .ops = &gal_ops_queued_idle,
                                        .host_ops = &idle_host,
                                        .comm = &comm,
                                        .tokens = {&r.plan.model, fill, fill_patches, fill_lengths, count_targets},
                                        .deadline_seconds = 0.05};
    assert_int_equal(gal_engine_create(r.program, &r.plan.model, r.device, &r.channels, &options, &r.engine, &err),
                     GAL_OK);
    const gal_step_settings settings = {.learning_rate = 0.01};
    assert_int_equal(gal_engine_step(r.engine, &settings, &result, &err), GAL_ERR_DEVICE);
    assert_non_null(strstr(err.text, "no progress for 0 s in step 0 (stage "));
    assert_non_null(strstr(err.text, ", waits for rank"));
    close_rank(&r);
    gal_cuda_double_reset(0, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clocks),
        cmocka_unit_test(test_clocks_of_graphs),
        cmocka_unit_test(test_clocks_of_16_bits),
        cmocka_unit_test(test_clocks_by_the_host),
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_pairs_of_schedules),
        cmocka_unit_test(test_pairs_of_norms),
        cmocka_unit_test(test_trace),
        cmocka_unit_test(test_scale_of_the_loss),
        cmocka_unit_test(test_fault),
        cmocka_unit_test(test_creation_fails),
        cmocka_unit_test(test_step_fails),
        cmocka_unit_test(test_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
