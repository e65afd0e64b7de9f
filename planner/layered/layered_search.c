#include "planner/layered/layered_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/cell/cell_list.h"
#include "planner/cell/finalist.h"
#include "planner/layered/layered_plan.h"
#include "planner/layered/node_solve.h"
#include "planner/layered/polish.h"
#include "schemas/limits.h"

typedef enum gal_node_level { NODE_LISTED, NODE_BOUNDED, NODE_CLOSED } gal_node_level;

typedef struct candidate {
    gal_node node;
    gal_node_level level;
    bool solved;
} candidate;

typedef struct search {
    const gal_search_request *request;
    gal_search_result *result;
    gal_layers layers;
    gal_price_cache *cache;
    gal_meshes *meshes; /* [devices of a stage], those in use */
    uint32_t device_count;
    gal_kind_table *table; /* [cell] */
    uint32_t table_count;
    candidate *candidate;
    uint32_t candidate_count, room;
    gal_node_limits limits;
} search;

static gal_code out_of_memory(gal_error *err)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}

static double per_sample(const gal_node *node)
{
    return node->bound_seconds / node->numbers.global_batch_samples;
}

/* Seconds per sample of the fastest plan so far. */
static double incumbent_per_sample(const search *s)
{
    double least = INFINITY;
    for (uint32_t i = 0; i < s->result->finalist_count; i++) {
        const gal_finalist *f = &s->result->finalist[i];
        least = fmin(least, f->simulated_seconds / f->global_batch_samples);
    }
    return least;
}

/* The share by which half a layer more or less on its stages may make a node's plan faster than its bound: the last
 * touch alone cuts layers (polish.h). */
static double halves_share(const search *s, const gal_node *node)
{
    const double most = 0.05, quarter = 0.25;
    const uint32_t stages = node->numbers.pp_degree;
    return stages == 1 ? 0.0 : fmin(quarter * stages / s->layers.layer_count, most);
}

/* Seconds of a step from which on a node is left. */
static double enough_seconds(const search *s, const gal_node *node)
{
    return (1.0 + halves_share(s, node)) * incumbent_per_sample(s) * node->numbers.global_batch_samples;
}

/* ---- nodes ---- */

static double fastest_of(const gal_node *node, uint32_t type)
{
    const gal_kind_group *group = &node->table->group[node->rows];
    double least = INFINITY;
    for (uint32_t k = group->first[type]; k < group->first[type + 1]; k++) {
        const gal_kind *kind = &node->table->kind[k];
        least = gal_node_allows(node, kind) ? fmin(least, gal_kind_share_seconds(node->table, kind, 1, node->finish))
                                            : least;
    }
    return least;
}

/* Every layer at its fastest, on stages that take equally long. */
static double first_bound(const search *s, const gal_node *node)
{
    double of_type[GAL_LAYER_TYPES_MAX];
    double sum = 0.0;
    for (uint32_t type = 0; type < s->layers.type_count; type++) {
        of_type[type] = fastest_of(node, type);
    }
    for (uint32_t layer = 0; layer < s->layers.layer_count; layer++) {
        sum += of_type[s->layers.type_of[layer]];
    }
    return sum + gal_durations_fixed_step_seconds(s->request->durations);
}

static gal_code add_one(search *s, const gal_node *node, gal_error *err)
{
    if (s->candidate_count == s->room) {
        const uint32_t room = 2 * s->room + 64;
        candidate *grown = realloc(s->candidate, room * sizeof *grown);
        if (grown == NULL) {
            return out_of_memory(err);
        }
        s->candidate = grown;
        s->room = room;
    }
    s->candidate[s->candidate_count] = (candidate){.node = *node};
    s->candidate[s->candidate_count].node.bound_seconds = first_bound(s, node);
    s->candidate_count++;
    return GAL_OK;
}

/* Of one stage there is one finish. */
static gal_code add_node(search *s, const gal_node *like, gal_error *err)
{
    gal_node node = *like;
    gal_code code = GAL_OK;
    for (uint32_t finish = 0; finish < GAL_FINISH_COUNT && code == GAL_OK; finish++) {
        node.finish = (gal_finish)finish;
        code = finish == 0 || node.numbers.pp_degree > 1 ? add_one(s, &node, err) : GAL_OK;
    }
    return code;
}

/* The first type whose layers hold the token table. */
static uint32_t first_holder(const gal_layers *layers)
{
    uint32_t type = 0;
    while (type + 1 < layers->type_count && !layers->type[type].holds_table) {
        type++;
    }
    return type;
}

/* What the holders of a shared table take and hold at least if they shard it like a strategy. */
typedef struct sharding {
    uint32_t strategy;
    double seconds;
    int64_t bytes, peak_bytes;
} sharding;

static sharding sharding_of(const search *s, const gal_node *node)
{
    const gal_kind_group *group = &node->table->group[node->rows];
    sharding sum = {.strategy = node->shards};
    for (uint32_t type = 0; type < s->layers.type_count; type++) {
        sharding least = {0, INFINITY, INT64_MAX, INT64_MAX};
        for (uint32_t k = group->first[type]; s->layers.type[type].holds_table && k < group->first[type + 1]; k++) {
            const gal_kind *kind = &node->table->kind[k];
            if (gal_node_allows(node, kind)) {
                const int64_t bytes = kind->static_bytes + kind->saved_bytes;
                least.seconds = fmin(least.seconds, kind->times.step_seconds + kind->table_seconds);
                least.bytes = bytes < least.bytes ? bytes : least.bytes;
                least.peak_bytes = kind->peak_bytes < least.peak_bytes ? kind->peak_bytes : least.peak_bytes;
            }
        }
        if (s->layers.type[type].holds_table) {
            sum.seconds += least.seconds;
            sum.bytes = isinf(least.seconds) ? INT64_MAX : sum.bytes + least.bytes;
            sum.peak_bytes = least.peak_bytes > sum.peak_bytes ? least.peak_bytes : sum.peak_bytes;
        }
    }
    return sum;
}

static bool is_better(const sharding *a, const sharding *b)
{
    return a->seconds <= b->seconds && a->bytes <= b->bytes && a->peak_bytes <= b->peak_bytes;
}

/* A node for each way in which the holders of a shared table may shard it, but those that another is better than in
 * all; without such a table one. */
static gal_code add_nodes(search *s, const gal_cell_numbers *numbers, gal_kind_table *table, uint32_t rows,
                          gal_error *err)
{
    enum { SHARDINGS_MAX = 256 };
    const gal_kind_group *group = &table->group[rows];
    gal_node node = {.numbers = *numbers, .table = table, .rows = rows};
    if (!s->layers.table_shared) {
        return add_node(s, &node, err);
    }
    const uint32_t holder = first_holder(&s->layers);
    sharding kept[SHARDINGS_MAX];
    uint32_t count = 0;
    gal_code code = GAL_OK;
    for (uint32_t k = group->first[holder]; k < group->first[holder + 1] && count < SHARDINGS_MAX; k++) {
        node.shards = table->kind[k].strategy[GAL_HALF_ATTENTION];
        const sharding next = sharding_of(s, &node);
        uint32_t left = 0;
        bool dominated = isinf(next.seconds);
        for (uint32_t i = 0; i < count; i++) {
            dominated = dominated || is_better(&kept[i], &next);
        }
        for (uint32_t i = 0; i < count && !dominated; i++) {
            if (!is_better(&next, &kept[i])) {
                kept[left++] = kept[i];
            }
        }
        if (!dominated) {
            kept[left] = next;
            count = left + 1;
        }
    }
    for (uint32_t i = 0; i < count && code == GAL_OK; i++) {
        node.shards = kept[i].strategy;
        code = add_node(s, &node, err);
    }
    return code;
}

static bool divides(const search *s, const gal_cell_numbers *numbers)
{
    return s->device_count % numbers->pp_degree == 0 && numbers->pp_degree <= s->layers.layer_count &&
           numbers->global_batch_samples % numbers->microbatch_count == 0 &&
           (uint64_t)numbers->pp_degree * numbers->microbatch_count <= GAL_STAGE_MICROBATCHES_MAX;
}

static gal_code add_cell(search *s, const gal_cell_numbers *numbers, gal_error *err)
{
    const uint32_t devices = s->device_count / numbers->pp_degree;
    gal_code code = GAL_OK;
    if (s->meshes[devices].strategy == NULL) {
        GAL_TRY(gal_meshes_create(&s->request->space, devices, &s->meshes[devices], err));
    }
    const gal_kind_query query = {.model = s->request->model,
                                  .durations = s->request->durations,
                                  .cache = s->cache,
                                  .layers = &s->layers,
                                  .meshes = &s->meshes[devices],
                                  .device_count = devices,
                                  .stage_count = numbers->pp_degree,
                                  .microbatch_samples = numbers->global_batch_samples / numbers->microbatch_count,
                                  .microbatch_count = numbers->microbatch_count,
                                  .prefetch_depth = s->request->prefetch_depth};
    gal_kind_table *table = &s->table[s->table_count];
    GAL_TRY(gal_kind_table_create(&query, table, err));
    s->table_count++;
    for (uint32_t rows = 0; rows < table->group_count; rows++) {
        if (table->group[rows].complete) {
            GAL_TRY(add_nodes(s, numbers, table, rows, err));
        }
    }
cleanup:
    return code;
}

static gal_code list_nodes(search *s, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_cell_numbers *cell = NULL;
    uint32_t count = 0;
    GAL_TRY(gal_search_cells(s->request, &cell, &count, err));
    s->table = calloc((size_t)count + 1, sizeof *s->table);
    s->meshes = calloc((size_t)s->device_count + 1, sizeof *s->meshes);
    if (s->table == NULL || s->meshes == NULL) {
        GAL_TRY(out_of_memory(err));
    }
    for (uint32_t i = 0; i < count; i++) {
        if (divides(s, &cell[i])) {
            GAL_TRY(add_cell(s, &cell[i], err));
            s->result->cell_count++;
        }
    }
cleanup:
    free(cell);
    return code;
}

/* ---- solving ---- */

static gal_code keep_finalist(search *s, gal_finalist *finalist, gal_error *err)
{
    gal_search_result *r = s->result;
    gal_finalist *grown = realloc(r->finalist, (r->finalist_count + (size_t)1) * sizeof *grown);
    if (grown == NULL) {
        return out_of_memory(err);
    }
    r->finalist = grown;
    r->finalist[r->finalist_count++] = *finalist;
    memset(finalist, 0, sizeof *finalist);
    return GAL_OK;
}

/* Orders of layers differ by a percent or two: those of a plan that is farther from the incumbent are not tried. */
static const double order_share = 0.03;

/* Cuts moved by blocks gain some percent where stages have few layers. A plan farther behind the incumbent, or behind a
 * polished one of its own cell, is left as it is. */
static const double polish_share = 0.06;

static bool is_worth_polish(const search *s, const gal_node *node, double seconds)
{
    const gal_cell_numbers *n = &node->numbers;
    bool worth = seconds < (1.0 + polish_share) * incumbent_per_sample(s) * n->global_batch_samples;
    for (uint32_t i = 0; i < s->result->finalist_count && worth; i++) {
        const gal_finalist *f = &s->result->finalist[i];
        worth = f->pp_degree != n->pp_degree || f->microbatch_count != n->microbatch_count ||
                f->global_batch_samples != n->global_batch_samples || seconds < f->simulated_seconds;
    }
    return worth;
}

/* The fastest order of a solution, by simulation. */
static gal_code simulate(search *s, const gal_node *node, const gal_node_solution *solution, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_finalist best = {0}, next = {0};
    const bool mixes = gal_solution_mixes(node, solution);
    for (uint32_t order = 0; order < (mixes ? GAL_LAYER_ORDER_COUNT : 1U); order++) {
        bool fits = false;
        GAL_TRY(gal_solution_plan(s->request, node, &s->limits, solution, (gal_layer_order)order, &next, &fits, err));
        if (fits && (best.simulated_seconds == 0.0 || next.simulated_seconds < best.simulated_seconds)) {
            const gal_finalist slower = best;
            best = next;
            next = slower;
        }
        gal_plan_free(&next.plan);
        next = (gal_finalist){0};
        if (best.simulated_seconds >
            (1.0 + order_share) * incumbent_per_sample(s) * node->numbers.global_batch_samples) {
            break;
        }
    }
    if (best.simulated_seconds > 0.0) {
        if (is_worth_polish(s, node, best.simulated_seconds)) {
            GAL_TRY(gal_polish(s->request, node, &s->limits, solution, &best, err));
        }
        GAL_TRY(keep_finalist(s, &best, err));
    }
cleanup:
    gal_plan_free(&best.plan);
    gal_plan_free(&next.plan);
    return code;
}

static gal_code solve(search *s, candidate *c, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_node_solution solution = {0};
    GAL_TRY(gal_node_solve(&c->node, &s->limits, enough_seconds(s, &c->node), &solution, err));
    c->node.bound_seconds = fmax(c->node.bound_seconds, solution.bound_seconds);
    c->level = NODE_CLOSED;
    c->solved = true;
    if (solution.fits) {
        GAL_TRY(simulate(s, &c->node, &solution, err));
    }
cleanup:
    gal_node_solution_free(&solution);
    return code;
}

static gal_code advance(search *s, candidate *c, gal_error *err)
{
    if (c->level == NODE_BOUNDED) {
        return solve(s, c, err);
    }
    double seconds = 0.0;
    const gal_code code = gal_node_bound(&c->node, &s->limits, &seconds, err);
    c->node.bound_seconds = fmax(c->node.bound_seconds, seconds);
    c->level = isinf(seconds) ? NODE_CLOSED : NODE_BOUNDED;
    return code;
}

/* The node of the least bound, less what halves may gain, that is not ruled out; NULL: none is left. */
static candidate *most_promising(search *s)
{
    candidate *best = NULL;
    double least = incumbent_per_sample(s);
    for (uint32_t i = 0; i < s->candidate_count; i++) {
        candidate *c = &s->candidate[i];
        const double own = per_sample(&c->node) / (1.0 + halves_share(s, &c->node));
        if (c->level != NODE_CLOSED && own < least) {
            best = c;
            least = own;
        }
    }
    return best;
}

static gal_code search_nodes(search *s, gal_error *err)
{
    for (candidate *c = most_promising(s); c != NULL; c = most_promising(s)) {
        const gal_code code = advance(s, c, err);
        if (code != GAL_OK) {
            return code;
        }
    }
    return GAL_OK;
}

static void conclude(search *s)
{
    gal_search_result *r = s->result;
    r->feasible = r->finalist_count > 0;
    if (!r->feasible) {
        return;
    }
    qsort(r->finalist, r->finalist_count, sizeof *r->finalist, gal_finalist_faster_first);
    const gal_finalist *best = &r->finalist[0];
    r->lower_bound_seconds = fmin(best->objective_seconds, best->simulated_seconds);
    for (uint32_t i = 0; i < s->candidate_count; i++) {
        const candidate *c = &s->candidate[i];
        r->solved_cell_count += c->solved;
        if (c->node.numbers.global_batch_samples == best->global_batch_samples) {
            r->lower_bound_seconds = fmin(r->lower_bound_seconds, c->node.bound_seconds);
        }
    }
}

static gal_code check_request(const gal_search_request *request, gal_error *err)
{
    const bool known = request->schedule == GAL_SCHEDULE_1F1B || request->schedule == GAL_SCHEDULE_GPIPE;
    if (!known || request->moving != NULL || request->space.offload || request->space.chunk) {
        return gal_fail(err, GAL_ERR_USAGE,
                        "--planner layers: knows the schedules gpipe and 1f1b, and a space without offload and chunk");
    }
    return GAL_OK;
}

static void release(search *s)
{
    for (uint32_t i = 0; i < s->table_count; i++) {
        gal_kind_table_free(&s->table[i]);
    }
    for (uint32_t d = 0; s->meshes != NULL && d <= s->device_count; d++) {
        gal_meshes_free(&s->meshes[d]);
    }
    free(s->table);
    free(s->meshes);
    free(s->candidate);
    gal_layers_free(&s->layers);
    gal_price_cache_free(s->cache);
}

gal_code gal_layered_search(const gal_search_request *request, gal_search_result *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_search_result result = {0};
    const gal_cluster *cluster = gal_durations_cluster(request->durations);
    const uint64_t memory = request->memory_bytes == 0 ? cluster->device.memory_bytes : request->memory_bytes;
    const uint64_t fixed = gal_durations_fixed_bytes(request->durations);
    search s = {.request = request,
                .result = &result,
                .device_count = cluster->device_count,
                .limits = {.arena_bytes = memory > fixed ? memory - fixed : 0, .schedule = request->schedule}};
    GAL_TRY(check_request(request, err));
    GAL_TRY(gal_layers_create(request->model, request->durations, &s.layers, err));
    GAL_TRY(gal_price_cache_create(request->model, request->durations, &s.cache, err));
    GAL_TRY(list_nodes(&s, err));
    GAL_TRY(search_nodes(&s, err));
    conclude(&s);
    *out = result;
    memset(&result, 0, sizeof result);
cleanup:
    release(&s);
    gal_search_result_free(&result);
    return code;
}
