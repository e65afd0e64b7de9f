/* Operators on a grid of positions in fp64: attention within windows by its definition and against differences, merging
 * and the mean by hand.
 *
 * The objective is L = sum of weight * ctx. The five-point difference (f(-2h) - 8 f(-h) + 8 f(h) - f(2h)) / 12h is off
 * by h^4 f5 / 30 (h = 1e-3: 3e-14 f5) and by rounding, about 1.5 eps |L| / h = 3e-13 |L|. The bound, 1e-8 of the
 * largest gradient entry, leaves room for L of some hundred entries and fifth derivatives of 1e4. */
#include <math.h>

#include "tests/support/differences.h"
#include "tests/support/ops_case.h"

static const gal_ops *const ops = &gal_ops_host_fp64;

typedef struct problem {
    ops_case at;
    uint32_t samples, side, window, shift, heads, dim;
    double *qkv, *table, *ctx, *lse, *weight;
} problem;

static size_t positions(const problem *p)
{
    return (size_t)p->side * p->side;
}

static size_t offsets(const problem *p)
{
    return 2 * (size_t)p->window - 1;
}

static size_t row_count(const problem *p)
{
    return positions(p) * p->samples;
}

static size_t ctx_count(const problem *p)
{
    return row_count(p) * p->heads * p->dim;
}

static size_t table_count(const problem *p)
{
    return offsets(p) * offsets(p) * p->heads;
}

static double *random_values(size_t count, uint64_t seed)
{
    double *values = calloc(count, sizeof *values);
    assert_non_null(values);
    ops_randomize(values, count, seed);
    return values;
}

/* The second of two devices, whose heads come behind those of the first. */
static void make(problem *p)
{
    ops_case_init(&p->at);
    p->at.call.group_count = 2;
    p->at.call.group_index = 1;
    p->qkv = random_values(3 * ctx_count(p), 1);
    p->table = random_values(table_count(p), 2);
    p->ctx = random_values(ctx_count(p), 3);
    p->lse = random_values(row_count(p) * p->heads, 4);
    p->weight = random_values(ctx_count(p), 5);
}

static void release(problem *p)
{
    free(p->qkv);
    free(p->table);
    free(p->ctx);
    free(p->lse);
    free(p->weight);
}

static void run(problem *p)
{
    const uint32_t sequence = (uint32_t)positions(p);
    OPS(&p->at, ops, GAL_OP_WINDOW_ATTENTION,
        DIMS(p->samples, sequence, p->heads, p->dim, p->side, p->window, p->shift), p->qkv, p->table, p->ctx, p->lse);
}

/* ---- forward ---- */

static const double *element(const problem *p, uint32_t part, size_t position, uint32_t sample, uint32_t head)
{
    return p->qkv + (((position * p->samples + sample) * 3 + part) * p->heads + head) * p->dim;
}

/* A row or column in the turned grid. */
static uint32_t turned(const problem *p, uint32_t at)
{
    return (at + p->side - p->shift) % p->side;
}

/* -infinity: another window. What lies in front of `shift` was turned over the border, to neighbours of the far end. */
static double score(const problem *p, size_t query, size_t key, uint32_t sample, uint32_t head)
{
    const uint32_t qy = (uint32_t)query / p->side, qx = (uint32_t)query % p->side;
    const uint32_t ky = (uint32_t)key / p->side, kx = (uint32_t)key % p->side;
    const uint32_t w = p->window;
    if (turned(p, qy) / w != turned(p, ky) / w || turned(p, qx) / w != turned(p, kx) / w) {
        return -INFINITY;
    }
    const bool apart = (qy < p->shift) != (ky < p->shift) || (qx < p->shift) != (kx < p->shift);
    const size_t row = turned(p, qy) % w + w - 1 - turned(p, ky) % w;
    const size_t column = turned(p, qx) % w + w - 1 - turned(p, kx) % w;
    const double *q = element(p, 0, query, sample, head), *k = element(p, 1, key, sample, head);
    double sum = 0.0;
    for (uint32_t d = 0; d < p->dim; d++) {
        sum += q[d] * k[d];
    }
    return sum / sqrt(p->dim) + p->table[(row * offsets(p) + column) * p->heads + head] - (apart ? 100.0 : 0.0);
}

/* 1e-12: some hundred roundings of numbers below 3. */
static void check_row(const problem *p, size_t query, uint32_t sample, uint32_t head)
{
    double total = exp(score(p, query, query, sample, head));
    for (size_t key = 0; key < positions(p); key++) {
        total += key == query ? 0.0 : exp(score(p, query, key, sample, head));
    }
    assert_true(fabs(p->lse[(sample * p->heads + head) * positions(p) + query] - log(total)) < 1e-12);
    for (uint32_t d = 0; d < p->dim; d++) {
        double sum = 0.0;
        for (size_t key = 0; key < positions(p); key++) {
            sum += exp(score(p, query, key, sample, head)) / total * element(p, 2, key, sample, head)[d];
        }
        assert_true(fabs(p->ctx[((query * p->samples + sample) * p->heads + head) * p->dim + d] - sum) < 1e-12);
    }
}

static void check_forward(problem p)
{
    make(&p);
    run(&p);
    for (size_t query = 0; query < positions(&p); query += 1 + positions(&p) / 50) {
        for (uint32_t sample = 0; sample < p.samples; sample++) {
            for (uint32_t head = 0; head < p.heads; head++) {
                check_row(&p, query, sample, head);
            }
        }
    }
    release(&p);
}

/* Windows of fewer positions than a tile of the kernel (64) and of more, heads of fewer features and of more. */
static void forward_by_definition(void **state)
{
    (void)state;
    check_forward((problem){.samples = 2, .side = 4, .window = 2, .shift = 0, .heads = 2, .dim = 5});
    check_forward((problem){.samples = 2, .side = 6, .window = 3, .shift = 1, .heads = 3, .dim = 4});
    check_forward((problem){.samples = 1, .side = 18, .window = 9, .shift = 4, .heads = 1, .dim = 70});
    check_forward((problem){.samples = 1, .side = 7, .window = 7, .shift = 0, .heads = 2, .dim = 3});
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

static void check_backward(problem p, double dropout)
{
    make(&p);
    p.at.model.attention_dropout = dropout;
    double *dqkv = random_values(3 * ctx_count(&p), 6);
    double *dtable = random_values(table_count(&p), 7), *before = random_values(table_count(&p), 7);
    run(&p);
    p.at.call.add = true;
    OPS(&p.at, ops, GAL_OP_WINDOW_ATTENTION_BACKWARD,
        DIMS(p.samples, (uint32_t)positions(&p), p.heads, p.dim, p.side, p.window, p.shift), p.weight, p.qkv, p.ctx,
        p.lse, p.table, dqkv, dtable);
    for (size_t i = 0; i < table_count(&p); i++) {
        dtable[i] -= before[i];
    }
    p.at.call.add = false;
    check_differences(objective, &p, p.table, dtable, table_count(&p));
    check_differences(objective, &p, p.qkv, dqkv, 3 * ctx_count(&p));
    free(dqkv);
    free(dtable);
    free(before);
    release(&p);
}

static void backward_against_differences(void **state)
{
    (void)state;
    for (int with = 0; with < 2; with++) {
        const double dropout = with != 0 ? 0.3 : 0.0;
        check_backward((problem){.samples = 2, .side = 4, .window = 2, .shift = 1, .heads = 2, .dim = 5}, dropout);
        check_backward((problem){.samples = 1, .side = 9, .window = 9, .shift = 0, .heads = 1, .dim = 3}, dropout);
        check_backward((problem){.samples = 1, .side = 6, .window = 3, .shift = 1, .heads = 1, .dim = 70}, dropout);
    }
}

/* The gradient of a table is written when it is not added to. */
static void table_gradient_is_written(void **state)
{
    (void)state;
    problem p = {.samples = 1, .side = 4, .window = 2, .shift = 1, .heads = 1, .dim = 2};
    make(&p);
    run(&p);
    double *dqkv = random_values(3 * ctx_count(&p), 6), *added = random_values(table_count(&p), 7);
    double *written = random_values(table_count(&p), 7);
    for (int add = 0; add < 2; add++) {
        p.at.call.add = add != 0;
        OPS(&p.at, ops, GAL_OP_WINDOW_ATTENTION_BACKWARD, DIMS(1, 16, 1, 2, 4, 2, 1), p.weight, p.qkv, p.ctx, p.lse,
            p.table, dqkv, add != 0 ? added : written);
    }
    uint64_t state_before = 7;
    for (size_t i = 0; i < table_count(&p); i++) {
        assert_true(fabs(added[i] - ops_random(&state_before) - written[i]) < 1e-14);
    }
    free(dqkv);
    free(added);
    free(written);
    release(&p);
}

/* ---- merging, mean ---- */

/* 4 x 4 positions of one sample: number 4 row + column. */
static void merge_by_hand(void **state)
{
    (void)state;
    ops_case at;
    double x[16], y[16], back[16];
    const double expected[16] = {0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15};
    ops_case_init(&at);
    for (int i = 0; i < 16; i++) {
        x[i] = i;
    }
    OPS(&at, ops, GAL_OP_MERGE, DIMS(1, 16, 1, 4), x, y);
    assert_memory_equal(y, expected, sizeof y);
    OPS(&at, ops, GAL_OP_MERGE_BACKWARD, DIMS(1, 16, 1, 4), y, back);
    assert_memory_equal(back, x, sizeof x);
}

/* Two rows of a grid of side 4, two samples, three features: 100 position + 10 sample + feature. */
static void merge_of_a_chunk(void **state)
{
    (void)state;
    ops_case at;
    double x[8][2][3], y[2][2][4][3], back[8][2][3];
    const int from[2][4] = {{0, 4, 1, 5}, {2, 6, 3, 7}};
    ops_case_init(&at);
    for (int p = 0; p < 8; p++) {
        for (int i = 0; i < 6; i++) {
            const int sample = i / 3;
            x[p][sample][i % 3] = 100 * p + 10 * sample + i % 3;
        }
    }
    OPS(&at, ops, GAL_OP_MERGE, DIMS(2, 8, 3, 4), x, y);
    for (int i = 0; i < 48; i++) {
        const int position = i / 24, sample = i / 12 % 2, place = i / 3 % 4, feature = i % 3;
        assert_true(y[position][sample][place][feature] == 100 * from[position][place] + 10 * sample + feature);
    }
    OPS(&at, ops, GAL_OP_MERGE_BACKWARD, DIMS(2, 8, 3, 4), y, back);
    assert_memory_equal(back, x, sizeof x);
}

/* Two of four positions are here: (1 + 3) / 4, (2 + 6) / 4. */
static void mean_by_hand(void **state)
{
    (void)state;
    ops_case at;
    double x[] = {1.0, 2.0, 3.0, 6.0}, y[2], dx[4];
    ops_case_init(&at);
    OPS(&at, ops, GAL_OP_MEAN_POSITION, DIMS(1, 2, 2, 4), x, y);
    assert_true(y[0] == 1.0 && y[1] == 2.0);
    OPS(&at, ops, GAL_OP_MEAN_POSITION_BACKWARD, DIMS(1, 2, 2, 4), x, dx);
    assert_true(dx[0] == 0.25 && dx[1] == 0.5 && dx[2] == 0.25 && dx[3] == 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_by_definition),     cmocka_unit_test(backward_against_differences),
        cmocka_unit_test(table_gradient_is_written), cmocka_unit_test(merge_by_hand),
        cmocka_unit_test(merge_of_a_chunk),          cmocka_unit_test(mean_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
