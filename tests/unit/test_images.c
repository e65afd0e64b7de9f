/* Arrays of numpy.save, images cut in patches, masked tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/train/data.h"
#include "runtime/train/images.h"
#include "runtime/train/masking.h"
#include "runtime/train/npy_file.h"
#include "tests/support/scratch_folder.h"

enum { PATH_BYTES = 64, SIDE = 4, PATCH = 2, CHANNELS = 2, FEATURES = CHANNELS * PATCH * PATCH, IMAGES = 20 };

/* A file of format 1.0, its path in path[2 * PATH_BYTES]. */
static const char *write_npy(const char *name, const char *header, const void *numbers, size_t byte_count, char *path)
{
    snprintf(path, 2 * PATH_BYTES, "%s/%s", gal_scratch_folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    const size_t length = strlen(header);
    const uint8_t start[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (uint8_t)length, (uint8_t)(length >> 8)};
    fwrite(start, 1, sizeof start, file);
    fwrite(header, 1, length, file);
    fwrite(numbers, 1, byte_count, file);
    fclose(file);
    return path;
}

static void assert_npy_refused(const char *header, size_t byte_count, const char *text)
{
    char path[2 * PATH_BYTES];
    char numbers[64] = {0};
    gal_npy_file file;
    gal_error err = {0};
    assert_int_equal(gal_npy_open(write_npy("bad.npy", header, numbers, byte_count, path), &file, &err),
                     GAL_ERR_DOCUMENT);
    gal_npy_close(&file);
    if (strstr(err.text, text) == NULL) {
        fail_msg("%s gives: %s", header, err.text);
    }
}

static void test_npy(void **state)
{
    (void)state;
    char path[2 * PATH_BYTES];
    gal_npy_file file;
    gal_error err = {0};
    const int16_t numbers[6] = {1, 2, 3, 4, 5, -6};
    const char *header = "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }   \n";
    assert_int_equal(gal_npy_open(write_npy("a.npy", header, numbers, sizeof numbers, path), &file, &err), GAL_OK);
    assert_int_equal(file.dim_count, 2);
    assert_int_equal(file.dims[0], 2);
    assert_int_equal(file.dims[1], 3);
    assert_int_equal(file.item_bytes, 2);
    assert_true(file.is_signed);
    int16_t last = 0;
    assert_int_equal(gal_npy_read(&file, 10, &last, sizeof last, &err), GAL_OK);
    assert_int_equal(last, -6);
    assert_int_equal(gal_npy_read(&file, 11, &last, sizeof last, &err), GAL_ERR_SYSTEM); /* past the end */
    gal_npy_close(&file);
    const char *form = "as numpy.save writes it";
    assert_npy_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", 24, form);
    assert_npy_refused("{'descr': '>i2', 'fortran_order': False, 'shape': (2, 3), }\n", 12, form);
    assert_npy_refused("{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }\n", 12, form);
    assert_npy_refused("{'descr': '<i2', 'fortran_order': False, 'shape': (), }\n", 2, form);
    assert_npy_refused("{'descr': '<i2', 'fortran_order': False, 'shape': (02, 3), }\n", 12, form);
    assert_npy_refused("{'descr': '<i2', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1), }\n", 2, form);
    assert_npy_refused("{'descr': '<i2', 'fortran_order': False, 'shape': (99999999999999999999,), }\n", 2, form);
    assert_npy_refused("{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }", 12, form);
    assert_npy_refused("{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }x\n", 12, form);
    assert_npy_refused("{'descr': '<i2', 'fortran_order': False, 'shape': (0,), }\n", 0,
                       "dimension 0 of the array is 0");
    assert_npy_refused("{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }\n", 11, "the file has 81");
    assert_npy_refused("{'descr': '<i8', 'fortran_order': False, 'shape': (9007199254740992, 9007199254740992), }\n", 8,
                       "dimension");
}

static gal_model vit(void)
{
    gal_model model;
    gal_model_defaults(&model);
    model.family = GAL_FAMILY_VIT;
    model.image_size = SIDE;
    model.patch_size = PATCH;
    model.channel_count = CHANNELS;
    model.sequence_length = (SIDE / PATCH) * (SIDE / PATCH) + 1;
    model.vocabulary = 7;
    model.pixel_mean = 0.2;
    model.pixel_standard_deviation = 0.5;
    return model;
}

static char images_path[2 * PATH_BYTES], labels_path[2 * PATH_BYTES];

/* Image i has i in its first pixel; label of image i is i modulo 7. */
static void write_images(void)
{
    static uint8_t pixels[IMAGES][SIDE][SIDE][CHANNELS];
    int64_t labels[IMAGES];
    for (uint32_t i = 0; i < IMAGES; i++) {
        labels[i] = i % 7;
        for (uint32_t p = 0; p < SIDE * SIDE * CHANNELS; p++) {
            (&pixels[i][0][0][0])[p] = (uint8_t)(p == 0 ? i : 100 + p);
        }
    }
    write_npy("images.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (20, 4, 4, 2), }\n", pixels,
              sizeof pixels, images_path);
    write_npy("labels.npy", "{'descr': '<i8', 'fortran_order': False, 'shape': (20,), }\n", labels, sizeof labels,
              labels_path);
}

static void test_patches(void **state)
{
    (void)state;
    const gal_model model = vit();
    gal_images *images = NULL;
    gal_error err = {0};
    double out[3 * 2 * FEATURES];
    write_images();
    assert_int_equal(gal_images_open(images_path, labels_path, &model, &images, &err), GAL_OK);
    assert_int_equal(gal_images_count(images), IMAGES);
    assert_int_equal(gal_images_label(images, 9), 2);
    /* positions 0 to 2 of image 5, the second sample of two */
    const gal_patch_request request = {.sample_count = 2, .position_count = 3, .features = FEATURES, .dtype = GAL_FP64};
    for (size_t i = 0; i < sizeof out / sizeof *out; i++) {
        out[i] = -1.0;
    }
    assert_int_equal(gal_images_patches(images, 5, 1, &request, out, &err), GAL_OK);
    for (uint32_t f = 0; f < FEATURES; f++) {
        assert_true(out[f] == -1.0); /* the other sample's */
        assert_true(out[FEATURES + f] == 0.0);
    }
    /* patch 0: channel 0 of pixels (0,0) (0,1) (1,0) (1,1), which are numbers 0, 2, 8, 10 of the image, then channel 1
     */
    const uint32_t first[FEATURES] = {5, 102, 108, 110, 101, 103, 109, 111};
    const uint32_t second[FEATURES] = {104, 106, 112, 114, 105, 107, 113, 115}; /* two columns to the right */
    for (uint32_t f = 0; f < FEATURES; f++) {
        assert_true(out[3 * FEATURES + f] == (first[f] / 255.0 - 0.2) / 0.5);
        assert_true(out[5 * FEATURES + f] == (second[f] / 255.0 - 0.2) / 0.5);
    }
    gal_images_close(images);
}

static void assert_images_refused(const gal_model *model, const char *labels, const char *text)
{
    gal_images *images = NULL;
    gal_error err = {0};
    assert_int_equal(gal_images_open(images_path, labels, model, &images, &err), GAL_ERR_DOCUMENT);
    assert_null(images);
    if (strstr(err.text, text) == NULL) {
        fail_msg("got: %s", err.text);
    }
}

static void test_refused_images(void **state)
{
    (void)state;
    char path[2 * PATH_BYTES];
    const uint8_t few[2] = {1, 2};
    gal_model model = vit();
    write_images();
    model.vocabulary = 6;
    assert_images_refused(&model, labels_path, "label 6 must be 0 to 5");
    model = vit();
    assert_images_refused(&model, images_path, "must be one label for each of 20 images");
    write_npy("few.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }\n", few, sizeof few, path);
    assert_images_refused(&model, path, "must be one label for each of 20 images");
    model.channel_count = 1;
    assert_images_refused(&model, labels_path, "images of 4 by 4 pixels of 2 channels, the model has 4 by 4 of 1");
    const gal_data_options options = {.path = images_path, .global_batch_samples = 1, .model = &model};
    gal_data *data = NULL;
    gal_error err = {0};
    assert_int_equal(gal_data_open(&options, &data, &err), GAL_ERR_USAGE);
    assert_non_null(strstr(err.text, "name their labels by --labels"));
}

/* Of 20 images 18 are trained on, each once per epoch, with its own label; 2 are held out. */
static void test_order_of_images(void **state)
{
    (void)state;
    const gal_model model = vit();
    gal_data *data = NULL;
    gal_error err = {0};
    uint32_t seen[IMAGES] = {0};
    write_images();
    const gal_data_options options = {.path = images_path,
                                      .labels_path = labels_path,
                                      .vocabulary = model.vocabulary,
                                      .sequence_length = model.sequence_length,
                                      .global_batch_samples = 6,
                                      .seed = 3,
                                      .model = &model};
    assert_int_equal(gal_data_open(&options, &data, &err), GAL_OK);
    assert_int_equal(gal_data_train_windows(data), 18);
    assert_int_equal(gal_data_validation_windows(data), 2);
    for (uint32_t i = 0; i < 18; i++) {
        double patch[FEATURES];
        int32_t label = -1;
        const uint32_t sample = i % 6;
        const gal_patch_request request = {.batch = i / 6,
                                           .samples = &sample,
                                           .sample_count = 1,
                                           .position_begin = 1,
                                           .position_count = 1,
                                           .features = FEATURES,
                                           .dtype = GAL_FP64};
        const gal_token_request target = {
            .batch = i / 6, .samples = &sample, .sample_count = 1, .sequence_length = 1, .targets = true};
        assert_int_equal(gal_data_fill_patches(data, &request, patch, &err), GAL_OK);
        assert_int_equal(gal_data_fill(data, &target, &label, &err), GAL_OK);
        const uint32_t image = (uint32_t)((patch[0] * 0.5 + 0.2) * 255.0 + 0.5);
        assert_in_range(image, 0, 17);
        assert_int_equal(label, image % 7);
        seen[image]++;
    }
    for (uint32_t i = 0; i < 18; i++) {
        assert_int_equal(seen[i], 1);
    }
    gal_data_close(data);
}

/* 15 % of 40 positions, the same for equal keys; over many keys 80 % masked, 10 % random (1 in 50 of them by chance the
 * same), 10 % kept. 3,000 draws: five standard deviations of a share of 0.1 are 0.027. */
static void test_masking(void **state)
{
    (void)state;
    enum { LENGTH = 40, KEYS = 500, VOCABULARY = 50 };
    gal_model model;
    gal_model_defaults(&model);
    model.family = GAL_FAMILY_BERT;
    model.sequence_length = LENGTH;
    model.vocabulary = VOCABULARY;
    model.mask_token = 49;
    uint32_t masked = 0, kept = 0, other = 0, at_position[LENGTH] = {0};
    for (uint64_t key = 0; key < KEYS; key++) {
        int32_t token[LENGTH], input[LENGTH], again[LENGTH], target[LENGTH];
        uint32_t asked = 0;
        for (int32_t i = 0; i < LENGTH; i++) {
            token[i] = input[i] = again[i] = target[i] = (int32_t)((key + (uint64_t)i) % 48);
        }
        gal_mask_sample(&model, gal_mix(key), model.sequence_length, false, 0, model.sequence_length, input);
        gal_mask_sample(&model, gal_mix(key), model.sequence_length, false, 0, model.sequence_length, again);
        gal_mask_sample(&model, gal_mix(key), model.sequence_length, true, 0, model.sequence_length, target);
        assert_memory_equal(input, again, sizeof input);
        for (uint32_t i = 0; i < LENGTH; i++) {
            if (target[i] < 0) {
                assert_int_equal(input[i], token[i]);
                continue;
            }
            assert_int_equal(target[i], token[i]);
            assert_in_range(input[i], 0, VOCABULARY - 1);
            asked++;
            at_position[i]++;
            masked += input[i] == 49;
            kept += input[i] == token[i];
            other += input[i] != 49 && input[i] != token[i];
        }
        assert_int_equal(asked, 6);
    }
    const double draws = 6.0 * KEYS;
    assert_true(masked / draws > 0.80 - 0.04 && masked / draws < 0.80 + 0.04);
    assert_true(kept / draws > 0.10 - 0.027 && kept / draws < 0.102 + 0.027);
    assert_true(other / draws > 0.096 - 0.027 && other / draws < 0.10 + 0.027);
    for (uint32_t i = 0; i < LENGTH; i++) { /* 75 expected, deviation 8 */
        assert_in_range(at_position[i], 75 - 40, 75 + 40);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_npy),
        cmocka_unit_test(test_patches),
        cmocka_unit_test(test_refused_images),
        cmocka_unit_test(test_order_of_images),
        cmocka_unit_test(test_masking),
    };
    return cmocka_run_group_tests(tests, gal_scratch_folder_make, gal_scratch_folder_remove);
}
