#include "planner/layered/polish.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/layered/pipeline.h"

enum { MOVES_MAX = 24, FAILURES_MAX = 3, STAGES_PLAYED_MAX = 16 };
static const double gain_share = 1e-4; /* of the seconds: less is not worth a simulation */

typedef struct polish {
    const gal_search_request *request;
    const gal_node *node;
    const gal_node_limits *limits;
    const gal_layers *layers;
    uint32_t stage_count, block_count;
    uint32_t *layer_of; /* [block] */
    uint32_t *cut;      /* [stage]: its first block; behind the last the number of blocks */
    uint32_t *kind;     /* [block]: whose strategy it has */
    uint32_t *moved_cut, *moved_kind;
    gal_pipeline_stage *stage;
} polish;

/* The cuts of the stages first to last, moved by one block. */
typedef struct move {
    uint32_t first, last;
    bool later;
} move;

static gal_code create(polish *p, const gal_node_solution *solution, gal_error *err)
{
    const size_t stages = p->stage_count, blocks = p->block_count;
    p->layer_of = calloc(3 * blocks + 2 * (stages + 1), sizeof *p->layer_of);
    p->stage = calloc(stages, sizeof *p->stage);
    if (p->layer_of == NULL || p->stage == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    p->kind = p->layer_of + blocks;
    p->moved_kind = p->kind + blocks;
    p->cut = p->moved_kind + blocks;
    p->moved_cut = p->cut + stages + 1;
    for (uint32_t layer = 0; layer < p->layers->layer_count; layer++) {
        for (uint32_t b = p->layers->first_block[layer]; b < p->layers->first_block[layer + 1]; b++) {
            p->layer_of[b] = layer;
            p->kind[b] = solution->kind[layer];
        }
    }
    for (uint32_t stage = 0; stage <= stages; stage++) {
        p->cut[stage] = p->layers->first_block[solution->cut[stage]];
    }
    return GAL_OK;
}

static uint32_t number_in_layer(const polish *p, uint32_t block)
{
    return block - p->layers->first_block[p->layer_of[block]];
}

/* The block's share of its kind's seconds: blocks of one half share evenly. */
static double share_of(const polish *p, uint32_t block, const gal_kind *kind)
{
    const gal_layer_type *type = &p->layers->type[kind->type];
    const gal_layer_half half = type->half[number_in_layer(p, block)];
    uint32_t alike = 0;
    for (uint32_t b = 0; b < type->block_count; b++) {
        alike += type->half[b] == half;
    }
    return (half == GAL_HALF_ATTENTION ? kind->attention_share : 1.0 - kind->attention_share) / alike;
}

static void add_times(gal_pipeline_stage *stage, double share, const gal_layer_times *t)
{
    stage->forward_seconds += share * t->forward_seconds;
    stage->backward_seconds += share * t->backward_seconds;
    stage->last_seconds += share * t->last_seconds;
    stage->sync_seconds += share * t->sync_seconds;
    stage->update_seconds += share * t->update_seconds;
}

static double transfer_behind(const polish *p, uint32_t stage, uint32_t block, const gal_kind *kind)
{
    const gal_kind_query *q = &p->node->table->query;
    const uint64_t bytes = gal_kind_memory(p->node->table, kind, number_in_layer(p, block))->bytes.boundary;
    return gal_price_transfer_of(q->durations, q->device_count, stage, p->stage_count, bytes).seconds;
}

/* The slowest round of every microbatch but one, and each stage once: of many stages, which have too many moves. */
static double closed_form(const polish *p)
{
    double most = 0.0, sum = 0.0;
    for (uint32_t stage = 0; stage < p->stage_count; stage++) {
        const gal_pipeline_stage *at = &p->stage[stage];
        const double round = at->forward_seconds + at->backward_seconds;
        most = fmax(most, round);
        sum += round + 2.0 * at->transfer_seconds;
    }
    return (p->node->numbers.microbatch_count - 1.0) * most + sum + fmax(p->stage[0].sync_seconds, 0.0);
}

static gal_code predict(const polish *p, const uint32_t *cut, const uint32_t *kind, double *seconds, gal_error *err)
{
    for (uint32_t stage = 0; stage < p->stage_count; stage++) {
        gal_pipeline_stage *at = &p->stage[stage];
        const gal_kind *of = NULL;
        bool turned = false;
        *at = (gal_pipeline_stage){0};
        for (uint32_t b = cut[stage]; b < cut[stage + 1]; b++) {
            of = &p->node->table->kind[kind[b]];
            add_times(at, share_of(p, b, of), &of->times);
            if (!turned && !p->layers->type[of->type].alone) {
                add_times(at, 1.0, &of->turn);
                turned = true;
            }
        }
        at->transfer_seconds = stage + 1 < p->stage_count ? transfer_behind(p, stage, cut[stage + 1] - 1, of) : 0.0;
    }
    if (p->stage_count > STAGES_PLAYED_MAX) {
        *seconds = closed_form(p);
        return GAL_OK;
    }
    return gal_pipeline_seconds(p->stage, p->stage_count, p->node->numbers.microbatch_count, p->limits->schedule,
                                seconds, err);
}

/* Blocks that change their stage take the kind of the layer beside them there, if it has one for them. */
static bool apply(const polish *p, const move *m, uint32_t *cut, uint32_t *kind)
{
    memcpy(cut, p->cut, (p->stage_count + (size_t)1) * sizeof *cut);
    memcpy(kind, p->kind, p->block_count * sizeof *kind);
    for (uint32_t stage = m->first; stage <= m->last; stage++) {
        const uint32_t block = m->later ? p->cut[stage] : p->cut[stage] - 1;
        const uint32_t beside = m->later ? block - 1 : block + 1;
        const gal_kind *own = &p->node->table->kind[p->kind[block]];
        if (p->layers->type[own->type].alone) {
            return false;
        }
        cut[stage] += m->later ? 1U : UINT32_MAX;
        if (p->node->table->kind[p->kind[beside]].type == own->type) {
            kind[block] = p->kind[beside];
        }
    }
    for (uint32_t stage = 0; stage < p->stage_count; stage++) {
        if (cut[stage + 1] <= cut[stage]) {
            return false;
        }
    }
    return true;
}

/* The move that is predicted to be the fastest, of those slower than `above`, or equal if it is negative. */
static gal_code best_move(polish *p, double above, move *out, double *seconds, gal_error *err)
{
    gal_code code = GAL_OK;
    *seconds = INFINITY;
    for (uint32_t first = 1; first < p->stage_count; first++) {
        for (uint32_t last = first; last < p->stage_count; last++) {
            for (uint32_t later = 0; later < 2; later++) {
                const move m = {first, last, later == 1};
                double own = INFINITY;
                if (apply(p, &m, p->moved_cut, p->moved_kind)) {
                    GAL_TRY(predict(p, p->moved_cut, p->moved_kind, &own, err));
                }
                if (own < *seconds && own > above) {
                    *seconds = own;
                    *out = m;
                }
            }
        }
    }
cleanup:
    return code;
}

static gal_code simulate(const polish *p, double objective_seconds, const gal_finalist *like, gal_finalist *out,
                         bool *fits, gal_error *err)
{
    const gal_strategy **strategy = calloc(p->block_count, sizeof *strategy);
    if (strategy == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    for (uint32_t b = 0; b < p->block_count; b++) {
        const gal_kind *kind = &p->node->table->kind[p->moved_kind[b]];
        strategy[b] = gal_kind_strategy(p->node->table, kind, number_in_layer(p, b));
    }
    const gal_code code = gal_blocks_plan(p->request, p->node, p->limits, p->moved_cut, strategy, out, fits, err);
    free(strategy);
    if (code == GAL_OK) {
        out->objective_seconds = out->plan.objective_seconds = objective_seconds;
        out->bound_seconds = like->bound_seconds;
    }
    return code;
}

/* Takes what was moved to if it is faster. */
static void take_if_faster(polish *p, gal_finalist *next, bool fits, gal_finalist *finalist, bool *moved)
{
    *moved = fits && next->simulated_seconds < (1.0 - gain_share) * finalist->simulated_seconds;
    if (*moved) {
        const gal_finalist slower = *finalist;
        *finalist = *next;
        *next = slower;
        memcpy(p->cut, p->moved_cut, (p->stage_count + (size_t)1) * sizeof *p->cut);
        memcpy(p->kind, p->moved_kind, p->block_count * sizeof *p->kind);
    }
    gal_plan_free(&next->plan);
    *next = (gal_finalist){0};
}

/* One move, if there is one that simulates faster. */
static gal_code step(polish *p, gal_finalist *finalist, bool *moved, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_finalist next = {0};
    double now = 0.0, above = -1.0;
    *moved = false;
    GAL_TRY(predict(p, p->cut, p->kind, &now, err));
    for (uint32_t failures = 0; failures < FAILURES_MAX && !*moved; failures++) {
        move m = {0};
        double seconds = INFINITY;
        bool fits = false;
        GAL_TRY(best_move(p, above, &m, &seconds, err));
        if (seconds > (1.0 - gain_share) * now) {
            break;
        }
        above = seconds;
        (void)apply(p, &m, p->moved_cut, p->moved_kind);
        GAL_TRY(simulate(p, seconds, finalist, &next, &fits, err));
        take_if_faster(p, &next, fits, finalist, moved);
    }
cleanup:
    gal_plan_free(&next.plan);
    return code;
}

/* ---- what leaves a stage ---- */

static uint64_t exit_bytes(const polish *p, uint32_t block, uint32_t kind)
{
    return gal_kind_memory(p->node->table, &p->node->table->kind[kind], number_in_layer(p, block))->bytes.boundary;
}

/* Of a group the kind of the block's layers with the least floor; GAL_NO_KIND: it has none. */
static int64_t fastest_kind(const polish *p, uint32_t rows, uint32_t type)
{
    const gal_kind_group *group = &p->node->table->group[rows];
    int64_t best = GAL_NO_KIND;
    for (uint32_t k = group->first[type]; k < group->first[type + 1]; k++) {
        const gal_kind *kind = &p->node->table->kind[k];
        if (best < 0 || kind->times.step_seconds < p->node->table->kind[best].times.step_seconds) {
            best = k;
        }
    }
    return best;
}

/* The last block of every stage but the last one takes a kind of that group, where fewer bytes then leave the stage.
 * False: of none. */
static bool apply_exits(const polish *p, uint32_t rows, uint32_t *cut, uint32_t *kind)
{
    bool changed = false;
    memcpy(cut, p->cut, (p->stage_count + (size_t)1) * sizeof *cut);
    memcpy(kind, p->kind, p->block_count * sizeof *kind);
    for (uint32_t stage = 0; stage + 1 < p->stage_count; stage++) {
        const uint32_t block = p->cut[stage + 1] - 1, type = p->node->table->kind[kind[block]].type;
        const int64_t other = p->layers->type[type].alone ? GAL_NO_KIND : fastest_kind(p, rows, type);
        if (other >= 0 && exit_bytes(p, block, (uint32_t)other) < exit_bytes(p, block, kind[block])) {
            kind[block] = (uint32_t)other;
            changed = true;
        }
    }
    return changed;
}

/* On slow links between stages it pays to convert rows, which several devices have, in front of the last block. */
static gal_code try_exits(polish *p, gal_finalist *finalist, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_finalist next = {0};
    for (uint32_t rows = 0; rows < p->node->table->group_count; rows++) {
        bool fits = false, moved = false;
        double seconds = 0.0;
        if (!apply_exits(p, rows, p->moved_cut, p->moved_kind)) {
            continue;
        }
        GAL_TRY(predict(p, p->moved_cut, p->moved_kind, &seconds, err));
        if (seconds < finalist->simulated_seconds) {
            GAL_TRY(simulate(p, seconds, finalist, &next, &fits, err));
            take_if_faster(p, &next, fits, finalist, &moved);
        }
    }
cleanup:
    gal_plan_free(&next.plan);
    return code;
}

gal_code gal_polish(const gal_search_request *request, const gal_node *node, const gal_node_limits *limits,
                    const gal_node_solution *solution, gal_finalist *finalist, gal_error *err)
{
    gal_code code = GAL_OK;
    bool moved = node->numbers.pp_degree > 1;
    polish p = {.request = request,
                .node = node,
                .limits = limits,
                .layers = node->table->query.layers,
                .stage_count = node->numbers.pp_degree,
                .block_count = gal_model_block_count(request->model)};
    GAL_TRY(create(&p, solution, err));
    for (uint32_t i = 0; moved && i < MOVES_MAX; i++) {
        GAL_TRY(step(&p, finalist, &moved, err));
    }
    if (p.stage_count > 1) {
        GAL_TRY(try_exits(&p, finalist, err));
    }
cleanup:
    free(p.layer_of);
    free(p.stage);
    return code;
}
