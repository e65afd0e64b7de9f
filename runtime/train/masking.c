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

void gal_mask_sample(const gal_model *model, uint64_t key, bool targets, int32_t *tokens)
{
    const uint32_t length = model->sequence_length, count = gal_model_loss_positions(model);
    uint32_t rank = 0;
    for (; rank < count; rank++) {
        const uint64_t at = gal_permute(rank, length, key);
        if (!targets) {
            tokens[at] = shown(model, gal_mix(key ^ gal_mix(at)), tokens[at]);
        }
    }
    for (; targets && rank < length; rank++) {
        tokens[gal_permute(rank, length, key)] = -1;
    }
}
