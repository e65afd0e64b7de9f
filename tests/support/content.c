#include "tests/support/content.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/random_plan.h"

enum { RUNS = 4, RANKS_MAX = 64 };

typedef struct awaited {
    uint8_t stream;
    uint32_t number; /* instructions of the stream that must be complete */
} awaited;

/* An instruction of a call, as the hosts of a stage issue it. */
typedef struct task {
    const gal_instruction *in;
    uint32_t microbatch, run;
    uint32_t first_awaited, awaited_count;
} task;

/* A physical cell: what was written, and to which stretch of cells. */
typedef struct memory_cell {
    uint64_t value;
    uint32_t first, count;
} memory_cell;

/* A piece of a buffer that no operand cuts. */
typedef struct piece {
    uint64_t begin, end;   /* in the buffer */
    uint32_t first, count; /* physical cells, in the item */
} piece;

typedef struct stage_content {
    const gal_program *program;
    piece *piece;
    uint32_t *first_piece;               /* of each buffer, and one past the last */
    uint32_t arena_cell[GAL_ARENAS_MAX]; /* first physical cell of item 0 */
    uint32_t item_cells[GAL_ARENAS_MAX];
    uint32_t cell_count;   /* of a rank, as placed */
    uint32_t memory_cells; /* enough for the reference too */
    task *task;
    uint32_t task_count;
    awaited *awaited;
    uint32_t awaited_count, awaited_capacity;
    uint32_t *queue[GAL_STREAM_COUNT]; /* task numbers */
    uint32_t queue_count[GAL_STREAM_COUNT];
} stage_content;

struct gal_content {
    uint32_t stage_count, devices, rank_count;
    bool apart; /* the reference: no buffer shares bytes with another */
    stage_content *stage;
    memory_cell **memory;               /* of each rank */
    uint32_t (*done)[GAL_STREAM_COUNT]; /* of each rank */
};

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t z = (a ^ (b + UINT64_C(0x9E3779B97F4A7C15) + (a << 6) + (a >> 2))) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 29) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 32;
}

/* ---- memory ---- */

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static size_t distinct(uint64_t *cut, size_t count)
{
    size_t kept = 0;
    qsort(cut, count, sizeof *cut, compare_u64);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || cut[kept - 1] != cut[i]) {
            cut[kept++] = cut[i];
        }
    }
    return kept;
}

/* Buffers of a ring are cut alike, so that it does not matter which of them holds a value. */
static bool cuts(const gal_program *p, uint32_t buffer, uint32_t other)
{
    uint8_t class = p->buffer[buffer].class;
    bool ring = class == GAL_CLASS_GATHERED || class == GAL_CLASS_BUCKET || class == GAL_CLASS_BOUNDARY ||
                class == GAL_CLASS_STORED;
    return other == buffer || (ring && p->buffer[other].class == class);
}

/* Borders of all ranks' operands in a buffer; in-place collectives cut it in chunks of their members. */
static size_t buffer_cuts(const gal_program *p, uint32_t buffer, uint64_t *cut)
{
    size_t count = 0;
    uint64_t end = p->buffer[buffer].bytes;
    cut[count++] = 0;
    cut[count++] = end;
    for (uint32_t k = 0; k < p->operand_count; k++) {
        const gal_operand *o = &p->operand[k];
        uint32_t views = o->view == GAL_GROUP_NONE ? 1 : gal_group_size(&p->atoms, o->view);
        for (uint32_t v = 0; cuts(p, buffer, o->buffer) && v < views; v++) {
            uint64_t begin = o->offset_bytes + v * o->view_stride_bytes;
            cut[count++] = begin < end ? begin : end;
            cut[count++] = begin + o->bytes < end ? begin + o->bytes : end;
        }
    }
    for (uint32_t i = 0; i < p->instruction_count; i++) {
        const gal_instruction *in = &p->instruction[i];
        const gal_operand *o = &p->operand[in->first_operand];
        if ((in->op == GAL_OP_ALL_GATHER || in->op == GAL_OP_REDUCE_SCATTER) && in->operand_count == 1 &&
            o->buffer == buffer) {
            uint32_t members = gal_group_size(&p->atoms, in->group);
            for (uint32_t v = 0; v < members; v++) {
                cut[count++] = o->offset_bytes + o->bytes / members * v;
            }
        }
    }
    return distinct(cut, count);
}

static size_t cuts_at_most(const gal_program *p)
{
    return (size_t)4 * (2 * p->operand_count + p->instruction_count + 2 * p->buffer_count + 2) * (p->device_count + 1);
}

static uint32_t index_of(const uint64_t *cut, size_t count, uint64_t at)
{
    size_t i = 0;
    while (i < count && cut[i] != at) {
        i++;
    }
    GAL_ASSERT(i < count);
    return (uint32_t)i;
}

/* Physical cells of an arena: the borders of all pieces of all its buffers. */
static void place_arena(stage_content *s, uint32_t arena, uint64_t *cut)
{
    const gal_program *p = s->program;
    size_t count = 0;
    for (uint32_t b = 0; b < p->buffer_count; b++) {
        for (uint32_t i = s->first_piece[b]; p->buffer[b].arena == arena && i < s->first_piece[b + 1]; i++) {
            cut[count++] = p->buffer[b].offset + s->piece[i].begin;
            cut[count++] = p->buffer[b].offset + s->piece[i].end;
        }
    }
    count = distinct(cut, count);
    for (uint32_t b = 0; b < p->buffer_count; b++) {
        for (uint32_t i = s->first_piece[b]; p->buffer[b].arena == arena && i < s->first_piece[b + 1]; i++) {
            s->piece[i].first = index_of(cut, count, p->buffer[b].offset + s->piece[i].begin);
            s->piece[i].count = index_of(cut, count, p->buffer[b].offset + s->piece[i].end) - s->piece[i].first;
        }
    }
    s->arena_cell[arena] = s->cell_count;
    s->item_cells[arena] = count > 0 ? (uint32_t)count - 1 : 0;
    s->cell_count += s->item_cells[arena] * p->arena[arena].count;
}

static bool cut_memory(stage_content *s)
{
    const gal_program *p = s->program;
    size_t most = cuts_at_most(p);
    uint64_t *cut = malloc(most * sizeof *cut);
    s->first_piece = calloc((size_t)p->buffer_count + 1, sizeof *s->first_piece);
    s->piece = malloc(most * sizeof *s->piece);
    bool fine = cut != NULL && s->first_piece != NULL && s->piece != NULL;
    uint32_t pieces = 0;
    for (uint32_t b = 0; fine && b < p->buffer_count; b++) {
        size_t count = buffer_cuts(p, b, cut);
        s->first_piece[b] = pieces;
        for (size_t i = 0; i + 1 < count; i++) {
            s->piece[pieces++] = (piece){cut[i], cut[i + 1], 0, 0};
        }
        s->first_piece[b + 1] = pieces;
    }
    for (uint32_t a = 0; fine && a < gal_program_arenas(p); a++) {
        place_arena(s, a, cut);
    }
    if (fine) {
        uint32_t apart = pieces * p->microbatch_count;
        s->memory_cells = apart > s->cell_count ? apart : s->cell_count;
    }
    free(cut);
    return fine;
}

/* ---- what the hosts issue ---- */

static bool add_awaited(stage_content *s, awaited w)
{
    if (s->awaited_count == s->awaited_capacity) {
        uint32_t wanted = s->awaited_capacity == 0 ? 1024 : 2 * s->awaited_capacity;
        awaited *grown = realloc(s->awaited, wanted * sizeof *grown);
        if (grown == NULL) {
            return false;
        }
        s->awaited = grown;
        s->awaited_capacity = wanted;
    }
    s->awaited[s->awaited_count++] = w;
    return true;
}

typedef struct issuer {
    stage_content *stage;
    uint32_t *latest; /* [buffer][item][stream]: number in the stream of the latest access in a call that is over */
    uint32_t items;   /* the most that an arena has */
    uint32_t *number; /* of the tasks of this call, by position */
} issuer;

static uint32_t *latest_access(const issuer *host, uint32_t buffer, uint32_t microbatch, uint32_t stream)
{
    const gal_program *p = host->stage->program;
    uint32_t item = microbatch % p->arena[p->buffer[buffer].arena].count;
    return &host->latest[((size_t)buffer * host->items + item) * GAL_STREAM_COUNT + stream];
}

static bool issue_waits(issuer *host, const gal_instruction *in, uint32_t position, uint32_t microbatch,
                        const uint32_t *before)
{
    const gal_program *p = host->stage->program;
    bool fine = true;
    for (uint32_t w = 0; w < in->wait_count; w++) {
        const gal_wait *wait = &p->wait[in->first_wait + w];
        uint32_t number = 0;
        if (wait->kind == GAL_WAIT_INSTRUCTION) {
            number = wait->target < position ? host->number[wait->target] : 0; /* an event not yet recorded */
        } else if (wait->kind == GAL_WAIT_BUFFER) {
            number = *latest_access(host, wait->target, microbatch, wait->stream);
        } else {
            number = before[wait->stream];
        }
        fine = fine && add_awaited(host->stage, (awaited){wait->stream, number});
    }
    return fine;
}

static bool issue_call(issuer *host, const gal_call *call, uint32_t run)
{
    stage_content *s = host->stage;
    const gal_program *p = s->program;
    const gal_fragment *fragment = &p->fragment[call->fragment];
    uint32_t before[GAL_STREAM_COUNT];
    memcpy(before, s->queue_count, sizeof before);
    for (uint32_t i = 0; i < fragment->count; i++) {
        const gal_instruction *in = &p->instruction[fragment->first + i];
        uint32_t first = s->awaited_count;
        if (!issue_waits(host, in, i, call->microbatch, before)) {
            return false;
        }
        s->task[s->task_count] = (task){in, call->microbatch, run, first, s->awaited_count - first};
        s->queue[in->stream][s->queue_count[in->stream]++] = s->task_count++;
        host->number[i] = s->queue_count[in->stream];
    }
    for (uint32_t i = 0; i < fragment->count; i++) {
        const gal_instruction *in = &p->instruction[fragment->first + i];
        for (uint32_t k = 0; k < in->operand_count; k++) {
            *latest_access(host, p->operand[in->first_operand + k].buffer, call->microbatch, in->stream) =
                host->number[i];
        }
    }
    return true;
}

static bool issue_all(stage_content *s)
{
    const gal_program *p = s->program;
    const gal_call *calls[RUNS] = {p->call, p->call, p->evaluate_call, p->call};
    const uint32_t counts[RUNS] = {p->call_count, p->call_count, p->evaluate_call_count, p->call_count};
    size_t total = 0;
    for (uint32_t r = 0; r < RUNS; r++) {
        for (uint32_t c = 0; c < counts[r]; c++) {
            total += p->fragment[calls[r][c].fragment].count;
        }
    }
    issuer host = {.stage = s, .items = 1};
    for (uint32_t a = 0; a < gal_program_arenas(p); a++) {
        host.items = p->arena[a].count > host.items ? p->arena[a].count : host.items;
    }
    host.latest = calloc((size_t)p->buffer_count * host.items * GAL_STREAM_COUNT, sizeof *host.latest);
    host.number = calloc((size_t)p->instruction_count + 1, sizeof *host.number);
    s->task = calloc(total + 1, sizeof *s->task);
    bool fine = host.latest != NULL && host.number != NULL && s->task != NULL;
    for (uint32_t t = 0; t < GAL_STREAM_COUNT; t++) {
        s->queue[t] = calloc(total + 1, sizeof *s->queue[t]);
        fine = fine && s->queue[t] != NULL;
    }
    for (uint32_t r = 0; r < RUNS; r++) {
        for (uint32_t c = 0; fine && c < counts[r]; c++) {
            fine = issue_call(&host, &calls[r][c], r);
        }
    }
    free(host.latest);
    free(host.number);
    return fine;
}

gal_content *gal_content_create(gal_program *const *programs, uint32_t stage_count)
{
    gal_content *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return NULL;
    }
    c->stage_count = stage_count;
    c->devices = programs[0]->device_count;
    c->rank_count = stage_count * c->devices;
    GAL_ASSERT(c->rank_count <= RANKS_MAX);
    c->stage = calloc(stage_count, sizeof *c->stage);
    c->memory = calloc(c->rank_count, sizeof *c->memory);
    c->done = calloc(c->rank_count, sizeof *c->done);
    bool fine = c->stage != NULL && c->memory != NULL && c->done != NULL;
    for (uint32_t s = 0; fine && s < stage_count; s++) {
        c->stage[s].program = programs[s];
        fine = cut_memory(&c->stage[s]) && issue_all(&c->stage[s]);
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

/* ---- contents ---- */

typedef struct place {
    gal_content *content;
    stage_content *stage;
    uint32_t rank, device;
    const task *task;
} place;

/* The physical cells of a piece of a buffer. In the reference every buffer has cells of its own for every microbatch.
 */
static uint32_t cells_of(const gal_content *c, const stage_content *s, uint32_t index, uint32_t buffer,
                         uint32_t microbatch, uint32_t *count)
{
    const gal_program *p = s->program;
    uint32_t class = p->buffer[buffer].class;
    if (c->apart) {
        bool once = class == GAL_CLASS_STATE || class == GAL_CLASS_GRADIENT || class == GAL_CLASS_HOST ||
                    class == GAL_CLASS_STORAGE;
        *count = 1;
        return (once ? 0 : microbatch) * s->first_piece[p->buffer_count] + index;
    }
    *count = s->piece[index].count;
    const uint32_t arena = p->buffer[buffer].arena;
    return s->arena_cell[arena] + microbatch % p->arena[arena].count * s->item_cells[arena] + s->piece[index].first;
}

/* What a piece of a buffer holds; bytes that were not written as this piece are noise of their own. */
static uint64_t read_piece(const gal_content *c, uint32_t rank, uint32_t index, uint32_t buffer, uint32_t microbatch)
{
    uint32_t count;
    uint32_t first = cells_of(c, &c->stage[rank / c->devices], index, buffer, microbatch, &count);
    const memory_cell *cell = &c->memory[rank][first];
    uint64_t noise = 0;
    bool whole = true;
    for (uint32_t i = 0; i < count; i++) {
        whole = whole && cell[i].value == cell[0].value && cell[i].first == first && cell[i].count == count;
        noise = mix(mix(noise, cell[i].value), cell[i].first);
    }
    return whole ? cell[0].value : noise;
}

static void write_piece(gal_content *c, uint32_t rank, uint32_t index, uint32_t buffer, uint32_t microbatch,
                        uint64_t value)
{
    uint32_t count;
    uint32_t first = cells_of(c, &c->stage[rank / c->devices], index, buffer, microbatch, &count);
    for (uint32_t i = 0; i < count; i++) {
        c->memory[rank][first + i] = (memory_cell){value, first, count};
    }
}

/* Bytes of an operand on this device; an in-place collective means its own chunk when `own` is set. */
static void operand_range(const place *at, uint32_t k, bool own, uint64_t *begin, uint64_t *end)
{
    const gal_program *p = at->stage->program;
    const gal_operand *o = &p->operand[at->task->in->first_operand + k];
    *begin = o->offset_bytes;
    *end = *begin + o->bytes;
    if (o->view != GAL_GROUP_NONE) {
        uint64_t skipped = gal_group_index(&p->atoms, o->view, at->device) * o->view_stride_bytes;
        *begin += skipped;
        *end += skipped;
    }
    if (own) {
        uint64_t chunk = o->bytes / gal_group_size(&p->atoms, at->task->in->group);
        *begin += gal_group_index(&p->atoms, at->task->in->group, at->device) * chunk;
        *end = *begin + chunk;
    }
}

static uint64_t read_operand(const place *at, uint32_t k, bool own)
{
    const gal_program *p = at->stage->program;
    uint32_t buffer = p->operand[at->task->in->first_operand + k].buffer;
    uint64_t begin;
    uint64_t end;
    uint64_t hash = k;
    operand_range(at, k, own, &begin, &end);
    for (uint32_t i = at->stage->first_piece[buffer]; i < at->stage->first_piece[buffer + 1]; i++) {
        const piece *part = &at->stage->piece[i];
        if (part->begin >= begin && part->end <= end) {
            hash = mix(hash, read_piece(at->content, at->rank, i, buffer, at->task->microbatch));
        }
    }
    return hash;
}

static void write_operand(const place *at, uint32_t k, bool own, uint64_t value)
{
    const gal_program *p = at->stage->program;
    uint32_t buffer = p->operand[at->task->in->first_operand + k].buffer;
    uint64_t begin;
    uint64_t end;
    operand_range(at, k, own, &begin, &end);
    for (uint32_t i = at->stage->first_piece[buffer]; i < at->stage->first_piece[buffer + 1]; i++) {
        const piece *part = &at->stage->piece[i];
        if (part->begin >= begin && part->end <= end) {
            write_piece(at->content, at->rank, i, buffer, at->task->microbatch,
                        mix(mix(value, k), part->begin - begin));
        }
    }
}

static bool operand_reads(const place *at, uint32_t k)
{
    uint8_t access = at->stage->program->operand[at->task->in->first_operand + k].access;
    return access == GAL_READ || access == GAL_UPDATE || (access == GAL_ACCUMULATE && at->task->microbatch != 0);
}

static bool operand_writes(const place *at, uint32_t k)
{
    return at->stage->program->operand[at->task->in->first_operand + k].access != GAL_READ;
}

/* What an instruction does beside what it reads: operator, shape, block, microbatch. Strides of one row mean nothing.
 */
static uint64_t meaning_of(const place *at)
{
    const gal_instruction *in = at->task->in;
    const gal_shape *shape = &at->stage->program->shape[in->shape];
    uint64_t hash = mix(mix(in->op, in->block), at->task->microbatch);
    for (uint32_t i = 0; i < GAL_SHAPE_DIMS; i++) {
        bool idle = in->op == GAL_OP_PERMUTE && i > 5 && shape->dims[i - 5] == 1;
        hash = mix(hash, idle ? 0 : shape->dims[i]);
    }
    bool loads = gal_op_loads((gal_op)in->op);
    return loads ? mix(hash, at->task->run) : hash;
}

/* An instruction may write before it has read everything: an output on top of an input destroys it. */
static void spoil_outputs(const place *at)
{
    for (uint32_t k = 0; k < at->task->in->operand_count; k++) {
        if (operand_writes(at, k) && !operand_reads(at, k)) {
            write_operand(at, k, false, mix(at->rank, 3));
        }
    }
}

static void run_kernel(const place *at)
{
    uint64_t hash = mix(meaning_of(at), at->rank);
    spoil_outputs(at);
    for (uint32_t k = 0; k < at->task->in->operand_count; k++) {
        if (operand_reads(at, k)) {
            hash = mix(hash, read_operand(at, k, false));
        }
    }
    for (uint32_t k = 0; k < at->task->in->operand_count; k++) {
        if (operand_writes(at, k)) {
            write_operand(at, k, false, hash);
        }
    }
}

/* A collective of members that are all ready; member[i] is in index order. */
static void run_collective(const place *member, uint32_t count)
{
    const gal_instruction *in = member[0].task->in;
    bool in_place = in->operand_count == 1;
    bool gathers = in->op == GAL_OP_ALL_GATHER;
    bool sums = in->op == GAL_OP_ALL_REDUCE || in->op == GAL_OP_REDUCE_SCATTER || in->op == GAL_OP_REDUCE;
    uint64_t hash = meaning_of(&member[0]);
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
        uint64_t read = read_operand(&member[i], 0, in_place && gathers);
        sum += mix(read, 1);
        hash = sums ? hash : mix(hash, read);
    }
    hash = sums ? mix(hash, sum) : hash;
    for (uint32_t i = 0; i < count; i++) {
        if (collects && i != root) {
            continue;
        }
        uint32_t target = in_place ? 0 : 1;
        bool chunks = in->op == GAL_OP_REDUCE_SCATTER || in->op == GAL_OP_ALL_TO_ALL || in->op == GAL_OP_ROTATE ||
                      in->op == GAL_OP_MIRROR;
        if (in_place &&
            in->op == GAL_OP_REDUCE_SCATTER) { /* what the library leaves in the other chunks is its affair */
            write_operand(&member[i], 0, false, mix(hash, member[i].rank + 1000));
            write_operand(&member[i], 0, true, mix(hash, i));
        } else {
            write_operand(&member[i], target, false, chunks ? mix(hash, i) : hash);
        }
    }
}

static uint64_t state_of(gal_content *c)
{
    uint64_t hash = 0;
    for (uint32_t r = 0; r < c->rank_count; r++) {
        stage_content *s = &c->stage[r / c->devices];
        const gal_program *p = s->program;
        for (uint32_t u = 0; u <= p->unit_count; u++) {
            uint32_t kept[GAL_UNIT_KEPT_MAX] = {p->norm_buffer};
            const uint32_t count = u < p->unit_count ? gal_unit_kept(&p->unit[u], kept) : 1;
            for (uint32_t k = 0; k < count; k++) {
                uint32_t b = kept[k];
                for (uint32_t i = s->first_piece[b]; i < s->first_piece[b + 1]; i++) {
                    hash = mix(hash, read_piece(c, r, i, b, 0));
                }
            }
        }
    }
    return hash;
}

/* Noise everywhere, but the same weights and moments in every run; what a buffer begins with depends on nothing else.
 */
static void initialise(gal_content *c)
{
    for (uint32_t r = 0; r < c->rank_count; r++) {
        stage_content *s = &c->stage[r / c->devices];
        const gal_program *p = s->program;
        for (uint32_t i = 0; i < s->memory_cells; i++) {
            c->memory[r][i] = (memory_cell){mix(r, i), UINT32_MAX, 0};
        }
        for (uint32_t u = 0; u < p->unit_count; u++) {
            uint32_t buffers[GAL_UNIT_KEPT_MAX];
            const uint32_t count = gal_unit_kept(&p->unit[u], buffers);
            for (uint32_t k = 0; k < count; k++) {
                for (uint32_t i = s->first_piece[buffers[k]]; i < s->first_piece[buffers[k] + 1]; i++) {
                    write_piece(c, r, i, buffers[k], 0, mix(mix(u, k), s->piece[i].begin));
                }
            }
        }
        memset(c->done[r], 0, sizeof c->done[r]);
    }
}

/* ---- who takes part ---- */

static place place_of(gal_content *c, uint32_t rank, const task *t)
{
    return (place){c, &c->stage[rank / c->devices], rank, rank % c->devices, t};
}

/* Whether a stage is one of those that a relation of more than two stages is over. */
static bool takes_part(const gal_content *c, uint32_t stage, gal_group group)
{
    return group == GAL_GROUP_WORLD ||
           gal_stage_set_has(&c->stage[stage].program->holders[gal_shared_of_group(group)], stage);
}

/* Ranks of a collective that `rank` takes part in, in index order. */
static uint32_t members_of(const gal_content *c, uint32_t rank, const gal_instruction *in, uint32_t *member)
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
            if (takes_part(c, s, in->group)) {
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

static bool is_partner(const gal_instruction *a, const gal_instruction *b)
{
    if (a->op == GAL_OP_SEND || a->op == GAL_OP_RECEIVE) {
        gal_group opposite = a->group == GAL_GROUP_NEXT ? GAL_GROUP_PREVIOUS : GAL_GROUP_NEXT;
        return b->op == (a->op == GAL_OP_SEND ? GAL_OP_RECEIVE : GAL_OP_SEND) && b->group == opposite;
    }
    return a->op == b->op && a->group == b->group;
}

/* ---- random interleavings ---- */

static const task *head_of(const gal_content *c, uint32_t rank, uint32_t stream)
{
    const stage_content *s = &c->stage[rank / c->devices];
    uint32_t done = c->done[rank][stream];
    return done < s->queue_count[stream] ? &s->task[s->queue[stream][done]] : NULL;
}

static bool is_ready(const gal_content *c, uint32_t rank, const task *t)
{
    const stage_content *s = &c->stage[rank / c->devices];
    for (uint32_t w = 0; w < t->awaited_count; w++) {
        const awaited *need = &s->awaited[t->first_awaited + w];
        if (c->done[rank][need->stream] < need->number) {
            return false;
        }
    }
    return true;
}

/* The stream of a member on which it stands ready for its part in t, or the number of streams. */
static uint32_t ready_stream(const gal_content *c, uint32_t rank, const task *t, bool same_stage)
{
    for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
        const task *head = head_of(c, rank, stream);
        if (head != NULL && (same_stage ? head == t : is_partner(t->in, head->in)) && is_ready(c, rank, head)) {
            return stream;
        }
    }
    return GAL_STREAM_COUNT;
}

/* Runs the head of the stream if it and all its partners are ready. */
static bool advance(gal_content *c, uint32_t rank, uint32_t stream)
{
    const task *t = head_of(c, rank, stream);
    uint32_t member[RANKS_MAX];
    uint32_t streams[RANKS_MAX];
    place places[RANKS_MAX];
    if (t == NULL || !is_ready(c, rank, t)) {
        return false;
    }
    bool alone = !gal_op_is_collective[t->in->op];
    uint32_t count = 1;
    member[0] = rank;
    count = alone ? 1 : members_of(c, rank, t->in, member);
    for (uint32_t i = 0; i < count; i++) {
        bool same_stage = member[i] / c->devices == rank / c->devices;
        streams[i] = member[i] == rank ? stream : ready_stream(c, member[i], t, same_stage);
        if (streams[i] == GAL_STREAM_COUNT) {
            return false;
        }
        places[i] = place_of(c, member[i], head_of(c, member[i], streams[i]));
    }
    if (alone) {
        run_kernel(&places[0]);
    } else if (t->in->op == GAL_OP_SEND || t->in->op == GAL_OP_RECEIVE) {
        write_operand(&places[1], 0, false, mix(read_operand(&places[0], 0, false), 2));
    } else {
        run_collective(places, count);
    }
    for (uint32_t i = 0; i < count; i++) {
        c->done[member[i]][streams[i]]++;
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
    uint32_t order[RANKS_MAX * GAL_STREAM_COUNT];
    uint32_t count = c->rank_count * GAL_STREAM_COUNT;
    uint64_t random = seed;
    uint32_t patience = 1u << (2 + gal_random_below(&random, 12));
    for (uint32_t i = 0; i < count; i++) {
        order[i] = i;
    }
    c->apart = false;
    initialise(c);
    uint32_t left = 0;
    for (bool moved = true; moved;) {
        if (left-- == 0) {
            shuffle(order, count, &random);
            left = patience;
        }
        moved = false;
        for (uint32_t i = 0; i < count && !moved; i++) {
            moved = advance(c, order[i] / GAL_STREAM_COUNT, order[i] % GAL_STREAM_COUNT);
        }
    }
    *state = state_of(c);
    return all_done(c);
}

/* ---- the order of the hosts ---- */

typedef struct mailbox {
    uint64_t *content; /* of the sends of a stage in one direction, by device */
    uint32_t sent, taken;
} mailbox;

typedef struct sequential {
    gal_content *content;
    uint32_t *next; /* task of each stage */
    mailbox *box;   /* [stage][direction]: 0 to the previous, 1 to the next */
} sequential;

static void run_in_stage(gal_content *c, uint32_t stage, const task *t)
{
    bool seen[RANKS_MAX] = {false};
    for (uint32_t d = 0; d < c->devices; d++) {
        uint32_t rank = stage * c->devices + d;
        uint32_t member[RANKS_MAX];
        place places[RANKS_MAX];
        if (!gal_op_is_collective[t->in->op]) {
            places[0] = place_of(c, rank, t);
            run_kernel(&places[0]);
        } else if (!seen[d]) {
            uint32_t count = members_of(c, rank, t->in, member);
            for (uint32_t i = 0; i < count; i++) {
                places[i] = place_of(c, member[i], t);
                seen[member[i] % c->devices] = true;
            }
            run_collective(places, count);
        }
    }
}

static bool transfer(sequential *q, uint32_t stage, const task *t)
{
    gal_content *c = q->content;
    bool to_next = t->in->group == GAL_GROUP_NEXT;
    if (t->in->op == GAL_OP_SEND) {
        mailbox *box = &q->box[2 * stage + to_next];
        for (uint32_t d = 0; d < c->devices; d++) {
            place at = place_of(c, stage * c->devices + d, t);
            box->content[(size_t)box->sent * c->devices + d] = read_operand(&at, 0, false);
        }
        box->sent++;
        return true;
    }
    mailbox *box = &q->box[2 * ((stage + (to_next ? 1 : c->stage_count - 1)) % c->stage_count) + !to_next];
    if (box->taken == box->sent) {
        return false;
    }
    for (uint32_t d = 0; d < c->devices; d++) {
        place at = place_of(c, stage * c->devices + d, t);
        write_operand(&at, 0, false, mix(box->content[(size_t)box->taken * c->devices + d], 2));
    }
    box->taken++;
    return true;
}

static const task *next_task(const sequential *q, uint32_t stage)
{
    const stage_content *s = &q->content->stage[stage];
    return q->next[stage] < s->task_count ? &s->task[q->next[stage]] : NULL;
}

/* A reduction over stages, when all of them have come to theirs. */
static bool meet(sequential *q, uint32_t stage, const task *t)
{
    gal_content *c = q->content;
    uint32_t member[RANKS_MAX];
    place places[RANKS_MAX];
    for (uint32_t s = 0; s < c->stage_count; s++) {
        const task *other = next_task(q, s);
        if (takes_part(c, s, t->in->group) && (other == NULL || !is_partner(t->in, other->in))) {
            return false;
        }
    }
    uint32_t groups = t->in->group == GAL_GROUP_WORLD ? 1 : c->devices;
    for (uint32_t d = 0; d < groups; d++) {
        uint32_t count = members_of(c, stage * c->devices + d, t->in, member);
        for (uint32_t i = 0; i < count; i++) {
            places[i] = place_of(c, member[i], next_task(q, member[i] / c->devices));
        }
        run_collective(places, count);
    }
    for (uint32_t s = 0; s < c->stage_count; s++) {
        q->next[s] += takes_part(c, s, t->in->group) && s != stage; /* its own is counted by the caller */
    }
    return true;
}

static bool advance_stage(sequential *q, uint32_t stage)
{
    const task *t = next_task(q, stage);
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
    initialise(c);
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
    *state = state_of(c);
    return finished;
}
