#include "planner/solve/oases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

gal_code gal_oases_create(uint32_t block_count, uint32_t degree_count, gal_oases *out, gal_error *err)
{
    const size_t cells = (size_t)block_count * degree_count;
    *out = (gal_oases){.block_count = block_count,
                       .degree_count = degree_count,
                       .degree = calloc(degree_count, sizeof *out->degree),
                       .cost = calloc(cells, sizeof *out->cost),
                       .gather_seconds = calloc(cells * degree_count, sizeof *out->gather_seconds)};
    if (out->degree == NULL || out->cost == NULL || out->gather_seconds == NULL) {
        gal_oases_free(out);
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    return GAL_OK;
}

void gal_oases_free(gal_oases *oases)
{
    free(oases->degree);
    free(oases->cost);
    free(oases->gather_seconds);
    *oases = (gal_oases){0};
}

double gal_oases_reduce_seconds(double message_bytes, uint32_t degree, double bytes_per_second)
{
    return 2.0 * gal_oases_gather_seconds(message_bytes, degree, bytes_per_second);
}

double gal_oases_gather_seconds(double message_bytes, uint32_t degree, double bytes_per_second)
{
    return message_bytes * (degree - 1) / degree / bytes_per_second;
}

/* The terms of Eq. 3 that are of one block alone. */
static double block_seconds(const gal_oases *o, uint32_t block, const gal_oases_cost *c)
{
    double sum = 0.0;
    for (uint32_t pass = 0; pass < GAL_OASES_PASS_COUNT; pass++) {
        sum += fmax(c->compute_seconds[pass][1], c->reduce_seconds[pass][0]);
        sum += block == 0 ? c->compute_seconds[pass][0] : 0.0;
        sum += block + 1 == o->block_count ? c->reduce_seconds[pass][1] : 0.0;
    }
    return sum;
}

/* Those of a block and the one before it, and Eq. 4. */
static double pair_seconds(const gal_oases *o, uint32_t block, uint32_t from, uint32_t to)
{
    const size_t n = o->degree_count;
    const gal_oases_cost *before = &o->cost[(block - 1) * n + from];
    const gal_oases_cost *here = &o->cost[block * n + to];
    double sum = 0.0;
    for (uint32_t pass = 0; pass < GAL_OASES_PASS_COUNT; pass++) {
        sum += fmax(here->compute_seconds[pass][0], before->reduce_seconds[pass][1]);
    }
    if (from != to) {
        const uint32_t pass = from < to ? GAL_OASES_FORWARD : GAL_OASES_BACKWARD;
        sum += o->gather_seconds[(block * n + from) * n + to];
        sum += fmin(before->reduce_seconds[pass][1], here->compute_seconds[pass][0]);
    }
    return sum;
}

static void fill_block(const gal_oases *o, uint32_t block, gal_problem *p)
{
    const size_t n = o->degree_count;
    p->kind[block].transition_index = block;
    (void)snprintf(p->kind[block].name, sizeof p->kind[block].name, "block%u", block);
    p->run[block] = (gal_problem_run){block, 1};
    for (uint32_t to = 0; to < n; to++) {
        const gal_oases_cost *c = &o->cost[block * n + to];
        p->cost[block * n + to] =
            (gal_problem_cost){.seconds = block_seconds(o, block, c),
                               .state_bytes = c->state_bytes,
                               .forward_bytes = c->saved_bytes,
                               .backward_bytes = block + 1 == o->block_count ? c->runtime_bytes : 0};
        for (uint32_t from = 0; from < n && block > 0; from++) {
            p->transition_seconds[(block * n + from) * n + to] = pair_seconds(o, block, from, to);
        }
    }
}

gal_code gal_oases_tabulate(const gal_oases *o, gal_problem *out, gal_error *err)
{
    const size_t blocks = o->block_count;
    const size_t n = o->degree_count;
    *out = (gal_problem){.name = "oases",
                         .schedule = GAL_SCHEDULE_1F1B,
                         .stage_count = 1,
                         .microbatch_count = 1,
                         .budget_bytes = o->budget_bytes - 1,
                         .strategy_count = o->degree_count,
                         .transition_count = o->block_count,
                         .kind_count = o->block_count,
                         .run_count = o->block_count,
                         .strategy = calloc(n, sizeof *out->strategy),
                         .transition_seconds = calloc(blocks * n * n, sizeof *out->transition_seconds),
                         .kind = calloc(blocks, sizeof *out->kind),
                         .cost = calloc(blocks * n, sizeof *out->cost),
                         .run = calloc(blocks, sizeof *out->run)};
    if (out->strategy == NULL || out->transition_seconds == NULL || out->kind == NULL || out->cost == NULL ||
        out->run == NULL) {
        gal_problem_free(out);
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    for (uint32_t s = 0; s < n; s++) {
        (void)snprintf(out->strategy[s].name, sizeof out->strategy[s].name, "tp%u", o->degree[s]);
    }
    for (uint32_t block = 0; block < blocks; block++) {
        fill_block(o, block, out);
    }
    return GAL_OK;
}
