/* Images and labels: the first two bytes are the number of the images' bytes, what is left are the labels. What is
 * accepted gives numbers of every patch of every image, and labels that the model has. */
#include <math.h>
#include <stdlib.h>

#include "runtime/train/images.h"
#include "tests/fuzz/input.h"

enum { SIDE = 4, PATCH = 2, LABELS = 5, POSITIONS = 5, FEATURES = PATCH * PATCH };

static void use(gal_images *images)
{
    const gal_patch_request request = {
        .sample_count = 1, .position_count = POSITIONS, .features = FEATURES, .dtype = GAL_FP64};
    const uint64_t count = gal_images_count(images);
    for (uint64_t image = 0; image < count; image++) {
        double patch[POSITIONS * FEATURES];
        const int32_t label = gal_images_label(images, image);
        GAL_FUZZ_REQUIRE(label >= 0 && label < LABELS);
        GAL_FUZZ_REQUIRE(gal_images_patches(images, image, 0, &request, patch, NULL) == GAL_OK);
        for (uint32_t i = 0; i < POSITIONS * FEATURES; i++) {
            GAL_FUZZ_REQUIRE(fabs(patch[i]) <= 1.0);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    static const char *images_path, *labels_path;
    if (byte_count < 2) {
        return 0;
    }
    if (images_path == NULL) {
        images_path = gal_fuzz_path("images.npy");
        labels_path = gal_fuzz_path("labels.npy");
    }
    const size_t left = byte_count - 2, wanted = bytes[0] | (size_t)bytes[1] << 8;
    const size_t image_bytes = wanted < left ? wanted : left;
    gal_fuzz_write(images_path, bytes + 2, image_bytes);
    gal_fuzz_write(labels_path, bytes + 2 + image_bytes, left - image_bytes);
    gal_model model;
    gal_model_defaults(&model);
    model.family = GAL_FAMILY_VIT;
    model.image_size = SIDE;
    model.patch_size = PATCH;
    model.channel_count = 1;
    model.vocabulary = LABELS;
    model.sequence_length = POSITIONS;
    model.pixel_mean = model.pixel_standard_deviation = 0.5;
    gal_images *images = NULL;
    gal_error err = {0};
    const gal_code code = gal_images_open(images_path, labels_path, &model, &images, &err);
    if (code != GAL_OK) {
        GAL_FUZZ_REQUIRE(code == GAL_ERR_DOCUMENT);
        gal_fuzz_require_refusal(code, &err);
    } else {
        use(images);
    }
    gal_images_close(images);
    return 0;
}
