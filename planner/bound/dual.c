#include "planner/bound/dual.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Every maximum of the objective is at most a sum over all blocks. */
static double step_most(const gal_cell *cell, const gal_cell_step *step)
{
    return cell->spec.microbatch_count * gal_at_least_zero(step->forward_seconds + step->backward_seconds) +
           gal_at_least_zero(step->tail_seconds) + gal_at_least_zero(-step->backward_seconds) +
           gal_at_least_zero(step->update_seconds) + gal_at_least_zero(step->once_seconds);
}

static double edge_most(const gal_cell *cell, uint32_t block)
{
    double most = 0.0;
    for (uint32_t p = 0; p < cell->spec.pp_degree; p++) {
        for (uint32_t from = 0; from < cell->strategy_count; from++) {
            for (uint32_t to = 0; to < cell->strategy_count; to++) {
                gal_cell_step step, crossing, closing;
                if (!cell->edge[gal_cell_pair_index(cell, block, p, from, to)].legal) {
                    continue;
                }
                gal_cell_follow(cell, block, p, from, to, &step);
                gal_cell_cross(cell, block, p, from, to, &crossing);
                gal_cell_close(cell, block, p, to, &closing);
                most = fmax(most, fmax(step_most(cell, &step), step_most(cell, &crossing)) + step_most(cell, &closing));
            }
        }
    }
    return most;
}

static double path_most(const gal_cell *cell)
{
    double most = 0.0;
    for (uint32_t s = 0; s < cell->strategy_count; s++) {
        gal_cell_step step, closing;
        if (gal_cell_price(cell, 0, 0, s) != NULL) {
            gal_cell_start(cell, s, &step);
            gal_cell_close(cell, 0, 0, s, &closing);
            most = fmax(most, step_most(cell, &step) + step_most(cell, &closing));
        }
    }
    for (uint32_t i = 0; i < cell->types.pair_count; i++) {
        most += edge_most(cell, cell->types.pair_first[i]) * cell->types.pair_repeats[i];
    }
    return (most + cell->common_seconds) * (1.0 + 1e-6);
}

/* ---- choices ---- */

static size_t choice_place(const gal_cell *cell, uint32_t block, uint32_t stage)
{
    return (size_t)stage * cell->types.type_count + cell->types.type_of[block];
}

gal_code gal_choices_create(const gal_cell *cell, gal_choices *out, gal_error *err)
{
    const size_t places = (size_t)cell->spec.pp_degree * cell->types.type_count;
    gal_choices choices = {calloc(places, sizeof *choices.count),
                           calloc(places * cell->strategy_count + 1, sizeof *choices.strategy)};
    if (choices.count == NULL || choices.strategy == NULL) {
        gal_choices_free(&choices);
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    *out = choices;
    return GAL_OK;
}

void gal_choices_copy(const gal_cell *cell, const gal_choices *from, gal_choices *to)
{
    const size_t places = (size_t)cell->spec.pp_degree * cell->types.type_count;
    memcpy(to->count, from->count, places * sizeof *to->count);
    memcpy(to->strategy, from->strategy, places * cell->strategy_count * sizeof *to->strategy);
}

void gal_choices_free(gal_choices *choices)
{
    free(choices->strategy);
    free(choices->count);
    *choices = (gal_choices){0};
}

uint32_t gal_dual_choices(const gal_dual *dual, uint32_t block, uint32_t stage, const uint32_t **strategy)
{
    const size_t place = choice_place(dual->cell, block, stage);
    *strategy = &dual->choices.strategy[place * dual->cell->strategy_count];
    return dual->choices.count[place];
}

static void choose_all(gal_dual *dual)
{
    const gal_cell *cell = dual->cell;
    for (uint32_t i = 0; i < cell->types.type_count; i++) {
        const uint32_t block = cell->types.type_first[i];
        for (uint32_t p = 0; p < cell->spec.pp_degree; p++) {
            const size_t place = choice_place(cell, block, p);
            uint32_t kept = 0;
            for (uint32_t s = 0; s < cell->strategy_count; s++) {
                if (gal_cell_price(cell, block, p, s) != NULL) {
                    dual->choices.strategy[place * cell->strategy_count + kept++] = s;
                }
            }
            dual->choices.count[place] = kept;
        }
    }
}

void gal_dual_tie(gal_dual *dual, uint32_t embedding)
{
    const gal_cell *cell = dual->cell;
    for (uint32_t type = 0; type < cell->types.type_count; type++) {
        const uint32_t block = cell->types.type_first[type];
        for (uint32_t p = 0; p < cell->spec.pp_degree && gal_cell_holds_table(cell, block); p++) {
            const size_t place = choice_place(cell, block, p);
            uint32_t *list = dual->choices.strategy + place * cell->strategy_count;
            uint32_t kept = 0;
            for (uint32_t j = 0; j < dual->choices.count[place]; j++) {
                if (gal_strategy_same_shards(&cell->strategy[embedding], &cell->strategy[list[j]])) {
                    list[kept++] = list[j];
                }
            }
            dual->choices.count[place] = kept;
        }
    }
}

gal_code gal_dual_create(const gal_cell *cell, gal_dual **out, gal_error *err)
{
    const size_t nodes = (size_t)cell->block_count * cell->spec.pp_degree * cell->strategy_count;
    const size_t prices = gal_cell_price_count(cell);
    gal_dual *dual = calloc(1, sizeof *dual);
    if (dual != NULL) {
        dual->cell = cell;
        dual->follow = calloc(gal_cell_pair_count(cell) + 1, sizeof *dual->follow);
        dual->cross = calloc(gal_cell_pair_count(cell) + 1, sizeof *dual->cross);
        dual->start = calloc(cell->strategy_count + 1, sizeof *dual->start);
        dual->close = calloc(prices + 1, sizeof *dual->close);
        dual->to_go = calloc(nodes + 1, sizeof *dual->to_go);
        dual->so_far = calloc(nodes + 1, sizeof *dual->so_far);
        dual->scratch = calloc(cell->strategy_count + 1, sizeof *dual->scratch);
        dual->least = calloc(cell->spec.pp_degree, sizeof *dual->least);
        dual->most = calloc(cell->spec.pp_degree, sizeof *dual->most);
        dual->stage_least = calloc(cell->block_count, sizeof *dual->stage_least);
        dual->stage_most = calloc(cell->block_count, sizeof *dual->stage_most);
        dual->first_least = calloc(cell->spec.pp_degree, sizeof *dual->first_least);
        dual->first_most = calloc(cell->spec.pp_degree, sizeof *dual->first_most);
        dual->stage = calloc(cell->block_count, sizeof *dual->stage);
        dual->strategy = calloc(cell->block_count, sizeof *dual->strategy);
    }
    if (dual == NULL || dual->follow == NULL || dual->cross == NULL || dual->start == NULL || dual->close == NULL ||
        dual->to_go == NULL || dual->so_far == NULL || dual->scratch == NULL || dual->least == NULL ||
        dual->most == NULL || dual->first_least == NULL || dual->first_most == NULL || dual->stage == NULL ||
        dual->strategy == NULL || dual->stage_least == NULL || dual->stage_most == NULL ||
        gal_choices_create(cell, &dual->choices, err) != GAL_OK) {
        gal_dual_free(dual);
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    for (uint32_t p = 0; p < cell->spec.pp_degree; p++) {
        for (uint32_t kind = 0; kind < GAL_SHARED_KIND_COUNT; kind++) {
            dual->most[p].of[kind] = INT64_MAX;
        }
        dual->first_least[p] = p;
        dual->first_most[p] = p == 0 ? 0 : cell->block_count - (cell->spec.pp_degree - p);
        dual->weights.slowest[p] = 1.0 / cell->spec.pp_degree;
        dual->weights.update[p] = 1.0 / cell->spec.pp_degree;
    }
    dual->weights.exposed[0] = 1.0;
    for (uint32_t i = 0; i < cell->block_count; i++) {
        const uint32_t behind = cell->block_count - 1 - i;
        dual->stage_least[i] = behind + 1 < cell->spec.pp_degree ? cell->spec.pp_degree - 1 - behind : 0;
        dual->stage_most[i] = i + 1 < cell->spec.pp_degree ? i : cell->spec.pp_degree - 1;
    }
    for (size_t i = 0; i < nodes; i++) {
        dual->to_go[i] = dual->so_far[i] = HUGE_VAL;
    }
    dual->most_seconds = path_most(cell);
    choose_all(dual);
    gal_dual_weigh(dual);
    *out = dual;
    return GAL_OK;
}

void gal_dual_free(gal_dual *dual)
{
    if (dual != NULL) {
        gal_choices_free(&dual->choices);
        free(dual->strategy);
        free(dual->stage);
        free(dual->first_most);
        free(dual->stage_most);
        free(dual->stage_least);
        free(dual->first_least);
        free(dual->most);
        free(dual->least);
        free(dual->scratch);
        free(dual->so_far);
        free(dual->to_go);
        free(dual->close);
        free(dual->start);
        free(dual->cross);
        free(dual->follow);
        free(dual);
    }
}

/* ---- weighted seconds ---- */

gal_rates gal_rates_of(const gal_weights *weights, const gal_cell_spec *spec, uint32_t stage)
{
    const gal_round_counts rounds = gal_round_counts_of(spec->schedule, spec->pp_degree, spec->microbatch_count);
    const double round = gal_rounds_of_stage(&rounds, stage) + rounds.slowest * weights->slowest[stage];
    double later = 0.0; /* backward of this stage hides the sync of every later one */
    for (uint32_t p = stage + 1; p < spec->pp_degree; p++) {
        later += weights->exposed[p];
    }
    return (gal_rates){round, round - later,           weights->exposed[stage], weights->update[stage],
                       1.0,   weights->per_byte[stage]};
}

static gal_rates rates_of(const gal_dual *dual, uint32_t stage)
{
    if (dual->bytes_alone) {
        return (gal_rates){.byte = dual->weights.per_byte[stage]};
    }
    return gal_rates_of(&dual->weights, &dual->cell->spec, stage);
}

static double weighted(const gal_rates *r, const gal_cell_step *step)
{
    return r->forward * step->forward_seconds + r->backward * step->backward_seconds + r->tail * step->tail_seconds +
           r->update * step->update_seconds + r->byte * (double)step->bytes + r->once * step->once_seconds;
}

static bool within(const gal_shared_bytes *shared, const gal_shared_bytes *most)
{
    bool fits = true;
    for (uint32_t kind = 0; kind < GAL_SHARED_KIND_COUNT; kind++) {
        fits = fits && shared->of[kind] <= most->of[kind];
    }
    return fits;
}

static void weigh_close(gal_dual *dual, uint32_t block, uint32_t stage, const gal_rates *r)
{
    const gal_cell *cell = dual->cell;
    const uint32_t *strategy;
    const uint32_t count = gal_dual_choices(dual, block, stage, &strategy);
    for (uint32_t i = 0; i < count; i++) {
        gal_cell_step step;
        gal_cell_close(cell, block, stage, strategy[i], &step);
        dual->close[gal_cell_price_index(cell, block, stage, strategy[i])] = weighted(r, &step);
    }
}

/* Strategies of a block as the second of an edge: into scratch, by their place in the list. */
static void weigh_nodes(gal_dual *dual, uint32_t block, uint32_t stage, bool crosses, const gal_rates *r)
{
    const gal_cell *cell = dual->cell;
    const uint32_t *to;
    const uint32_t count = gal_dual_choices(dual, block, stage, &to);
    for (uint32_t j = 0; j < count; j++) {
        const gal_cell_node *node = &cell->node[gal_cell_price_index(cell, block, stage, to[j])];
        const double turn = crosses ? r->forward * node->enter_seconds + r->backward * node->enter_backward_seconds +
                                          r->tail * node->enter_tail_seconds
                                    : 0.0;
        dual->scratch[j] =
            within(&node->block.shared, &dual->most[stage]) ? weighted(r, &node->block) + turn : HUGE_VAL;
    }
}

/* Edges into a block whose stage is given, from the same stage or the one before; crossing ones close that one. */
static void weigh_edges(gal_dual *dual, uint32_t block, uint32_t stage, bool crosses, const gal_rates *r)
{
    const gal_cell *cell = dual->cell;
    const int64_t *most = dual->most[stage].of;
    const uint32_t *from, *to;
    const uint32_t from_count = gal_dual_choices(dual, block - 1, stage - crosses, &from);
    const uint32_t to_count = gal_dual_choices(dual, block, stage, &to);
    weigh_nodes(dual, block, stage, crosses, r);
    dual->work += (uint64_t)from_count * to_count;
    for (uint32_t i = 0; i < from_count; i++) {
        const size_t row = gal_cell_pair_index(cell, block, stage, from[i], 0);
        const gal_cell_edge *edges = &cell->edge[row];
        double *table = (crosses ? dual->cross : dual->follow) + row;
        const gal_cell_node *before = &cell->node[gal_cell_price_index(cell, block - 1, stage, from[i])];
        const bool fits = crosses || 2 * before->boundary_bytes <= most[GAL_SHARED_BOUNDARY];
        const double close = crosses ? dual->close[gal_cell_price_index(cell, block - 1, stage - 1, from[i])] : 0.0;
        for (uint32_t j = 0; j < to_count; j++) {
            const gal_cell_edge *e = &edges[to[j]];
            const int64_t relayout = crosses ? e->entry_relayout_bytes : e->relayout_bytes;
            const int64_t bytes = crosses ? e->entry_bytes : e->carried_bytes;
            const double forward = e->forward_seconds + (crosses ? 0.0 : e->crowded_forward_seconds);
            const double backward = e->backward_seconds + (crosses ? 0.0 : e->crowded_backward_seconds);
            const bool legal = e->legal && fits && relayout <= most[GAL_SHARED_RELAYOUT];
            table[to[j]] = legal ? close + dual->scratch[j] + r->forward * forward + r->backward * backward +
                                       r->tail * e->tail_seconds + r->byte * (double)bytes
                                 : HUGE_VAL;
        }
    }
}

static void weigh_start(gal_dual *dual, const gal_rates *first)
{
    const gal_cell *cell = dual->cell;
    const uint32_t *strategy;
    const uint32_t count = gal_dual_choices(dual, 0, 0, &strategy);
    for (uint32_t s = 0; s < cell->strategy_count; s++) {
        dual->start[s] = HUGE_VAL;
    }
    for (uint32_t i = 0; i < count; i++) {
        gal_cell_step step;
        gal_cell_start(cell, strategy[i], &step);
        dual->start[strategy[i]] = within(&step.shared, &dual->most[0]) ? weighted(first, &step) : HUGE_VAL;
    }
}

static double weighted_least(const gal_dual *dual)
{
    double left = 1.0;
    for (uint32_t p = 0; p < dual->cell->spec.pp_degree; p++) {
        left -= dual->weights.slowest[p];
    }
    return dual->cell->rounds.slowest * gal_at_least_zero(left) * dual->slowest_least;
}

void gal_dual_weigh(gal_dual *dual)
{
    const gal_cell *cell = dual->cell;
    const gal_block_types *types = &cell->types;
    dual->constant = dual->bytes_alone ? 0.0 : cell->common_seconds + weighted_least(dual);
    for (uint32_t p = 0; p < cell->spec.pp_degree; p++) {
        const gal_rates r = rates_of(dual, p);
        dual->constant -= r.byte * (double)((int64_t)cell->spec.arena_limit_bytes - gal_shared_sum(&dual->least[p]));
        for (uint32_t type = 0; type < types->type_count; type++) {
            weigh_close(dual, types->type_first[type], p, &r);
        }
        for (uint32_t pair = 0; pair < types->pair_count; pair++) {
            weigh_edges(dual, types->pair_first[pair], p, false, &r);
            if (p > 0) {
                weigh_edges(dual, types->pair_first[pair], p, true, &r);
            }
        }
    }
    const gal_rates first = rates_of(dual, 0);
    weigh_start(dual, &first);
}

/* ---- the shortest path ---- */

/* The best way on from a node, and its cost; next_* are left alone if there is none. */
static double best_next(const gal_dual *dual, uint32_t block, uint32_t stage, uint32_t strategy, uint32_t *next_stage,
                        uint32_t *next_strategy)
{
    const gal_cell *cell = dual->cell;
    double best = HUGE_VAL;
    for (uint32_t to = stage; to <= stage + 1 && to <= dual->stage_most[block + 1]; to++) {
        if (to == stage ? to < dual->stage_least[block + 1] : !gal_dual_crosses(dual, block + 1, to)) {
            continue;
        }
        const double *edge =
            (to == stage ? dual->follow : dual->cross) + gal_cell_pair_index(cell, block + 1, to, strategy, 0);
        const double *rest = &dual->to_go[gal_dual_node(cell, block + 1, to, 0)];
        const uint32_t *choice;
        const uint32_t count = gal_dual_choices(dual, block + 1, to, &choice);
        for (uint32_t i = 0; i < count; i++) {
            const double cost = edge[choice[i]] + rest[choice[i]];
            if (cost < best) {
                best = cost;
                *next_stage = to;
                *next_strategy = choice[i];
            }
        }
    }
    return best;
}

static double node_to_go(const gal_dual *dual, uint32_t block, uint32_t stage, uint32_t strategy)
{
    const gal_cell *cell = dual->cell;
    const bool last = block + 1 == cell->block_count;
    uint32_t ignored_stage = 0;
    uint32_t ignored_strategy = 0;
    if (stage > block || (stage + 1 < cell->spec.pp_degree && last)) {
        return HUGE_VAL;
    }
    return last ? dual->close[gal_cell_price_index(cell, block, stage, strategy)]
                : best_next(dual, block, stage, strategy, &ignored_stage, &ignored_strategy);
}

void gal_dual_solve(gal_dual *dual)
{
    const gal_cell *cell = dual->cell;
    for (uint32_t i = cell->block_count; i-- > 0;) {
        for (uint32_t p = dual->stage_least[i]; p <= dual->stage_most[i]; p++) {
            const uint32_t *choice;
            const uint32_t count = gal_dual_choices(dual, i, p, &choice);
            dual->work += (uint64_t)count * count;
            for (uint32_t j = 0; j < count; j++) {
                dual->to_go[gal_dual_node(cell, i, p, choice[j])] = node_to_go(dual, i, p, choice[j]);
            }
        }
    }
    dual->bound = HUGE_VAL;
    dual->stage[0] = 0;
    for (uint32_t s = 0; s < cell->strategy_count; s++) {
        const double cost =
            dual->start[s] == HUGE_VAL ? HUGE_VAL : dual->start[s] + dual->to_go[gal_dual_node(cell, 0, 0, s)];
        if (cost < dual->bound) {
            dual->bound = cost;
            dual->strategy[0] = s;
        }
    }
    if (dual->bound == HUGE_VAL) {
        return;
    }
    dual->bound += dual->constant;
    for (uint32_t i = 0; i + 1 < cell->block_count; i++) {
        best_next(dual, i, dual->stage[i], dual->strategy[i], &dual->stage[i + 1], &dual->strategy[i + 1]);
    }
}

static double best_before(const gal_dual *dual, uint32_t block, uint32_t stage, uint32_t strategy)
{
    const gal_cell *cell = dual->cell;
    double best = HUGE_VAL;
    for (uint32_t crosses = 0; crosses <= (gal_dual_crosses(dual, block, stage) ? 1u : 0u); crosses++) {
        if (stage - crosses < dual->stage_least[block - 1] || stage - crosses > dual->stage_most[block - 1]) {
            continue;
        }
        const double *edge = crosses == 1 ? dual->cross : dual->follow;
        const uint32_t *choice;
        const uint32_t count = gal_dual_choices(dual, block - 1, stage - crosses, &choice);
        for (uint32_t i = 0; i < count; i++) {
            const double cost = dual->so_far[gal_dual_node(cell, block - 1, stage - crosses, choice[i])] +
                                edge[gal_cell_pair_index(cell, block, stage, choice[i], strategy)];
            best = cost < best ? cost : best;
        }
    }
    return best;
}

void gal_dual_look_back(gal_dual *dual)
{
    const gal_cell *cell = dual->cell;
    for (uint32_t i = 0; i < cell->block_count; i++) {
        for (uint32_t p = dual->stage_least[i]; p <= dual->stage_most[i]; p++) {
            const uint32_t *choice;
            const uint32_t count = gal_dual_choices(dual, i, p, &choice);
            dual->work += (uint64_t)count * count;
            for (uint32_t j = 0; j < count; j++) {
                dual->so_far[gal_dual_node(cell, i, p, choice[j])] = i > 0    ? best_before(dual, i, p, choice[j])
                                                                     : p == 0 ? dual->start[choice[j]]
                                                                              : HUGE_VAL;
            }
        }
    }
}

/* Over all blocks of a type. */
static double least_through(const gal_dual *dual, uint32_t type, uint32_t stage, uint32_t strategy)
{
    const gal_cell *cell = dual->cell;
    double least = HUGE_VAL;
    for (uint32_t i = cell->types.type_first[type]; i < cell->block_count; i++) {
        if (cell->types.type_of[i] == type) {
            const size_t node = gal_dual_node(cell, i, stage, strategy);
            least = fmin(least, dual->so_far[node] + dual->to_go[node]);
        }
    }
    return least + dual->constant;
}

void gal_dual_narrow(gal_dual *dual, double seconds)
{
    const gal_cell *cell = dual->cell;
    gal_dual_look_back(dual);
    for (uint32_t type = 0; type < cell->types.type_count; type++) {
        for (uint32_t p = 0; p < cell->spec.pp_degree; p++) {
            const size_t place = choice_place(cell, cell->types.type_first[type], p);
            uint32_t *list = dual->choices.strategy + place * cell->strategy_count;
            uint32_t kept = 0;
            for (uint32_t j = 0; j < dual->choices.count[place]; j++) {
                if (least_through(dual, type, p, list[j]) < seconds) {
                    list[kept++] = list[j];
                }
            }
            dual->choices.count[place] = kept;
        }
    }
}

/* Over all strategies in play. */
static double least_in(const gal_dual *dual, uint32_t block, uint32_t stage)
{
    const uint32_t *choice;
    const uint32_t count = gal_dual_choices(dual, block, stage, &choice);
    double least = HUGE_VAL;
    for (uint32_t i = 0; i < count; i++) {
        const size_t node = gal_dual_node(dual->cell, block, stage, choice[i]);
        least = fmin(least, dual->so_far[node] + dual->to_go[node]);
    }
    return least + dual->constant;
}

static void leave_out(gal_dual *dual, uint32_t block, uint32_t stage)
{
    const size_t first = gal_dual_node(dual->cell, block, stage, 0);
    for (uint32_t s = 0; s < dual->cell->strategy_count; s++) {
        dual->so_far[first + s] = dual->to_go[first + s] = HUGE_VAL;
    }
}

void gal_dual_narrow_stages(gal_dual *dual, double seconds)
{
    gal_dual_look_back(dual);
    for (uint32_t i = 0; i < dual->cell->block_count; i++) {
        uint32_t *least = &dual->stage_least[i];
        uint32_t *most = &dual->stage_most[i];
        while (*least < *most && least_in(dual, i, *least) >= seconds) {
            leave_out(dual, i, (*least)++);
        }
        while (*least < *most && least_in(dual, i, *most) >= seconds) {
            leave_out(dual, i, (*most)--);
        }
    }
}

void gal_dual_take_bytes(gal_dual *dual)
{
    dual->bytes_alone = true;
    for (uint32_t p = 0; p < dual->cell->spec.pp_degree; p++) {
        dual->weights.per_byte[p] = 1.0 / dual->cell->spec.pp_degree;
    }
}

void gal_dual_take_seconds(gal_dual *dual, const gal_weights *weights)
{
    dual->bytes_alone = false;
    dual->weights = *weights;
}

bool gal_dual_is_infeasible(const gal_dual *dual)
{
    return dual->bound > dual->most_seconds;
}
