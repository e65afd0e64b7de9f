/* The figures of a step by which people compare runs (schemas/figures.h). */
#ifndef GAL_PLANNER_CLI_STEP_SAID_H
#define GAL_PLANNER_CLI_STEP_SAID_H

#include <stdio.h>

#include "costmodel/prediction.h"
#include "planner/answers/training.h"
#include "schemas/plan.h"

typedef struct gal_step_said {
    const gal_plan *plan;
    double seconds; /* of the step */
    uint64_t bytes; /* of the fullest device */
    double tokens;  /* of a training whose length is asked for; 0: none */
    bool tf32;      /* fp32 is at the rate of tf32 */
    bool measured;  /* durations are measured or fitted; else from data sheets */
} gal_step_said;

void gal_step_said_figures(const gal_step_said *said, gal_figures *out);

/* The memory of a device of the plan: the limit given to the search, else its cluster's. */
uint64_t gal_plan_memory_limit(const gal_plan *plan);

/* "step 9.617 s, 109,035 tokens/s, 13.31 samples/s, memory 74.2 of 80.0 GB", and the line of a GPU's figures. */
void gal_step_print(FILE *out, const gal_step_said *said);

/* The days of a training that is asked for, and a warning of an MFU that no published run reaches: a line each. */
void gal_step_print_notes(FILE *out, const gal_step_said *said);

/* The interval of a step, in seconds and tokens per second of a device, and of memory, as far as its ends are apart: a
 * line, or none where neither are. */
void gal_step_print_interval(FILE *out, const gal_step_said *said, const gal_prediction *in);

/* Members of an object that is begun: figures, memory_limit_bytes, and the training where it is asked for. */
void gal_step_put(gal_json_writer *out, const gal_step_said *said);

#endif
