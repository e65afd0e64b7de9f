/* How long a training over so many tokens takes at the speed of a step. */
#ifndef GAL_PLANNER_ANSWERS_TRAINING_H
#define GAL_PLANNER_ANSWERS_TRAINING_H

#include "schemas/figures.h"

typedef struct gal_training {
    double tokens; /* 0: no training is asked for, and the rest is 0 */
    double days;
    double device_hours;
} gal_training;

/* A count of tokens as people write it: 1e12, 300B, 1.5T, with K, M, B or T of either case for a thousand to a million
 * millions. At least 1 and at most 1e18. GAL_ERR_USAGE with the rule and the text. */
gal_code gal_training_read_tokens(const char *text, double *out, gal_error *err);

/* figures: of a step of device_count devices. Tokens are images where samples are images. */
void gal_training_of(double tokens, const gal_figures *figures, uint32_t device_count, gal_training *out);

/* The members training_tokens, training_days and training_device_hours of an object that is begun; none where no
 * training is asked for. */
void gal_training_put(gal_json_writer *out, const gal_training *training);

#endif
