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

typedef struct lifetime {
    uint32_t buffer, born, dead;
    uint64_t bytes;
} lifetime;

typedef struct placer {
    gal_builder *b;
    const uint32_t *clock;
    uint32_t count;
    lifetime life[SEGMENT_BUFFERS_MAX];
} placer;

static lifetime *life_of(placer *p, uint32_t buffer)
{
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->life[i].buffer == buffer) {
            return &p->life[i];
        }
    }
    GAL_ASSERT(p->count < SEGMENT_BUFFERS_MAX);
    p->life[p->count] = (lifetime){buffer, FOREVER, 0, gal_align(p->b->program->buffer[buffer].bytes)};
    return &p->life[p->count++];
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
static uint32_t known_complete(const placer *p, const gal_segment *segment, uint32_t at, uint32_t stream,
                               uint32_t number, uint32_t compute_number)
{
    const gal_program *program = p->b->program;
    for (uint32_t i = at + 1; i < segment->first + segment->count; i++) {
        if (program->instruction[i].stream != GAL_STREAM_COMPUTE) {
            continue;
        }
        if (p->clock[(size_t)i * GAL_STREAM_COUNT + stream] >= number) {
            return gap_before(compute_number);
        }
        compute_number++;
    }
    return FOREVER;
}

static void measure(placer *p, const gal_segment *segment, uint32_t *numbers)
{
    const gal_program *program = p->b->program;
    p->count = 0;
    for (uint32_t i = segment->first; i < segment->first + segment->count; i++) {
        const gal_instruction *at = &program->instruction[i];
        numbers[at->stream]++;
        for (uint32_t o = 0; o < at->operand_count; o++) {
            uint32_t buffer = program->operand[at->first_operand + o].buffer;
            if (program->buffer[buffer].class != GAL_CLASS_WORK) {
                continue;
            }
            lifetime *life = life_of(p, buffer);
            bool compute = at->stream == GAL_STREAM_COMPUTE;
            uint32_t now = numbers[GAL_STREAM_COMPUTE]; /* compute instructions issued so far, this one included */
            uint32_t known = p->clock[(size_t)i * GAL_STREAM_COUNT + GAL_STREAM_COMPUTE];
            uint32_t from = compute ? moment_of(now - 1) : gap_before(known);
            uint32_t to =
                compute ? moment_of(now - 1) : known_complete(p, segment, i, at->stream, numbers[at->stream], now);
            life->born = from < life->born ? from : life->born;
            life->dead = to > life->dead ? to : life->dead;
        }
    }
}

static bool comes_first(const lifetime *a, const lifetime *b)
{
    return a->bytes != b->bytes ? a->bytes > b->bytes : a->buffer < b->buffer;
}

/* Largest first; a block has a score of them, so insertion is the fastest sort. */
static void sort_lives(placer *p)
{
    for (uint32_t i = 1; i < p->count; i++) {
        lifetime moving = p->life[i];
        uint32_t at = i;
        for (; at > 0 && comes_first(&moving, &p->life[at - 1]); at--) {
            p->life[at] = p->life[at - 1];
        }
        p->life[at] = moving;
    }
}

static uint64_t first_fit(const placer *p, uint32_t index)
{
    const lifetime *life = &p->life[index];
    uint64_t offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t i = 0; i < index; i++) {
            const lifetime *other = &p->life[i];
            uint64_t begin = p->b->program->buffer[other->buffer].offset;
            bool meet = life->born <= other->dead && other->born <= life->dead;
            if (meet && offset < begin + other->bytes && begin < offset + life->bytes) {
                offset = begin + other->bytes;
                moved = true;
            }
        }
    }
    return offset;
}

static uint64_t place_segment(placer *p)
{
    uint64_t end = 0;
    sort_lives(p);
    for (uint32_t i = 0; i < p->count; i++) {
        uint64_t offset = first_fit(p, i);
        p->b->program->buffer[p->life[i].buffer].offset = offset;
        end = offset + p->life[i].bytes > end ? offset + p->life[i].bytes : end;
    }
    return end;
}

static uint64_t place_work(gal_builder *b, const uint32_t *clock)
{
    placer p = {.b = b, .clock = clock};
    uint32_t numbers[GAL_STREAM_COUNT] = {0};
    uint32_t fragment = GAL_FRAGMENT_COUNT;
    uint32_t reached = 0;
    uint64_t end = 0;
    for (uint32_t s = 0; s < b->segment_count; s++) {
        const gal_segment *segment = &b->segment[s];
        if ((uint32_t)segment->fragment != fragment) {
            fragment = (uint32_t)segment->fragment;
            memset(numbers, 0, sizeof numbers);
            reached = b->program->fragment[fragment].first;
        }
        for (; reached < segment->first; reached++) {
            numbers[b->program->instruction[reached].stream]++;
        }
        measure(&p, segment, numbers);
        reached = segment->first + segment->count;
        uint64_t bytes = place_segment(&p);
        end = bytes > end ? bytes : end;
    }
    return end;
}

gal_code gal_place(gal_builder *b, const uint32_t *clock)
{
    gal_program *p = b->program;
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
    p->arena[GAL_CLASS_WORK].item_bytes = place_work(b, clock);
    p->arena_bytes = 0;
    for (uint32_t c = 0; c < GAL_CLASS_COUNT; c++) {
        p->arena[c].offset = p->arena_bytes;
        p->arena_bytes += p->arena[c].count * p->arena[c].item_bytes;
    }
    return GAL_OK;
}
