#include "planner/layered/node_solve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/layered/pipeline.h"
#include "planner/partition/partition.h"

enum { ROUNDS_MAX = 400, RETRIES_MAX = 6 };

typedef struct solver {
    const gal_node *node;
    const gal_node_limits *limits;
    const gal_layers *layers;
    gal_node_stages *stages;
    gal_node_solution *solution;
    int64_t *spare_bytes;    /* [stage] */
    int64_t *lost_bytes;     /* [stage]: of the solution so far, as fill_stage says */
    bool loses;              /* some stage does */
    double backward_seconds; /* of a stage: by the bound, then by the solution so far */
    double objective;        /* of the partition by the kinds' seconds now */
} solver;

/* ---- partition ---- */

static gal_code partition(solver *s, gal_error *err)
{
    const uint32_t stages = s->node->numbers.pp_degree;
    const gal_partition_problem problem = {.stage_count = stages,
                                           .layer_count = s->layers->layer_count,
                                           .seconds = gal_node_stage_seconds,
                                           .context = s->stages,
                                           .falls = gal_node_transfer_falls(s->stages)};
    if (stages > s->layers->layer_count) {
        s->objective = INFINITY;
        return GAL_OK;
    }
    return gal_partition_solve(&problem, s->solution->cut, &s->objective, err);
}

/* ---- whole layers ---- */

/* Writes the kinds of a stage's layers: of each type the first `high` layers of its high kind. */
static void write_kinds(const solver *s, uint32_t begin, uint32_t end, const gal_node_mix *mix, const uint32_t *high,
                        uint32_t *kind)
{
    uint32_t written[GAL_LAYER_TYPES_MAX] = {0};
    for (uint32_t layer = begin; layer < end; layer++) {
        const uint32_t type = s->layers->type_of[layer];
        kind[layer] = written[type]++ < high[type] ? mix[type].high : mix[type].low;
    }
}

/* *excess: bytes of the stage beyond the limit; 0 or less: it fits. */
static gal_code measure(const solver *s, uint32_t stage, const uint32_t *kind, int64_t *excess, gal_error *err)
{
    uint64_t bytes = 0;
    const gal_code code = gal_node_stage_bytes(s->node, s->limits, stage, s->solution->cut[stage],
                                               s->solution->cut[stage + 1], kind, &bytes, err);
    *excess = (int64_t)bytes - (int64_t)s->limits->arena_bytes;
    return code;
}

/* The most layers of the high kind of one type that fit; none if even that does not. *excess: then above 0. */
static gal_code most_high(const solver *s, uint32_t stage, const gal_node_mix *mix, uint32_t *high, uint32_t type,
                          int64_t *excess, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t begin = s->solution->cut[stage], end = s->solution->cut[stage + 1];
    uint32_t most = mix[type].layer_count;
    int64_t own = 1;
    high[type] = 0;
    write_kinds(s, begin, end, mix, high, s->solution->kind);
    GAL_TRY(measure(s, stage, s->solution->kind, excess, err));
    for (uint32_t least = 0; *excess <= 0 && least < most;) { /* least fit */
        high[type] = least + (most - least + 1) / 2;
        write_kinds(s, begin, end, mix, high, s->solution->kind);
        GAL_TRY(measure(s, stage, s->solution->kind, &own, err));
        least = own <= 0 ? high[type] : least;
        most = own <= 0 ? most : high[type] - 1;
    }
    high[type] = *excess <= 0 ? most : 0;
    write_kinds(s, begin, end, mix, high, s->solution->kind);
cleanup:
    return code;
}

/* How far the high layers that the linear program shares out exceed the limit, made whole: kinds whose peaks are of
 * different things use more by turns than the larger of them, which is charged. */
static gal_code measure_lost(const solver *s, uint32_t stage, const gal_node_mix *mix, uint32_t *high, uint32_t type,
                             int64_t *lost, gal_error *err)
{
    const uint32_t begin = s->solution->cut[stage], end = s->solution->cut[stage + 1];
    high[type] = (uint32_t)mix[type].high_layers;
    write_kinds(s, begin, end, mix, high, s->solution->kind);
    return measure(s, stage, s->solution->kind, lost, err);
}

/* The divided layers of a stage made whole. *excess as above; *lost: above 0 where fewer high ones fit than shared out.
 */
static gal_code fill_stage(const solver *s, uint32_t stage, int64_t *excess, int64_t *lost, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_node_mix mix[GAL_LAYER_TYPES_MAX];
    uint32_t high[GAL_LAYER_TYPES_MAX] = {0};
    uint32_t divided = GAL_LAYER_TYPES_MAX;
    const uint32_t begin = s->solution->cut[stage], end = s->solution->cut[stage + 1];
    gal_node_stage_mix(s->stages, stage, begin, end, mix);
    for (uint32_t type = 0; type < s->layers->type_count; type++) {
        divided = mix[type].layer_count > 0 && mix[type].low != mix[type].high ? type : divided;
    }
    *lost = 0;
    if (divided < GAL_LAYER_TYPES_MAX) {
        GAL_TRY(measure_lost(s, stage, mix, high, divided, lost, err));
        GAL_TRY(most_high(s, stage, mix, high, divided, excess, err));
    } else {
        write_kinds(s, begin, end, mix, high, s->solution->kind);
        GAL_TRY(measure(s, stage, s->solution->kind, excess, err));
    }
cleanup:
    return code;
}

/* Stages that exceed the limit keep as much free from now on. */
static gal_code fill(solver *s, gal_error *err)
{
    gal_code code = GAL_OK;
    s->solution->fits = true;
    s->loses = false;
    for (uint32_t stage = 0; stage < s->node->numbers.pp_degree; stage++) {
        int64_t excess = 0, lost = 0;
        GAL_TRY(fill_stage(s, stage, &excess, &lost, err));
        s->spare_bytes[stage] += excess > 0 ? excess : 0;
        s->lost_bytes[stage] = lost > 0 ? lost : 0;
        s->loses = s->loses || lost > 0;
        s->solution->fits = s->solution->fits && excess <= 0;
    }
cleanup:
    return code;
}

/* ---- prices ---- */

/* The nearest layer before or behind that stands alone, or not; layer_count: there is none. */
static uint32_t nearest(const solver *s, uint32_t layer, bool behind, bool alone)
{
    const uint32_t away = behind ? 1 : UINT32_MAX; /* the number of the layer before the first is too large */
    uint32_t at = layer + away;
    while (at < s->layers->layer_count && s->layers->type[s->layers->type_of[at]].alone != alone) {
        at += away;
    }
    return at < s->layers->layer_count ? at : s->layers->layer_count;
}

static int64_t kind_at(const solver *s, uint32_t layer)
{
    return layer < s->layers->layer_count ? (int64_t)s->solution->kind[layer] : (int64_t)GAL_NO_KIND;
}

static gal_kind_company company_of(const solver *s, uint32_t layer)
{
    const uint32_t none = s->layers->layer_count, before = nearest(s, layer, false, false);
    const bool only = s->node->numbers.pp_degree == 1 && before < none;
    return (gal_kind_company){.first = kind_at(s, only ? nearest(s, before, false, true) : none),
                              .before = kind_at(s, before),
                              .behind = kind_at(s, nearest(s, layer, true, false))};
}

/* Prices kinds of the solution that have only floors; *count: how many. */
static gal_code price_used(const solver *s, uint32_t *count, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_kind_table *table = s->node->table;
    *count = 0;
    for (uint32_t pass = 0; pass < 2; pass++) { /* layers first */
        for (uint32_t layer = 0; layer < s->layers->layer_count; layer++) {
            const uint32_t number = s->solution->kind[layer];
            const bool alone = s->layers->type[table->kind[number].type].alone;
            if (alone == (pass == 1) && !table->kind[number].priced) {
                const gal_kind_company company = company_of(s, layer);
                GAL_TRY(gal_kind_price(table, number, &company, err));
                ++*count;
            }
        }
    }
cleanup:
    return code;
}

/* ---- the objective of whole layers ---- */

static void sum_stage(const solver *s, uint32_t stage, gal_pipeline_stage *out, double *step_seconds)
{
    const gal_kind *turn = NULL;
    *out = (gal_pipeline_stage){0};
    *step_seconds = 0.0;
    for (uint32_t layer = s->solution->cut[stage]; layer < s->solution->cut[stage + 1]; layer++) {
        const gal_kind *kind = &s->node->table->kind[s->solution->kind[layer]];
        out->forward_seconds += kind->times.forward_seconds;
        out->backward_seconds += kind->times.backward_seconds;
        out->last_seconds += kind->times.last_seconds;
        out->sync_seconds += kind->times.sync_seconds;
        out->update_seconds += kind->times.update_seconds;
        *step_seconds += kind->times.step_seconds;
        turn = turn == NULL && !s->layers->type[kind->type].alone ? kind : turn;
    }
    if (turn != NULL) {
        out->forward_seconds += turn->turn.forward_seconds;
        out->backward_seconds += turn->turn.backward_seconds;
        out->last_seconds += turn->turn.last_seconds;
        out->sync_seconds += turn->turn.sync_seconds;
        out->update_seconds += turn->turn.update_seconds;
        *step_seconds += turn->turn.step_seconds;
    }
}

static double transfer_behind(const solver *s, uint32_t stage)
{
    const gal_kind_query *q = &s->node->table->query;
    const gal_kind *last = &s->node->table->kind[s->solution->kind[s->solution->cut[stage + 1] - 1]];
    const uint32_t block = s->layers->type[last->type].block_count - 1;
    const uint64_t bytes = gal_kind_memory(s->node->table, last, block)->bytes.boundary;
    return gal_price_transfer_of(q->durations, q->device_count, stage, s->node->numbers.pp_degree, bytes).seconds;
}

static gal_code evaluate(const solver *s, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t stages = s->node->numbers.pp_degree;
    const double fixed = gal_durations_fixed_step_seconds(s->node->table->query.durations);
    gal_pipeline_stage *stage = calloc(stages, sizeof *stage);
    double seconds = 0.0;
    if (stage == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    for (uint32_t i = 0; i < stages; i++) {
        sum_stage(s, i, &stage[i], &seconds);
        stage[i].transfer_seconds = i + 1 < stages ? transfer_behind(s, i) : 0.0;
    }
    if (stages > 1) {
        GAL_TRY(
            gal_pipeline_seconds(stage, stages, s->node->numbers.microbatch_count, s->limits->schedule, &seconds, err));
    }
    s->solution->objective_seconds = seconds + fixed;
cleanup:
    free(stage);
    return code;
}

/* ---- the whole ---- */

/* Two thirds of a round, of equal stages. */
static double backward_by_bound(const gal_node *node)
{
    return 2.0 / 3.0 * node->bound_seconds / (node->numbers.microbatch_count - 1.0 + node->numbers.pp_degree);
}

static double backward_by_solution(const solver *s)
{
    double sum = 0.0;
    for (uint32_t layer = 0; layer < s->layers->layer_count; layer++) {
        sum += fmax(s->node->table->kind[s->solution->kind[layer]].times.last_seconds, 0.0);
    }
    return sum / s->node->numbers.pp_degree;
}

static gal_code renew_stages(solver *s, gal_error *err)
{
    gal_node_stages_free(s->stages);
    s->stages = NULL;
    return gal_node_stages_create(s->node, s->limits, s->spare_bytes, s->backward_seconds, &s->stages, err);
}

gal_code gal_node_bound(const gal_node *node, const gal_node_limits *limits, double *seconds, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_node_solution solution = {0};
    solver s = {.node = node,
                .limits = limits,
                .layers = node->table->query.layers,
                .solution = &solution,
                .backward_seconds = backward_by_bound(node)};
    solution.cut = calloc((size_t)node->numbers.pp_degree + 1, sizeof *solution.cut);
    if (solution.cut == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    GAL_TRY(renew_stages(&s, err));
    GAL_TRY(partition(&s, err));
    *seconds = s.objective + gal_durations_fixed_step_seconds(node->table->query.durations);
cleanup:
    gal_node_stages_free(s.stages);
    gal_node_solution_free(&solution);
    return code;
}

static gal_code solution_create(const solver *s, gal_node_solution *out, gal_error *err)
{
    out->cut = calloc((size_t)s->node->numbers.pp_degree + 1, sizeof *out->cut);
    out->kind = calloc(s->layers->layer_count, sizeof *out->kind);
    return out->cut != NULL && out->kind != NULL ? GAL_OK
                                                 : gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}

/* Solves and prices until all kinds of the solution are priced. Not solved: no plan is faster than enough_seconds. */
static gal_code settle(solver *s, double enough_seconds, bool *solved, gal_error *err)
{
    gal_code code = GAL_OK;
    const double fixed = gal_durations_fixed_step_seconds(s->node->table->query.durations);
    uint32_t priced = 1;
    *solved = false;
    for (uint32_t round = 0; priced > 0 && round < ROUNDS_MAX; round++) {
        GAL_TRY(renew_stages(s, err));
        GAL_TRY(partition(s, err));
        s->solution->bound_seconds = s->objective + fixed;
        if (isinf(s->objective) || s->solution->bound_seconds >= enough_seconds) {
            goto cleanup;
        }
        GAL_TRY(fill(s, err));
        GAL_TRY(price_used(s, &priced, err));
        priced += !s->solution->fits;
        s->backward_seconds = priced > 0 ? backward_by_solution(s) : s->backward_seconds;
    }
    *solved = s->solution->fits;
    GAL_TRY(*solved ? evaluate(s, err) : GAL_OK);
cleanup:
    return code;
}

/* Keeps the solution so far if it is better. */
static void keep_best(const solver *s, gal_node_solution *best)
{
    if (!best->fits || s->solution->objective_seconds < best->objective_seconds) {
        memcpy(best->cut, s->solution->cut, (s->node->numbers.pp_degree + (size_t)1) * sizeof *best->cut);
        memcpy(best->kind, s->solution->kind, s->layers->layer_count * sizeof *best->kind);
        best->objective_seconds = s->solution->objective_seconds;
        best->fits = true;
    }
}

gal_code gal_node_solve(const gal_node *node, const gal_node_limits *limits, double enough_seconds,
                        gal_node_solution *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_node_solution solution = {0}, best = {0};
    solver s = {.node = node,
                .limits = limits,
                .layers = node->table->query.layers,
                .solution = &solution,
                .backward_seconds = backward_by_bound(node)};
    bool solved = true;
    GAL_TRY(solution_create(&s, &solution, err));
    GAL_TRY(solution_create(&s, &best, err));
    s.spare_bytes = calloc(2 * (size_t)node->numbers.pp_degree, sizeof *s.spare_bytes);
    if (s.spare_bytes == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    s.lost_bytes = s.spare_bytes + node->numbers.pp_degree;
    s.loses = true;
    for (uint32_t retry = 0; solved && s.loses && retry < RETRIES_MAX; retry++) {
        const double enough = best.fits ? fmin(best.objective_seconds, enough_seconds) : enough_seconds;
        GAL_TRY(settle(&s, enough, &solved, err));
        best.bound_seconds = retry == 0 ? solution.bound_seconds : best.bound_seconds;
        if (solved) {
            keep_best(&s, &best);
        }
        for (uint32_t stage = 0; stage < node->numbers.pp_degree; stage++) {
            s.spare_bytes[stage] += s.lost_bytes[stage];
        }
    }
    *out = best;
    memset(&best, 0, sizeof best);
cleanup:
    gal_node_stages_free(s.stages);
    free(s.spare_bytes);
    gal_node_solution_free(&solution);
    gal_node_solution_free(&best);
    return code;
}

void gal_node_solution_free(gal_node_solution *solution)
{
    free(solution->cut);
    free(solution->kind);
    memset(solution, 0, sizeof *solution);
}
