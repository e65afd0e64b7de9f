#include "planner/space/conversions.h"

#include <stdlib.h>
#include <string.h>

#include "costmodel/relayout.h"
#include "runtime/program/halves.h"
#include "schemas/plan_check.h"

typedef struct groups {
    const gal_strategy *stands; /* one of those whose rows lie so */
    gal_group sample, sequence, feature;
    gal_overlap overlap;
    gal_recompute recompute; /* with overlap */
    bool from_rows;          /* legal for the embedding */
    bool leads_on;           /* legal for a block that rows leave */
} groups;

typedef struct closure {
    const gal_model *model;
    const gal_block_types *types;
    const gal_strategy *strategy;
    uint32_t device_count, samples;
    gal_atoms atoms;
    groups *class;
    bool *leaving, *entering; /* [flow][class], of class_capacity: a block may have it whose rows leave, enter so */
    uint32_t class_count, class_capacity;
    gal_layout *layout; /* reached */
    uint32_t *layout_class;
    uint32_t layout_count, layout_capacity;
    uint32_t *slot; /* open addressing: number of a layout and 1; 0: free */
    uint32_t slot_count;
    uint32_t layout_limit;
    bool any_order; /* of samples: layouts are what is split over whom, in one order that stands for all */
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

static bool rows_alike(const groups *a, const groups *b)
{
    return a->sample == b->sample && a->sequence == b->sequence && a->feature == b->feature;
}

static void classify(closure *c, uint32_t strategy)
{
    const gal_strategy *s = &c->strategy[strategy];
    const gal_mesh mesh = gal_mesh_of(&c->atoms, s);
    const gal_group sample = gal_mesh_samples(&mesh);
    const gal_group sequence = gal_mesh_positions(&mesh, s), feature = gal_mesh_features(&mesh);
    const groups own = {.stands = s,
                        .sample = sample,
                        .sequence = sequence,
                        .feature = feature,
                        .overlap = s->overlap,
                        .recompute = s->overlap == GAL_OVERLAP_NONE ? GAL_RECOMPUTE_NONE : s->recompute};
    uint32_t at = 0;
    while (at < c->class_count && !(rows_alike(&c->class[at], &own) && c->class[at].overlap == own.overlap &&
                                    c->class[at].recompute == own.recompute)) {
        at++;
    }
    groups *class = &c->class[at];
    if (at == c->class_count) {
        c->class_count++;
        *class = own;
    }
    c->out->class_of[strategy] = at;
    uint32_t rows = 0;
    while (!rows_alike(&c->class[rows], &own)) {
        rows++;
    }
    c->out->rows_of[strategy] = rows;
    for (uint32_t type = 0; type < c->types->type_count; type++) {
        const gal_block_shape *shape = &c->types->shape[type];
        if (!legal(c, type, strategy)) {
            continue;
        }
        class->from_rows = class->from_rows || shape->in.positions == 0;
        class->leads_on = class->leads_on || (shape->in.positions > 0 && shape->out.positions > 0);
        for (uint32_t flow = 0; flow < c->types->flow_count; flow++) {
            const size_t place = (size_t)flow * c->class_capacity + at;
            c->leaving[place] = c->leaving[place] || is_flow(shape->out, c->types->flow[flow]);
            c->entering[place] = c->entering[place] || is_flow(shape->in, c->types->flow[flow]);
        }
    }
}

static uint32_t hash_of(const gal_layout *layout, uint32_t class)
{
    uint64_t hash = class;
    for (uint32_t i = 0; i < layout->digit_count; i++) {
        const gal_digit *digit = &layout->digit[i];
        hash = (hash ^ (uint64_t)digit->radix << 32 ^ (uint32_t)digit->atom) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 32;
    }
    return (uint32_t)hash;
}

/* The slot of a layout, or the free one that shall be its. */
static uint32_t *slot_of(const closure *c, const gal_layout *layout, uint32_t class)
{
    uint32_t at = hash_of(layout, class) & (c->slot_count - 1);
    while (c->slot[at] != 0 &&
           (c->layout_class[c->slot[at] - 1] != class || !gal_layout_equal(&c->layout[c->slot[at] - 1], layout))) {
        at = (at + 1) & (c->slot_count - 1);
    }
    return &c->slot[at];
}

/* Room for twice as many layouts; at most half of the slots are taken. */
static gal_code widen(closure *c, gal_error *err)
{
    const uint32_t wanted = c->layout_capacity == 0 ? 64 : 2 * c->layout_capacity;
    gal_layout *layout = realloc(c->layout, wanted * sizeof *layout);
    c->layout = layout == NULL ? c->layout : layout;
    uint32_t *layout_class = realloc(c->layout_class, wanted * sizeof *layout_class);
    c->layout_class = layout_class == NULL ? c->layout_class : layout_class;
    uint32_t *slot = calloc(2 * (size_t)wanted, sizeof *slot);
    if (layout == NULL || layout_class == NULL || slot == NULL) {
        free(slot);
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    free(c->slot);
    c->slot = slot;
    c->slot_count = 2 * wanted;
    c->layout_capacity = wanted;
    for (uint32_t i = 0; i < c->layout_count; i++) {
        *slot_of(c, &c->layout[i], c->layout_class[i]) = i + 1;
    }
    return GAL_OK;
}

static gal_code reach(closure *c, const gal_layout *to, uint32_t class, gal_error *err)
{
    if (c->layout_count == c->layout_capacity && widen(c, err) != GAL_OK) {
        return GAL_ERR_SYSTEM;
    }
    uint32_t *slot = slot_of(c, to, class);
    if (*slot == 0) {
        c->layout[c->layout_count] = *to;
        c->layout_class[c->layout_count++] = class;
        *slot = c->layout_count;
    }
    return GAL_OK;
}

/* The steps from where the rows of a class lie to another class. In front of a stage rows come joined: there the first
 * `joins` steps, one or none, are left out. */
typedef struct steps {
    uint32_t count, joins;
    bool cuts_at_entry; /* there are none inside a stage, but there rows are cut in two */
    gal_layout_step step[GAL_LAYOUT_STEPS_MAX + 2];
} steps;

/* What sub-batches add to the steps from one layout to another. */
static void add_halves(const closure *c, const gal_layout *from, uint32_t from_class, uint32_t to_class, steps *out,
                       const gal_layout *to)
{
    const bool halved = c->class[from_class].overlap != GAL_OVERLAP_NONE;
    const bool halves = c->class[to_class].overlap != GAL_OVERLAP_NONE;
    out->count = gal_halves_add_steps(halved, halves, from, to, out->step, out->count);
    out->joins = halved && out->count > 0 ? 1 : 0;
    out->cuts_at_entry = halved && halves && out->count == 0;
}

static void list_steps(const closure *c, const gal_layout *from, uint32_t from_class, uint32_t to_class, steps *out,
                       gal_layout *to)
{
    out->count = gal_layout_enter(from, &c->atoms, c->class[to_class].stands, out->step, to);
    add_halves(c, from, from_class, to_class, out, to);
}

static gal_relayout_bytes bytes_of_steps(const closure *c, const gal_layout_step *step, uint32_t count, gal_flow rows)
{
    const gal_dtype dtype = c->model->compute_dtype;
    return c->any_order ? gal_relayout_bytes_any_order(&c->atoms, step, count, rows, dtype)
                        : gal_relayout_bytes_of(&c->atoms, step, count, rows, dtype);
}

/* Of two sub-batches on both sides nothing is done inside a stage, and in front of one they are cut. */
static gal_relayout_bytes bytes_of(const closure *c, const gal_layout *rows_lie, gal_flow rows, const steps *by)
{
    gal_relayout_bytes own = bytes_of_steps(c, by->step, by->count, rows);
    if (by->cuts_at_entry) {
        const gal_layout_step cut = {GAL_STEP_HALVE, GAL_GROUP_NONE, *rows_lie, *rows_lie};
        own.entry = bytes_of_steps(c, &cut, 1, rows).entry;
    } else if (by->joins > 0) {
        own.entry = bytes_of_steps(c, by->step + by->joins, by->count - by->joins, rows).entry;
    }
    return own;
}

/* The bytes of a conversion for rows of a flow, if the classes have such blocks. to: where they lie then. */
static void take_most(closure *c, uint32_t flow, uint32_t from, uint32_t to_class, const gal_layout *to,
                      const steps *by)
{
    if (!c->leaving[(size_t)flow * c->class_capacity + from] ||
        !c->entering[(size_t)flow * c->class_capacity + to_class]) {
        return;
    }
    const gal_relayout_bytes bytes = bytes_of(c, to, c->types->flow[flow], by);
    const size_t place = ((size_t)flow * c->class_count + from) * c->class_count + to_class;
    uint64_t *inside = &c->out->inside_bytes[place];
    uint64_t *entry = &c->out->entry_bytes[place];
    *inside = bytes.inside > *inside ? bytes.inside : *inside;
    *entry = bytes.entry > *entry ? bytes.entry : *entry;
}

static bool needs_steps(const closure *c, uint32_t from, uint32_t to)
{
    return from != to || c->class[from].overlap != GAL_OVERLAP_NONE;
}

/* From a reached layout to a class: the bytes, and where the rows lie then. */
static gal_code convert(closure *c, uint32_t at, uint32_t class, gal_error *err)
{
    gal_layout to;
    steps by;
    const uint32_t from = c->layout_class[at];
    if (!needs_steps(c, from, class) || !c->class[from].leads_on) {
        return GAL_OK;
    }
    list_steps(c, &c->layout[at], from, class, &by, &to);
    for (uint32_t flow = 0; flow < c->types->flow_count; flow++) {
        take_most(c, flow, from, class, &to, &by);
    }
    return c->class[class].leads_on ? reach(c, &to, class, err) : GAL_OK;
}

/* ---- samples in any order ---- */

/* Rows that are split so. */
static gal_layout split_over(const closure *c, gal_group sample, gal_group sequence, gal_group feature)
{
    const uint32_t local = c->samples / gal_group_size(&c->atoms, sample);
    return (gal_layout){.sample_count = c->samples,
                        .digit_count = 1,
                        .digit = {{local, 1, GAL_DIGIT_LOCAL}},
                        .sample_group = sample,
                        .sequence_group = sequence,
                        .feature_group = feature};
}

/* One step on. */
static void step_to(const closure *c, steps *out, gal_layout *now, gal_step_kind kind, gal_group group,
                    gal_group sample, gal_group sequence, gal_group feature)
{
    const gal_layout to = split_over(c, sample, sequence, feature);
    out->step[out->count++] = (gal_layout_step){kind, group, *now, to};
    *now = to;
}

/* Atom by atom, as where the order of samples allows no more at once: that takes most. */
static void slice_samples(const closure *c, steps *out, gal_layout *now, gal_group group)
{
    for (uint32_t a = c->atoms.count; a-- > 0;) {
        const gal_group atom = group & UINT32_C(1) << a;
        if (atom != 0) {
            step_to(c, out, now, GAL_STEP_SLICE, atom, now->sample_group | atom, now->sequence_group,
                    now->feature_group);
        }
    }
}

static void gather_samples(const closure *c, steps *out, gal_layout *now, gal_group group)
{
    for (uint32_t a = c->atoms.count; a-- > 0;) {
        const gal_group atom = group & UINT32_C(1) << a;
        if (atom != 0) {
            step_to(c, out, now, GAL_STEP_GATHER, atom, now->sample_group & ~atom, now->sequence_group,
                    now->feature_group);
        }
    }
}

/* The step by which positions and samples change places, where they may (runtime/program/layout.c). */
static void exchange(const closure *c, steps *out, gal_layout *now, const groups *to)
{
    const gal_group own = now->sequence_group;
    const uint32_t local = gal_layout_local_samples(now);
    if (own != 0 && to->sequence == 0 && (own & ~to->sample) == 0 && local % gal_group_size(&c->atoms, own) == 0) {
        step_to(c, out, now, GAL_STEP_ALL_TO_ALL, own, now->sample_group | own, 0, now->feature_group);
    } else if (own == 0 && to->sequence != 0 && (to->sequence & ~now->sample_group) == 0) {
        step_to(c, out, now, GAL_STEP_ALL_TO_ALL, to->sequence, now->sample_group & ~to->sequence, to->sequence,
                now->feature_group);
    }
}

/* As gal_layout_convert. */
static void move_rows(const closure *c, steps *out, gal_layout *now, const groups *to, bool exchanges)
{
    if (now->sample_group == to->sample && now->sequence_group == to->sequence) {
        return;
    }
    if (exchanges) {
        exchange(c, out, now, to);
    }
    if (now->sequence_group != to->sequence && now->sequence_group != 0) {
        step_to(c, out, now, GAL_STEP_GATHER, now->sequence_group, now->sample_group, 0, now->feature_group);
    }
    const gal_group wanted = to->sample & ~now->sample_group;
    const gal_group unwanted = now->sample_group & ~to->sample;
    if (gal_layout_local_samples(now) % gal_group_size(&c->atoms, wanted) == 0) {
        slice_samples(c, out, now, wanted);
        gather_samples(c, out, now, unwanted);
    } else {
        gather_samples(c, out, now, unwanted);
        slice_samples(c, out, now, wanted);
    }
    if (now->sequence_group != to->sequence) {
        step_to(c, out, now, GAL_STEP_SLICE, to->sequence, now->sample_group, to->sequence, now->feature_group);
    }
}

/* As gal_layout_enter. */
static void list_any_steps(const closure *c, uint32_t from_class, uint32_t to_class, bool exchanges, steps *out,
                           gal_layout *now)
{
    const groups *from = &c->class[from_class];
    const groups *to = &c->class[to_class];
    const bool moves = from->feature != to->feature;
    const gal_layout begin = split_over(c, from->sample, from->sequence, from->feature);
    *now = begin;
    out->count = 0;
    if (moves && from->feature != GAL_GROUP_NONE) {
        step_to(c, out, now, GAL_STEP_GATHER, from->feature, from->sample, from->sequence, GAL_GROUP_NONE);
    }
    move_rows(c, out, now, to, exchanges);
    if (moves && to->feature != GAL_GROUP_NONE) {
        step_to(c, out, now, GAL_STEP_SLICE, to->feature, to->sample, to->sequence, to->feature);
    }
    add_halves(c, &begin, from_class, to_class, out, now);
}

/* No conversion takes more, from whatever order of samples. */
static void take_any_order(closure *c)
{
    c->any_order = true;
    for (uint32_t from = 0; from < c->class_count; from++) {
        for (uint32_t to = 0; to < c->class_count && c->class[from].leads_on; to++) {
            for (uint32_t exchanges = 0; exchanges < 2 && needs_steps(c, from, to); exchanges++) {
                gal_layout now;
                steps by;
                list_any_steps(c, from, to, exchanges == 1, &by, &now);
                for (uint32_t flow = 0; flow < c->types->flow_count; flow++) {
                    take_most(c, flow, from, to, &now, &by);
                }
            }
        }
    }
}

/* ---- all of it ---- */

static gal_code close_over(closure *c, gal_error *err)
{
    gal_code code = GAL_OK;
    for (uint32_t class = 0; code == GAL_OK && class < c->class_count; class ++) {
        if (c->class[class].from_rows) {
            gal_layout own;
            gal_layout_of_strategy(c->samples, &c->atoms, c->class[class].stands, &own);
            code = reach(c, &own, class, err);
        }
    }
    for (uint32_t at = 0; code == GAL_OK && at < c->layout_count && c->layout_count <= c->layout_limit; at++) {
        for (uint32_t class = 0; code == GAL_OK && class < c->class_count; class ++) {
            code = convert(c, at, class, err);
        }
    }
    if (code == GAL_OK && c->layout_count > c->layout_limit) {
        take_any_order(c);
    }
    return code;
}

gal_code gal_conversions_create(const gal_model *model, const gal_block_types *types, uint32_t device_count,
                                uint32_t microbatch_samples, const gal_strategy *strategy, uint32_t strategy_count,
                                uint32_t layout_limit, gal_conversions *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_conversions conversions = {0};
    closure c = {.model = model,
                 .types = types,
                 .strategy = strategy,
                 .device_count = device_count,
                 .samples = microbatch_samples,
                 .layout_limit = layout_limit,
                 .out = &conversions};
    gal_atoms_of(device_count, &c.atoms);
    c.class_capacity = strategy_count + 1;
    const size_t stands = (size_t)c.class_capacity * types->flow_count;
    conversions.class_of = calloc(c.class_capacity, sizeof *conversions.class_of);
    c.class = calloc(c.class_capacity, sizeof *c.class);
    c.leaving = calloc(stands + 1, sizeof *c.leaving);
    c.entering = calloc(stands + 1, sizeof *c.entering);
    conversions.rows_of = calloc(c.class_capacity, sizeof *conversions.rows_of);
    if (conversions.class_of == NULL || conversions.rows_of == NULL || c.class == NULL || c.leaving == NULL ||
        c.entering == NULL) {
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
    free(c.slot);
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
    free(conversions->rows_of);
    free(conversions->class_of);
    *conversions = (gal_conversions){0};
}
