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
    gal_stored_kinds beside; /* lie where the moments do */
    gal_storage_snapshot at[SNAPSHOTS_MAX];
} levels_work;

static void set_percent(levels_work *w, uint32_t percent)
{
    for (uint32_t r = 0; r < w->plan.run_count; r++) {
        gal_strategy *strategy = &w->plan.run[r].strategy;
        const uint32_t most = strategy->offload_optimizer_percent;
        const gal_price_share share = {percent < most ? percent : most, w->beside, NULL};
        *strategy = gal_price_share_strategy(strategy, &share);
    }
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void read_unit(const gal_program *program, const gal_unit *unit, gal_storage_level *out)
{
    uint32_t in_file[GAL_STORED_KINDS];
    gal_unit_in_file(program, unit, in_file);
    for (uint32_t k = 0; k < GAL_STORED_KINDS; k++) {
        if (in_file[k] == GAL_NO_BUFFER) {
            continue;
        }
        const gal_buffer *buffer = &program->buffer[in_file[k]];
        const uint64_t part = buffer->bytes < buffer->cut_bytes ? buffer->bytes : buffer->cut_bytes;
        out->host_bytes += gal_align_in(GAL_CLASS_HOST, buffer->bytes);
        out->bytes += gal_align_in(GAL_CLASS_STORAGE, buffer->bytes);
        out->part_bytes = larger(out->part_bytes, gal_align_in(GAL_CLASS_STORED, part));
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
    s->host_bytes = program->host_bytes;
    s->block = calloc(w->block_count, sizeof *s->block);
    if (s->block == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    for (uint32_t u = 0; u < program->unit_count; u++) {
        read_unit(program, &program->unit[u], &s->block[program->unit[u].block]);
    }
cleanup:
    gal_program_free(program);
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

/* Weights on storage are read in every microbatch. */
static gal_code add_rounds(levels_work *w, uint32_t block, double *seconds, gal_error *err)
{
    const gal_plan *plan = &w->plan;
    const gal_block_price *of = NULL;
    const gal_price_query query = gal_price_query_of(plan, w->stage, block);
    const gal_code code = gal_price_block(w->cache, &query, &of, err);
    *seconds += code == GAL_OK ? plan->microbatch_count * (of->forward_seconds + of->backward_seconds) : 0.0;
    return code;
}

static gal_code price(levels_work *w, gal_storage_snapshot *s, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t first = gal_plan_stage_first_block(&w->plan, w->stage);
    set_percent(w, s->percent);
    for (uint32_t i = 0; i < w->block_count; i++) {
        double seconds = 0.0;
        GAL_TRY(gal_plan_block_update(w->cache, &w->plan, w->stage, first + i, &seconds, err));
        if (w->beside.weights) {
            GAL_TRY(add_rounds(w, first + i, &seconds, err));
        }
        s->block[i].picoseconds = (uint64_t)llrint(fmax(0.0, seconds) * picoseconds);
    }
cleanup:
    return code;
}

gal_code gal_storage_levels_create(gal_price_cache *cache, const gal_plan *plan, uint32_t stage,
                                   gal_stored_kinds beside, gal_storage_levels *out, gal_error *err)
{
    gal_code code = GAL_OK;
    levels_work w = {
        .cache = cache, .stage = stage, .block_count = gal_plan_stage_block_count(plan, stage), .beside = beside};
    uint32_t count = 0;
    gal_storage_snapshot *snapshots = NULL;
    GAL_TRY(gal_plan_copy(plan, &w.plan, err));
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
    *out = (gal_storage_levels){.block_count = w.block_count, .snapshot_count = count, .snapshot = snapshots};
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
