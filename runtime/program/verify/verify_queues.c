/* Queues without time: do the stages of a plan wait for each other in circles, and do partners mean the same?
 *
 * Proves, for several mappings of streams to hardware queues: with rendezvous (no operation between stages completes
 * before all its members have posted it) every queue of every stage runs empty; the n-th send of a channel meets the
 * n-th receive, the n-th relation of all stages its likes, equal in operation, reduction, bytes, fragment and
 * microbatch. By class: all devices of a stage issue the same list, and a group inside the stage has members of that
 * stage alone, so its members meet in order; the system has no choices (a marked graph), so if the classes finish in
 * lockstep, the ranks finish.
 * Does not prove: which values are sent (types), nor races (clocks).
 *
 * Inside a stage waits point backwards in issue order, so only operations between stages can block. Each is reduced to
 * the numbers of such operations that must be complete, per stream, before it is posted. Queues that several streams
 * share hold sends and receives only, so sharing adds nothing but an order among them. */
#include "runtime/program/verify/verify.h"
#include "runtime/program/verify/verify_internal.h"

#include <stdlib.h>
#include <string.h>

enum { LISTS = 2, MAPPINGS = 2 };

/* Hardware queues of the streams. Merged ones hold nothing but sends and receives (check_form). Interleaved stages are
 * a ring: with one queue per direction all of them may be at a send that the next one's own send keeps from being
 * received, so there the first mapping alone is asked for. */
static const struct {
    const char *name;
    uint8_t queue_of[GAL_STREAM_COUNT];
} mappings[MAPPINGS] = {{"a queue per stream", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
                        {"a queue per direction of the pipeline", {0, 1, 2, 3, 4, 4, 5, 5, 6, 7, 8}}};

/* An operation between stages, of one call. need[t]: how many such operations of stream t come before. */
typedef struct crossing {
    gal_event event;
    uint32_t number;         /* in its stream, among all instructions */
    uint32_t turn[MAPPINGS]; /* in its hardware queue, among operations between stages */
    uint32_t need[GAL_STREAM_COUNT];
} crossing;

typedef struct queue_line {
    crossing *crossing; /* of one stream of one stage, in order */
    uint32_t count, capacity, done;
} queue_line;

/* The order in which a stage issues the operations of one relation. */
typedef struct relation {
    uint32_t *crossing; /* stream << 28 | index, in issue order */
    uint32_t count, capacity;
} relation;

static uint32_t mapping_count(const gal_program *first)
{
    return first->chunk_count > 1 ? 1 : MAPPINGS;
}

/* The last ones are of the shared tensors. */
enum { TO_NEXT, TO_PREVIOUS, FROM_NEXT, FROM_PREVIOUS, OF_WORLD, OF_SHARED, CHANNELS = OF_SHARED + GAL_SHARED_COUNT };

typedef struct stage_queues {
    const gal_program *program;
    uint32_t issued[MAPPINGS][GAL_STREAM_COUNT]; /* per hardware queue */
    uint32_t done[GAL_STREAM_COUNT];             /* per hardware queue of the mapping that is run */
    queue_line line[GAL_STREAM_COUNT];
    relation channel[CHANNELS];
} stage_queues;

static int channel_of(const gal_instruction *in)
{
    switch (in->group) {
    case GAL_GROUP_NEXT:
        return in->op == GAL_OP_SEND ? TO_NEXT : FROM_NEXT;
    case GAL_GROUP_PREVIOUS:
        return in->op == GAL_OP_SEND ? TO_PREVIOUS : FROM_PREVIOUS;
    case GAL_GROUP_WORLD:
        return OF_WORLD;
    default:
        return gal_shared_of_group(in->group) == GAL_SHARED_COUNT ? -1
                                                                  : OF_SHARED + (int)gal_shared_of_group(in->group);
    }
}

static const char *form_rule_broken(const gal_program *p, const gal_instruction *in)
{
    bool point_to_point = in->op == GAL_OP_SEND || in->op == GAL_OP_RECEIVE;
    bool neighbour = in->group == GAL_GROUP_NEXT || in->group == GAL_GROUP_PREVIOUS;
    if (in->stream >= GAL_STREAM_SEND_FORWARD && in->stream <= GAL_STREAM_RECEIVE_BACKWARD && !point_to_point) {
        return "a stream of sends and receives carries something else";
    }
    if (!gal_op_is_collective[in->op]) {
        return (in->group & GAL_GROUP_RELATION) != 0 ? "a kernel over a relation between stages" : NULL;
    }
    if (point_to_point != neighbour) {
        return "sends and receives, and nothing else, are between neighbouring stages";
    }
    const bool ring = p->chunk_count > 1 && p->stage_count > 1;
    if ((in->group == GAL_GROUP_NEXT && !ring && p->stage + 1 == p->stage_count) ||
        (in->group == GAL_GROUP_PREVIOUS && !ring && p->stage == 0) ||
        (gal_shared_of_group(in->group) != GAL_SHARED_COUNT &&
         !gal_stage_set_has(&p->holders[gal_shared_of_group(in->group)], p->stage))) {
        return "the partner stage does not exist";
    }
    if ((in->group & GAL_GROUP_RELATION) != 0 ? channel_of(in) < 0 : in->group >> p->atoms.count != 0) {
        return "an unknown group";
    }
    if (in->group == GAL_GROUP_NONE) {
        return "a collective over nobody";
    }
    return (in->group & GAL_GROUP_RELATION) != 0 && !point_to_point && in->op != GAL_OP_ALL_REDUCE
               ? "only all_reduce spans stages"
               : NULL;
}

static bool grow(void **array, uint32_t *capacity, uint32_t count, size_t element_bytes)
{
    if (count < *capacity) {
        return true;
    }
    uint32_t wanted = *capacity == 0 ? 256 : *capacity * 2;
    void *grown = realloc(*array, wanted * element_bytes);
    if (grown == NULL) {
        return false;
    }
    *array = grown;
    *capacity = wanted;
    return true;
}

static bool add_crossing(stage_queues *s, const gal_event *event, uint32_t number,
                         const uint32_t known[GAL_STREAM_COUNT])
{
    uint32_t stream = event->instruction->stream;
    queue_line *line = &s->line[stream];
    relation *channel = &s->channel[channel_of(event->instruction)];
    void *crossings = line->crossing;
    void *numbers = channel->crossing;
    bool room = grow(&crossings, &line->capacity, line->count, sizeof *line->crossing);
    line->crossing = crossings;
    room = room && grow(&numbers, &channel->capacity, channel->count, sizeof *channel->crossing);
    channel->crossing = numbers;
    if (!room) {
        return false;
    }
    crossing *c = &line->crossing[line->count];
    c->event = *event;
    c->number = number;
    for (uint32_t t = 0; t < GAL_STREAM_COUNT; t++) { /* operations of t numbered up to known[t] */
        uint32_t below = s->line[t].count;
        while (below > 0 && s->line[t].crossing[below - 1].number > known[t]) {
            below--;
        }
        c->need[t] = below;
    }
    for (uint32_t m = 0; m < MAPPINGS; m++) {
        c->turn[m] = s->issued[m][mappings[m].queue_of[stream]]++;
    }
    channel->crossing[channel->count++] = stream << 28 | line->count++;
    return true;
}

static gal_code expand_call(stage_queues *s, gal_order *order, const gal_call *call, gal_error *err)
{
    const gal_program *p = s->program;
    gal_order_begin_call(order, call->microbatch);
    gal_event event = {.fragment = call->fragment, .microbatch = call->microbatch};
    for (uint32_t i = 0; i < p->fragment[call->fragment].count; i++) {
        uint32_t known[GAL_STREAM_COUNT];
        event.instruction = &p->instruction[p->fragment[call->fragment].first + i];
        event.position = i;
        uint32_t number = gal_order_issue(order, &event, known);
        if ((event.instruction->group & GAL_GROUP_RELATION) != 0 && !add_crossing(s, &event, number, known)) {
            return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
        }
    }
    return GAL_OK;
}

static gal_code check_form(const gal_program *p, gal_error *err)
{
    for (uint32_t f = 0; f < gal_program_fragments(p); f++) {
        for (uint32_t i = 0; i < p->fragment[f].count; i++) {
            const char *rule = form_rule_broken(p, &p->instruction[p->fragment[f].first + i]);
            if (rule != NULL) {
                return gal_refuse(err, p, f, i, "%s", rule);
            }
        }
    }
    return GAL_OK;
}

static gal_code expand_stage(stage_queues *s, gal_error *err)
{
    const gal_program *p = s->program;
    const gal_call_list lists[LISTS] = {{p->call, p->call_count}, {p->evaluate_call, p->evaluate_call_count}};
    gal_order order;
    gal_code code = gal_order_init(&order, p, lists, LISTS, err);
    for (uint32_t l = 0; l < LISTS; l++) {
        for (uint32_t i = 0; code == GAL_OK && i < lists[l].count; i++) {
            code = expand_call(s, &order, &lists[l].call[i], err);
        }
    }
    gal_order_free(&order);
    return code;
}

static crossing *channel_entry(const stage_queues *s, uint32_t which, uint32_t index)
{
    uint32_t packed = s->channel[which].crossing[index];
    return &s->line[packed >> 28].crossing[packed & 0x0fffffffu];
}

/* The piece of the chain that the event is of. */
static uint32_t piece_of(const stage_queues *s, const crossing *c)
{
    return gal_fragment_chunk(c->event.fragment) * s->program->stage_count + s->program->stage;
}

/* Both ends are in the same kind of fragment, of pieces that follow each other (channels are matched from x to y). */
static bool fragments_agree(const stage_queues *a, const crossing *x, const stage_queues *b, const crossing *y)
{
    const bool neighbours = x->event.instruction->group == GAL_GROUP_NEXT;
    return gal_fragment_kind_of(x->event.fragment) == gal_fragment_kind_of(y->event.fragment) &&
           (!neighbours || piece_of(a, x) + 1 == piece_of(b, y));
}

static bool partners_agree(const stage_queues *a, const crossing *x, const stage_queues *b, const crossing *y)
{
    const gal_shape *left = &a->program->shape[x->event.instruction->shape];
    const gal_shape *right = &b->program->shape[y->event.instruction->shape];
    bool same_reduction = left->op != GAL_OP_ALL_REDUCE || left->dims[1] == right->dims[1];
    return x->event.instruction->bytes == y->event.instruction->bytes && left->dtype == right->dtype &&
           same_reduction && x->event.microbatch == y->event.microbatch && fragments_agree(a, x, b, y);
}

/* Partners in two channels one by one; the shorter channel is a missing partner. */
static gal_code match(const stage_queues *a, uint32_t which_a, const stage_queues *b, uint32_t which_b, gal_error *err)
{
    uint32_t count_a = a->channel[which_a].count;
    uint32_t count_b = b->channel[which_b].count;
    for (uint32_t i = 0; i < count_a || i < count_b; i++) {
        const crossing *x = i < count_a ? channel_entry(a, which_a, i) : NULL;
        const crossing *y = i < count_b ? channel_entry(b, which_b, i) : NULL;
        const stage_queues *own = x != NULL ? a : b;
        const crossing *at = x != NULL ? x : y;
        uint32_t other = (own == a ? b : a)->program->stage;
        if (x == NULL || y == NULL) {
            return gal_refuse(err, own->program, at->event.fragment, at->event.position,
                              "microbatch %u: stage %u has no partner for it", at->event.microbatch, other);
        }
        if (!partners_agree(a, x, b, y)) {
            char name[64];
            return gal_refuse(err, a->program, x->event.fragment, x->event.position,
                              "microbatch %u: its partner, %s instruction %u of stage %u, microbatch %u, %llu bytes, "
                              "is another operation",
                              x->event.microbatch, gal_fragment_name(b->program, y->event.fragment, name),
                              y->event.position, other, y->event.microbatch,
                              (unsigned long long)y->event.instruction->bytes);
        }
    }
    return GAL_OK;
}

/* Whether the stage takes part in the operations of a channel that is no pair of neighbours. */
static bool takes_part(const stage_queues *s, uint32_t channel)
{
    return channel == OF_WORLD || gal_stage_set_has(&s->program->holders[channel - OF_SHARED], s->program->stage);
}

/* Every stage that takes part with the next one that does. */
static gal_code match_set(const stage_queues *stages, uint32_t stage_count, uint32_t channel, gal_error *err)
{
    gal_code code = GAL_OK;
    const stage_queues *before = NULL;
    for (uint32_t s = 0; code == GAL_OK && s < stage_count; s++) {
        if (takes_part(&stages[s], channel)) {
            code = before != NULL ? match(before, channel, &stages[s], channel, err) : GAL_OK;
            before = &stages[s];
        }
    }
    return code;
}

/* Border s lies behind stage s; the last one is between the last stage and the first, empty unless interleaved. */
static gal_code match_all(const stage_queues *stages, uint32_t stage_count, gal_error *err)
{
    gal_code code = GAL_OK;
    for (uint32_t s = 0; code == GAL_OK && stage_count > 1 && s < stage_count; s++) {
        const stage_queues *next = &stages[(s + 1) % stage_count];
        code = match(&stages[s], TO_NEXT, next, FROM_PREVIOUS, err);
        code = code == GAL_OK ? match(&stages[s], FROM_NEXT, next, TO_PREVIOUS, err) : code;
    }
    for (uint32_t channel = OF_WORLD; code == GAL_OK && channel < CHANNELS; channel++) {
        code = match_set(stages, stage_count, channel, err);
    }
    return code;
}

static bool is_posted(const stage_queues *s, uint32_t packed, uint32_t mapping)
{
    const queue_line *line = &s->line[packed >> 28];
    uint32_t index = packed & 0x0fffffffu;
    const crossing *c = &line->crossing[index];
    if (line->done != index || s->done[mappings[mapping].queue_of[packed >> 28]] != c->turn[mapping]) {
        return false;
    }
    for (uint32_t t = 0; t < GAL_STREAM_COUNT; t++) {
        if (s->line[t].done < c->need[t]) {
            return false;
        }
    }
    return true;
}

static void complete(stage_queues *s, uint32_t packed, uint32_t mapping)
{
    s->line[packed >> 28].done++;
    s->done[mappings[mapping].queue_of[packed >> 28]]++;
}

/* Completes as many operations of the relation as are posted by both ends; channels are matched already. */
static bool advance_pair(stage_queues *a, uint32_t which_a, stage_queues *b, uint32_t which_b, uint32_t mapping,
                         uint32_t *next)
{
    bool moved = false;
    while (*next < a->channel[which_a].count) {
        uint32_t x = a->channel[which_a].crossing[*next];
        uint32_t y = b->channel[which_b].crossing[*next];
        if (!is_posted(a, x, mapping) || !is_posted(b, y, mapping)) {
            break;
        }
        complete(a, x, mapping);
        complete(b, y, mapping);
        (*next)++;
        moved = true;
    }
    return moved;
}

static bool all_posted(const stage_queues *stages, uint32_t stage_count, uint32_t channel, uint32_t mapping,
                       uint32_t index)
{
    bool any = false;
    for (uint32_t s = 0; s < stage_count; s++) {
        if (!takes_part(&stages[s], channel)) {
            continue;
        }
        if (index >= stages[s].channel[channel].count ||
            !is_posted(&stages[s], stages[s].channel[channel].crossing[index], mapping)) {
            return false;
        }
        any = true;
    }
    return any;
}

static bool advance_set(stage_queues *stages, uint32_t stage_count, uint32_t channel, uint32_t mapping, uint32_t *next)
{
    bool moved = false;
    for (; all_posted(stages, stage_count, channel, mapping, *next); (*next)++, moved = true) {
        for (uint32_t s = 0; s < stage_count; s++) {
            if (takes_part(&stages[s], channel)) {
                complete(&stages[s], stages[s].channel[channel].crossing[*next], mapping);
            }
        }
    }
    return moved;
}

static gal_code refuse_stuck(const stage_queues *stages, uint32_t stage_count, uint32_t mapping, gal_error *err)
{
    for (uint32_t s = 0; s < stage_count; s++) {
        for (uint32_t t = 0; t < GAL_STREAM_COUNT; t++) {
            const queue_line *line = &stages[s].line[t];
            if (line->done < line->count) {
                const gal_event *event = &line->crossing[line->done].event;
                return gal_refuse(err, stages[s].program, event->fragment, event->position,
                                  "deadlock at microbatch %u (%s)", event->microbatch, mappings[mapping].name);
            }
        }
    }
    return GAL_OK;
}

/* next[s]: forward of border s; next[P + s]: backward; then the channels of more than two stages. */
static gal_code run_queues(stage_queues *stages, uint32_t stage_count, uint32_t mapping, gal_error *err)
{
    uint32_t *next = calloc((size_t)stage_count * 2 + CHANNELS, sizeof *next);
    if (next == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    for (uint32_t s = 0; s < stage_count; s++) {
        memset(stages[s].done, 0, sizeof stages[s].done);
        for (uint32_t t = 0; t < GAL_STREAM_COUNT; t++) {
            stages[s].line[t].done = 0;
        }
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t s = 0; s < stage_count; s++) {
            moved |=
                advance_pair(&stages[s], TO_NEXT, &stages[(s + 1) % stage_count], FROM_PREVIOUS, mapping, &next[s]);
        }
        for (uint32_t s = stage_count; s-- > 0;) {
            moved |= advance_pair(&stages[s], FROM_NEXT, &stages[(s + 1) % stage_count], TO_PREVIOUS, mapping,
                                  &next[stage_count + s]);
        }
        for (uint32_t channel = OF_WORLD; channel < CHANNELS; channel++) {
            moved |= advance_set(stages, stage_count, channel, mapping, &next[2 * stage_count + channel]);
        }
    }
    free(next);
    return refuse_stuck(stages, stage_count, mapping, err);
}

static void free_stages(stage_queues *stages, uint32_t stage_count)
{
    for (uint32_t s = 0; s < stage_count; s++) {
        for (uint32_t t = 0; t < GAL_STREAM_COUNT; t++) {
            free(stages[s].line[t].crossing);
        }
        for (uint32_t c = 0; c < CHANNELS; c++) {
            free(stages[s].channel[c].crossing);
        }
    }
    free(stages);
}

gal_code gal_verify_queues(gal_program *const *programs, uint32_t stage_count, gal_error *err)
{
    gal_code code = GAL_OK;
    stage_queues *stages = calloc(stage_count, sizeof *stages);
    if (stages == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    for (uint32_t s = 0; s < stage_count; s++) {
        stages[s].program = programs[s];
        GAL_TRY(gal_check_waits(programs[s], err));
        GAL_TRY(check_form(programs[s], err));
        GAL_TRY(expand_stage(&stages[s], err));
    }
    GAL_TRY(match_all(stages, stage_count, err));
    for (uint32_t m = 0; m < mapping_count(programs[0]); m++) {
        GAL_TRY(run_queues(stages, stage_count, m, err));
    }
cleanup:
    free_stages(stages, stage_count);
    return code;
}
