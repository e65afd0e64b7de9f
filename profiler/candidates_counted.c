/* What programs are made of: their kernels and collectives, each once, with its share of a step. */
#include "profiler/candidates_internal.h"

#include <stdlib.h>
#include <string.h>

/* Rates for the guess that orders the measurements; they appear in no result. */
static const double guess_flops_per_second = 2e10, guess_bytes_per_second = 5e9, guess_kernel_seconds = 1e-6,
                    guess_message_bytes_per_second = 1e9, guess_message_seconds = 2e-5;

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

static bool grow_slots(gal_candidate_collector *c)
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
    case GAL_CLASS_STORED_SAVED:
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

static gal_candidate_operator describe(const gal_candidate_occurrence *from, uint32_t fragment,
                                       const gal_instruction *in)
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
static gal_candidate_operator *find_operator(gal_candidate_collector *c, const gal_candidate_occurrence *from,
                                             uint32_t fragment, const gal_instruction *in)
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
static bool count_levels(const gal_candidate_collector *c, const gal_candidate_place *place,
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

static bool find_place(gal_candidate_collector *c, const gal_candidate_place *place, uint32_t *index)
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

static gal_candidate_collective *find_collective(gal_candidate_collector *c, const gal_candidate_occurrence *from,
                                                 const gal_instruction *in)
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
static double add_seconds(gal_candidate_collector *c, const gal_candidate_occurrence *from, double scale)
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

gal_code gal_candidate_add_program(gal_candidate_collector *c, const gal_candidate_occurrence *from, gal_error *err)
{
    const double seconds = add_seconds(c, from, 0.0);
    if (seconds < 0.0) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: what to measure");
    }
    (void)add_seconds(c, from, seconds > 0.0 ? from->weight / seconds : 0.0);
    c->weight += from->weight;
    return GAL_OK;
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

void gal_candidate_finish(gal_candidate_collector *c)
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
