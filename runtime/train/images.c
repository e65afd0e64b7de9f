#include "runtime/train/images.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/narrow.h"
#include "runtime/train/npy_file.h"

enum { LEVELS = 256 };

struct gal_images {
    const gal_model *model; /* borrowed */
    gal_npy_file pixels;
    uint64_t count;
    int32_t *label;       /* [count] */
    uint8_t *image;       /* one, as the file has it */
    double value[LEVELS]; /* what the model sees of a level */
};

uint64_t gal_images_count(const gal_images *images)
{
    return images->count;
}

int32_t gal_images_label(const gal_images *images, uint64_t image)
{
    return images->label[image];
}

/* ---- opening ---- */

static gal_code check_pixels(const gal_images *images, gal_error *err)
{
    const gal_npy_file *file = &images->pixels;
    const gal_model *model = images->model;
    const uint64_t channels = file->dim_count == 4 ? file->dims[3] : 1;
    if (file->item_bytes != 1 || file->is_signed || file->dim_count < 3) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "%s: images must be uint8 [n][row][column] or [n][row][column][channel]",
                        file->path);
    }
    if (file->dims[1] != model->image_size || file->dims[2] != model->image_size || channels != model->channel_count) {
        return gal_fail(err, GAL_ERR_DOCUMENT,
                        "%s: images of %llu by %llu pixels of %llu channels, the model has %u by %u of %u", file->path,
                        (unsigned long long)file->dims[1], (unsigned long long)file->dims[2],
                        (unsigned long long)channels, model->image_size, model->image_size, model->channel_count);
    }
    return GAL_OK;
}

static int64_t number_at(const gal_npy_file *file, const uint8_t *bytes)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < file->item_bytes; i++) {
        value |= (uint64_t)bytes[i] << 8 * i;
    }
    const uint64_t sign = UINT64_C(1) << (8 * file->item_bytes - 1);
    if (file->is_signed && (value & sign) != 0) { /* a negative one: the same for every width */
        return -1;
    }
    return (int64_t)value;
}

static gal_code read_labels(gal_images *images, const gal_npy_file *file, gal_error *err)
{
    gal_code code = GAL_OK;
    uint8_t *bytes = NULL;
    if (file->dim_count != 1 || file->dims[0] != images->count) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "%s: must be one label for each of %llu images", file->path,
                        (unsigned long long)images->count);
    }
    bytes = malloc(images->count * file->item_bytes);
    images->label = malloc(images->count * sizeof *images->label);
    if (bytes == NULL || images->label == NULL) {
        code = gal_fail(err, GAL_ERR_SYSTEM, "out of memory: labels");
        goto cleanup;
    }
    GAL_TRY(gal_npy_read(file, 0, bytes, images->count * file->item_bytes, err));
    for (uint64_t i = 0; i < images->count; i++) {
        const int64_t label = number_at(file, bytes + i * file->item_bytes);
        if (label < 0 || label >= (int64_t)images->model->vocabulary) {
            code = gal_fail(err, GAL_ERR_DOCUMENT, "%s: label %llu must be 0 to %u: the model has so many labels",
                            file->path, (unsigned long long)i, images->model->vocabulary - 1);
            goto cleanup;
        }
        images->label[i] = (int32_t)label;
    }
cleanup:
    free(bytes);
    return code;
}

gal_code gal_images_open(const char *path, const char *labels_path, const gal_model *model, gal_images **out,
                         gal_error *err)
{
    gal_code code = GAL_OK;
    gal_npy_file labels = {.descriptor = -1};
    gal_images *images = calloc(1, sizeof *images);
    if (images == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: images");
    }
    images->model = model;
    images->pixels.descriptor = -1;
    GAL_TRY(gal_npy_open(path, &images->pixels, err));
    GAL_TRY(check_pixels(images, err));
    images->count = images->pixels.dims[0];
    GAL_TRY(gal_npy_open(labels_path, &labels, err));
    GAL_TRY(read_labels(images, &labels, err));
    images->image = malloc((size_t)model->image_size * model->image_size * model->channel_count);
    code = images->image != NULL ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "out of memory: images");
    GAL_TRY(code);
    for (uint32_t level = 0; level < LEVELS; level++) {
        images->value[level] = (level / 255.0 - model->pixel_mean) / model->pixel_standard_deviation;
    }
    *out = images;
    images = NULL;
cleanup:
    gal_npy_close(&labels);
    gal_images_close(images);
    return code;
}

void gal_images_close(gal_images *images)
{
    if (images == NULL) {
        return;
    }
    gal_npy_close(&images->pixels);
    free(images->label);
    free(images->image);
    free(images);
}

/* ---- patches ---- */

/* Numbers of patch p, [channel][row][column], from element `at` of out on. */
static void put_patch(const gal_images *images, uint32_t p, gal_dtype dtype, void *out, uint64_t at)
{
    const gal_model *m = images->model;
    const uint32_t side = m->image_size / m->patch_size;
    const size_t first_row = (size_t)(p / side) * m->patch_size, first_column = (size_t)(p % side) * m->patch_size;
    for (uint32_t c = 0; c < m->channel_count; c++) {
        for (uint32_t y = 0; y < m->patch_size; y++) {
            for (uint32_t x = 0; x < m->patch_size; x++) {
                const size_t pixel = (first_row + y) * m->image_size + first_column + x;
                gal_put_real(dtype, out, at++, images->value[images->image[pixel * m->channel_count + c]]);
            }
        }
    }
}

gal_code gal_images_patches(gal_images *images, uint64_t image, uint32_t sample, const gal_patch_request *request,
                            void *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_model *m = images->model;
    const uint64_t image_bytes = (uint64_t)m->image_size * m->image_size * m->channel_count;
    GAL_ASSERT(request->features == gal_model_patch_features(m));
    GAL_TRY(gal_npy_read(&images->pixels, image * image_bytes, images->image, image_bytes, err));
    const uint32_t side = m->image_size / m->patch_size, tokens = m->sequence_length - side * side;
    for (uint32_t i = 0; i < request->position_count; i++) {
        const uint64_t at = ((uint64_t)i * request->sample_count + sample) * request->features;
        const uint32_t position = request->position_begin + i;
        if (position >= tokens) {
            put_patch(images, position - tokens, request->dtype, out, at);
            continue;
        }
        for (uint32_t f = 0; f < request->features; f++) { /* the class token's */
            gal_put_real(request->dtype, out, at + f, 0.0);
        }
    }
cleanup:
    return code;
}
