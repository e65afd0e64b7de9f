#include "runtime/program/verify/verify_values.h"

#include <stdlib.h>
#include <string.h>

bool gal_store_init(gal_store *s, const gal_program *program)
{
    memset(s, 0, sizeof *s);
    s->program = program;
    s->stretch_capacity = program->operand_count + 4 * program->unit_count + 2;
    s->stretch_count = 1; /* 0 ends lists */
    s->head = calloc((size_t)program->buffer_count + 1, sizeof *s->head);
    s->stretch = malloc(s->stretch_capacity * sizeof *s->stretch);
    return s->head != NULL && s->stretch != NULL;
}

void gal_store_free(gal_store *s)
{
    free(s->head);
    free(s->stretch);
    free(s->piece);
}

gal_stretch *gal_store_around(gal_store *s, uint32_t buffer, uint64_t begin, uint64_t end)
{
    for (uint32_t i = s->head[buffer]; i != 0; i = s->stretch[i].next) {
        if (s->stretch[i].begin <= begin && end <= s->stretch[i].end) {
            return &s->stretch[i];
        }
    }
    return NULL;
}

gal_stretch *gal_store_exact(gal_store *s, uint32_t buffer, uint64_t begin, uint64_t end)
{
    gal_stretch *found = gal_store_around(s, buffer, begin, end);
    return found != NULL && found->begin == begin && found->end == end ? found : NULL;
}

gal_stretch *gal_store_next(gal_store *s, uint32_t buffer, uint64_t begin, uint64_t end, uint32_t *at)
{
    uint32_t i = *at == 0 ? s->head[buffer] : s->stretch[*at].next;
    while (i != 0 && s->stretch[i].end <= begin) {
        i = s->stretch[i].next;
    }
    *at = i;
    return i != 0 && s->stretch[i].begin < end ? &s->stretch[i] : NULL;
}

static uint32_t new_stretch(gal_store *s)
{
    uint32_t index = s->free_list;
    if (index != 0) {
        s->free_list = s->stretch[index].next;
        return index;
    }
    if (s->stretch_count == s->stretch_capacity) {
        gal_stretch *grown = realloc(s->stretch, 2 * (size_t)s->stretch_capacity * sizeof *grown);
        if (grown == NULL) {
            s->out_of_memory = true;
            return 0;
        }
        s->stretch = grown;
        s->stretch_capacity *= 2;
    }
    return s->stretch_count++;
}

void gal_store_put(gal_store *s, uint32_t buffer, uint64_t begin, uint64_t end, const gal_typed *value)
{
    uint32_t index = new_stretch(s);
    if (index == 0) {
        return;
    }
    uint32_t *link = &s->head[buffer];
    while (*link != 0 && s->stretch[*link].begin < end) {
        gal_stretch *old = &s->stretch[*link];
        if (old->end <= begin) {
            link = &old->next;
            continue;
        }
        uint32_t gone = *link;
        *link = old->next;
        old->next = s->free_list;
        s->free_list = gone;
    }
    s->stretch[index] = (gal_stretch){begin, end, *value, *link};
    *link = index;
}

static bool room_for_piece(gal_store *s)
{
    if (s->piece_count < s->piece_capacity) {
        return true;
    }
    uint32_t wanted = s->piece_capacity == 0 ? 64 : 2 * s->piece_capacity;
    gal_piece *grown = realloc(s->piece, wanted * sizeof *grown);
    if (grown == NULL) {
        s->out_of_memory = true;
        return false;
    }
    s->piece = grown;
    s->piece_capacity = wanted;
    return true;
}

const char *gal_store_gradient(gal_store *s, uint32_t buffer, uint64_t bytes, gal_typed *out)
{
    const gal_stretch *whole = gal_store_exact(s, buffer, 0, bytes);
    if (whole != NULL && whole->value.kind == GAL_VALUE_GRADIENT) {
        *out = whole->value;
        return NULL;
    }
    *out = (gal_typed){.kind = GAL_VALUE_GRADIENT, .first_piece = s->piece_count};
    uint64_t end = 0;
    for (uint32_t i = s->head[buffer]; i != 0 && end < bytes; i = s->stretch[i].next) {
        const gal_stretch *at = &s->stretch[i];
        if (at->begin != end) {
            return "reads a gradient with gaps";
        }
        end = at->end;
        if (at->value.kind == GAL_VALUE_ZERO) {
            continue;
        }
        if (at->value.kind != GAL_VALUE_PIECE || at->value.chunks > 0) {
            return "reads as a gradient what is none";
        }
        if (at->value.half_rows != 0) {
            return "reads a gradient of one sub-batch alone";
        }
        if (out->piece_count > 0 && out->partial != at->value.partial) {
            return "reads tensors that are partial sums over different devices";
        }
        out->partial = at->value.partial;
        if (!room_for_piece(s)) {
            return "out of memory";
        }
        s->piece[s->piece_count++] = (gal_piece){.offset_bytes = at->begin,
                                                 .bytes = at->end - at->begin,
                                                 .m = at->value.m,
                                                 .n = at->value.n,
                                                 .split_m = at->value.split_m,
                                                 .split_n = at->value.split_n,
                                                 .first_row = at->value.first_row,
                                                 .row_count = at->value.row_count};
        out->piece_count++;
    }
    return end == bytes && out->piece_count > 0 ? NULL : "reads a gradient with gaps";
}
