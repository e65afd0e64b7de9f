#include "planner/solve/intervals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/base/vector.h"
#include "schemas/limits.h"

enum { INTERVALS_MAX = 1 << 26 };

static bool same_group(const gal_instance *g, uint32_t a, uint32_t b)
{
    return g->in_flight[a] == g->in_flight[b] && (a == 0) == (b == 0) &&
           (a + 1 == g->stage_count) == (b + 1 == g->stage_count);
}

/* The choices of every group; a group is made where its first stage is met. */
static gal_code make_groups(gal_intervals *t, gal_error *err)
{
    const gal_instance *g = t->instance;
    gal_code code = GAL_OK;
    for (uint32_t i = 0; i < g->stage_count; i++) {
        uint32_t c = 0;
        while (c < t->group_count && !same_group(g, t->choices[c]->stage, i)) {
            c++;
        }
        t->group[i] = c;
        if (c == t->group_count) {
            GAL_TRY(gal_menu_create(g, i, &t->choices[c], err));
            t->group_count++;
        }
    }
cleanup:
    return code;
}

/* agree(a, b), layers from a and from b on of the same kinds, is 1 + agree(a + 1, b + 1), or 0. */
static gal_code find_twins(gal_intervals *t, gal_error *err)
{
    const gal_instance *g = t->instance;
    uint32_t *agree = calloc((size_t)g->layer_count + 1, sizeof *agree); /* (a), of one b */
    t->twin = calloc(g->layer_count, sizeof *t->twin);
    t->twin_count = calloc(g->layer_count, sizeof *t->twin_count);
    if (agree == NULL || t->twin == NULL || t->twin_count == NULL) {
        free(agree);
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    for (uint32_t b = g->layer_count; b-- > 0;) {
        for (uint32_t a = 0; a < b; a++) {
            agree[a] = g->kind[a] == g->kind[b] ? 1 + agree[a + 1] : 0;
            if (agree[a] > t->twin_count[b]) {
                t->twin[b] = a;
                t->twin_count[b] = agree[a];
            }
        }
    }
    free(agree);
    return GAL_OK;
}

gal_code gal_intervals_create(const gal_instance *g, gal_intervals **out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_intervals *t = calloc(1, sizeof *t);
    if (t == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    t->instance = g;
    t->group = calloc(g->stage_count, sizeof *t->group);
    t->choices = calloc(g->stage_count, sizeof *t->choices);
    if (t->group == NULL || t->choices == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    GAL_TRY(find_twins(t, err));
    GAL_TRY(make_groups(t, err));
    const uint64_t rows = (uint64_t)(g->layer_count + 1) * (g->layer_count + 1) * t->group_count;
    if (rows > INTERVALS_MAX) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory: %u layers in %u different stages are too many",
                         g->layer_count, t->group_count));
    }
    t->interval = calloc((size_t)rows, sizeof *t->interval);
    if (t->interval == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    *out = t;
    t = NULL;
cleanup:
    gal_intervals_free(t);
    return code;
}

void gal_intervals_free(gal_intervals *t)
{
    if (t == NULL) {
        return;
    }
    for (uint32_t c = 0; c < t->group_count; c++) {
        gal_menu_free(t->choices[c]);
    }
    for (uint32_t a = 0; a < t->answer_count; a++) {
        free(t->answer[a].strategy);
    }
    free(t->answer);
    free(t->choices);
    free(t->group);
    free(t->twin_count);
    free(t->twin);
    free(t->interval);
    free(t);
}

uint32_t gal_interval_home(const gal_intervals *t, uint32_t first, uint32_t end)
{
    const uint32_t count = end - first;
    while (t->twin_count[first] >= count) {
        first = t->twin[first];
    }
    return first;
}

gal_interval *gal_interval_at(const gal_intervals *t, uint32_t stage, uint32_t first, uint32_t end)
{
    const size_t side = (size_t)t->instance->layer_count + 1;
    const uint32_t home = gal_interval_home(t, first, end);
    return &t->interval[(t->group[stage] * side + home) * side + home + (end - first)];
}

/* ---- bounds ---- */

/* Lengths of nodes under one multiplier: (kind, first, last, class). */
typedef struct lengths {
    double lambda;
    double *node;
    const double *change;                      /* (transition, from, to): class_change_ps */
    double behind[GAL_PROBLEM_STRATEGIES_MAX]; /* shortest path that ends before the layer, by its class */
    double ahead[GAL_PROBLEM_STRATEGIES_MAX];
} lengths;

static void price(const gal_menu *o, lengths *a)
{
    const gal_instance *g = o->instance;
    for (uint32_t kind = 0; kind < g->kind_count; kind++) {
        for (uint32_t variant = 0; variant < 4; variant++) {
            const bool is_last = variant % 2 == 1;
            const uint32_t *start = o->start + gal_menu_slot(o, kind, variant >= 2, is_last);
            double *node = a->node + ((size_t)kind * 4 + variant) * g->class_count;
            for (uint32_t k = 0; k < g->class_count; k++) {
                node[k] = INFINITY;
                for (uint32_t c = start[k]; c < start[k + 1]; c++) {
                    const gal_choice *at = &o->choice[c];
                    const int64_t bytes = at->kept_bytes + (is_last ? at->backward_bytes : 0);
                    node[k] = fmin(node[k], (double)at->seconds_ps + a->lambda * (double)bytes);
                }
            }
        }
    }
}

static const double *node_of(const gal_instance *g, const lengths *a, uint32_t layer, bool is_first, bool is_last)
{
    return a->node + ((size_t)g->kind[layer] * 4 + (is_first ? 2 : 0) + (is_last ? 1 : 0)) * g->class_count;
}

/* A path of this length is the shortest of a row: no choice within the budget takes less time than what is left. */
static void raise_bound(gal_interval *at, double shortest, double budget)
{
    const double proven = shortest - budget - 1e-11 * (shortest + budget) - 1.0;
    if (at->bound_ps != GAL_NEVER && proven > (double)at->bound_ps) {
        at->bound_ps = (int64_t)ceil(proven);
    }
}

static const double *change_into(const gal_instance *g, const lengths *a, uint32_t layer)
{
    return a->change + (size_t)g->transition[g->kind[layer]] * g->class_count * g->class_count;
}

/* From the classes of a layer (ahead) to those of the next (behind). */
GAL_VECTOR static void pass(uint32_t classes, const double *restrict ahead, const double *restrict change,
                            double *restrict behind)
{
    for (uint32_t to = 0; to < classes; to++) {
        behind[to] = INFINITY;
    }
    for (uint32_t from = 0; from < classes; from++, change += classes) {
        const double so_far = ahead[from];
        for (uint32_t to = 0; to < classes; to++) {
            const double length = so_far + change[to];
            behind[to] = length < behind[to] ? length : behind[to];
        }
    }
}

static void pass_back(uint32_t classes, const double *ahead, const double *change, double *behind)
{
    for (uint32_t from = 0; from < classes; from++, change += classes) {
        behind[from] = INFINITY;
        for (uint32_t to = 0; to < classes; to++) {
            behind[from] = fmin(behind[from], change[to] + ahead[to]);
        }
    }
}

/* All ends of the rows that begin at `first`. */
static void sweep(gal_intervals *t, const gal_menu *o, uint32_t first, lengths *a)
{
    const gal_instance *g = t->instance;
    const uint32_t classes = g->class_count;
    const double budget = a->lambda * (double)g->budget_bytes;
    memset(a->behind, 0, classes * sizeof *a->behind);
    for (uint32_t l = first; l < g->layer_count; l++) {
        const double *inner = node_of(g, a, l, l == first, false), *last = node_of(g, a, l, l == first, true);
        double shortest = INFINITY;
        for (uint32_t k = 0; k < classes; k++) {
            const double length = a->behind[k] + last[k];
            shortest = length < shortest ? length : shortest;
            a->ahead[k] = a->behind[k] + inner[k];
        }
        raise_bound(gal_interval_at(t, o->stage, first, l + 1), shortest, budget);
        if (l + 1 == g->layer_count) {
            break;
        }
        pass(classes, a->ahead, change_into(g, a, l + 1), a->behind);
    }
}

/* The rows that end with the last layer, all first layers at once: from behind, `ahead` is the shortest path from a
 * layer on by its class, `behind` that from the layer after it by this one's. */
static void sweep_back(gal_intervals *t, const gal_menu *o, lengths *a)
{
    const gal_instance *g = t->instance;
    const uint32_t classes = g->class_count;
    const double budget = a->lambda * (double)g->budget_bytes;
    memset(a->behind, 0, classes * sizeof *a->behind);
    for (uint32_t l = g->layer_count; l-- > 0;) {
        const bool is_last = l + 1 == g->layer_count;
        const double *inner = node_of(g, a, l, false, is_last), *first = node_of(g, a, l, true, is_last);
        double shortest = INFINITY;
        for (uint32_t k = 0; k < classes; k++) {
            shortest = fmin(shortest, first[k] + a->behind[k]);
            a->ahead[k] = inner[k] + a->behind[k];
        }
        raise_bound(gal_interval_at(t, o->stage, l, g->layer_count), shortest, budget);
        if (l > 0) {
            pass_back(classes, a->ahead, change_into(g, a, l), a->behind);
        }
    }
}

/* Every row: those whose kinds are another's, but for the model's last layer, from behind. */
static void sweep_all(gal_intervals *t, const gal_menu *o, lengths *a)
{
    const uint32_t layers = t->instance->layer_count;
    sweep(t, o, 0, a);
    if (o->stage == 0) {
        return; /* which begins with the first layer */
    }
    for (uint32_t first = 1; first < layers; first++) {
        if (t->twin_count[first] + 1 < layers - first) {
            sweep(t, o, first, a);
        }
    }
    sweep_back(t, o, a);
}

/* Rows whose least bytes, by the row of Eq. 2 of their last layer, are over the budget. */
static void refuse_large(gal_intervals *t, const gal_menu *o, const int64_t *kept, const int64_t *closing)
{
    const gal_instance *g = t->instance;
    for (uint32_t first = 0; first < g->layer_count; first++) {
        int64_t sum = 0;
        for (uint32_t l = first; l < g->layer_count; l++) {
            if (sum + closing[g->kind[l]] > g->budget_bytes) {
                gal_interval_at(t, o->stage, first, l + 1)->bound_ps = GAL_NEVER;
            }
            sum += kept[g->kind[l]];
        }
    }
}

static void least_bytes_of_kinds(const gal_menu *o, int64_t *kept, int64_t *closing)
{
    const gal_instance *g = o->instance;
    for (uint32_t kind = 0; kind < g->kind_count; kind++) {
        const uint32_t *start = o->start + gal_menu_slot(o, kind, false, false);
        kept[kind] = closing[kind] = INT64_MAX;
        for (uint32_t c = start[0]; c < start[g->class_count]; c++) {
            const gal_choice *at = &o->choice[c];
            const int64_t with = at->kept_bytes + at->backward_bytes;
            kept[kind] = at->kept_bytes < kept[kind] ? at->kept_bytes : kept[kind];
            closing[kind] = with < closing[kind] ? with : closing[kind];
        }
    }
}

/* The multiplier of an even share of the layers, or picoseconds over bytes of all choices where that has none. */
static gal_code typical_lambda(const gal_menu *o, double *lambda, gal_error *err)
{
    const gal_instance *g = o->instance;
    const uint64_t layers = g->layer_count;
    gal_stage_bound bound;
    const gal_stage stage = {o, (uint32_t)(layers * o->stage / g->stage_count),
                             (uint32_t)(layers * (o->stage + 1) / g->stage_count)};
    const gal_code code = gal_stage_bound_create(&stage, &bound, err);
    if (code != GAL_OK) {
        return code;
    }
    *lambda = bound.multiplier_count > 0 ? bound.multiplier[0].lambda : 0.0;
    gal_stage_bound_free(&bound);
    if (*lambda <= 0.0) {
        double seconds = 0.0;
        double bytes = 1.0;
        for (uint32_t c = 0; c < o->start[(size_t)g->kind_count * 4 * g->class_count]; c++) {
            seconds += (double)o->choice[c].seconds_ps;
            bytes += (double)o->choice[c].kept_bytes;
        }
        *lambda = seconds / bytes;
    }
    return GAL_OK;
}

/* class_change_ps in doubles; NULL without memory. */
static double *changes_of(const gal_instance *g)
{
    uint32_t most = 0;
    for (uint32_t k = 0; k < g->kind_count; k++) {
        most = g->transition[k] > most ? g->transition[k] : most;
    }
    const size_t count = ((size_t)most + 1) * g->class_count * g->class_count;
    double *out = calloc(count, sizeof *out);
    for (size_t i = 0; out != NULL && i < count; i++) {
        out[i] = (double)g->class_change_ps[i];
    }
    return out;
}

gal_code gal_intervals_bound(gal_intervals *t, gal_error *err)
{
    static const double factors[] = {0.0, 1.0 / 16, 1.0 / 4, 1.0 / 2, 1.0, 2.0, 4.0, 16.0};
    const gal_instance *g = t->instance;
    gal_code code = GAL_OK;
    lengths *a = calloc(1, sizeof *a);
    int64_t *bytes = calloc((size_t)g->kind_count * 2, sizeof *bytes);
    double *node = calloc((size_t)g->kind_count * 4 * g->class_count, sizeof *node);
    double *change = changes_of(g);
    if (a == NULL || bytes == NULL || node == NULL || change == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    a->node = node;
    a->change = change;
    for (uint32_t c = 0; c < t->group_count; c++) {
        double lambda = 0.0;
        least_bytes_of_kinds(t->choices[c], bytes, bytes + g->kind_count);
        refuse_large(t, t->choices[c], bytes, bytes + g->kind_count);
        GAL_TRY(typical_lambda(t->choices[c], &lambda, err));
        for (size_t f = 0; f < sizeof factors / sizeof factors[0]; f++) {
            a->lambda = lambda * factors[f];
            price(t->choices[c], a);
            sweep_all(t, t->choices[c], a);
        }
    }
cleanup:
    free(change);
    free(node);
    free(bytes);
    free(a);
    return code;
}

/* ---- exact values ---- */

static gal_code keep_answer(gal_intervals *t, gal_interval_answer answer, gal_error *err)
{
    if (t->answer_count == t->answer_capacity) {
        const uint32_t capacity = t->answer_capacity == 0 ? 64 : t->answer_capacity * 2;
        gal_interval_answer *larger = realloc(t->answer, capacity * sizeof *larger);
        if (larger == NULL) {
            return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
        }
        t->answer = larger;
        t->answer_capacity = capacity;
    }
    t->answer[t->answer_count++] = answer;
    return GAL_OK;
}

gal_code gal_interval_solve(gal_intervals *t, uint32_t stage, uint32_t first, uint32_t end, uint64_t label_limit,
                            gal_error *err)
{
    gal_code code = GAL_OK;
    gal_interval *at = gal_interval_at(t, stage, first, end);
    const uint32_t home = gal_interval_home(t, first, end);
    const gal_stage row = {t->choices[t->group[stage]], home, home + (end - first)};
    gal_stage_answer found;
    uint32_t *strategy = NULL;
    if (at->solved != 0) {
        return GAL_OK;
    }
    strategy = calloc(row.end, sizeof *strategy);
    if (strategy == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    GAL_TRY(gal_stage_solve(&row, label_limit, strategy, &found, err));
    memmove(strategy, strategy + home, (end - first) * sizeof *strategy);
    GAL_TRY(keep_answer(t, (gal_interval_answer){home, found.seconds_ps, strategy}, err));
    strategy = NULL;
    at->bound_ps = found.bound_ps > at->bound_ps ? found.bound_ps : at->bound_ps;
    at->solved = t->answer_count;
    t->label_count += found.label_count;
cleanup:
    free(strategy);
    return code;
}
