#include "planner/conversions.h"

#include <stdlib.h>
#include <string.h>

#include "schemas/plan_check.h"

typedef struct groups {
    gal_group sample, sequence;
    uint32_t strategy;     /* the first of the class that stands in an inner block, or else in a head */
    uint32_t type;         /* where it does */
    bool from_rows, inner; /* legal for the embedding; for an inner block */
} groups;

typedef struct closure {
    gal_price_cache *cache;
    const gal_model *model;
    const gal_block_types *types;
    const gal_strategy *strategy;
    uint32_t device_count, samples, prefetch_depth;
    gal_atoms atoms;
    groups *class;
    uint32_t class_count;
    gal_layout *layout; /* reached */
    uint32_t *layout_class;
    uint32_t layout_count, layout_capacity;
    gal_conversions *out;
} closure;

static bool legal(const closure *c, uint32_t type, uint32_t strategy)
{
    return gal_strategy_rule_broken(c->model, c->types->kind[type], &c->strategy[strategy], c->device_count,
                                    c->samples) == NULL;
}

static uint32_t last_type(const closure *c)
{
    return c->types->type_of[c->types->block_count - 1];
}

static bool is_inner(const closure *c, uint32_t type)
{
    return type != c->types->type_of[0] && type != last_type(c);
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
        *class = (groups){sample, sequence, strategy, last_type(c), false, false};
    }
    c->out->class_of[strategy] = at;
    class->from_rows = class->from_rows || legal(c, c->types->type_of[0], strategy);
    for (uint32_t i = 0; i < c->types->type_count && !class->inner; i++) {
        if (is_inner(c, i) && legal(c, i, strategy)) {
            class->inner = true;
            class->strategy = strategy;
            class->type = i;
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

/* From a reached layout to a class: the bytes, and where the rows lie then. */
static gal_code convert(closure *c, uint32_t at, uint32_t class, gal_error *err)
{
    const uint32_t from = c->layout_class[at];
    const groups *to = &c->class[class];
    if (from == class || !c->class[from].inner || (!to->inner && !legal(c, last_type(c), to->strategy))) {
        return GAL_OK;
    }
    uint64_t inside = 0;
    uint64_t entry = 0;
    const gal_price_query query = {.type = c->class[from].type,
                                   .strategy = &c->strategy[c->class[from].strategy],
                                   .device_count = c->device_count,
                                   .stage = 0,
                                   .stage_count = 2,
                                   .microbatch_samples = c->samples,
                                   .prefetch_depth = c->prefetch_depth};
    const gal_layout layout = c->layout[at]; /* reach may move the array */
    gal_error reason = {0};
    gal_code code =
        gal_price_relayout(c->cache, &query, &layout, to->type, &c->strategy[to->strategy], &inside, &entry, &reason);
    if (code != GAL_OK && code != GAL_ERR_DOCUMENT) { /* what is too large to lower has no price either */
        return gal_fail(err, code, "%s", reason.text);
    }
    uint64_t *most_inside = &c->out->inside_bytes[from * c->class_count + class];
    uint64_t *most_entry = &c->out->entry_bytes[from * c->class_count + class];
    *most_inside = inside > *most_inside ? inside : *most_inside;
    *most_entry = entry > *most_entry ? entry : *most_entry;
    return to->inner ? reach(c, &layout, class, err) : GAL_OK;
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
    conversions.class_of = calloc(strategy_count + 1, sizeof *conversions.class_of);
    c.class = calloc(strategy_count + 1, sizeof *c.class);
    if (conversions.class_of == NULL || c.class == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    for (uint32_t s = 0; s < strategy_count; s++) {
        classify(&c, s);
    }
    conversions.class_count = c.class_count;
    const size_t cells = (size_t)c.class_count * c.class_count + 1;
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
