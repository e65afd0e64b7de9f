/* Trials: computations that may take long, each in a process of its own, which is killed when its time is up.
 *
 * A search cannot be broken off in the middle. A process can, and its memory goes with it. A trial notes its answer
 * when it has one, and again when it knows more: the last note counts. */
#ifndef GAL_SCHEMAS_BASE_TRIAL_H
#define GAL_SCHEMAS_BASE_TRIAL_H

#include <stdbool.h>
#include <stddef.h>

/* What a trial writes its answers to. */
typedef struct gal_trial_notes {
    int descriptor;
    size_t answer_bytes;
} gal_trial_notes;

void gal_trial_note(const gal_trial_notes *notes, const void *answer);

typedef struct gal_trial {
    void (*run)(const void *task, const gal_trial_notes *notes); /* in the process of its own */
    const void *task;
    void *answer; /* of the caller; the last note, if there is one */
    size_t answer_bytes;
    bool noted; /* a note came */
    bool cut;   /* its time was up before it ended, or the system had no process for it */
} gal_trial;

/* Runs the trials in their order, at_once of them beside each other. Each has each_seconds from its beginning, all of
 * them together have all_seconds. No thread of the caller may run: trials are forks. */
void gal_trials_run(gal_trial *trials, size_t count, size_t at_once, double each_seconds, double all_seconds);

#endif
