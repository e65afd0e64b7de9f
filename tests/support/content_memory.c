#include "tests/support/content_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- how it is cut ---- */

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
                class == GAL_CLASS_STORED || class == GAL_CLASS_STORED_SAVED;
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
static void place_arena(gal_content_stage *s, uint32_t arena, uint64_t *cut)
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

bool gal_content_cut(gal_content_stage *s)
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
            s->piece[pieces++] = (gal_content_piece){cut[i], cut[i + 1], 0, 0};
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

/* ---- what it holds ---- */

/* The physical cells of a piece of a buffer. In the reference every buffer has cells of its own for every microbatch.
 */
static uint32_t cells_of(const gal_content *c, const gal_content_stage *s, uint32_t index, uint32_t buffer,
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
    const gal_content_cell *cell = &c->memory[rank][first];
    uint64_t noise = 0;
    bool whole = true;
    for (uint32_t i = 0; i < count; i++) {
        whole = whole && cell[i].value == cell[0].value && cell[i].first == first && cell[i].count == count;
        noise = gal_content_mix(gal_content_mix(noise, cell[i].value), cell[i].first);
    }
    return whole ? cell[0].value : noise;
}

static void write_piece(gal_content *c, uint32_t rank, uint32_t index, uint32_t buffer, uint32_t microbatch,
                        uint64_t value)
{
    uint32_t count;
    uint32_t first = cells_of(c, &c->stage[rank / c->devices], index, buffer, microbatch, &count);
    for (uint32_t i = 0; i < count; i++) {
        c->memory[rank][first + i] = (gal_content_cell){value, first, count};
    }
}

/* Bytes of an operand on this device; an in-place collective means its own chunk when `own` is set. */
static void operand_range(const gal_content_place *at, uint32_t k, bool own, uint64_t *begin, uint64_t *end)
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

uint64_t gal_content_read(const gal_content_place *at, uint32_t k, bool own)
{
    const gal_program *p = at->stage->program;
    uint32_t buffer = p->operand[at->task->in->first_operand + k].buffer;
    uint64_t begin;
    uint64_t end;
    uint64_t hash = k;
    operand_range(at, k, own, &begin, &end);
    for (uint32_t i = at->stage->first_piece[buffer]; i < at->stage->first_piece[buffer + 1]; i++) {
        const gal_content_piece *part = &at->stage->piece[i];
        if (part->begin >= begin && part->end <= end) {
            hash = gal_content_mix(hash, read_piece(at->content, at->rank, i, buffer, at->task->microbatch));
        }
    }
    return hash;
}

void gal_content_write(const gal_content_place *at, uint32_t k, bool own, uint64_t value)
{
    const gal_program *p = at->stage->program;
    uint32_t buffer = p->operand[at->task->in->first_operand + k].buffer;
    uint64_t begin;
    uint64_t end;
    operand_range(at, k, own, &begin, &end);
    for (uint32_t i = at->stage->first_piece[buffer]; i < at->stage->first_piece[buffer + 1]; i++) {
        const gal_content_piece *part = &at->stage->piece[i];
        if (part->begin >= begin && part->end <= end) {
            write_piece(at->content, at->rank, i, buffer, at->task->microbatch,
                        gal_content_mix(gal_content_mix(value, k), part->begin - begin));
        }
    }
}

uint64_t gal_content_state(gal_content *c)
{
    uint64_t hash = 0;
    for (uint32_t r = 0; r < c->rank_count; r++) {
        gal_content_stage *s = &c->stage[r / c->devices];
        const gal_program *p = s->program;
        for (uint32_t u = 0; u <= p->unit_count; u++) {
            uint32_t kept[GAL_UNIT_KEPT_MAX] = {p->norm_buffer};
            const uint32_t count = u < p->unit_count ? gal_unit_kept(&p->unit[u], kept) : 1;
            for (uint32_t k = 0; k < count; k++) {
                uint32_t b = kept[k];
                for (uint32_t i = s->first_piece[b]; i < s->first_piece[b + 1]; i++) {
                    hash = gal_content_mix(hash, read_piece(c, r, i, b, 0));
                }
            }
        }
    }
    return hash;
}

void gal_content_initialise(gal_content *c)
{
    for (uint32_t r = 0; r < c->rank_count; r++) {
        gal_content_stage *s = &c->stage[r / c->devices];
        const gal_program *p = s->program;
        for (uint32_t i = 0; i < s->memory_cells; i++) {
            c->memory[r][i] = (gal_content_cell){gal_content_mix(r, i), UINT32_MAX, 0};
        }
        for (uint32_t u = 0; u < p->unit_count; u++) {
            uint32_t buffers[GAL_UNIT_KEPT_MAX];
            const uint32_t count = gal_unit_kept(&p->unit[u], buffers);
            for (uint32_t k = 0; k < count; k++) {
                for (uint32_t i = s->first_piece[buffers[k]]; i < s->first_piece[buffers[k] + 1]; i++) {
                    write_piece(c, r, i, buffers[k], 0, gal_content_mix(gal_content_mix(u, k), s->piece[i].begin));
                }
            }
        }
        memset(c->done[r], 0, sizeof c->done[r]);
    }
}
