#include "planner/conversions.h"

#include <stdlib.h>
#include <string.h>

#include "schemas/plan_check.h"

/* Where a class stands: a block whose rows of a flow leave or enter, and a strategy of the class that is legal there.
 */
typedef struct stand {
    bool found;
    uint32_t type, strategy;
} stand;

typedef struct groups {
    gal_group sample, sequence;
    bool from_rows; /* legal for the embedding */
    bool leads_on;  /* legal for a block that rows leave */
} groups;

typedef struct closure {
    gal_price_cache *cache;
    const gal_model *model;
    const gal_block_types *types;
    const gal_strategy *strategy;
    uint32_t device_count, samples, prefetch_depth;
    gal_atoms atoms;
    groups *class;
    stand *leaving, *entering; /* [flow][class], of class_capacity */
    uint32_t class_count, class_capacity;
    gal_layout *layout; /* reached */
    uint32_t *layout_class;
    uint32_t layout_count, layout_capacity;
    gal_conversions *out;
} closure;

static bool legal(const closure *c, uint32_t type, uint32_t strategy)
{
    return gal_strategy_block_rule_broken(c->model, &c->types->shape[type], &c->strategy[strategy], c->device_count,
                                          c->samples) == NULL;
}

static bool is_flow(gal_flow a, gal_flow b)
{
    return a.positions == b.positions && a.features == b.features;
}

/* The first block that it is legal for; the embedding, which makes its rows itself, only if there is no other. */
static void stand_there(stand *at, uint32_t type, uint32_t strategy)
{
    if (!at->found || (at->type == 0 && type != 0)) {
        *at = (stand){true, type, strategy};
    }
}

static void classify(closure *c, uint32_t strategy)
{
    const gal_strategy *s = &c->strategy[strategy];
    const gal_mesh mesh = gal_mesh_of(&c->atoms, s);
    const gal_group sample = mesh.dp | mesh.sdp;
    const gal_group sequence = s->sequence_parallel ? mesh.tp : GAL_GROUP_NONE;
    uint32_t at = 0;
    while (at < c->class_count && (c->class[at].sample != sample || c->class[at].sequence != sequence)) {
        at++;
    }
    groups *class = &c->class[at];
    if (at == c->class_count) {
        c->class_count++;
        *class = (groups){.sample = sample, .sequence = sequence};
    }
    c->out->class_of[strategy] = at;
    for (uint32_t type = 0; type < c->types->type_count; type++) {
        const gal_block_shape *shape = &c->types->shape[type];
        if (!legal(c, type, strategy)) {
            continue;
        }
        class->from_rows = class->from_rows || shape->in.positions == 0;
        class->leads_on = class->leads_on || (shape->in.positions > 0 && shape->out.positions > 0);
        for (uint32_t flow = 0; flow < c->types->flow_count; flow++) {
            const size_t place = (size_t)flow * c->class_capacity + at;
            if (is_flow(shape->out, c->types->flow[flow])) {
                stand_there(&c->leaving[place], type, strategy);
            }
            if (is_flow(shape->in, c->types->flow[flow])) {
                stand_there(&c->entering[place], type, strategy);
            }
        }
    }
}

static gal_code reach(closure *c, const gal_layout *from, uint32_t class, gal_error *err)
{
    gal_layout_step steps[GAL_LAYOUT_STEPS_MAX];
    gal_layout to;
    gal_layout_convert(from, &c->atoms, c->class[class].sample, c->class[class].sequence, steps, &to);
    for (uint32_t i = 0; i < c->layout_count; i++) {
        if (c->layout_class[i] == class && gal_layout_equal(&c->layout[i], &to)) {
            return GAL_OK;
        }
    }
    if (c->layout_count == c->layout_capacity) {
        const uint32_t wanted = c->layout_capacity == 0 ? 64 : 2 * c->layout_capacity;
        gal_layout *layout = realloc(c->layout, wanted * sizeof *layout);
        c->layout = layout == NULL ? c->layout : layout;
        uint32_t *layout_class = realloc(c->layout_class, wanted * sizeof *layout_class);
        c->layout_class = layout_class == NULL ? c->layout_class : layout_class;
        if (layout == NULL || layout_class == NULL) {
            return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
        }
        c->layout_capacity = wanted;
    }
    c->layout[c->layout_count] = to;
    c->layout_class[c->layout_count++] = class;
    return GAL_OK;
}

/* From a reached layout to a class: the bytes for rows of a flow. */
static gal_code convert_flow(closure *c, uint32_t flow, uint32_t at, uint32_t class, gal_error *err)
{
    const uint32_t from = c->layout_class[at];
    const stand *leaving = &c->leaving[(size_t)flow * c->class_capacity + from];
    const stand *entering = &c->entering[(size_t)flow * c->class_capacity + class];
    uint64_t inside = 0;
    uint64_t entry = 0;
    if (!leaving->found || !entering->found) {
        return GAL_OK;
    }
    const gal_price_query query = {.type = c->types->shape[leaving->type].type,
                                   .strategy = &c->strategy[leaving->strategy],
                                   .device_count = c->device_count,
                                   .stage = 0,
                                   .stage_count = 2,
                                   .microbatch_samples = c->samples,
                                   .prefetch_depth = c->prefetch_depth};
    gal_error reason = {0};
    const gal_code code = gal_price_relayout(c->cache, &query, &c->layout[at], c->types->shape[entering->type].type,
                                             &c->strategy[entering->strategy], &inside, &entry, &reason);
    if (code != GAL_OK && code != GAL_ERR_DOCUMENT) { /* what is too large to lower has no price either */
        return gal_fail(err, code, "%s", reason.text);
    }
    const size_t place = ((size_t)flow * c->class_count + from) * c->class_count + class;
    uint64_t *most_inside = &c->out->inside_bytes[place];
    uint64_t *most_entry = &c->out->entry_bytes[place];
    *most_inside = inside > *most_inside ? inside : *most_inside;
    *most_entry = entry > *most_entry ? entry : *most_entry;
    return GAL_OK;
}

/* ... and where the rows lie then. */
static gal_code convert(closure *c, uint32_t at, uint32_t class, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_layout layout = c->layout[at]; /* reach may move the array */
    if (c->layout_class[at] == class || !c->class[c->layout_class[at]].leads_on) {
        return GAL_OK;
    }
    for (uint32_t flow = 0; code == GAL_OK && flow < c->types->flow_count; flow++) {
        code = convert_flow(c, flow, at, class, err);
    }
    return code == GAL_OK && c->class[class].leads_on ? reach(c, &layout, class, err) : code;
}

static gal_code close_over(closure *c, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_layout whole;
    gal_layout_whole(c->samples, &whole);
    for (uint32_t class = 0; code == GAL_OK && class < c->class_count; class ++) {
        code = c->class[class].from_rows ? reach(c, &whole, class, err) : GAL_OK;
    }
    for (uint32_t at = 0; code == GAL_OK && at < c->layout_count; at++) {
        for (uint32_t class = 0; code == GAL_OK && class < c->class_count; class ++) {
            code = convert(c, at, class, err);
        }
    }
    return code;
}

gal_code gal_conversions_create(gal_price_cache *cache, const gal_model *model, const gal_block_types *types,
                                uint32_t device_count, uint32_t microbatch_samples, uint32_t prefetch_depth,
                                const gal_strategy *strategy, uint32_t strategy_count, gal_conversions *out,
                                gal_error *err)
{
    gal_code code = GAL_OK;
    gal_conversions conversions = {0};
    closure c = {.cache = cache,
                 .model = model,
                 .types = types,
                 .strategy = strategy,
                 .device_count = device_count,
                 .samples = microbatch_samples,
                 .prefetch_depth = prefetch_depth,
                 .out = &conversions};
    gal_atoms_of(device_count, &c.atoms);
    c.class_capacity = strategy_count + 1;
    const size_t stands = (size_t)c.class_capacity * types->flow_count;
    conversions.class_of = calloc(c.class_capacity, sizeof *conversions.class_of);
    c.class = calloc(c.class_capacity, sizeof *c.class);
    c.leaving = calloc(stands + 1, sizeof *c.leaving);
    c.entering = calloc(stands + 1, sizeof *c.entering);
    if (conversions.class_of == NULL || c.class == NULL || c.leaving == NULL || c.entering == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    for (uint32_t s = 0; s < strategy_count; s++) {
        classify(&c, s);
    }
    conversions.class_count = c.class_count;
    const size_t cells = (size_t)types->flow_count * c.class_count * c.class_count + 1;
    conversions.inside_bytes = calloc(cells, sizeof *conversions.inside_bytes);
    conversions.entry_bytes = calloc(cells, sizeof *conversions.entry_bytes);
    if (conversions.inside_bytes == NULL || conversions.entry_bytes == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    GAL_TRY(close_over(&c, err));
    *out = conversions;
    conversions = (gal_conversions){0};
cleanup:
    free(c.layout_class);
    free(c.layout);
    free(c.entering);
    free(c.leaving);
    free(c.class);
    gal_conversions_free(&conversions);
    return code;
}

void gal_conversions_free(gal_conversions *conversions)
{
    free(conversions->entry_bytes);
    free(conversions->inside_bytes);
    free(conversions->class_of);
    *conversions = (gal_conversions){0};
}
