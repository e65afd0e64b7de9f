/* What the files of candidates.h share. For them alone. */
#ifndef GAL_PROFILER_CANDIDATES_INTERNAL_H
#define GAL_PROFILER_CANDIDATES_INTERNAL_H

#include "profiler/candidates.h"

typedef struct gal_candidate_collector {
    const gal_candidate_settings *settings;
    gal_candidates *out;
    uint32_t operator_capacity, collective_capacity, place_capacity;
    uint32_t slot_mask;
    uint32_t *slot; /* open addressing: index + 1 into out->operators */
    double weight;  /* of all programs added so far */
} gal_candidate_collector;

/* One program to add: how often its fragments run in a step, and what it counts. */
typedef struct gal_candidate_occurrence {
    const gal_program *program;
    const gal_model *model;
    uint32_t microbatch_count;
    const double *repeats; /* [type]: blocks of a stage for which one of the chain stands */
    double weight;
} gal_candidate_occurrence;

/* Adds the kernels and collectives of a program to the lists, and to their shares. GAL_ERR_SYSTEM without memory. */
gal_code gal_candidate_add_program(gal_candidate_collector *c, const gal_candidate_occurrence *from, gal_error *err);
/* When all are added: shares become those of a step, and the lists are sorted by them. */
void gal_candidate_finish(gal_candidate_collector *c);

#endif
