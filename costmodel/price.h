/* Prices in company: what one more block costs in a running stage, from lowered and simulated chains of blocks.
 *
 * Two equal blocks, or three, or four, until times repeat (price_times.h), run forward, backward, forward,
 * backward with sync, transfers at no cost and everything else as in gal_simulate.
 *     forward_seconds    compute's end of the last block minus that of the one before, in the second forward; no less
 *                        than its kernels and what they wait for, nor than its collectives on one stream: of a few
 *                        blocks some of these may lie in turns
 *     backward_seconds   the same in backward (the blocks in reverse)
 *     enter_seconds      what that forward took beyond one of these per block: the turn from backward to forward, paid
 *                        once per stage by its first block (a gather that nothing hides; negative where a reduction
 *                        left over from backward runs under forward)
 *     leave_seconds      the same of backward, for the turn from forward to backward, paid by the last block
 *     wait_seconds       of it: for reductions that the backward before has left (ZeRO-2 and 3), which forward of an
 *                        even stage of such blocks does not hide. The chain's first backward finds none: what it gains
 *                        by that, leave_seconds has only where they are hidden
 *     sync_seconds       backward with sync of these blocks, on all streams, minus that of one less, and no less
 *                        than its kernels, nor than its collectives on one stream, less backward_seconds; 0 where sync
 *                        adds nothing. By ends within one chain the last reduction would count as it runs alone, where
 *                        all but that one run beside compute and slow each other (bert-large on 8 devices,
 *                        dp4-sdp2.z3, one microbatch: the objective 23 % too low, by one block less 1 %)
 *     tail_seconds       what it took beyond backward, such a wait and one of these per block, paid by the first block
 * Embedding and head are priced as what a chain of two blocks of their strategy gains by them, with enter, leave and
 * tail inside, and by no less than their kernels take: where blocks wait for reductions a head's kernels hide there,
 * but a pipeline of other blocks does not wait so (300 Swin plans of ZeRO-2 and 3: worst error 25 % without, 9 % with).
 * An embedding waits for what its table's reduction leaves besides, less its own forward and, on the only stage, the
 * head's backward, which comes first.
 * So are a bridge and a merge priced, behind two blocks, whose turns are taken for their own: they have none of their
 * kind beside them. Two bridges would wait for each other's table; of three merges two would not wait for the
 * reductions of the others, which a single one was paid for at the end of its stage (swin-huge-32 on 16 devices,
 * tp4-sdp2.z2: a round of -18 ms). The two are those that the first merge of its type follows.
 * Forward of the only stage's first microbatch is another: no reduction of a backward before slows its first gather,
 * and no backward hides it. What the embedding's chain takes for its first forward beyond the second is paid once
 * (288 random plans of ZeRO-3 and one microbatch or two on slow links: 99th percentile of the error 6.7 % without it,
 * 3.5 % with it).
 * A chain of blocks of one type leaves out that types take turns: where one gathers much more than it computes and the
 * other less, prices under ZeRO-3 are too low (qwen2-7b, whose FFNs have most of the weights: plans of one strategy on
 * a100-64 by 8 %). By turns (block, neighbour, block) that is 3 %, but of plans that searches find on the catalogue's
 * clusters then as many are more than 10 % off, others of them.
 * Of a tensor that several blocks of a stage hold (gal_shared) one pays: its update, its bytes, and what the token
 * table takes of sync, are told apart. Another block that holds one is priced where one of its kind has brought it: in
 * a chain of one more.
 * What a block has in the host's memory or on storage saves bytes of the device, and takes no less time: each part of a
 * price is at least what it is of the same strategy with all of it on the device. An Adam of the host that takes over
 * some of the device's and is done before it does not count as a gain: at a tenth of the device's rate that is a tenth
 * of the update at most. So no plan has a lower objective than the same without offload (property/test_on_devices).
 * A chunk of weights is of several blocks: each is priced with a unit of its own, whose collectives take the block's
 * share of a full chunk's seconds (what a chunk saves are latencies), and with what it takes of a stage's bytes at
 * least (lone.c): those of a stage with chunks are read from its program. A price depends on (type of block, strategy,
 * samples, D, prefetch depth) and on how the stage lies in the link tree.
 */
#ifndef GAL_COSTMODEL_PRICE_H
#define GAL_COSTMODEL_PRICE_H

#include "costmodel/duration.h"
#include "costmodel/memory.h"

/* Of forward and backward. */
typedef struct gal_pass_seconds {
    double forward_seconds, backward_seconds;
} gal_pass_seconds;

typedef struct gal_block_price {
    double forward_seconds, backward_seconds, sync_seconds;
    gal_pass_seconds hidden_before, hidden_behind; /* of them, what the block before, behind hides at most, if it
                                                    * gathers nothing: costmodel/hidden.h; but under ZeRO-3 0 */
    gal_pass_seconds on_device;                    /* they are of the same with nothing offloaded */
    double enter_seconds, leave_seconds, tail_seconds;
    double wait_seconds;   /* of leave: for reductions that the backward before has left */
    double update_seconds; /* sums of squares, then Adam and all that runs beside it (gal_update_seconds) */
    double shared_update_seconds[GAL_SHARED_COUNT]; /* of them: what is of each shared tensor */
    double first_seconds; /* of an embedding on the only stage: what forward of the first microbatch takes beyond that
                           * of others; may be below 0, and once_seconds has it */
    double table_sync_seconds; /* of sync: the token table's, where the embedding of the stage may have brought it */
    double once_seconds;       /* of sync: what counts in any case, without what the table has, and first_seconds, 0 or
                                * more; and ... */
    double
        lag_seconds; /* ... the rest, of which the sum over a stage counts where it is above 0: may be below (lag.h) */
    double link_share[GAL_LINK_LEVELS_MAX]; /* of forward and backward: while collectives take the links of a level; of
                                             * what is priced by its gain that of the blocks beside it. At most 1 */
    const gal_block_memory *memory;         /* the cache's; bytes.relayout is 0 */
} gal_block_price;

/* Whether it gathers weights, by which a neighbour hides less (costmodel/hidden.h). */
static inline bool gal_price_gathers(const gal_strategy *strategy)
{
    return strategy->zero_stage == 3;
}

/* Seconds of which neighbours hide all that they may: no less in any company. */
static inline double gal_price_least_forward(const gal_block_price *price)
{
    return price->forward_seconds - price->hidden_before.forward_seconds - price->hidden_behind.forward_seconds;
}
static inline double gal_price_least_backward(const gal_block_price *price)
{
    return price->backward_seconds - price->hidden_before.backward_seconds - price->hidden_behind.backward_seconds;
}

/* In the backward with sync, beside which gradients of all blocks are reduced, nothing is hidden: of backward it is in
 * such a share of the microbatches, ... */
static inline double gal_price_hidden_share(uint32_t microbatch_count)
{
    return (microbatch_count - 1.0) / microbatch_count;
}
/* ... and where least_backward counts in all of them, on the only stage there is this much more once in an iteration.
 */
static inline double gal_price_once(const gal_block_price *price, uint32_t stage_count)
{
    const double hidden = price->hidden_before.backward_seconds + price->hidden_behind.backward_seconds;
    return price->once_seconds + (stage_count == 1 ? hidden : 0.0);
}

/* A block as it is priced. */
typedef struct gal_priced_block {
    const gal_block_shape *shape;
    const gal_strategy *strategy;
    const gal_block_price *price;
} gal_priced_block;

/* What a neighbour on the same stage, behind or before, hides of a block. */
gal_pass_seconds gal_price_hidden(const gal_priced_block *block, const gal_priced_block *neighbour, bool behind);
/* What two neighbours on a stage take more than if each hid all that it may of the other; no part is below 0. */
gal_pass_seconds gal_price_crowded(const gal_priced_block *from, const gal_priced_block *to);

/* Conversions are priced between layouts reached from whole rows. In a plan the samples may lie in another order, by
 * the conversions passed before; its conversions may then take other steps (costmodel/relayout.h has their exact
 * bytes).
 *
 * R(s, s'): what the conversion between two neighbours costs, between the plainest strategies of their layouts. What
 * the change wins or loses in overlap is left out, but for what one of two neighbours hides of the other's gathers
 * (hidden_before, hidden_behind): charged by chains of such pairs it makes the sum of prices no truer (1,200 random
 * plans: worst error 12.7 % with it, 11.4 % without), and a search that alternates strategies collects at every border
 * a gain that can be had once. So no part of R is below 0: what the plain strategies would gain need not be there with
 * the real ones. The carried tensor is not in it: it comes from a block farther back (gal_price_carried).
 *
 * But blocks of two sub-batches run beside their neighbours, and their prices are of blocks in such company. Where that
 * begins and ends (one of the two is of whole microbatches, or rows are converted between them) the sub-batches of one
 * side wait for those of the other: the loss of overlap of Oases' Eq. 4. It is in R, as the chain has it whose plain
 * strategies keep overlap and recompute; no less than without them. */
typedef struct gal_pair_price {
    double forward_seconds, backward_seconds, sync_seconds;
    bool converts;                 /* the layouts differ; else all is 0 */
    uint64_t relayout_bytes;       /* of class relayout, inside a stage */
    uint64_t relayout_entry_bytes; /* where `to` is the first block of its stage */
} gal_pair_price;

typedef struct gal_price_cache gal_price_cache;

/* model and durations are referred to, not copied. GAL_ERR_SYSTEM without memory. */
gal_code gal_price_cache_create(const gal_model *model, const gal_durations *durations, gal_price_cache **out,
                                gal_error *err);
void gal_price_cache_free(gal_price_cache *cache);

/* The same for a search that asks for thousands of prices: the strategies fall into parts by their axes, and blocks of
 * one part are priced at the same time as those of another, on as many threads. The prices are the same. */
gal_code gal_price_cache_create_parts(const gal_model *model, const gal_durations *durations, uint32_t part_count,
                                      gal_price_cache **out, gal_error *err);
/* task(context, part) for all parts, of a cache without parts for 0 alone, on its threads; each is to ask for prices
 * and floors of blocks whose strategy is of its part, as threads that ask for another's wait. The error is that of the
 * first task that has one. Within a task of gal_price_at_once the caller's thread does them all. */
typedef gal_code gal_price_task(void *context, uint32_t index, gal_error *err);
gal_code gal_price_in_parts(gal_price_cache *cache, gal_price_task *task, void *context, gal_error *err);
/* task(context, i) for every i below count, on the same threads; each may ask for any prices, and of several each is to
 * ask for few. Not within a task. */
gal_code gal_price_at_once(gal_price_cache *cache, uint32_t count, gal_price_task *task, void *context, gal_error *err);
uint32_t gal_price_part_of(const gal_price_cache *cache, const gal_strategy *strategy);

typedef struct gal_price_query {
    uint32_t type;                /* gal_block_shape.type */
    const gal_strategy *strategy; /* legal for the type: gal_strategy_block_rule_broken gives NULL */
    uint32_t device_count;        /* D */
    uint32_t stage, stage_count;  /* which devices */
    uint32_t microbatch_samples;
    uint32_t prefetch_depth;
} gal_price_query;

/* Of a block of a plan on a stage. */
gal_price_query gal_price_query_of(const gal_plan *plan, uint32_t stage, uint32_t block);

/* *out belongs to the cache and stays valid until it is freed. GAL_ERR_DOCUMENT if a tensor is too large for a program,
 * GAL_ERR_SYSTEM without memory; also of those that follow. */
gal_code gal_price_block(gal_price_cache *cache, const gal_price_query *query, const gal_block_price **out,
                         gal_error *err);
/* What a price on the only stage is at least, had without the chain that it is measured in, from the block alone:
 * forward_seconds its kernels and what they wait for, or the collectives of a stream where that is more;
 * backward_seconds its kernels; update and memory those of the price. once_seconds is 0, and lag_seconds so that
 * backward_seconds + lag_seconds are no more than those and once_seconds of the price, without its table_sync_seconds;
 * so they are of any number of rounds. All else is 0. Where this would take as long as the price, it is the price.
 * As gal_price_block. */
gal_code gal_price_block_floor(gal_price_cache *cache, const gal_price_query *query, const gal_block_price **out,
                               gal_error *err);
/* A share of its moments that a block has on storage, and what of its price depends on that: its update alone. */
typedef struct gal_price_share {
    uint32_t percent;             /* the strategy's offload_storage_percent */
    bool masters;                 /* of 16 bits are there too */
    const gal_block_price *price; /* update_seconds, shared_update_seconds, memory.host.state, .stored, .table_state,
                                   * .table_stored, .parts.moment, .master and .weight; else it is of whole activations
                                   * on the device */
} gal_price_share;
/* The shares that a block may have: of every percentage from the strategy's offload_storage_percent up to its
 * offload_optimizer_percent (with weights on storage these are one: which of them are there depends on the moments) the
 * least of those that store the same, ascending; behind them, with masters and of 16 bits, those with which masters are
 * there too, likewise. out: GAL_PRICE_SHARES_MAX. */
enum { GAL_PRICE_SHARES_MAX = 202 };
gal_code gal_price_shares(gal_price_cache *cache, const gal_price_query *query, bool masters, gal_price_share *out,
                          uint32_t *count, gal_error *err);
/* The price of a share of a query's strategy. */
gal_code gal_price_share_of(gal_price_cache *cache, const gal_price_query *query, gal_price_share *share,
                            gal_error *err);
/* The strategy with a share. */
gal_strategy gal_price_share_strategy(const gal_strategy *strategy, const gal_price_share *share);

/* Prices with what a byte in the host's memory is charged, for a limit of that (costmodel/price_charged.c). */
typedef struct gal_price_charge {
    double host_seconds_per_byte; /* >= 0 */
    bool storage;                 /* moments may be on storage, in any share: that of least charged seconds */
    bool masters;                 /* with storage: masters of 16 bits too, of any block */
    gal_stored_parts below;       /* with storage: of each kind parts on their way are smaller; 0: of any size. What has
                                   * others is not to be had: gal_price_block says GAL_ERR_DOCUMENT */
} gal_price_charge;
/* Whether the parts that a share of a strategy has on their way are such. own: the strategy's own price. */
bool gal_price_charge_allows(const gal_price_charge *charge, const gal_block_price *own, const gal_price_share *share);
/* of: not charged itself; stays the caller's and is to be freed later than *out. GAL_ERR_SYSTEM without memory. */
gal_code gal_price_cache_create_charged(gal_price_cache *of, const gal_price_charge *charge, gal_price_cache **out,
                                        gal_error *err);
bool gal_price_cache_is_charged(const gal_price_cache *cache);

/* The neighbour `to` follows query's block; across a stage border too (there without the transfer). */
gal_code gal_price_pair(gal_price_cache *cache, const gal_price_query *query, uint32_t to_type,
                        const gal_strategy *to_strategy, const gal_pair_price **out, gal_error *err);

/* What it takes to convert the carried tensor for query's cross-attention from the rows of from_strategy: of the block
 * that made it or was the last to convert it. relayout_bytes are of class carried_relayout. */
gal_code gal_price_carried(gal_price_cache *cache, const gal_price_query *query, const gal_strategy *from_strategy,
                           const gal_pair_price **out, gal_error *err);

/* 0 where the stage lies in the link tree as all others do (gal_group_level_counts), else a number of its own. Prices
 * on stages of one place are equal, and of gal_price_block and gal_price_pair the same. */
uint32_t gal_price_place(const gal_durations *durations, uint32_t device_count, uint32_t stage);
/* The groups over which a strategy splits samples, positions and the features between blocks. Where they are equal
 * nothing is converted. */
typedef struct gal_price_rows {
    gal_group samples, positions, features;
} gal_price_rows;
gal_price_rows gal_price_rows_of(const gal_strategy *strategy, const gal_atoms *atoms);
static inline bool gal_price_rows_equal(const gal_price_rows *a, const gal_price_rows *b)
{
    return a->samples == b->samples && a->positions == b->positions && a->features == b->features;
}
bool gal_price_rows_alike(const gal_strategy *a, const gal_strategy *b, uint32_t device_count);
/* Bytes of such rows of a microbatch on one device under a strategy. */
uint64_t gal_price_rows_bytes(const gal_model *model, const gal_strategy *strategy, uint32_t microbatch_samples,
                              gal_flow rows);
/* Of the transfer of `bytes` (one device's rows) from a stage to the next: half of the time kernels run beside it, on
 * one side or the other. */
typedef struct gal_price_transfer {
    double seconds; /* no collective takes its link */
    uint32_t level; /* of that link */
} gal_price_transfer;
gal_price_transfer gal_price_transfer_of(const gal_durations *durations, uint32_t device_count, uint32_t stage,
                                         uint32_t stage_count, uint64_t bytes);
/* Seconds of it behind a block, whose like the stage that sends is taken to be of: for the block's share of a round
 * collectives take the link, and slow what they run beside. That is half of the transfer's time, as kernels are: while
 * a stage waits for rows gathers have run ahead until their ring is full, and reductions are done. (Of 3,600 random
 * plans of ZeRO-2 and 3 of one strategy the root of the mean squared error of the objective is 1.25 % without, 1.23 %
 * with half and 1.22 % with the whole, the worst 11.2, 9.6 and 8.0 %; of as many that mix strategies, of which gathers
 * that neighbours hide make most too dear, 1.82, 1.83 and 1.84 %.) */
double gal_price_transfer_behind(const gal_durations *durations, const gal_price_transfer *transfer,
                                 const double link_share[GAL_LINK_LEVELS_MAX]);
/* Seconds of the update that no block owns: the norm over the world, and the reduction of relative biases between
 * several stages, as if all held them. */
double gal_price_common_update(const gal_model *model, const gal_durations *durations, uint32_t device_count,
                               uint32_t stage_count);
/* Seconds of the reduction of the token table's gradient between the stages that hold it: what each device holds under
 * the table's strategy. */
double gal_price_table_update(const gal_model *model, const gal_durations *durations, const gal_strategy *strategy,
                              uint32_t device_count, uint32_t stage_count);

#endif
