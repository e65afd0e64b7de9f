#include "planner/search/storage_levels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "costmodel/objective.h"

enum { PERCENT = 100, SNAPSHOTS_MAX = PERCENT + 1 };
static const double picoseconds = 1e12;

/* Those taken so far, by percentage; block NULL: not taken. */
typedef struct levels_work {
    gal_price_cache *cache;
    gal_plan plan; /* a copy, whose percentages change */
    uint32_t stage, block_count;
    bool masters; /* lie where the moments do */
    uint64_t kept_bytes, weight_part_bytes;
    gal_storage_snapshot at[SNAPSHOTS_MAX];
} levels_work;

static void set_percent(levels_work *w, uint32_t percent)
{
    for (uint32_t r = 0; r < w->plan.run_count; r++) {
        w->plan.run[r].strategy = gal_storage_strategy_at(&w->plan.run[r].strategy, percent, w->masters);
    }
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void read_unit(levels_work *w, const gal_program *program, const gal_unit *unit, gal_storage_level *out)
{
    uint32_t in_file[GAL_STORED_KINDS];
    gal_unit_in_file(program, unit, in_file);
    for (uint32_t k = 0; k < GAL_STORED_KINDS; k++) {
        if (in_file[k] == GAL_NO_BUFFER) {
            continue;
        }
        const gal_buffer *buffer = &program->buffer[in_file[k]];
        const uint64_t part = buffer->bytes < buffer->cut_bytes ? buffer->bytes : buffer->cut_bytes;
        uint64_t *largest = k == GAL_STORED_WEIGHT ? &w->weight_part_bytes : &out->part_bytes;
        out->host_bytes += gal_align_in(GAL_CLASS_HOST, buffer->bytes);
        out->bytes += gal_align_in(GAL_CLASS_STORAGE, buffer->bytes);
        *largest = larger(*largest, gal_align_in(GAL_CLASS_STORED, part));
    }
}

static gal_code take_snapshot(levels_work *w, uint32_t percent, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_program *program = NULL;
    gal_storage_snapshot *s = &w->at[percent];
    set_percent(w, percent);
    GAL_TRY(gal_lower(&w->plan, w->stage, &program, err));
    s->percent = percent;
    s->block = calloc(w->block_count, sizeof *s->block);
    if (s->block == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    for (uint32_t u = 0; u < program->unit_count; u++) {
        read_unit(w, program, &program->unit[u], &s->block[program->unit[u].block]);
    }
    const gal_class_arena *kept = &program->arena[gal_arena_number(GAL_CLASS_STORAGE_SAVED, 0)];
    w->kept_bytes = kept->count * kept->item_bytes;
cleanup:
    gal_program_free(program);
    return code;
}

/* Of the stage without any of its moments or weights on storage. */
static gal_code read_memory(levels_work *w, uint64_t *host_bytes, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_program *program = NULL;
    gal_plan in_memory = {0};
    GAL_TRY(gal_plan_copy(&w->plan, &in_memory, err));
    for (uint32_t r = 0; r < in_memory.run_count; r++) {
        gal_strategy *strategy = &in_memory.run[r].strategy;
        strategy->offload_storage_percent = strategy->offload_storage_parameters_percent = 0;
        strategy->offload_storage_masters = false;
    }
    GAL_TRY(gal_lower(&in_memory, w->stage, &program, err));
    *host_bytes = program->host_bytes;
cleanup:
    gal_program_free(program);
    gal_plan_free(&in_memory);
    return code;
}

static bool is_same(const levels_work *w, uint32_t a, uint32_t b)
{
    return memcmp(w->at[a].block, w->at[b].block, w->block_count * sizeof *w->at[a].block) == 0;
}

/* What a block stores never falls with the percentage: between two that store the same all do. */
static gal_code explore(levels_work *w, uint32_t low, uint32_t high, gal_error *err)
{
    gal_code code = GAL_OK;
    if (high - low > 1 && !is_same(w, low, high)) {
        const uint32_t middle = (low + high) / 2;
        GAL_TRY(take_snapshot(w, middle, err));
        GAL_TRY(explore(w, low, middle, err));
        GAL_TRY(explore(w, middle, high, err));
    }
cleanup:
    return code;
}

/* In the place of the first ones; those like the one before are dropped. */
static uint32_t keep_distinct(levels_work *w)
{
    uint32_t kept = 0;
    for (uint32_t percent = 0; percent <= PERCENT; percent++) {
        if (w->at[percent].block == NULL) {
            continue;
        }
        if (kept > 0 && is_same(w, kept - 1, percent)) {
            free(w->at[percent].block);
            w->at[percent].block = NULL;
        } else if (kept++ < percent) {
            w->at[kept - 1] = w->at[percent];
            w->at[percent].block = NULL;
        }
    }
    return kept;
}

static gal_code price(levels_work *w, gal_storage_snapshot *s, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t first = gal_plan_stage_first_block(&w->plan, w->stage);
    set_percent(w, s->percent);
    for (uint32_t i = 0; i < w->block_count; i++) {
        double seconds = 0.0;
        GAL_TRY(gal_plan_block_update(w->cache, &w->plan, w->stage, first + i, &seconds, err));
        s->block[i].picoseconds = (uint64_t)llrint(fmax(0.0, seconds) * picoseconds);
    }
cleanup:
    return code;
}

gal_strategy gal_storage_strategy_at(const gal_strategy *strategy, uint32_t percent, bool masters)
{
    const uint32_t most = strategy->offload_optimizer_percent;
    const bool all = percent > most || strategy->offload_storage_parameters_percent > 0;
    const gal_price_share share = {.percent = all ? most : percent, .masters = masters};
    return gal_price_share_strategy(strategy, &share);
}

gal_code gal_storage_levels_create(gal_price_cache *cache, const gal_plan *plan, uint32_t stage, bool masters,
                                   gal_storage_levels *out, gal_error *err)
{
    gal_code code = GAL_OK;
    levels_work w = {
        .cache = cache, .stage = stage, .block_count = gal_plan_stage_block_count(plan, stage), .masters = masters};
    uint32_t count = 0;
    uint64_t host_bytes = 0;
    gal_storage_snapshot *snapshots = NULL;
    GAL_TRY(gal_plan_copy(plan, &w.plan, err));
    GAL_TRY(read_memory(&w, &host_bytes, err));
    GAL_TRY(take_snapshot(&w, 0, err));
    GAL_TRY(take_snapshot(&w, PERCENT, err));
    GAL_TRY(explore(&w, 0, PERCENT, err));
    count = keep_distinct(&w);
    for (uint32_t i = 0; i < count; i++) {
        GAL_TRY(price(&w, &w.at[i], err));
    }
    snapshots = malloc(count * sizeof *snapshots);
    if (snapshots == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    memcpy(snapshots, w.at, count * sizeof *snapshots);
    memset(w.at, 0, sizeof w.at);
    *out = (gal_storage_levels){.block_count = w.block_count,
                                .snapshot_count = count,
                                .host_bytes = host_bytes,
                                .kept_bytes = w.kept_bytes,
                                .weight_part_bytes = w.weight_part_bytes,
                                .snapshot = snapshots};
cleanup:
    for (uint32_t i = 0; i < SNAPSHOTS_MAX; i++) {
        free(w.at[i].block);
    }
    gal_plan_free(&w.plan);
    return code;
}

void gal_storage_levels_free(gal_storage_levels *levels)
{
    for (uint32_t i = 0; i < levels->snapshot_count; i++) {
        free(levels->snapshot[i].block);
    }
    free(levels->snapshot);
    *levels = (gal_storage_levels){0};
}
