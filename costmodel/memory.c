#include "costmodel/memory.h"

#include <string.h>

#include "runtime/program/schedule.h"

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- from a program ----
 * Of backward what the last microbatch does: plain backward is a part of it. */

/* The third use had the first one's buffer: they become one. */
static void fold_turns(gal_ring_turns *turns)
{
    turns->bytes[0] = larger(turns->bytes[0], turns->bytes[2]);
    turns->bytes[2] = 0;
    turns->count -= 2;
}

/* What lies behind the begin of a ring's buffer belongs to the turn before. */
static void add_turn(gal_ring_turns *turns, const gal_operand *operand)
{
    if (operand->offset_bytes == 0 && turns->count == GAL_RING_TURNS) {
        fold_turns(turns);
    }
    turns->count += operand->offset_bytes == 0;
    GAL_ASSERT(turns->count > 0);
    uint64_t *last = &turns->bytes[turns->count - 1];
    *last = larger(*last, gal_align(operand->offset_bytes + operand->bytes));
}

/* The gathers, and copies from the host, into ring buffers that a block issues in a fragment. Steps of a product whose
 * weights lie in one buffer all take the other: that is one turn, of parts alike. */
static void read_gathers(const gal_program *program, gal_fragment_kind kind, uint32_t block, gal_ring_turns *turns)
{
    const gal_fragment *fragment = &program->fragment[kind];
    uint32_t filled = GAL_NO_BUFFER;
    for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
        const gal_instruction *in = &program->instruction[i];
        const bool fills = in->stream == GAL_STREAM_GATHER || in->stream == GAL_STREAM_HOST_IN;
        if (!fills || in->block != block) {
            continue;
        }
        for (uint32_t o = 0; o < in->operand_count; o++) {
            const gal_operand *operand = &program->operand[in->first_operand + o];
            if (program->buffer[operand->buffer].class == GAL_CLASS_GATHERED && operand->access == GAL_WRITE) {
                const bool again = in->op == GAL_OP_BROADCAST && operand->buffer == filled;
                if (!again) {
                    add_turn(turns, operand);
                }
                filled = operand->buffer;
            }
        }
    }
}

static uint64_t most(const gal_ring_turns *turns)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < turns->count; i++) {
        bytes = larger(bytes, turns->bytes[i]);
    }
    return bytes;
}

/* Gradients pass through the bucket ring in the order in which their scatters are issued. */
static void read_buckets(const gal_program *program, uint32_t block, gal_block_memory *out)
{
    const gal_fragment *fragment = &program->fragment[GAL_FRAGMENT_BACKWARD_SYNC];
    for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
        const gal_instruction *in = &program->instruction[i];
        for (uint32_t o = 0; in->block == block && in->stream == GAL_STREAM_REDUCE && o < in->operand_count; o++) {
            const gal_operand *operand = &program->operand[in->first_operand + o];
            const uint8_t class = program->buffer[operand->buffer].class;
            if (class == GAL_CLASS_BUCKET && operand->access == GAL_READ) {
                add_turn(&out->buckets, operand);
            }
        }
    }
    out->bytes.bucket = most(&out->buckets);
}

/* What is to be added to gradients: a scatter's, or the terms of a product in steps. */
static void read_scratch(const gal_program *program, uint32_t block, gal_block_memory *out)
{
    const gal_fragment *fragment = &program->fragment[GAL_FRAGMENT_BACKWARD_SYNC];
    for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
        const gal_instruction *in = &program->instruction[i];
        for (uint32_t o = 0; in->block == block && o < in->operand_count; o++) {
            const gal_operand *operand = &program->operand[in->first_operand + o];
            if (program->buffer[operand->buffer].class == GAL_CLASS_SCRATCH) {
                out->bytes.scratch = larger(out->bytes.scratch, gal_align(operand->bytes));
            }
        }
    }
}

/* The end of what a fragment touches of a class of conversions in front of a block, and the buffer that lies first
 * there. */
static uint64_t relayout_reach(const gal_program *program, gal_class class, gal_fragment_kind kind, uint32_t index,
                               uint64_t *first)
{
    const gal_fragment *fragment = &program->fragment[kind];
    uint64_t reach = 0;
    *first = 0;
    for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
        const gal_instruction *in = &program->instruction[i];
        for (uint32_t o = 0; o < in->operand_count; o++) {
            const gal_buffer *buffer = &program->buffer[program->operand[in->first_operand + o].buffer];
            if (buffer->class == class && buffer->block == index) {
                reach = larger(reach, buffer->offset + gal_align(buffer->bytes));
                *first = buffer->offset == 0 ? gal_align(buffer->bytes) : *first;
            }
        }
    }
    return reach;
}

/* Inside a chain the rows that enter a conversion are the first buffer; in front of a stage forward finds them in x_in,
 * backward leaves them in dx_out and starts from the block's own dx. */
static void read_relayout(const gal_program *program, uint32_t index, gal_block_memory *out)
{
    uint64_t source = 0;
    uint64_t unused = 0;
    const uint64_t forward = relayout_reach(program, GAL_CLASS_RELAYOUT, GAL_FRAGMENT_FORWARD, index, &source);
    const uint64_t backward = relayout_reach(program, GAL_CLASS_RELAYOUT, GAL_FRAGMENT_BACKWARD_SYNC, index, &unused);
    out->bytes.relayout = larger(forward, backward);
    out->relayout_entry = larger(forward - source, backward);
}

static void read_host(const gal_buffer *buffer, gal_block_host *out)
{
    const uint64_t bytes = gal_align_in((gal_class)buffer->class, buffer->bytes);
    if (buffer->class == GAL_CLASS_HOST) {
        out->state += bytes;
    } else if (buffer->class == GAL_CLASS_HOST_SAVED) {
        out->kept += bytes;
    } else if (buffer->class == GAL_CLASS_STORAGE_SAVED) {
        out->kept_stored += bytes;
        out->parts.kept = larger(out->parts.kept, bytes);
    } else if (buffer->class == GAL_CLASS_STORAGE) {
        out->stored += bytes;
    }
}

/* The largest part of each kind. Those of masters are as large as those of their moments. */
static void read_parts(const gal_program *program, uint32_t index, gal_block_host *out)
{
    uint64_t *const largest[GAL_STORED_KINDS] = {&out->parts.moment, &out->parts.moment, &out->parts.master,
                                                 &out->parts.weight};
    for (uint32_t u = 0; u < program->unit_count; u++) {
        uint32_t in_file[GAL_STORED_KINDS];
        gal_unit_in_file(program, &program->unit[u], in_file);
        for (uint32_t k = 0; program->unit[u].block == index && k < GAL_STORED_KINDS; k++) {
            if (in_file[k] != GAL_NO_BUFFER) {
                const gal_buffer *buffer = &program->buffer[in_file[k]];
                const uint64_t part = buffer->bytes < buffer->cut_bytes ? buffer->bytes : buffer->cut_bytes;
                *largest[k] = larger(*largest[k], gal_align_in(GAL_CLASS_STORED, part));
            }
        }
    }
}

static void read_table(const gal_program *program, const gal_unit *unit, gal_block_host *out)
{
    const uint32_t buffers[] = {unit->weight, unit->first_moment,  unit->second_moment,
                                unit->master, unit->host_gradient, unit->host_weight};
    gal_block_host table = {0};
    for (uint32_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) {
        const bool again = i > 0 && buffers[i] == unit->weight;
        if (buffers[i] != GAL_NO_BUFFER && !again) {
            read_host(&program->buffer[buffers[i]], &table);
        }
    }
    out->table_state += table.state;
    out->table_stored += table.stored;
}

/* What is shared with other blocks, by the stages that hold copies. */
static void read_shared(const gal_program *program, uint32_t index, gal_block_memory *out)
{
    for (uint32_t u = 0; u < program->unit_count; u++) {
        const gal_unit *unit = &program->unit[u];
        if (unit->block != index || unit->copies == GAL_GROUP_NONE) {
            continue;
        }
        const uint32_t buffers[] = {unit->weight, unit->first_moment, unit->second_moment, unit->gradient,
                                    unit->master};
        uint32_t shared = 0;
        while (gal_group_of_shared((gal_shared)shared) != unit->copies) {
            shared++;
        }
        for (uint32_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) {
            const bool here = buffers[i] != GAL_NO_BUFFER &&
                              gal_class_medium((gal_class)program->buffer[buffers[i]].class) == GAL_MEDIUM_DEVICE;
            out->shared_bytes[shared] += here ? gal_align(program->buffer[buffers[i]].bytes) : 0;
        }
        if (shared == GAL_SHARED_TABLE) {
            read_table(program, unit, &out->host);
        }
    }
}

static void read_all_gathers(const gal_program *program, uint32_t block, gal_block_memory *out)
{
    read_gathers(program, GAL_FRAGMENT_FORWARD, block, &out->gathers_forward);
    read_gathers(program, GAL_FRAGMENT_BACKWARD_SYNC, block, &out->gathers_backward);
    if (out->gathers_forward.count == 0) { /* a head's, after the copied forward: the ring starts anew */
        read_gathers(program, GAL_FRAGMENT_EVALUATE, block, &out->gathers_evaluate);
    }
    out->bytes.gathered =
        larger(larger(most(&out->gathers_forward), most(&out->gathers_backward)), most(&out->gathers_evaluate));
}

static bool is_input(const gal_buffer *buffer)
{
    return strcmp(buffer->name, "host x") == 0 || strcmp(buffer->name, "stored x") == 0;
}

static void read_buffer(const gal_buffer *buffer, gal_block_bytes *out)
{
    const uint64_t bytes = gal_align(buffer->bytes);
    switch ((gal_class)buffer->class) {
    case GAL_CLASS_STATE:
        out->state += bytes;
        break;
    case GAL_CLASS_GRADIENT:
        out->gradient += bytes;
        break;
    case GAL_CLASS_SAVED:
        out->saved += bytes;
        out->input = strcmp(buffer->name, "x") == 0 ? bytes : out->input;
        break;
    case GAL_CLASS_HOST_SAVED:
    case GAL_CLASS_STORAGE_SAVED:
        *(is_input(buffer) ? &out->staged_input : &out->staged_saved) += bytes;
        break;
    case GAL_CLASS_WORK:
        out->work = larger(out->work, buffer->offset + bytes);
        break;
    default:
        break;
    }
}

/* The first block's input, received where inside a chain it would be saved. */
static void read_received(const gal_program *program, gal_block_bytes *out)
{
    for (uint32_t i = 0; i < program->buffer_count; i++) {
        if (program->buffer[i].class == GAL_CLASS_X_IN) {
            out->input = gal_align(program->buffer[i].bytes);
            out->saved += out->input;
        }
    }
}

void gal_block_memory_of(const gal_program *program, uint32_t index, gal_block_memory *out)
{
    const uint32_t block = program->first_block + index;
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < program->buffer_count; i++) {
        if (program->buffer[i].block == index) {
            read_buffer(&program->buffer[i], &out->bytes);
            read_host(&program->buffer[i], &out->host);
        }
    }
    if (index == 0 && program->first_block > 0 && out->bytes.input == 0 && out->bytes.staged_input == 0) {
        read_received(program, &out->bytes);
    }
    read_parts(program, index, &out->host);
    read_shared(program, index, out);
    if (program->arena[GAL_CLASS_RELAYOUT].item_bytes > 0) {
        read_relayout(program, index, out);
    }
    if (program->arena[GAL_CLASS_CARRIED_RELAYOUT].item_bytes > 0) {
        uint64_t unused = 0;
        out->carried_relayout =
            larger(relayout_reach(program, GAL_CLASS_CARRIED_RELAYOUT, GAL_FRAGMENT_FORWARD, index, &unused),
                   relayout_reach(program, GAL_CLASS_CARRIED_RELAYOUT, GAL_FRAGMENT_BACKWARD_SYNC, index, &unused));
    }
    if (program->arena[GAL_CLASS_GATHERED].item_bytes > 0) {
        read_all_gathers(program, block, out);
    }
    if (program->arena[GAL_CLASS_BUCKET].item_bytes > 0) {
        read_buckets(program, block, out);
    }
    if (program->arena[GAL_CLASS_SCRATCH].item_bytes > 0) {
        read_scratch(program, block, out);
    }
}

/* ---- of a stage ---- */

gal_stored_parts gal_stored_parts_join(const gal_stored_parts *a, const gal_stored_parts *b)
{
    return (gal_stored_parts){larger(a->moment, b->moment), larger(a->master, b->master), larger(a->weight, b->weight),
                              larger(a->kept, b->kept)};
}

uint64_t gal_stage_host_bytes(uint64_t state_bytes, uint64_t kept_bytes, uint32_t in_flight,
                              const gal_stored_parts *parts)
{
    const uint64_t norm = state_bytes > 0 ? GAL_ALIGNMENT_BYTES : 0; /* of what is updated there */
    const uint64_t ring =
        GAL_STORED_RING * (GAL_STORED_MOMENTS * parts->moment + parts->master + parts->weight + parts->kept);
    const uint64_t ends = ring > 0 ? 2 * GAL_STORAGE_BLOCK_BYTES : 0; /* what is lost before it and behind it */
    return in_flight * kept_bytes + state_bytes + norm + ring + ends;
}

enum { RING_MAX = 2 };

typedef struct ring {
    uint32_t count, next;
    uint64_t bytes[RING_MAX];
} ring;

static void take_turns(ring *r, const gal_ring_turns *turns)
{
    for (uint32_t i = 0; i < turns->count; i++) {
        r->bytes[r->next] = larger(r->bytes[r->next], turns->bytes[i]);
        r->next = (r->next + 1) % r->count;
    }
}

static uint64_t gathered_bytes(const gal_stage_memory *stage)
{
    ring r = {.count = stage->prefetch_depth};
    const gal_stage_block *block = stage->block;
    for (uint32_t c = 0; c < stage->chunk_count; block += stage->chunk[c++].block_count) {
        const uint32_t count = stage->chunk[c].block_count;
        r.next = 0;
        for (uint32_t i = 0; i < count; i++) {
            take_turns(&r, &block[i].memory->gathers_forward);
        }
        r.next = 0;
        for (uint32_t i = count; i-- > 0;) {
            take_turns(&r, &block[i].memory->gathers_backward);
        }
        r.next = 0;
        for (uint32_t i = 0; i < count; i++) {
            take_turns(&r, &block[i].memory->gathers_evaluate);
        }
    }
    return r.bytes[0] + r.bytes[1];
}

static uint64_t bucket_bytes(const gal_stage_memory *stage)
{
    ring r = {.count = RING_MAX};
    const gal_stage_block *block = stage->block;
    for (uint32_t c = 0; c < stage->chunk_count; block += stage->chunk[c++].block_count) {
        r.next = 0;
        for (uint32_t i = stage->chunk[c].block_count; i-- > 0;) {
            take_turns(&r, &block[i].memory->buckets);
        }
    }
    return r.bytes[0] + r.bytes[1];
}

/* dx of block i of the stage lies in buffer i mod 2, in the layout of block i - 1. */
static uint64_t boundary_bytes(const gal_stage_memory *stage)
{
    uint64_t bytes[2] = {0};
    uint32_t first = 0;
    for (uint32_t c = 0; c < stage->chunk_count; first += stage->chunk[c++].block_count) {
        for (uint32_t i = first + 1; i < first + stage->chunk[c].block_count; i++) {
            bytes[i % 2] = larger(bytes[i % 2], stage->block[i - 1].memory->bytes.boundary);
        }
    }
    return bytes[0] + bytes[1];
}

/* Of what goes to the host and comes back block i uses buffer i mod 2, of its input and of the rest. */
static uint64_t staged_bytes(const gal_stage_memory *stage)
{
    uint64_t input[2] = {0}, saved[2] = {0};
    uint32_t i = 0;
    for (uint32_t c = 0; c < stage->chunk_count; c++) {
        for (uint32_t end = i + stage->chunk[c].block_count; i < end; i++) {
            const gal_block_bytes *bytes = &stage->block[i].memory->bytes;
            input[i % 2] = larger(input[i % 2], bytes->staged_input);
            saved[i % 2] = larger(saved[i % 2], bytes->staged_saved);
        }
    }
    return input[0] + input[1] + saved[0] + saved[1];
}

static uint64_t at_most_two(uint32_t microbatch_count)
{
    return microbatch_count < 2 ? microbatch_count : 2;
}

/* Items of what is received while the chunk has others in flight. */
static uint64_t ahead_of(const gal_chunk_memory *chunk, uint32_t microbatch_count)
{
    return chunk->in_flight < microbatch_count ? (uint64_t)chunk->in_flight + 1 : microbatch_count;
}

/* A version lives until the backward of its readers, where it has any; its gradient is a port, or the stage's own. */
static uint64_t carried_bytes(const gal_stage_memory *stage)
{
    const uint64_t two = at_most_two(stage->microbatch_count);
    uint64_t bytes = stage->carried_relayout_bytes;
    for (uint32_t i = 0; i < stage->carried_count; i++) {
        const gal_carried_memory *at = &stage->carried[i];
        const uint64_t items = !at->read      ? two
                               : at->received ? ahead_of(&stage->chunk[at->chunk], stage->microbatch_count)
                                              : stage->chunk[at->chunk].in_flight;
        bytes += (items + (at->received || at->sent ? two : 1)) * at->bytes;
    }
    return bytes;
}

/* What a chunk has for itself: kept values and ports. */
static uint64_t chunk_bytes(const gal_chunk_memory *chunk, const gal_stage_block *block, uint32_t microbatch_count)
{
    const uint64_t two = at_most_two(microbatch_count);
    const uint64_t ahead = ahead_of(chunk, microbatch_count);
    uint64_t saved = 0;
    uint64_t ports = 0;
    for (uint32_t i = 0; i < chunk->block_count; i++) {
        saved += block[i].memory->bytes.saved;
    }
    if (chunk->receives) {
        const bool passes = chunk->converts_entry || block[0].memory->bytes.staged_input > 0;
        ports += ((passes ? two : ahead) + two) * gal_align(chunk->entry_bytes);
        saved -= chunk->converts_entry ? 0 : block[0].memory->bytes.input;
    }
    if (chunk->sends) {
        ports += 2 * two * block[chunk->block_count - 1].memory->bytes.boundary;
    }
    return chunk->in_flight * saved + ports;
}

/* State and gradient of a block, less the tensors that one before it has brought; `held` collects all of them. */
static uint64_t own_bytes(const gal_block_memory *memory, bool held[GAL_SHARED_COUNT])
{
    uint64_t bytes = memory->bytes.state + memory->bytes.gradient;
    for (uint32_t shared = 0; shared < GAL_SHARED_COUNT; shared++) {
        bytes -= held[shared] ? memory->shared_bytes[shared] : 0;
        held[shared] = held[shared] || memory->shared_bytes[shared] > 0;
    }
    return bytes;
}

uint64_t gal_stage_bytes(const gal_stage_memory *stage)
{
    bool held[GAL_SHARED_COUNT] = {false};
    const bool has_head = !stage->chunk[stage->chunk_count - 1].sends;
    uint64_t fixed = gal_align(16) + (has_head ? gal_align(8) : 0); /* norm, loss */
    uint64_t scratch = 0;
    uint64_t work = 0;
    uint64_t relayout = 0;
    const gal_stage_block *block = stage->block;
    for (uint32_t c = 0; c < stage->chunk_count; block += stage->chunk[c++].block_count) {
        for (uint32_t i = 0; i < stage->chunk[c].block_count; i++) {
            const gal_block_bytes *bytes = &block[i].memory->bytes;
            fixed += own_bytes(block[i].memory, held);
            scratch = larger(scratch, bytes->scratch);
            work = larger(work, bytes->work);
            relayout = larger(relayout, block[i].relayout_bytes);
        }
        fixed += chunk_bytes(&stage->chunk[c], block, stage->microbatch_count);
    }
    return fixed + carried_bytes(stage) + boundary_bytes(stage) + relayout + gathered_bytes(stage) +
           bucket_bytes(stage) + staged_bytes(stage) + scratch + work;
}

uint32_t gal_in_flight(gal_schedule schedule, uint32_t stage, uint32_t stage_count, uint32_t microbatch_count)
{
    const gal_schedule_place place = {schedule, stage, stage_count, 1, microbatch_count};
    uint32_t in_flight[GAL_CHUNKS_MAX];
    if (schedule == GAL_SCHEDULE_GPIPE) { /* searches ask often, and the walk takes a step a call */
        return microbatch_count;
    }
    if (schedule == GAL_SCHEDULE_1F1B) {
        return microbatch_count < stage_count - stage ? microbatch_count : stage_count - stage;
    }
    return gal_schedule_in_flight(&place, in_flight);
}
