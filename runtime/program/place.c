/* Placement: byte offsets of buffers in their classes, and of the classes in a rank's arena.
 *
 * Work buffers are placed once per block and direction (largest first, first fit) from offset 0, so the work of a stage
 * is the maximum over its blocks and a stage's bytes are a closed form of per-block numbers. Lifetimes are measured in
 * compute instructions and the gaps between them, by what waits guarantee: born in the gap behind the last one known
 * complete at the first access, dead in the gap in front of the first one that knows all accesses complete. Buffers
 * whose lives do not meet share bytes without further waits.
 * All other classes hold their buffers side by side (relayout.c has placed relayout's). */
#include <stdlib.h>
#include <string.h>

#include "runtime/program/emit.h"

enum { SEGMENT_BUFFERS_MAX = 64 };
#define FOREVER UINT32_MAX

/* ---- lifetimes ---- */

typedef struct measurer {
    gal_builder *b;
    uint32_t (*clock)[GAL_STREAM_COUNT]; /* [instruction] */
    uint32_t segment, first_life;        /* being measured, and its first life */
} measurer;

static gal_life *life_of(measurer *m, uint32_t buffer)
{
    static gal_life nowhere;
    gal_program *p = m->b->program;
    for (uint32_t i = m->first_life; i < p->life_count; i++) {
        if (p->life[i].buffer == buffer) {
            return &p->life[i];
        }
    }
    GAL_ASSERT(p->life_count - m->first_life < SEGMENT_BUFFERS_MAX);
    if (!gal_grow(&p->life, &p->room.life, p->life_count, sizeof *p->life)) {
        m->b->out_of_memory = true;
        return &nowhere;
    }
    p->life[p->life_count] = (gal_life){buffer, m->segment, FOREVER, 0};
    return &p->life[p->life_count++];
}

/* Moments: compute instruction i of the fragment is 2i + 1, the gap in front of it 2i. What another stream runs between
 * two compute instructions reads and writes in one gap, so its source and target meet there. */
static uint32_t moment_of(uint32_t compute_number)
{
    return 2 * compute_number + 1;
}

static uint32_t gap_before(uint32_t compute_number)
{
    return 2 * compute_number;
}

/* The gap in front of the first compute instruction of the segment that starts after instruction `at` of `stream` is
 * known complete: the bytes are in use up to there. */
static uint32_t known_complete(const measurer *m, const gal_segment *segment, uint32_t at, uint32_t stream,
                               uint32_t number, uint32_t compute_number)
{
    const gal_program *program = m->b->program;
    for (uint32_t i = at + 1; i < segment->first + segment->count; i++) {
        if (program->instruction[i].stream != GAL_STREAM_COMPUTE) {
            continue;
        }
        if (m->clock[i][stream] >= number) {
            return gap_before(compute_number);
        }
        compute_number++;
    }
    return FOREVER;
}

static void measure(measurer *m, const gal_segment *segment, uint32_t *numbers)
{
    const gal_program *program = m->b->program;
    for (uint32_t i = segment->first; i < segment->first + segment->count; i++) {
        const gal_instruction *at = &program->instruction[i];
        numbers[at->stream]++;
        for (uint32_t o = 0; o < at->operand_count; o++) {
            uint32_t buffer = program->operand[at->first_operand + o].buffer;
            if (program->buffer[buffer].class != GAL_CLASS_WORK) {
                continue;
            }
            gal_life *life = life_of(m, buffer);
            bool compute = at->stream == GAL_STREAM_COMPUTE;
            uint32_t now = numbers[GAL_STREAM_COMPUTE]; /* compute instructions issued so far, this one included */
            uint32_t known = m->clock[i][GAL_STREAM_COMPUTE];
            uint32_t from = compute ? moment_of(now - 1) : gap_before(known);
            uint32_t to =
                compute ? moment_of(now - 1) : known_complete(m, segment, i, at->stream, numbers[at->stream], now);
            life->born = from < life->born ? from : life->born;
            life->dead = to > life->dead ? to : life->dead;
        }
    }
}

static void measure_all(gal_builder *b, uint32_t (*clock)[GAL_STREAM_COUNT])
{
    measurer m = {.b = b, .clock = clock};
    uint32_t numbers[GAL_STREAM_COUNT] = {0};
    uint32_t fragment = GAL_FRAGMENT_COUNT;
    uint32_t reached = 0;
    for (; m.segment < b->segment_count; m.segment++) {
        const gal_segment *segment = &b->segment[m.segment];
        if ((uint32_t)segment->fragment != fragment) {
            fragment = (uint32_t)segment->fragment;
            memset(numbers, 0, sizeof numbers);
            reached = b->program->fragment[fragment].first;
        }
        for (; reached < segment->first; reached++) {
            numbers[b->program->instruction[reached].stream]++;
        }
        m.first_life = b->program->life_count;
        measure(&m, segment, numbers);
        reached = segment->first + segment->count;
    }
}

/* ---- places ---- */

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
    item items[SEGMENT_BUFFERS_MAX];
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

static uint64_t place_work(gal_program *program, const gal_program *like)
{
    uint64_t end = 0;
    uint32_t count = 0;
    for (uint32_t first = 0; first < like->life_count; first += count) {
        count = 0;
        while (first + count < like->life_count && like->life[first + count].segment == like->life[first].segment) {
            count++;
        }
        const uint64_t bytes = place_segment(program, &like->life[first], count);
        end = bytes > end ? bytes : end;
    }
    return end;
}

void gal_place_like(gal_program *p, const gal_program *like)
{
    for (uint32_t i = 0; i < p->buffer_count; i++) {
        gal_buffer *buffer = &p->buffer[i];
        uint64_t *end = &p->arena[buffer->class].item_bytes;
        if (buffer->class == GAL_CLASS_RELAYOUT) {
            uint64_t reach = buffer->offset + gal_align(buffer->bytes);
            *end = reach > *end ? reach : *end;
        } else if (buffer->class != GAL_CLASS_WORK) {
            buffer->offset = *end;
            *end += gal_align(buffer->bytes);
        }
    }
    p->arena[GAL_CLASS_WORK].item_bytes = place_work(p, like);
    p->arena_bytes = 0;
    for (uint32_t c = 0; c < GAL_CLASS_COUNT; c++) {
        p->arena[c].offset = p->arena_bytes;
        p->arena_bytes += p->arena[c].count * p->arena[c].item_bytes;
    }
}

void gal_place(gal_builder *b, uint32_t (*clock)[GAL_STREAM_COUNT])
{
    measure_all(b, clock);
    if (!b->out_of_memory) {
        gal_place_like(b->program, b->program);
    }
}
