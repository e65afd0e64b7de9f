#include "planner/certificate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/certificate_chain.h"

enum { TIGHTENINGS = 80, WEIGHTS = 16 /* of the tail: multiples of 1/16 */ };

/* A cut up to a stage. */
typedef struct label {
    double slowest, sum;
    uint32_t begin, end; /* of its last stage */
    uint32_t parent;
} label;

typedef struct prover {
    gal_cert_tables t;
    gal_cert_chains chains;
    double *rest_slowest, *rest_sum; /* [stage][block] at least, from there on */
    uint32_t *furthest;              /* [kind][block] beyond it no chain from there ends, for it takes enough */
    label *label;
    size_t label_count, label_room;
} prover;

static gal_code no_memory(const prover *v)
{
    return gal_fail(v->t.err, GAL_ERR_SYSTEM, "not enough memory to verify");
}

static uint32_t chain_at(const prover *v, uint32_t begin, uint32_t end)
{
    return v->t.chain_of[(size_t)begin * (v->t.blocks + 1) + end];
}

static gal_cert_kind *kind_at(prover *v, uint32_t stage)
{
    return &v->t.kind[v->t.kind_of[stage]];
}

/* ---- cuts ---- */

static double bound_of(const prover *v, double slowest, double sum)
{
    const double rounds = v->t.stages == 1 ? 0.0 : v->t.cell->microbatch_count - 1.0;
    return rounds * fmax(slowest, 0.0) + sum + v->t.common_seconds;
}

static size_t place(const prover *v, uint32_t stage, uint32_t block)
{
    return (size_t)stage * (v->t.blocks + 1) + block;
}

/* What blocks take wherever they are, and ends of stages: no cut has a lower sum of rounds, or of what is added. */
static double least_sum(prover *v, bool added)
{
    double sum = 0.0;
    double first = 0.0;
    double last = 0.0;
    double any[GAL_CERT_SORTS_MAX];
    for (uint32_t of = 0; of < v->t.sort_count; of++) {
        any[of] = HUGE_VAL;
        for (uint32_t i = 0; i < v->t.kind_count; i++) {
            gal_cert_kind *k = &v->t.kind[i];
            gal_cert_table *t = added ? &k->added : &k->round;
            gal_cert_chain_line(&v->chains, k, t);
            any[of] = fmin(any[of], t->any[of]);
            for (uint32_t j = 0; j < t->menu[of].count; j++) {
                first = fmin(first, t->menu[of].item[j].first_seconds);
                last = fmin(last, t->menu[of].item[j].last_seconds);
            }
        }
    }
    for (uint32_t b = 0; b < v->t.blocks; b++) {
        sum += any[v->t.sort_of[b]];
    }
    return sum + v->t.stages * (first + last);
}

/* Of tables in which longer chains take longer. */
static void look_how_far(prover *v, double sum, double enough)
{
    for (uint32_t i = 0; i < v->t.kind_count; i++) {
        const gal_cert_table *t = &v->t.kind[i].round;
        double first = HUGE_VAL;
        double last = HUGE_VAL;
        bool rises = true;
        for (uint32_t pair = 0; pair < v->t.pair_count; pair++) {
            rises = rises && t->pair[pair] >= 0.0;
        }
        for (uint32_t of = 0; of < v->t.sort_count; of++) {
            first = fmin(first, t->first[of]);
            last = fmin(last, t->last[of]);
        }
        for (uint32_t b = 0; b < v->t.blocks; b++) {
            double own = first + last;
            uint32_t e = b + 1;
            for (; e < v->t.blocks && !(rises && bound_of(v, own, sum) >= enough); e++) {
                own += t->pair[v->t.pair_of[e]];
            }
            v->furthest[(size_t)i * v->t.blocks + b] = e;
        }
    }
}

static uint32_t last_end(const prover *v, uint32_t stage, uint32_t begin)
{
    const uint32_t far = v->furthest[(size_t)v->t.kind_of[stage] * v->t.blocks + begin];
    const uint32_t most = v->t.blocks - (v->t.stages - 1 - stage);
    return far < most ? far : most;
}

/* What stages from `stage` on take at least with the blocks from each on, bytes ignored. */
static void look_ahead(prover *v)
{
    const uint32_t blocks = v->t.blocks;
    for (size_t i = 0; i < place(v, v->t.stages + 1, 0); i++) {
        v->rest_slowest[i] = v->rest_sum[i] = HUGE_VAL;
    }
    v->rest_slowest[place(v, v->t.stages, blocks)] = v->rest_sum[place(v, v->t.stages, blocks)] = 0.0;
    for (uint32_t p = v->t.stages; p-- > 0;) {
        gal_cert_kind *k = kind_at(v, p);
        for (uint32_t b = p; b < blocks; b++) {
            double *slowest = &v->rest_slowest[place(v, p, b)];
            double *sum = &v->rest_sum[place(v, p, b)];
            for (uint32_t e = b + 1; e <= last_end(v, p, b); e++) {
                if (v->rest_sum[place(v, p + 1, e)] == HUGE_VAL) {
                    continue;
                }
                const uint32_t c = chain_at(v, b, e);
                *slowest = fmin(*slowest, fmax(gal_cert_chain_least(&v->chains, k, &k->round, c, GAL_CERT_FREE),
                                               v->rest_slowest[place(v, p + 1, e)]));
                *sum = fmin(*sum, gal_cert_chain_least(&v->chains, k, &k->added, c, GAL_CERT_FREE) +
                                      v->rest_sum[place(v, p + 1, e)]);
            }
        }
    }
}

static double bound_ahead(const prover *v, uint32_t stage, uint32_t block, double slowest, double sum)
{
    return bound_of(v, fmax(slowest, v->rest_slowest[place(v, stage, block)]),
                    sum + v->rest_sum[place(v, stage, block)]);
}

/* The cut one stage on, unless it takes enough. */
static gal_code extend(prover *v, uint32_t from, uint32_t stage, uint32_t end, double enough)
{
    const label *at = &v->label[from];
    gal_cert_kind *k = kind_at(v, stage);
    const uint32_t c = chain_at(v, at->end, end);
    label next = {.begin = at->end, .end = end, .parent = from};
    for (gal_cert_proof with = GAL_CERT_FREE; with <= GAL_CERT_PRICED; with++) {
        next.slowest = fmax(at->slowest, gal_cert_chain_least(&v->chains, k, &k->round, c, with));
        next.sum = at->sum + gal_cert_chain_least(&v->chains, k, &k->added, c, with);
        if (!(bound_ahead(v, stage + 1, end, next.slowest, next.sum) < enough)) {
            return GAL_OK;
        }
    }
    if (v->label_count == v->label_room) {
        label *grown = realloc(v->label, 2 * v->label_room * sizeof *grown);
        if (grown == NULL) {
            return no_memory(v);
        }
        v->label = grown;
        v->label_room *= 2;
    }
    v->label[v->label_count++] = next;
    return GAL_OK;
}

static int by_end(const void *x, const void *y)
{
    const label *a = x;
    const label *b = y;
    if (a->end != b->end) {
        return a->end < b->end ? -1 : 1;
    }
    if (a->slowest != b->slowest) {
        return a->slowest < b->slowest ? -1 : 1;
    }
    return a->sum < b->sum ? -1 : a->sum > b->sum;
}

static void drop_beaten(prover *v, size_t first)
{
    size_t kept = first;
    qsort(v->label + first, v->label_count - first, sizeof *v->label, by_end);
    for (size_t i = first; i < v->label_count; i++) {
        if (i == first || v->label[i].end != v->label[kept - 1].end || v->label[i].sum < v->label[kept - 1].sum) {
            v->label[kept++] = v->label[i];
        }
    }
    v->label_count = kept;
}

/* The cut that takes least, if less than enough; label_count: none does. */
static gal_code find_cut(prover *v, double enough, size_t *found)
{
    gal_code code = GAL_OK;
    size_t first = 0;
    look_ahead(v);
    v->label[0] = (label){0};
    v->label_count = 1;
    for (uint32_t p = 0; p < v->t.stages; p++) {
        const size_t behind = v->label_count;
        for (size_t i = first; i < behind; i++) {
            for (uint32_t e = v->label[i].end + 1; e <= last_end(v, p, v->label[i].end); e++) {
                GAL_TRY(extend(v, (uint32_t)i, p, e, enough));
            }
        }
        drop_beaten(v, behind);
        first = behind;
    }
    *found = v->label_count;
    for (size_t i = first; i < v->label_count; i++) {
        if (*found == v->label_count || bound_of(v, v->label[i].slowest, v->label[i].sum) <
                                            bound_of(v, v->label[*found].slowest, v->label[*found].sum)) {
            *found = i;
        }
    }
cleanup:
    return code;
}

/* The slowest stage of the cut in whole blocks. *more: something new may be known. */
static gal_code tighten(prover *v, size_t cut, double enough, bool *more)
{
    const bool one = v->t.stages == 1;
    const double even = one ? enough - v->t.common_seconds : enough / (v->t.cell->microbatch_count + v->t.stages - 1.0);
    gal_cert_table *table = NULL;
    uint32_t chain = 0;
    uint32_t at = (uint32_t)cut;
    for (uint32_t p = v->t.stages; p-- > 0; at = v->label[at].parent) {
        gal_cert_kind *k = kind_at(v, p);
        gal_cert_table *own = one ? &k->added : &k->round;
        const uint32_t c = chain_at(v, v->label[at].begin, v->label[at].end);
        if (own->proof[c] < GAL_CERT_WHOLE && v->label[at].end - v->label[at].begin > 1 &&
            (table == NULL || own->least[c] > table->least[chain])) {
            table = own;
            chain = c;
        }
    }
    *more = table != NULL;
    if (!*more) {
        return GAL_OK;
    }
    const double cutoff = one ? even * (1.0 + 1e-12) : fmax(even, 1.02 * table->least[chain]);
    return gal_cert_chain_tighten(&v->chains, table, chain, cutoff);
}

/* Under one weight of the first stage's tail. */
static gal_code prove(prover *v, double weight, double enough, double *bound)
{
    gal_code code = GAL_OK;
    bool more = true;
    gal_cert_tables_fill_added(&v->t, kind_at(v, 0), weight);
    const double sum = least_sum(v, true);
    *bound =
        fmax(*bound, bound_of(v, least_sum(v, false) / v->t.stages, sum)); /* the slowest is no less than the mean */
    more = *bound < enough;
    look_how_far(v, sum, enough);
    for (uint32_t i = 0; i < TIGHTENINGS && more; i++) {
        size_t cut = 0;
        GAL_TRY(find_cut(v, enough, &cut));
        GAL_TRY(v->chains.code);
        if (cut == v->label_count) {
            *bound = fmax(*bound, enough);
            break;
        }
        *bound = fmax(*bound, bound_of(v, v->label[cut].slowest, v->label[cut].sum));
        GAL_TRY(tighten(v, cut, enough, &more));
    }
cleanup:
    return code;
}

static gal_code create(prover *v)
{
    const gal_cert_tables *t = &v->t;
    const size_t places = place(v, t->stages + 1, 0);
    v->label_room = 1024;
    v->rest_slowest = malloc(2 * places * sizeof *v->rest_slowest);
    v->label = malloc(v->label_room * sizeof *v->label);
    v->furthest = malloc((size_t)t->kind_count * t->blocks * sizeof *v->furthest);
    if (v->rest_slowest == NULL || v->label == NULL || v->furthest == NULL) {
        return no_memory(v);
    }
    v->rest_sum = v->rest_slowest + places;
    for (uint32_t i = 0; i < t->kind_count; i++) {
        gal_cert_tables_fill_added(&v->t, &v->t.kind[i], 0.0);
    }
    return gal_cert_chains_create(&v->t, &v->chains);
}

static bool divides(const gal_certificate_cell *c)
{
    return c->device_count % c->pp_degree == 0 && c->global_batch_samples % c->microbatch_count == 0 &&
           c->pp_degree <= gal_model_block_count(c->model);
}

gal_code gal_certificate_bound(gal_price_cache *cache, const gal_durations *durations, const gal_certificate_cell *cell,
                               double enough_seconds, double *bound, gal_error *err)
{
    gal_code code = GAL_OK;
    prover v = {0};
    double least = -HUGE_VAL;
    if (!divides(cell)) {
        *bound = HUGE_VAL;
        return GAL_OK;
    }
    GAL_TRY(gal_cert_tables_create(cell, durations, cache, &v.t, err));
    GAL_TRY(create(&v));
    for (uint32_t i = 0; i <= WEIGHTS && least < enough_seconds; i++) {
        static const uint32_t order[WEIGHTS + 1] = {0, 16, 8, 4, 12, 2, 6, 10, 14, 1, 3, 5, 7, 9, 11, 13, 15};
        GAL_TRY(prove(&v, order[i] / (double)WEIGHTS, enough_seconds, &least));
    }
    *bound = least;
cleanup:
    free(v.furthest);
    free(v.label);
    free(v.rest_slowest);
    gal_cert_chains_free(&v.chains);
    gal_cert_tables_free(&v.t);
    return code;
}
