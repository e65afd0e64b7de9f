#include "tests/support/content_internal.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/random_plan.h"

gal_content *gal_content_create(gal_program *const *programs, uint32_t stage_count)
{
    gal_content *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return NULL;
    }
    c->stage_count = stage_count;
    c->devices = programs[0]->device_count;
    c->rank_count = stage_count * c->devices;
    GAL_ASSERT(c->rank_count <= GAL_CONTENT_RANKS_MAX);
    c->stage = calloc(stage_count, sizeof *c->stage);
    c->memory = calloc(c->rank_count, sizeof *c->memory);
    c->done = calloc(c->rank_count, sizeof *c->done);
    bool fine = c->stage != NULL && c->memory != NULL && c->done != NULL;
    for (uint32_t s = 0; fine && s < stage_count; s++) {
        c->stage[s].program = programs[s];
        fine = gal_content_cut(&c->stage[s]) && gal_content_issue(&c->stage[s]);
        for (uint32_t d = 0; fine && d < c->devices; d++) {
            uint32_t rank = s * c->devices + d;
            c->memory[rank] = malloc(((size_t)c->stage[s].memory_cells + 1) * sizeof **c->memory);
            fine = c->memory[rank] != NULL;
        }
    }
    if (!fine) {
        gal_content_free(c);
        return NULL;
    }
    return c;
}

void gal_content_free(gal_content *c)
{
    if (c == NULL) {
        return;
    }
    for (uint32_t s = 0; c->stage != NULL && s < c->stage_count; s++) {
        free(c->stage[s].piece);
        free(c->stage[s].first_piece);
        free(c->stage[s].task);
        free(c->stage[s].awaited);
        for (uint32_t t = 0; t < GAL_STREAM_COUNT; t++) {
            free(c->stage[s].queue[t]);
        }
    }
    for (uint32_t r = 0; c->memory != NULL && r < c->rank_count; r++) {
        free(c->memory[r]);
    }
    free(c->memory);
    free(c->done);
    free(c->stage);
    free(c);
}

static const gal_content_task *head_of(const gal_content *c, uint32_t rank, uint32_t stream)
{
    const gal_content_stage *s = &c->stage[rank / c->devices];
    uint32_t done = c->done[rank][stream];
    return done < s->queue_count[stream] ? &s->task[s->queue[stream][done]] : NULL;
}

static bool is_ready(const gal_content *c, uint32_t rank, const gal_content_task *t)
{
    const gal_content_stage *s = &c->stage[rank / c->devices];
    for (uint32_t w = 0; w < t->awaited_count; w++) {
        const gal_content_awaited *need = &s->awaited[t->first_awaited + w];
        if (c->done[rank][need->stream] < need->number) {
            return false;
        }
    }
    return true;
}

/* The stream of a member on which it stands ready for its part in t, or the number of streams. */
static uint32_t ready_stream(const gal_content *c, uint32_t rank, const gal_content_task *t, bool same_stage)
{
    for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
        const gal_content_task *head = head_of(c, rank, stream);
        if (head != NULL && (same_stage ? head == t : gal_content_is_partner(t->in, head->in)) &&
            is_ready(c, rank, head)) {
            return stream;
        }
    }
    return GAL_STREAM_COUNT;
}

/* What a rank is ready for depends on what it has done itself. */
static bool hold(gal_content *c, uint32_t rank, uint32_t stream, uint32_t by)
{
    c->held[rank][stream] = (gal_content_held){by, c->moves[by]};
    return false;
}

static bool is_held(const gal_content *c, uint32_t rank, uint32_t stream)
{
    const gal_content_held *held = &c->held[rank][stream];
    return held->moves == c->moves[held->rank];
}

/* Runs the head of the stream if it and all its partners are ready. */
static bool advance(gal_content *c, uint32_t rank, uint32_t stream)
{
    const gal_content_task *t = head_of(c, rank, stream);
    uint32_t member[GAL_CONTENT_RANKS_MAX];
    uint32_t streams[GAL_CONTENT_RANKS_MAX];
    gal_content_place places[GAL_CONTENT_RANKS_MAX];
    if (t == NULL || !is_ready(c, rank, t)) {
        return hold(c, rank, stream, rank);
    }
    bool alone = !gal_op_is_collective[t->in->op];
    uint32_t count = 1;
    member[0] = rank;
    count = alone ? 1 : gal_content_members(c, rank, t->in, member);
    for (uint32_t i = 0; i < count; i++) {
        bool same_stage = member[i] / c->devices == rank / c->devices;
        streams[i] = member[i] == rank ? stream : ready_stream(c, member[i], t, same_stage);
        if (streams[i] == GAL_STREAM_COUNT) {
            return hold(c, rank, stream, member[i]);
        }
        places[i] = gal_content_place_of(c, member[i], head_of(c, member[i], streams[i]));
    }
    if (alone) {
        gal_content_run_kernel(&places[0]);
    } else if (t->in->op == GAL_OP_SEND || t->in->op == GAL_OP_RECEIVE) {
        gal_content_write(&places[1], 0, false, gal_content_mix(gal_content_read(&places[0], 0, false), 2));
    } else {
        gal_content_run_collective(places, count);
    }
    for (uint32_t i = 0; i < count; i++) {
        c->done[member[i]][streams[i]]++;
        c->moves[member[i]]++;
        c->held[member[i]][streams[i]].moves = 0;
    }
    return true;
}

static bool all_done(const gal_content *c)
{
    for (uint32_t r = 0; r < c->rank_count; r++) {
        for (uint32_t t = 0; t < GAL_STREAM_COUNT; t++) {
            if (head_of(c, r, t) != NULL) {
                return false;
            }
        }
    }
    return true;
}

static void shuffle(uint32_t *order, uint32_t count, uint64_t *random)
{
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = gal_random_below(random, i);
        uint32_t kept = order[i - 1];
        order[i - 1] = order[j];
        order[j] = kept;
    }
}

/* Streams of all ranks in an order of preference that changes now and then: often enough a stream runs as far ahead,
 * or stays as far behind, as the waits let it. */
bool gal_content_interleave(gal_content *c, uint64_t seed, uint64_t *state)
{
    uint32_t order[GAL_CONTENT_RANKS_MAX * GAL_STREAM_COUNT];
    uint32_t count = c->rank_count * GAL_STREAM_COUNT;
    uint64_t random = seed;
    uint32_t patience = 1u << (2 + gal_random_below(&random, 12));
    for (uint32_t i = 0; i < count; i++) {
        order[i] = i;
    }
    for (uint32_t r = 0; r < c->rank_count; r++) {
        c->moves[r] = 1;
        memset(c->held[r], 0, sizeof c->held[r]);
    }
    c->apart = false;
    gal_content_initialise(c);
    uint32_t left = 0;
    for (bool moved = true; moved;) {
        if (left-- == 0) {
            shuffle(order, count, &random);
            left = patience;
        }
        moved = false;
        for (uint32_t i = 0; i < count && !moved; i++) {
            const uint32_t rank = order[i] / GAL_STREAM_COUNT, stream = order[i] % GAL_STREAM_COUNT;
            moved = !is_held(c, rank, stream) && advance(c, rank, stream);
        }
    }
    *state = gal_content_state(c);
    return all_done(c);
}
