/* Seconds of instructions: a measured entry, else a fit over the measured shapes, else the analytic formula.
 *
 * Kernels       measured: the profile's entry of the very shape. Fitted: per (op, dtype) seconds ~ a + b flops + c
 * bytes over its entries, non-negative least squares of the relative error (fewer than four entries: the analytic value
 * times the median of their measured / analytic). Analytic: analytic_kernel.h. Collectives   by the members at each
 * link level (gal_profile_collective.level_counts). Measured: the entry. Fitted: between entries of equal op and
 * level_counts, a straight line in (log bytes, log seconds); outside them the nearest entry scaled by the analytic
 * ratio. Analytic: analytic_collective.h. Entries that are analytic themselves stand for their own key alone. In a
 * program kernels take the profile's factor "in company" (median over its blocks of block seconds / sum of the
 * operators' seconds; forward and backward apart, 1 for the update) plus instruction_seconds each. Kernels that
 * backward runs again, those that the block's forward has too, take a factor of their own: median over blocks and kinds
 * of recompute of what backward takes more with it / what its operators do; that of backward where none was measured,
 * as of a head, which has no forward. Durations are read-only after creation: pure functions of the profile. */
#ifndef GAL_COSTMODEL_DURATION_H
#define GAL_COSTMODEL_DURATION_H

#include "costmodel/company.h"
#include "runtime/program/program.h"
#include "schemas/profile.h"

typedef struct gal_durations gal_durations;

/* The profile (its cluster included) is copied as far as it is needed. GAL_ERR_SYSTEM without memory.
 * communication_ctas  of the plan: thread blocks of a GPU that communication takes; 0: as many as the library does. Of
 *     others the profile's slowdown_by_ctas says how kernels and communication slow each other, and how long
 *     communication takes alone, beyond the time of one byte: between its counts by straight lines, outside as at the
 *     nearest one. What the profile does not say of them is as for 0.
 * What the host does: host_work.h. */
gal_code gal_durations_create_at(const gal_profile *profile, uint32_t communication_ctas, gal_durations **out,
                                 gal_error *err);
/* At 0. */
gal_code gal_durations_create(const gal_profile *profile, gal_durations **out, gal_error *err);
/* A profile of the cluster in which nothing was measured: no tables. While together communication is slowed 1.3
 * (Galvatron-BMW section V, which measured that for both sides), computation 1.1 (assumed), and two messages on one
 * link share it (2). */
void gal_profile_analytic(const gal_cluster *cluster, gal_profile *out);
/* Durations of that profile. GAL_ERR_SYSTEM without memory. */
gal_code gal_durations_create_analytic(const gal_cluster *cluster, gal_durations **out, gal_error *err);
void gal_durations_free(gal_durations *durations);

/* From here on every duration is its quantile of this probability (0.5: as created) in place of its prediction; before
 * the first of them is asked for.
 * A duration's logarithm is taken as normal around its prediction's. Its deviation: of a measured one that of
 * GAL_INTERVAL_MEASURED and of the spread between its repeats, of one without a measurement nearby that of
 * GAL_INTERVAL_ANALYTIC; of a kernel fitted by four entries or more in place of the repeats what the fit leaves of its
 * entries, of a collective between two entries the larger one of theirs. All are taken to be off in the same direction
 * by the same number of deviations. Then the quantile of whatever rises with each of them, such as the seconds of a
 * step, is what it is at their quantiles; where errors cancel in part, a step is spread less than this says. Factors of
 * company and slowdowns stay. */
void gal_durations_set_quantile(gal_durations *durations, double quantile);
/* Those of `of`, as predicted, at the quantile; `of` must outlive them. GAL_ERR_SYSTEM without memory. */
gal_code gal_durations_create_quantile(const gal_durations *of, double quantile, gal_durations **out, gal_error *err);
/* Whether any of them rests on a measurement; if not, all stray by the same factor. */
bool gal_durations_have_measurements(const gal_durations *durations);

/* Whether the profile has an entry of the operator's, of any shape: else its seconds are by formula. */
bool gal_durations_know_kernel(const gal_durations *durations, gal_op op);

const gal_cluster *gal_durations_cluster(const gal_durations *durations);
double gal_durations_fixed_step_seconds(const gal_durations *durations);
uint64_t gal_durations_fixed_bytes(const gal_durations *durations);
/* Factor on activity `slowed` while `beside` runs on another stream; >= 1. */
double gal_durations_slowdown(const gal_durations *durations, gal_activity slowed, gal_activity beside);
/* The same of all that runs at a time; the durations'. */
const gal_company_factors *gal_durations_company(const gal_durations *durations);

/* Seconds of one kernel alone. source (may be NULL): how it was had. > 0. */
double gal_kernel_seconds(const gal_durations *durations, const gal_shape *shape, gal_source *source);
/* Seconds of one collective alone; op send for p2p, receive counts as send. bytes as gal_instruction.bytes. */
double gal_collective_seconds(const gal_durations *durations, gal_op op,
                              const uint32_t level_counts[GAL_LINK_LEVELS_MAX], uint64_t bytes, gal_source *source);

/* The members of a group at each link level, innermost first. D devices per stage; groups that do not lie alike in all
 * places (a span that is no multiple of D's factors) count as their widest. NEXT and PREVIOUS are pairs: 2 at the level
 * crossed; TIED is the pair of first and last stage; WORLD every rank. */
typedef struct gal_place_in_cluster {
    const gal_atoms *atoms;
    uint32_t device_count; /* D */
    uint32_t stage, stage_count;
} gal_place_in_cluster;

void gal_group_level_counts(const gal_cluster *cluster, const gal_place_in_cluster *place, gal_group group,
                            uint32_t level_counts[GAL_LINK_LEVELS_MAX]);

/* What is done beside the device and its messages, by the host of a GPU (Adam): it slows nobody and nobody slows it. */
enum { GAL_ACTIVITY_BESIDE = GAL_ACTIVITY_COUNT };

/* What one instruction costs in its program when nothing runs beside it. */
typedef struct gal_cost {
    double seconds;
    uint8_t activity; /* gal_activity, or GAL_ACTIVITY_BESIDE */
    uint8_t level;    /* outermost link level crossed; messages slow each other on equal levels, in equal directions */
} gal_cost;

/* cost[count] of the instructions [first, first + count) of the program's list. Backward fragments take the backward
 * factor, what they run again its own, the others but the update the forward one. */
void gal_instruction_costs(const gal_durations *durations, const gal_program *program, uint32_t first, uint32_t count,
                           gal_cost *cost);
/* One instruction with its shape (not looked up in a program): a collective as it is, a kernel alone, without company.
 */
gal_cost gal_one_cost(const gal_durations *durations, const gal_place_in_cluster *place, const gal_instruction *in,
                      const gal_shape *shape);
/* A collective whose group has these level counts. */
gal_cost gal_collective_cost(const gal_durations *durations, gal_op op,
                             const uint32_t level_counts[GAL_LINK_LEVELS_MAX], uint64_t bytes);
/* Of an operator that is no collective, of so many seconds. */
gal_cost gal_kernel_cost(const gal_durations *durations, gal_op op, double seconds);
/* The seconds of a program's kernel in a fragment (its number), from those alone. */
double gal_kernel_in_company(const gal_durations *durations, const gal_program *program, uint32_t fragment,
                             const gal_instruction *in, double seconds);

#endif
