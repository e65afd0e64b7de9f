/* Ring self-attention as Colossal-AI has it (S. Li et al., "Sequence parallelism: long sequence training from system
 * perspective", 2021; the paper's section III-B, Figure 8), as a reference to hold ours against: keys pass round once
 * for all scores of a chunk's queries, whose softmax is then local, and values once for the context. Backward values
 * pass round again, keys too, and the gradients of both, made for all positions at once, are summed and scattered.
 * Scores are stored, which ours (emit_ring.c) never does.
 *
 * Played here member by member in fp64, against attention of the whole; and the elements that every member receives:
 * M = b (s / N) h of each of 2 (N - 1) hops forward, of 2 (N - 1) backward, and (N - 1) M of each reduce-scatter. */
#include <math.h>

#include "tests/support/ops_case.h"

static const gal_ops *const ops = &gal_ops_host_fp64;
static const double relative_bound = 1e-10; /* as of plans against one device */

typedef struct problem {
    size_t samples, sequence, heads, dim, members;
    bool causal;
    size_t chunk, hidden, rows;             /* positions of a member; heads * dim; samples * sequence */
    double *qkv, *ctx, *lse, *dctx, *dqkv;  /* of the whole: [position][sample][...] */
    double *q, *k, *v, *out, *dq, *dk, *dv; /* [position][sample][hidden]: a member's chunk is consecutive */
    double *held, *passed;                  /* what every member has of keys or values, and what it is sent */
    double *probability, *slope;            /* [sample][head][query][key] of all members */
    size_t received;                        /* elements that a member has been sent */
} problem;

static double *numbers(size_t count)
{
    double *x = calloc(count, sizeof *x);
    assert_non_null(x);
    return x;
}

static size_t score_count(const problem *p)
{
    return p->samples * p->heads * p->sequence * p->sequence;
}

static double *score(const problem *p, double *scores, size_t sample, size_t head, size_t query)
{
    return scores + ((sample * p->heads + head) * p->sequence + query) * p->sequence;
}

static double *row(const problem *p, double *rows, size_t position, size_t sample, size_t head)
{
    return rows + (position * p->samples + sample) * p->hidden + head * p->dim;
}

static double dot(const double *a, const double *b, size_t count)
{
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

static void add_scaled(double *to, double scale, const double *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        to[i] += scale * from[i];
    }
}

/* What is done with the key or value of `key`, held at `at` in p->held, for one query. */
typedef void visit(const problem *p, size_t sample, size_t head, size_t query, size_t key, const double *at);

static void pass_on(problem *p)
{
    const size_t share = p->chunk * p->samples * p->hidden;
    for (size_t r = 0; r < p->members; r++) {
        memcpy(p->passed + (r + 1) % p->members * share, p->held + r * share, share * sizeof *p->held);
    }
    memcpy(p->held, p->passed, p->members * share * sizeof *p->held);
    p->received += share;
}

/* N steps and N - 1 hops: in step m member r has the chunk of (r - m) mod N. */
static void go_round(problem *p, const double *rows, visit *each)
{
    memcpy(p->held, rows, p->rows * p->hidden * sizeof *rows);
    for (size_t step = 0; step < p->members; step++) {
        for (size_t i = 0; i < p->samples * p->heads * p->sequence * p->chunk; i++) {
            const size_t at = i % p->chunk, query = i / p->chunk % p->sequence;
            const size_t head = i / p->chunk / p->sequence % p->heads, sample = i / p->chunk / p->sequence / p->heads;
            const size_t member = query / p->chunk, owner = (member + p->members - step) % p->members;
            each(p, sample, head, query, owner * p->chunk + at, row(p, p->held, member * p->chunk + at, sample, head));
        }
        if (step + 1 < p->members) {
            pass_on(p);
        }
    }
}

static void score_key(const problem *p, size_t sample, size_t head, size_t query, size_t key, const double *at)
{
    const bool seen = !p->causal || key <= query;
    score(p, p->probability, sample, head, query)[key] =
        seen ? dot(row(p, p->q, query, sample, head), at, p->dim) / sqrt((double)p->dim) : -INFINITY;
}

static void add_value(const problem *p, size_t sample, size_t head, size_t query, size_t key, const double *at)
{
    add_scaled(row(p, p->out, query, sample, head), score(p, p->probability, sample, head, query)[key], at, p->dim);
}

/* dO V^T, then P (. - sum). */
static void slope_value(const problem *p, size_t sample, size_t head, size_t query, size_t key, const double *at)
{
    const size_t offset = (query * p->samples + sample) * p->hidden + head * p->dim;
    score(p, p->slope, sample, head, query)[key] = dot(p->dctx + offset, at, p->dim);
}

static void add_query_gradient(const problem *p, size_t sample, size_t head, size_t query, size_t key, const double *at)
{
    add_scaled(row(p, p->dq, query, sample, head), score(p, p->slope, sample, head, query)[key] / sqrt((double)p->dim),
               at, p->dim);
}

static void softmax(const problem *p)
{
    for (size_t line = 0; line < p->samples * p->heads * p->sequence; line++) {
        double *x = p->probability + line * p->sequence, largest = -INFINITY, sum = 0.0;
        for (size_t i = 0; i < p->sequence; i++) {
            largest = fmax(largest, x[i]);
        }
        for (size_t i = 0; i < p->sequence; i++) {
            x[i] = exp(x[i] - largest);
            sum += x[i];
        }
        for (size_t i = 0; i < p->sequence; i++) {
            x[i] /= sum;
        }
    }
}

static void softmax_backward(const problem *p)
{
    for (size_t line = 0; line < p->samples * p->heads * p->sequence; line++) {
        const double *x = p->probability + line * p->sequence;
        double *slope = p->slope + line * p->sequence;
        const double mean = dot(x, slope, p->sequence);
        for (size_t i = 0; i < p->sequence; i++) {
            slope[i] = x[i] * (slope[i] - mean);
        }
    }
}

/* Every member makes its queries' part for all positions; the parts are summed and every member takes its chunk. */
static void reduce_scatter(problem *p, const double *weight, double scale, double *from, double *out)
{
    for (size_t r = 0; r < p->members; r++) {
        double *part = numbers(p->rows * p->hidden);
        for (size_t i = 0; i < p->samples * p->heads * p->chunk * p->sequence; i++) {
            const size_t key = i % p->sequence, query = r * p->chunk + i / p->sequence % p->chunk;
            const size_t head = i / p->sequence / p->chunk % p->heads, sample = i / p->sequence / p->chunk / p->heads;
            const double *line = weight + ((sample * p->heads + head) * p->sequence + query) * p->sequence;
            add_scaled(row(p, part, key, sample, head), scale * line[key], row(p, from, query, sample, head), p->dim);
        }
        add_scaled(out, 1.0, part, p->rows * p->hidden);
        free(part);
    }
    p->received += (p->members - 1) * p->chunk * p->samples * p->hidden;
}

static void forward(problem *p)
{
    go_round(p, p->k, score_key);
    softmax(p);
    go_round(p, p->v, add_value);
}

static void backward(problem *p)
{
    go_round(p, p->v, slope_value);
    reduce_scatter(p, p->probability, 1.0, p->dctx, p->dv);
    softmax_backward(p);
    go_round(p, p->k, add_query_gradient);
    reduce_scatter(p, p->slope, 1.0 / sqrt((double)p->dim), p->q, p->dk);
}

static void create(problem *p)
{
    p->chunk = p->sequence / p->members;
    p->hidden = p->heads * p->dim;
    p->rows = p->samples * p->sequence;
    const size_t entries = p->rows * p->hidden;
    double **of_rows[] = {&p->ctx, &p->dctx, &p->q,  &p->k,    &p->v,     &p->out,
                          &p->dq,  &p->dk,   &p->dv, &p->held, &p->passed};
    for (size_t i = 0; i < sizeof of_rows / sizeof of_rows[0]; i++) {
        *of_rows[i] = numbers(entries);
    }
    p->qkv = numbers(3 * entries);
    p->dqkv = numbers(3 * entries);
    p->lse = numbers(p->rows * p->heads);
    p->probability = numbers(score_count(p));
    p->slope = numbers(score_count(p));
    ops_randomize(p->qkv, 3 * entries, 1);
    ops_randomize(p->dctx, entries, 2);
    for (size_t i = 0; i < p->rows; i++) {
        memcpy(p->q + i * p->hidden, p->qkv + i * 3 * p->hidden, p->hidden * sizeof *p->q);
        memcpy(p->k + i * p->hidden, p->qkv + (i * 3 + 1) * p->hidden, p->hidden * sizeof *p->k);
        memcpy(p->v + i * p->hidden, p->qkv + (i * 3 + 2) * p->hidden, p->hidden * sizeof *p->v);
    }
}

static void destroy(problem *p)
{
    double *all[] = {p->ctx, p->dctx, p->q,      p->k,   p->v,    p->out, p->dq,          p->dk,
                     p->dv,  p->held, p->passed, p->qkv, p->dqkv, p->lse, p->probability, p->slope};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i]);
    }
}

/* Rows of `stride` entries, of which the first count are wanted. */
static void expect_near(const double *got, const double *wanted, size_t rows, size_t count, size_t stride)
{
    double largest = 0.0, error = 0.0;
    for (size_t i = 0; i < rows * count; i++) {
        const double want = wanted[i / count * stride + i % count];
        largest = fmax(largest, fabs(want));
        error = isnan(got[i]) ? INFINITY : fmax(error, fabs(got[i] - want));
    }
    assert_true(error <= relative_bound * largest);
}

static void check(problem p)
{
    ops_case at;
    create(&p);
    ops_case_init(&at);
    at.model.head_count = (uint32_t)p.heads;
    at.model.sequence_length = (uint32_t)p.sequence;
    const uint32_t *dims = DIMS((uint32_t)p.samples, (uint32_t)p.sequence, (uint32_t)p.heads, (uint32_t)p.dim,
                                (uint32_t)p.heads, p.causal ? GAL_ATTENTION_CAUSAL : 0);
    OPS(&at, ops, GAL_OP_ATTENTION, dims, p.qkv, p.ctx, p.lse);
    OPS(&at, ops, GAL_OP_ATTENTION_BACKWARD, dims, p.dctx, p.qkv, p.ctx, p.lse, p.dqkv);
    const size_t share = p.samples * p.chunk * p.hidden;
    forward(&p);
    assert_int_equal(p.received, 2 * (p.members - 1) * share);
    p.received = 0;
    backward(&p);
    assert_int_equal(p.received, 4 * (p.members - 1) * share);
    expect_near(p.out, p.ctx, p.rows, p.hidden, p.hidden);
    expect_near(p.dq, p.dqkv, p.rows, p.hidden, 3 * p.hidden);
    expect_near(p.dk, p.dqkv + p.hidden, p.rows, p.hidden, 3 * p.hidden);
    expect_near(p.dv, p.dqkv + 2 * p.hidden, p.rows, p.hidden, 3 * p.hidden);
    destroy(&p);
}

static void of_all(void **state)
{
    (void)state;
    for (size_t members = 1; members <= 12; members += members < 4 ? 1 : 4) {
        check((problem){.samples = 2, .sequence = 24, .heads = 2, .dim = 4, .members = members});
    }
}

static void causal(void **state)
{
    (void)state;
    for (size_t members = 1; members <= 12; members += members < 4 ? 1 : 4) {
        check((problem){.samples = 1, .sequence = 24, .heads = 3, .dim = 5, .members = members, .causal = true});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_all), cmocka_unit_test(causal)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
