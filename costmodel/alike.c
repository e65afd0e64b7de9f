#include "costmodel/alike.h"

static bool same_flow(gal_flow a, gal_flow b)
{
    return a.positions == b.positions && a.features == b.features;
}

/* Of an FFN nothing is carried, and it does not attend: where it stands shows in the names of its tensors alone. */
static bool costs_alike(const gal_block_shape *a, const gal_block_shape *b, bool tells_shift)
{
    const bool ffn = a->kind == GAL_BLOCK_FFN;
    return a->kind == b->kind && (ffn || a->kind == GAL_BLOCK_ATTENTION) && same_flow(a->in, b->in) &&
           same_flow(a->out, b->out) && a->positions == b->positions && a->head_count == b->head_count &&
           a->kv_head_count == b->kv_head_count && a->head_dim == b->head_dim && a->ffn_hidden == b->ffn_hidden &&
           a->side == b->side && a->window == b->window && (ffn || !tells_shift || a->shift == b->shift) &&
           a->shared == b->shared &&
           (ffn || (a->decodes == b->decodes && same_flow(a->carried_in, b->carried_in) &&
                    same_flow(a->carried_out, b->carried_out)));
}

uint32_t gal_price_type_like(const gal_model *model, const gal_durations *durations, uint32_t type)
{
    const bool tells_shift = gal_durations_know_kernel(durations, GAL_OP_WINDOW_ATTENTION) ||
                             gal_durations_know_kernel(durations, GAL_OP_WINDOW_ATTENTION_BACKWARD);
    gal_block_shape own, other;
    gal_model_type(model, type, &own);
    for (uint32_t like = 0; like < type; like++) {
        gal_model_type(model, like, &other);
        if (costs_alike(&own, &other, tells_shift)) {
            return like;
        }
    }
    return type;
}
