/* The search of Hetu-Galvatron's plans under its own rules, for comparison: its space, its prices, its bytes; the
 * stages solved exactly (planner/solve) where it steps through a table of whole mebibytes.
 *
 * Its rules (galvatron/core/search_engine, main of 2026-06): degrees are powers of two; the global batch is cut in a
 * divisor of it of microbatches, at least one for each stage; a layer splits over tensors or by Ulysses, data parallel
 * over the rest, with zero3 or without, recompute or not; no more replicas than samples of a microbatch; embedding and
 * head under one such strategy. Stages have as many layers each, the last one the rest too. Bytes of a layer and of
 * what is outside are rounded up to mebibytes, and of a limit above 20 GiB a fifth is left free. What does not divide
 * is rounded down. Among all of these the least time of a step by gal_galvatron_pipeline_seconds, on samples per
 * second.
 *
 * Here what a plan takes is minimised (its own search minimises the sum of a stage's layers with gradient sums, and
 * adds made-up seconds between layers, which what it prints leaves out). Each stage is solved as a raw problem for sums
 * of plain and synced seconds; from their optima the time of the whole plan has a lower bound: T >= max over the terms
 * of the pipeline's formula with every stage's least plain sum, and T >= (m - 1) plain + synced of the first stage's
 * and of the last stage's layers. */
#ifndef GAL_PLANNER_GALVATRON_GALVATRON_SEARCH_H
#define GAL_PLANNER_GALVATRON_GALVATRON_SEARCH_H

#include "costmodel/galvatron.h"
#include "schemas/base/options.h"

/* X(enumerator, name): theirs; or with batches that replicas divide evenly, and the whole of the limit */
#define GAL_GALVATRON_RULES(X)                                                                                         \
    X(GAL_GALVATRON_RULES_THEIRS, "galvatron")                                                                         \
    X(GAL_GALVATRON_RULES_EVEN, "even")

typedef enum gal_galvatron_rules {
#define X(enumerator, name) enumerator,
    GAL_GALVATRON_RULES(X)
#undef X
        GAL_GALVATRON_RULES_COUNT
} gal_galvatron_rules;
extern const char *const gal_galvatron_rules_names[GAL_GALVATRON_RULES_COUNT];

typedef struct gal_galvatron_request {
    const gal_galvatron_tables *tables;
    uint32_t device_count;
    uint64_t limit_bytes;           /* of a device */
    gal_u32_list batches;           /* at least one */
    gal_u32_list microbatch_counts; /* none: every divisor of the batch */
    uint32_t degree_max;            /* of every split, and of the pipeline */
    gal_schedule schedule;          /* gpipe or 1f1b */
    gal_galvatron_data_parallel data_parallel;
    gal_galvatron_rules rules;
    bool tensors_alone; /* no Ulysses: what galrun runs */
} gal_galvatron_request;

typedef struct gal_galvatron_found {
    bool feasible;
    gal_galvatron_plan plan; /* owned */
    double iteration_seconds, samples_per_second;
    double samples_per_second_bound; /* no plan of the space gives more */
    uint64_t used_limit_bytes;       /* what the rules leave of the limit */
    uint64_t *stage_bytes;           /* owned; [plan.pp_degree]: rounded up as the rules say */
    uint64_t least_limit_bytes;      /* the least limit in whole mebibytes under which a plan exists; 0: none at all */
    uint32_t cell_count;             /* of batch, microbatches, stages, buffer, embedding */
    uint32_t solved_count;           /* whose bound did not rule them out */
    char left_out[GAL_ERROR_TEXT_BYTES / 2]; /* a strategy that the profile has no row for, if there are such */
} gal_galvatron_found;

/* GAL_OK also where nothing fits. GAL_ERR_DOCUMENT if the profile's numbers are past all solving; GAL_ERR_SYSTEM. */
gal_code gal_galvatron_search_plans(const gal_galvatron_request *request, gal_galvatron_found *out, gal_error *err);
void gal_galvatron_found_free(gal_galvatron_found *found);

#endif
