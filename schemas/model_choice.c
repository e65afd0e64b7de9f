#include "schemas/model_choice.h"

#include "schemas/document.h"
#include "schemas/limits.h"

#define X(enumerator, name) [enumerator] = name,
const char *const gal_origin_names[GAL_ORIGIN_COUNT] = {GAL_ORIGINS(X)};
#undef X

static uint32_t bit(gal_dtype dtype)
{
    return 1U << dtype;
}

uint32_t gal_device_dtypes(const gal_device *device)
{
    return bit(GAL_FP32) | bit(GAL_FP64) | (device->bf16_flops_per_second > 0.0 ? bit(GAL_BF16) : 0) |
           (device->fp16_flops_per_second > 0.0 ? bit(GAL_FP16) : 0);
}

void gal_model_origins_of(const char *path, const gal_model *model, gal_model_origins *out)
{
    const gal_origin source =
        gal_document_is_built_in(GAL_DOCUMENT_MODEL, path) ? GAL_ORIGIN_CATALOGUE : GAL_ORIGIN_FILE;
    const gal_model_reading *reading = &model->reading;
    const gal_origin training = reading->training_assumed ? GAL_ORIGIN_DEFAULT : source;
    *out = (gal_model_origins){.dtype = reading->dtype_assumed ? GAL_ORIGIN_DEFAULT : source,
                               .sequence = reading->sequence_assumed ? GAL_ORIGIN_DEFAULT : source,
                               .batch = training,
                               .optimizer = training,
                               .preferred_dtype = reading->dtype_assumed ? GAL_BF16 : model->compute_dtype};
}

gal_code gal_model_set_sequence(gal_model *model, uint32_t sequence_length, gal_error *err)
{
    const uint32_t window = model->reading.window_positions;
    if (gal_model_sees_images(model)) {
        return gal_fail(err, GAL_ERR_USAGE,
                        "--sequence: %s of the family %s sees images: its positions are their patches (image_size %u, "
                        "patch_size %u)",
                        model->name, gal_family_names[model->family], model->image_size, model->patch_size);
    }
    if (window > 0 && sequence_length > window) {
        return gal_fail(err, GAL_ERR_USAGE,
                        "--sequence: must be at most the sliding window of %s, %u positions, beyond which attention is "
                        "not whole; got %u",
                        model->name, window, sequence_length);
    }
    if ((uint64_t)model->global_batch_samples * sequence_length > GAL_BATCH_TOKENS_MAX) {
        return gal_fail(err, GAL_ERR_USAGE,
                        "--sequence: the %u samples of a batch of %s must have at most %d tokens together, so at most "
                        "%u positions each; got %u",
                        model->global_batch_samples, model->name, GAL_BATCH_TOKENS_MAX,
                        GAL_BATCH_TOKENS_MAX / model->global_batch_samples, sequence_length);
    }
    if (model->decoder_sequence_length == model->sequence_length) {
        model->decoder_sequence_length = sequence_length;
    }
    model->sequence_length = sequence_length;
    return GAL_OK;
}

void gal_model_choose_dtype(gal_model *model, uint32_t asked_dtype, uint32_t device_dtypes, gal_model_origins *origins)
{
    if (asked_dtype < GAL_COMPUTE_DTYPE_COUNT) {
        model->compute_dtype = (gal_dtype)asked_dtype;
        origins->dtype = GAL_ORIGIN_OPTION;
        origins->preferred_dtype = model->compute_dtype;
        return;
    }
    if (origins->dtype == GAL_ORIGIN_FILE) {
        return;
    }
    model->compute_dtype = origins->preferred_dtype;
    if ((device_dtypes & bit(model->compute_dtype)) == 0) {
        model->compute_dtype = (device_dtypes & bit(GAL_FP16)) != 0 ? GAL_FP16 : GAL_FP32;
        origins->dtype = GAL_ORIGIN_DEFAULT;
    }
}

gal_code gal_model_choose(const char *path, const gal_model_options *options, uint32_t device_dtypes, gal_model *out,
                          gal_model_origins *origins, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_TRY(gal_model_read(path, out, err));
    gal_model_origins_of(path, out, origins);
    if (options->sequence_length > 0) {
        GAL_TRY(gal_model_set_sequence(out, options->sequence_length, err));
        origins->sequence = GAL_ORIGIN_OPTION;
    }
    gal_model_choose_dtype(out, options->dtype, device_dtypes, origins);
cleanup:
    return code;
}
