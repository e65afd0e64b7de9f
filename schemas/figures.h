/* The figures by which people compare training runs: model FLOPs, tokens per second, MFU.
 *
 * Model FLOPs are the products of matrices that the model's equations ask for, whatever a plan computes again: forward
 * once and backward twice as much, so 3 x forward and no recompute. A multiply-add counts two. A sample's forward has,
 * with p positions that a block works on, h features of a position, a = heads x features of a head, k = heads of keys
 * and values x features of a head:
 *     attention             2 p h (2 a + 2 k)  +  4 p q a         q: positions that one position attends to
 *     cross-attention       2 p h 2 a  +  2 e h 2 a  +  4 p e a   e: positions of the encoder
 *     FFN                   2 p h f m                             f: its width; m: 3 with a gate, else 2
 *     patches of an image   2 p h x                               x: numbers of a patch
 *     merge (Swin)          2 (p / 4) (4 h) (2 h)
 *     head                  2 r h v                               v: vocabulary, not padded; BERT's transform adds h to
 * v q is p / 2 where attention is causal, the window's positions in a Swin, else p. r is 1 in a ViT and a Swin, which
 * classify by one row, else p. Lookups in tables, norms, activations and the optimizer count nothing. Samples are taken
 * to be of the full length.
 * Source: A. Chowdhery et al., "PaLM", arXiv 2204.02311, appendix B; two departures: causal attention counts half, and
 * the head is counted by its own product, so that tied tables are not parameters of a lookup. */
#ifndef GAL_SCHEMAS_FIGURES_H
#define GAL_SCHEMAS_FIGURES_H

#include "schemas/cluster.h"
#include "schemas/model.h"

/* Above this MFU no published training run is known to be: durations that say so come from data sheets. */
#define GAL_MFU_PUBLISHED_MOST 0.65

/* Forward and backward of one sample; > 0. */
double gal_model_sample_flops(const gal_model *model);

/* Tokens of a sample: its positions, with those of the target where there is a decoder; 1 where samples are images. */
uint64_t gal_model_sample_tokens(const gal_model *model);

/* The unit of that count: "tokens", or "images". */
const char *gal_model_token_noun(const gal_model *model);

/* What a step is measured by. */
typedef struct gal_step {
    const gal_model *model;
    const gal_device *device;
    uint32_t device_count, global_batch_samples; /* >= 1 */
    bool tf32;                                   /* products of fp32 round their factors to 10 bits */
    double seconds;                              /* > 0 */
} gal_step;

typedef struct gal_figures {
    double step_seconds;
    double samples_per_second;
    double tokens_per_second; /* images per second where samples are images */
    double tokens_per_second_per_device;
    double model_flops_per_second_per_device;
    double mfu; /* of the device's peak rate in the model's compute dtype */
} gal_figures;

void gal_figures_of(const gal_step *step, gal_figures *out);

/* All but the seconds as members of an object that is begun: whose the seconds are its own member says. */
void gal_figures_put(gal_json_writer *out, const gal_figures *figures);

#endif
