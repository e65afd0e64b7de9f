#include "planner/bound/screen.h"

#include <math.h>
#include <stdlib.h>

#include "planner/bound/dual.h"
#include "planner/bound/relaxed.h"
#include "runtime/program/schedule.h"

uint32_t gal_screen_block_count(const gal_block_types *types, uint32_t type)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < types->block_count; i++) {
        count += types->type_of[i] == type;
    }
    return count;
}

double gal_screen_rounds(const gal_cell_spec *spec)
{
    const double share = 1.0 / spec->pp_degree;
    const double bubble =
        gal_schedule_splits(spec->schedule) ? 0.0 : 1.0 / (spec->chunk_count < 1 ? 1 : spec->chunk_count);
    return spec->microbatch_count * share + bubble * (1.0 - share);
}

uint32_t gal_screen_in_flight(const gal_cell_spec *spec, uint32_t stage)
{
    const bool pieces = spec->schedule == GAL_SCHEDULE_INTERLEAVED || gal_schedule_splits(spec->schedule);
    return pieces ? 1 : gal_in_flight(spec->schedule, stage, spec->pp_degree, spec->microbatch_count);
}

/* ---- menus ---- */

/* Of so many devices per stage. */
typedef struct splits {
    uint32_t stage_devices, count;
    gal_split_kind *split; /* owned */
    uint64_t *key;         /* [split] gal_split_key; owned */
    uint8_t *legal;        /* [type][split], of samples that its group divides: 0: not asked yet; owned */
    struct splits *next;
} splits;

enum { LEGAL = 1, NOT_LEGAL };

/* Of cells of so many devices per stage and samples per microbatch. */
typedef struct menus {
    uint32_t stage_devices, samples;
    gal_screen_menus menus; /* owned, with the items of all */
    gal_relaxed_item *item;
} menus;

struct gal_screens {
    const gal_block_types *types;
    const gal_space *space;
    const gal_model *model;
    gal_floors *floors;
    uint32_t menus_count, menus_capacity;
    menus *menus;
    splits *splits; /* owned */
};

static gal_code no_memory(gal_error *err)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}

gal_code gal_screens_create(const gal_model *model, const gal_durations *durations, const gal_block_types *types,
                            const gal_space *space, gal_screens **out, gal_error *err)
{
    gal_screens *screens = calloc(1, sizeof *screens);
    if (screens == NULL) {
        return no_memory(err);
    }
    *screens = (gal_screens){.types = types, .space = space, .model = model};
    const gal_code code = gal_floors_create(model, durations, &screens->floors, err);
    if (code != GAL_OK) {
        gal_screens_free(screens);
        return code;
    }
    *out = screens;
    return GAL_OK;
}

static void menus_free(menus *m)
{
    free(m->menus.item_of);
    free(m->item);
    free(m->menus.type);
}

static void splits_free(splits *s)
{
    if (s != NULL) {
        free(s->legal);
        free(s->key);
        free(s->split);
        free(s);
    }
}

void gal_screens_free(gal_screens *screens)
{
    if (screens != NULL) {
        for (uint32_t i = 0; i < screens->menus_count; i++) {
            menus_free(&screens->menus[i]);
        }
        free(screens->menus);
        while (screens->splits != NULL) {
            splits *next = screens->splits->next;
            splits_free(screens->splits);
            screens->splits = next;
        }
        gal_floors_free(screens->floors);
        free(screens);
    }
}

gal_floors *gal_screens_floors(const gal_screens *screens)
{
    return screens->floors;
}

/* One group, of as many samples as it divides at least. */
static bool is_legal_alone(const gal_screens *screens, uint32_t type, const gal_split_kind *split)
{
    gal_split_kind plain = *split;
    plain.offload = false;
    const gal_strategy strategy = gal_split_strategy(&plain);
    const gal_cell_spec alone = {.model = screens->model,
                                 .space = screens->space,
                                 .device_count = split->tp_degree * split->sequence_degree,
                                 .pp_degree = 1,
                                 .microbatch_count = 1,
                                 .global_batch_samples = gal_strategy_sample_parts(&strategy)};
    return gal_cell_is_legal(&alone, screens->types, type, &strategy);
}

/* Of rules that count samples there is one: what splits them, in a group a grid alone, divides them. */
static bool is_legal(const gal_screens *screens, const splits *s, uint32_t type, uint32_t number, uint32_t samples)
{
    uint8_t *known = &s->legal[(size_t)type * s->count + number];
    const gal_split_kind *split = &s->split[number];
    if (*known == 0) {
        *known = is_legal_alone(screens, type, split) ? LEGAL : NOT_LEGAL;
    }
    if (*known == LEGAL && split->tp_mode != GAL_TP_1D) {
        const gal_strategy strategy = gal_split_strategy(split);
        return samples % gal_strategy_sample_parts(&strategy) == 0;
    }
    return *known == LEGAL;
}

/* The items of a type; data parallel groups share the samples and, where the space has sharding, the states, which
 * devices that split positions share too. */
static gal_code list_items(gal_screens *screens, const menus *m, const splits *of, uint32_t type, gal_error *err)
{
    gal_relaxed_type *menu = &m->menus.type[type];
    const uint32_t like = screens->types->type_like[type];
    const bool shards = screens->space->axis[GAL_AXIS_SDP], *zero = screens->space->zero_stage;
    const double work_share = screens->space->overlap ? 0.5 : 1.0; /* of a sub-batch, with the other one not begun */
    for (uint32_t i = 0; i < of->count; i++) {
        const gal_split_kind *split = of->split;
        const uint32_t groups = m->stage_devices / split[i].tp_degree / split[i].sequence_degree;
        const uint32_t shares = (shards ? groups : 1) * (zero[1] || zero[2] || zero[3] ? split[i].sequence_degree : 1);
        gal_block_floor floor;
        if (m->samples % groups != 0 ||
            (groups > 1 && !shards && !screens->space->axis[GAL_AXIS_DP] &&
             !(split[i].tp_mode == GAL_TP_2D && screens->space->tp_grid[GAL_TP_2P5D])) ||
            !is_legal(screens, of, type, i, m->samples / groups)) {
            continue;
        }
        gal_error reason = {0};
        const gal_code code = gal_floors_of(screens->floors, screens->types->shape[like].type, split[i],
                                            m->samples / groups, &floor, &reason);
        if (gal_is_too_large(code)) {
            continue;
        }
        if (code != GAL_OK) {
            return gal_fail(err, code, "%s", reason.text);
        }
        m->menus.item_of[(size_t)type * of->count + i] = &menu->item[menu->item_count];
        menu->item[menu->item_count++] = (gal_relaxed_item){.round_seconds = floor.seconds,
                                                            .bytes = (double)floor.state_bytes / shares,
                                                            .saved_bytes = (double)floor.saved_bytes,
                                                            .work_bytes = (double)floor.work_bytes * work_share};
    }
    return GAL_OK;
}

static gal_code find_splits(gal_screens *screens, uint32_t stage_devices, splits **out, gal_error *err)
{
    for (*out = screens->splits; *out != NULL; *out = (*out)->next) {
        if ((*out)->stage_devices == stage_devices) {
            return GAL_OK;
        }
    }
    splits *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return no_memory(err);
    }
    made->stage_devices = stage_devices;
    made->count = gal_space_splits(screens->space, stage_devices, NULL);
    made->split = calloc((size_t)made->count + 1, sizeof *made->split);
    made->key = malloc(((size_t)made->count + 1) * sizeof *made->key);
    made->legal = calloc((size_t)screens->types->type_count * made->count + 1, sizeof *made->legal);
    if (made->split == NULL || made->key == NULL || made->legal == NULL) {
        splits_free(made);
        return no_memory(err);
    }
    (void)gal_space_splits(screens->space, stage_devices, made->split);
    for (uint32_t i = 0; i < made->count; i++) {
        made->key[i] = gal_split_key(&made->split[i]);
    }
    made->next = screens->splits;
    *out = screens->splits = made;
    return GAL_OK;
}

static gal_code list_menus(gal_screens *screens, menus *m, gal_error *err)
{
    const gal_block_types *types = screens->types;
    splits *of = NULL;
    gal_code code = find_splits(screens, m->stage_devices, &of, err);
    if (code != GAL_OK) {
        return code;
    }
    const size_t most = of->count; /* of a type */
    m->menus.split_count = of->count;
    m->menus.type = calloc(types->type_count, sizeof *m->menus.type);
    m->menus.item_of = calloc(types->type_count * most + 1, sizeof *m->menus.item_of);
    m->item = malloc((types->type_count * most + 1) * sizeof *m->item);
    if (m->menus.type == NULL || m->menus.item_of == NULL || m->item == NULL) {
        return no_memory(err);
    }
    for (uint32_t type = 0; code == GAL_OK && type < types->type_count; type++) {
        m->menus.type[type] =
            (gal_relaxed_type){.block_count = gal_screen_block_count(types, type), .item = m->item + type * most};
        code = list_items(screens, m, of, type, err);
    }
    return code;
}

static gal_code find_menus(gal_screens *screens, uint32_t stage_devices, uint32_t samples, menus **out, gal_error *err)
{
    for (uint32_t i = 0; i < screens->menus_count; i++) {
        if (screens->menus[i].stage_devices == stage_devices && screens->menus[i].samples == samples) {
            *out = &screens->menus[i];
            return GAL_OK;
        }
    }
    if (screens->menus_count == screens->menus_capacity) {
        const uint32_t capacity = 64 + 2 * screens->menus_capacity;
        menus *grown = realloc(screens->menus, capacity * sizeof *grown);
        if (grown == NULL) {
            return no_memory(err);
        }
        screens->menus = grown;
        screens->menus_capacity = capacity;
    }
    menus *m = &screens->menus[screens->menus_count];
    *m = (menus){.stage_devices = stage_devices, .samples = samples};
    const gal_code code = list_menus(screens, m, err);
    if (code != GAL_OK) {
        menus_free(m);
        return code;
    }
    screens->menus_count++;
    *out = m;
    return GAL_OK;
}

/* ---- bounds ---- */

static double least_work(const gal_relaxed_type *menu)
{
    double least = HUGE_VAL;
    for (uint32_t i = 0; i < menu->item_count; i++) {
        least = fmin(least, menu->item[i].work_bytes);
    }
    return menu->item_count > 0 ? least : 0.0;
}

void gal_screen_limits(const gal_cell_spec *spec, double first_work_bytes, double last_work_bytes, double *limit_bytes)
{
    for (uint32_t p = 0; p < spec->pp_degree; p++) {
        const double first = p == 0 ? first_work_bytes : 0.0;
        const double last = p + 1 == spec->pp_degree ? last_work_bytes : 0.0;
        limit_bytes[p] = (double)spec->arena_limit_bytes - fmax(first, last);
    }
}

gal_code gal_screen_menus_of(gal_screens *screens, const gal_cell_spec *spec, gal_screen_menus *out, gal_error *err)
{
    menus *m = NULL;
    const gal_code code = find_menus(screens, spec->device_count / spec->pp_degree,
                                     spec->global_batch_samples / spec->microbatch_count, &m, err);
    if (code == GAL_OK) {
        *out = m->menus;
    }
    return code;
}

gal_code gal_screen_number(gal_screens *screens, uint32_t stage_devices, const gal_strategy *strategy, uint32_t *split,
                           gal_error *err)
{
    splits *s = NULL;
    const gal_split_kind own = gal_split_of(strategy);
    const uint64_t key = gal_split_key(&own);
    const gal_code code = find_splits(screens, stage_devices, &s, err);
    *split = 0;
    while (code == GAL_OK && *split < s->count && s->key[*split] != key) {
        ++*split;
    }
    return code;
}

gal_code gal_screen_floor(gal_screens *screens, const gal_cell_spec *spec, double *bound_seconds, double *least_bytes,
                          gal_error *err)
{
    const gal_block_types *types = screens->types;
    uint32_t in_flight[GAL_STAGES_MAX];
    double limit_bytes[GAL_STAGES_MAX];
    gal_relaxed_memory memory;
    menus *m = NULL;
    const gal_code code = find_menus(screens, spec->device_count / spec->pp_degree,
                                     spec->global_batch_samples / spec->microbatch_count, &m, err);
    if (code != GAL_OK) {
        return code;
    }
    for (uint32_t p = 0; p < spec->pp_degree; p++) {
        in_flight[p] = gal_screen_in_flight(spec, p);
    }
    gal_screen_limits(spec, least_work(&m->menus.type[types->type_of[0]]),
                      least_work(&m->menus.type[types->type_of[types->block_count - 1]]), limit_bytes);
    const gal_relaxed_pipeline pipeline = {spec->pp_degree, gal_screen_rounds(spec), in_flight, limit_bytes};
    *bound_seconds = gal_relaxed_bound(m->menus.type, types->type_count, &pipeline, &memory);
    *least_bytes = (double)spec->arena_limit_bytes - memory.spare_bytes;
    return GAL_OK;
}
