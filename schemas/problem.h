/* The problem document: a search problem as plain tables, so that solvers can be compared on the same numbers.
 *
 * Layers in a row, in runs of one kind; each layer takes one strategy. Stages hold consecutive layers, at least one.
 * Galvatron-BMW (Wang et al.), Eq. 2, 4 and 5:
 *   stage seconds  C = sum of seconds(l, s_l) + sum over its inner neighbours of transition_seconds(s_(l-1), s_l)
 *                      + enter_seconds(first layer) if it is not the first stage
 *                      + tied_seconds of its first layer in the first stage, of its last in the last, if stages > 1
 *   stage bytes    O = sum of state(l) + (k - 1) sum of forward(l)
 *                      + max over l of (forward of its layers up to l + backward(l)) <= budget_bytes
 *   objective      (m - 1) max C + sum C
 * with m microbatches, k of them held by stage i of P: min(m, P - i) under 1F1B, m under GPipe (Section II-B). The
 * paper leaves enter (what a border costs the stage behind it) and tied (the sum of gradients of an embedding that
 * first and last stage share) out of Eq. 5; zeros give it back. */
#ifndef GAL_SCHEMAS_PROBLEM_H
#define GAL_SCHEMAS_PROBLEM_H

#include <stdint.h>

#include "schemas/base/status.h"
#include "schemas/model.h"
#include "schemas/plan.h"

enum { GAL_PROBLEM_VERSION = 1 };

typedef struct gal_problem_strategy {
    char name[GAL_NAME_BYTES];
    double tied_seconds;
} gal_problem_strategy;

/* Of a layer of one kind under one strategy: for one microbatch, of one device. */
typedef struct gal_problem_cost {
    double seconds;       /* forward and backward */
    double enter_seconds; /* as first layer of any stage but the first */
    uint64_t state_bytes; /* O_ms: parameters, gradients, moments */
    uint64_t forward_bytes;
    uint64_t backward_bytes; /* O_b: on top, while its backward runs */
} gal_problem_cost;

typedef struct gal_problem_kind {
    char name[GAL_NAME_BYTES];
    uint32_t transition_index; /* into a layer of this kind, from that before it */
} gal_problem_kind;

typedef struct gal_problem_run {
    uint32_t kind_index, layer_count;
} gal_problem_run;

typedef struct gal_problem {
    char name[GAL_NAME_BYTES];
    gal_schedule schedule;
    uint32_t stage_count, microbatch_count;
    uint64_t budget_bytes; /* of one device */
    uint32_t strategy_count, transition_count, kind_count, run_count;
    gal_problem_strategy *strategy;
    double *transition_seconds; /* (transition, from, to) */
    gal_problem_kind *kind;
    gal_problem_cost *cost; /* (kind, strategy) */
    gal_problem_run *run;
} gal_problem;

/* As gal_document_read and gal_document_write (schemas/document.h). */
gal_code gal_problem_read(const char *path, gal_problem *out, gal_error *err);
gal_code gal_problem_write(const char *path, const gal_problem *problem, gal_error *err);
void gal_problem_free(gal_problem *problem);

uint32_t gal_problem_layer_count(const gal_problem *problem);
/* Microbatches that a stage holds at once. */
uint32_t gal_problem_in_flight(const gal_problem *problem, uint32_t stage);

#endif
