#include "tests/support/content_internal.h"

#include <stdlib.h>

typedef struct mailbox {
    uint64_t *content; /* of the sends of a stage in one direction, by device */
    uint32_t sent, taken;
} mailbox;

typedef struct sequential {
    gal_content *content;
    uint32_t *next; /* task of each stage */
    mailbox *box;   /* [stage][direction]: 0 to the previous, 1 to the next */
} sequential;

static void run_in_stage(gal_content *c, uint32_t stage, const gal_content_task *t)
{
    bool seen[GAL_CONTENT_RANKS_MAX] = {false};
    for (uint32_t d = 0; d < c->devices; d++) {
        uint32_t rank = stage * c->devices + d;
        uint32_t member[GAL_CONTENT_RANKS_MAX];
        gal_content_place places[GAL_CONTENT_RANKS_MAX];
        if (!gal_op_is_collective[t->in->op]) {
            places[0] = gal_content_place_of(c, rank, t);
            gal_content_run_kernel(&places[0]);
        } else if (!seen[d]) {
            uint32_t count = gal_content_members(c, rank, t->in, member);
            for (uint32_t i = 0; i < count; i++) {
                places[i] = gal_content_place_of(c, member[i], t);
                seen[member[i] % c->devices] = true;
            }
            gal_content_run_collective(places, count);
        }
    }
}

static bool transfer(sequential *q, uint32_t stage, const gal_content_task *t)
{
    gal_content *c = q->content;
    bool to_next = t->in->group == GAL_GROUP_NEXT;
    if (t->in->op == GAL_OP_SEND) {
        mailbox *box = &q->box[2 * stage + to_next];
        for (uint32_t d = 0; d < c->devices; d++) {
            gal_content_place at = gal_content_place_of(c, stage * c->devices + d, t);
            box->content[(size_t)box->sent * c->devices + d] = gal_content_read(&at, 0, false);
        }
        box->sent++;
        return true;
    }
    mailbox *box = &q->box[2 * ((stage + (to_next ? 1 : c->stage_count - 1)) % c->stage_count) + !to_next];
    if (box->taken == box->sent) {
        return false;
    }
    for (uint32_t d = 0; d < c->devices; d++) {
        gal_content_place at = gal_content_place_of(c, stage * c->devices + d, t);
        gal_content_write(&at, 0, false, gal_content_mix(box->content[(size_t)box->taken * c->devices + d], 2));
    }
    box->taken++;
    return true;
}

static const gal_content_task *next_task(const sequential *q, uint32_t stage)
{
    const gal_content_stage *s = &q->content->stage[stage];
    return q->next[stage] < s->task_count ? &s->task[q->next[stage]] : NULL;
}

/* A reduction over stages, when all of them have come to theirs. */
static bool meet(sequential *q, uint32_t stage, const gal_content_task *t)
{
    gal_content *c = q->content;
    uint32_t member[GAL_CONTENT_RANKS_MAX];
    gal_content_place places[GAL_CONTENT_RANKS_MAX];
    for (uint32_t s = 0; s < c->stage_count; s++) {
        const gal_content_task *other = next_task(q, s);
        if (gal_content_takes_part(c, s, t->in->group) &&
            (other == NULL || !gal_content_is_partner(t->in, other->in))) {
            return false;
        }
    }
    uint32_t groups = t->in->group == GAL_GROUP_WORLD ? 1 : c->devices;
    for (uint32_t d = 0; d < groups; d++) {
        uint32_t count = gal_content_members(c, stage * c->devices + d, t->in, member);
        for (uint32_t i = 0; i < count; i++) {
            places[i] = gal_content_place_of(c, member[i], next_task(q, member[i] / c->devices));
        }
        gal_content_run_collective(places, count);
    }
    for (uint32_t s = 0; s < c->stage_count; s++) {
        q->next[s] += gal_content_takes_part(c, s, t->in->group) && s != stage; /* its own is counted by the caller */
    }
    return true;
}

static bool advance_stage(sequential *q, uint32_t stage)
{
    const gal_content_task *t = next_task(q, stage);
    bool ran = t != NULL;
    if (ran && (t->in->op == GAL_OP_SEND || t->in->op == GAL_OP_RECEIVE)) {
        ran = transfer(q, stage, t);
    } else if (ran && (t->in->group == GAL_GROUP_WORLD || gal_shared_of_group(t->in->group) != GAL_SHARED_COUNT)) {
        ran = meet(q, stage, t);
    } else if (ran) {
        run_in_stage(q->content, stage, t);
    }
    q->next[stage] += ran;
    return ran;
}

bool gal_content_reference(gal_content *c, uint64_t *state)
{
    sequential q = {c, calloc(c->stage_count, sizeof *q.next), calloc((size_t)c->stage_count * 2, sizeof *q.box)};
    GAL_ASSERT(q.next != NULL && q.box != NULL);
    for (uint32_t s = 0; s < 2 * c->stage_count; s++) {
        q.box[s].content = calloc((size_t)c->stage[s / 2].task_count * c->devices + 1, sizeof *q.box[s].content);
        GAL_ASSERT(q.box[s].content != NULL);
    }
    c->apart = true;
    gal_content_initialise(c);
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t s = 0; s < c->stage_count; s++) {
            while (advance_stage(&q, s)) {
                moved = true;
            }
        }
    }
    bool finished = true;
    for (uint32_t s = 0; s < c->stage_count; s++) {
        finished = finished && next_task(&q, s) == NULL;
        free(q.box[2 * s].content);
        free(q.box[2 * s + 1].content);
    }
    free(q.box);
    free(q.next);
    *state = gal_content_state(c);
    return finished;
}
