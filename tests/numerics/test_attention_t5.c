/* T5's attention in fp64: buckets by hand, forward by definition, backward against differences of the forward pass.
 *
 * The objective is L = sum of weight * ctx. The five-point difference (f(-2h) - 8 f(-h) + 8 f(h) - f(2h)) / 12h is off
 * by h^4 f5 / 30 (h = 1e-3: 3e-14 f5) and by rounding, about 1.5 eps |L| / h = 3e-13 |L|. The bound, 1e-8 of the
 * largest gradient entry, leaves room for L of some hundred entries and fifth derivatives of 1e4. */
#include <math.h>

#include "tests/support/differences.h"
#include "tests/support/ops_case.h"

static const gal_ops *const ops = &gal_ops_host_fp64;

/* ---- buckets ---- */

/* With queries of zeros and values that are unit vectors, ctx of a query is its row of probabilities, whose logarithms
 * are the biases less their log-sum-exp. The bias of bucket b is b / 10. */
static double bucket_seen(uint32_t sequence, bool causal, uint32_t buckets, uint32_t max_distance, uint32_t query,
                          uint32_t key)
{
    ops_case at;
    ops_case_init(&at);
    const size_t row = 3 * (size_t)sequence;
    double *qkv = calloc(sequence * row, sizeof *qkv), *ctx = calloc((size_t)sequence * sequence, sizeof *ctx);
    double *lse = calloc(sequence, sizeof *lse), *table = calloc(buckets, sizeof *table);
    assert_true(qkv != NULL && ctx != NULL && lse != NULL && table != NULL);
    for (uint32_t b = 0; b < buckets; b++) {
        table[b] = 0.1 * b;
    }
    for (uint32_t i = 0; i < sequence; i++) {
        qkv[i * row + 2 * sequence + i] = 1.0;
    }
    OPS(&at, ops, GAL_OP_RELATIVE_ATTENTION, DIMS(1, sequence, 1, sequence, causal, buckets, max_distance), qkv, table,
        ctx, lse);
    const double seen = 10.0 * (log(ctx[(size_t)query * sequence + key]) + lse[query]);
    free(qkv);
    free(ctx);
    free(lse);
    free(table);
    return seen;
}

static void expect_bucket(bool causal, uint32_t query, uint32_t key, uint32_t bucket)
{
    const double seen = bucket_seen(150, causal, 32, 128, query, key);
    if (fabs(seen - bucket) > 1e-9) {
        print_error("causal %d, query %u, key %u: bucket %.9f, not %u\n", causal, query, key, seen, bucket);
        fail();
    }
}

/* 32 buckets up to 128. Both directions, 16 each: 0 .. 7 are single, bucket 8 + s begins at 8 * 16^(s / 8), later keys
 * are 16 higher. Causal: 0 .. 15 are single, 16 + s begins at 16 * 8^(s / 16). */
static void buckets_by_hand(void **state)
{
    (void)state;
    expect_bucket(false, 100, 100, 0);
    expect_bucket(false, 100, 99, 1);
    expect_bucket(false, 100, 101, 17);
    expect_bucket(false, 100, 93, 7);
    expect_bucket(false, 100, 89, 8);      /* 8 .. 11.3 */
    expect_bucket(false, 100, 88, 9);      /* 11.3 .. 16 */
    expect_bucket(false, 100, 84, 10);     /* 16 begins a bucket */
    expect_bucket(false, 100, 36, 14);     /* so does 64 */
    expect_bucket(false, 10, 42, 16 + 12); /* and 32 */
    expect_bucket(false, 149, 9, 15);      /* 140 is beyond 128 */
    expect_bucket(true, 100, 85, 15);
    expect_bucket(true, 100, 84, 16);
    expect_bucket(true, 100, 80, 17); /* 20 of 18.2 .. 20.7 */
    expect_bucket(true, 149, 22, 31); /* 127 */
    expect_bucket(true, 149, 0, 31);
}

/* ---- forward ---- */

typedef struct problem {
    ops_case at;
    bool cross, causal;
    int32_t *lengths; /* of the samples' keys; NULL: all */
    uint32_t samples, queries, keys, heads, dim, all_heads, buckets, max_distance;
    double *q, *kv, *table; /* of self-attention q holds queries, keys and values */
    double *ctx, *lse;
    const double *weight;
} problem;

static size_t q_count(const problem *p)
{
    return (size_t)p->samples * p->queries * p->heads * p->dim * (p->cross ? 1 : 3);
}

static size_t kv_count(const problem *p)
{
    return p->cross ? (size_t)p->samples * p->keys * p->heads * p->dim * 2 : 0;
}

static size_t ctx_count(const problem *p)
{
    return (size_t)p->samples * p->queries * p->heads * p->dim;
}

static size_t table_count(const problem *p)
{
    return p->cross ? 0 : (size_t)p->buckets * p->all_heads;
}

static double *random_values(size_t count, uint64_t seed)
{
    double *values = calloc(count + 1, sizeof *values);
    assert_non_null(values);
    ops_randomize(values, count, seed);
    return values;
}

static void make(problem *p)
{
    ops_case_init(&p->at);
    p->at.model.head_count = p->all_heads;
    p->at.model.sequence_length = p->keys;
    p->at.model.decoder_sequence_length = p->cross ? p->queries : 0;
    p->at.call.group_count = p->all_heads / p->heads;
    p->at.call.group_index = p->at.call.group_count - 1;
    p->q = random_values(q_count(p), 1);
    p->kv = random_values(kv_count(p), 2);
    p->table = random_values(table_count(p), 3);
    p->ctx = random_values(ctx_count(p), 4);
    p->lse = random_values((size_t)p->samples * p->heads * p->queries, 5);
    p->weight = random_values(ctx_count(p), 6);
}

static void release(problem *p)
{
    free(p->q);
    free(p->kv);
    free(p->table);
    free(p->ctx);
    free(p->lse);
    free((void *)(uintptr_t)p->weight);
}

/* With lengths as the last operand, if there are any. */
static void run_padded(problem *p, gal_op op, uint32_t count, void *operand[])
{
    const uint32_t *dims = p->cross
                               ? DIMS(p->samples, p->queries, p->heads, p->dim, p->keys)
                               : DIMS(p->samples, p->queries, p->heads, p->dim, p->causal, p->buckets, p->max_distance);
    ops_run(&p->at, ops, op, dims, count - (p->lengths == NULL ? 1 : 0), operand);
}

static void run(problem *p)
{
    run_padded(p, p->cross ? GAL_OP_CROSS_ATTENTION : GAL_OP_RELATIVE_ATTENTION, 5,
               (void *[]){p->q, p->cross ? p->kv : p->table, p->ctx, p->lse, p->lengths});
}

/* As the authors' code has it. */
static uint32_t bucket_of(const problem *p, int64_t distance)
{
    const uint32_t side = p->causal ? p->buckets : p->buckets / 2, exact = side / 2;
    const uint32_t first = !p->causal && distance > 0 ? side : 0;
    const double far = p->causal ? fmax((double)-distance, 0.0) : fabs((double)distance);
    if (far < exact) {
        return first + (uint32_t)far;
    }
    const double later = exact + floor(1e-9 + log(far / exact) / log((double)p->max_distance / exact) * (side - exact));
    return first + (uint32_t)fmin(later, side - 1.0);
}

static const double *element(const problem *p, uint32_t part, uint32_t position, uint32_t sample, uint32_t head)
{
    const size_t row = (size_t)p->heads * p->dim, at = (size_t)position * p->samples + sample;
    if (!p->cross) {
        return p->q + at * 3 * row + part * row + (size_t)head * p->dim;
    }
    return part == 0 ? p->q + at * row + (size_t)head * p->dim
                     : p->kv + at * 2 * row + (part - 1) * row + (size_t)head * p->dim;
}

static double score(const problem *p, uint32_t query, uint32_t key, uint32_t sample, uint32_t head)
{
    const double *q = element(p, 0, query, sample, head), *k = element(p, 1, key, sample, head);
    double sum = 0.0;
    for (uint32_t d = 0; d < p->dim; d++) {
        sum += q[d] * k[d];
    }
    if (!p->cross) {
        sum += p->table[bucket_of(p, (int64_t)key - query) * p->all_heads + p->at.call.group_index * p->heads + head];
    }
    return sum;
}

static void check_row(const problem *p, uint32_t query, uint32_t sample, uint32_t head)
{
    const uint32_t end = p->causal ? query + 1 : p->lengths != NULL ? (uint32_t)p->lengths[sample] : p->keys;
    double total = 0.0;
    for (uint32_t key = 0; key < end; key++) {
        total += exp(score(p, query, key, sample, head));
    }
    /* cppcheck-suppress invalidFunctionArg ; of one key at least */
    assert_true(fabs(p->lse[((size_t)sample * p->heads + head) * p->queries + query] - log(total)) < 1e-12);
    for (uint32_t d = 0; d < p->dim; d++) {
        double sum = 0.0;
        for (uint32_t key = 0; key < end; key++) {
            sum += exp(score(p, query, key, sample, head)) / total * element(p, 2, key, sample, head)[d];
        }
        const size_t row = (size_t)query * p->samples + sample;
        assert_true(fabs(p->ctx[(row * p->heads + head) * p->dim + d] - sum) < 1e-12);
    }
}

/* 1e-12: some hundred roundings of numbers below 3. */
static void check_forward(problem *p)
{
    make(p);
    run(p);
    for (uint32_t query = 0; query < p->queries; query += 1 + p->queries / 7) {
        for (uint32_t sample = 0; sample < p->samples; sample++) {
            for (uint32_t head = 0; head < p->heads; head++) {
                check_row(p, query, sample, head);
            }
        }
    }
    release(p);
}

static problem relative_problem(uint32_t samples, uint32_t sequence, uint32_t heads, uint32_t dim, bool causal)
{
    return (problem){.causal = causal,
                     .samples = samples,
                     .queries = sequence,
                     .keys = sequence,
                     .heads = heads,
                     .dim = dim,
                     .all_heads = 2 * heads,
                     .buckets = 8,
                     .max_distance = 20};
}

static problem cross_problem(uint32_t samples, uint32_t queries, uint32_t keys, uint32_t heads, uint32_t dim)
{
    return (problem){.cross = true,
                     .samples = samples,
                     .queries = queries,
                     .keys = keys,
                     .heads = heads,
                     .dim = dim,
                     .all_heads = heads};
}

static void forward_by_definition(void **state)
{
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        problem small = relative_problem(2, 7, 2, 5, causal != 0), tiles = relative_problem(2, 130, 1, 70, causal != 0);
        check_forward(&small);
        check_forward(&tiles);
    }
    problem few = cross_problem(2, 3, 9, 2, 4), many = cross_problem(2, 140, 65, 1, 3),
            wide = cross_problem(1, 5, 64, 1, 70);
    check_forward(&few);
    check_forward(&many);
    check_forward(&wide);
}

/* Lengths of one key, of all, and around the tiles of 64. */
static void padded_forward_by_definition(void **state)
{
    (void)state;
    const int32_t lengths[][2] = {{1, 7}, {63, 130}, {64, 65}, {1, 9}, {65, 3}};
    problem p[] = {relative_problem(2, 7, 2, 5, false), relative_problem(2, 130, 1, 70, false),
                   relative_problem(2, 130, 1, 3, false), cross_problem(2, 3, 9, 2, 4),
                   cross_problem(2, 140, 65, 1, 3)};
    for (size_t i = 0; i < sizeof p / sizeof p[0]; i++) {
        int32_t of_samples[2] = {lengths[i][0], lengths[i][1]};
        p[i].lengths = of_samples;
        check_forward(&p[i]);
    }
}

/* ---- backward ---- */

static double objective(void *context)
{
    problem *p = context;
    double sum = 0.0;
    run(p);
    for (size_t i = 0; i < ctx_count(p); i++) {
        sum += p->weight[i] * p->ctx[i];
    }
    return sum;
}

static void check_backward(problem *p, double dropout)
{
    make(p);
    p->at.model.attention_dropout = dropout;
    double *dq = random_values(q_count(p), 7), *dkv = random_values(kv_count(p), 8);
    double *dtable = random_values(table_count(p), 9), *before = random_values(table_count(p), 9);
    void *weight = (void *)(uintptr_t)p->weight;
    run(p);
    p->at.call.add = true;
    if (p->cross) {
        run_padded(p, GAL_OP_CROSS_ATTENTION_BACKWARD, 8,
                   (void *[]){weight, p->q, p->kv, p->ctx, p->lse, dq, dkv, p->lengths});
        check_differences(objective, p, p->kv, dkv, kv_count(p));
    } else {
        run_padded(p, GAL_OP_RELATIVE_ATTENTION_BACKWARD, 8,
                   (void *[]){weight, p->q, p->ctx, p->lse, p->table, dq, dtable, p->lengths});
        for (size_t i = 0; i < table_count(p); i++) {
            dtable[i] -= before[i];
        }
        check_differences(objective, p, p->table, dtable, table_count(p));
    }
    check_differences(objective, p, p->q, dq, q_count(p));
    free(dq);
    free(dkv);
    free(dtable);
    free(before);
    release(p);
}

static void backward_against_differences(void **state)
{
    (void)state;
    for (int with = 0; with < 2; with++) {
        const double dropout = with != 0 ? 0.3 : 0.0;
        for (int causal = 0; causal < 2; causal++) {
            problem small = relative_problem(2, 7, 2, 5, causal != 0);
            problem tiles = relative_problem(1, 70, 1, 3, causal != 0);
            check_backward(&small, dropout);
            check_backward(&tiles, dropout);
        }
        problem few = cross_problem(2, 3, 9, 2, 4), many = cross_problem(1, 70, 65, 1, 3);
        check_backward(&few, dropout);
        check_backward(&many, dropout);
    }
}

/* Among the differences are those by keys and values behind the ends: zeros. */
static void padded_backward_against_differences(void **state)
{
    (void)state;
    const int32_t lengths[][2] = {{2, 7}, {66, 70}, {1, 9}, {65, 3}};
    problem p[] = {relative_problem(2, 7, 2, 5, false), relative_problem(2, 70, 1, 3, false),
                   cross_problem(2, 3, 9, 2, 4), cross_problem(2, 70, 65, 1, 3)};
    for (size_t i = 0; i < sizeof p / sizeof p[0]; i++) {
        int32_t of_samples[2] = {lengths[i][0], lengths[i][1]};
        p[i].lengths = of_samples;
        check_backward(&p[i], 0.0);
        check_backward(&p[i], 0.3);
    }
}

/* Columns of the heads that other devices have are written as zeros. */
static void other_heads_get_zeros(void **state)
{
    (void)state;
    problem p = relative_problem(1, 5, 1, 2, false);
    make(&p);
    run(&p);
    double *dq = random_values(q_count(&p), 7), *dtable = random_values(table_count(&p), 9);
    OPS(&p.at, ops, GAL_OP_RELATIVE_ATTENTION_BACKWARD, DIMS(1, 5, 1, 2, 0, 8, 20), (void *)(uintptr_t)p.weight, p.q,
        p.ctx, p.lse, p.table, dq, dtable);
    for (uint32_t b = 0; b < 8; b++) {
        assert_true(dtable[2 * b] == 0.0);
    }
    assert_true(dtable[1] != 0.0);
    free(dq);
    free(dtable);
    release(&p);
}

static void scale_by_hand(void **state)
{
    (void)state;
    ops_case at;
    double a[] = {2.0, -4.0, 6.0};
    ops_case_init(&at);
    OPS(&at, ops, GAL_OP_SCALE, DIMS(3, 16), a);
    assert_true(a[0] == 0.5 && a[1] == -1.0 && a[2] == 1.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_by_hand),
        cmocka_unit_test(forward_by_definition),
        cmocka_unit_test(padded_forward_by_definition),
        cmocka_unit_test(backward_against_differences),
        cmocka_unit_test(padded_backward_against_differences),
        cmocka_unit_test(other_heads_get_zeros),
        cmocka_unit_test(scale_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
