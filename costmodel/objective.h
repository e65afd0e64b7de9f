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
 * reductions on the same link (gal_price_transfer_behind has the other half of it); that on
 * several stages, in the last backward, blocks hide the reductions of those behind them, where prices of sync are of
 * blocks among their like (on one stage: lag.h); and what overlap is gained where strategies of ZeRO-3 and others meet.
 * A gather runs beside a neighbour that gathers nothing, two units ahead, but a block's price is of a block among its
 * like: a token table's, before forward, is hidden by the backward of blocks that are under ZeRO-2, and no price of the
 * table knows them. As a gain of pairs it would be below 0 and no longer of rows alone, by which bounds and the
 * certificate tell neighbours apart. Pairs would nearly say it: what a block of ZeRO-3 takes longer than the same of
 * ZeRO-1, in forward and half of it in backward taken off by the neighbour before, the other half by the one behind,
 * each where it gathers nothing and no more than its kernels and reductions leave time for, leaves 2 of the 9 plans
 * below more than 10 % off, at worst 10.5 %. Of embeddings, heads and bridges alone it leaves 3. A price between the
 * two (of an embedding, a head or a bridge of ZeRO-3 0.3 less of what gathers add) is a sum, but then 5 plans of one
 * strategy are too cheap, at worst by 12.9 %; of embeddings alone it leaves 2, at worst 16 %, and the
 * 99th percentile of plans of one strategy of ZeRO-2 and 3 goes from 4.9 to 5.8 %. Nor does it know that
 * the first parts of what is on storage are read before the update (test_price_offload.c), which counts where a stage
 * stores few. Of 14,400 random plans (4 seeds; PLANS=1000 tests/property/test_price) the objective is more than 10 %
 * off for 6, by such gathers, at worst 16 % too dear; of 2,400 with buckets or chunks for none. Of one stage on slow
 * links, of many blocks and one or two microbatches, of 8,400 plans for 3 of mixed strategies of ZeRO-2 and 3, at worst
 * 12 % too dear, by such gathers of a head (for 8, at worst 20 %, where the first microbatch is priced as the others:
 * price.h; as a plain sum for 60, at worst 24 %: lag.h). The median of the first is 0.39 % (0.62 % and 13 plans with
 * the mean of k_i for every stage; 0.15 % and 10 with the longest path itself, whose maximum no search of sums has;
 * each stage's round as its program alone takes it leaves 1 of them; all before sync was priced by one block less). A
 * stage with chunks of weights is no sum: it takes no less than its program alone (chunk_round.h). Departs from
 * Galvatron-BMW, Eq. 9, which counts every stage's gradient sync as part of the pipeline's critical path: here the
 * reduce stream runs beside compute, and on programs of 16 stages that equation was 16 to 95 % above their simulation
 * where n = m - 1 and k = 1 were within 5 %. */
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
