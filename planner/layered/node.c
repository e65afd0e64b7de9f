#include "planner/layered/node.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/program/schedule.h"

/* The hulls of one threshold, type by type. */
typedef struct threshold {
    int64_t peak_bytes;
    double fastest[GAL_LAYER_TYPES_MAX];     /* [type]: a layer of it, whatever its bytes */
    uint32_t first[GAL_LAYER_TYPES_MAX + 1]; /* into point */
} threshold;

/* Stages with as many microbatches in flight share their hulls, but the first has its own: its reductions show. */
typedef struct hulls {
    uint32_t stage, in_flight, threshold_count; /* of the first such stage */
    threshold *threshold;
    gal_hull_point *point;
} hulls;

struct gal_node_stages {
    const gal_node *node;
    gal_node_limits limits;
    const int64_t *spare_bytes; /* [stage], or NULL */
    double backward_seconds;
    uint32_t hulls_count;
    hulls *hulls;
    uint32_t *hulls_of;                /* [stage] */
    uint32_t any[GAL_LAYER_TYPES_MAX]; /* [type]: a kind that it may take */
    uint32_t *run_begin;               /* [layer]: the first of the layers of one type that it is among */
    uint32_t *before;                  /* [layer][type]: layers of the type before it */
    gal_stage_seconds **known;         /* [stage][begin], NULL or [end - begin]: all 0: not known */
};

static const gal_layers *layers_of(const gal_node *node)
{
    return node->table->query.layers;
}

bool gal_node_allows(const gal_node *node, const gal_kind *kind)
{
    const gal_layers *layers = layers_of(node);
    const gal_strategy *strategy = node->table->query.meshes->strategy;
    return !layers->table_shared || !layers->type[kind->type].holds_table ||
           gal_strategy_same_shards(&strategy[kind->strategy[GAL_HALF_ATTENTION]], &strategy[node->shards]);
}

/* ---- hulls ---- */

static int64_t layer_bytes(const gal_kind *kind, uint32_t in_flight)
{
    return kind->static_bytes + (int64_t)in_flight * kind->saved_bytes;
}

static int larger_first(const void *x, const void *y)
{
    const int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return a > b ? -1 : a < b;
}

/* A type's kinds by bytes, then seconds: whether a kind is worth its threshold is soon said. */
typedef struct candidate {
    int64_t bytes, peak_bytes;
    double seconds;
    uint32_t kind;
} candidate;

static int better_first(const void *x, const void *y)
{
    const candidate *a = x, *b = y;
    if (a->bytes != b->bytes) {
        return a->bytes < b->bytes ? -1 : 1;
    }
    if (a->seconds != b->seconds) {
        return a->seconds < b->seconds ? -1 : 1;
    }
    return a->peak_bytes != b->peak_bytes ? (a->peak_bytes < b->peak_bytes ? -1 : 1) : a->kind < b->kind ? -1 : 1;
}

/* Leaves candidates that none before them is better than in all. */
static uint32_t keep_undominated(candidate *c, uint32_t count)
{
    uint32_t kept = 0;
    qsort(c, count, sizeof *c, better_first);
    for (uint32_t i = 0; i < count; i++) {
        const candidate next = c[i];
        bool dominated = false;
        for (uint32_t k = 0; k < kept && !dominated; k++) {
            dominated = c[k].seconds <= next.seconds && c[k].peak_bytes <= next.peak_bytes;
        }
        if (!dominated) {
            c[kept++] = next;
        }
    }
    return kept;
}

static candidate candidate_of(const gal_node *node, uint32_t kind, uint32_t stage, uint32_t in_flight)
{
    const gal_kind *of = &node->table->kind[kind];
    return (candidate){layer_bytes(of, in_flight), of->peak_bytes,
                       gal_kind_share_seconds(node->table, of, stage, node->finish), kind};
}

static bool is_dominated(const candidate *c, const candidate *by, uint32_t count)
{
    bool dominated = false;
    for (uint32_t i = 0; i < count && !dominated; i++) {
        dominated = by[i].bytes <= c->bytes && by[i].seconds <= c->seconds && by[i].peak_bytes <= c->peak_bytes;
    }
    return dominated;
}

/* Writes the candidates of a type that no other is better than. Those that are priced come first: mostly they rule out
 * the others, whose floors are no less. */
static uint32_t list_type(const gal_node *node, uint32_t type, uint32_t stage, uint32_t in_flight, candidate *out)
{
    const gal_kind_group *group = &node->table->group[node->rows];
    uint32_t priced = 0;
    for (uint32_t k = group->first[type]; k < group->first[type + 1]; k++) {
        if (node->table->kind[k].priced && gal_node_allows(node, &node->table->kind[k])) {
            out[priced++] = candidate_of(node, k, stage, in_flight);
        }
    }
    priced = keep_undominated(out, priced);
    uint32_t count = priced;
    for (uint32_t k = group->first[type]; k < group->first[type + 1]; k++) {
        if (!node->table->kind[k].priced && gal_node_allows(node, &node->table->kind[k])) {
            const candidate next = candidate_of(node, k, stage, in_flight);
            if (!is_dominated(&next, out, priced)) {
                out[count++] = next;
            }
        }
    }
    return count > priced ? keep_undominated(out, count) : priced;
}

/* All candidates of the node, type by type; first[type]. Returns how many. */
static uint32_t list_candidates(const gal_node *node, uint32_t stage, uint32_t in_flight, candidate *out,
                                uint32_t *first)
{
    uint32_t count = 0;
    for (uint32_t type = 0; type < layers_of(node)->type_count; type++) {
        first[type] = count;
        count += list_type(node, type, stage, in_flight, out + count);
        first[type + 1] = count;
    }
    return count;
}

/* The peaks of the candidates, each once, descending; those below which a type has no kind are left out. */
static uint32_t list_thresholds(const candidate *c, const uint32_t *first, uint32_t type_count, int64_t *out)
{
    int64_t least = 0;
    uint32_t kept = 0;
    const uint32_t count = first[type_count];
    for (uint32_t type = 0; type < type_count; type++) {
        int64_t own = INT64_MAX;
        for (uint32_t i = first[type]; i < first[type + 1]; i++) {
            own = c[i].peak_bytes < own ? c[i].peak_bytes : own;
        }
        least = own > least ? own : least;
    }
    for (uint32_t i = 0; i < count; i++) {
        out[i] = c[i].peak_bytes;
    }
    qsort(out, count, sizeof *out, larger_first);
    for (uint32_t i = 0; i < count; i++) {
        if (out[i] >= least && (kept == 0 || out[i] != out[kept - 1])) {
            out[kept++] = out[i];
        }
    }
    return kept;
}

/* The hulls below a threshold, written behind the points so far. */
static uint32_t add_hulls(const candidate *c, const uint32_t *first, uint32_t type_count, threshold *at,
                          gal_hull_point *point, uint32_t point_count)
{
    for (uint32_t type = 0; type < type_count; type++) {
        uint32_t added = 0;
        at->first[type] = point_count;
        for (uint32_t i = first[type]; i < first[type + 1]; i++) {
            if (c[i].peak_bytes <= at->peak_bytes) {
                point[point_count + added++] = (gal_hull_point){c[i].seconds, c[i].bytes, c[i].kind};
            }
        }
        point_count += gal_hull_keep(point + point_count, added);
        at->first[type + 1] = point_count;
        at->fastest[type] = added > 0 ? point[point_count - 1].seconds : INFINITY;
    }
    return point_count;
}

static gal_code make_hulls(const gal_node *node, hulls *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t types = layers_of(node)->type_count;
    const gal_kind_group *group = &node->table->group[node->rows];
    const size_t kinds = (size_t)group->first[types] - group->first[0] + 1;
    uint32_t first[GAL_LAYER_TYPES_MAX + 1] = {0};
    uint32_t points = 0;
    candidate *c = calloc(kinds, sizeof *c);
    int64_t *peak = calloc(kinds, sizeof *peak);
    if (c == NULL || peak == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    const uint32_t count = list_candidates(node, out->stage, out->in_flight, c, first);
    out->threshold_count = list_thresholds(c, first, types, peak);
    out->threshold = calloc((size_t)out->threshold_count + 1, sizeof *out->threshold);
    out->point = calloc((size_t)out->threshold_count * count + 1, sizeof *out->point);
    if (out->threshold == NULL || out->point == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    for (uint32_t t = 0; t < out->threshold_count; t++) {
        out->threshold[t].peak_bytes = peak[t];
        points = add_hulls(c, first, types, &out->threshold[t], out->point, points);
    }
cleanup:
    free(c);
    free(peak);
    return code;
}

/* ---- stages ---- */

static void count_layers(const gal_layers *layers, uint32_t *before)
{
    for (uint32_t layer = 0; layer < layers->layer_count; layer++) {
        uint32_t *now = before + (size_t)layer * GAL_LAYER_TYPES_MAX;
        memcpy(now + GAL_LAYER_TYPES_MAX, now, GAL_LAYER_TYPES_MAX * sizeof *now);
        now[GAL_LAYER_TYPES_MAX + layers->type_of[layer]]++;
    }
}

static void find_runs(const gal_layers *layers, uint32_t *run_begin)
{
    for (uint32_t layer = 1; layer < layers->layer_count; layer++) {
        run_begin[layer] = layers->type_of[layer] == layers->type_of[layer - 1] ? run_begin[layer - 1] : layer;
    }
}

static void find_any(gal_node_stages *s)
{
    const gal_kind_group *group = &s->node->table->group[s->node->rows];
    for (uint32_t type = 0; type < layers_of(s->node)->type_count; type++) {
        uint32_t k = group->first[type];
        while (k + 1 < group->first[type + 1] && !gal_node_allows(s->node, &s->node->table->kind[k])) {
            k++;
        }
        s->any[type] = k;
    }
}

static gal_code find_hulls(gal_node_stages *s, uint32_t stage, gal_error *err)
{
    const uint32_t in_flight =
        gal_in_flight(s->limits.schedule, stage, s->node->numbers.pp_degree, s->node->numbers.microbatch_count);
    uint32_t at = 0;
    while (at < s->hulls_count && (s->hulls[at].in_flight != in_flight || (s->hulls[at].stage == 0 && stage > 0))) {
        at++;
    }
    s->hulls_of[stage] = at;
    if (at < s->hulls_count) {
        return GAL_OK;
    }
    s->hulls[at].stage = stage;
    s->hulls[at].in_flight = in_flight;
    s->hulls_count++;
    return make_hulls(s->node, &s->hulls[at], err);
}

gal_code gal_node_stages_create(const gal_node *node, const gal_node_limits *limits, const int64_t *spare_bytes,
                                double backward_seconds, gal_node_stages **out, gal_error *err)
{
    gal_code code = GAL_OK;
    const size_t stages = node->numbers.pp_degree, layers = layers_of(node)->layer_count;
    gal_node_stages *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    s->node = node;
    s->limits = *limits;
    s->spare_bytes = spare_bytes;
    s->backward_seconds = backward_seconds;
    s->hulls = calloc(stages, sizeof *s->hulls);
    s->hulls_of = calloc(stages, sizeof *s->hulls_of);
    s->run_begin = calloc(layers, sizeof *s->run_begin);
    s->before = calloc((layers + 1) * GAL_LAYER_TYPES_MAX, sizeof *s->before);
    s->known = calloc(stages * layers, sizeof *s->known);
    if (s->hulls == NULL || s->hulls_of == NULL || s->run_begin == NULL || s->before == NULL || s->known == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    count_layers(layers_of(node), s->before);
    find_runs(layers_of(node), s->run_begin);
    find_any(s);
    for (uint32_t stage = 0; stage < stages; stage++) {
        GAL_TRY(find_hulls(s, stage, err));
    }
    *out = s;
    s = NULL;
cleanup:
    gal_node_stages_free(s);
    return code;
}

void gal_node_stages_free(gal_node_stages *s)
{
    if (s != NULL) {
        for (uint32_t i = 0; i < s->hulls_count; i++) {
            free(s->hulls[i].threshold);
            free(s->hulls[i].point);
        }
        free(s->hulls);
        free(s->hulls_of);
        free(s->run_begin);
        free(s->before);
        const size_t rows = (size_t)s->node->numbers.pp_degree * layers_of(s->node)->layer_count;
        for (size_t i = 0; s->known != NULL && i < rows; i++) {
            free(s->known[i]);
        }
        free(s->known);
        free(s);
    }
}

/* Any kind that a type may take: rows, and what it has of the token table, are the same for all. */
static const gal_kind *any_kind(const gal_node_stages *s, uint32_t type)
{
    return &s->node->table->kind[s->any[type]];
}

/* Bytes of the token table that the layers of a stage count more than once. */
static int64_t repeated_table_bytes(const gal_node_stages *s, const uint32_t *from, const uint32_t *to)
{
    const gal_layers *layers = layers_of(s->node);
    int64_t bytes = 0;
    bool held = !layers->table_shared;
    for (uint32_t type = 0; type < layers->type_count; type++) {
        if (layers->type[type].holds_table && to[type] > from[type]) {
            bytes += held && layers->table_shared ? any_kind(s, type)->table_bytes : 0;
            held = true;
        }
    }
    return bytes;
}

/* Of the rows that leave a layer. */
static int64_t boundary_bytes(const gal_node_stages *s, uint32_t type)
{
    const uint32_t last_block = layers_of(s->node)->type[type].block_count - 1;
    return (int64_t)gal_kind_memory(s->node->table, any_kind(s, type), last_block)->bytes.boundary;
}

/* Bytes of what a stage has beside its layers: ports, norm and loss, less what its first layer keeps in a port and what
 * its layers hold of the token table more than once. */
static int64_t stage_bytes(const gal_node_stages *s, uint32_t stage, uint32_t begin, uint32_t end, uint32_t in_flight)
{
    const gal_node *node = s->node;
    const gal_layers *layers = layers_of(node);
    const int64_t m = node->numbers.microbatch_count, k = in_flight, two = m < 2 ? m : 2;
    const uint32_t *from = s->before + (size_t)begin * GAL_LAYER_TYPES_MAX;
    const uint32_t *to = s->before + (size_t)end * GAL_LAYER_TYPES_MAX;
    int64_t bytes = 2 * GAL_ALIGNMENT_BYTES - repeated_table_bytes(s, from, to);
    bytes += s->spare_bytes != NULL ? s->spare_bytes[stage] : 0;
    if (stage > 0) {
        const uint32_t previous = layers->type_of[begin - 1];
        const int64_t entry = boundary_bytes(s, previous);
        const int64_t input =
            (int64_t)gal_kind_memory(node->table, any_kind(s, layers->type_of[begin]), 0)->bytes.input;
        bytes += ((k < m ? k + 1 : m) + two) * entry - k * input;
    }
    return bytes + (end < layers->layer_count ? 2 * two * boundary_bytes(s, layers->type_of[end - 1]) : 0);
}

/* The parts of a stage under a threshold. Returns how many; *type_of: their types. */
static uint32_t list_parts(const gal_node_stages *s, const hulls *h, const threshold *t, uint32_t begin, uint32_t end,
                           gal_hull_part *part, uint32_t *type_of)
{
    const uint32_t *from = s->before + (size_t)begin * GAL_LAYER_TYPES_MAX;
    const uint32_t *to = s->before + (size_t)end * GAL_LAYER_TYPES_MAX;
    uint32_t count = 0;
    for (uint32_t type = 0; type < layers_of(s->node)->type_count; type++) {
        if (to[type] > from[type]) {
            type_of[count] = type;
            part[count++] =
                (gal_hull_part){to[type] - from[type], t->first[type + 1] - t->first[type], h->point + t->first[type]};
        }
    }
    return count;
}

/* The best threshold of a stage, and its shares. */
static double share_stage(const gal_node_stages *s, uint32_t stage, uint32_t begin, uint32_t end, gal_node_mix *mix)
{
    const hulls *h = &s->hulls[s->hulls_of[stage]];
    const int64_t limit = (int64_t)s->limits.arena_bytes - stage_bytes(s, stage, begin, end, h->in_flight);
    gal_hull_part part[GAL_LAYER_TYPES_MAX];
    gal_hull_mix share[GAL_LAYER_TYPES_MAX];
    uint32_t type_of[GAL_LAYER_TYPES_MAX];
    double least = INFINITY;
    for (uint32_t t = 0; t < h->threshold_count; t++) {
        const uint32_t count = list_parts(s, h, &h->threshold[t], begin, end, part, type_of);
        double fastest = 0.0;
        for (uint32_t i = 0; i < count; i++) {
            fastest += part[i].layer_count * h->threshold[t].fastest[type_of[i]];
        }
        if (fastest >= least) { /* so are those of all lower thresholds */
            break;
        }
        const double own = gal_hull_share(part, count, limit - h->threshold[t].peak_bytes, share).seconds;
        if (own >= least) {
            continue;
        }
        least = own;
        for (uint32_t i = 0; mix != NULL && i < count; i++) {
            const gal_hull_point *low = &part[i].point[share[i].low];
            const bool pure = share[i].low + 1 >= part[i].point_count || share[i].high_layers <= 0.0;
            mix[type_of[i]] =
                (gal_node_mix){low->id, pure ? low->id : low[1].id, part[i].layer_count, share[i].high_layers};
        }
    }
    return least;
}

/* Of the rows behind the layers before `end`, one way. */
static double transfer_behind(const gal_node_stages *s, uint32_t stage, uint32_t end)
{
    const gal_kind_query *q = &s->node->table->query;
    const gal_layers *layers = layers_of(s->node);
    return end == layers->layer_count ? 0.0
                                      : gal_price_transfer_of(q->durations, q->device_count, stage, q->stage_count,
                                                              (uint64_t)boundary_bytes(s, layers->type_of[end - 1]))
                                            .seconds;
}

double gal_node_transfer_falls(const gal_node_stages *s)
{
    double most = 0.0;
    for (uint32_t end = 1; end < layers_of(s->node)->layer_count; end++) {
        most = fmax(most, transfer_behind(s, 0, end));
    }
    return most * s->node->numbers.microbatch_count;
}

/* The sums over the kinds of a stage, and what they are to the step. */
static gal_stage_seconds sum_mix(const gal_node_stages *s, uint32_t stage, uint32_t end, const gal_node_mix *mix)
{
    const gal_kind_table *table = s->node->table;
    gal_kind_seconds sum = {.transfer = transfer_behind(s, stage, end)};
    for (uint32_t type = 0; type < layers_of(s->node)->type_count; type++) {
        if (mix[type].layer_count > 0) {
            const double high = mix[type].high_layers;
            gal_kind_seconds_add(table, &table->kind[mix[type].low], mix[type].layer_count - high, &sum);
            gal_kind_seconds_add(table, &table->kind[mix[type].high], high, &sum);
        }
    }
    return gal_kind_seconds_of_stage(table, &sum, stage, s->backward_seconds, s->node->finish);
}

/* The first layer from which as many layers of the same type, behind one more of it, take and hold as much. */
static uint32_t same_begin(const gal_node_stages *s, uint32_t begin, uint32_t end)
{
    const uint32_t run = s->run_begin[begin];
    return begin > run && s->run_begin[end - 1] == run ? run + 1 : begin;
}

gal_stage_seconds gal_node_stage_seconds(void *context, uint32_t stage, uint32_t asked_begin, uint32_t asked_end)
{
    gal_node_stages *s = context;
    const size_t layers = layers_of(s->node)->layer_count;
    const uint32_t begin = same_begin(s, asked_begin, asked_end);
    const uint32_t end = begin + asked_end - asked_begin;
    gal_stage_seconds **row = &s->known[(size_t)stage * layers + begin], unkept = {0.0, 0.0};
    *row = *row != NULL ? *row : calloc(layers + 1, sizeof **row);
    gal_stage_seconds *known = *row != NULL ? *row + (end - begin) : &unkept; /* without memory it is found again */
    if (known->once == 0.0) {
        gal_node_mix mix[GAL_LAYER_TYPES_MAX] = {0};
        const double share = share_stage(s, stage, begin, end, mix);
        *known = isinf(share) ? (gal_stage_seconds){share, share} : sum_mix(s, stage, end, mix);
    }
    return *known;
}

void gal_node_stage_mix(gal_node_stages *s, uint32_t stage, uint32_t begin, uint32_t end, gal_node_mix *mix)
{
    memset(mix, 0, GAL_LAYER_TYPES_MAX * sizeof *mix);
    (void)share_stage(s, stage, begin, end, mix);
}
