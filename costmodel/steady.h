/* What repeats in an event simulation is not played again. For costmodel alone.
 *
 * Between filling and draining a pipeline does the same for every few microbatches. Whenever the first stage's compute
 * comes to its next call, the state of all queues is compared with an earlier one: if every queue stands at the same
 * step, so many calls further, with the same times from now on, and the calls that follow wait for each other as those
 * between the two did, then what lay between them comes again, until the calls are others. So many times it is
 * skipped: counts and times move on by as many of it.
 *
 * Times count as the same within 1e-11 of what lay between: so far the end may be from the one that is played. */
#ifndef GAL_COSTMODEL_STEADY_H
#define GAL_COSTMODEL_STEADY_H

#include "costmodel/expand.h"
#include "costmodel/simulate.h"

/* ---- the state of a simulation ---- */

typedef enum gal_lane_state {
    GAL_LANE_WAITS, /* for steps of another stream */
    GAL_LANE_MEETS, /* at the head, for the other sides */
    GAL_LANE_RUNS,
    GAL_LANE_ENDED
} gal_lane_state;

/* In which a link is taken. */
enum { GAL_OUTWARD, GAL_INWARD, GAL_DIRECTIONS };

/* One stream of one stage. */
typedef struct gal_sim_lane {
    uint8_t state;
    uint8_t wait_stream;     /* GAL_LANE_WAITS: for this one ... */
    uint32_t wait_completed; /* ... to have completed so many */
    uint32_t next_wait;      /* of the head: those before are met */
    uint32_t completed;
    uint32_t call;      /* of the head; */
    uint32_t step, end; /* into the expansion's steps */
    double start_seconds;
    double since_seconds;       /* remaining_seconds and factor hold from here on */
    double remaining_seconds;   /* at full speed */
    double factor;              /* by what runs on this stage */
    double end_seconds;         /* INFINITY: not running, or another stage keeps the clock of this transfer */
    struct gal_sim_lane *other; /* the other end of a running transfer, or NULL */
    uint32_t stage;
} gal_sim_lane;

typedef struct gal_sim_stage {
    gal_expansion expansion;
    gal_sim_lane lane[GAL_STREAM_COUNT];
    uint32_t running;                    /* bits of streams */
    uint32_t waiting[GAL_STREAM_COUNT];  /* streams that wait for this one */
    uint32_t fresh;                      /* of these, started since speeds were last renewed */
    uint32_t active[GAL_ACTIVITY_COUNT]; /* of each so many run */
    uint8_t messages_on[GAL_LINK_LEVELS_MAX][GAL_DIRECTIONS];
    uint32_t active_then[GAL_ACTIVITY_COUNT]; /* the company at that time */
    uint8_t messages_then[GAL_LINK_LEVELS_MAX][GAL_DIRECTIONS];
    double next_seconds;  /* the earliest end ... */
    uint32_t next_stream; /* ... and whose it is */
    bool touched;
    uint8_t set_stream; /* on which it stands at, or takes part in, a reduction of a set of stages */
} gal_sim_stage;

typedef struct gal_simulator {
    const gal_simulation_input *input;
    uint32_t stage_count, leaf_count;
    gal_sim_stage *stage;
    uint32_t *winner;  /* tournament over the stages by next_seconds; [1] is the root */
    uint32_t *touched; /* stages whose company changed */
    uint32_t touched_count;
    uint32_t at_set[GAL_SHARED_COUNT + 1]; /* sides of the reduction that have come; the last one of the world */
    bool slows;
    double now_seconds;
    gal_simulation *out;
} gal_simulator;

/* ---- what repeats ---- */

typedef struct gal_steady gal_steady;

/* GAL_ERR_SYSTEM without memory. */
gal_code gal_steady_create(const gal_simulator *sim, gal_steady **out, gal_error *err);
void gal_steady_free(gal_steady *steady); /* accepts NULL */
/* Between two events, speeds renewed: may move the simulation on. */
void gal_steady_look(gal_steady *steady, gal_simulator *sim);

#endif
