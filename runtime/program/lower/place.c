/* Placement: byte offsets of buffers in their classes, and of the classes in a rank's arena; those of the host's memory
 * come behind those of the device.
 *
 * Work buffers are placed once per block and direction (largest first, first fit) from offset 0, so the work of a stage
 * is the maximum over its blocks and a stage's bytes are a closed form of per-block numbers. Buffers whose lives
 * (lives.c) do not meet share bytes without further waits. Blocks that work on two sub-batches run beside their
 * neighbours: the work of odd ones lies behind that of even ones.
 * All other classes hold their buffers side by side (relayout.c has placed relayout's). */
#include "runtime/program/lower/emit.h"

typedef struct item {
    const gal_life *life;
    uint64_t bytes, offset;
} item;

static bool comes_first(const item *a, const item *b)
{
    return a->bytes != b->bytes ? a->bytes > b->bytes : a->life->buffer < b->life->buffer;
}

/* Largest first; a block has a score of them, so insertion is the fastest sort. */
static void sort_items(item *items, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        const item moving = items[i];
        uint32_t at = i;
        for (; at > 0 && comes_first(&moving, &items[at - 1]); at--) {
            items[at] = items[at - 1];
        }
        items[at] = moving;
    }
}

static uint64_t first_fit(const item *items, uint32_t index)
{
    const item *here = &items[index];
    uint64_t offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t i = 0; i < index; i++) {
            const item *other = &items[i];
            bool meet = here->life->born <= other->life->dead && other->life->born <= here->life->dead;
            if (meet && offset < other->offset + other->bytes && other->offset < offset + here->bytes) {
                offset = other->offset + other->bytes;
                moved = true;
            }
        }
    }
    return offset;
}

/* The lives of one segment. Returns how far it reaches. */
static uint64_t place_segment(gal_program *program, const gal_life *life, uint32_t count)
{
    item items[GAL_SEGMENT_BUFFERS_MAX];
    uint64_t end = 0;
    for (uint32_t i = 0; i < count; i++) {
        items[i] = (item){&life[i], gal_align(program->buffer[life[i].buffer].bytes), 0};
    }
    sort_items(items, count);
    for (uint32_t i = 0; i < count; i++) {
        items[i].offset = first_fit(items, i);
        program->buffer[items[i].life->buffer].offset = items[i].offset;
        end = items[i].offset + items[i].bytes > end ? items[i].offset + items[i].bytes : end;
    }
    return end;
}

/* Of a segment: where its work lies, by the number of its block in the chain: as searches charge it. */
typedef enum part { WHOLE, EVEN, ODD, PARTS } part;

static part part_of(const gal_program *like, uint32_t segment)
{
    const uint32_t block = like->segment[segment].halved_block;
    return block == GAL_NO_BUFFER ? WHOLE : (like->first_block + block) % 2 == 0 ? EVEN : ODD;
}

static uint64_t place_work(gal_program *program, const gal_program *like)
{
    uint64_t end[PARTS] = {0};
    uint32_t count = 0;
    for (uint32_t first = 0; first < like->life_count; first += count) {
        count = 0;
        while (first + count < like->life_count && like->life[first + count].segment == like->life[first].segment) {
            count++;
        }
        const uint64_t bytes = place_segment(program, &like->life[first], count);
        uint64_t *most = &end[part_of(like, like->life[first].segment)];
        *most = bytes > *most ? bytes : *most;
    }
    for (uint32_t i = 0; end[ODD] > 0 && i < like->life_count; i++) {
        program->buffer[like->life[i].buffer].offset += part_of(like, like->life[i].segment) == ODD ? end[EVEN] : 0;
    }
    return end[EVEN] + end[ODD] > end[WHOLE] ? end[EVEN] + end[ODD] : end[WHOLE];
}

/* The arenas of one medium behind each other from `begin` on. Returns the bytes that they take: whole blocks of storage
 * where a class has such, which then begins at one. */
static uint64_t lay_out(gal_program *p, gal_medium medium, uint64_t begin)
{
    uint64_t end = 0;
    bool in_blocks = false;
    for (uint32_t a = 0; a < gal_program_arenas(p); a++) {
        const gal_class class = gal_arena_class(a);
        if (gal_class_medium(class) == medium) {
            end = p->arena[a].item_bytes > 0 ? gal_align_in(class, end) : end;
            in_blocks = in_blocks || (gal_class_in_blocks(class) && p->arena[a].item_bytes > 0);
            p->arena[a].offset = begin + end;
            end += p->arena[a].count * p->arena[a].item_bytes;
        }
    }
    return in_blocks ? gal_align_in(GAL_CLASS_STORED, end)
                     : end; /* memory ends where a page does: so it begins at one */
}

void gal_place(gal_program *p, const gal_program *like)
{
    for (uint32_t i = 0; i < p->buffer_count; i++) {
        gal_buffer *buffer = &p->buffer[i];
        uint64_t *end = &p->arena[buffer->arena].item_bytes;
        if (buffer->class == GAL_CLASS_RELAYOUT || buffer->class == GAL_CLASS_CARRIED_RELAYOUT) {
            uint64_t reach = buffer->offset + gal_align(buffer->bytes);
            *end = reach > *end ? reach : *end;
        } else if (buffer->class != GAL_CLASS_WORK) {
            buffer->offset = *end;
            *end += gal_align_in((gal_class)buffer->class, buffer->bytes);
        }
    }
    p->arena[GAL_CLASS_WORK].item_bytes = place_work(p, like);
    p->arena_bytes = lay_out(p, GAL_MEDIUM_DEVICE, 0);
    p->host_bytes = lay_out(p, GAL_MEDIUM_HOST, p->arena_bytes);
    p->storage_bytes = lay_out(p, GAL_MEDIUM_STORAGE, p->arena_bytes + p->host_bytes);
}
