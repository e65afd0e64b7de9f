/* The engine on queues against a double of the CUDA runtime, under random plans: nothing starts before what the program
 * makes it wait for, a step makes nothing and leaves nothing, and the bits are those of the host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/device/cuda/cuda.h"
#include "runtime/train/weights.h"
#include "tests/support/cuda_double.h"
#include "tests/support/cuda_kernels.h"
#include "tests/support/cuda_rank.h"
#include "tests/support/random_plan.h"

enum { CLOCK_PLANS = 240, SAME_PLANS = 24, STEPS = 3 };

/* ---- clocks ---- */

/* Whether an instruction puts a kernel or a copy on its queue: a transfer of a file and an in-place collective of one
 * rank do not. */
static bool works_on_queue(const gal_cuda_rank *r, uint32_t number)
{
    const gal_instruction *instruction = &r->program->instruction[number];
    if (instruction->op == GAL_OP_STORAGE_READ || instruction->op == GAL_OP_STORAGE_WRITE) {
        return false;
    }
    const bool alone = gal_op_is_collective[instruction->op] && r->channels.of_instruction[number] == GAL_NO_CHANNEL;
    return !alone || (instruction->operand_count == 2 && r->program->shape[instruction->shape].dims[0] > 0);
}

static bool works(const gal_cuda_rank *r, const gal_queue_entry *entry)
{
    return works_on_queue(r, entry->instruction);
}

/* The number of the queue of a stream, in the order in which the engine makes them. */
static void number_queues(const gal_cuda_rank *r, uint32_t number[GAL_STREAM_COUNT])
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
static uint32_t work_of(const gal_cuda_rank *r, const gal_queues *queues, uint32_t stream, uint32_t entries)
{
    uint32_t work = stream == GAL_STREAM_COMPUTE ? 1 : 0;
    for (uint32_t e = 0; e < entries; e++) {
        work += works(r, &queues->entry[stream][e]);
    }
    return work;
}

/* Every entry of the log that is an entry of the step starts after all that it needs. Returns how many needs there
 * were. */
static uint64_t check_clocks(const gal_cuda_rank *r, const gal_queues *queues)
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

/* Where communication is queued all ranks of a stage put the list on their devices in its order, however long the
 * transfers of their files take. */
static void check_list_order(const gal_cuda_rank *r)
{
    size_t count = 0, next = 1; /* behind the record of the step */
    uint32_t number[GAL_STREAM_COUNT];
    const gal_double_work *log = gal_cuda_double_log(&count);
    number_queues(r, number);
    for (uint32_t c = 0; c < r->program->call_count; c++) {
        const gal_fragment *fragment = &r->program->fragment[r->program->call[c].fragment];
        for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
            if (works_on_queue(r, i)) {
                assert_true(next < count);
                assert_int_equal(log[next++].stream, number[r->program->instruction[i].stream]);
            }
        }
    }
    assert_int_equal(next, count);
}

static bool same_counts(gal_double_counts a, gal_double_counts b)
{
    return a.streams == b.streams && a.events == b.events && a.graphs == b.graphs && a.allocations == b.allocations &&
           a.pinned == b.pinned && a.made == b.made;
}

static void check_priorities(const gal_cuda_rank *r)
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
    gal_cuda_rank r;
    uint64_t needs = 0;
    gal_slow_requests state = {.random = seed};
    gal_comm comm = {.ops = ops, .state = &state};
    gal_cuda_double_reset(seed, seed % 2 == 0);
    gal_cuda_rank_open(seed, worlds[seed % (sizeof worlds / sizeof worlds[0])], kernels->dtype, &r);
    gal_cuda_rank_run_on(&r, &gal_device_cuda, kernels, &comm, graph_count != NULL);
    check_priorities(&r);
    const gal_engine_bytes held = gal_engine_bytes_of(r.engine);
    assert_true(held.arena_bytes == r.program->arena_bytes && held.workspace_bytes > 0 && held.pinned_bytes > 0);
    gal_double_counts before = gal_cuda_double_counts();
    for (uint64_t t = 0; t < STEPS; t++) {
        gal_cuda_double_clear_log();
        (void)gal_cuda_rank_step(&r, t);
        assert_true(gal_cuda_double_is_drained());
        if (graph_count != NULL && t == 0) {
            before = gal_cuda_double_counts();
            *graph_count += before.graphs;
        }
        assert_true(same_counts(before, gal_cuda_double_counts()));
        needs += check_clocks(&r, gal_engine_queues(r.engine));
        if (ops->queued && graph_count == NULL) {
            check_list_order(&r);
        }
    }
    double loss;
    gal_error err = {0};
    assert_int_equal(gal_engine_evaluate(r.engine, 0, &loss, NULL, &err), GAL_OK);
    assert_true(gal_cuda_double_is_drained() && same_counts(before, gal_cuda_double_counts()));
    gal_cuda_rank_close(&r);
    const gal_double_counts after = gal_cuda_double_counts();
    assert_int_equal(after.streams + after.events + after.graphs + after.allocations + after.pinned, 0);
    return needs;
}

static void test_clocks(void **state)
{
    (void)state;
    uint64_t needs = 0;
    gal_cuda_rank_updates = 0;
    for (uint64_t seed = 0; seed < CLOCK_PLANS; seed++) {
        needs += check_plan(seed, &gal_ops_queued_idle, &gal_nobody_queued, NULL);
    }
    print_message("%d plans, %llu waits, %llu updates by the host\n", CLOCK_PLANS, (unsigned long long)needs,
                  (unsigned long long)gal_cuda_rank_updates);
    assert_true(needs > 10000 && gal_cuda_rank_updates > 500);
    gal_cuda_double_reset(0, false);
}

/* Every instruction goes to the table of its type: neither of the two has all kernels. */
static void test_clocks_of_16_bits(void **state)
{
    (void)state;
    uint64_t needs = 0, graphs = 0;
    for (uint64_t seed = 3000; seed < 3000 + CLOCK_PLANS; seed++) {
        needs += check_plan(seed, &gal_ops_queued_idle_bf16, &gal_nobody_queued, seed % 2 == 0 ? &graphs : NULL);
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
        needs += check_plan(seed, &gal_ops_queued_idle, &gal_nobody_queued, &graphs);
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
        needs += check_plan(seed, &gal_ops_queued_idle, &gal_nobody_slow, NULL);
    }
    print_message("%d plans, %llu waits\n", CLOCK_PLANS, (unsigned long long)needs);
    assert_true(needs > 10000);
    gal_cuda_double_reset(0, false);
}

/* ---- bits ---- */

/* host_bytes: adds what the program has in the host's memory. */
static void check_same(uint64_t seed, uint64_t *host_bytes)
{
    gal_cuda_rank host, device;
    gal_step_result result[2];
    double loss[2], right[2];
    gal_error err = {0};
    gal_cuda_double_reset(seed, seed % 2 == 0);
    gal_cuda_rank_open(seed, 1, GAL_FP64, &host);
    gal_cuda_rank_open(seed, 1, GAL_FP64, &device);
    gal_cuda_rank_run_on(&host, &gal_device_host, &gal_ops_host_fp64, NULL, false);
    gal_cuda_rank_run_on(&device, &gal_device_cuda, &gal_ops_queued_fp64, NULL, seed % 3 == 0);
    gal_weights_initialize(host.program, &host.plan.model, 0, seed, &gal_device_host, gal_engine_memory(host.engine));
    gal_weights_initialize(device.program, &device.plan.model, 0, seed, &gal_device_cuda,
                           gal_engine_memory(device.engine));
    for (uint64_t t = 0; t < STEPS; t++) {
        result[0] = gal_cuda_rank_step(&host, t);
        result[1] = gal_cuda_rank_step(&device, t);
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
    gal_cuda_rank_close(&device);
    gal_cuda_rank_close(&host);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clocks),
        cmocka_unit_test(test_clocks_of_graphs),
        cmocka_unit_test(test_clocks_of_16_bits),
        cmocka_unit_test(test_clocks_by_the_host),
        cmocka_unit_test(test_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
