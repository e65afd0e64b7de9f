/* The form of the schedules. Proves: in a step every microbatch runs forward once and then backward once in every
 * chunk (and then its weight part, where backward is split), each of these in the order of the microbatches (which is
 * what makes "microbatch mod count" a slot); the gradients are synchronised by the last part of the last microbatch and
 * by no other; no more microbatches are in flight than there are items to hold them; the update is last. In an
 * evaluation every microbatch once in every chunk, in order, then the end.
 * Does not prove: in which order the chunks take turns (queues), or anything about instructions. */
#include "runtime/program/verify/verify.h"

static gal_code refuse_call(gal_error *err, const gal_program *p, const gal_call *calls, uint32_t index,
                            const char *rule)
{
    char name[64];
    const uint32_t fragment = calls[index].fragment;
    return gal_fail(err, GAL_NO, "stage %u, call %u (%s of microbatch %u): %s", p->stage, index,
                    fragment < gal_program_fragments(p) ? gal_fragment_name(p, fragment, name) : "unknown fragment",
                    calls[index].microbatch, rule);
}

/* Calls so far. */
typedef struct progress {
    uint32_t forward[GAL_CHUNKS_MAX], backward[GAL_CHUNKS_MAX], weight[GAL_CHUNKS_MAX];
    uint32_t all_backward, all_weight;
} progress;

/* One call of a step. NULL if it is in its place. */
static const char *step_rule_broken(const gal_program *p, uint32_t index, const progress *done)
{
    const gal_call *call = &p->call[index];
    const uint32_t m = p->microbatch_count;
    if (call->fragment >= gal_program_fragments(p)) {
        return "no part of a training step";
    }
    const uint32_t chunk = gal_fragment_chunk(call->fragment);
    const gal_fragment_kind kind = gal_fragment_kind_of(call->fragment);
    const uint32_t forward = done->forward[chunk], backward = done->backward[chunk], weight = done->weight[chunk];
    const uint32_t over = p->split ? weight : backward;
    switch (kind) {
    case GAL_FRAGMENT_FORWARD:
        if (call->microbatch != forward || forward >= m) {
            return "forward must take every microbatch once, in order";
        }
        return forward - over >= p->arena[gal_arena_number(GAL_CLASS_SAVED, chunk)].count
                   ? "more microbatches in flight than the stage keeps"
                   : NULL;
    case GAL_FRAGMENT_BACKWARD:
    case GAL_FRAGMENT_BACKWARD_SYNC:
        if (call->microbatch != backward || backward >= m) {
            return "backward must take every microbatch once, in order";
        }
        if (backward >= forward) {
            return "backward before the forward of its microbatch";
        }
        if (p->split && backward - weight >= p->arena[gal_arena_number(GAL_CLASS_KEPT, chunk)].count) {
            return "more microbatches between the parts of backward than the stage keeps";
        }
        return (kind == GAL_FRAGMENT_BACKWARD_SYNC) == (!p->split && backward + 1 == m)
                   ? NULL
                   : "exactly the backward of the last microbatch synchronises the gradients";
    case GAL_FRAGMENT_WEIGHT:
    case GAL_FRAGMENT_WEIGHT_SYNC:
        if (!p->split || call->microbatch != weight || weight >= backward) {
            return "the weight part must take every microbatch once, in order, after the input part";
        }
        return (kind == GAL_FRAGMENT_WEIGHT_SYNC) == (weight + 1 == m)
                   ? NULL
                   : "exactly the weight part of the last microbatch synchronises the gradients";
    case GAL_FRAGMENT_UPDATE:
        return chunk == 0 && (p->split ? done->all_weight : done->all_backward) == m * p->chunk_count &&
                       index + 1 == p->call_count
                   ? NULL
                   : "the update must be last, after every backward";
    default:
        return "no part of a training step";
    }
}

static gal_code check_step(const gal_program *p, gal_error *err)
{
    progress done = {0};
    for (uint32_t i = 0; i < p->call_count; i++) {
        const char *rule = step_rule_broken(p, i, &done);
        if (rule != NULL) {
            return refuse_call(err, p, p->call, i, rule);
        }
        const gal_fragment_kind kind = gal_fragment_kind_of(p->call[i].fragment);
        const bool backward = kind == GAL_FRAGMENT_BACKWARD || kind == GAL_FRAGMENT_BACKWARD_SYNC;
        done.forward[gal_fragment_chunk(p->call[i].fragment)] += kind == GAL_FRAGMENT_FORWARD;
        done.backward[gal_fragment_chunk(p->call[i].fragment)] += backward;
        done.all_backward += backward;
        const bool weight = kind == GAL_FRAGMENT_WEIGHT || kind == GAL_FRAGMENT_WEIGHT_SYNC;
        done.weight[gal_fragment_chunk(p->call[i].fragment)] += weight;
        done.all_weight += weight;
    }
    if (p->call_count == 0 || p->call[p->call_count - 1].fragment != GAL_FRAGMENT_UPDATE) {
        return gal_fail(err, GAL_NO, "stage %u: the step does not end with an update", p->stage);
    }
    return GAL_OK;
}

static gal_code check_evaluation(const gal_program *p, gal_error *err)
{
    const uint32_t m = p->microbatch_count, units = m * p->chunk_count;
    uint32_t next[GAL_CHUNKS_MAX] = {0};
    for (uint32_t i = 0; i < p->evaluate_call_count; i++) {
        const gal_call *call = &p->evaluate_call[i];
        const uint32_t chunk = gal_fragment_chunk(call->fragment);
        bool right = i == units && call->fragment == GAL_FRAGMENT_EVALUATE_END;
        if (i < units && gal_fragment_kind_of(call->fragment) == GAL_FRAGMENT_EVALUATE && chunk < p->chunk_count) {
            right = call->microbatch == next[chunk] && next[chunk] < m;
            next[chunk]++;
        }
        if (!right) {
            return refuse_call(err, p, p->evaluate_call, i,
                               "an evaluation takes every microbatch once, in order, "
                               "and then ends");
        }
    }
    if (p->evaluate_call_count != units + 1) {
        return gal_fail(err, GAL_NO, "stage %u: the evaluation is cut short after %u calls", p->stage,
                        p->evaluate_call_count);
    }
    return GAL_OK;
}

gal_code gal_verify_schedule(gal_program *const *programs, uint32_t stage_count, gal_error *err)
{
    for (uint32_t s = 0; s < stage_count; s++) {
        const gal_program *p = programs[s];
        if (p->microbatch_count != programs[0]->microbatch_count || p->stage != s || p->stage_count != stage_count ||
            p->device_count != programs[0]->device_count || p->chunk_count != programs[0]->chunk_count ||
            p->split != programs[0]->split) {
            return gal_fail(err, GAL_NO, "stage %u: not a stage of the same plan as stage 0", s);
        }
        gal_code code = check_step(p, err);
        code = code == GAL_OK ? check_evaluation(p, err) : code;
        if (code != GAL_OK) {
            return code;
        }
    }
    return GAL_OK;
}
