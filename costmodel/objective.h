/* The objective of the search: the time of a pipelined step as a sum of prices.
 *
 *     T = n max r_i + sum k_i r_i + sum p2p_i + max_i (tail_i - sum_{j<i} b_j)+ + update       r_i = g_i + p2p_i
 * g forward + backward without sync, b backward, tail what sync adds: stage i's sync hides behind the backward of
 * stages 0 .. i-1, which drain after it. p2p of a round: with 1F1B a microbatch goes from stage i to the next and back
 * while stage i does two, so (g_i + g_{i+1} + 2 p2p_i) / 2 is the least round, of equal stages g + p2p. update: the
 * slowest stage's, plus what is common.
 * n and k (gal_round_counts_of): in 1F1B's order stage i with w = P - 1 - i behind it has its round m - 1 - w times
 * beside the others, and waits w times for those behind. So the longest path is about
 *     sum (r_i + p2p_i) + max_i ((m - 1 - w) r_i + sum_{j>i} r_j)
 * T has its mean over the P places that the slowest stage may have: n = m - 1 - (P - 1) / 2, k_i = 1 + i / P, as i of
 * these have stage i behind them. So a slow stage counts for more the later it is, and none for less than its own
 * round. Of equal stages both are (m - 1 + P) r. With GPipe all forwards come first, and no stage waits for those
 * behind in the middle of its rounds: n = m - 1, k_i = 1.
 * Of v chunks, (m - 1) max g_i + max g_i + (sum g_i - max g_i) / v: a stage has the sums of its chunks, more
 * microbatches are in flight, and in the bubble it fills and drains one chunk instead of all (D. Narayanan et
 * al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", 2021, section 2.2.2), and p2p
 * has v P - 1 borders to cross. Where backward is split, weight parts w fill the bubble (ZB-H1: (P - 1)(F + B - W) of
 * equal stages instead of (P - 1)(F + B + W); P. Qi et al., "Zero Bubble Pipeline Parallelism", arXiv 2401.10241,
 * section 3): 2 w_i less for every stage but the slowest; and as the last weight parts end together, no sync hides. The
 * two parts are taken to last as long as the whole. Both forms hold for stages, and pieces, of equal seconds: where a
 * head outweighs its piece they fall short (gpt2-medium on 4 stages: ZB-H1 by 5 %, 2 chunks by 11 % of the simulation).
 * Of a token table that several blocks of a stage hold one has the update; that of relative biases, some
 * microseconds, is left out.
 * What the sum leaves out: where the slowest stage lies, beyond that; that transfers slow a stage's gathers and
 * reductions on the same link (gal_price_transfer_behind has the other half of it); that on several stages, in the last
 * backward, blocks hide the reductions of those behind them, where prices of sync are of blocks among their like (on
 * one stage: lag.h); and what of ZeRO-3's gathers and reductions blocks hide that are not beside them (hidden.h). Nor
 * does it know that the first parts of what is on storage are read before the update (test_price_offload.c), which
 * counts where a stage stores few. Of 16,800 random plans (4 seeds; PLANS=1000 tests/property/test_price) the objective
 * is within 10 % for all, at worst 9.8 % off; of 8,400 of one stage on slow links, of many blocks and one or two
 * microbatches, likewise, at worst 9.9 % (60 are beyond 10 % as a plain sum, at worst 24 %: lag.h; 8 where the first
 * microbatch is priced as the others: price.h). With other seeds (SEED=n) some 10 of the 25,200 are beyond it. The
 * median of the first is 0.39 % (0.62 % with the mean of k_i for every stage; 0.15 % with the longest path itself,
 * whose maximum no search of sums has; both before sync was priced by one block less). A stage with chunks of weights
 * is no sum: it takes no less than its program alone (chunk_round.h). Departs from Galvatron-BMW, Eq. 9, which counts
 * every stage's gradient sync as part of the pipeline's critical path: here the reduce stream runs beside compute, and
 * on programs of 16 stages that equation was 16 to 95 % above their simulation where n = m - 1 and k = 1 were within 5
 * %. */
#ifndef GAL_COSTMODEL_OBJECTIVE_H
#define GAL_COSTMODEL_OBJECTIVE_H

#include "costmodel/price.h"
#include "schemas/plan.h"

typedef struct gal_stage_sum {
    double forward_seconds, backward_seconds; /* of one microbatch: prices, pairs, enter, leave */
    double tail_seconds;   /* the largest sum of sync over the first blocks: later ones' run before (costmodel/lag.h) */
    double lag_seconds;    /* that over all */
    double weight_seconds; /* of backward, where it is split; else 0 */
    double update_seconds;
    double once_seconds;     /* of sync on the only stage: what counts in any case (costmodel/lag.h) */
    double transfer_seconds; /* to the next piece, one way, of every chunk; 0 for the last */
} gal_stage_sum;

/* k_i and n. k_i is rounded down to eighths, and n what then makes equal stages right: what is counted in some power of
 * two stays exact. With fewer microbatches than stages m - 1 stands for P - 1 in (P - 1) / 2, and k_i is 1 + i (m - 1)
 * / (P (P - 1)).
 * Stages that take R together take at least (m - 1 + P) R / P, as equal ones do: n + sum k_j = m - 1 + P >= P k_i for
 * every i, so by weights u_i = (m - 1 + P) / P - k_i >= 0, which sum up to n, n max r_i + sum k_i r_i is no less than
 * sum (u_i + k_i) r_i. Bounds of all blocks together are by that (planner/bound/screen.h). */
typedef struct gal_round_counts {
    double slowest;       /* n: (m - 1) / 2 or more */
    double later_eighths; /* of k, by which it is more for each stage before */
} gal_round_counts;

gal_round_counts gal_round_counts_of(gal_schedule schedule, uint32_t stage_count, uint32_t microbatch_count);
/* k of a stage: 1 or more. */
static inline double gal_rounds_of_stage(const gal_round_counts *rounds, uint32_t stage)
{
    return 1.0 + 0.125 * (uint32_t)(stage * rounds->later_eighths);
}

double gal_objective_seconds(const gal_stage_sum *stage, uint32_t stage_count, gal_schedule schedule,
                             uint32_t chunk_count, uint32_t microbatch_count, double common_update_seconds);

/* Of a legal plan (gal_plan_check). Errors of these: as gal_price_block.
 * The sums of one stage, all its pieces: block i's price plus the pair with its predecessor (the border's pair belongs
 * to the stage that converts, the later one), the turns at both ends of every piece. */
gal_code gal_plan_stage_sum(gal_price_cache *cache, const gal_durations *durations, const gal_plan *plan,
                            uint32_t stage, gal_stage_sum *out, gal_error *err);
/* What one block adds to update_seconds there. */
gal_code gal_plan_block_update(gal_price_cache *cache, const gal_plan *plan, uint32_t stage, uint32_t block,
                               double *seconds, gal_error *err);
/* The objective of a plan: the sum of prices of all its stages, fixed_step_seconds included. */
gal_code gal_plan_objective(gal_price_cache *cache, const gal_durations *durations, const gal_plan *plan,
                            double *seconds, gal_error *err);
/* The arena bytes of one stage in closed form, equal to gal_program.arena_bytes; its conversions follow the plan's own
 * layouts. Where backward is split the stage is lowered for it: there blocks keep what their neighbours read. */
gal_code gal_plan_stage_bytes(gal_price_cache *cache, const gal_plan *plan, uint32_t stage, uint64_t *bytes,
                              gal_error *err);

#endif
