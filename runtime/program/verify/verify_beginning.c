/* How much of the next step stands for all of it, where a check looks across the border of two steps. */
#include "runtime/program/verify/verify_internal.h"

/* The most items that an arena has which the fragment writes. */
static uint32_t items_written(const gal_program *p, uint32_t fragment)
{
    uint32_t items = 1;
    for (uint32_t i = 0; i < p->fragment[fragment].count; i++) {
        const gal_instruction *in = &p->instruction[p->fragment[fragment].first + i];
        for (uint32_t k = 0; k < in->operand_count; k++) {
            const gal_operand *operand = &p->operand[in->first_operand + k];
            uint32_t count = p->arena[p->buffer[operand->buffer].arena].count;
            items = operand->access != GAL_READ && count > items ? count : items;
        }
    }
    return items;
}

/* What goes to the host goes there with the last microbatch. */
static bool writes_to_host(const gal_program *p, uint32_t fragment)
{
    const gal_instruction *in = &p->instruction[p->fragment[fragment].first];
    uint32_t i = 0;
    for (; i < p->fragment[fragment].count && in[i].stream != GAL_STREAM_HOST_OUT; i++) {
    }
    return i < p->fragment[fragment].count;
}

gal_call_list gal_beginning_of_step(const gal_program *p)
{
    uint32_t left[GAL_FRAGMENTS_MAX] = {0};
    uint32_t fragments_left = 0;
    for (uint32_t f = 0; f < gal_program_fragments(p); f++) {
        const gal_fragment_kind kind = gal_fragment_kind_of(f);
        if (kind == GAL_FRAGMENT_FORWARD || kind == GAL_FRAGMENT_BACKWARD ||
            (p->split && kind == GAL_FRAGMENT_WEIGHT)) {
            left[f] = 1 + items_written(p, f);
            fragments_left++;
        } else if (kind != GAL_FRAGMENT_UPDATE && writes_to_host(p, f)) {
            left[f] = 1;
            fragments_left++;
        }
    }
    gal_call_list list = {p->call, 0};
    while (list.count < p->call_count && fragments_left > 0) {
        const uint32_t fragment = p->call[list.count++].fragment;
        fragments_left -= left[fragment] == 1;
        left[fragment] -= left[fragment] > 0;
    }
    return list;
}
