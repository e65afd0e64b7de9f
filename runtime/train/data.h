/* Training data: samples of a file, in an order that depends on seed and epoch alone.
 *
 * Files: token_file.h. A window is sequence_length tokens and, as targets, the ones that follow: windows start every
 * sequence_length tokens. The last tenth of the file is the validation split, unless validation has its own file.
 * Sample i of step t is the t * batch + i -th of an endless series: epoch after epoch, each a permutation of all
 * windows. So the order is the same for every plan, and resuming needs the step only.
 *
 * An encoder-decoder learns to copy: the window is its source, the window's first target_length tokens are its targets,
 * and its decoder reads them one position later, behind token 0. A model that asks for masked positions (masking.h)
 * gets windows with some tokens replaced, and these as targets: others in every epoch, in the validation split the same
 * each time. A model of images gets the images of an array and their labels (images.h): each is a window.
 *
 * A model that pads gets the lines of a text, or the sequences of a pair of Megatron-LM's, in the place of windows
 * (lines.h), the last tenth of them to validate on: behind their tokens there are tokens 0, and no targets. */
#ifndef GAL_RUNTIME_TRAIN_DATA_H
#define GAL_RUNTIME_TRAIN_DATA_H

#include <stdint.h>

#include "runtime/engine/engine.h"
#include "runtime/train/order.h"
#include "schemas/base/status.h"
#include "schemas/model.h"

typedef struct gal_data_options {
    const char *path;
    const char *validation_path;                      /* NULL: the last tenth of path */
    const char *labels_path, *validation_labels_path; /* of images; NULL for tokens */
    bool as_bytes;                                    /* a file of no token form is bytes, whatever it holds */
    uint32_t vocabulary;                              /* tokens must be below */
    uint32_t sequence_length;
    uint32_t target_length; /* 0: one sequence, whose next tokens are the targets; else at most sequence_length */
    uint32_t global_batch_samples;
    uint64_t seed;          /* of the order and the masks */
    const gal_model *model; /* borrowed: bert has masked windows, vit images, one that pads lines; NULL: the targets
                             * follow */
} gal_data_options;

typedef struct gal_data gal_data;

/* Opens the file(s) and checks every token. GAL_ERR_SYSTEM: cannot be read; GAL_ERR_DOCUMENT: not a token file, a
 * token outside the vocabulary (with its position), or too short for one window of each split; or targets longer than
 * what is to be copied. */
gal_code gal_data_open(const gal_data_options *options, gal_data **out, gal_error *err);
void gal_data_close(gal_data *data);

uint64_t gal_data_train_windows(const gal_data *data);
uint64_t gal_data_validation_windows(const gal_data *data);
uint64_t gal_data_train_tokens(const gal_data *data); /* of images: their number */

typedef struct gal_data_content {
    uint64_t training;   /* fingerprint of the files of the training split */
    uint64_t validation; /* of those of the validation split; the same files if it has none of its own */
} gal_data_content;

/* Names for the content of the files of the data (fingerprint.h). GAL_ERR_SYSTEM: a file cannot be read any more. */
gal_code gal_data_fingerprint(const gal_data *data, gal_data_content *out, gal_error *err);

/* Entropy in nats of the distribution of single tokens, or labels, over the training and the validation split: the loss
 * of a model that knows the frequencies and nothing else; NAN if they cannot be read. */
double gal_data_unigram_entropy(const gal_data *data);

/* gal_token_source.fill; context is the gal_data. Evaluated batch t takes validation windows t * batch + i, modulo
 * their count, in file order. GAL_ERR_SYSTEM: a file has shrunk since it was opened, or cannot be read. */
gal_code gal_data_fill(void *context, const gal_token_request *request, int32_t *out, gal_error *err);
/* gal_token_source.fill_lengths and count_targets, likewise; of a model that pads. */
gal_code gal_data_fill_lengths(void *context, const gal_token_request *request, int32_t *out, gal_error *err);
gal_code gal_data_count_targets(void *context, uint64_t batch, bool evaluation, uint64_t *out, gal_error *err);
/* gal_token_source.fill_patches, likewise. */
gal_code gal_data_fill_patches(void *context, const gal_patch_request *request, void *out, gal_error *err);

#endif
