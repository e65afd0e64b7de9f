/* What the NCCL communicator asks of its library in a step, under random plans, against a recording double
 * (tests/support/nccl_double.h): every rank's calls match on every communicator, no group stays open, nothing is made
 * in a step, all calls lie in the rank's arena, the ranks' hosts cannot wait for each other in a circle; counts are
 * those of closed forms that know the plan and nothing of programs.
 *   test_nccl_calls [plans [first seed]]
 * timeout_seconds: 600: the ranks are threads that take turns, on a busy machine slowly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/plan_check.h"
#include "tests/support/nccl_double.h"
#include "tests/support/nccl_trial.h"
#include "tests/support/random_plan.h"
#include "tests/support/step_counts.h"

static uint32_t plan_count = 200;
static uint64_t first_seed = 1;

/* ---- what the double saw ---- */

static bool is_transfer(const gal_double_call *call)
{
    return call->kind == GAL_DOUBLE_SEND || call->kind == GAL_DOUBLE_RECEIVE;
}

static bool is_collective(const gal_double_call *call)
{
    return call->kind <= GAL_DOUBLE_REDUCE_SCATTER;
}

/* The next call of the rank on the communicator from *at on; *at is then behind it. NULL: none. */
static const gal_double_call *next_on(const gal_nccl_trial *t, uint32_t rank, uint32_t communicator, uint32_t *at)
{
    uint32_t count = 0;
    const gal_double_call *calls = gal_double_calls(rank, &count);
    *at = *at < t->begin[rank] ? t->begin[rank] : *at;
    while (*at < t->end[rank]) {
        const gal_double_call *call = &calls[(*at)++];
        if (call->communicator == communicator) {
            return call;
        }
    }
    return NULL;
}

/* The next transfer between two members, on the side of `rank`. */
static const gal_double_call *next_transfer(const gal_nccl_trial *t, uint32_t rank, uint32_t communicator,
                                            gal_double_kind kind, uint32_t peer, uint32_t *at)
{
    const gal_double_call *call = next_on(t, rank, communicator, at);
    while (call != NULL && (call->kind != kind || call->peer != peer)) {
        call = next_on(t, rank, communicator, at);
    }
    return call;
}

static bool same_collective(const gal_double_call *a, const gal_double_call *b)
{
    return a->kind == b->kind && a->count == b->count && a->type == b->type && a->reduce == b->reduce &&
           a->rank_count == b->rank_count;
}

static const gal_double_call *next_collective(const gal_nccl_trial *t, uint32_t rank, uint32_t communicator,
                                              uint32_t *at)
{
    const gal_double_call *call = next_on(t, rank, communicator, at);
    while (call != NULL && !is_collective(call)) {
        call = next_on(t, rank, communicator, at);
    }
    return call;
}

/* members[group index] = world rank, as far as they have called; returns how many there are. */
static uint32_t members_of(const gal_nccl_trial *t, uint32_t communicator, uint32_t members[GAL_TRIAL_RANKS_MAX],
                           uint32_t *rank_count)
{
    uint32_t present = 0;
    for (uint32_t r = 0; r < t->ranks; r++) {
        uint32_t at = 0;
        const gal_double_call *call = next_on(t, r, communicator, &at);
        if (call != NULL) {
            members[call->group_index] = r;
            *rank_count = call->rank_count;
            present++;
        }
    }
    return present;
}

static void check_collectives(const gal_nccl_trial *t, uint32_t communicator, const uint32_t *members,
                              uint32_t rank_count)
{
    uint32_t at[GAL_TRIAL_RANKS_MAX] = {0};
    for (const gal_double_call *first = NULL;;) {
        first = next_collective(t, members[0], communicator, &at[0]);
        for (uint32_t i = 1; i < rank_count; i++) {
            const gal_double_call *other = next_collective(t, members[i], communicator, &at[i]);
            assert_int_equal(first == NULL, other == NULL);
            assert_true(first == NULL || same_collective(first, other));
        }
        if (first == NULL) {
            return;
        }
    }
}

static void check_transfers(const gal_nccl_trial *t, uint32_t communicator, const uint32_t *members,
                            uint32_t rank_count)
{
    for (uint32_t from = 0; from < rank_count; from++) {
        for (uint32_t to = 0; to < rank_count; to++) {
            uint32_t sent_at = 0, received_at = 0;
            const gal_double_call *sent = NULL;
            do {
                sent = next_transfer(t, members[from], communicator, GAL_DOUBLE_SEND, to, &sent_at);
                const gal_double_call *received =
                    next_transfer(t, members[to], communicator, GAL_DOUBLE_RECEIVE, from, &received_at);
                assert_int_equal(sent == NULL, received == NULL);
                assert_true(sent == NULL || (sent->count == received->count && sent->type == received->type));
            } while (sent != NULL);
        }
    }
}

/* Outside groups a communicator carries transfers one way, and each rank uses it on one stream. */
static void check_streams(const gal_nccl_trial *t, uint32_t communicator)
{
    uint32_t sender = UINT32_MAX;
    for (uint32_t r = 0; r < t->ranks; r++) {
        uint32_t at = 0;
        const void *stream = NULL;
        for (const gal_double_call *call = next_on(t, r, communicator, &at); call != NULL;
             call = next_on(t, r, communicator, &at)) {
            assert_true(stream == NULL || stream == call->stream);
            stream = call->stream;
            if (is_transfer(call) && call->grouped == 0) {
                const uint32_t from = call->kind == GAL_DOUBLE_SEND ? call->group_index : call->peer;
                assert_true(sender == UINT32_MAX || sender == from);
                sender = from;
            }
        }
    }
}

static uint64_t type_bytes(ncclDataType_t type)
{
    return type == ncclFloat64 ? 8 : 4;
}

static void check_in_arena(const gal_nccl_trial *t, uint32_t rank, const gal_double_call *call)
{
    const gal_program *program = t->program[rank / gal_plan_stage_devices(t->plan)];
    const uint64_t own = call->count * type_bytes(call->type), whole = own * call->rank_count;
    const uint64_t source_bytes = call->kind == GAL_DOUBLE_REDUCE_SCATTER ? whole : own;
    const uint64_t target_bytes = call->kind == GAL_DOUBLE_ALL_GATHER ? whole : own;
    const char *base = gal_nccl_trial_arena(rank);
    if (call->source != NULL) {
        assert_true((const char *)call->source >= base);
        assert_true((const char *)call->source + source_bytes <= base + program->arena_bytes);
    }
    if (call->target != NULL) {
        assert_true((const char *)call->target >= base);
        assert_true((const char *)call->target + target_bytes <= base + program->arena_bytes);
    }
}

/* Nothing is made, registered or ended between begin and end, and all communicators have the plan's blocks. */
static void check_ranks(const gal_nccl_trial *t)
{
    for (uint32_t r = 0; r < t->ranks; r++) {
        uint32_t count = 0, registered = 0, destroyed = 0;
        const gal_double_call *calls = gal_double_calls(r, &count);
        for (uint32_t i = 0; i < count; i++) {
            const bool in_step = i >= t->begin[r] && i < t->end[r];
            assert_int_equal(in_step, (is_collective(&calls[i]) || is_transfer(&calls[i])) && i >= t->begin[r]);
            assert_true(calls[i].kind != GAL_DOUBLE_ABORT);
            registered += calls[i].kind == GAL_DOUBLE_REGISTER || calls[i].kind == GAL_DOUBLE_WINDOW;
            destroyed += calls[i].kind == GAL_DOUBLE_DESTROY;
            if (calls[i].kind == GAL_DOUBLE_MAKE && calls[i].max_ctas != 0) {
                assert_int_equal(calls[i].min_ctas, GAL_TRIAL_CTAS);
                assert_int_equal(calls[i].max_ctas, GAL_TRIAL_CTAS);
            }
            if (in_step) {
                check_in_arena(t, r, &calls[i]);
            }
        }
        assert_int_equal(t->open_groups[r], 0);
        assert_int_equal(t->communicators[r], t->channels[r] + 1);
        assert_int_equal(registered, t->channels[r]);
        assert_int_equal(destroyed, t->communicators[r]);
        assert_int_equal(gal_double_alive(r), 0);
    }
}

/* The first transfer of a communicator is made before the step, by both sides: connections are what hosts wait for. */
static void check_connected(const gal_nccl_trial *t)
{
    for (uint32_t r = 0; r < t->ranks; r++) {
        uint32_t count = 0;
        const gal_double_call *calls = gal_double_calls(r, &count);
        for (uint32_t i = t->begin[r]; i < t->end[r]; i++) {
            if (!is_transfer(&calls[i]) || calls[i].grouped != 0) {
                continue;
            }
            uint32_t before = 0;
            while (before < t->begin[r] &&
                   (calls[before].kind != calls[i].kind || calls[before].peer != calls[i].peer ||
                    calls[before].communicator != calls[i].communicator)) {
                before++;
            }
            assert_true(before < t->begin[r]);
        }
    }
}

/* Were every collective a meeting of hosts (as the first of its kind may be, where connections are made), all ranks
 * would still come to the end of their lists. Transfers are connected before: hosts go past them. */
static void check_hosts_do_not_wait_in_a_circle(const gal_nccl_trial *t)
{
    uint32_t at[GAL_TRIAL_RANKS_MAX], done = 0;
    memcpy(at, t->begin, sizeof at);
    while (done < t->ranks) {
        bool moved = false;
        done = 0;
        for (uint32_t r = 0; r < t->ranks; r++) {
            uint32_t count = 0, present = 0;
            const gal_double_call *calls = gal_double_calls(r, &count);
            if (at[r] == t->end[r]) {
                done++;
                continue;
            }
            const gal_double_call *mine = &calls[at[r]];
            const bool meets = is_collective(mine) || mine->grouped != 0;
            for (uint32_t o = 0; meets && o < t->ranks; o++) {
                const gal_double_call *others = gal_double_calls(o, &count);
                present += at[o] < t->end[o] && others[at[o]].communicator == mine->communicator;
            }
            if (!meets) {
                at[r]++;
                moved = true;
            } else if (present == mine->rank_count) {
                const uint32_t communicator = mine->communicator;
                for (uint32_t o = 0; o < t->ranks; o++) {
                    const gal_double_call *others = gal_double_calls(o, &count);
                    at[o] += at[o] < t->end[o] && others[at[o]].communicator == communicator;
                }
                moved = true;
            }
        }
        assert_true(moved || done == t->ranks);
    }
}

/* ---- windows ---- */

/* The rank's window of the communicator, or NULL. */
static const gal_double_call *window_of(const gal_nccl_trial *t, uint32_t rank, uint32_t communicator)
{
    uint32_t count = 0;
    const gal_double_call *calls = gal_double_calls(rank, &count);
    for (uint32_t i = 0; i < t->begin[rank]; i++) {
        if (calls[i].kind == GAL_DOUBLE_WINDOW && calls[i].communicator == communicator) {
            return &calls[i];
        }
    }
    return NULL;
}

/* What the other ranks reach by offset: sources of reductions, targets of all but reduce-scatters. */
static bool same_offsets(const gal_double_call *a, const char *base_a, const gal_double_call *b, const char *base_b)
{
    const bool sources =
        a->kind == GAL_DOUBLE_ALL_GATHER || (const char *)a->source - base_a == (const char *)b->source - base_b;
    const bool targets =
        a->kind == GAL_DOUBLE_REDUCE_SCATTER || (const char *)a->target - base_a == (const char *)b->target - base_b;
    return sources && targets;
}

/* A communicator has windows of one size on all its ranks, and its collectives lie at the same offsets of them, or it
 * has none. Returns how many ranks have one. */
static uint32_t check_windows(const gal_nccl_trial *t, uint32_t communicator, const uint32_t *members,
                              uint32_t rank_count)
{
    const gal_double_call *first = window_of(t, members[0], communicator);
    uint32_t at[GAL_TRIAL_RANKS_MAX] = {0};
    for (uint32_t i = 1; i < rank_count; i++) {
        const gal_double_call *other = window_of(t, members[i], communicator);
        assert_true((first == NULL) == (other == NULL));
        assert_true(first == NULL || first->count == other->count);
    }
    const gal_double_call *call = next_collective(t, members[0], communicator, &at[0]);
    while (first != NULL && call != NULL) {
        for (uint32_t i = 1; i < rank_count; i++) {
            const gal_double_call *other = next_collective(t, members[i], communicator, &at[i]);
            assert_non_null(other);
            assert_true(same_offsets(call, gal_nccl_trial_arena(members[0]), other, gal_nccl_trial_arena(members[i])));
        }
        call = next_collective(t, members[0], communicator, &at[0]);
    }
    return first != NULL ? rank_count : 0;
}

/* Returns how many windows there were. */
static uint32_t check_calls(const gal_nccl_trial *t)
{
    if (gal_double_misuse() != NULL) {
        fail_msg("%s", gal_double_misuse());
    }
    uint32_t last = 0, windows = 0;
    for (uint32_t r = 0; r < t->ranks; r++) {
        uint32_t count = 0;
        const gal_double_call *calls = gal_double_calls(r, &count);
        for (uint32_t i = 0; i < count; i++) {
            last = calls[i].communicator > last ? calls[i].communicator : last;
        }
    }
    for (uint32_t c = 1; c <= last; c++) {
        uint32_t members[GAL_TRIAL_RANKS_MAX] = {0}, rank_count = 0;
        const uint32_t present = members_of(t, c, members, &rank_count);
        assert_int_equal(present, rank_count);
        if (present > 0) {
            check_collectives(t, c, members, rank_count);
            check_transfers(t, c, members, rank_count);
            check_streams(t, c);
            windows += check_windows(t, c, members, rank_count);
        }
    }
    check_ranks(t);
    check_connected(t);
    check_hosts_do_not_wait_in_a_circle(t);
    return windows;
}

/* ---- closed forms ---- */

/* What a device hands to the next piece of the chain, per microbatch: its rows of the block's output. */
static uint64_t rows_out(const gal_plan *plan, uint32_t block, gal_flow flow)
{
    const gal_strategy *strategy = gal_plan_block_strategy(plan, block);
    const uint64_t samples = gal_plan_microbatch_samples(plan) / gal_strategy_degree(strategy, GAL_AXIS_DP) /
                             gal_strategy_degree(strategy, GAL_AXIS_SDP);
    const bool splits = strategy->sequence_parallel || strategy->tp_mode != GAL_TP_1D; /* a grid: rows and features */
    const uint64_t split =
        (splits ? gal_strategy_degree(strategy, GAL_AXIS_TP) : 1) * gal_strategy_sequence_degree(strategy);
    return samples * flow.positions * flow.features / split;
}

/* Over each border between pieces, of every microbatch: the stream forward and its gradient back. A carried tensor goes
 * beside it in its own layout: of those only the calls are known here. */
static void check_borders(const gal_nccl_trial *t)
{
    const gal_plan *plan = t->plan;
    const uint32_t devices = gal_plan_stage_devices(plan), pieces = gal_plan_piece_count(plan);
    for (uint32_t r = 0; r < t->ranks; r++) {
        uint64_t sends = 0, elements = 0, expected_sends = 0, expected_elements = 0;
        bool carried = false;
        for (uint32_t piece = 0; piece + 1 < pieces; piece++) {
            gal_block_shape shape;
            const uint32_t stage = r / devices;
            const uint32_t block =
                gal_plan_stage_first_block(plan, piece) + gal_plan_stage_block_count(plan, piece) - 1;
            gal_model_block(&plan->model, block, &shape);
            const bool out = piece % plan->stage_count == stage, in = (piece + 1) % plan->stage_count == stage;
            const uint64_t times = (uint64_t)plan->microbatch_count * ((uint64_t)out + (uint64_t)in);
            carried = carried || shape.carried_out.features != 0;
            expected_sends += times * (shape.carried_out.features != 0 ? 2 : 1);
            expected_elements += times * rows_out(plan, block, shape.out);
        }
        uint32_t count = 0;
        const gal_double_call *calls = gal_double_calls(r, &count);
        for (uint32_t i = t->begin[r]; i < t->end[r]; i++) {
            sends += calls[i].kind == GAL_DOUBLE_SEND && calls[i].grouped == 0;
            elements += calls[i].kind == GAL_DOUBLE_SEND && calls[i].grouped == 0 ? calls[i].count : 0;
        }
        assert_int_equal(sends, expected_sends);
        assert_true(carried || elements == expected_elements);
    }
}

/* Squares of the gradients and the loss: one all-reduce of two fp64 over all ranks, the last call of a step. */
static void check_norm(const gal_nccl_trial *t)
{
    for (uint32_t r = 0; t->ranks > 1 && r < t->ranks; r++) {
        uint32_t count = 0;
        const gal_double_call *calls = gal_double_calls(r, &count);
        uint32_t found = 0;
        for (uint32_t i = t->begin[r]; i < t->end[r]; i++) {
            found += calls[i].kind == GAL_DOUBLE_ALL_REDUCE && calls[i].rank_count == t->ranks && calls[i].count == 2 &&
                     calls[i].type == ncclFloat64 && calls[i].reduce == ncclSum;
        }
        assert_int_equal(found, 1);
    }
}

static void test_random_plans(void **unused)
{
    (void)unused;
    static const uint32_t worlds[] = {2, 4, 8, 3, 6};
    uint64_t calls = 0, channels = 0, windows = 0;
    for (uint32_t i = 0; i < plan_count; i++) {
        gal_plan plan;
        gal_nccl_trial t;
        gal_random_plan(first_seed + i, worlds[i % 5], &plan);
        gal_nccl_trial_run(&plan, i % 8 != 0, &t);
        windows += check_calls(&t);
        check_borders(&t);
        check_norm(&t);
        for (uint32_t r = 0; r < t.ranks; r++) {
            calls += t.end[r] - t.begin[r];
            channels += t.channels[r];
        }
        gal_nccl_trial_end(&t);
        gal_plan_free(&plan);
    }
    print_message("%u plans, %llu calls, %llu of %llu communicators with a window\n", plan_count,
                  (unsigned long long)calls, (unsigned long long)windows, (unsigned long long)channels);
    assert_true(plan_count < 200 || (windows > channels / 10 && windows < channels));
}

/* ---- modes whose every count has a closed form ---- */

/* Of one group: 2 n of an all-to-all among n, 2 of a rotation, 4 of a trade with the mirror. */
static uint32_t calls_of_group(const gal_nccl_trial *t, uint32_t rank, uint32_t group)
{
    uint32_t count = 0, of_group = 0;
    const gal_double_call *calls = gal_double_calls(rank, &count);
    for (uint32_t i = t->begin[rank]; i < t->end[rank]; i++) {
        of_group += calls[i].grouped == group;
    }
    return of_group;
}

/* The modes below trade among 4. */
static gal_op op_of_group(uint32_t calls, uint32_t members)
{
    return calls == 0             ? GAL_OP_SEND
           : calls == 2           ? GAL_OP_ROTATE
           : calls == 2 * members ? GAL_OP_ALL_TO_ALL
                                  : GAL_OP_MIRROR;
}

static gal_op op_of(const gal_nccl_trial *t, uint32_t rank, const gal_double_call *call)
{
    switch (call->kind) {
    case GAL_DOUBLE_ALL_REDUCE:
        return GAL_OP_ALL_REDUCE;
    case GAL_DOUBLE_ALL_GATHER:
        return GAL_OP_ALL_GATHER;
    case GAL_DOUBLE_BROADCAST:
        return GAL_OP_BROADCAST;
    case GAL_DOUBLE_REDUCE:
        return GAL_OP_REDUCE;
    case GAL_DOUBLE_REDUCE_SCATTER:
        return GAL_OP_REDUCE_SCATTER;
    case GAL_DOUBLE_SEND:
        return op_of_group(call->grouped == 0 ? 0 : calls_of_group(t, rank, call->grouped), call->rank_count);
    default:
        return GAL_OP_RECEIVE;
    }
}

static bool is_in_place(const gal_double_call *call)
{
    const uint64_t own = call->group_index * call->count * type_bytes(call->type);
    switch (call->kind) {
    case GAL_DOUBLE_ALL_REDUCE:
        return call->source == call->target;
    case GAL_DOUBLE_ALL_GATHER:
        return call->source == (const char *)call->target + own;
    case GAL_DOUBLE_REDUCE_SCATTER:
        return call->target == (const char *)call->source + own;
    default:
        return false;
    }
}

/* An all-to-all among n is n sends, one to each, and as many receives in one group: counted by its send to member 0. A
 * rotation has one send, a trade one to another. */
static gal_step_tally count_of(const gal_nccl_trial *t, uint32_t rank, const gal_step_tally *expected)
{
    gal_step_tally counted = {.op = expected->op, .group = expected->group};
    uint32_t count = 0;
    const gal_double_call *calls = gal_double_calls(rank, &count);
    for (uint32_t i = t->begin[rank]; i < t->end[rank]; i++) {
        const gal_double_call *call = &calls[i];
        const bool send = call->kind == GAL_DOUBLE_SEND;
        const gal_op grouped = send ? op_of(t, rank, call) : GAL_OP_RECEIVE;
        const bool trades = grouped == GAL_OP_MIRROR && (uint32_t)call->peer != call->group_index;
        const bool first = grouped == GAL_OP_ALL_TO_ALL && call->peer == 0;
        const bool counts = call->grouped == 0 || first || grouped == GAL_OP_ROTATE || trades;
        if (counts && op_of(t, rank, call) == expected->op && call->rank_count == expected->group) {
            counted.calls++;
            counted.in_place += is_in_place(call);
            counted.elements += call->count;
        }
    }
    return counted;
}

static void test_modes_closed_forms(void **unused)
{
    (void)unused;
    for (uint32_t m = 0; m < gal_step_mode_count(); m++) {
        gal_step_plan storage;
        gal_error err = {0};
        gal_nccl_trial t;
        gal_step_mode_plan(m, &storage);
        assert_int_equal(gal_plan_check(&storage.plan, gal_step_mode_name(m), &err), GAL_OK);
        gal_nccl_trial_run(&storage.plan, true, &t);
        (void)check_calls(&t);
        for (uint32_t r = 0; r < t.ranks; r++) {
            gal_step_counts expected;
            uint64_t total = 0;
            gal_step_mode_expect(m, r, &expected);
            for (uint32_t i = 0; i < expected.count; i++) {
                const gal_step_tally want = expected.row[i], got = count_of(&t, r, &want);
                if (got.calls != want.calls || got.in_place != want.in_place || got.elements != want.elements) {
                    fail_msg("%s, rank %u, %s over %u: %llu calls, %llu in place, %llu elements; expected %llu, %llu, "
                             "%llu",
                             gal_step_mode_name(m), r, gal_op_names[want.op], want.group, (unsigned long long)got.calls,
                             (unsigned long long)got.in_place, (unsigned long long)got.elements,
                             (unsigned long long)want.calls, (unsigned long long)want.in_place,
                             (unsigned long long)want.elements);
                }
                const uint32_t members = want.op == GAL_OP_ALL_TO_ALL ? want.group : 1;
                const uint32_t passed = want.op == GAL_OP_ROTATE ? 2 : want.op == GAL_OP_MIRROR ? 4 : 1;
                total += want.calls * (members > 1 ? 2 * members : passed);
            }
            assert_int_equal(t.end[r] - t.begin[r], total); /* nothing else */
        }
        gal_nccl_trial_end(&t);
    }
}

int main(int argc, char **argv)
{
    plan_count = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : plan_count;
    first_seed = argc > 2 ? strtoull(argv[2], NULL, 10) : first_seed;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_plans), cmocka_unit_test(test_modes_closed_forms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
