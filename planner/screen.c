#include "planner/screen.h"

#include <math.h>
#include <stdlib.h>

#include "planner/relaxed.h"
#include "runtime/program/schedule.h"

enum { SPLITS_MAX = 128 };

/* The splits of a block that the space allows: tp alone, data parallelism left open. */
static uint32_t list_splits(const gal_cell_spec *spec, uint32_t stage_devices, gal_split_kind *out)
{
    const gal_space *space = spec->space;
    const bool allowed[GAL_RECOMPUTE_COUNT] = {[GAL_RECOMPUTE_NONE] = true,
                                               [GAL_RECOMPUTE_SELECTIVE] = space->selective,
                                               [GAL_RECOMPUTE_FULL] = space->recompute};
    uint32_t count = 0;
    for (uint32_t tp = 1; tp <= (space->axis[GAL_AXIS_TP] ? stage_devices : 1); tp++) {
        if (stage_devices % tp != 0) {
            continue;
        }
        for (uint32_t sp = 0; sp <= (tp > 1 && space->sequence_parallel ? 1u : 0u); sp++) {
            for (uint32_t r = 0; r < GAL_RECOMPUTE_COUNT && count < SPLITS_MAX; r++) {
                if (allowed[r]) {
                    out[count++] = (gal_split_kind){tp, sp == 1, (gal_recompute)r};
                }
            }
        }
    }
    return count;
}

static bool is_legal(const gal_cell_spec *spec, const gal_block_types *types, uint32_t type,
                     const gal_split_kind *split, uint32_t samples)
{
    gal_cell_spec alone = *spec; /* one split group */
    gal_strategy strategy = {.recompute = split->recompute, .sequence_parallel = split->sequence_parallel};
    alone.device_count = split->tp_degree;
    alone.pp_degree = alone.microbatch_count = 1;
    alone.global_batch_samples = samples;
    if (split->tp_degree > 1) {
        strategy.axis[strategy.axis_count++] = (gal_axis){GAL_AXIS_TP, split->tp_degree};
    }
    return gal_cell_is_legal(&alone, types, type, &strategy);
}

/* The items of a type; data parallel groups share the samples and, where the space has sharding, the states. */
static gal_code list_items(const gal_cell_spec *spec, const gal_block_types *types, uint32_t type, gal_floors *floors,
                           gal_relaxed_type *menu, gal_error *err)
{
    const uint32_t stage_devices = spec->device_count / spec->pp_degree;
    const uint32_t samples = spec->global_batch_samples / spec->microbatch_count;
    const bool shards = spec->space->axis[GAL_AXIS_SDP];
    gal_split_kind split[SPLITS_MAX];
    const uint32_t count = list_splits(spec, stage_devices, split);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t groups = stage_devices / split[i].tp_degree;
        gal_block_floor floor;
        if (samples % groups != 0 || (groups > 1 && !shards && !spec->space->axis[GAL_AXIS_DP]) ||
            !is_legal(spec, types, type, &split[i], samples / groups)) {
            continue;
        }
        gal_error reason = {0};
        const gal_code code =
            gal_floors_of(floors, types->shape[type].type, split[i], samples / groups, &floor, &reason);
        if (code == GAL_ERR_DOCUMENT) { /* a tensor is too large for a program: not to be had */
            continue;
        }
        if (code != GAL_OK) {
            return gal_fail(err, code, "%s", reason.text);
        }
        menu->item[menu->item_count++] = (gal_relaxed_item){.round_seconds = floor.seconds,
                                                            .bytes = (double)floor.state_bytes / (shards ? groups : 1),
                                                            .saved_bytes = (double)floor.saved_bytes,
                                                            .work_bytes = (double)floor.work_bytes};
    }
    return GAL_OK;
}

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

typedef struct screen {
    const gal_cell_spec *spec;
    const gal_block_types *types;
    gal_floors *floors;
    uint32_t stage_devices, samples;
    uint32_t capacity; /* items of a type */
    gal_relaxed_type *menu;
    gal_relaxed_item *item;
    uint32_t *in_flight;
    double *limit_bytes; /* [stage] */
} screen;

static gal_code screen_create(screen *s, gal_error *err)
{
    const uint32_t stages = s->spec->pp_degree;
    s->stage_devices = s->spec->device_count / stages;
    s->samples = s->spec->global_batch_samples / s->spec->microbatch_count;
    s->menu = calloc(s->types->type_count, sizeof *s->menu);
    s->item = calloc((size_t)s->types->type_count * s->capacity + 1, sizeof *s->item);
    s->in_flight = calloc(stages, sizeof *s->in_flight);
    s->limit_bytes = calloc(stages, sizeof *s->limit_bytes);
    if (s->menu == NULL || s->item == NULL || s->in_flight == NULL || s->limit_bytes == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    for (uint32_t type = 0; type < s->types->type_count; type++) {
        s->menu[type] = (gal_relaxed_type){.block_count = gal_screen_block_count(s->types, type),
                                           .item = s->item + (size_t)type * s->capacity};
    }
    for (uint32_t p = 0; p < stages; p++) {
        s->in_flight[p] = gal_screen_in_flight(s->spec, p);
    }
    return GAL_OK;
}

static void screen_free(screen *s)
{
    free(s->limit_bytes);
    free(s->in_flight);
    free(s->item);
    free(s->menu);
}

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

static double bound_of(const screen *s, double *spare_bytes)
{
    const uint32_t stages = s->spec->pp_degree;
    gal_screen_limits(s->spec, least_work(&s->menu[s->types->type_of[0]]),
                      least_work(&s->menu[s->types->type_of[s->types->block_count - 1]]), s->limit_bytes);
    const gal_relaxed_pipeline pipeline = {stages, gal_screen_rounds(s->spec), s->in_flight, s->limit_bytes};
    return gal_relaxed_bound(s->menu, s->types->type_count, &pipeline, spare_bytes);
}

gal_code gal_screen_floor(const gal_cell_spec *spec, const gal_block_types *types, gal_floors *floors,
                          double *bound_seconds, double *least_bytes, gal_error *err)
{
    gal_code code = GAL_OK;
    double spare_bytes = 0.0;
    screen s = {.spec = spec, .types = types, .floors = floors, .capacity = SPLITS_MAX};
    GAL_TRY(screen_create(&s, err));
    for (uint32_t type = 0; type < types->type_count; type++) {
        GAL_TRY(list_items(spec, types, type, floors, &s.menu[type], err));
    }
    *bound_seconds = bound_of(&s, &spare_bytes);
    *least_bytes = (double)spec->arena_limit_bytes - spare_bytes;
cleanup:
    screen_free(&s);
    return code;
}
