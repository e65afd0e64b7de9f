/* Every operator with a backward pass against differences of its forward pass, in fp64.
 *
 * The objective is L = sum of weight * output. The five-point difference
 *   f' = (f(-2h) - 8 f(-h) + 8 f(h) - f(2h)) / 12h
 * is off by h^4 f5 / 30 (h = 1e-3: 3e-14 f5) and by rounding, about 1.5 eps |L| / h = 3e-13 |L|. The bound, 1e-8 of the
 * largest gradient entry, leaves room for L of some hundred entries and fifth derivatives of 1e4. */
#include <math.h>

#include "tests/support/ops_case.h"

static const double relative_bound = 1e-8;
static const gal_ops *const ops = &gal_ops_host_fp64;

typedef struct problem problem;
struct problem {
    ops_case at;
    const uint32_t *dims;
    uint32_t flags;
    double *a, *b, *c, *out, *extra; /* as each operator needs */
    const double *weight;
    int32_t *token, *lengths;
    size_t out_count;
    double (*objective)(problem *);
};

static double weighted(const problem *p)
{
    double sum = 0.0;
    for (size_t i = 0; i < p->out_count; i++) {
        sum += p->weight[i] * p->out[i];
    }
    return sum;
}

static double objective_at(problem *p, double *x, double value)
{
    const double kept = *x;
    *x = value;
    const double result = p->objective(p);
    *x = kept;
    return result;
}

/* Checks at most some 80 of the entries, spread evenly. */
static void check_gradient(problem *p, double *x, const double *gradient, size_t count)
{
    const double h = 1e-3;
    double largest = 0.0;
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(gradient[i]));
    }
    assert_true(largest > 0.0);
    for (size_t i = 0; i < count; i += 1 + count / 80) {
        const double difference = (objective_at(p, x + i, x[i] - 2 * h) - 8 * objective_at(p, x + i, x[i] - h) +
                                   8 * objective_at(p, x + i, x[i] + h) - objective_at(p, x + i, x[i] + 2 * h)) /
                                  (12 * h);
        if (!(fabs(difference - gradient[i]) <= relative_bound * largest)) {
            print_error("entry %zu: gradient %.17g, difference %.17g, largest %.3g\n", i, gradient[i], difference,
                        largest);
            fail();
        }
    }
}

static double *random_values(size_t count, uint64_t seed)
{
    double *values = calloc(count, sizeof *values);
    assert_non_null(values);
    ops_randomize(values, count, seed);
    return values;
}

/* gradient - before must be what is checked: tells an added gradient from a written one. */
static void subtract(double *gradient, const double *before, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        gradient[i] -= before[i];
    }
}

static double layer_norm_objective(problem *p)
{
    OPS(&p->at, ops, GAL_OP_LAYER_NORM, p->dims, p->a, p->b, p->c, p->out, p->extra);
    return weighted(p);
}

static void layer_norm_gradient(uint32_t rows, uint32_t hidden, bool with_addend)
{
    const size_t count = (size_t)rows * hidden;
    problem p = {.dims = DIMS(rows, hidden), .out_count = count, .objective = layer_norm_objective};
    ops_case_init(&p.at);
    p.a = random_values(count, 1);
    p.b = random_values(hidden, 2);
    p.c = random_values(hidden, 3);
    p.out = random_values(count, 4);
    p.extra = random_values(2 * (size_t)rows, 5);
    double *dy = random_values(count, 6), *dx = random_values(count, 7), *addend = random_values(count, 8);
    double *dgain = random_values(hidden, 9), *dbias = random_values(hidden, 9), *before = random_values(hidden, 9);
    p.weight = dy;
    (void)p.objective(&p);
    p.at.call.add = true;
    if (with_addend) {
        OPS(&p.at, ops, GAL_OP_LAYER_NORM_BACKWARD, DIMS(rows, hidden, 1), dy, p.a, p.b, p.extra, dx, dgain, dbias,
            addend);
        subtract(dx, addend, count);
    } else {
        OPS(&p.at, ops, GAL_OP_LAYER_NORM_BACKWARD, DIMS(rows, hidden, 0), dy, p.a, p.b, p.extra, dx, dgain, dbias);
    }
    subtract(dgain, before, hidden);
    subtract(dbias, before, hidden);
    check_gradient(&p, p.a, dx, count);
    check_gradient(&p, p.b, dgain, hidden);
    check_gradient(&p, p.c, dbias, hidden);
    double *all[] = {p.a, p.b, p.c, p.out, p.extra, dy, dx, addend, dgain, dbias, before};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]);
    }
}

static void layer_norm(void **state)
{
    (void)state;
    layer_norm_gradient(5, 13, false);
    layer_norm_gradient(3, 8, true);
    layer_norm_gradient(2, 300, false); /* more than one block of columns */
}

static double gemm_objective(problem *p)
{
    OPS(&p->at, ops, GAL_OP_GEMM, p->dims, p->a, p->b, p->out, p->c);
    return weighted(p);
}

/* Gradients as a program takes them, by products: dA = dC op(B)^T and dB = op(A)^T dC, transposed where A or B is. */
static void gemm_gradient(uint32_t flags)
{
    enum { M = 5, N = 7, K = 6 };
    double a[M * K], b[K * N], bias[N], c[M * N], dc[M * N], da[M * K], db[K * N], dbias[N];
    problem p = {.dims = DIMS(M, N, K, flags | GAL_GEMM_BIAS), .a = a, .b = b, .c = bias, .out = c, .weight = dc};
    p.out_count = M * N;
    p.objective = gemm_objective;
    ops_case_init(&p.at);
    ops_randomize(a, M * K, 1);
    ops_randomize(b, K * N, 2);
    ops_randomize(bias, N, 3);
    ops_randomize(dc, M * N, 4);
    const bool ta = (flags & GAL_GEMM_TRANSPOSE_A) != 0, tb = (flags & GAL_GEMM_TRANSPOSE_B) != 0;
    if (ta) {
        OPS(&p.at, ops, GAL_OP_GEMM, DIMS(K, M, N, GAL_GEMM_TRANSPOSE_B | (tb ? GAL_GEMM_TRANSPOSE_A : 0)), b, dc, da);
    } else {
        OPS(&p.at, ops, GAL_OP_GEMM, DIMS(M, K, N, tb ? 0 : GAL_GEMM_TRANSPOSE_B), dc, b, da);
    }
    if (tb) {
        OPS(&p.at, ops, GAL_OP_GEMM, DIMS(N, K, M, GAL_GEMM_TRANSPOSE_A | (ta ? GAL_GEMM_TRANSPOSE_B : 0)), dc, a, db);
    } else {
        OPS(&p.at, ops, GAL_OP_GEMM, DIMS(K, N, M, ta ? 0 : GAL_GEMM_TRANSPOSE_A), a, dc, db);
    }
    OPS(&p.at, ops, GAL_OP_BIAS_GRADIENT, DIMS(M, N), dc, dbias);
    check_gradient(&p, a, da, M * K);
    check_gradient(&p, b, db, K * N);
    check_gradient(&p, bias, dbias, N);
}

static void gemm(void **state)
{
    (void)state;
    for (uint32_t flags = 0; flags < 4; flags++) {
        gemm_gradient(flags);
    }
}

static double attention_objective(problem *p)
{
    ops_run(&p->at, ops, GAL_OP_ATTENTION, p->dims, p->lengths == NULL ? 3 : 4,
            (void *[]){p->a, p->out, p->extra, p->lengths});
    return weighted(p);
}

/* lengths: [samples], or NULL. */
static void padded_attention_gradient(uint32_t samples, uint32_t sequence, uint32_t heads, uint32_t kv_heads,
                                      uint32_t dim, double dropout, uint32_t flags, int32_t *lengths)
{
    const size_t positions = (size_t)samples * sequence, count = positions * heads * dim;
    const size_t qkv_count = positions * (heads + 2 * kv_heads) * dim;
    problem p = {.dims = DIMS(samples, sequence, heads, dim, kv_heads, flags),
                 .out_count = count,
                 .lengths = lengths,
                 .objective = attention_objective};
    ops_case_init(&p.at);
    p.at.model.sequence_length = sequence;
    p.at.model.head_count = 2 * heads;
    p.at.model.attention_dropout = dropout;
    p.at.call.group_index = 1;
    p.at.call.block = 3;
    p.a = random_values(qkv_count, 1);
    p.out = random_values(count, 2);
    p.extra = random_values((size_t)samples * heads * sequence, 3);
    double *dctx = random_values(count, 4), *dqkv = random_values(qkv_count, 5);
    for (size_t i = 0; i < qkv_count; i++) {
        p.a[i] *= 2.0;
    }
    p.weight = dctx;
    (void)p.objective(&p);
    ops_run(&p.at, ops, GAL_OP_ATTENTION_BACKWARD, p.dims, lengths == NULL ? 5 : 6,
            (void *[]){dctx, p.a, p.out, p.extra, dqkv, lengths});
    check_gradient(&p, p.a, dqkv, qkv_count);
    double *all[] = {p.a, p.out, p.extra, dctx, dqkv};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]);
    }
}

static void attention_gradient(uint32_t samples, uint32_t sequence, uint32_t heads, uint32_t kv_heads, uint32_t dim,
                               double dropout, uint32_t flags)
{
    padded_attention_gradient(samples, sequence, heads, kv_heads, dim, dropout, flags, NULL);
}

static void attention(void **state)
{
    (void)state;
    for (uint32_t with = 0; with < 4; with++) {
        const double dropout = with % 2 != 0 ? 0.25 : 0.0;
        const uint32_t flags = with < 2 ? GAL_ATTENTION_CAUSAL : 0;
        attention_gradient(2, 7, 2, 2, 5, dropout, flags);
        attention_gradient(1, 64, 1, 1, 8, dropout, flags);  /* exactly a tile */
        attention_gradient(1, 65, 2, 2, 3, dropout, flags);  /* a tile and one */
        attention_gradient(2, 150, 1, 1, 4, dropout, flags); /* three tiles, the last not whole */
        attention_gradient(1, 3, 1, 1, 256, dropout, flags);
        attention_gradient(2, 7, 6, 2, 5, dropout, flags); /* three heads share keys and values */
        attention_gradient(1, 70, 4, 1, 4, dropout, flags);
    }
}

/* Among the differences are those by keys and values behind the ends: zeros. */
static void padded_attention(void **state)
{
    (void)state;
    for (uint32_t with = 0; with < 2; with++) {
        const double dropout = with != 0 ? 0.25 : 0.0;
        padded_attention_gradient(2, 7, 2, 2, 5, dropout, 0, (int32_t[]){1, 6});
        padded_attention_gradient(2, 150, 1, 1, 4, dropout, 0, (int32_t[]){64, 65}); /* a tile; a tile and one */
        padded_attention_gradient(2, 7, 6, 2, 5, dropout, 0, (int32_t[]){3, 7});
    }
}

static double rms_norm_objective(problem *p)
{
    OPS(&p->at, ops, GAL_OP_RMS_NORM, p->dims, p->a, p->b, p->out, p->extra);
    return weighted(p);
}

static void rms_norm_gradient(uint32_t rows, uint32_t hidden, bool with_addend)
{
    const size_t count = (size_t)rows * hidden;
    problem p = {.dims = DIMS(rows, hidden), .out_count = count, .objective = rms_norm_objective};
    ops_case_init(&p.at);
    p.a = random_values(count, 1);
    p.b = random_values(hidden, 2);
    p.out = random_values(count, 4);
    p.extra = random_values(rows, 5);
    double *dy = random_values(count, 6), *dx = random_values(count, 7), *addend = random_values(count, 8);
    double *dgain = random_values(hidden, 9), *before = random_values(hidden, 9);
    p.weight = dy;
    (void)p.objective(&p);
    p.at.call.add = true;
    if (with_addend) {
        OPS(&p.at, ops, GAL_OP_RMS_NORM_BACKWARD, DIMS(rows, hidden, 1), dy, p.a, p.b, p.extra, dx, dgain, addend);
        subtract(dx, addend, count);
    } else {
        OPS(&p.at, ops, GAL_OP_RMS_NORM_BACKWARD, DIMS(rows, hidden, 0), dy, p.a, p.b, p.extra, dx, dgain);
    }
    subtract(dgain, before, hidden);
    check_gradient(&p, p.a, dx, count);
    check_gradient(&p, p.b, dgain, hidden);
    double *all[] = {p.a, p.b, p.out, p.extra, dy, dx, addend, dgain, before};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]);
    }
}

static void rms_norm(void **state)
{
    (void)state;
    rms_norm_gradient(5, 13, false);
    rms_norm_gradient(3, 8, true);
    rms_norm_gradient(2, 300, false); /* more than one block of columns */
}

static double rotary_objective(problem *p)
{
    memcpy(p->out, p->a, p->out_count * sizeof *p->out);
    OPS(&p->at, ops, GAL_OP_ROTARY, p->dims, p->out);
    return weighted(p);
}

/* Heads of 6 and of 520 (more pairs than are kept at a time); 2 of 3 are turned. */
static void rotary(void **state)
{
    (void)state;
    for (uint32_t dim = 6; dim <= 520; dim += 514) {
        enum { SAMPLES = 2, SEQUENCE = 3, TURNED = 2, HEADS = 3 };
        const size_t count = (size_t)SAMPLES * SEQUENCE * HEADS * dim;
        problem p = {.dims = DIMS(SAMPLES, SEQUENCE, TURNED, dim, HEADS * dim, 0), .out_count = count};
        p.objective = rotary_objective;
        ops_case_init(&p.at);
        p.at.model.rotary_base = 100.0;
        p.a = random_values(count, 1);
        p.out = random_values(count, 2);
        double *dy = random_values(count, 3), *dx = random_values(count, 3);
        p.weight = dy;
        OPS(&p.at, ops, GAL_OP_ROTARY, DIMS(SAMPLES, SEQUENCE, TURNED, dim, HEADS * dim, 1), dx);
        check_gradient(&p, p.a, dx, count);
        double *all[] = {p.a, p.out, dy, dx};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            free(all[i]);
        }
    }
}

static double gated_objective(problem *p)
{
    OPS(&p->at, ops, GAL_OP_GATED_ACTIVATION, p->dims, p->a, p->out);
    return weighted(p);
}

static void gated_activation(void **state)
{
    (void)state;
    enum { ROWS = 3, FEATURES = 17, COUNT = ROWS * FEATURES };
    for (uint32_t kind = 0; kind < GAL_ACTIVATION_COUNT; kind++) {
        double u[2 * COUNT], g[COUNT], dg[COUNT], du[2 * COUNT];
        problem p = {.dims = DIMS(ROWS, FEATURES, kind), .a = u, .out = g, .weight = dg, .out_count = COUNT};
        p.objective = gated_objective;
        ops_case_init(&p.at);
        ops_randomize(dg, COUNT, 1);
        for (int i = 0; i < 2 * COUNT; i++) {
            u[i] = 0.1 * (i % 61 - 30) + 0.05; /* never within 2h of the corner of relu */
        }
        OPS(&p.at, ops, GAL_OP_GATED_ACTIVATION_BACKWARD, p.dims, dg, u, du);
        check_gradient(&p, u, du, 2 * COUNT);
    }
}

static double activation_objective(problem *p)
{
    OPS(&p->at, ops, GAL_OP_ACTIVATION, p->dims, p->a, p->out);
    return weighted(p);
}

static void activation(void **state)
{
    (void)state;
    enum { COUNT = 61 };
    for (uint32_t kind = 0; kind < GAL_ACTIVATION_COUNT; kind++) {
        double u[COUNT], g[COUNT], dg[COUNT], du[COUNT];
        problem p = {.dims = DIMS(COUNT, kind), .a = u, .out = g, .weight = dg, .out_count = COUNT};
        p.objective = activation_objective;
        ops_case_init(&p.at);
        ops_randomize(dg, COUNT, 1);
        for (int i = 0; i < COUNT; i++) {
            u[i] = 0.2 * (i - 30) + 0.05; /* -5.95 ... 6.05, never within 2h of the corner of relu */
        }
        OPS(&p.at, ops, GAL_OP_ACTIVATION_BACKWARD, p.dims, dg, u, du);
        check_gradient(&p, u, du, COUNT);
    }
}

static double residual_objective(problem *p)
{
    OPS(&p->at, ops, GAL_OP_RESIDUAL, p->dims, p->a, p->b, p->out, p->c);
    return weighted(p);
}

static void residual(void **state)
{
    (void)state;
    enum { SAMPLES = 2, POSITIONS = 3, HIDDEN = 301, COUNT = SAMPLES * POSITIONS * HIDDEN };
    static double x[COUNT], o[COUNT], bias[HIDDEN], y[COUNT], dy[COUNT], d_o[COUNT], dbias[HIDDEN];
    for (int with = 0; with < 4; with++) {
        const bool has_bias = with >= 2;
        problem p = {
            .dims = DIMS(SAMPLES, POSITIONS, HIDDEN, has_bias), .a = x, .b = o, .c = bias, .out = y, .weight = dy};
        p.out_count = COUNT;
        p.objective = residual_objective;
        ops_case_init(&p.at);
        p.at.model.sequence_length = 9;
        p.at.model.residual_dropout = with % 2 != 0 ? 0.4 : 0.0;
        p.at.call.position_begin = 3;
        ops_randomize(x, COUNT, 1);
        ops_randomize(o, COUNT, 2);
        ops_randomize(bias, HIDDEN, 3);
        ops_randomize(dy, COUNT, 4);
        OPS(&p.at, ops, GAL_OP_DROPOUT, p.dims, dy, d_o);
        OPS(&p.at, ops, GAL_OP_BIAS_GRADIENT, DIMS(SAMPLES * POSITIONS, HIDDEN), d_o, dbias);
        check_gradient(&p, x, dy, COUNT);
        check_gradient(&p, o, d_o, COUNT);
        if (has_bias) {
            check_gradient(&p, bias, dbias, HIDDEN);
        }
    }
}

static double embed_objective(problem *p)
{
    OPS(&p->at, ops, GAL_OP_EMBED, p->dims, p->token, p->a, p->out);
    return weighted(p);
}

static void embed(void **state)
{
    (void)state;
    enum { SAMPLES = 2, SEQUENCE = 5, HIDDEN = 4, LOCAL = 6, ROWS = SAMPLES * SEQUENCE };
    int32_t token[ROWS] = {6, 11, 6, 0, 7, 12, 9, 6, 5, 10}; /* 6 to 11 are local on the second rank of the group */
    double table[LOCAL * HIDDEN], e[ROWS * HIDDEN], de[ROWS * HIDDEN];
    double dtable[LOCAL * HIDDEN], before[LOCAL * HIDDEN];
    problem p = {.dims = DIMS(SAMPLES, SEQUENCE, HIDDEN, LOCAL), .a = table, .token = token, .out = e, .weight = de};
    p.out_count = ROWS * HIDDEN;
    p.objective = embed_objective;
    ops_case_init(&p.at);
    p.at.call.group_index = 1;
    p.at.call.group_count = 2;
    ops_randomize(table, LOCAL * HIDDEN, 1);
    ops_randomize(de, ROWS * HIDDEN, 2);
    ops_randomize(dtable, LOCAL * HIDDEN, 3);
    ops_randomize(before, LOCAL * HIDDEN, 3);
    OPS(&p.at, ops, GAL_OP_EMBED_BACKWARD, p.dims, token, de, dtable);
    check_gradient(&p, table, dtable, LOCAL * HIDDEN);
    memcpy(dtable, before, sizeof dtable);
    p.at.call.add = true;
    OPS(&p.at, ops, GAL_OP_EMBED_BACKWARD, p.dims, token, de, dtable);
    subtract(dtable, before, LOCAL * HIDDEN);
    check_gradient(&p, table, dtable, LOCAL * HIDDEN);
}

static double position_objective(problem *p)
{
    OPS(&p->at, ops, GAL_OP_POSITION, p->dims, p->a, p->b, p->out, p->c);
    return weighted(p);
}

/* types, or a class token if it is at this rank's first position, or neither. */
static void position_gradient(bool dropout, uint32_t types, uint32_t class_token, uint32_t position_begin)
{
    enum { SAMPLES = 2, LOCAL = 3, HIDDEN = 6, SEQUENCE = 8, COUNT = SAMPLES * LOCAL * HIDDEN };
    double more[2 * HIDDEN], dmore[2 * HIDDEN], before[2 * HIDDEN];
    double e[COUNT], table[SEQUENCE * HIDDEN], y[COUNT], dy[COUNT], de[COUNT], dtable[SEQUENCE * HIDDEN];
    problem p = {.dims = DIMS(SAMPLES, LOCAL, HIDDEN, SEQUENCE, types, class_token), .a = e, .b = table, .out = y};
    p.c = more;
    p.weight = dy;
    p.out_count = COUNT;
    p.objective = position_objective;
    ops_case_init(&p.at);
    p.at.model.sequence_length = SEQUENCE;
    p.at.model.embedding_dropout = dropout ? 0.3 : 0.0;
    p.at.call.position_begin = position_begin;
    p.at.sample_map[1] = 5;
    ops_randomize(e, COUNT, 1);
    ops_randomize(table, SEQUENCE * HIDDEN, 2);
    ops_randomize(dy, COUNT, 3);
    ops_randomize(dtable, SEQUENCE * HIDDEN, 4);
    ops_randomize(more, 2 * HIDDEN, 5);
    ops_randomize(dmore, 2 * HIDDEN, 6);
    OPS(&p.at, ops, GAL_OP_POSITION_BACKWARD, p.dims, dy, de, dtable, dmore);
    check_gradient(&p, e, de, COUNT);                     /* of the class token's rows: 0 */
    check_gradient(&p, table, dtable, SEQUENCE * HIDDEN); /* also positions of other ranks: their gradient is 0 */
    if (types > 0 || (class_token != 0 && position_begin == 0)) {
        check_gradient(&p, more, dmore, (size_t)(types + class_token) * HIDDEN);
    } else if (class_token != 0) { /* it is on another rank */
        for (size_t i = 0; i < HIDDEN; i++) {
            assert_true(dmore[i] == 0.0);
        }
    }
    memcpy(before, dmore, sizeof before);
    p.at.call.add = true;
    OPS(&p.at, ops, GAL_OP_POSITION_BACKWARD, p.dims, dy, de, dtable, dmore);
    for (size_t i = 0; i < (size_t)(types + class_token) * HIDDEN; i++) { /* twice, but for the order of 6 sums */
        assert_true(fabs(dmore[i] - 2.0 * before[i]) <= 1e-14);
    }
}

static void position(void **state)
{
    (void)state;
    for (int dropout = 0; dropout < 2; dropout++) {
        position_gradient(dropout != 0, 0, 0, 4);
        position_gradient(dropout != 0, 2, 0, 4);
        position_gradient(dropout != 0, 0, 1, 0);
        position_gradient(dropout != 0, 0, 1, 4);
    }
}

static double first_position_objective(problem *p)
{
    OPS(&p->at, ops, GAL_OP_FIRST_POSITION, p->dims, p->a, p->out);
    return weighted(p);
}

static void first_position(void **state)
{
    (void)state;
    enum { SAMPLES = 2, LOCAL = 3, FEATURES = 5, COUNT = SAMPLES * LOCAL * FEATURES };
    double x[COUNT], dx[COUNT], y[SAMPLES * FEATURES], dy[SAMPLES * FEATURES];
    problem p = {.dims = DIMS(SAMPLES, LOCAL, FEATURES), .a = x, .out = y, .weight = dy};
    p.out_count = SAMPLES * FEATURES;
    p.objective = first_position_objective;
    ops_case_init(&p.at);
    ops_randomize(x, COUNT, 1);
    ops_randomize(dy, p.out_count, 2);
    OPS(&p.at, ops, GAL_OP_FIRST_POSITION_BACKWARD, p.dims, dy, dx);
    check_gradient(&p, x, dx, COUNT);
    p.at.call.position_begin = LOCAL; /* another rank has position 0 */
    assert_true(p.objective(&p) == 0.0);
    OPS(&p.at, ops, GAL_OP_FIRST_POSITION_BACKWARD, p.dims, dy, dx);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(dx[i] == 0.0);
    }
}

/* Two halves of a vocabulary of 5, padded to 8 or to 12: with 12 the second half is padding alone. */
typedef struct entropy_split {
    uint32_t samples, sequence, local, vocabulary;
    double max[2][8], sums[2][16];
} entropy_split;

static void entropy_forward(problem *p, entropy_split *split)
{
    const uint32_t rows = split->samples * split->sequence;
    double *half[2] = {p->a, p->b};
    for (uint32_t g = 0; g < 2; g++) {
        p->at.call.group_index = g;
        OPS(&p->at, ops, GAL_OP_CROSS_ENTROPY_MAX, DIMS(rows, split->local, split->vocabulary), half[g], split->max[g]);
    }
    for (uint32_t i = 0; i < rows; i++) { /* the all-reduces between the ranks */
        split->max[0][i] = split->max[1][i] = fmax(split->max[0][i], split->max[1][i]);
    }
    for (uint32_t g = 0; g < 2; g++) {
        p->at.call.group_index = g;
        OPS(&p->at, ops, GAL_OP_CROSS_ENTROPY_SUM,
            DIMS(split->samples, split->sequence, split->local, split->vocabulary), half[g], split->max[g], p->token,
            split->sums[g]);
    }
    for (uint32_t i = 0; i < 2 * rows; i++) {
        split->sums[0][i] = split->sums[1][i] = split->sums[0][i] + split->sums[1][i];
    }
}

static double entropy_objective(problem *p)
{
    entropy_split split = {
        .samples = p->dims[0], .sequence = p->dims[1], .local = p->dims[2], .vocabulary = p->dims[3]};
    double loss[2] = {0.0, 0.0};
    entropy_forward(p, &split);
    OPS(&p->at, ops, GAL_OP_CROSS_ENTROPY_LOSS, DIMS(split.samples * split.sequence), split.sums[0], loss);
    return loss[0] * p->at.step.loss_scale;
}

static void entropy_gradient(uint32_t local, bool masked)
{
    enum { SAMPLES = 2, SEQUENCE = 3, ROWS = SAMPLES * SEQUENCE, VOCABULARY = 5, MOST = 8 };
    int32_t target[ROWS] = {0, 4, masked ? -1 : 2, 3, masked ? -1 : 3, 1}; /* [sample][position] */
    double low[ROWS * MOST], high[ROWS * MOST], dlow[ROWS * MOST], dhigh[ROWS * MOST];
    const size_t count = (size_t)ROWS * local;
    problem p = {.dims = DIMS(SAMPLES, SEQUENCE, local, VOCABULARY), .a = low, .b = high, .token = target};
    entropy_split split = {.samples = SAMPLES, .sequence = SEQUENCE, .local = local, .vocabulary = VOCABULARY};
    p.objective = entropy_objective;
    ops_case_init(&p.at);
    p.at.step.loss_scale = 1.0 / ROWS;
    ops_randomize(low, count, 1);
    ops_randomize(high, count, 2);
    entropy_forward(&p, &split);
    memcpy(dlow, low, count * sizeof *low);
    memcpy(dhigh, high, count * sizeof *high);
    p.at.call.group_index = 0;
    OPS(&p.at, ops, GAL_OP_CROSS_ENTROPY_BACKWARD, p.dims, dlow, split.max[0], split.sums[0], target);
    p.at.call.group_index = 1;
    OPS(&p.at, ops, GAL_OP_CROSS_ENTROPY_BACKWARD, p.dims, dhigh, split.max[0], split.sums[0], target);
    check_gradient(&p, low, dlow, count);
    if (local < VOCABULARY) {
        check_gradient(&p, high, dhigh, count);
    }
    for (size_t i = 0; i < count; i++) { /* padding */
        const size_t row = i / local;
        const bool without_target = target[row % SAMPLES * SEQUENCE + row / SAMPLES] < 0;
        if (without_target || i % local + local >= VOCABULARY) {
            assert_true(dhigh[i] == 0.0);
        }
        if (without_target) {
            assert_true(dlow[i] == 0.0);
        }
    }
}

static void cross_entropy(void **state)
{
    (void)state;
    entropy_gradient(4, false);
    entropy_gradient(6, false);
    entropy_gradient(4, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layer_norm),     cmocka_unit_test(gemm),
        cmocka_unit_test(attention),      cmocka_unit_test(padded_attention),
        cmocka_unit_test(activation),     cmocka_unit_test(residual),
        cmocka_unit_test(embed),          cmocka_unit_test(position),
        cmocka_unit_test(cross_entropy),  cmocka_unit_test(rms_norm),
        cmocka_unit_test(rotary),         cmocka_unit_test(gated_activation),
        cmocka_unit_test(first_position),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
