#include "tests/support/content_internal.h"

static bool operand_reads(const gal_content_place *at, uint32_t k)
{
    uint8_t access = at->stage->program->operand[at->task->in->first_operand + k].access;
    return access == GAL_READ || access == GAL_UPDATE || (access == GAL_ACCUMULATE && at->task->microbatch != 0);
}

static bool operand_writes(const gal_content_place *at, uint32_t k)
{
    return at->stage->program->operand[at->task->in->first_operand + k].access != GAL_READ;
}

/* An instruction may write before it has read everything: an output on top of an input destroys it. */
static void spoil_outputs(const gal_content_place *at)
{
    for (uint32_t k = 0; k < at->task->in->operand_count; k++) {
        if (operand_writes(at, k) && !operand_reads(at, k)) {
            gal_content_write(at, k, false, gal_content_mix(at->rank, 3));
        }
    }
}

void gal_content_run_kernel(const gal_content_place *at)
{
    uint64_t hash = gal_content_mix(at->task->meaning, at->rank);
    spoil_outputs(at);
    for (uint32_t k = 0; k < at->task->in->operand_count; k++) {
        if (operand_reads(at, k)) {
            hash = gal_content_mix(hash, gal_content_read(at, k, false));
        }
    }
    for (uint32_t k = 0; k < at->task->in->operand_count; k++) {
        if (operand_writes(at, k)) {
            gal_content_write(at, k, false, hash);
        }
    }
}

void gal_content_run_collective(const gal_content_place *member, uint32_t count)
{
    const gal_instruction *in = member[0].task->in;
    bool in_place = in->operand_count == 1;
    bool gathers = in->op == GAL_OP_ALL_GATHER;
    bool sums = in->op == GAL_OP_ALL_REDUCE || in->op == GAL_OP_REDUCE_SCATTER || in->op == GAL_OP_REDUCE;
    uint64_t hash = member[0].task->meaning;
    uint64_t sum = 0;
    const uint32_t root = member[0].stage->program->shape[in->shape].dims[1];
    const bool spreads = in->op == GAL_OP_BROADCAST, collects = in->op == GAL_OP_REDUCE;
    for (uint32_t i = 0; i < count; i++) {
        if (!collects || i == root) {
            spoil_outputs(&member[i]);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        if (spreads && i != root) {
            continue;
        }
        uint64_t read = gal_content_read(&member[i], 0, in_place && gathers);
        sum += gal_content_mix(read, 1);
        hash = sums ? hash : gal_content_mix(hash, read);
    }
    hash = sums ? gal_content_mix(hash, sum) : hash;
    for (uint32_t i = 0; i < count; i++) {
        if (collects && i != root) {
            continue;
        }
        uint32_t target = in_place ? 0 : 1;
        bool chunks = in->op == GAL_OP_REDUCE_SCATTER || in->op == GAL_OP_ALL_TO_ALL || in->op == GAL_OP_ROTATE ||
                      in->op == GAL_OP_MIRROR;
        if (in_place &&
            in->op == GAL_OP_REDUCE_SCATTER) { /* what the library leaves in the other chunks is its affair */
            gal_content_write(&member[i], 0, false, gal_content_mix(hash, member[i].rank + 1000));
            gal_content_write(&member[i], 0, true, gal_content_mix(hash, i));
        } else {
            gal_content_write(&member[i], target, false, chunks ? gal_content_mix(hash, i) : hash);
        }
    }
}

/* ---- who takes part ---- */

gal_content_place gal_content_place_of(gal_content *c, uint32_t rank, const gal_content_task *t)
{
    return (gal_content_place){c, &c->stage[rank / c->devices], rank, rank % c->devices, t};
}

bool gal_content_takes_part(const gal_content *c, uint32_t stage, gal_group group)
{
    return group == GAL_GROUP_WORLD ||
           gal_stage_set_has(&c->stage[stage].program->holders[gal_shared_of_group(group)], stage);
}

uint32_t gal_content_members(const gal_content *c, uint32_t rank, const gal_instruction *in, uint32_t *member)
{
    uint32_t stage = rank / c->devices;
    uint32_t device = rank % c->devices;
    uint32_t count = 0;
    if (in->group == GAL_GROUP_WORLD) {
        for (; count < c->rank_count; count++) {
            member[count] = count;
        }
    } else if (gal_shared_of_group(in->group) != GAL_SHARED_COUNT) {
        for (uint32_t s = 0; s < c->stage_count; s++) {
            if (gal_content_takes_part(c, s, in->group)) {
                member[count++] = s * c->devices + device;
            }
        }
    } else if (in->group == GAL_GROUP_NEXT || in->group == GAL_GROUP_PREVIOUS) {
        uint32_t apart = in->group == GAL_GROUP_NEXT ? c->devices : c->rank_count - c->devices;
        uint32_t other = (rank + apart) % c->rank_count;
        bool sends = in->op == GAL_OP_SEND;
        member[count++] = sends ? rank : other;
        member[count++] = sends ? other : rank;
    } else {
        count = gal_group_members(&c->stage[stage].program->atoms, in->group, device, member);
        for (uint32_t i = 0; i < count; i++) {
            member[i] += stage * c->devices;
        }
    }
    return count;
}

bool gal_content_is_partner(const gal_instruction *a, const gal_instruction *b)
{
    if (a->op == GAL_OP_SEND || a->op == GAL_OP_RECEIVE) {
        gal_group opposite = a->group == GAL_GROUP_NEXT ? GAL_GROUP_PREVIOUS : GAL_GROUP_NEXT;
        return b->op == (a->op == GAL_OP_SEND ? GAL_OP_RECEIVE : GAL_OP_SEND) && b->group == opposite;
    }
    return a->op == b->op && a->group == b->group;
}
