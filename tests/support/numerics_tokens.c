/* The synthetic data of trials: a function of indices alone, so that every plan reads the same. */
#include "runtime/narrow.h"
#include "runtime/train/masking.h"
#include "tests/support/numerics_trial.h"
#include "tests/support/random_plan.h"

int32_t gal_trial_token(uint32_t vocabulary, uint64_t batch, uint32_t sample, uint32_t position, bool evaluation)
{
    uint64_t state = (batch * 2 + evaluation) * UINT64_C(0x100000001B3) + ((uint64_t)sample << 32) + position;
    return (int32_t)gal_random_below(&state, vocabulary);
}

/* Positions of a sample that are not padding: of the source, or of the targets of an encoder-decoder. Two or more: a
 * query that sees one key alone has no gradient but rounding, which Adam makes large. */
static uint32_t length_of(const gal_model *model, uint64_t batch, uint32_t sample, bool second, bool evaluation)
{
    const uint32_t most = second ? model->decoder_sequence_length : model->sequence_length;
    return !model->padding ? most
                           : 2 + (uint32_t)gal_trial_token(most - 1, batch, sample, 1000000 + second, evaluation);
}

static gal_code fill_lengths(void *context, const gal_token_request *request, int32_t *out, gal_error *err)
{
    (void)err;
    const gal_plan *plan = context;
    const gal_model *model = &plan->model;
    GAL_ASSERT(request->sequence_length == model->sequence_length);
    for (uint32_t s = 0; s < request->sample_count; s++) {
        out[s] = (int32_t)length_of(model, request->batch, request->samples[s], false, request->evaluation);
    }
    return GAL_OK;
}

static gal_code count_targets(void *context, uint64_t batch, bool evaluation, uint64_t *out, gal_error *err)
{
    (void)err;
    const gal_plan *plan = context;
    const gal_model *model = &plan->model;
    *out = 0;
    for (uint32_t s = 0; s < plan->global_batch_samples; s++) {
        const bool second = model->family == GAL_FAMILY_T5;
        *out += gal_model_loss_positions_of(model, length_of(model, batch, s, second, evaluation));
    }
    return GAL_OK;
}

/* What is behind a sample's end is as any token: nothing may depend on it. */
static gal_code fill(void *context, const gal_token_request *request, int32_t *out, gal_error *err)
{
    (void)err;
    const gal_plan *plan = context;
    const gal_model *model = &plan->model;
    const bool masked = model->family == GAL_FAMILY_BERT;
    const bool second = model->family == GAL_FAMILY_T5 && (request->targets || request->decoder);
    const uint32_t shift = second ? GAL_TRIAL_TARGETS - request->decoder : request->targets && !masked;
    for (uint32_t s = 0; s < request->sample_count; s++) {
        int32_t *row = out + (size_t)s * request->sequence_length;
        for (uint32_t p = 0; p < request->sequence_length; p++) {
            const uint32_t position = request->position_begin + p;
            row[p] = request->decoder && position == 0
                         ? 0
                         : gal_trial_token(model->vocabulary, request->batch, request->samples[s], position + shift,
                                           request->evaluation);
        }
        const uint32_t length = length_of(model, request->batch, request->samples[s], second, request->evaluation);
        if (masked) {
            gal_mask_sample(model, request->batch * UINT64_C(1000003) + request->samples[s], length, request->targets,
                            request->position_begin, request->sequence_length, row);
        }
        for (uint32_t p = 0; request->targets && p < request->sequence_length && model->padding; p++) {
            row[p] = request->position_begin + p < length ? row[p] : -1;
        }
    }
    return GAL_OK;
}

static gal_code fill_patches(void *context, const gal_patch_request *request, void *out, gal_error *err)
{
    (void)err;
    const gal_plan *plan = context;
    const bool token = plan->model.family == GAL_FAMILY_VIT; /* position 0 is that of the class */
    uint64_t element = 0;
    for (uint32_t p = 0; p < request->position_count; p++) {
        const uint32_t position = request->position_begin + p;
        for (uint32_t s = 0; s < request->sample_count; s++) {
            for (uint32_t f = 0; f < request->features; f++) {
                const int32_t level = gal_trial_token(256, request->batch, request->samples[s],
                                                      position * request->features + f, request->evaluation);
                const double value = token && position == 0 ? 0.0 : level / 128.0 - 1.0; /* exact in all types */
                gal_put_real(request->dtype, out, element++, value);
            }
        }
    }
    return GAL_OK;
}

gal_token_source gal_trial_tokens(const gal_plan *plan)
{
    return (gal_token_source){(void *)(uintptr_t)plan, fill, fill_patches, fill_lengths, count_targets};
}
