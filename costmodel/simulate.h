/* Event simulation of a step: the programs of all stages, by class (the devices of a stage run alike), over their whole
 * schedule.
 *
 * Every stream of a stage is a queue in order. A step of a queue starts when its predecessor is complete and its waits
 * are met (program.h). Send and receive, reductions between the tied stages and over the world start when all sides
 * are at the head of their queues, waits met, and end together.
 * What runs beside something on the same stage is slowed: computation by other computation and by any communication,
 * communication by computation and by messages on other streams whose outermost link level is the same, if they take
 * it in the same direction: a link carries as much each way at once (NVLink, InfiniBand and PCIe are full duplex), a
 * transfer takes one of its directions, a collective both. Factors multiply. A transfer takes the larger factor of its
 * two ends. Copies between a GPU and its host's memory are slowed by computation, by communication and by each other,
 * and slow both. Speeds are renewed whenever the company changes. */
#ifndef GAL_COSTMODEL_SIMULATE_H
#define GAL_COSTMODEL_SIMULATE_H

#include "costmodel/duration.h"
#include "schemas/base/json.h"

/* of[slowed][beside]: see gal_durations_slowdown. */
typedef struct gal_slowdowns {
    double of[GAL_ACTIVITY_COUNT][GAL_ACTIVITY_COUNT];
} gal_slowdowns;

typedef struct gal_simulation_input {
    gal_program *const *program; /* [stage_count], the stages of one plan in order */
    uint32_t stage_count;
    const gal_cost *const *cost; /* [stage][instruction]: see gal_instruction_costs */
    gal_slowdowns slowdowns;
    double fixed_step_seconds;
    bool timeline; /* keep every event: each kernel is a step of its own and all are played, so seconds may differ by a
                      share of 1e-11 */
} gal_simulation_input;

typedef struct gal_stage_simulation {
    double busy_seconds[GAL_STREAM_COUNT];
    double finish_seconds; /* of its last step */
} gal_stage_simulation;

typedef struct gal_timeline_event {
    uint32_t stage, instruction;
    uint32_t call; /* of the stage's schedule */
    double start_seconds, end_seconds;
} gal_timeline_event;

typedef struct gal_simulation {
    double iteration_seconds; /* of the step, fixed_step_seconds included */
    uint32_t stage_count;
    gal_stage_simulation *stage;  /* owned */
    uint64_t event_count;         /* steps run; without timeline kernels that nobody waits for are one with the next */
    uint64_t repeated_count;      /* of them: what came again, and was counted without being played (steady.h) */
    gal_timeline_event *timeline; /* owned; [event_count] by end, or NULL */
} gal_simulation;

/* GAL_NO if queues are left that nothing can serve (a deadlock), naming the first; GAL_ERR_SYSTEM without memory. */
gal_code gal_simulate_costs(const gal_simulation_input *input, gal_simulation *out, gal_error *err);
/* Those of a profile. */
gal_slowdowns gal_slowdowns_of(const gal_durations *durations);
/* With the durations of a profile. */
gal_code gal_simulate(gal_program *const *program, uint32_t stage_count, const gal_durations *durations, bool timeline,
                      gal_simulation *out, gal_error *err);
void gal_simulation_free(gal_simulation *simulation); /* the arrays; accepts a zeroed one */

/* The timeline as a Chrome trace ("chrome://tracing", Perfetto): a process per stage, a thread per stream. */
void gal_simulation_write_trace(const gal_simulation *simulation, gal_program *const *program, gal_json_writer *out);

#endif
