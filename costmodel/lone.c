#include "costmodel/lone.h"

#include <stdlib.h>
#include <string.h>

enum { NOT_SCALED = 255 };

/* ---- creation ---- */

gal_code gal_lone_lower(const gal_model *model, const gal_price_query *query, gal_lowered lowered,
                        gal_program *recycled, gal_program **out, gal_error *err)
{
    const gal_chain_spec chain = {
        .model = model, .query = query, .block_count = 1, .kind = {query->kind}, .strategy = {query->strategy}};
    gal_block_spec block;
    gal_stage_spec spec;
    gal_chain_stage(&chain, lowered, &block, &spec);
    spec.recycled = recycled;
    return gal_lower_spec(&spec, out, err);
}

/* Of a number of bytes the alignment that every multiple of it keeps: its largest power of two. */
static uint64_t grain_of(uint64_t bytes)
{
    return bytes & (~bytes + 1);
}

static bool grows(const gal_buffer *buffer)
{
    return buffer->class == GAL_CLASS_SAVED || buffer->class == GAL_CLASS_WORK || buffer->class == GAL_CLASS_X_IN;
}

static uint64_t read_grain(const gal_program *program)
{
    uint64_t grain = UINT64_MAX;
    for (uint32_t i = 0; i < program->buffer_count; i++) {
        if (grows(&program->buffer[i])) {
            const uint64_t own = grain_of(program->buffer[i].bytes);
            grain = own < grain ? own : grain;
        }
    }
    return grain;
}

gal_code gal_lone_create(gal_program *program, const gal_program *like, uint32_t list_class, gal_lone **out,
                         gal_error *err)
{
    const size_t count = (size_t)program->instruction_count + 1;
    gal_lone *lone = calloc(1, sizeof *lone);
    void *sizes =
        malloc(count * (sizeof *lone->cost + sizeof *lone->size) + program->shape_count * sizeof *lone->shape);
    if (lone == NULL || sizes == NULL) {
        free(sizes);
        free(lone);
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: price");
    }
    lone->like = like;
    lone->list_class = list_class;
    lone->atoms = program->atoms;
    lone->device_count = program->device_count;
    lone->lowered_samples = program->microbatch_samples;
    lone->grain_bytes = read_grain(program);
    gal_place_like(program, like);
    gal_block_memory_of(program, 0, &lone->memory);
    lone->cost = sizes;
    lone->size = (gal_lone_size *)(lone->cost + count);
    lone->shape = (gal_shape *)(lone->size + count);
    memcpy(lone->shape, program->shape, program->shape_count * sizeof *lone->shape);
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        const gal_instruction *in = &program->instruction[i];
        lone->size[i] = (gal_lone_size){in->shape, in->group, in->bytes};
    }
    *out = lone;
    return GAL_OK;
}

void gal_lone_free(gal_lone *lone)
{
    if (lone != NULL) {
        free(lone->cost);
        free(lone);
    }
}

/* ---- other samples ---- */

/* The dimension of a kernel's shape that counts rows or samples; weights, optimizer and ZeRO kernels have none. */
static uint8_t scaled_dim(const gal_program *program, const gal_instruction *in)
{
    if (in->op == GAL_OP_GEMM) { /* of a weight gradient the rows are summed over */
        const gal_operand *c = &program->operand[in->first_operand + 2];
        const uint8_t class = program->buffer[c->buffer].class;
        return class == GAL_CLASS_GRADIENT || class == GAL_CLASS_BUCKET ? 2 : 0;
    }
    switch ((gal_op)in->op) {
    case GAL_OP_ADD:
    case GAL_OP_FILL:
    case GAL_OP_NORM_START:
    case GAL_OP_SUM_SQUARES:
    case GAL_OP_ADAM:
        return NOT_SCALED;
    default:
        return 0;
    }
}

bool gal_lone_scales(const gal_lone *lone, uint32_t microbatch_samples)
{
    const uint64_t was = lone->lowered_samples;
    return microbatch_samples == was ||
           (lone->grain_bytes % GAL_ALIGNMENT_BYTES == 0 &&
            lone->grain_bytes * grain_of(microbatch_samples) % (grain_of(was) * GAL_ALIGNMENT_BYTES) == 0);
}

static uint64_t scaled(const gal_lone *lone, uint64_t count, uint32_t samples)
{
    const uint64_t was = lone->lowered_samples;
    return samples == was ? count : count / was * samples + count % was * samples / was;
}

void gal_lone_memory(const gal_lone *lone, uint32_t microbatch_samples, gal_block_memory *out)
{
    gal_block_bytes *bytes = &out->bytes;
    *out = lone->memory;
    bytes->saved = scaled(lone, bytes->saved, microbatch_samples);
    bytes->input = scaled(lone, bytes->input, microbatch_samples);
    bytes->boundary = scaled(lone, bytes->boundary, microbatch_samples);
    bytes->work = scaled(lone, bytes->work, microbatch_samples);
}

/* ---- costs ---- */

/* Rows travel on the tensor stream; weights and gradients elsewhere. */
static gal_cost cost_of(const gal_lone *lone, const gal_durations *durations, const gal_place_in_cluster *place,
                        uint32_t instruction)
{
    const gal_lone_size *size = &lone->size[instruction];
    const gal_shape *shape = &lone->shape[size->shape];
    gal_instruction in = lone->like->instruction[instruction];
    in.group = size->group;
    in.bytes = in.stream == GAL_STREAM_TENSOR ? scaled(lone, size->bytes, lone->microbatch_samples) : size->bytes;
    if (lone->microbatch_samples != lone->lowered_samples && !gal_op_is_collective[in.op]) {
        const uint8_t dim = scaled_dim(lone->like, &in);
        if (dim != NOT_SCALED) {
            gal_shape other = *shape;
            other.dims[dim] = (uint32_t)scaled(lone, shape->dims[dim], lone->microbatch_samples);
            return gal_one_cost(durations, place, &in, &other);
        }
    }
    return gal_one_cost(durations, place, &in, shape);
}

static void renew_fragment(gal_lone *lone, const gal_durations *durations, gal_fragment_kind kind)
{
    const gal_place_in_cluster place = {&lone->atoms, lone->device_count, lone->stage, lone->stage_count};
    const gal_fragment *fragment = &lone->like->fragment[kind];
    for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
        if ((lone->size[i].group & GAL_GROUP_RELATION) != 0) {
            continue; /* transfers and the norm, which belong to no block */
        }
        lone->cost[i] = cost_of(lone, durations, &place, i);
        if (lone->cost[i].activity == GAL_ACTIVITY_COMPUTE) {
            lone->cost[i].seconds = gal_kernel_in_company(durations, kind, lone->cost[i].seconds);
        }
    }
}

void gal_lone_renew(gal_lone *lone, const gal_durations *durations, uint32_t microbatch_samples, uint32_t stage,
                    uint32_t stage_count)
{
    if (lone->microbatch_samples == microbatch_samples && lone->stage == stage && lone->stage_count == stage_count) {
        return;
    }
    lone->microbatch_samples = microbatch_samples;
    lone->stage = stage;
    lone->stage_count = stage_count;
    renew_fragment(lone, durations, GAL_FRAGMENT_FORWARD);
    renew_fragment(lone, durations, GAL_FRAGMENT_BACKWARD_SYNC);
    renew_fragment(lone, durations, GAL_FRAGMENT_UPDATE);
    lone->update_seconds = gal_update_seconds(lone->like, lone->cost, 0);
}
