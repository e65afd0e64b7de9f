#include "planner/space/strategy_space.h"

#include <string.h>

void gal_space_all(gal_space *out)
{
    *out = (gal_space){.axis = {true, true, true},
                       .zero_stage = {false, true, true, true},
                       .sequence_parallel = true,
                       .recompute = true,
                       .selective = true};
}

typedef struct enumeration {
    const gal_space *space;
    gal_strategy *out;
    uint32_t count;
} enumeration;

gal_overlap gal_space_overlap_of(const gal_strategy *strategy)
{
    const bool can = strategy->tp_mode == GAL_TP_1D && gal_strategy_degree(strategy, GAL_AXIS_TP) > 1 &&
                     gal_strategy_sequence_degree(strategy) == 1;
    return !can ? GAL_OVERLAP_NONE : strategy->recompute == GAL_RECOMPUTE_FULL ? GAL_OVERLAP_FINE : GAL_OVERLAP_IN_PASS;
}

static void put(enumeration *e, const gal_strategy *strategy)
{
    if (e->out != NULL && e->count < GAL_SPACE_MAX) {
        e->out[e->count] = *strategy;
    }
    e->count++;
}

static void emit_recomputes(enumeration *e, gal_strategy strategy, bool overlaps)
{
    const bool allowed[GAL_RECOMPUTE_COUNT] = {[GAL_RECOMPUTE_NONE] = true,
                                               [GAL_RECOMPUTE_SELECTIVE] = e->space->selective,
                                               [GAL_RECOMPUTE_FULL] = e->space->recompute};
    for (uint32_t r = 0; r < GAL_RECOMPUTE_COUNT; r++) {
        strategy.recompute = (gal_recompute)r;
        strategy.overlap = overlaps ? gal_space_overlap_of(&strategy) : GAL_OVERLAP_NONE;
        const bool keeps_none = strategy.keep_panels && r == GAL_RECOMPUTE_FULL;
        const bool apart = !overlaps || strategy.offload_activations_percent == 0;
        /* recomputed in full a block keeps its input alone: all or nothing */
        const bool splits_one = r == GAL_RECOMPUTE_FULL && (strategy.offload_activations_percent % 100 > 0 ||
                                                            strategy.offload_storage_activations_percent % 100 > 0);
        if (allowed[r] && !keeps_none && apart && !splits_one && (!overlaps || strategy.overlap != GAL_OVERLAP_NONE)) {
            put(e, &strategy);
        }
    }
}

/* What of a block may be in the host's memory: percentages. */
typedef struct host_way {
    uint32_t optimizer, parameters, activations;
} host_way;

static const host_way offloads[GAL_SPACE_OFFLOADS] = {{50, 0, 0},    {100, 0, 0},   {100, 100, 0},  {100, 100, 100},
                                                      {0, 0, 50},    {0, 0, 100},   {100, 50, 0},   {100, 0, 50},
                                                      {100, 0, 100}, {100, 50, 50}, {100, 50, 100}, {100, 100, 50}};
enum { HALF = 50 /* of them so much, or as much again, may be on storage */ };

static bool may_fetch(const gal_strategy *strategy)
{
    const bool gathers = strategy->tp_mode != GAL_TP_1D && !strategy->stepped;
    return strategy->zero_stage == 0 || (strategy->zero_stage == 3 && !gathers);
}

/* With nothing of it on storage and, where the space has that, half and all of a block's weights, with all moments,
 * which are read but once a step, half and all of its moments alone, and of what it keeps: as much as is on the host.
 */
static void emit_way(enumeration *e, gal_strategy strategy, const host_way *of, bool overlaps)
{
    const gal_space *space = e->space;
    const uint32_t most_weights = space->store_weights ? of->parameters : 0;
    const uint32_t most_activations = space->store_activations ? of->activations : 0;
    strategy.offload_optimizer_percent = of->optimizer;
    strategy.offload_parameters_percent = of->parameters;
    strategy.offload_activations_percent = of->activations;
    for (uint32_t weights = 0; weights <= most_weights; weights += HALF) {
        const uint32_t least = weights > 0 ? of->optimizer : 0, most = space->store_moments ? of->optimizer : least;
        strategy.offload_storage_parameters_percent = weights;
        for (uint32_t moments = least; moments <= most; moments += HALF) {
            strategy.offload_storage_percent = moments;
            for (uint32_t activations = 0; activations <= most_activations; activations += HALF) {
                strategy.offload_storage_activations_percent = activations;
                emit_recomputes(e, strategy, overlaps);
            }
        }
    }
}

static void emit_offloads(enumeration *e, gal_strategy strategy, bool overlaps)
{
    const uint32_t left_out = e->space->offload_left_out;
    emit_recomputes(e, strategy, overlaps);
    for (uint32_t i = 0; e->space->offload && i + left_out < GAL_SPACE_OFFLOADS; i++) {
        if (offloads[i].parameters == 0 || may_fetch(&strategy)) {
            emit_way(e, strategy, &offloads[i], overlaps);
        }
    }
}

/* With panels of inputs gathered again and, of grids, kept. */
static void emit_panels(enumeration *e, gal_strategy strategy)
{
    emit_offloads(e, strategy, false);
    if (strategy.tp_mode != GAL_TP_1D && e->space->keep_panels) {
        strategy.keep_panels = true;
        emit_offloads(e, strategy, false);
    }
}

/* A cube whose weights stay: gradients are summed in every microbatch, as the other cube does, or where the space has
 * ZeRO-1, once. Beside an SDP axis by its stage. */
static void emit_kept_weights(enumeration *e, gal_strategy strategy)
{
    const uint32_t beside = strategy.zero_stage;
    strategy.keep_weights = true;
    for (uint32_t stage = 1; stage <= 2; stage++) {
        strategy.zero_stage = stage;
        if (beside == 0 ? stage == 2 || e->space->zero_stage[1] : stage == beside) {
            emit_panels(e, strategy);
        }
    }
}

static void emit_unit(enumeration *e, gal_strategy strategy)
{
    emit_panels(e, strategy);
    if (strategy.tp_mode == GAL_TP_3D && e->space->keep_panels) {
        emit_kept_weights(e, strategy);
    }
    const bool square = strategy.tp_mode == GAL_TP_2D || strategy.tp_mode == GAL_TP_2P5D;
    if (square && e->space->stepped) {
        strategy.stepped = true;
        emit_offloads(e, strategy, false);
    }
    if (e->space->overlap) {
        emit_offloads(e, strategy, true);
    }
}

/* What is sharded and summed at once matters where there are others that have the same parameters. */
static void emit(enumeration *e, gal_strategy strategy)
{
    emit_unit(e, strategy);
    const bool alone = gal_strategy_degree(&strategy, GAL_AXIS_DP) * gal_strategy_degree(&strategy, GAL_AXIS_SDP) *
                           gal_strategy_sequence_degree(&strategy) ==
                       1;
    if (e->space->bucket && !alone && strategy.tp_mode == GAL_TP_1D) {
        strategy.shard_unit = GAL_SHARD_BUCKET;
        emit_unit(e, strategy);
    }
    if (e->space->chunk && !alone && strategy.tp_mode == GAL_TP_1D) {
        strategy.shard_unit = GAL_SHARD_CHUNK;
        strategy.chunk_elements = GAL_CHUNK_ELEMENTS_MOST;
        emit_unit(e, strategy);
    }
}

/* A DP axis right outside a 2d grid is the depth of a 2.5d one; where that is in the space too, it is left out. */
static bool is_known_as_2d(const enumeration *e, const gal_strategy *axes)
{
    return e->space->tp_grid[GAL_TP_2D] && e->space->axis[GAL_AXIS_DP] && gal_strategy_degree(axes, GAL_AXIS_DP) == 1 &&
           axes->axis_count < GAL_AXIS_KIND_COUNT;
}

/* The grids that the TP axis can be. */
static void emit_grids(enumeration *e, const gal_strategy *axes, uint32_t zero_stage)
{
    const uint32_t degree = gal_strategy_degree(axes, GAL_AXIS_TP);
    gal_strategy strategy = *axes;
    strategy.zero_stage = zero_stage;
    for (uint32_t mode = GAL_TP_2D; mode <= GAL_TP_3D; mode++) {
        strategy.tp_mode = (gal_tp_mode)mode;
        if (mode != GAL_TP_2P5D && e->space->tp_grid[mode] && degree > 1 && gal_strategy_grid_side(&strategy) > 0) {
            emit(e, strategy);
        }
    }
    strategy.tp_mode = GAL_TP_2P5D;
    for (uint32_t depth = 2; e->space->tp_grid[GAL_TP_2P5D] && !is_known_as_2d(e, axes) && depth < degree; depth++) {
        strategy.tp_depth = depth;
        if (gal_strategy_grid_side(&strategy) > 0) {
            emit(e, strategy);
        }
    }
}

static void emit_variants(enumeration *e, const gal_strategy *axes)
{
    const bool sharded = gal_strategy_degree(axes, GAL_AXIS_SDP) > 1;
    const bool positions = gal_strategy_sequence_degree(axes) > 1;
    const bool split = gal_strategy_degree(axes, GAL_AXIS_TP) > 1;
    for (uint32_t zero = sharded ? 1 : 0; zero <= (sharded || positions ? 3u : 0u); zero++) {
        if (zero > 0 && !e->space->zero_stage[zero]) {
            continue;
        }
        for (uint32_t sp = 0; sp <= (split && !positions && e->space->sequence_parallel ? 1u : 0u); sp++) {
            gal_strategy strategy = *axes;
            strategy.zero_stage = zero;
            strategy.sequence_parallel = sp == 1;
            if (!split || e->space->axis[GAL_AXIS_TP]) {
                emit(e, strategy);
            }
        }
        if (!positions) {
            emit_grids(e, axes, zero);
        }
    }
}

static bool is_power_of_two(uint32_t n)
{
    return (n & (n - 1)) == 0;
}

/* Takeaway 3. */
static bool mixes_data(const gal_strategy *axes, uint32_t kind)
{
    return (kind == GAL_AXIS_DP && gal_strategy_degree(axes, GAL_AXIS_SDP) > 1) ||
           (kind == GAL_AXIS_SDP && gal_strategy_degree(axes, GAL_AXIS_DP) > 1);
}

static bool splits_positions_twice(const gal_strategy *axes, uint32_t kind)
{
    return gal_axis_splits_positions((gal_axis_kind)kind) && gal_strategy_sequence_degree(axes) > 1;
}

static bool has_squares(const gal_space *space)
{
    return space->tp_grid[GAL_TP_2D] || space->tp_grid[GAL_TP_2P5D];
}

static bool has_grids(const gal_space *space)
{
    return has_squares(space) || space->tp_grid[GAL_TP_3D];
}

static bool has_axis(const gal_space *space, uint32_t kind)
{
    return space->axis[kind] || (kind == GAL_AXIS_TP && has_grids(space));
}

/* The next axis outwards: any kind not used yet, any degree that divides what is left, less what the takeaways leave
 * out. */
static void grow(enumeration *e, gal_strategy *axes, uint32_t devices_left)
{
    if (devices_left == 1) {
        emit_variants(e, axes);
        return;
    }
    for (uint32_t kind = 0; kind < GAL_AXIS_KIND_COUNT; kind++) {
        if (!has_axis(e->space, kind) || gal_strategy_degree(axes, (gal_axis_kind)kind) > 1 ||
            (e->space->takeaway[3] && mixes_data(axes, kind)) || splits_positions_twice(axes, kind)) {
            continue;
        }
        for (uint32_t degree = 2; degree <= devices_left; degree++) {
            if (devices_left % degree == 0 && (!e->space->takeaway[2] || is_power_of_two(degree))) {
                axes->axis[axes->axis_count++] = (gal_axis){(gal_axis_kind)kind, degree};
                grow(e, axes, devices_left / degree);
                axes->axis_count--;
                axes->axis[axes->axis_count] = (gal_axis){0};
            }
        }
    }
}

uint32_t gal_space_strategies(const gal_space *space, uint32_t device_count, gal_strategy *out)
{
    enumeration e = {space, out, 0};
    gal_strategy axes;
    memset(&axes, 0, sizeof axes);
    grow(&e, &axes, device_count);
    return out != NULL && e.count > GAL_SPACE_MAX ? GAL_SPACE_MAX : e.count;
}

uint32_t gal_space_variants(const gal_space *space, const gal_strategy *axes, gal_strategy *out)
{
    enumeration e = {space, out, 0};
    emit_variants(&e, axes);
    return out != NULL && e.count > GAL_SPACE_MAX ? GAL_SPACE_MAX : e.count;
}

uint32_t gal_space_room(const gal_space *space, uint32_t device_count)
{
    return gal_space_strategies(space, device_count, NULL) + 1;
}

static bool takes_pp(const gal_space *space, const gal_cluster *cluster, uint32_t pp_degree)
{
    const uint32_t devices = cluster->device_count / pp_degree;
    const uint32_t island = cluster->level[0].span_devices;
    const bool along = devices % island == 0 || island % devices == 0;
    return cluster->device_count % pp_degree == 0 && (!space->takeaway[1] || along) &&
           (!space->takeaway[2] || is_power_of_two(pp_degree));
}

gal_u32_list gal_space_pp_degrees(const gal_space *space, const gal_cluster *cluster, const gal_u32_list *asked,
                                  uint32_t most)
{
    gal_u32_list list = {0};
    const uint32_t candidates = asked->count > 0 ? asked->count : most;
    for (uint32_t i = 0; i < candidates && list.count < GAL_U32_LIST_MAX; i++) {
        const uint32_t degree = asked->count > 0 ? asked->value[i] : i + 1;
        if (degree <= most && takes_pp(space, cluster, degree)) {
            list.value[list.count++] = degree;
        }
    }
    return list;
}

void gal_space_meet(const gal_space *a, const gal_space *b, gal_space *out)
{
    gal_space both = {.sequence_parallel = a->sequence_parallel && b->sequence_parallel,
                      .recompute = a->recompute && b->recompute,
                      .selective = a->selective && b->selective,
                      .keep_panels = a->keep_panels && b->keep_panels,
                      .stepped = a->stepped && b->stepped,
                      .overlap = a->overlap && b->overlap,
                      .bucket = a->bucket && b->bucket,
                      .chunk = a->chunk && b->chunk,
                      .offload = a->offload && b->offload,
                      .store_activations = a->store_activations && b->store_activations,
                      .store_weights = a->store_weights && b->store_weights,
                      .store_moments = a->store_moments && b->store_moments};
    for (uint32_t kind = 0; kind < GAL_AXIS_KIND_COUNT; kind++) {
        both.axis[kind] = a->axis[kind] && b->axis[kind];
    }
    for (uint32_t i = 1; i < 4; i++) {
        both.zero_stage[i] = a->zero_stage[i] && b->zero_stage[i];
        both.takeaway[i] = a->takeaway[i] || b->takeaway[i];
    }
    for (uint32_t mode = 0; mode < GAL_TP_MODE_COUNT; mode++) {
        both.tp_grid[mode] = a->tp_grid[mode] && b->tp_grid[mode];
    }
    *out = both;
}

/* ---- splits ---- */

typedef struct split_list {
    const gal_space *space;
    uint32_t count;
    gal_split_kind *split; /* NULL: counted alone */
} split_list;

/* Of a grid with sides of at least 2. */
static bool is_grid(uint32_t count, gal_tp_mode mode)
{
    const gal_strategy strategy = {.axis_count = 1, .axis = {{GAL_AXIS_TP, count}}, .tp_mode = mode};
    return count > 1 && gal_strategy_grid_side(&strategy) > 0;
}

/* In what a way of splitting differs from a plain one. */
typedef struct split_way {
    bool sequence_parallel;
    gal_tp_mode tp_mode;
    bool stepped, keep_panels, keep_weights;
} split_way;

/* Plain, in Megatron's chunks, of a grid, whose depth is left open like data parallelism, also step by step, and of a
 * cube; of grids with panels that are kept too. */
static const split_way split_ways[] = {{.tp_mode = GAL_TP_1D},
                                       {.tp_mode = GAL_TP_1D, .sequence_parallel = true},
                                       {.tp_mode = GAL_TP_2D},
                                       {.tp_mode = GAL_TP_2D, .keep_panels = true},
                                       {.tp_mode = GAL_TP_2D, .stepped = true},
                                       {.tp_mode = GAL_TP_3D},
                                       {.tp_mode = GAL_TP_3D, .keep_panels = true},
                                       {.tp_mode = GAL_TP_3D, .keep_weights = true},
                                       {.tp_mode = GAL_TP_3D, .keep_panels = true, .keep_weights = true}};

static bool has_way(const gal_space *space, const split_way *way, uint32_t tp_degree, uint32_t sequence_degree)
{
    const bool keeps = way->keep_panels || way->keep_weights;
    const bool alone = sequence_degree == 1 && (!keeps || space->keep_panels) && (!way->stepped || space->stepped);
    switch (way->tp_mode) {
    case GAL_TP_2D:
        return alone && has_squares(space) && is_grid(tp_degree, GAL_TP_2D);
    case GAL_TP_3D:
        return alone && space->tp_grid[GAL_TP_3D] && is_grid(tp_degree, GAL_TP_3D);
    default:
        return (tp_degree == 1 || space->axis[GAL_AXIS_TP]) &&
               (!way->sequence_parallel || (tp_degree > 1 && alone && space->sequence_parallel));
    }
}

static void add_splits(split_list *list, uint32_t tp_degree, gal_axis_kind kind, uint32_t degree)
{
    const gal_space *space = list->space;
    const bool allowed[GAL_RECOMPUTE_COUNT] = {[GAL_RECOMPUTE_NONE] = true,
                                               [GAL_RECOMPUTE_SELECTIVE] = space->selective,
                                               [GAL_RECOMPUTE_FULL] = space->recompute};
    for (uint32_t i = 0; i < sizeof split_ways / sizeof split_ways[0]; i++) {
        const split_way *way = &split_ways[i];
        for (uint32_t r = 0; has_way(space, way, tp_degree, degree) && r < GAL_RECOMPUTE_COUNT; r++) {
            const bool has = allowed[r] && !(way->keep_panels && r == GAL_RECOMPUTE_FULL);
            if (has && list->split != NULL) {
                list->split[list->count] =
                    (gal_split_kind){.tp_degree = tp_degree,
                                     .sequence_kind = kind,
                                     .sequence_degree = degree,
                                     .sequence_parallel = way->sequence_parallel,
                                     .recompute = (gal_recompute)r,
                                     .tp_mode = way->tp_mode,
                                     .stepped = way->stepped,
                                     .keep_panels = way->keep_panels,
                                     .keep_weights = way->keep_weights,
                                     .unit = space->chunk    ? GAL_SHARD_CHUNK
                                             : space->bucket ? GAL_SHARD_BUCKET
                                                             : GAL_SHARD_MATRIX,
                                     .offload = space->offload,
                                     .waits = way->tp_mode == GAL_TP_1D && degree == 1 && !space->overlap};
            }
            list->count += has;
        }
    }
}

uint32_t gal_space_splits(const gal_space *space, uint32_t stage_devices, gal_split_kind *out)
{
    static const gal_axis_kind kinds[] = {GAL_AXIS_ULYSSES, GAL_AXIS_RING, GAL_AXIS_ZIGZAG};
    split_list list = {.space = space, .split = out};
    for (uint32_t tp = 1; tp <= (space->axis[GAL_AXIS_TP] || has_grids(space) ? stage_devices : 1); tp++) {
        if (stage_devices % tp != 0) {
            continue;
        }
        add_splits(&list, tp, GAL_AXIS_ULYSSES, 1);
        for (uint32_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            for (uint32_t degree = 2; space->axis[kinds[k]] && degree <= stage_devices / tp; degree++) {
                if (stage_devices / tp % degree == 0) {
                    add_splits(&list, tp, kinds[k], degree);
                }
            }
        }
    }
    return list.count;
}
