/* Schedules: the order of a stage's calls in a step. One file each; a row of the table in lower.c picks it. */
#ifndef GAL_RUNTIME_PROGRAM_SCHEDULE_H
#define GAL_RUNTIME_PROGRAM_SCHEDULE_H

#include "runtime/program/program.h"

typedef struct gal_schedule_rule {
    /* Microbatches whose saved values a stage holds at once: k. */
    uint32_t (*in_flight)(uint32_t stage, uint32_t stage_count, uint32_t microbatch_count);
    /* Writes 2 * microbatch_count calls: forward and backward of every microbatch; the last backward is the one with
     * gradient sync. The caller appends the update. */
    void (*order)(uint32_t stage, uint32_t stage_count, uint32_t microbatch_count, gal_call *calls);
} gal_schedule_rule;

extern const gal_schedule_rule gal_schedule_gpipe; /* all forwards, then all backwards in forward order */
extern const gal_schedule_rule gal_schedule_1f1b;  /* 1F1B-flush: P - stage forwards ahead, then one each */

#endif
