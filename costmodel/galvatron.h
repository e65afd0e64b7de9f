/* The price provider `galvatron`: what Hetu-Galvatron's published cost formulas say of one of its plans, for
 * comparison. galrun's own prices have one source, costmodel/price.h; nothing here is used by the search for galrun's
 * plans.
 *
 * Pure functions of a galvatron_profile and a plan. The formulas are those of its cost model on main of 2026-06
 * (galvatron/core/cost_model): what they leave out (optimizer step, latency, gradient sums of the embedding, layout
 * changes between layers) or round down (samples of a replica) is left out and rounded down here, so that its own
 * predictions come back. Where we depart: with several layer types each takes its own time (there the index is that of
 * the first type), and what a table does not hold is an error that names it. */
#ifndef GAL_COSTMODEL_GALVATRON_H
#define GAL_COSTMODEL_GALVATRON_H

#include "schemas/galvatron_plan.h"
#include "schemas/galvatron_profile.h"

/* A profile with its fits made. */
typedef struct gal_galvatron_tables gal_galvatron_tables;

/* The profile outlives the tables. GAL_ERR_DOCUMENT if a fit that a mode asks for has too few rows; GAL_ERR_SYSTEM. */
gal_code gal_galvatron_tables_create(const gal_galvatron_profile *profile, gal_galvatron_tables **out, gal_error *err);
void gal_galvatron_tables_free(gal_galvatron_tables *tables);
const gal_galvatron_profile *gal_galvatron_tables_profile(const gal_galvatron_tables *tables);

/* What every strategy of a plan has in common. */
typedef struct gal_galvatron_job {
    uint32_t device_count, pp_degree; /* pp_degree divides device_count */
    uint32_t global_batch_samples, microbatch_count;
    gal_schedule schedule;
    gal_galvatron_data_parallel data_parallel;
} gal_galvatron_job;

gal_galvatron_job gal_galvatron_job_of(const gal_galvatron_plan *plan);

/* Replicas of a layer under a strategy, and samples of a microbatch that each gets, rounded down. */
uint32_t gal_galvatron_replicas(const gal_galvatron_job *job, const gal_galvatron_strategy *strategy);
uint32_t gal_galvatron_samples(const gal_galvatron_job *job, const gal_galvatron_strategy *strategy);

/* Forward and backward of one microbatch. */
typedef struct gal_galvatron_seconds {
    double plain;  /* without the sum of gradients */
    double synced; /* with it, behind or under backward */
} gal_galvatron_seconds;

/* One layer of a type. GAL_ERR_DOCUMENT if a table lacks what the strategy needs, or a replica gets no sample. */
gal_code gal_galvatron_layer_seconds(const gal_galvatron_tables *tables, const gal_galvatron_job *job,
                                     uint32_t layer_type, const gal_galvatron_strategy *strategy,
                                     gal_galvatron_seconds *out, gal_error *err);

/* What is outside the layers, on a stage: embedding on the first, head on the last, both where there is one. */
gal_code gal_galvatron_outside_seconds(const gal_galvatron_tables *tables, const gal_galvatron_job *job,
                                       const gal_galvatron_strategy *strategy, uint32_t stage, double *plain,
                                       gal_error *err);

/* States and activations of one layer on a device of a stage. */
gal_code gal_galvatron_layer_bytes(const gal_galvatron_tables *tables, const gal_galvatron_job *job,
                                   uint32_t layer_type, const gal_galvatron_strategy *strategy, uint32_t stage,
                                   double *out, gal_error *err);

/* The same outside the layers, with the constant for the process (1,024 MiB) that every stage has. */
gal_code gal_galvatron_outside_bytes(const gal_galvatron_tables *tables, const gal_galvatron_job *job,
                                     const gal_galvatron_strategy *strategy, uint32_t stage, double *out,
                                     gal_error *err);

/* The buffer that gathers a sequence split over at most `degree` devices by tensors; 0 without sequence parallelism. */
double gal_galvatron_buffer_bytes(const gal_galvatron_tables *tables, const gal_galvatron_job *job, uint32_t degree);

/* A step, from sums over the layers of each stage; plain with what is outside the layers, synced without:
 *   max(sum C + (m - 1) C_last,
 *       max(a, b) + max(0, m + 1 - P) C_0),   a = min(P - 1, m - 1) C_0,  b = sum of C behind the first
 *   + max(0, max over i of synced_i - sum of C up to i)
 * C plain, P stages, m microbatches. */
double gal_galvatron_pipeline_seconds(uint32_t stage_count, uint32_t microbatch_count, const double *plain,
                                      const double *synced);

typedef struct gal_galvatron_price {
    double iteration_seconds, samples_per_second; /* of the batch as the plan has it, divided or not */
    uint32_t stage_count;
    double *stage_bytes; /* owned; [stage_count] */
} gal_galvatron_price;

/* GAL_ERR_DOCUMENT if plan and profile do not go together, or a step takes no time or endless. */
gal_code gal_galvatron_price_plan(const gal_galvatron_tables *tables, const gal_galvatron_plan *plan,
                                  gal_galvatron_price *out, gal_error *err);
void gal_galvatron_price_free(gal_galvatron_price *price);

#endif
