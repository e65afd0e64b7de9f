#include "costmodel/expand.h"

#include <stdlib.h>
#include <string.h>

/* A buffer and a stream whose accesses are waited for. */
typedef struct pair {
    uint32_t first_item, item_count; /* into latest */
    uint32_t stream;
    uint32_t seen; /* 1 + the last fragment whose accesses of it were listed */
} pair;

typedef struct access {
    uint32_t pair;
    uint32_t steps; /* first the instruction; when steps are numbered, theirs */
} access;

typedef struct fragment_accesses {
    uint32_t first_access, access_count; /* into access */
    uint32_t first_pair, pair_count;     /* into awaited: the pairs that its waits on buffers name, in wait order */
} fragment_accesses;

typedef struct expander {
    const gal_program *program;
    const gal_cost *cost;
    gal_expand_options options;
    gal_expansion *out;
    uint32_t *pair_of; /* [buffer * streams + stream]: index + 1 into pair; owns the memory of the next seven */
    pair *pair;
    access *access;
    uint32_t *awaited;
    uint32_t *steps_to;  /* [instruction]: number in its fragment and stream, from 1 */
    uint8_t *observed;   /* [instruction]: another stream may wait for its end */
    bool accesses_known; /* of all fragments that are called: pair.seen */
    uint32_t pair_count, item_count, awaited_count, access_count, binding_count, wait_count;
    uint32_t *latest; /* [pair's items]: steps of the stream, earlier calls */
    fragment_accesses *fragment;
    gal_step_list (*list)[GAL_STREAM_COUNT]; /* [fragment]: out's, until its memory is taken */
} expander;

static gal_code out_of_memory(gal_error *err)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: simulation");
}

/* One block of memory: this is most of what a price does. */
static gal_code expander_create(expander *e, gal_error *err)
{
    const gal_program *program = e->program;
    const size_t instructions = (size_t)program->instruction_count + 1;
    const size_t waits = (size_t)program->wait_count + 1;
    const size_t operands = (size_t)program->operand_count + 1;
    const size_t pairs = ((size_t)program->buffer_count + 1) * GAL_STREAM_COUNT;
    const size_t fragments = gal_program_fragments(program);
    e->pair_of = malloc(pairs * sizeof *e->pair_of + fragments * (sizeof *e->fragment + sizeof *e->list) +
                        waits * sizeof *e->pair + operands * sizeof *e->access + waits * sizeof *e->awaited +
                        instructions * (sizeof *e->steps_to + sizeof *e->observed));
    if (e->pair_of == NULL) {
        return out_of_memory(err);
    }
    e->fragment = (fragment_accesses *)(e->pair_of + pairs);
    e->list = (gal_step_list(*)[GAL_STREAM_COUNT])(e->fragment + fragments);
    e->pair = (pair *)(e->list + fragments);
    e->access = (access *)(e->pair + waits);
    e->awaited = (uint32_t *)(e->access + operands);
    e->steps_to = e->awaited + waits;
    e->observed = (uint8_t *)(e->steps_to + instructions);
    memset(e->pair_of, 0, pairs * sizeof *e->pair_of);
    memset(e->fragment, 0, fragments * sizeof *e->fragment);
    memset(e->list, 0, fragments * sizeof *e->list);
    memset(e->observed, 0, instructions);
    return GAL_OK;
}

/* What is kept, once it is counted: hundreds of these are. */
static gal_code reserve_steps(expander *e, gal_error *err)
{
    const size_t fragments = gal_program_fragments(e->program);
    gal_expansion *out = e->out;
    out->step = malloc(((size_t)out->step_count + 1) * sizeof *out->step + fragments * sizeof *out->list +
                       ((size_t)e->binding_count + 1) * sizeof *out->wait +
                       ((size_t)e->program->instruction_count + 1) * sizeof *out->step_of);
    if (out->step == NULL) {
        return out_of_memory(err);
    }
    out->list = (gal_step_list(*)[GAL_STREAM_COUNT])(out->step + out->step_count + 1);
    memcpy(out->list, e->list, fragments * sizeof *out->list);
    out->wait = (gal_step_wait *)(out->list + fragments);
    out->step_of = (uint32_t *)(out->wait + e->binding_count + 1);
    return GAL_OK;
}

/* Transfers of a stage alone are not there. */
static bool left_out(const expander *e, uint32_t stream)
{
    return e->options.alone && stream >= GAL_STREAM_SEND_FORWARD && stream <= GAL_STREAM_RECEIVE_BACKWARD;
}

static bool is_accessed(const expander *e, uint32_t buffer, uint32_t stream)
{
    const uint32_t index = e->pair_of[(size_t)buffer * GAL_STREAM_COUNT + stream];
    return index != 0 && e->pair[index - 1].seen != 0;
}

/* Its own stream is in order anyway, and of what no fragment that is called does there is nothing to wait for. */
static bool binds(const expander *e, const gal_instruction *in, const gal_wait *wait)
{
    if (wait->stream == in->stream || left_out(e, wait->stream)) {
        return false;
    }
    return wait->kind != GAL_WAIT_BUFFER || !e->accesses_known || is_accessed(e, wait->target, wait->stream);
}

/* A set of two stages is a pair. */
static void relate_to_set(const gal_program *program, const gal_instruction *in, gal_step *step)
{
    const gal_shared shared = gal_shared_of_group(in->group);
    const gal_stage_set *set = shared != GAL_SHARED_COUNT ? &program->holders[shared] : NULL;
    step->relation = GAL_RELATION_SET;
    step->partner_stage = shared;
    if (set != NULL && gal_stage_set_count(set) == 2) {
        const uint32_t first = set->range[0].first, last = set->range[set->range_count - 1].end - 1;
        step->relation = GAL_RELATION_PAIR;
        step->partner_stream = in->stream;
        step->partner_stage = program->stage == first ? last : first;
    }
}

static void set_relation(const expander *e, const gal_instruction *in, gal_step *step)
{
    static const uint8_t other_end[GAL_STREAM_COUNT] = {
        [GAL_STREAM_SEND_FORWARD] = GAL_STREAM_RECEIVE_FORWARD,
        [GAL_STREAM_RECEIVE_FORWARD] = GAL_STREAM_SEND_FORWARD,
        [GAL_STREAM_SEND_BACKWARD] = GAL_STREAM_RECEIVE_BACKWARD,
        [GAL_STREAM_RECEIVE_BACKWARD] = GAL_STREAM_SEND_BACKWARD,
    };
    const uint32_t stage = e->program->stage;
    step->relation = GAL_RELATION_NONE;
    if (e->options.alone || (in->group & GAL_GROUP_RELATION) == 0) {
        return;
    }
    step->relation = GAL_RELATION_PAIR;
    step->partner_stream = other_end[in->stream];
    if (in->group == GAL_GROUP_NEXT) {
        step->partner_stage = (stage + 1) % e->program->stage_count;
    } else if (in->group == GAL_GROUP_PREVIOUS) {
        step->partner_stage = (stage + e->program->stage_count - 1) % e->program->stage_count;
    } else {
        relate_to_set(e->program, in, step);
    }
}

static uint32_t pair_index(expander *e, uint32_t buffer, uint32_t stream)
{
    uint32_t *index = &e->pair_of[(size_t)buffer * GAL_STREAM_COUNT + stream];
    if (*index == 0) {
        const uint32_t items = e->program->arena[e->program->buffer[buffer].arena].count;
        e->pair[e->pair_count] = (pair){.first_item = e->item_count, .item_count = items, .stream = stream};
        e->item_count += items;
        *index = ++e->pair_count;
    }
    return *index - 1;
}

/* Numbers the pairs of buffer and stream that waits name. */
static void name_pairs(expander *e, uint32_t f)
{
    const gal_program *program = e->program;
    const gal_fragment *fragment = &program->fragment[f];
    for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
        const gal_instruction *in = &program->instruction[i];
        for (uint32_t w = 0; w < in->wait_count; w++) {
            const gal_wait *wait = &program->wait[in->first_wait + w];
            if (left_out(e, in->stream) || !binds(e, in, wait)) {
                continue;
            }
            e->binding_count++;
            if (wait->kind == GAL_WAIT_INSTRUCTION) {
                e->observed[fragment->first + wait->target] = 1;
            } else if (wait->kind == GAL_WAIT_BUFFER) {
                (void)pair_index(e, wait->target, wait->stream);
            }
        }
    }
}

/* The last access of every awaited pair in the fragment: a later call may wait for it. */
static void list_accesses(expander *e, uint32_t f)
{
    const gal_program *program = e->program;
    const gal_fragment *fragment = &program->fragment[f];
    fragment_accesses *of = &e->fragment[f];
    of->first_access = e->access_count;
    for (uint32_t i = fragment->first + fragment->count; i-- > fragment->first;) {
        const gal_instruction *in = &program->instruction[i];
        const gal_operand *operand = &program->operand[in->first_operand];
        for (uint32_t o = 0; o < in->operand_count; o++) {
            const uint32_t index = e->pair_of[(size_t)operand[o].buffer * GAL_STREAM_COUNT + in->stream];
            if (index != 0 && e->pair[index - 1].seen != f + 1) {
                e->pair[index - 1].seen = f + 1;
                e->observed[i] = 1;
                e->access[e->access_count++] = (access){index - 1, i};
            }
        }
    }
    of->access_count = e->access_count - of->first_access;
}

static bool waits_for_others(const expander *e, const gal_instruction *in)
{
    for (uint32_t w = 0; w < in->wait_count; w++) {
        if (binds(e, in, &e->program->wait[in->first_wait + w])) {
            return true;
        }
    }
    return false;
}

/* Whether a kernel may run in one step with the last of its stream before it. */
static bool joins(const expander *e, uint32_t last, uint32_t i)
{
    const gal_instruction *before = &e->program->instruction[last];
    const gal_instruction *in = &e->program->instruction[i];
    return !e->options.each && in->stream == GAL_STREAM_COMPUTE && !e->observed[last] && before->block == in->block &&
           !gal_op_is_collective[in->op] && !waits_for_others(e, in);
}

/* How many steps each stream has, and which an instruction is in. */
static void number_steps(expander *e, uint32_t f)
{
    const gal_program *program = e->program;
    const gal_fragment *fragment = &program->fragment[f];
    gal_step_list *list = e->list[f];
    uint32_t last[GAL_STREAM_COUNT];
    for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
        const uint32_t stream = program->instruction[i].stream;
        if (left_out(e, stream)) {
            continue;
        }
        list[stream].count += list[stream].count == 0 || !joins(e, last[stream], i);
        e->steps_to[i] = list[stream].count;
        last[stream] = i;
    }
    for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
        list[stream].first = e->out->step_count;
        e->out->step_count += list[stream].count;
    }
    const fragment_accesses *of = &e->fragment[f];
    for (uint32_t a = of->first_access; a < of->first_access + of->access_count; a++) {
        e->access[a].steps = e->steps_to[e->access[a].steps];
    }
}

static void list_waits(expander *e, uint32_t f, const gal_instruction *in, gal_step *step)
{
    step->first_wait = e->wait_count;
    for (uint32_t w = 0; w < in->wait_count; w++) {
        const gal_wait *wait = &e->program->wait[in->first_wait + w];
        if (!binds(e, in, wait)) {
            continue;
        }
        gal_step_wait *to = &e->out->wait[e->wait_count++];
        *to = (gal_step_wait){.kind = wait->kind, .stream = wait->stream, .target = 0};
        if (wait->kind == GAL_WAIT_INSTRUCTION) {
            to->target = e->steps_to[e->program->fragment[f].first + wait->target];
        } else if (wait->kind == GAL_WAIT_BUFFER) {
            to->target = e->fragment[f].pair_count++;
            e->awaited[e->awaited_count++] = pair_index(e, wait->target, wait->stream);
        }
    }
    step->wait_count = (uint16_t)(e->wait_count - step->first_wait);
}

static gal_cost cost_of(const expander *e, uint32_t instruction)
{
    if (e->cost != NULL) {
        return e->cost[instruction];
    }
    const bool collective = gal_op_is_collective[e->program->instruction[instruction].op] != 0;
    return (gal_cost){.activity = (uint8_t)(collective ? GAL_ACTIVITY_COMMUNICATION : GAL_ACTIVITY_COMPUTE)};
}

/* A kernel that joins the step before it has no waits for other streams. */
static void list_steps(expander *e, uint32_t f)
{
    const gal_program *program = e->program;
    const gal_fragment *fragment = &program->fragment[f];
    uint32_t begun[GAL_STREAM_COUNT] = {0};
    e->fragment[f].first_pair = e->awaited_count;
    for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
        const gal_instruction *in = &program->instruction[i];
        if (left_out(e, in->stream)) {
            continue;
        }
        const gal_cost cost = cost_of(e, i);
        const uint32_t at = e->out->list[f][in->stream].first + e->steps_to[i] - 1;
        gal_step *step = &e->out->step[at];
        e->out->step_of[i] = at;
        if (e->steps_to[i] == begun[in->stream]) {
            step->seconds += cost.seconds;
            continue;
        }
        begun[in->stream] = e->steps_to[i];
        *step = (gal_step){.seconds = cost.seconds,
                           .instruction = i,
                           .activity = cost.activity,
                           .level = cost.level,
                           .block = in->block - program->first_block};
        set_relation(e, in, step);
        list_waits(e, f, in, step);
    }
}

static gal_code list_fragments(expander *e, gal_error *err)
{
    bool called[GAL_FRAGMENTS_MAX] = {false};
    for (uint32_t c = 0; c < e->out->call_count; c++) {
        called[e->out->call[c].fragment] = true;
    }
    for (uint32_t f = 0; f < gal_program_fragments(e->program); f++) {
        if (called[f]) {
            name_pairs(e, f);
        }
    }
    for (uint32_t f = 0; f < gal_program_fragments(e->program); f++) {
        if (called[f]) {
            list_accesses(e, f);
        }
    }
    e->accesses_known = true;
    for (uint32_t f = 0; f < gal_program_fragments(e->program); f++) {
        if (called[f]) {
            number_steps(e, f);
        }
    }
    const gal_code code = reserve_steps(e, err);
    for (uint32_t f = 0; f < gal_program_fragments(e->program) && code == GAL_OK; f++) {
        if (called[f]) {
            list_steps(e, f);
        }
    }
    return code;
}

static gal_code reserve_calls(expander *e, gal_error *err)
{
    gal_expansion *out = e->out;
    const size_t calls = (size_t)out->call_count + 1;
    size_t rows = 1;
    for (uint32_t c = 0; c < out->call_count; c++) {
        rows += e->fragment[out->call[c].fragment].pair_count;
    }
    e->latest = calloc((size_t)e->item_count + 1, sizeof *e->latest);
    out->before = malloc(calls * (sizeof *out->before + sizeof *out->first_row) + rows * sizeof *out->row);
    if (e->latest == NULL || out->before == NULL || rows > UINT32_MAX) {
        return out_of_memory(err);
    }
    out->first_row = (uint32_t *)(out->before + calls);
    out->row = out->first_row + calls;
    return GAL_OK;
}

static void resolve_call(expander *e, uint32_t c, uint32_t completed[GAL_STREAM_COUNT], uint32_t *row_count)
{
    gal_expansion *out = e->out;
    const gal_call *call = &out->call[c];
    const fragment_accesses *of = &e->fragment[call->fragment];
    memcpy(out->before[c], completed, sizeof out->before[c]);
    out->first_row[c] = *row_count;
    for (uint32_t i = 0; i < of->pair_count; i++) {
        const pair *p = &e->pair[e->awaited[of->first_pair + i]];
        out->row[(*row_count)++] = e->latest[p->first_item + call->microbatch % p->item_count];
    }
    for (uint32_t a = of->first_access; a < of->first_access + of->access_count; a++) {
        const pair *p = &e->pair[e->access[a].pair];
        e->latest[p->first_item + call->microbatch % p->item_count] = completed[p->stream] + e->access[a].steps;
    }
    for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
        completed[stream] += out->list[call->fragment][stream].count;
        out->event_count += out->list[call->fragment][stream].count;
    }
}

gal_code gal_expand(const gal_program *program, const gal_call *call, uint32_t call_count, const gal_cost *cost,
                    gal_expand_options options, gal_expansion *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_expansion expansion = {.call = call, .call_count = call_count};
    expander e = {.program = program, .cost = cost, .options = options, .out = &expansion};
    uint32_t completed[GAL_STREAM_COUNT] = {0};
    uint32_t row_count = 0;
    GAL_TRY(expander_create(&e, err));
    GAL_TRY(list_fragments(&e, err));
    GAL_TRY(reserve_calls(&e, err));
    for (uint32_t c = 0; c < call_count; c++) {
        resolve_call(&e, c, completed, &row_count);
    }
    *out = expansion;
    expansion.step = NULL;
    expansion.before = NULL;
cleanup:
    free(e.pair_of);
    free(e.latest);
    gal_expansion_free(&expansion);
    return code;
}

void gal_expansion_free(gal_expansion *expansion)
{
    free(expansion->step);
    free(expansion->before);
    memset(expansion, 0, sizeof *expansion);
}
