#include "runtime/train/masking.h"

enum { TENTHS = 10, TENTHS_MASKED = 8, TENTHS_RANDOM = 1 };

static int32_t shown(const gal_model *model, uint64_t draw, int32_t token)
{
    const uint64_t tenth = draw % TENTHS;
    if (tenth < TENTHS_MASKED) {
        return (int32_t)model->mask_token;
    }
    return tenth < TENTHS_MASKED + TENTHS_RANDOM ? (int32_t)(gal_mix(draw) % model->vocabulary) : token;
}

void gal_mask_sample(const gal_model *model, uint64_t key, uint32_t token_count, bool targets, uint32_t begin,
                     uint32_t count, int32_t *tokens)
{
    const uint32_t asked = gal_model_loss_positions_of(model, token_count);
    for (uint32_t rank = targets ? asked : 0; rank < (targets ? token_count : asked); rank++) {
        const uint64_t at = gal_permute(rank, token_count, key);
        if (at < begin || at - begin >= count) {
            continue;
        }
        tokens[at - begin] = targets ? -1 : shown(model, gal_mix(key ^ gal_mix(at)), tokens[at - begin]);
    }
    for (uint32_t p = 0; targets && p < count; p++) {
        tokens[p] = begin + p < token_count ? tokens[p] : -1;
    }
}
