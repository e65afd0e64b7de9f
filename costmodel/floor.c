#include "costmodel/floor.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "costmodel/price_times.h"
#include "costmodel/structure.h"
#include "schemas/limits.h"

typedef struct known_floor {
    uint32_t samples;
    gal_block_floor floor;
} known_floor;

/* A type of block under a split. */
typedef struct split_block {
    uint32_t type;
    gal_split_kind split;
    uint64_t key; /* gal_split_key */
    gal_lone lone;
    gal_axis_levels *laid; /* [laid_count] how tp may lie, where blocks wait for it; owned */
    uint32_t laid_count;
    known_floor *known;
    uint32_t known_count, known_capacity;
} split_block;

struct gal_floors {
    pthread_mutex_t mutex; /* over all below */
    const gal_model *model;
    const gal_durations *durations;
    gal_structures *structures; /* that the blocks refer to */
    split_block *block;
    uint32_t block_count, block_capacity;
    uint32_t asked; /* the block that was asked for last: the next one often comes next */
};

static gal_code out_of_memory(gal_error *err)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: floor");
}

gal_code gal_floors_create(const gal_model *model, const gal_durations *durations, gal_floors **out, gal_error *err)
{
    gal_floors *floors = calloc(1, sizeof *floors);
    if (floors == NULL) {
        return out_of_memory(err);
    }
    floors->model = model;
    floors->durations = durations;
    const gal_code code = gal_structures_create(model, &floors->structures, err);
    if (code != GAL_OK) {
        free(floors);
        return code;
    }
    pthread_mutex_init(&floors->mutex, NULL);
    *out = floors;
    return GAL_OK;
}

static void split_block_free(split_block *block)
{
    free(block->known);
    free(block->laid);
    gal_lone_free(&block->lone);
    *block = (split_block){0};
}

void gal_floors_free(gal_floors *floors)
{
    if (floors != NULL) {
        for (uint32_t i = 0; i < floors->block_count; i++) {
            split_block_free(&floors->block[i]);
        }
        free(floors->block);
        gal_structures_free(floors->structures);
        pthread_mutex_destroy(&floors->mutex);
        free(floors);
    }
}

/* ---- a split, lowered once ---- */

static uint32_t largest_prime(uint32_t value)
{
    uint32_t largest = 1;
    for (uint32_t factor = 2; value > 1; factor++) {
        for (; value % factor == 0; value /= factor) {
            largest = factor;
        }
    }
    return largest;
}

static uint32_t smallest_prime(uint32_t value)
{
    uint32_t factor = 2;
    while (value % factor != 0) {
        factor++;
    }
    return factor;
}

/* Prime factors ascend from the innermost axis. */
gal_strategy gal_split_strategy(const gal_split_kind *split)
{
    const gal_shard_unit unit = split->tp_mode == GAL_TP_1D ? split->unit : GAL_SHARD_MATRIX;
    gal_strategy out = {.recompute = split->recompute,
                        .sequence_parallel = split->sequence_parallel,
                        .tp_mode = split->tp_mode,
                        .stepped = split->stepped,
                        .keep_panels = split->keep_panels,
                        .keep_weights = split->keep_weights,
                        .zero_stage = split->keep_weights ? 2 : 0, /* the fewest bytes */
                        .shard_unit = unit,
                        .chunk_elements = unit == GAL_SHARD_CHUNK ? GAL_CHUNK_ELEMENTS_MOST : 0,
                        .offload_optimizer_percent = split->offload ? 100 : 0,
                        .offload_parameters_percent = split->offload && !split->keep_weights ? 100 : 0,
                        .offload_activations_percent = split->offload ? 100 : 0};
    const gal_axis tp = {GAL_AXIS_TP, split->tp_degree}, sequence = {split->sequence_kind, split->sequence_degree};
    const bool both = tp.degree > 1 && sequence.degree > 1;
    const bool turned = both && largest_prime(tp.degree) > smallest_prime(sequence.degree);
    const gal_axis order[] = {turned ? sequence : tp, turned ? tp : sequence};
    for (uint32_t i = 0; i < 2; i++) {
        if (order[i].degree > 1) {
            out.axis[out.axis_count++] = order[i];
        }
    }
    return out;
}

gal_split_kind gal_split_of(const gal_strategy *strategy)
{
    const uint32_t side = gal_strategy_grid_side(strategy);
    const bool cube = strategy->tp_mode == GAL_TP_3D, grid = strategy->tp_mode != GAL_TP_1D;
    return (gal_split_kind){.tp_degree =
                                grid ? side * side * (cube ? side : 1) : gal_strategy_degree(strategy, GAL_AXIS_TP),
                            .sequence_kind = gal_strategy_sequence_axis(strategy),
                            .sequence_degree = gal_strategy_sequence_degree(strategy),
                            .sequence_parallel = strategy->sequence_parallel,
                            .recompute = strategy->recompute,
                            .tp_mode = strategy->tp_mode == GAL_TP_2P5D ? GAL_TP_2D : strategy->tp_mode,
                            .stepped = strategy->stepped,
                            .keep_panels = strategy->keep_panels,
                            .keep_weights = strategy->keep_weights,
                            .unit = strategy->shard_unit};
}

uint64_t gal_split_key(const gal_split_kind *split)
{
    enum { DEGREE_BITS = 21, KIND_BITS = 3, RECOMPUTE_BITS = 2, MODE_BITS = 2 };
    _Static_assert((int)GAL_DEVICES_MAX < 1 << DEGREE_BITS && (int)GAL_AXIS_KIND_COUNT <= 1 << KIND_BITS &&
                       (int)GAL_RECOMPUTE_COUNT <= 1 << RECOMPUTE_BITS && (int)GAL_TP_MODE_COUNT <= 1 << MODE_BITS,
                   "bits");
    uint64_t key = split->tp_degree;
    key = key << DEGREE_BITS | split->sequence_degree;
    key = key << KIND_BITS | (uint64_t)split->sequence_kind;
    key = key << RECOMPUTE_BITS | (uint64_t)split->recompute;
    key = key << MODE_BITS | (uint64_t)split->tp_mode;
    key = key << 1 | split->sequence_parallel;
    key = key << 1 | split->stepped;
    key = key << 1 | split->keep_panels;
    return key << 1 | split->keep_weights;
}

static bool is_split(const split_block *block, uint32_t type, const gal_split_kind *split, uint64_t key)
{
    return block->key == key && block->type == type && block->split.unit == split->unit &&
           block->split.offload == split->offload && block->split.waits == split->waits;
}

/* ---- where tensor parallelism lies ---- */

static bool waits(const gal_floors *floors, const split_block *block)
{
    gal_block_shape shape;
    gal_model_type(floors->model, block->type, &shape);
    return block->split.waits && block->split.tp_degree > 1 &&
           (shape.kind == GAL_BLOCK_ATTENTION || shape.kind == GAL_BLOCK_FFN);
}

/* Of all devices: where axes are regular, groups of no stage lie in another way. */
static void lay(const gal_cluster *cluster, uint32_t inner, uint32_t tp_degree, gal_axis_levels *out)
{
    const uint32_t devices = cluster->device_count, outer = devices / tp_degree / inner;
    gal_strategy strategy = {.axis_count = 0};
    const gal_axis axis[] = {{GAL_AXIS_DP, inner}, {GAL_AXIS_TP, tp_degree}, {GAL_AXIS_SDP, outer}};
    for (size_t i = 0; i < sizeof axis / sizeof axis[0]; i++) {
        if (axis[i].degree > 1) {
            strategy.axis[strategy.axis_count++] = axis[i];
        }
    }
    gal_axis_levels_of(cluster, &strategy, devices, 0, 1, out);
}

/* The members of its groups at each level. */
static const uint32_t *counts_of_tp(const gal_axis_levels *levels)
{
    return levels->counts[GAL_AXIS_SET_TP];
}

/* All ways that differ; none where axes are not regular. */
static gal_code list_laid(const gal_floors *floors, split_block *block, gal_error *err)
{
    const gal_cluster *cluster = gal_durations_cluster(floors->durations);
    gal_atoms atoms;
    gal_atoms_of(cluster->device_count, &atoms);
    if (!waits(floors, block) || !gal_axes_are_regular(cluster, &atoms, cluster->device_count)) {
        return GAL_OK;
    }
    block->laid = malloc(((size_t)atoms.count + 1) * sizeof *block->laid);
    if (block->laid == NULL) {
        return out_of_memory(err);
    }
    for (uint32_t inner = 1; cluster->device_count % (inner * block->split.tp_degree) == 0; inner *= atoms.radix[0]) {
        gal_axis_levels *own = &block->laid[block->laid_count];
        lay(cluster, inner, block->split.tp_degree, own);
        bool is_known = false;
        for (uint32_t i = 0; i < block->laid_count && !is_known; i++) {
            is_known = memcmp(counts_of_tp(own), counts_of_tp(&block->laid[i]), sizeof own->counts[0]) == 0;
        }
        block->laid_count += !is_known;
    }
    return GAL_OK;
}

/* Where it is quickest. */
static double waited_seconds(const gal_floors *floors, const split_block *block, uint32_t samples)
{
    double least = block->laid_count > 0 ? HUGE_VAL : 0.0;
    for (uint32_t i = 0; i < block->laid_count; i++) {
        least = fmin(least, gal_lone_tensor_forward_seconds(&block->lone, floors->durations, &block->laid[i], samples));
    }
    return gal_times_below * least;
}

static gal_code lower(const gal_floors *floors, uint32_t samples, split_block *block, gal_error *err)
{
    const gal_split_kind *split = &block->split;
    const gal_strategy strategy = gal_split_strategy(split);
    const gal_price_query query = {.type = block->type,
                                   .strategy = &strategy,
                                   .device_count = split->tp_degree * split->sequence_degree,
                                   .stage = 1,
                                   .stage_count = 3,
                                   .microbatch_samples = samples,
                                   .prefetch_depth = split->offload ? 2 : 1};
    return gal_structures_lone(floors->structures, &query, &block->lone, err);
}

static gal_code find_split(gal_floors *floors, uint32_t type, const gal_split_kind *split, uint32_t samples,
                           split_block **out, gal_error *err)
{
    const uint64_t key = gal_split_key(split);
    for (uint32_t i = 0; i < floors->block_count; i++) {
        const uint32_t at = floors->asked + 1 + i;
        const uint32_t wrapped = at < floors->block_count ? at : at - floors->block_count;
        if (is_split(&floors->block[wrapped], type, split, key)) {
            floors->asked = wrapped;
            *out = &floors->block[wrapped];
            return GAL_OK;
        }
    }
    if (floors->block_count == floors->block_capacity) {
        const uint32_t capacity = 32 + 2 * floors->block_capacity;
        split_block *grown = realloc(floors->block, capacity * sizeof *grown);
        if (grown == NULL) {
            return out_of_memory(err);
        }
        floors->block = grown;
        floors->block_capacity = capacity;
    }
    split_block *block = &floors->block[floors->block_count];
    *block = (split_block){.type = type, .split = *split, .key = key};
    gal_code code = lower(floors, samples, block, err);
    code = code == GAL_OK ? list_laid(floors, block, err) : code;
    if (code != GAL_OK) {
        split_block_free(block);
        return code;
    }
    floors->asked = floors->block_count++;
    *out = block;
    return GAL_OK;
}

/* ---- its floor for some samples ---- */

static gal_code find_floor(const gal_floors *floors, const split_block *block, uint32_t samples, gal_block_floor *out,
                           gal_error *err)
{
    gal_block_memory memory;
    const gal_code code = gal_lone_memory(&block->lone, samples, &memory, err);
    if (code != GAL_OK) {
        return code;
    }
    uint64_t state = memory.bytes.state + memory.bytes.gradient;
    for (uint32_t shared = 0; shared < GAL_SHARED_COUNT; shared++) {
        state -= memory.shared_bytes[shared];
    }
    *out = (gal_block_floor){.seconds = gal_lone_compute_seconds(&block->lone, floors->durations, samples) +
                                        waited_seconds(floors, block, samples),
                             .state_bytes = state,
                             .saved_bytes = memory.bytes.saved,
                             .work_bytes = block->split.stepped ? 0 : memory.bytes.work};
    return GAL_OK;
}

static gal_code keep(split_block *block, uint32_t samples, const gal_block_floor *floor, gal_error *err)
{
    if (block->known_count == block->known_capacity) {
        const uint32_t capacity = 16 + 2 * block->known_capacity;
        known_floor *grown = realloc(block->known, capacity * sizeof *grown);
        if (grown == NULL) {
            return out_of_memory(err);
        }
        block->known = grown;
        block->known_capacity = capacity;
    }
    block->known[block->known_count++] = (known_floor){samples, *floor};
    return GAL_OK;
}

static gal_code floor_of(gal_floors *floors, uint32_t type, gal_split_kind split, uint32_t samples,
                         gal_block_floor *out, gal_error *err)
{
    split_block *block = NULL;
    gal_code code = find_split(floors, type, &split, samples, &block, err);
    if (code != GAL_OK) {
        return code;
    }
    for (uint32_t i = 0; i < block->known_count; i++) {
        if (block->known[i].samples == samples) {
            *out = block->known[i].floor;
            return GAL_OK;
        }
    }
    code = find_floor(floors, block, samples, out, err);
    return code == GAL_OK ? keep(block, samples, out, err) : code;
}

gal_code gal_floors_of(gal_floors *floors, uint32_t type, gal_split_kind split, uint32_t samples, gal_block_floor *out,
                       gal_error *err)
{
    pthread_mutex_lock(&floors->mutex);
    const gal_code code = floor_of(floors, type, split, samples, out, err);
    pthread_mutex_unlock(&floors->mutex);
    return code;
}
