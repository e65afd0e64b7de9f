#include "tests/support/random_problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/random_plan.h"

static double uniform(uint64_t *state)
{
    return (double)(gal_random_next(state) >> 11) * 0x1p-53;
}

static void allocate(gal_problem *p)
{
    const size_t n = p->strategy_count;
    p->strategy = calloc(n, sizeof *p->strategy);
    p->transition_seconds = calloc(p->transition_count * n * n, sizeof *p->transition_seconds);
    p->kind = calloc(p->kind_count, sizeof *p->kind);
    p->cost = calloc(p->kind_count * n, sizeof *p->cost);
    p->run = calloc(p->run_count, sizeof *p->run);
    if (p->strategy == NULL || p->transition_seconds == NULL || p->kind == NULL || p->cost == NULL || p->run == NULL) {
        abort();
    }
    (void)snprintf(p->name, sizeof p->name, "random");
    for (uint32_t s = 0; s < n; s++) {
        (void)snprintf(p->strategy[s].name, sizeof p->strategy[s].name, "s%u", s);
    }
    for (uint32_t k = 0; k < p->kind_count; k++) {
        (void)snprintf(p->kind[k].name, sizeof p->kind[k].name, "k%u", k);
    }
}

/* ---- small ---- */

static double few(uint64_t *state, uint32_t below)
{
    return (double)gal_random_below(state, below) * 1e-12;
}

static void draw_transitions(uint64_t *state, gal_problem *p)
{
    const size_t n = p->strategy_count;
    const bool has_diagonal = gal_random_below(state, 4) == 0;
    const bool has_classes = gal_random_below(state, 2) == 0;
    uint32_t class[16] = {0};
    for (uint32_t s = 0; s < n; s++) {
        class[s] = has_classes ? gal_random_below(state, 2) : s;
    }
    for (uint32_t t = 0; t < p->transition_count; t++) {
        for (uint32_t a = 0; a < n; a++) {
            for (uint32_t b = 0; b < n; b++) {
                const bool is_free = class[a] == class[b] && !has_diagonal;
                const double cost = few(state, 30);
                const double known = p->transition_seconds[(t * n + class[a]) * n + class[b]];
                p->transition_seconds[(t * n + a) * n + b] = is_free                                           ? 0.0
                                                             : has_classes && (class[a] != a || class[b] != b) ? known
                                                                                                               : cost;
            }
        }
    }
}

static void draw_costs(uint64_t *state, gal_problem *p, uint32_t backward_factor)
{
    for (uint32_t i = 0; i < p->kind_count * p->strategy_count; i++) {
        const uint32_t speed = gal_random_below(state, 40);
        p->cost[i] = (gal_problem_cost){.seconds = (double)(20 + speed + gal_random_below(state, 30)) * 1e-12,
                                        .enter_seconds = few(state, 25),
                                        .state_bytes = (40 - speed) / 2 + gal_random_below(state, 12),
                                        .forward_bytes = (40 - speed) / 4 + gal_random_below(state, 8),
                                        .backward_bytes = backward_factor * gal_random_below(state, 9)};
    }
    for (uint32_t s = 0; s < p->strategy_count; s++) {
        p->strategy[s].tied_seconds = few(state, 25);
    }
}

static void draw_runs(uint64_t *state, gal_problem *p, uint32_t layer_count)
{
    for (uint32_t r = 0; r < p->run_count; r++) {
        p->run[r].kind_index = gal_random_below(state, p->kind_count);
        p->run[r].layer_count = 1;
    }
    for (uint32_t l = p->run_count; l < layer_count; l++) {
        p->run[gal_random_below(state, p->run_count)].layer_count++;
    }
}

/* Sums of the least and of the most that a layer may hold. */
static void bytes_between(const gal_problem *p, uint64_t *least, uint64_t *most)
{
    *least = *most = 0;
    for (uint32_t r = 0; r < p->run_count; r++) {
        uint64_t low = UINT64_MAX;
        uint64_t high = 0;
        for (uint32_t s = 0; s < p->strategy_count; s++) {
            const gal_problem_cost *c = &p->cost[p->run[r].kind_index * p->strategy_count + s];
            const uint64_t bytes = c->state_bytes + gal_problem_in_flight(p, 0) * c->forward_bytes;
            low = bytes < low ? bytes : low;
            high = bytes > high ? bytes : high;
        }
        *least += low * p->run[r].layer_count;
        *most += high * p->run[r].layer_count;
    }
}

void gal_random_problem(uint64_t seed, uint32_t layers_min, uint32_t layers_max, uint32_t strategies_max,
                        uint32_t stage_count, gal_problem *out)
{
    uint64_t state = seed;
    const uint32_t layer_count = layers_min + gal_random_below(&state, layers_max - layers_min + 1);
    uint64_t least;
    uint64_t most;
    *out = (gal_problem){.schedule = gal_random_below(&state, 4) == 0 ? GAL_SCHEDULE_GPIPE : GAL_SCHEDULE_1F1B,
                         .stage_count = stage_count,
                         .microbatch_count = 1 + gal_random_below(&state, 6),
                         .strategy_count = 2 + gal_random_below(&state, strategies_max - 1),
                         .transition_count = 1 + gal_random_below(&state, 2),
                         .kind_count = 1 + gal_random_below(&state, 3),
                         .run_count = 1 + gal_random_below(&state, layer_count < 4 ? layer_count : 4)};
    allocate(out);
    for (uint32_t k = 0; k < out->kind_count; k++) {
        out->kind[k].transition_index = gal_random_below(&state, out->transition_count);
    }
    draw_transitions(&state, out);
    draw_costs(&state, out, seed % 3 == 0 ? 5 : 1);
    draw_runs(&state, out, layer_count);
    bytes_between(out, &least, &most);
    out->budget_bytes = 1 + (least + gal_random_below(&state, (uint32_t)(most - least) + 20)) / stage_count;
}

/* ---- Transformers ---- */

typedef struct split {
    uint32_t tp, dp;
    bool is_sharded, recomputes;
} split;

static split draw_split(uint64_t *state, uint32_t index)
{
    static const uint32_t degrees[] = {1, 2, 4, 8, 16, 32, 64};
    const uint32_t tp = degrees[(index / 4) % 7];
    (void)state;
    return (split){tp, 64 / tp, index % 2 == 1, index / 2 % 2 == 1};
}

/* A ring over `members` neighbours at a distance: inside 8 devices or across. */
static double ring_seconds(double bytes, uint32_t members, uint32_t reach)
{
    const double rate = reach <= 8 ? 200e9 : 20e9;
    return members <= 1 ? 0.0 : 2.0 * (members - 1) / members * bytes / rate;
}

static gal_problem_cost price(uint64_t *state, const split *s, double hidden, double scale)
{
    const double tokens = 8.0 * 2048.0 * 64.0 / 64.0 / s->dp * 8.0 * scale;
    const double parameters = 12.0 * hidden * hidden;
    const double noise = 1.0 + 0.015 * (2.0 * uniform(state) - 1.0);
    const double compute = (s->recomputes ? 8.0 : 6.0) * parameters * tokens / s->tp / 150e12;
    const double activations = tokens * hidden * 2.0;
    const double tensor = (s->recomputes ? 3.0 : 2.0) * 2.0 * ring_seconds(activations, s->tp, s->tp);
    const double data = (s->is_sharded ? 1.5 : 1.0) * ring_seconds(parameters * 2.0 / s->tp, s->dp, s->tp * s->dp);
    const double kept = s->recomputes ? activations : activations * (10.0 + 24.0 / s->tp) / 2.0;
    const double state_bytes = 16.0 * parameters / s->tp / (s->is_sharded ? s->dp : 1);
    return (gal_problem_cost){.seconds = (compute + tensor + 0.3 * data) * noise,
                              .enter_seconds = activations / 20e9,
                              .state_bytes = (uint64_t)(state_bytes * noise),
                              .forward_bytes = (uint64_t)(kept * noise),
                              .backward_bytes = (uint64_t)((s->is_sharded ? 2.0 * parameters / s->tp : 0.0) +
                                                           (s->recomputes ? activations * 17.0 / s->tp : 0.0))};
}

void gal_random_transformer_problem(const gal_transformer_problem *form, gal_problem *out)
{
    uint64_t state = form->seed;
    const uint32_t n = form->strategy_count;
    *out = (gal_problem){.schedule = GAL_SCHEDULE_1F1B,
                         .stage_count = form->stage_count,
                         .microbatch_count = form->microbatch_count,
                         .strategy_count = n,
                         .transition_count = 1,
                         .kind_count = form->run_count,
                         .run_count = form->run_count};
    allocate(out);
    const double hidden = 2048.0 + 1024.0 * gal_random_below(&state, 5);
    for (uint32_t a = 0; a < n; a++) {
        const split from = draw_split(&state, a);
        out->strategy[a].tied_seconds = form->stage_count > 1 ? 1e-3 / from.tp : 0.0;
        for (uint32_t b = 0; b < n; b++) {
            const split to = draw_split(&state, b);
            const bool moves = from.tp != to.tp || (form->all_transitions && a != b);
            out->transition_seconds[a * n + b] = moves ? 1e-3 + 1e-3 * fabs(log2((double)from.tp / to.tp)) : 0.0;
        }
    }
    for (uint32_t k = 0; k < form->run_count; k++) {
        const double scale = 0.5 + uniform(&state);
        for (uint32_t s = 0; s < n; s++) {
            const split here = draw_split(&state, s);
            out->cost[k * n + s] = price(&state, &here, hidden, scale);
        }
        out->run[k] = (gal_problem_run){k, form->layer_count / form->run_count +
                                               (k < form->layer_count % form->run_count ? 1 : 0)};
    }
    uint64_t least;
    uint64_t most;
    bytes_between(out, &least, &most);
    uint64_t backward = 0;
    uint64_t fastest_bytes = 0;
    for (uint32_t r = 0; r < out->run_count; r++) {
        const gal_problem_cost *row = out->cost + r * n;
        uint32_t fastest = 0;
        for (uint32_t s = 0; s < n; s++) {
            fastest = row[s].seconds < row[fastest].seconds ? s : fastest;
            backward = row[s].backward_bytes > backward ? row[s].backward_bytes : backward;
        }
        fastest_bytes += (row[fastest].state_bytes + gal_problem_in_flight(out, 0) * row[fastest].forward_bytes) *
                         out->run[r].layer_count;
    }
    fastest_bytes = fastest_bytes > least ? fastest_bytes : least;
    out->budget_bytes =
        1 + backward +
        (uint64_t)((double)least + form->budget_share * (double)(fastest_bytes - least)) / form->stage_count;
}
