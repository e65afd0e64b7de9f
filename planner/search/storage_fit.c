#include "planner/search/storage_fit.h"

#include <stdlib.h>
#include <string.h>

#include "planner/search/least_cover.h"
#include "planner/search/storage_levels.h"
#include "runtime/program/program.h"

#define NO_BLOCK UINT32_MAX
enum { BLOCK = GAL_STORAGE_BLOCK_BYTES };

/* The ways of a stage's blocks, and the snapshot of each; [block * snapshots + way]. */
typedef struct stage_ways {
    gal_cover_item *item; /* [block] */
    gal_cover_way *way;
    uint32_t *snapshot, *chosen;
} stage_ways;

typedef struct fit_work {
    const gal_plan *plan;
    const gal_host_limits *most;
    gal_storage_levels *levels; /* [stage] */
    bool *table;                /* [block]: holds a token table of several */
    bool masters;               /* of the choice at hand: they lie where the moments do */
    uint32_t *percent, *best;   /* [block]: of the choice at hand, and of the best one */
    bool best_masters;
} fit_work;

/* Of a choice for all stages: seconds of the slowest (gal_storage_level), and bytes of all of them. */
typedef struct fit_cost {
    uint64_t picoseconds, bytes;
} fit_cost;

static bool is_less(fit_cost a, fit_cost b)
{
    return a.picoseconds != b.picoseconds ? a.picoseconds < b.picoseconds : a.bytes < b.bytes;
}

/* ---- one stage ---- */

static gal_code make_ways(const gal_storage_levels *levels, stage_ways *out, gal_error *err)
{
    const size_t ways = (size_t)levels->block_count * levels->snapshot_count;
    *out = (stage_ways){.item = calloc(levels->block_count, sizeof *out->item),
                        .way = calloc(ways, sizeof *out->way),
                        .snapshot = calloc(ways, sizeof *out->snapshot),
                        .chosen = calloc(levels->block_count, sizeof *out->chosen)};
    return out->item != NULL && out->way != NULL && out->snapshot != NULL && out->chosen != NULL
               ? GAL_OK
               : gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}

static void free_ways(stage_ways *ways)
{
    free(ways->item);
    free(ways->way);
    free(ways->snapshot);
    free(ways->chosen);
}

/* The last snapshot of no more than a percentage. */
static uint32_t snapshot_at(const gal_storage_levels *levels, uint32_t percent)
{
    uint32_t s = levels->snapshot_count - 1;
    while (levels->snapshot[s].percent > percent) {
        s--;
    }
    return s;
}

static void add_way(const gal_storage_levels *levels, uint32_t block, uint32_t snapshot, bool bytes_first,
                    stage_ways *ways)
{
    const gal_storage_level *level = &levels->snapshot[snapshot].block[block];
    const size_t at = (size_t)block * levels->snapshot_count + ways->item[block].way_count++;
    ways->snapshot[at] = snapshot;
    ways->way[at] = (gal_cover_way){
        .gain = level->host_bytes,
        .cost = {bytes_first ? level->bytes : level->picoseconds, bytes_first ? level->picoseconds : level->bytes}};
}

/* Those with parts no larger than part_bytes; of a holder of the token table what table_percent means, whatever its
 * parts. */
static void list_ways(const fit_work *w, uint32_t stage, uint64_t part_bytes, uint32_t table_percent, bool bytes_first,
                      stage_ways *ways)
{
    const gal_storage_levels *levels = &w->levels[stage];
    const uint32_t first = gal_plan_stage_first_block(w->plan, stage);
    for (uint32_t i = 0; i < levels->block_count; i++) {
        ways->item[i] = (gal_cover_item){.way = &ways->way[(size_t)i * levels->snapshot_count]};
        if (w->table[first + i]) {
            add_way(levels, i, snapshot_at(levels, table_percent), bytes_first, ways);
            continue;
        }
        for (uint32_t s = 0; s < levels->snapshot_count; s++) {
            const gal_storage_level *level = &levels->snapshot[s].block[i];
            const bool is_new = s == 0 || level->bytes != levels->snapshot[s - 1].block[i].bytes;
            if (is_new && level->part_bytes <= part_bytes) {
                add_way(levels, i, s, bytes_first, ways);
            }
        }
    }
}

/* What the host's memory lacks when parts are so large, if nothing were stored. */
static uint64_t need_of(const fit_work *w, uint32_t stage, uint64_t part_bytes)
{
    const gal_storage_levels *levels = &w->levels[stage];
    const uint64_t kinds = GAL_STORED_MOMENTS + (uint64_t)w->masters, most = w->most->host_bytes;
    const uint64_t ring = GAL_STORED_RING * (kinds * part_bytes + levels->weight_part_bytes);
    const bool is_first = ring > 0 && levels->kept_bytes == 0; /* else activations have a ring there already */
    const uint64_t all = levels->host_bytes + ring + (is_first ? 2 * BLOCK : 0); /* lost before it and behind it */
    return all > most ? all - most : 0;
}

/* The largest of parts that are there whatever is chosen: of holders of the token table, and of blocks with weights on
 * storage. */
static uint64_t least_part_bytes(const fit_work *w, uint32_t stage, uint32_t table_percent)
{
    const gal_storage_levels *levels = &w->levels[stage];
    const uint32_t first = gal_plan_stage_first_block(w->plan, stage), table = snapshot_at(levels, table_percent);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < levels->block_count; i++) {
        const uint64_t part = levels->snapshot[w->table[first + i] ? table : 0].block[i].part_bytes;
        bytes = part > bytes ? part : bytes;
    }
    return bytes;
}

/* The next larger size of a part that occurs; UINT64_MAX: none. */
static uint64_t next_part_bytes(const gal_storage_levels *levels, uint64_t than)
{
    uint64_t next = UINT64_MAX;
    for (uint32_t s = 0; s < levels->snapshot_count; s++) {
        for (uint32_t i = 0; i < levels->block_count; i++) {
            const uint64_t part = levels->snapshot[s].block[i].part_bytes;
            next = part > than && part < next ? part : next;
        }
    }
    return next;
}

/* Of holders of the token table the same on all stages, whose snapshots may be others. */
static void take_choice(const fit_work *w, uint32_t stage, uint32_t table_percent, const stage_ways *ways)
{
    const gal_storage_levels *levels = &w->levels[stage];
    const uint32_t first = gal_plan_stage_first_block(w->plan, stage);
    for (uint32_t i = 0; i < levels->block_count; i++) {
        const uint32_t s = ways->snapshot[(size_t)i * levels->snapshot_count + ways->chosen[i]];
        w->percent[first + i] = w->table[first + i] ? table_percent : levels->snapshot[s].percent;
    }
}

/* Of all sizes that the largest part may have the best choice, to w->percent. */
static gal_code choose_in(const fit_work *w, uint32_t stage, uint32_t table_percent, bool bytes_first, fit_cost *cost,
                          bool *found, gal_error *err)
{
    gal_code code = GAL_OK;
    stage_ways ways = {0};
    const gal_storage_levels *levels = &w->levels[stage];
    *found = false;
    GAL_TRY(make_ways(levels, &ways, err));
    for (uint64_t part = least_part_bytes(w, stage, table_percent); part < UINT64_MAX;
         part = next_part_bytes(levels, part)) {
        gal_cover_way sum = {0};
        bool covers = false;
        list_ways(w, stage, part, table_percent, bytes_first, &ways);
        GAL_TRY(
            gal_least_cover(ways.item, levels->block_count, need_of(w, stage, part), ways.chosen, &sum, &covers, err));
        const fit_cost here = {sum.cost[bytes_first], sum.cost[!bytes_first] + levels->kept_bytes};
        if (covers && here.bytes <= w->most->storage_bytes && (!*found || is_less(here, *cost))) {
            *found = true;
            *cost = here;
            take_choice(w, stage, table_percent, &ways);
        }
    }
cleanup:
    free_ways(&ways);
    return code;
}

/* Least seconds first; where that takes more of storage than there is, the fewest bytes. */
static gal_code choose(const fit_work *w, uint32_t stage, uint32_t table_percent, fit_cost *cost, bool *found,
                       gal_error *err)
{
    gal_code code = choose_in(w, stage, table_percent, false, cost, found, err);
    if (code == GAL_OK && !*found) {
        code = choose_in(w, stage, table_percent, true, cost, found, err);
    }
    return code;
}

/* ---- all of them ---- */

static gal_code try_table(fit_work *w, uint32_t table_percent, fit_cost *least, bool *fits, gal_error *err)
{
    fit_cost all = {0};
    for (uint32_t stage = 0; stage < w->plan->stage_count; stage++) {
        fit_cost cost = {0};
        bool found = false;
        const gal_code code = choose(w, stage, table_percent, &cost, &found, err);
        if (code != GAL_OK || !found) {
            return code;
        }
        all.picoseconds = cost.picoseconds > all.picoseconds ? cost.picoseconds : all.picoseconds;
        all.bytes += cost.bytes;
    }
    if (!*fits || is_less(all, *least)) {
        *fits = true;
        *least = all;
        w->best_masters = w->masters;
        memcpy(w->best, w->percent, gal_model_block_count(&w->plan->model) * sizeof *w->best);
    }
    return GAL_OK;
}

static void find_table(const fit_work *w, uint32_t block_count)
{
    uint32_t holders = 0;
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t block = 0; block < block_count; block++) {
            gal_block_shape shape;
            gal_model_block(&w->plan->model, block, &shape);
            const bool holds = (shape.shared >> GAL_SHARED_TABLE & 1U) != 0;
            holders += pass == 0 && holds;
            w->table[block] = pass == 1 && holds && holders > 1;
        }
    }
}

/* The runs anew, by block. */
static gal_code write_percents(const fit_work *w, gal_plan *plan, gal_error *err)
{
    gal_plan_run *run = calloc(gal_model_block_count(&plan->model), sizeof *run);
    uint32_t count = 0, block = 0;
    if (run == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        const uint32_t first = count, end = block + gal_plan_stage_block_count(plan, s);
        for (; block < end; block++) {
            const gal_strategy strategy =
                gal_storage_strategy_at(gal_plan_block_strategy(plan, block), w->best[block], w->best_masters);
            if (count == first || !gal_strategy_equal(&run[count - 1].strategy, &strategy)) {
                run[count++] = (gal_plan_run){0, strategy};
            }
            run[count - 1].block_count++;
        }
    }
    block = count = 0;
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        const uint32_t end = block + gal_plan_stage_block_count(plan, s);
        plan->stage[s].first_run = count;
        for (plan->stage[s].run_count = 0; block < end; plan->stage[s].run_count++) {
            block += run[count++].block_count;
        }
    }
    free(plan->run);
    plan->run = run;
    plan->run_count = count;
    return GAL_OK;
}

/* Whether a holder of the token table stores something else at the snapshot than before it. */
static bool changes_table(const fit_work *w, uint32_t stage, uint32_t snapshot)
{
    const gal_storage_snapshot *here = &w->levels[stage].snapshot[snapshot];
    const uint32_t first = gal_plan_stage_first_block(w->plan, stage);
    bool changes = false;
    for (uint32_t i = 0; i < w->levels[stage].block_count; i++) {
        changes = changes || (w->table[first + i] && here->block[i].bytes != (here - 1)->block[i].bytes);
    }
    return changes;
}

static gal_code choose_all(fit_work *w, fit_cost *least, bool *fits, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_TRY(try_table(w, 0, least, fits, err));
    for (uint32_t stage = 0; stage < w->plan->stage_count; stage++) {
        for (uint32_t s = 1; s < w->levels[stage].snapshot_count; s++) {
            if (changes_table(w, stage, s)) {
                GAL_TRY(try_table(w, w->levels[stage].snapshot[s].percent, least, fits, err));
            }
        }
    }
cleanup:
    return code;
}

static void free_levels(fit_work *w)
{
    for (uint32_t stage = 0; w->levels != NULL && stage < w->plan->stage_count; stage++) {
        gal_storage_levels_free(&w->levels[stage]);
    }
}

/* With masters where the moments are, or in memory. */
static gal_code choose_with(fit_work *w, gal_price_cache *cache, bool masters, fit_cost *least, bool *fits,
                            gal_error *err)
{
    gal_code code = GAL_OK;
    w->masters = masters;
    for (uint32_t stage = 0; stage < w->plan->stage_count; stage++) {
        GAL_TRY(gal_storage_levels_create(cache, w->plan, stage, masters, &w->levels[stage], err));
    }
    GAL_TRY(choose_all(w, least, fits, err));
cleanup:
    free_levels(w);
    return code;
}

/* Blocks that share chunks of weights would have to share a percentage too. */
static bool has_chunks(const gal_plan *plan)
{
    bool has = false;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        has = has || plan->run[r].strategy.shard_unit == GAL_SHARD_CHUNK;
    }
    return has;
}

gal_code gal_storage_fit(gal_price_cache *cache, const gal_host_limits *most, gal_plan *plan, bool *fits,
                         gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t blocks = gal_model_block_count(&plan->model);
    fit_work w = {.plan = plan,
                  .most = most,
                  .levels = calloc(plan->stage_count, sizeof *w.levels),
                  .table = calloc(blocks, sizeof *w.table),
                  .percent = calloc(2 * (size_t)blocks, sizeof *w.percent)};
    fit_cost least = {0};
    *fits = false;
    if (w.levels == NULL || w.table == NULL || w.percent == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    w.best = w.percent + blocks;
    if (gal_plan_chunk_count(plan) > 1 || has_chunks(plan)) {
        goto cleanup;
    }
    find_table(&w, blocks);
    GAL_TRY(choose_with(&w, cache, false, &least, fits, err));
    if (most->masters && gal_dtype_is_narrow(plan->model.compute_dtype)) {
        GAL_TRY(choose_with(&w, cache, true, &least, fits, err));
    }
    if (*fits) {
        GAL_TRY(write_percents(&w, plan, err));
    }
cleanup:
    free(w.percent);
    free(w.table);
    free(w.levels);
    return code;
}
