/* Overlapped schedules of blocks that work on two sub-batches (Oases, section 3, Algorithms 1 and 2): a permutation of
 * the order of issue. Blocks are emitted one after the other, each first sub-batch in front of its second. Here the two
 * become queues that take turns: one issues up to a collective on the tensor stream, that included, then the other one
 * goes on, over the borders of blocks. So the collective of one runs beside kernels of the other.
 *
 * Order is kept where it matters: an instruction is issued behind all that it conflicts with and that was emitted
 * before it. So every reader keeps its writer, and the second sub-batch adds to a gradient what the first has written,
 * whatever the kind of overlap: the bits are the same. Conflicts between the two are on what they share: gradients and
 * rings (each has rows of its own). And neither gets ahead of the other so far that both would work in the same bytes:
 * a block's work may begin when the block before its neighbour is done. Waits are derived afterwards, as ever. */
#include <stdlib.h>
#include <string.h>

#include "runtime/program/builder.h"

typedef struct item {
    uint32_t instruction;
    uint32_t block; /* how many blocks of the region are in front of its own */
    uint32_t needs; /* so many of the other queue are issued before it */
} item;

typedef struct region {
    gal_builder *b;
    uint32_t first, count;
    item *queue[2];   /* owned by queue[0] */
    uint32_t size[2]; /* entries of each */
    uint32_t done[2]; /* issued */
    gal_instruction *list;
} region;

/* Accesses of rows are apart; weights are read alone. */
static bool is_shared(const gal_program *p, const gal_operand *o)
{
    const uint8_t class = p->buffer[o->buffer].class;
    return class == GAL_CLASS_GRADIENT || class == GAL_CLASS_BUCKET || class == GAL_CLASS_SCRATCH ||
           class == GAL_CLASS_GATHERED;
}

static bool operands_meet(const gal_operand *a, const gal_operand *b)
{
    const bool ranges = a->view == GAL_GROUP_NONE && b->view == GAL_GROUP_NONE;
    return a->buffer == b->buffer && (a->access != GAL_READ || b->access != GAL_READ) &&
           (!ranges || (a->offset_bytes < b->offset_bytes + b->bytes && b->offset_bytes < a->offset_bytes + a->bytes));
}

static bool conflict(const gal_program *p, const gal_instruction *a, const gal_instruction *b)
{
    for (uint32_t i = 0; i < a->operand_count; i++) {
        const gal_operand *x = &p->operand[a->first_operand + i];
        for (uint32_t k = 0; is_shared(p, x) && k < b->operand_count; k++) {
            if (operands_meet(x, &p->operand[b->first_operand + k])) {
                return true;
            }
        }
    }
    return false;
}

static bool shares(const gal_program *p, const gal_instruction *in)
{
    bool any = false;
    for (uint32_t i = 0; i < in->operand_count; i++) {
        any = any || is_shared(p, &p->operand[in->first_operand + i]);
    }
    return any;
}

/* Of the newest entry of a queue: how many of the other queue must have been issued. What the other one has by now was
 * emitted before it: of `block` and the blocks in front. Of those some are done in any case. */
static uint32_t needs_of(const region *r, uint32_t half, const item *at)
{
    const gal_program *p = r->b->program;
    const gal_instruction *in = &p->instruction[at->instruction];
    const item *other = r->queue[1 - half];
    const uint32_t ahead = half == 0 ? 2 : 1; /* the first sub-batch may be a block ahead, the second never */
    uint32_t i = r->size[1 - half];
    for (bool looks = shares(p, in); i > 0 && other[i - 1].block + ahead > at->block; i--) {
        if (looks && conflict(p, in, &p->instruction[other[i - 1].instruction])) {
            return i;
        }
    }
    return i;
}

static void fill_queues(region *r)
{
    const gal_program *p = r->b->program;
    uint32_t block = 0;
    for (uint32_t i = r->first; i < r->first + r->count; i++) {
        const gal_instruction *in = &p->instruction[i];
        const uint32_t half = in->sub_batch - 1u;
        block += i > r->first && in->block != in[-1].block;
        item *at = &r->queue[half][r->size[half]];
        *at = (item){.instruction = i, .block = block};
        at->needs = needs_of(r, half, at);
        r->size[half]++;
    }
}

static bool can_issue(const region *r, uint32_t half)
{
    return r->done[half] < r->size[half] && r->queue[half][r->done[half]].needs <= r->done[1 - half];
}

/* Into list. */
static void take_turns(region *r)
{
    uint32_t turn = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        turn = can_issue(r, turn) ? turn : 1 - turn;
        GAL_ASSERT(can_issue(r, turn)); /* the one that was emitted first can always go on */
        const gal_instruction *in = &r->b->program->instruction[r->queue[turn][r->done[turn]++].instruction];
        r->list[i] = *in;
        turn = in->stream == GAL_STREAM_TENSOR ? 1 - turn : turn;
    }
}

static void reorder(gal_builder *b, uint32_t first, uint32_t count)
{
    region r = {.b = b, .first = first, .count = count};
    r.queue[0] = malloc(2 * (size_t)count * sizeof *r.queue[0] + 1);
    r.list = malloc(count * sizeof *r.list + 1);
    if (r.queue[0] == NULL || r.list == NULL) {
        b->out_of_memory = true;
    } else {
        r.queue[1] = r.queue[0] + count;
        fill_queues(&r);
        take_turns(&r);
        memcpy(b->program->instruction + first, r.list, count * sizeof *r.list);
    }
    free(r.list);
    free(r.queue[0]);
}

void gal_overlap_order(gal_builder *b, uint32_t first, uint32_t first_segment)
{
    gal_program *p = b->program;
    if (b->out_of_memory) {
        return;
    }
    const uint32_t count = p->instruction_count - first;
    for (uint32_t i = 0, run = 0; i < count; i += run) { /* what is of whole microbatches stays where it is */
        run = 0;
        while (i + run < count && p->instruction[first + i + run].sub_batch > 0) {
            run++;
        }
        if (run > 0) {
            reorder(b, first + i, run);
        } else {
            run = 1;
        }
    }
    for (uint32_t s = first_segment; s < p->segment_count; s++) {
        p->segment[s].first = first;
        p->segment[s].count = count;
    }
}
