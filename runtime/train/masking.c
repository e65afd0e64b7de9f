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

void gal_mask_sample(const gal_model *model, uint64_t key, uint32_t token_count, bool targets, int32_t *tokens)
{
    const uint32_t count = gal_model_loss_positions_of(model, token_count);
    uint32_t rank = 0;
    for (; rank < count; rank++) {
        const uint64_t at = gal_permute(rank, token_count, key);
        if (!targets) {
            tokens[at] = shown(model, gal_mix(key ^ gal_mix(at)), tokens[at]);
        }
    }
    for (; targets && rank < token_count; rank++) {
        tokens[gal_permute(rank, token_count, key)] = -1;
    }
    for (uint32_t p = token_count; targets && p < model->sequence_length; p++) {
        tokens[p] = -1;
    }
}
