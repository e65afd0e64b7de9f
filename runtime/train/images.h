/* Images and labels as arrays of numpy.save (npy_file.h): uint8 [n][row][column] or [n][row][column][channel], and
 * whole numbers [n]. What a model sees of a pixel is (pixel / 255 - pixel_mean) / pixel_standard_deviation. */
#ifndef GAL_RUNTIME_TRAIN_IMAGES_H
#define GAL_RUNTIME_TRAIN_IMAGES_H

#include "runtime/engine/engine.h"
#include "schemas/base/status.h"
#include "schemas/model.h"

typedef struct gal_images gal_images;

/* model: one that sees images, borrowed. Checks shapes and every label. GAL_ERR_SYSTEM: cannot be read;
 * GAL_ERR_DOCUMENT: another form or shape, a label that the model does not have (with its position). */
gal_code gal_images_open(const char *path, const char *labels_path, const gal_model *model, gal_images **out,
                         gal_error *err);
void gal_images_close(gal_images *images);

uint64_t gal_images_count(const gal_images *images);
int32_t gal_images_label(const gal_images *images, uint64_t image);

/* The request's positions of an image, as sample number `sample` of its samples. GAL_ERR_SYSTEM as gal_npy_read. */
gal_code gal_images_patches(gal_images *images, uint64_t image, uint32_t sample, const gal_patch_request *request,
                            void *out, gal_error *err);

#endif
