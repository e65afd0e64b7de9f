/* Lives of work buffers, in compute instructions and the gaps between them, by what waits guarantee: born in the gap
 * behind the last one known complete at the first access, dead in the gap in front of the first one that knows all
 * accesses complete. */
#include <stdlib.h>
#include <string.h>

#include "runtime/program/builder.h"

#define FOREVER UINT32_MAX

typedef struct measurer {
    gal_program *program;
    bool out_of_memory;
    uint32_t (*clock)[GAL_STREAM_COUNT]; /* [instruction] */
    uint32_t segment, first_life;        /* being measured, and its first life */
} measurer;

static gal_life *life_of(measurer *m, uint32_t buffer)
{
    static gal_life nowhere;
    gal_program *p = m->program;
    for (uint32_t i = m->first_life; i < p->life_count; i++) {
        if (p->life[i].buffer == buffer) {
            return &p->life[i];
        }
    }
    GAL_ASSERT(p->life_count - m->first_life < GAL_SEGMENT_BUFFERS_MAX);
    if (!gal_grow(&p->life, &p->room.life, p->life_count, sizeof *p->life)) {
        m->out_of_memory = true;
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
    const gal_program *program = m->program;
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
    const gal_program *program = m->program;
    for (uint32_t i = segment->first; i < segment->first + segment->count; i++) {
        const gal_instruction *at = &program->instruction[i];
        numbers[at->stream]++;
        for (uint32_t o = 0; o < at->operand_count; o++) {
            uint32_t buffer = program->operand[at->first_operand + o].buffer;
            if (program->buffer[buffer].class != GAL_CLASS_WORK ||
                (segment->halved_block != GAL_NO_BUFFER && program->buffer[buffer].block != segment->halved_block)) {
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

static bool derive_lives(gal_program *program, uint32_t (*clock)[GAL_STREAM_COUNT])
{
    measurer m = {.program = program, .clock = clock};
    uint32_t numbers[GAL_STREAM_COUNT] = {0};
    uint32_t before[GAL_STREAM_COUNT] = {0}; /* the numbers where the segment begins: halved blocks have one range */
    uint32_t fragment = GAL_FRAGMENTS_MAX;
    uint32_t reached = 0;
    program->life_count = 0;
    for (; m.segment < program->segment_count; m.segment++) {
        const gal_segment *segment = &program->segment[m.segment];
        const bool again = segment->fragment == fragment && segment->first < reached;
        if (segment->fragment != fragment) {
            fragment = segment->fragment;
            memset(numbers, 0, sizeof numbers);
            reached = program->fragment[fragment].first;
        }
        for (; reached < segment->first; reached++) {
            numbers[program->instruction[reached].stream]++;
        }
        memcpy(again ? numbers : before, again ? before : numbers, sizeof numbers);
        m.first_life = program->life_count;
        measure(&m, segment, numbers);
        reached = segment->first + segment->count;
    }
    return !m.out_of_memory;
}

static gal_code derive(gal_program *program, uint32_t fragment_count, bool with_lives, gal_error *err)
{
    uint32_t(*clock)[GAL_STREAM_COUNT] = malloc(((size_t)program->instruction_count + 1) * sizeof *clock);
    const bool done = clock != NULL && gal_derive_waits(program, fragment_count, clock) &&
                      (!with_lives || derive_lives(program, clock));
    free(clock);
    return done ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to lower stage %u", program->stage);
}

gal_code gal_program_derive(gal_program *program, gal_error *err)
{
    return derive(program, gal_program_fragments(program), true, err);
}

gal_code gal_program_derive_waits(gal_program *program, uint32_t fragment_count, gal_error *err)
{
    return derive(program, fragment_count, false, err);
}
