#include "profiler/candidates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/strategies.h"
#include "schemas/plan_check.h"

enum { REPRESENTATIVES_MAX = 64 };

/* Rates for the guess that orders the measurements; they appear in no result. */
static const double guess_flops_per_second = 2e10, guess_bytes_per_second = 5e9, guess_kernel_seconds = 1e-6,
                    guess_message_bytes_per_second = 1e9, guess_message_seconds = 2e-5;
/* Few plans change strategy at a given place. */
static const double conversion_weight = 0.1;
/* Those with something in the host's memory. */
static const double offload_weight = 0.1;

typedef struct collector {
    const gal_candidate_settings *settings;
    gal_candidates *out;
    uint32_t operator_capacity, collective_capacity, place_capacity;
    uint32_t slot_mask;
    uint32_t *slot; /* open addressing: index + 1 into out->operators */
    double weight;  /* of all programs added so far */
} collector;

/* One program to add: how often its fragments run in a step, and what it counts. */
typedef struct occurrence {
    const gal_program *program;
    const gal_model *model;
    uint32_t microbatch_count;
    const double *repeats; /* [type]: blocks of a stage for which one of the chain stands */
    double weight;
} occurrence;

/* ---- tables that grow ---- */

/* Room for one more; false without memory. */
static bool reserve(void **array, uint32_t count, uint32_t *capacity, size_t item_bytes)
{
    if (count < *capacity) {
        return true;
    }
    const uint32_t wanted = *capacity == 0 ? 64 : 2 * *capacity;
    void *grown = realloc(*array, wanted * item_bytes);
    if (grown == NULL) {
        return false;
    }
    *array = grown;
    *capacity = wanted;
    return true;
}

static uint32_t hash_of(const gal_shape *shape)
{
    uint64_t hash = (uint64_t)shape->op * 31 + (uint64_t)shape->dtype;
    for (uint32_t i = 0; i < GAL_SHAPE_DIMS; i++) {
        hash = (hash ^ shape->dims[i]) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 29;
    }
    return (uint32_t)(hash >> 32);
}

static bool same_shape(const gal_shape *a, const gal_shape *b)
{
    return a->op == b->op && a->dtype == b->dtype && memcmp(a->dims, b->dims, sizeof a->dims) == 0;
}

static bool grow_slots(collector *c)
{
    const uint32_t count = c->slot == NULL ? 256 : 2 * (c->slot_mask + 1);
    uint32_t *slot = calloc(count, sizeof *slot);
    if (slot == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < c->out->operator_count; i++) {
        uint32_t at = hash_of(&c->out->operators[i].shape) & (count - 1);
        while (slot[at] != 0) {
            at = (at + 1) & (count - 1);
        }
        slot[at] = i + 1;
    }
    free(c->slot);
    c->slot = slot;
    c->slot_mask = count - 1;
    return true;
}

/* ---- kernels ---- */

/* Keys that each query of an attention is taken to see; 0 of other operators. */
static double keys_of(const gal_shape *shape)
{
    switch (shape->op) {
    case GAL_OP_ATTENTION:
    case GAL_OP_ATTENTION_BACKWARD:
    case GAL_OP_RELATIVE_ATTENTION:
    case GAL_OP_RELATIVE_ATTENTION_BACKWARD:
        return shape->dims[1];
    case GAL_OP_CROSS_ATTENTION:
    case GAL_OP_CROSS_ATTENTION_BACKWARD:
        return shape->dims[4];
    case GAL_OP_WINDOW_ATTENTION:
    case GAL_OP_WINDOW_ATTENTION_BACKWARD:
        return (double)shape->dims[5] * shape->dims[5];
    default:
        return 0.0;
    }
}

/* 4 per pair and feature, backward 10. */
static double attention_flops(const gal_shape *shape)
{
    const bool backward = shape->op == GAL_OP_ATTENTION_BACKWARD || shape->op == GAL_OP_RELATIVE_ATTENTION_BACKWARD ||
                          shape->op == GAL_OP_CROSS_ATTENTION_BACKWARD || shape->op == GAL_OP_WINDOW_ATTENTION_BACKWARD;
    const uint32_t *d = shape->dims;
    return (backward ? 10.0 : 4.0) * d[0] * d[1] * keys_of(shape) * d[2] * d[3];
}

static double guess_operator(const gal_candidate_operator *at)
{
    const uint32_t *d = at->shape.dims;
    double flops = 0.0, bytes = 0.0;
    for (uint32_t i = 0; i < at->operand_count; i++) {
        bytes += (double)at->operand_bytes[i];
    }
    if (at->shape.op == GAL_OP_GEMM) {
        flops = 2.0 * d[0] * d[1] * d[2];
    } else if (keys_of(&at->shape) > 0.0) {
        flops = attention_flops(&at->shape);
    } else if (at->shape.op == GAL_OP_EMBED || at->shape.op == GAL_OP_EMBED_BACKWARD) {
        bytes = 3.0 * d[0] * d[1] * d[2] * (double)gal_dtype_bytes(at->shape.dtype); /* not the whole table */
    }
    return flops / guess_flops_per_second + bytes / guess_bytes_per_second + guess_kernel_seconds;
}

static bool is_cold(const gal_program *p, const gal_operand *operand, uint32_t fragment)
{
    switch (p->buffer[operand->buffer].class) {
    case GAL_CLASS_STATE:
    case GAL_CLASS_GRADIENT:
    case GAL_CLASS_GATHERED:
    case GAL_CLASS_BUCKET:
    case GAL_CLASS_HOST:
    case GAL_CLASS_HOST_SAVED:
    case GAL_CLASS_STORED:
        return p->buffer[operand->buffer].bytes > sizeof(double[2]); /* the norm and the loss stay near */
    case GAL_CLASS_SAVED:
        return operand->access != GAL_READ || fragment != GAL_FRAGMENT_FORWARD;
    default:
        return false;
    }
}

/* An attention is measured with all its keys: its last operand, lengths, is left out. */
static uint32_t operands_of(const gal_shape *shape, const gal_instruction *in)
{
    const bool masked = keys_of(shape) > 0.0 && gal_operand_dtype(shape, in->operand_count - 1U) == GAL_I32;
    return in->operand_count - (masked ? 1U : 0U);
}

static gal_candidate_operator describe(const occurrence *from, uint32_t fragment, const gal_instruction *in)
{
    const gal_program *p = from->program;
    gal_candidate_operator out = {.shape = p->shape[in->shape],
                                  .model = from->model,
                                  .block = in->block,
                                  .group_count =
                                      (in->group & GAL_GROUP_RELATION) != 0 ? 1 : gal_group_size(&p->atoms, in->group),
                                  .operand_count = operands_of(&p->shape[in->shape], in)};
    for (uint32_t i = 0; i < out.operand_count; i++) {
        const gal_operand *operand = &p->operand[in->first_operand + i];
        out.operand_bytes[i] = operand->bytes;
        out.access[i] = operand->access;
        out.cold[i] = is_cold(p, operand, fragment);
    }
    out.expected_seconds = guess_operator(&out);
    return out;
}

/* The entry of the instruction's shape, made if it is new; NULL without memory. */
static gal_candidate_operator *find_operator(collector *c, const occurrence *from, uint32_t fragment,
                                             const gal_instruction *in)
{
    const gal_shape *shape = &from->program->shape[in->shape];
    if (2 * c->out->operator_count >= c->slot_mask && !grow_slots(c)) {
        return NULL;
    }
    uint32_t at = hash_of(shape) & c->slot_mask;
    for (; c->slot[at] != 0; at = (at + 1) & c->slot_mask) {
        gal_candidate_operator *known = &c->out->operators[c->slot[at] - 1];
        if (same_shape(&known->shape, shape)) {
            return known;
        }
    }
    if (!reserve((void **)&c->out->operators, c->out->operator_count, &c->operator_capacity,
                 sizeof *c->out->operators)) {
        return NULL;
    }
    c->slot[at] = c->out->operator_count + 1;
    c->out->operators[c->out->operator_count] = describe(from, fragment, in);
    return &c->out->operators[c->out->operator_count++];
}

/* ---- collectives ---- */

uint32_t gal_candidate_members(const gal_candidate_place *place, uint32_t rank_count, uint32_t rank, uint32_t *ranks)
{
    const uint32_t devices = place->device_count, stage_count = rank_count / devices;
    const uint32_t stage = rank / devices, device = rank % devices;
    if (place->group == GAL_GROUP_WORLD) {
        for (uint32_t i = 0; i < rank_count; i++) {
            ranks[i] = i;
        }
        return rank_count;
    }
    if ((place->group & GAL_GROUP_RELATION) != 0) {
        const uint32_t distance = place->group == GAL_GROUP_TIED ? stage_count - 1 : 1;
        const uint32_t first = stage / (2 * distance) * 2 * distance + stage % distance;
        if (first + distance >= stage_count) {
            return 0;
        }
        ranks[0] = first * devices + device;
        ranks[1] = (first + distance) * devices + device;
        return 2;
    }
    gal_atoms atoms;
    gal_atoms_of(devices, &atoms);
    const uint32_t count = gal_group_members(&atoms, place->group, device, ranks);
    for (uint32_t i = 0; i < count; i++) {
        ranks[i] += stage * devices;
    }
    return count;
}

/* Of the widest group of the place. */
static bool count_levels(const collector *c, const gal_candidate_place *place,
                         uint32_t level_counts[GAL_LINK_LEVELS_MAX])
{
    uint32_t units[GAL_LINK_LEVELS_MAX] = {0};
    uint32_t members = 0;
    uint32_t *ranks = malloc(c->settings->rank_count * sizeof *ranks);
    for (uint32_t rank = 0; ranks != NULL && rank < c->settings->rank_count; rank++) {
        const uint32_t count = gal_candidate_members(place, c->settings->rank_count, rank, ranks);
        if (count > 0 && ranks[0] == rank) {
            gal_topology_count(c->settings->cluster, ranks, count, units);
            members = count;
        }
    }
    if (members > 0) {
        gal_topology_level_counts(c->settings->cluster, units, members, level_counts);
    }
    free(ranks);
    return members > 0;
}

static bool find_place(collector *c, const gal_candidate_place *place, uint32_t *index)
{
    for (*index = 0; *index < c->out->place_count; ++*index) {
        const gal_candidate_place *known = &c->out->place[*index];
        if (known->device_count == place->device_count && known->group == place->group) {
            return true;
        }
    }
    if (!reserve((void **)&c->out->place, c->out->place_count, &c->place_capacity, sizeof *c->out->place)) {
        return false;
    }
    c->out->place[c->out->place_count++] = *place;
    return true;
}

/* Between the stages that hold a shared tensor. */
static bool is_between_copies(gal_group group)
{
    return group == GAL_GROUP_TIED || group == GAL_GROUP_ENCODER_BIAS || group == GAL_GROUP_DECODER_BIAS;
}

static gal_candidate_collective *find_collective(collector *c, const occurrence *from, const gal_instruction *in)
{
    gal_shape shape = from->program->shape[in->shape];
    gal_candidate_place place = {from->program->device_count, in->group};
    uint32_t level_counts[GAL_LINK_LEVELS_MAX];
    place.group = place.group == GAL_GROUP_PREVIOUS ? GAL_GROUP_NEXT
                  : is_between_copies(place.group)  ? GAL_GROUP_TIED
                                                    : place.group;
    shape.op = shape.op == GAL_OP_RECEIVE ? GAL_OP_SEND : shape.op;
    if (!count_levels(c, &place, level_counts)) {
        return NULL;
    }
    for (uint32_t i = 0; i < c->out->collective_count; i++) {
        gal_candidate_collective *known = &c->out->collectives[i];
        if (known->shape.op == shape.op && known->bytes == in->bytes &&
            memcmp(known->level_counts, level_counts, sizeof level_counts) == 0) {
            return known;
        }
    }
    gal_candidate_collective found = {.shape = shape, .bytes = in->bytes, .stream = (gal_stream)in->stream};
    memcpy(found.level_counts, level_counts, sizeof level_counts);
    found.expected_seconds = guess_message_seconds + (double)in->bytes / guess_message_bytes_per_second;
    if (!find_place(c, &place, &found.place) || !reserve((void **)&c->out->collectives, c->out->collective_count,
                                                         &c->collective_capacity, sizeof *c->out->collectives)) {
        return NULL;
    }
    c->out->collectives[c->out->collective_count] = found;
    return &c->out->collectives[c->out->collective_count++];
}

/* ---- programs ---- */

/* Runs of the fragment in a step. */
static double runs_of(uint32_t fragment, uint32_t microbatch_count)
{
    switch (fragment) {
    case GAL_FRAGMENT_FORWARD:
        return microbatch_count;
    case GAL_FRAGMENT_BACKWARD:
        return microbatch_count - 1;
    case GAL_FRAGMENT_BACKWARD_SYNC:
    case GAL_FRAGMENT_UPDATE:
        return 1.0;
    default:
        return 0.0;
    }
}

/* Adds weight * seconds to what every instruction's entry is expected to take; scale 0: looks them up and returns the
 * program's seconds. Negative without memory. */
static double add_seconds(collector *c, const occurrence *from, double scale)
{
    double total = 0.0;
    const gal_program *p = from->program;
    for (uint32_t f = 0; f < GAL_FRAGMENT_COUNT; f++) {
        const double runs = runs_of(f, from->microbatch_count);
        for (uint32_t i = 0; i < p->fragment[f].count && runs > 0.0; i++) {
            const gal_instruction *in = &p->instruction[p->fragment[f].first + i];
            const double times = runs * from->repeats[gal_model_block_type(from->model, in->block)];
            double *share = NULL;
            double seconds = 0.0;
            if (!gal_op_is_collective[in->op]) {
                gal_candidate_operator *entry = find_operator(c, from, f, in);
                share = entry != NULL ? &entry->share : NULL;
                seconds = entry != NULL ? entry->expected_seconds : 0.0;
            } else if (in->bytes > 0 && ((in->group & GAL_GROUP_RELATION) != 0
                                             ? p->stage_count * p->device_count > 1 &&
                                                   (!is_between_copies(in->group) || p->stage_count > 1)
                                             : gal_group_size(&p->atoms, in->group) > 1)) {
                gal_candidate_collective *entry = find_collective(c, from, in);
                share = entry != NULL ? &entry->share : NULL;
                seconds = entry != NULL ? entry->expected_seconds : 0.0;
            } else {
                continue;
            }
            if (share == NULL) {
                return -1.0;
            }
            total += times * seconds;
            *share += scale * times * seconds;
        }
    }
    return total;
}

static gal_code add_program(collector *c, const occurrence *from, gal_error *err)
{
    const double seconds = add_seconds(c, from, 0.0);
    if (seconds < 0.0) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: what to measure");
    }
    (void)add_seconds(c, from, seconds > 0.0 ? from->weight / seconds : 0.0);
    c->weight += from->weight;
    c->out->program_count++;
    return GAL_OK;
}

/* Where a chain stands: devices, stage, microbatch. */
typedef struct position {
    const gal_model *model;
    uint32_t device_count, stage, stage_count;
    uint32_t microbatch_samples, microbatch_count;
} position;

static bool is_inner(const gal_block_shape *shape)
{
    return shape->in.positions > 0 && shape->out.positions > 0;
}

/* Embedding and head stand for themselves, the chain's other blocks for all others of the model: each for those of its
 * type, and for its share of the types that the chain has not. */
static void count_repeats(const position *at, const gal_block_spec *block, uint32_t block_count,
                          double repeats[GAL_TYPES_MAX])
{
    double of_type[GAL_TYPES_MAX] = {0.0}, inner = 0.0, met = 0.0;
    for (uint32_t i = 0; i < gal_model_block_count(at->model); i++) {
        gal_block_shape shape;
        gal_model_block(at->model, i, &shape);
        of_type[shape.type] += 1.0;
        inner += is_inner(&shape);
    }
    for (uint32_t i = 0; i < block_count; i++) {
        met += is_inner(&block[i].shape) ? of_type[block[i].shape.type] : 0.0;
    }
    for (uint32_t i = 0; i < block_count; i++) {
        const uint32_t type = block[i].shape.type;
        repeats[type] = is_inner(&block[i].shape) ? of_type[type] * inner / met / at->stage_count : 1.0;
    }
}

static gal_code add_chain(collector *c, const position *at, const gal_block_spec *block, uint32_t block_count,
                          const gal_strategy *upstream, double weight, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_program *program = NULL;
    gal_stage_spec spec = {.model = at->model,
                           .device_count = at->device_count,
                           .stage = at->stage,
                           .stage_count = at->stage_count,
                           .microbatch_samples = at->microbatch_samples,
                           .microbatch_count = at->microbatch_count,
                           .schedule = GAL_SCHEDULE_1F1B,
                           .prefetch_depth = 2};
    gal_layout_whole(at->microbatch_samples, &spec.entry_layout);
    if (upstream != NULL) {
        const gal_block_spec before = gal_block_spec_of(at->model, 1, upstream);
        gal_stage_spec above = spec;
        above.block_count = 1;
        above.block = &before;
        gal_layout_after(&above, &spec.entry_layout);
    }
    spec.block_count = block_count;
    spec.block = block;
    GAL_TRY(gal_lower_spec(&spec, &program, err));
    double repeats[GAL_TYPES_MAX];
    count_repeats(at, block, block_count, repeats);
    const occurrence from = {.program = program,
                             .model = at->model,
                             .microbatch_count = at->microbatch_count,
                             .repeats = repeats,
                             .weight = weight};
    GAL_TRY(add_program(c, &from, err));
cleanup:
    gal_program_free(program);
    return code;
}

/* The first block of each type. */
static uint32_t list_types(const gal_model *model, const gal_strategy *strategy, gal_block_spec *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < gal_model_block_count(model); i++) {
        if (gal_model_block_type(model, i) == count) {
            out[count++] = gal_block_spec_of(model, i, strategy);
        }
    }
    return count;
}

/* The stages of a plan with one strategy: the only one, or the first, one between if there is one, and the last. */
static gal_code add_uniform(collector *c, position at, const gal_strategy *strategy, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_block_spec chain[GAL_TYPES_MAX];
    const uint32_t count = list_types(at.model, strategy, chain);
    if (at.stage_count == 1) {
        return add_chain(c, &at, chain, count, NULL, 1.0, err);
    }
    GAL_TRY(add_chain(c, &at, chain, count - 1, NULL, 1.0 / at.stage_count, err));
    if (at.stage_count > 2) {
        at.stage = 1;
        GAL_TRY(add_chain(c, &at, chain + 1, count - 2, strategy, (at.stage_count - 2.0) / at.stage_count, err));
    }
    at.stage = at.stage_count - 1;
    GAL_TRY(add_chain(c, &at, chain + 1, count - 1, strategy, 1.0 / at.stage_count, err));
cleanup:
    return code;
}

/* One strategy for every layout of rows. */
static uint32_t represent(const position *at, const gal_strategy *legal, uint32_t count, gal_strategy *out)
{
    gal_atoms atoms;
    gal_group seen[REPRESENTATIVES_MAX][2];
    uint32_t found = 0;
    gal_atoms_of(at->device_count, &atoms);
    for (uint32_t i = 0; i < count && found < REPRESENTATIVES_MAX; i++) {
        const gal_mesh mesh = gal_mesh_of(&atoms, &legal[i]);
        const gal_group samples = gal_mesh_samples(&mesh), sequence = gal_mesh_positions(&mesh, &legal[i]);
        uint32_t known = 0;
        while (known < found && (seen[known][0] != samples || seen[known][1] != sequence)) {
            known++;
        }
        if (known == found) {
            seen[found][0] = samples;
            seen[found][1] = sequence;
            out[found++] = legal[i];
        }
    }
    return found;
}

static gal_code add_conversions(collector *c, const position *at, const gal_strategy *legal, uint32_t count,
                                gal_error *err)
{
    gal_code code = GAL_OK;
    gal_strategy kept[REPRESENTATIVES_MAX];
    const uint32_t layouts = represent(at, legal, count, kept), head = gal_model_block_count(at->model) - 1;
    position alone = *at;
    alone.stage = 0;
    alone.stage_count = 1;
    for (uint32_t a = 0; a < layouts; a++) {
        for (uint32_t b = 0; b < layouts; b++) {
            const gal_block_spec there_and_back[3] = {gal_block_spec_of(at->model, 0, &kept[a]),
                                                      gal_block_spec_of(at->model, 1, &kept[b]),
                                                      gal_block_spec_of(at->model, head, &kept[a])};
            if (a != b) {
                GAL_TRY(add_chain(c, &alone, there_and_back, 3, NULL, conversion_weight / layouts, err));
            }
        }
    }
cleanup:
    return code;
}

/* What a rank that is a processor does for its "host" are kernels like any other; for a GPU's: measure_host.c. */
static gal_code add_offloaded(collector *c, const position *at, const gal_strategy *legal, uint32_t count,
                              gal_error *err)
{
    gal_code code = GAL_OK;
    gal_strategy kept[REPRESENTATIVES_MAX];
    gal_block_spec chain[GAL_TYPES_MAX];
    const uint32_t layouts = represent(at, legal, count, kept);
    position alone = *at;
    alone.stage = 0;
    alone.stage_count = 1;
    for (uint32_t i = 0; c->settings->cluster->device.multiprocessor_count == 0 && i < layouts; i++) {
        kept[i].offload_optimizer_percent = 100;
        kept[i].offload_activations = true;
        const uint32_t blocks = list_types(at->model, &kept[i], chain);
        GAL_TRY(add_chain(c, &alone, chain, blocks, NULL, offload_weight / layouts, err));
    }
cleanup:
    return code;
}

static gal_code add_position(collector *c, const position *at, gal_strategy *strategy, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t count = gal_strategies_list(at->device_count, strategy);
    uint32_t legal = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (gal_strategy_fits_all(at->model, &strategy[i], at->device_count, at->microbatch_samples)) {
            strategy[legal++] = strategy[i];
        }
    }
    for (uint32_t i = 0; i < legal; i++) {
        GAL_TRY(add_uniform(c, *at, &strategy[i], err));
    }
    GAL_TRY(add_conversions(c, at, strategy, legal, err));
    GAL_TRY(add_offloaded(c, at, strategy, legal, err));
cleanup:
    return code;
}

static gal_code add_batch(collector *c, const gal_model *model, uint32_t batch, gal_strategy *strategy, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_candidate_settings *s = c->settings;
    for (uint32_t i = 0; i < s->microbatches_count; i++) {
        const uint32_t m = s->microbatches[i];
        for (uint32_t stages = 1; batch % m == 0 && stages <= s->rank_count; stages++) {
            if (s->rank_count % stages == 0 && stages <= gal_model_block_count(model)) {
                const position at = {.model = model,
                                     .device_count = s->rank_count / stages,
                                     .stage_count = stages,
                                     .microbatch_samples = batch / m,
                                     .microbatch_count = m};
                c->out->samples_max = batch / m > c->out->samples_max ? batch / m : c->out->samples_max;
                GAL_TRY(add_position(c, &at, strategy, err));
            }
        }
    }
cleanup:
    return code;
}

/* ---- the list ---- */

static int by_share(double a, double b)
{
    return (a < b) - (a > b);
}

static int compare_operators(const void *left, const void *right)
{
    const gal_candidate_operator *a = left, *b = right;
    const int share = by_share(a->share, b->share);
    return share != 0 ? share : memcmp(&a->shape, &b->shape, sizeof a->shape);
}

static int compare_collectives(const void *left, const void *right)
{
    const gal_candidate_collective *a = left, *b = right;
    const int share = by_share(a->share, b->share);
    if (share != 0 || a->shape.op != b->shape.op) {
        return share != 0 ? share : a->shape.op < b->shape.op ? -1 : 1;
    }
    const int levels = memcmp(a->level_counts, b->level_counts, sizeof a->level_counts);
    return levels != 0 ? levels : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static void finish(collector *c)
{
    gal_candidates *out = c->out;
    for (uint32_t i = 0; i < out->operator_count; i++) {
        out->operators[i].share /= c->weight;
    }
    for (uint32_t i = 0; i < out->collective_count; i++) {
        out->collectives[i].share /= c->weight;
    }
    qsort(out->operators, out->operator_count, sizeof *out->operators, compare_operators);
    if (out->collective_count > 0) {
        qsort(out->collectives, out->collective_count, sizeof *out->collectives, compare_collectives);
    }
}

gal_code gal_candidates_list(const gal_candidate_settings *settings, gal_candidates *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_candidates found = {0};
    collector c = {.settings = settings, .out = &found};
    gal_strategy *strategy = calloc(GAL_STRATEGIES_MAX, sizeof *strategy);
    if (strategy == NULL || !grow_slots(&c)) {
        code = gal_fail(err, GAL_ERR_SYSTEM, "out of memory: what to measure");
        goto cleanup;
    }
    for (uint32_t m = 0; m < settings->model_count; m++) {
        const gal_model *model = &settings->model[m];
        const uint32_t batch_count = settings->batch_count > 0 ? settings->batch_count : 1;
        for (uint32_t b = 0; b < batch_count; b++) {
            const uint32_t batch = settings->batch_count > 0 ? settings->batch[b] : model->global_batch_samples;
            GAL_TRY(add_batch(&c, model, batch, strategy, err));
        }
    }
    if (found.operator_count == 0) {
        code = gal_fail(err, GAL_ERR_USAGE,
                        "no strategy fits: the microbatches cannot be divided over %u ranks; choose --batch and "
                        "--microbatches",
                        settings->rank_count);
        goto cleanup;
    }
    finish(&c);
    *out = found;
    found = (gal_candidates){0};
cleanup:
    free(c.slot);
    free(strategy);
    gal_candidates_free(&found);
    return code;
}

void gal_candidates_free(gal_candidates *candidates)
{
    free(candidates->operators);
    free(candidates->collectives);
    free(candidates->place);
    *candidates = (gal_candidates){0};
}
