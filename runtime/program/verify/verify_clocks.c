/* Vector clocks on physical cells over expanded schedules: a step and the beginning of the next; an update, an
 * evaluation, the beginning of a step and its update.
 *
 * Proves, for every rank of the class at once: two accesses to the same bytes, one of them a write, are ordered by
 * waits and queues as the host issues them, so every legal execution computes what the list in issue order does; and
 * in that order every read finds what it names: bytes of its own buffer, written, of the microbatch of the call (but
 * in state and gradients: there, of this step), in rings that blocks share of its own block. Something of what
 * an instruction wrote is read by somebody before it is lost: so a left-out step of a chain shows even where the next
 * one finds an older value of the same type.
 * A view is taken as the union over all ranks, which can only refuse more; verify_types.c proves the ranges.
 * Does not prove: that the value read is the right one of its microbatch (types), nor anything between stages
 * (queues). Assumes that weights and moments are initialised, and that the update is the last call (schedule).
 * Between steps nothing is drained.
 *
 * An item of a class is a sorted run of cells. A write makes one cell of all that it covers, so their number stays
 * that of the live buffers. */
#include "runtime/program/verify/verify_internal.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/program/verify/verify.h"

typedef enum cell_content { NOTHING, INITIAL, WRITTEN } cell_content;

typedef struct cell {
    uint64_t end; /* begins where the one before ends */
    uint32_t buffer, microbatch, block;
    uint32_t event;        /* that wrote it: number in the expanded lists, from 1 */
    uint32_t write_number; /* of that event in its stream */
    uint8_t content, write_stream, list;
    uint16_t readers; /* since then; bit per stream */
    uint32_t read_number[GAL_STREAM_COUNT];
} cell;

/* An event: where it stands, and whether somebody has read what it wrote. A unit that comes from storage in parts is
 * one result, its first part's: of a part alone, as of a bias, backward may read nothing. */
typedef struct result {
    uint32_t position;
    uint32_t whole; /* the event whose result it is a part of; mostly itself */
    uint16_t fragment;
    bool read;
} result;

/* Where an operand lies in an item of its arena. */
typedef struct reach {
    uint64_t begin, end;
    uint32_t buffer;
    uint16_t arena;
    uint8_t access;
} reach;

typedef struct checker {
    const gal_program *program;
    const reach *reach; /* of each operand */
    gal_order order;
    cell *cell;
    uint32_t first_item[GAL_ARENAS_MAX]; /* into item_count */
    const uint32_t *capacity;            /* of each arena: cells of an item */
    size_t first_cell[GAL_ARENAS_MAX];
    uint32_t *item_count; /* cells in use */
    uint32_t *hint;       /* per buffer: where it was last found in an item */
    bool *is_initial;     /* per buffer: holds a value before the first call */
    result *result;
    uint32_t result_count;
    uint32_t *first_part; /* per buffer: the event that brought the first part of what it has; 0: none did */
    uint8_t list;
    uint32_t known[GAL_STREAM_COUNT], number;
    gal_event event;
} checker;

static bool keeps_microbatch(uint32_t class)
{
    return class != GAL_CLASS_STATE && class != GAL_CLASS_GRADIENT && class != GAL_CLASS_HOST &&
           class != GAL_CLASS_STORAGE;
}

static bool is_shared_ring(uint32_t class)
{
    return class == GAL_CLASS_GATHERED || class == GAL_CLASS_BUCKET || class == GAL_CLASS_SCRATCH ||
           class == GAL_CLASS_STAGED || class == GAL_CLASS_STORED_SAVED;
}

/* Of what forward keeps: on its way. */
static bool is_passage(uint32_t class)
{
    return class == GAL_CLASS_STAGED || class == GAL_CLASS_STORED_SAVED;
}

static bool is_forward(uint32_t fragment)
{
    const gal_fragment_kind kind = gal_fragment_kind_of(fragment);
    return kind == GAL_FRAGMENT_FORWARD || kind == GAL_FRAGMENT_EVALUATE;
}

/* Whether a chunk of weights is of both blocks. */
static bool share_chunk(const gal_program *p, uint32_t block, uint32_t other)
{
    for (uint32_t u = 0; u < p->unit_count; u++) {
        const gal_unit *unit = &p->unit[u];
        const uint32_t first = unit->model_block, last = first + unit->last_block - unit->block;
        if (first <= block && block <= last && first <= other && other <= last) {
            return true;
        }
    }
    return false;
}

/* Forward leaves a block's input in its place before the block begins. */
static bool is_of_block(const checker *c, uint32_t class, const cell *at)
{
    const uint32_t own = c->event.instruction->block;
    return at->block == own || (class == GAL_CLASS_STAGED && is_forward(c->event.fragment) && at->block + 1 == own) ||
           (!is_passage(class) && share_chunk(c->program, at->block, own));
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* An item never has more cells than there are distinct ends of operands and buffers in its class, and two. */
static gal_code count_cuts(const gal_program *p, const reach *reaches, uint32_t *capacity, gal_error *err)
{
    uint64_t *cut = malloc((((size_t)p->operand_count + p->buffer_count) * 2 + 1) * sizeof *cut);
    if (cut == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    for (uint32_t a = 0; a < gal_program_arenas(p); a++) {
        size_t count = 0;
        for (uint32_t k = 0; k < p->operand_count; k++) {
            if (reaches[k].arena == a) {
                cut[count++] = reaches[k].begin;
                cut[count++] = reaches[k].end;
            }
        }
        for (uint32_t b = 0; b < p->buffer_count; b++) {
            if (p->buffer[b].arena == a) {
                cut[count++] = p->buffer[b].offset;
                cut[count++] = p->buffer[b].offset + p->buffer[b].bytes;
            }
        }
        qsort(cut, count, sizeof *cut, compare_u64);
        uint32_t distinct = 2;
        for (size_t i = 0; i < count; i++) {
            distinct += i == 0 || cut[i] != cut[i - 1];
        }
        capacity[a] = distinct;
    }
    free(cut);
    return GAL_OK;
}

static uint64_t expanded_count(const gal_program *p, const gal_call_list *lists, uint32_t list_count)
{
    uint64_t total = 0;
    for (uint32_t l = 0; l < list_count; l++) {
        for (uint32_t i = 0; i < lists[l].count; i++) {
            const gal_fragment *fragment = &p->fragment[lists[l].call[i].fragment];
            total += fragment->count;
        }
    }
    return total;
}

static gal_code make_cells(checker *c, const gal_call_list *lists, uint32_t list_count, gal_error *err)
{
    const gal_program *p = c->program;
    size_t cells = 0;
    uint32_t items = 0;
    for (uint32_t a = 0; a < gal_program_arenas(p); a++) {
        c->first_item[a] = items;
        c->first_cell[a] = cells;
        items += p->arena[a].count;
        cells += (size_t)p->arena[a].count * c->capacity[a];
    }
    c->cell = calloc(cells + 1, sizeof *c->cell);
    c->item_count = calloc((size_t)items + 1, sizeof *c->item_count);
    c->hint = calloc((size_t)p->buffer_count + 1, sizeof *c->hint);
    c->is_initial = calloc((size_t)p->buffer_count + 1, sizeof *c->is_initial);
    c->result = calloc(expanded_count(p, lists, list_count) + 1, sizeof *c->result);
    c->first_part = calloc((size_t)p->buffer_count + 1, sizeof *c->first_part);
    if (c->cell == NULL || c->item_count == NULL || c->hint == NULL || c->is_initial == NULL || c->result == NULL ||
        c->first_part == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    for (uint32_t a = 0; a < gal_program_arenas(p); a++) {
        for (uint32_t i = 0; i < p->arena[a].count; i++) {
            c->cell[c->first_cell[a] + (size_t)i * c->capacity[a]].end = p->arena[a].item_bytes;
            c->item_count[c->first_item[a] + i] = 1;
        }
    }
    return GAL_OK;
}

typedef struct item {
    cell *cell;
    uint32_t *count;
} item;

static item item_of(checker *c, uint32_t arena)
{
    uint32_t index = c->order.item[arena];
    return (item){c->cell + c->first_cell[arena] + (size_t)index * c->capacity[arena],
                  &c->item_count[c->first_item[arena] + index]};
}

/* The cell that holds byte `at`, from a guess. */
static uint32_t find_cell(const item *in, uint64_t at, uint32_t guess)
{
    uint32_t i = guess < *in->count ? guess : *in->count - 1;
    while (i > 0 && in->cell[i - 1].end > at) {
        i--;
    }
    while (in->cell[i].end <= at) {
        i++;
    }
    return i;
}

/* Cuts cell i at byte `at`, if it does not end there already. */
static void cut_cell(item *in, uint32_t i, uint64_t at)
{
    if (in->cell[i].end == at) {
        return;
    }
    memmove(&in->cell[i + 1], &in->cell[i], (*in->count - i) * sizeof *in->cell);
    (*in->count)++;
    in->cell[i].end = at;
}

/* The cells of exactly [begin, end): the first, and one past the last in *last. */
static uint32_t cut_range(checker *c, item *in, uint32_t buffer, uint64_t begin, uint64_t end, uint32_t *last)
{
    uint32_t hint = c->hint[buffer];
    if (hint < *in->count && in->cell[hint].end == end && (hint == 0 ? 0 : in->cell[hint - 1].end) == begin) {
        *last = hint + 1; /* as it was found before: the common case */
        return hint;
    }
    uint32_t i = find_cell(in, begin, hint);
    if ((i == 0 ? 0 : in->cell[i - 1].end) != begin) {
        cut_cell(in, i, begin);
        i++;
    }
    uint32_t j = i;
    while (in->cell[j].end < end) {
        j++;
    }
    cut_cell(in, j, end);
    *last = j + 1;
    c->hint[buffer] = i;
    return i;
}

static gal_code refuse_cell(checker *c, const cell *at, uint32_t buffer, const char *rule, gal_error *err)
{
    const gal_program *p = c->program;
    const gal_buffer *b = &p->buffer[buffer];
    char writer[128] = "nothing", name[64];
    if (at->content == WRITTEN) {
        const result *event = &c->result[at->event];
        snprintf(writer, sizeof writer, "%s instruction %u of microbatch %u",
                 gal_fragment_name(p, event->fragment, name), event->position, at->microbatch);
    }
    return gal_refuse(err, p, c->event.fragment, c->event.position,
                      "microbatch %u: buffer %s.%u %s; last written by %s", c->event.microbatch, b->name, buffer, rule,
                      writer);
}

static const char *read_rule_broken(const checker *c, const cell *at, uint32_t buffer)
{
    uint32_t class = c->program->buffer[buffer].class;
    if (at->content == NOTHING) {
        return "is read before it is written";
    }
    if (at->write_number > c->known[at->write_stream]) {
        return "is read without waiting for its writer";
    }
    if (at->buffer != buffer) {
        return "is read after another buffer took its bytes";
    }
    if (keeps_microbatch(class) && at->microbatch != c->event.microbatch) {
        return "is read with the value of another microbatch";
    }
    if (is_shared_ring(class) && !is_of_block(c, class, at)) {
        return "is read with the value of another block";
    }
    if (is_passage(class) && is_forward(c->result[at->event].fragment) != is_forward(c->event.fragment)) {
        return "is read before it is back from where forward left it";
    }
    if (!keeps_microbatch(class) && !c->is_initial[buffer] && at->list != c->list) {
        return "is read with the value of an earlier step";
    }
    return NULL;
}

static gal_code read_cells(checker *c, item *in, uint32_t first, uint32_t last, uint32_t buffer, uint32_t stream,
                           gal_error *err)
{
    bool counts = keeps_microbatch(c->program->buffer[buffer].class);
    for (uint32_t i = first; i < last; i++) {
        cell *at = &in->cell[i];
        const char *rule = read_rule_broken(c, at, buffer);
        if (rule != NULL) {
            return refuse_cell(c, at, buffer, rule, err);
        }
        at->readers |= (uint16_t)(1u << stream);
        at->read_number[stream] = c->number;
        c->result[c->result[at->event].whole].read |= counts;
    }
    return GAL_OK;
}

static bool has_late_reader(const checker *c, const cell *at)
{
    for (uint32_t readers = at->readers; readers != 0; readers &= readers - 1) {
        uint32_t stream = (uint32_t)__builtin_ctz(readers);
        if (at->read_number[stream] > c->known[stream]) {
            return true;
        }
    }
    return false;
}

/* An operand that overlaps one read before by the same instruction is a race of the instruction with itself. */
static gal_code check_overwritten(checker *c, const item *in, uint32_t first, uint32_t last, uint32_t buffer,
                                  gal_error *err)
{
    for (uint32_t i = first; i < last; i++) {
        const cell *at = &in->cell[i];
        if (at->content == WRITTEN && at->write_number > c->known[at->write_stream]) {
            return refuse_cell(c, at, buffer, "is overwritten without waiting for its writer", err);
        }
        if (has_late_reader(c, at)) {
            return refuse_cell(c, at, buffer, "is overwritten without waiting for a reader", err);
        }
    }
    return GAL_OK;
}

/* What is on its way to the host is as it stays. */
static gal_code check_changed(checker *c, const item *in, uint32_t first, uint32_t last, uint32_t buffer,
                              gal_error *err)
{
    const bool staged = c->program->buffer[buffer].class == GAL_CLASS_STAGED;
    for (uint32_t i = first; staged && i < last; i++) {
        if ((in->cell[i].readers >> GAL_STREAM_HOST_OUT & 1U) != 0) {
            return refuse_cell(c, &in->cell[i], buffer, "changes when it was taken to the host already", err);
        }
    }
    return GAL_OK;
}

static void write_cells(checker *c, item *in, uint32_t first, uint32_t last, uint32_t buffer, uint32_t stream)
{
    uint64_t end = in->cell[last - 1].end;
    if (last - first > 1) {
        memmove(&in->cell[first + 1], &in->cell[last], (*in->count - last) * sizeof *in->cell);
        *in->count -= last - first - 1;
    }
    cell *at = &in->cell[first];
    at->end = end;
    at->buffer = buffer;
    at->microbatch = c->event.microbatch;
    at->block = c->event.instruction->block;
    at->event = c->result_count;
    at->write_number = c->number;
    at->content = WRITTEN;
    at->write_stream = (uint8_t)stream;
    at->readers = 0;
    at->list = c->list;
}

static gal_code access_operand(checker *c, const reach *at, gal_error *err)
{
    uint32_t stream = c->event.instruction->stream;
    item in = item_of(c, at->arena);
    uint32_t last;
    uint32_t first = cut_range(c, &in, at->buffer, at->begin, at->end, &last);
    bool reads = at->access == GAL_READ || at->access == GAL_UPDATE ||
                 (at->access == GAL_ACCUMULATE && c->event.microbatch != 0);
    gal_code code = GAL_OK;
    if (at->access != GAL_READ) {
        code = check_overwritten(c, &in, first, last, at->buffer, err);
    }
    if (code == GAL_OK && at->access == GAL_UPDATE) {
        code = check_changed(c, &in, first, last, at->buffer, err);
    }
    if (code == GAL_OK && reads) {
        code = read_cells(c, &in, first, last, at->buffer, stream, err);
    }
    if (code == GAL_OK && at->access != GAL_READ) {
        write_cells(c, &in, first, last, at->buffer, stream);
    }
    return code;
}

/* The one instruction that may write what it reads: element by element, in the same place. */
enum { IN_PLACE_READ = 0, IN_PLACE_WRITTEN = 2 };

static bool is_in_place(const checker *c, const gal_instruction *in)
{
    const reach *read = &c->reach[in->first_operand + IN_PLACE_READ];
    const reach *written = &c->reach[in->first_operand + IN_PLACE_WRITTEN];
    return in->op == GAL_OP_ACTIVATION_BACKWARD && read->buffer == written->buffer && read->begin == written->begin &&
           read->end == written->end;
}

static gal_code access_operands(checker *c, const gal_instruction *in, gal_error *err)
{
    gal_code code = GAL_OK;
    const bool in_place = is_in_place(c, in);
    for (uint32_t k = 0; k < in->operand_count && code == GAL_OK; k++) {
        reach at = c->reach[in->first_operand + k];
        at.access = in_place && k == IN_PLACE_WRITTEN ? GAL_UPDATE : at.access;
        if (!in_place || k != IN_PLACE_READ) {
            code = access_operand(c, &at, err);
        }
    }
    return code;
}

static bool is_part_of_unit(const gal_program *p, const gal_instruction *in)
{
    return in->op == GAL_OP_COPY_IN && p->buffer[p->operand[in->first_operand].buffer].class == GAL_CLASS_STORED;
}

/* Of the newest event. */
static uint32_t whole_of(checker *c, const gal_instruction *in)
{
    enum { TARGET = 1 };
    const gal_operand *to = &c->program->operand[in->first_operand + TARGET];
    if (!is_part_of_unit(c->program, in)) {
        return c->result_count;
    }
    uint32_t *first = &c->first_part[to->buffer];
    *first = to->offset_bytes == 0 || *first == 0 ? c->result_count : *first;
    return *first;
}

static gal_code run_call(checker *c, const gal_call *call, gal_error *err)
{
    const gal_program *p = c->program;
    const gal_fragment *fragment = &p->fragment[call->fragment];
    gal_order_begin_call(&c->order, call->microbatch);
    c->event.fragment = call->fragment;
    c->event.microbatch = call->microbatch;
    for (uint32_t i = 0; i < fragment->count; i++) {
        const gal_instruction *in = &p->instruction[fragment->first + i];
        c->event.instruction = in;
        c->event.position = i;
        c->number = gal_order_issue(&c->order, &c->event, c->known);
        c->result_count++;
        c->result[c->result_count] = (result){.position = i, .whole = whole_of(c, in), .fragment = call->fragment};
        const gal_code code = access_operands(c, in, err);
        if (code != GAL_OK) {
            return code;
        }
    }
    return GAL_OK;
}

/* State and gradients are read by the next step or by nobody; a send delivers elsewhere. */
static bool must_be_read(const gal_program *p, const result *r)
{
    const gal_instruction *in = &p->instruction[p->fragment[r->fragment].first + r->position];
    for (uint32_t k = 0; k < in->operand_count; k++) {
        const gal_operand *operand = &p->operand[in->first_operand + k];
        if (operand->access != GAL_READ && keeps_microbatch(p->buffer[operand->buffer].class)) {
            return in->repeats == 0;
        }
    }
    return false;
}

static gal_code check_results(const checker *c, uint32_t count, gal_error *err)
{
    for (uint32_t i = 1; i <= count; i++) {
        if (!c->result[c->result[i].whole].read && must_be_read(c->program, &c->result[i])) {
            return gal_refuse(err, c->program, c->result[i].fragment, c->result[i].position, "nobody reads the result");
        }
    }
    return GAL_OK;
}

static void initialise_buffer(checker *c, uint32_t buffer)
{
    const gal_buffer *b = &c->program->buffer[buffer];
    c->is_initial[buffer] = true;
    item in = item_of(c, b->arena);
    uint32_t last;
    uint32_t first = cut_range(c, &in, buffer, b->offset, b->offset + b->bytes, &last);
    for (uint32_t i = first; i < last; i++) {
        in.cell[i].content = INITIAL;
        in.cell[i].buffer = buffer;
    }
}

/* Weights, masters and moments hold values before the first step; gradients and the loss too where an update comes
 * first. */
static void initialise(checker *c, bool update_first)
{
    const gal_program *p = c->program;
    for (uint32_t u = 0; u < p->unit_count; u++) {
        uint32_t kept[GAL_UNIT_KEPT_MAX];
        const uint32_t count = gal_unit_kept(&p->unit[u], kept);
        for (uint32_t k = 0; k < count; k++) {
            initialise_buffer(c, kept[k]);
        }
    }
    for (uint32_t b = 0; update_first && b < p->buffer_count; b++) {
        if (!keeps_microbatch(p->buffer[b].class) && !c->is_initial[b]) {
            initialise_buffer(c, b);
        }
    }
}

/* Expands the lists one behind the other; the results of all but the first `complete_count` may go unread. */
static gal_code check_lists(checker *c, const gal_call_list *lists, uint32_t list_count, uint32_t complete_count,
                            gal_error *err)
{
    gal_code code = GAL_OK;
    uint32_t complete_results = 0;
    GAL_TRY(gal_order_init(&c->order, c->program, lists, list_count, err));
    GAL_TRY(make_cells(c, lists, list_count, err));
    initialise(c, lists[0].call[0].fragment == GAL_FRAGMENT_UPDATE);
    for (uint32_t l = 0; l < list_count; l++) {
        c->list = (uint8_t)l;
        for (uint32_t i = 0; i < lists[l].count; i++) {
            GAL_TRY(run_call(c, &lists[l].call[i], err));
        }
        complete_results = l < complete_count ? c->result_count : complete_results;
    }
    GAL_TRY(check_results(c, complete_results, err));
cleanup:
    gal_order_free(&c->order);
    free(c->cell);
    free(c->item_count);
    free(c->hint);
    free(c->is_initial);
    free(c->result);
    free(c->first_part);
    return code;
}

static reach *reach_of_operands(const gal_program *p)
{
    reach *out = malloc(((size_t)p->operand_count + 1) * sizeof *out);
    for (uint32_t k = 0; out != NULL && k < p->operand_count; k++) {
        const gal_operand *operand = &p->operand[k];
        const gal_buffer *buffer = &p->buffer[operand->buffer];
        uint64_t begin = buffer->offset + operand->offset_bytes;
        out[k] = (reach){begin, begin + gal_operand_span(p, operand), operand->buffer, buffer->arena, operand->access};
    }
    return out;
}

static gal_code check_stage(const gal_program *p, gal_error *err)
{
    const gal_call_list beginning = gal_beginning_of_step(p);
    const gal_call_list steps[] = {{p->call, p->call_count}, beginning};
    const gal_call_list update = {p->call + p->call_count - 1, 1};
    const gal_call_list evaluation[] = {update, {p->evaluate_call, p->evaluate_call_count}, beginning, update};
    gal_code code = GAL_OK;
    reach *reaches = NULL;
    uint32_t capacity[GAL_ARENAS_MAX];
    GAL_TRY(gal_check_waits(p, err));
    GAL_TRY(gal_verify_bounds(p, err));
    reaches = reach_of_operands(p);
    code = reaches == NULL ? gal_fail(err, GAL_ERR_SYSTEM, "out of memory") : GAL_OK;
    GAL_TRY(code);
    GAL_TRY(count_cuts(p, reaches, capacity, err));
    const checker fresh = {.program = p, .reach = reaches, .capacity = capacity};
    checker c = fresh;
    GAL_TRY(check_lists(&c, steps, 2, 1, err));
    c = fresh;
    GAL_TRY(check_lists(&c, evaluation, 4, 2, err));
cleanup:
    free(reaches);
    return code;
}

gal_code gal_verify_clocks(gal_program *const *programs, uint32_t stage_count, gal_error *err)
{
    gal_code code = GAL_OK;
    for (uint32_t s = 0; code == GAL_OK && s < stage_count; s++) {
        code = check_stage(programs[s], err);
    }
    return code;
}
