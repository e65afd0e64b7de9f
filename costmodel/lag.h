/* Sync on the only stage of a plan, in two parts. For costmodel alone.
 *
 * Blocks run backward with sync from the last to the first, their reductions behind them on a stream of their own. What
 * is still to be reduced grows by e of each block, and falls where e < 0, but not below nothing: what sync adds to
 * backward is max_k (e_1 + ... + e_k), the waiting time of a queue (D. V. Lindley, "The theory of queues with a single
 * server", 1952). A price of sync is of a block among its like: e where that is above 0, else what its reductions slow,
 * or 0. The sum of these is too dear where blocks that have time to spare meet others that lag: of 1,200 random plans
 * of mixed strategies on slow links 51 by more than 10 %, at worst 24 %; as here none. So sync has two parts,
 *     once = max(sync, 0) - max(e, 0), by which it slows backward
 *     lag  = e - once
 * and a stage has the sum of the one and the largest sum of the other over its first blocks (planner/cell/path.h). That
 * over all is no more, so any share of it, up to all, bounds as tails of several stages do.
 * e is sync, and that is once where it is above 0, where nothing else can be hidden: at the ends of a chain, as the
 * last block's reductions are the first of all and the first block's the last; of two sub-batches, whose kernels run
 * beside their own collectives, so that e does not say what is left; and under ZeRO-2 and 3, whose backward waits for
 * buffers that are behind all that lags. There the largest sum so far goes on in place of the sum: what was
 * left is not hidden any more. (Encoders of DP and ZeRO-3 by turns in front of decoders that lag, t5-512-4-32 on
 * titan-8, were taken to hide what they wait for: objective 11 % too low.)
 * On several stages, whose first backwards hide most of it, once is 0 and lag is sync. */
#ifndef GAL_COSTMODEL_LAG_H
#define GAL_COSTMODEL_LAG_H

#include "costmodel/chain.h"

/* e of a block on the only stage, of D devices: its reductions, and what they slow and are slowed by its kernels and
 * collectives while others' run beside them all the time, less what backward takes. Reductions are taken to cross the
 * outermost links of the stage, which its collectives there share. */
double gal_lag_seconds(const gal_durations *durations, uint32_t device_count, const gal_chain_times *times,
                       double backward_seconds);
/* e and backward together, which do not depend on what backward takes. */
double gal_lag_with_backward(const gal_durations *durations, uint32_t device_count, const gal_chain_times *times);
/* Whether backward waits for reductions. */
bool gal_lag_is_awaited(const gal_strategy *strategy);
/* Parts sync. lag_seconds: e, no more than sync is taken. alone: hides nothing else. borrowed_seconds: of sync, what
 * another block of the stage brings; lag has it too. */
void gal_lag_part(bool alone, double borrowed_seconds, gal_block_price *price);
/* e again, of a price that is in parts; not of an embedding, whose once_seconds has first_seconds too. */
double gal_lag_of(double borrowed_seconds, const gal_block_price *price);

#endif
