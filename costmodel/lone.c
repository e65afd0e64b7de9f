#include "costmodel/lone.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "costmodel/host_work.h"

/* ---- creation ---- */

gal_code gal_lone_lower(const gal_model *model, const gal_price_query *query, gal_program *recycled, gal_program **out,
                        gal_error *err)
{
    const gal_chain_spec chain = {
        .model = model, .query = query, .block_count = 1, .type = {query->type}, .strategy = {query->strategy}};
    gal_block_spec block;
    gal_stage_spec spec;
    gal_chain_stage(&chain, GAL_LOWERED_SIZES, &block, &spec);
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
    return buffer->class == GAL_CLASS_SAVED || buffer->class == GAL_CLASS_WORK || buffer->class == GAL_CLASS_X_IN ||
           buffer->class == GAL_CLASS_HOST_SAVED || buffer->class == GAL_CLASS_STORAGE_SAVED;
}

static uint64_t read_grain(const gal_program *program)
{
    uint64_t grain = UINT64_MAX;
    for (uint32_t i = 0; i < program->buffer_count; i++) {
        if (grows(&program->buffer[i]) && program->buffer[i].bytes > 0) {
            const uint64_t own = grain_of(program->buffer[i].bytes);
            grain = own < grain ? own : grain;
        }
    }
    return grain;
}

/* Bytes of a unit's buffer beyond its share of what the unit uses, to the alignment below: what rounds it up to shards
 * and to alignment. Padding is of less than an element a shard: the product is far below 2^64. */
static uint64_t rounding_bytes(const gal_unit *unit, const gal_buffer *buffer)
{
    const uint64_t padding = unit->elements - unit->used_elements;
    const uint64_t used = buffer->bytes - (buffer->bytes * padding + unit->elements - 1) / unit->elements;
    return gal_align(buffer->bytes) - used / GAL_ALIGNMENT_BYTES * GAL_ALIGNMENT_BYTES;
}

/* The state and gradient of a block that is a part of a chunk: without what rounds the block's own units up, which a
 * chunk of several blocks has once. Its rings are as for a chunk of this block alone. So chunks that are no smaller
 * than their blocks never make a stage take less than these numbers. */
static void leave_out_rounding(const gal_program *program, gal_block_bytes *bytes)
{
    for (uint32_t u = 0; u < program->unit_count; u++) {
        const gal_unit *unit = &program->unit[u];
        uint32_t buffer[GAL_UNIT_KEPT_MAX + 1];
        uint32_t count = unit->copies == GAL_GROUP_NONE ? gal_unit_kept(unit, buffer) : 0;
        if (count > 0 && unit->gradient != unit->weight) {
            buffer[count++] = unit->gradient;
        }
        for (uint32_t i = 0; i < count; i++) {
            const gal_buffer *at = &program->buffer[buffer[i]];
            bytes->state -= at->class == GAL_CLASS_STATE ? rounding_bytes(unit, at) : 0;
            bytes->gradient -= at->class == GAL_CLASS_GRADIENT ? rounding_bytes(unit, at) : 0;
        }
    }
}

static bool is_of_weights(const gal_program *program, const gal_instruction *in, uint32_t operand)
{
    const uint8_t class = program->buffer[program->operand[in->first_operand + operand].buffer].class;
    return class == GAL_CLASS_GRADIENT || class == GAL_CLASS_BUCKET;
}

static bool is_away(const gal_buffer *buffer)
{
    return buffer->class == GAL_CLASS_HOST_SAVED || buffer->class == GAL_CLASS_STORED_SAVED;
}

/* Whether a copy, or a transfer of the file, is of what forward keeps. */
static bool is_of_kept(const gal_program *program, const gal_instruction *in)
{
    const gal_operand *operand = &program->operand[in->first_operand];
    return is_away(&program->buffer[operand[0].buffer]) || is_away(&program->buffer[operand[1].buffer]);
}

/* The dimension of a shape that counts rows or samples; weights, optimizer and ZeRO kernels have none. */
static uint8_t scaled_dim(const gal_program *program, const gal_instruction *in)
{
    if (gal_op_is_collective[in->op]) { /* weights and gradients travel on streams of their own */
        return in->stream == GAL_STREAM_GATHER || in->stream == GAL_STREAM_REDUCE ? GAL_LONE_NOT_SCALED : 0;
    }
    switch ((gal_op)in->op) {
    case GAL_OP_GEMM: /* of a weight gradient the rows are summed over */
        return is_of_weights(program, in, 2) ? 2 : 0;
    case GAL_OP_PERMUTE: /* within a block: rows in their order (emit_turn.c) */
        return 5;
    case GAL_OP_ADD:
        return is_of_weights(program, in, 1) ? GAL_LONE_NOT_SCALED : 0;
    case GAL_OP_FILL:
    case GAL_OP_NORM_START:
    case GAL_OP_SUM_SQUARES:
    case GAL_OP_ADAM:
    case GAL_OP_ADAM_IN_PLACE:
    case GAL_OP_HOST_ADAM:
    case GAL_OP_HOST_ADAM_PART:
        return GAL_LONE_NOT_SCALED;
    case GAL_OP_STORAGE_READ:
    case GAL_OP_STORAGE_WRITE:
    case GAL_OP_COPY_OUT:
    case GAL_OP_COPY_IN:
        return is_of_kept(program, in) ? 0 : GAL_LONE_NOT_SCALED;
    default:
        return 0;
    }
}

static uint32_t read_largest_dim(const gal_program *program)
{
    uint32_t largest = 0;
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        const uint8_t dim = scaled_dim(program, &program->instruction[i]);
        const uint32_t own = dim == GAL_LONE_NOT_SCALED ? 0 : program->shape[program->instruction[i].shape].dims[dim];
        largest = own > largest ? own : largest;
    }
    return largest;
}

/* How many dimensions of an instruction are kept: of collectives bytes say all. */
static uint32_t kept_dims(const gal_instruction *in)
{
    return gal_op_is_collective[in->op] ? 0 : gal_op_dim_count[in->op];
}

static size_t count_dims(const gal_program *program)
{
    size_t count = 0;
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        count += kept_dims(&program->instruction[i]);
    }
    return count;
}

/* Sizes of all instructions and the sets of axes they are of. */
static void read_sizes(const gal_program *program, const gal_strategy *strategy, gal_lone *out)
{
    const gal_mesh mesh = gal_mesh_of(&program->atoms, strategy);
    uint32_t dims = 0;
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        const gal_instruction *in = &program->instruction[i];
        const bool grouped = gal_op_is_collective[in->op] && (in->group & GAL_GROUP_RELATION) == 0;
        const uint32_t axes = grouped ? gal_axis_set_of(&mesh, in->group) : 0;
        out->size[i] = (gal_lone_size){
            .bytes = in->bytes, .axes = (uint8_t)axes, .scaled_dim = scaled_dim(program, in), .dims = dims};
        out->axis_sets |= (uint32_t)grouped << axes;
        memcpy(&out->dims[dims], program->shape[in->shape].dims, kept_dims(in) * sizeof *out->dims);
        dims += kept_dims(in);
    }
}

static const gal_fragment_kind own_fragments[] = {GAL_FRAGMENT_FORWARD, GAL_FRAGMENT_BACKWARD_SYNC,
                                                  GAL_FRAGMENT_UPDATE};
enum { OWN_FRAGMENTS = sizeof own_fragments / sizeof own_fragments[0] };

/* But for transfers and the norm, which belong to no block. */
static void list_collectives(gal_lone *out)
{
    for (uint32_t f = 0; f < OWN_FRAGMENTS; f++) {
        const gal_fragment *fragment = &out->like->fragment[own_fragments[f]];
        for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
            const gal_instruction *in = &out->like->instruction[i];
            if (gal_op_is_collective[in->op] && (in->group & GAL_GROUP_RELATION) == 0) {
                out->collective[out->collective_count++] = i;
            }
        }
    }
}

gal_code gal_lone_create(gal_program *program, const gal_strategy *strategy, const gal_program *like,
                         uint32_t list_class, gal_known_kernels *known, gal_lone *out, gal_error *err)
{
    const size_t count = program->instruction_count;
    gal_lone_size *size = malloc(sizeof *out->kernels + GAL_LONE_LAID_MAX * sizeof *out->kernels->laid +
                                 count * (sizeof *size + sizeof *out->kernels->cost + sizeof *out->collective) +
                                 count_dims(program) * sizeof *out->dims + program->buffer_count * sizeof *out->buffer);
    if (size == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: price");
    }
    *out = (gal_lone){.like = like,
                      .list_class = list_class,
                      .lowered_samples = program->microbatch_samples,
                      .chunk_elements = strategy->chunk_elements,
                      .stepped = strategy->stepped,
                      .grain_bytes = read_grain(program),
                      .largest_dim = read_largest_dim(program),
                      .size = size,
                      .kernels = (gal_lone_kernels *)(size + count),
                      .known = known};
    gal_lone_laid **const laid = (gal_lone_laid **)(out->kernels + 1);
    *out->kernels = (gal_lone_kernels){.laid = laid, .cost = (gal_cost *)(laid + GAL_LONE_LAID_MAX)};
    memset(laid, 0, GAL_LONE_LAID_MAX * sizeof *laid);
    memset(out->kernels->cost, 0, count * sizeof *out->kernels->cost);
    out->buffer = (gal_lone_buffer *)(out->kernels->cost + count);
    out->collective = (uint32_t *)(out->buffer + program->buffer_count);
    out->dims = out->collective + count;
    for (uint32_t shared = 0; shared < GAL_SHARED_COUNT; shared++) {
        out->shared_units[shared] = gal_units_of_shared(program, (gal_shared)shared);
    }
    for (uint32_t i = 0; i < program->buffer_count; i++) {
        out->buffer[i] = (gal_lone_buffer){program->buffer[i].bytes, program->buffer[i].name};
    }
    gal_place(program, like);
    gal_block_memory_of(program, 0, &out->memory);
    if (strategy->shard_unit == GAL_SHARD_CHUNK) {
        leave_out_rounding(program, &out->memory.bytes);
    }
    read_sizes(program, strategy, out);
    list_collectives(out);
    return GAL_OK;
}

void gal_lone_free(gal_lone *lone)
{
    for (uint32_t i = 0; lone->size != NULL && i < lone->kernels->laid_count; i++) {
        free(lone->kernels->laid[i]);
    }
    free(lone->size);
    *lone = (gal_lone){0};
}

/* ---- other samples ---- */

static uint64_t scaled(const gal_lone *lone, uint64_t count, uint32_t samples)
{
    const uint64_t was = lone->lowered_samples;
    return samples == was ? count : count / was * samples + count % was * samples / was;
}

/* Every buffer that grows stays a multiple of GAL_ALIGNMENT_BYTES, of GAL_STORAGE_BLOCK_BYTES where some are in a file.
 */
static bool placement_scales(const gal_lone *lone, uint32_t samples)
{
    const uint64_t was = lone->lowered_samples;
    const uint64_t aligned = lone->memory.host.kept_stored > 0 ? GAL_STORAGE_BLOCK_BYTES : GAL_ALIGNMENT_BYTES;
    return samples == was ||
           (lone->grain_bytes % aligned == 0 && lone->grain_bytes * grain_of(samples) % (grain_of(was) * aligned) == 0);
}

bool gal_lone_stands_for(const gal_lone *lone, uint32_t microbatch_samples)
{
    return microbatch_samples == lone->lowered_samples ||
           (scaled(lone, lone->largest_dim, microbatch_samples) <= UINT32_MAX &&
            ((!lone->stepped && lone->memory.host.kept_stored == 0) || placement_scales(lone, microbatch_samples)));
}

/* Of a placement that scales. */
static void scale_memory(const gal_lone *lone, uint32_t samples, gal_block_memory *out)
{
    gal_block_bytes *bytes = &out->bytes;
    *out = lone->memory;
    bytes->saved = scaled(lone, bytes->saved, samples);
    bytes->input = scaled(lone, bytes->input, samples);
    bytes->work = scaled(lone, bytes->work, samples);
    bytes->staged_input = scaled(lone, bytes->staged_input, samples);
    bytes->staged_saved = scaled(lone, bytes->staged_saved, samples);
    out->host.kept = scaled(lone, out->host.kept, samples);
    out->host.kept_stored = scaled(lone, out->host.kept_stored, samples);
    out->host.parts.kept = scaled(lone, out->host.parts.kept, samples);
}

/* Buffers as they are for so many samples, where they grow; placed in the stead of the program's own. */
static void place_grown(const gal_lone *lone, uint32_t samples, gal_program *program, gal_buffer *buffer)
{
    const gal_program *like = lone->like;
    memcpy(buffer, like->buffer, like->buffer_count * sizeof *buffer);
    for (uint32_t i = 0; i < like->buffer_count; i++) {
        if (grows(&buffer[i])) {
            buffer[i].bytes = scaled(lone, lone->buffer[i].bytes, samples);
            buffer[i].name = lone->buffer[i].name;
        }
    }
    *program = (gal_program){.chunk_count = like->chunk_count,
                             .first_block = like->first_block,
                             .buffer_count = like->buffer_count,
                             .buffer = buffer};
    gal_place(program, like);
}

gal_code gal_lone_memory(const gal_lone *lone, uint32_t microbatch_samples, gal_block_memory *out, gal_error *err)
{
    gal_block_memory grown;
    if (placement_scales(lone, microbatch_samples)) {
        scale_memory(lone, microbatch_samples, out);
        return GAL_OK;
    }
    gal_program *program = malloc(sizeof *program + lone->like->buffer_count * sizeof *program->buffer);
    if (program == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: price");
    }
    place_grown(lone, microbatch_samples, program, (gal_buffer *)(program + 1));
    gal_block_memory_of(program, 0, &grown);
    *out = lone->memory;
    out->bytes.saved = grown.bytes.saved;
    out->bytes.input = grown.bytes.input;
    out->bytes.work = grown.bytes.work;
    out->bytes.staged_input = grown.bytes.staged_input;
    out->bytes.staged_saved = grown.bytes.staged_saved;
    out->host.kept = grown.host.kept;
    out->host.kept_stored = grown.host.kept_stored;
    out->host.parts.kept = grown.host.parts.kept;
    free(program);
    return GAL_OK;
}

/* ---- in a chain ---- */

bool gal_lone_borrows(const gal_lone *lone, const gal_program *chain, uint32_t block)
{
    uint32_t own = 0;
    for (uint32_t u = 0; u < chain->unit_count; u++) {
        own += chain->unit[u].block == block;
    }
    return own < lone->like->unit_count;
}

bool gal_lone_is_of_shared(const gal_program *program, const gal_instruction *in)
{
    const uint32_t buffer = program->operand[in->first_operand].buffer;
    for (uint32_t u = 0; u < program->unit_count; u++) {
        if (program->unit[u].copies != GAL_GROUP_NONE && program->unit[u].gradient == buffer) {
            return true;
        }
    }
    return false;
}

/* ---- costs ---- */

static double kernel_seconds(const gal_lone *lone, const gal_durations *durations, uint32_t instruction,
                             uint32_t samples)
{
    const gal_instruction *in = &lone->like->instruction[instruction];
    gal_shape shape = {.op = in->op, .dtype = lone->like->shape[in->shape].dtype};
    memcpy(shape.dims, &lone->dims[lone->size[instruction].dims], kept_dims(in) * sizeof *lone->dims);
    if (samples != lone->lowered_samples) {
        const uint8_t dim = lone->size[instruction].scaled_dim;
        if (dim != GAL_LONE_NOT_SCALED) {
            shape.dims[dim] = (uint32_t)scaled(lone, shape.dims[dim], samples);
        }
    }
    return gal_known_kernel_seconds(lone->known, durations, &shape);
}

/* Kernels of a fragment but for what only the last microbatch does, and the norm, one after the other. */
static double own_seconds(const gal_lone *lone, gal_fragment_kind kind)
{
    const gal_program *like = lone->like;
    const gal_fragment *fragment = &like->fragment[kind];
    double seconds = 0.0;
    for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
        const gal_instruction *in = &like->instruction[i];
        const bool is_own =
            kind != GAL_FRAGMENT_UPDATE || like->buffer[like->operand[in->first_operand].buffer].block == 0;
        const bool counts =
            in->stream == GAL_STREAM_COMPUTE && !gal_op_is_collective[in->op] && !in->only_last && is_own;
        seconds += counts ? lone->kernels->cost[i].seconds : 0.0;
    }
    return seconds;
}

/* Two kernels of one operator whose seconds are the same for any samples. */
static bool is_same(const gal_lone *lone, uint32_t a, uint32_t b)
{
    const gal_instruction *x = &lone->like->instruction[a], *y = &lone->like->instruction[b];
    return lone->size[a].scaled_dim == lone->size[b].scaled_dim &&
           lone->like->shape[x->shape].dtype == lone->like->shape[y->shape].dtype &&
           memcmp(&lone->dims[lone->size[a].dims], &lone->dims[lone->size[b].dims],
                  kept_dims(x) * sizeof *lone->dims) == 0;
}

/* Kernels that do not grow with the samples are the same for all. What is the same as the last of its operator is not
 * looked up. */
static void fill_kernels(const gal_lone *lone, const gal_durations *durations, uint32_t samples)
{
    uint32_t last[GAL_OP_COUNT]; /* [operator] instruction */
    double alone[GAL_OP_COUNT];
    gal_lone_kernels *kernels = lone->kernels;
    memset(last, 0xFF, sizeof last);
    for (uint32_t f = 0; f < OWN_FRAGMENTS; f++) {
        const gal_fragment *fragment = &lone->like->fragment[own_fragments[f]];
        for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
            const gal_instruction *in = &lone->like->instruction[i];
            const gal_lone_size *size = &lone->size[i];
            if (gal_op_is_collective[in->op] || (kernels->samples != 0 && size->scaled_dim == GAL_LONE_NOT_SCALED)) {
                continue;
            }
            const uint32_t at = in->op;
            const bool same = last[at] != UINT32_MAX && is_same(lone, last[at], i);
            alone[at] = same ? alone[at] : kernel_seconds(lone, durations, i, samples);
            last[at] = i;
            kernels->cost[i] =
                gal_kernel_cost(durations, (gal_op)in->op,
                                gal_kernel_in_company(durations, lone->like, own_fragments[f], in, alone[at]));
        }
    }
    kernels->own_forward_seconds = own_seconds(lone, GAL_FRAGMENT_FORWARD);
    kernels->own_backward_seconds = own_seconds(lone, GAL_FRAGMENT_BACKWARD_SYNC);
    kernels->own_update_seconds = own_seconds(lone, GAL_FRAGMENT_UPDATE);
    kernels->samples = samples;
}

static const gal_lone_kernels *find_kernels(const gal_lone *lone, const gal_durations *durations, uint32_t samples)
{
    if (lone->kernels->samples != samples) {
        fill_kernels(lone, durations, samples);
    }
    return lone->kernels;
}

/* Of a collective of so many bytes. A chunk's is of several blocks, which it costs in proportion to what they have of
 * it: a chunk is taken for full. */
static gal_cost collective_cost(const gal_lone *lone, const gal_durations *durations, const gal_axis_levels *levels,
                                uint32_t instruction, uint64_t bytes)
{
    const gal_instruction *in = &lone->like->instruction[instruction];
    const gal_op op = (gal_op)in->op;
    const bool of_weights = in->stream == GAL_STREAM_GATHER || in->stream == GAL_STREAM_REDUCE;
    const uint64_t chunk = of_weights && (op == GAL_OP_ALL_GATHER || op == GAL_OP_REDUCE_SCATTER)
                               ? lone->chunk_elements * gal_dtype_bytes((gal_dtype)lone->like->shape[in->shape].dtype)
                               : 0;
    const uint64_t whole = chunk > bytes ? chunk : bytes;
    gal_cost cost = gal_collective_cost(durations, op, levels->counts[lone->size[instruction].axes], whole);
    cost.seconds *= whole > bytes ? (double)bytes / (double)whole : 1.0;
    return cost;
}

/* Collectives of equal bytes over equal groups cost the same: a block has few that differ. */
typedef struct alike {
    uint32_t instruction; /* UINT32_MAX: none */
    uint64_t bytes;
    gal_cost cost;
} alike;

static bool is_alike(const gal_lone *lone, const alike *other, uint32_t instruction, uint64_t bytes)
{
    const gal_instruction *in = &lone->like->instruction[instruction];
    return other->instruction != UINT32_MAX && other->bytes == bytes && lone->chunk_elements == 0 &&
           lone->like->instruction[other->instruction].op == in->op &&
           lone->size[other->instruction].axes == lone->size[instruction].axes;
}

/* Where the axes lie so, the first from now on; *known: it was there. NULL without memory. */
static gal_lone_laid *find_laid(const gal_lone *lone, const gal_axis_levels *levels, bool *known)
{
    gal_lone_kernels *kernels = lone->kernels;
    uint32_t at = 0;
    while (at < kernels->laid_count && kernels->laid[at]->levels != levels) {
        at++;
    }
    *known = at < kernels->laid_count;
    at -= at == GAL_LONE_LAID_MAX; /* in place of the one that was asked for longest ago */
    gal_lone_laid *own = kernels->laid[at];
    if (own == NULL) {
        own = malloc(sizeof *own + lone->collective_count * sizeof *own->cost);
        if (own == NULL) {
            return NULL;
        }
        kernels->laid_count++;
    }
    if (!*known) {
        own->levels = levels;
        own->knows_update = false;
    }
    for (; at > 0; at--) {
        kernels->laid[at] = kernels->laid[at - 1];
    }
    kernels->laid[0] = own;
    return own;
}

const gal_cost *gal_lone_costs(const gal_lone *lone, const gal_durations *durations, const gal_axis_levels *levels,
                               uint32_t microbatch_samples)
{
    enum { ALIKE = 8 };
    alike known[ALIKE]; /* [operator, stream and axes]: the last such collective */
    gal_cost *cost = find_kernels(lone, durations, microbatch_samples)->cost;
    bool is_known = false;
    gal_lone_laid *laid = lone->kernels->now = find_laid(lone, levels, &is_known);
    for (uint32_t i = 0; i < ALIKE; i++) {
        known[i].instruction = UINT32_MAX;
    }
    for (uint32_t c = 0; c < lone->collective_count; c++) {
        const uint32_t i = lone->collective[c];
        const gal_lone_size *size = &lone->size[i];
        const gal_instruction *in = &lone->like->instruction[i];
        const bool rows = size->scaled_dim != GAL_LONE_NOT_SCALED;
        if (is_known && !rows) {
            cost[i] = laid->cost[c];
            continue;
        }
        const uint64_t bytes = rows ? scaled(lone, size->bytes, microbatch_samples) : size->bytes;
        alike *other = &known[(in->op + in->stream + size->axes) % ALIKE];
        if (!is_alike(lone, other, i, bytes)) {
            *other = (alike){i, bytes, collective_cost(lone, durations, levels, i, bytes)};
        }
        cost[i] = other->cost;
        if (laid != NULL) {
            laid->cost[c] = cost[i];
        }
    }
    return cost;
}

double gal_lone_tensor_forward_seconds(const gal_lone *lone, const gal_durations *durations,
                                       const gal_axis_levels *levels, uint32_t microbatch_samples)
{
    const gal_fragment *forward = &lone->like->fragment[GAL_FRAGMENT_FORWARD];
    double seconds = 0.0;
    for (uint32_t c = 0; c < lone->collective_count; c++) {
        const uint32_t i = lone->collective[c];
        if (lone->like->instruction[i].stream == GAL_STREAM_TENSOR && i >= forward->first &&
            i < forward->first + forward->count) {
            const uint64_t bytes = scaled(lone, lone->size[i].bytes, microbatch_samples);
            seconds += collective_cost(lone, durations, levels, i, bytes).seconds;
        }
    }
    return seconds;
}

double gal_lone_compute_seconds(const gal_lone *lone, const gal_durations *durations, uint32_t microbatch_samples)
{
    const gal_cost *kernel = find_kernels(lone, durations, microbatch_samples)->cost;
    double seconds = 0.0;
    for (uint32_t f = 0; f < OWN_FRAGMENTS && own_fragments[f] != GAL_FRAGMENT_UPDATE; f++) {
        const gal_fragment *fragment = &lone->like->fragment[own_fragments[f]];
        for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
            const gal_instruction *in = &lone->like->instruction[i];
            const bool counts = in->stream == GAL_STREAM_COMPUTE && !gal_op_is_collective[in->op] &&
                                lone->size[i].scaled_dim != GAL_LONE_NOT_SCALED;
            seconds += counts ? kernel[i].seconds : 0.0;
        }
    }
    return seconds;
}

double gal_lone_own_seconds(const gal_lone *lone, const gal_durations *durations, uint32_t microbatch_samples,
                            gal_fragment_kind kind)
{
    const gal_lone_kernels *kernels = find_kernels(lone, durations, microbatch_samples);
    return kind == GAL_FRAGMENT_FORWARD  ? kernels->own_forward_seconds
           : kind == GAL_FRAGMENT_UPDATE ? kernels->own_update_seconds
                                         : kernels->own_backward_seconds;
}

double gal_lone_stored_seconds(const gal_lone *lone, const gal_durations *durations, uint32_t microbatch_samples,
                               gal_fragment_kind kind)
{
    if (lone->memory.host.kept_stored == 0) {
        return 0.0;
    }
    const gal_cost *transfer = find_kernels(lone, durations, microbatch_samples)->cost;
    const gal_fragment *fragment = &lone->like->fragment[kind];
    double seconds = 0.0;
    for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
        seconds += gal_is_storage_work((gal_op)lone->like->instruction[i].op) ? transfer[i].seconds : 0.0;
    }
    return seconds;
}

void gal_lone_link_seconds(const gal_lone *lone, const gal_cost *cost, double seconds[GAL_LINK_LEVELS_MAX])
{
    const gal_fragment *update = &lone->like->fragment[GAL_FRAGMENT_UPDATE];
    memset(seconds, 0, GAL_LINK_LEVELS_MAX * sizeof *seconds);
    for (uint32_t c = 0; c < lone->collective_count; c++) {
        const uint32_t i = lone->collective[c];
        const bool updates = i >= update->first && i < update->first + update->count;
        seconds[cost[i].level] += updates || lone->like->instruction[i].only_last ? 0.0 : cost[i].seconds;
    }
}

static double longest(const double seconds[GAL_STREAM_COUNT])
{
    double most = 0.0;
    for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
        most = fmax(most, seconds[stream]);
    }
    return most;
}

void gal_lone_collective_seconds(const gal_lone *lone, const gal_cost *cost, gal_chain_times *out)
{
    const gal_fragment *forward = &lone->like->fragment[GAL_FRAGMENT_FORWARD];
    const gal_fragment *backward = &lone->like->fragment[GAL_FRAGMENT_BACKWARD_SYNC];
    double ahead[GAL_STREAM_COUNT] = {0.0}, back[GAL_STREAM_COUNT] = {0.0};
    memset(out->beside_seconds, 0, sizeof out->beside_seconds);
    for (uint32_t c = 0; c < lone->collective_count; c++) {
        const uint32_t i = lone->collective[c];
        const gal_instruction *in = &lone->like->instruction[i];
        if (i >= forward->first && i < forward->first + forward->count) {
            ahead[in->stream] += cost[i].seconds;
        }
        if (i < backward->first || i >= backward->first + backward->count) {
            continue;
        }
        if (in->stream != GAL_STREAM_REDUCE) {
            out->beside_seconds[cost[i].level] += cost[i].seconds;
            back[in->stream] += cost[i].seconds;
        } else if (!gal_lone_is_of_shared(lone->like, in)) {
            back[in->stream] += cost[i].seconds;
        }
    }
    out->tensor_forward_seconds = ahead[GAL_STREAM_TENSOR];
    out->stream_forward_seconds = longest(ahead);
    out->stream_sync_seconds = longest(back);
    out->reduced_seconds = back[GAL_STREAM_REDUCE];
}
