/* Short chains of blocks, simulated alone: what prices are made of. For costmodel alone.
 *
 * A chain runs forward, backward, forward, backward with sync. Chains of one strategy are laid out once for all of
 * equal lists (structure.h); a gal_chain_spec is one that is lowered for itself: with a conversion of layouts in it.
 * The carried tensor goes on behind the last block; a chain that neither makes nor reads it has none. */
#ifndef GAL_COSTMODEL_CHAIN_H
#define GAL_COSTMODEL_CHAIN_H

#include "costmodel/alone.h"
#include "costmodel/known_kernels.h"
#include "costmodel/price.h"

enum { GAL_CHAIN_MAX = 5, GAL_CHAIN_CALLS = 4, GAL_CHAIN_SYNC_CALLS = 2 };

extern const gal_call gal_chain_calls[GAL_CHAIN_CALLS];
/* Forward and backward with sync alone, where no reductions are left over from a backward before. */
extern const gal_call gal_chain_sync_calls[GAL_CHAIN_SYNC_CALLS];

typedef struct gal_chain_spec {
    const gal_model *model;
    const gal_durations *durations;
    const gal_price_query *query; /* where the chain lies; its type and strategy are not read */
    const gal_layout *entry;      /* of the first block, or NULL: as reached from whole rows */
    const gal_layout *carried;    /* the same of the carried tensor, or NULL: as the rows; only with entry */
    uint32_t block_count;
    uint32_t type[GAL_CHAIN_MAX]; /* what nothing enters only first, what nothing leaves only last */
    const gal_strategy *strategy[GAL_CHAIN_MAX];
} gal_chain_spec;

/* Seconds of forward and backward after a first forward and backward, and with sync instead of backward. */
typedef struct gal_chain_times {
    double forward_seconds, backward_seconds; /* compute's */
    double first_forward_seconds;             /* of that first forward, in front of which nothing runs */
    double sync_seconds;                      /* backward with sync on all streams, less backward_seconds */
    double left_seconds;                      /* what reductions still take where that backward's compute ends */
    double late_seconds;                      /* by what, for that, compute of backward with sync ends later */
    double forward_end[GAL_CHAIN_MAX], backward_end[GAL_CHAIN_MAX]; /* [block]: ends since the beginning of the call */
    double own_forward_seconds, own_backward_seconds;               /* of one of the blocks: of its kernels alone */
    double stored_forward_seconds, stored_backward_seconds;         /* likewise of its transfers to and from a file */
    double link_seconds[GAL_LINK_LEVELS_MAX]; /* likewise of its collectives, of the two together */
    double tensor_forward_seconds;            /* likewise of those of tensor and sequence parallelism in forward; ... */
    double stream_forward_seconds;            /* ... of all there on the stream that they take longest on, ... */
    double stream_sync_seconds; /* ... and in backward with sync, but for reductions of what other blocks hold */
    double reduced_seconds;     /* likewise of its reductions in backward with sync, of what no other block holds */
    double beside_seconds[GAL_LINK_LEVELS_MAX];     /* likewise of its other collectives there */
    double update_seconds;                          /* of that block */
    double shared_update_seconds[GAL_SHARED_COUNT]; /* of them: what is of each shared tensor */
} gal_chain_times;

/* All but what is of the update, from the ends of the calls. */
void gal_chain_read(const gal_alone_ends *ends, uint32_t block_count, gal_chain_times *out);

/* Backward with sync on all streams, from the ends of gal_chain_sync_calls. */
double gal_chain_sync_seconds(const gal_alone_ends *ends);

/* Blocks of one type differ in whether the carried tensor goes on behind them: in a chain that touches it, it does, and
 * another chain has none. */
void gal_chain_carry_on(gal_block_spec *block, uint32_t block_count);

/* The stage that the chain is lowered as, with neighbours on both sides that are not in it. block holds block_count
 * entries and must outlive *out. */
void gal_chain_stage(const gal_chain_spec *spec, gal_lowered lowered, gal_block_spec *block, gal_stage_spec *out);

/* [instruction] of the chain's program: costs in company where the query's stage lies; what goes between stages costs
 * nothing. known: of the kernels, or NULL. The caller frees them; NULL without memory. */
gal_cost *gal_chain_costs(const gal_chain_spec *spec, const gal_program *program, gal_known_kernels *known);

/* Seconds of an update of the units that one block brings: sums of squares, then Adam, and beside it all that runs on
 * other streams for it (together.h): gathers of other blocks, a host's Adam, its copies, its storage both ways. The
 * ring of parts lets no stream run far ahead. cost: [instruction] in company. left_out: units that do not count, as
 * bits. */
double gal_update_seconds(const gal_program *program, const gal_cost *cost, const gal_company_factors *factors,
                          uint32_t block, uint32_t left_out);
/* As bits, the units that have copies of a shared tensor on other stages. */
uint32_t gal_units_of_shared(const gal_program *program, gal_shared shared);

#endif
