/* Which splits of the world make the channels of all ranks. A split (ncclCommSplit, MPI_Comm_split) is a call of all
 * ranks that cuts the world in disjoint groups, so channels whose groups share no rank are made by one split: a round.
 * The rounds are the same on all ranks, and so is the order in which communicators are made. */
#ifndef GAL_RUNTIME_COMM_SPLITS_H
#define GAL_RUNTIME_COMM_SPLITS_H

#include "runtime/comm/comm.h"

#define GAL_NO_SPLIT UINT32_MAX

/* What this rank does in a round. */
typedef struct gal_split {
    uint32_t color;   /* number of its group among all of the world; GAL_NO_SPLIT: in none */
    uint32_t key;     /* group index in it */
    uint32_t channel; /* the first of this rank's channels that the group is; valid with a color */
} gal_split;

typedef struct gal_splits {
    uint32_t round_count;
    gal_split *split;       /* [round_count] */
    uint32_t channel_count; /* of this rank */
    uint32_t *round_of;     /* [channel_count]: equal channels have one round */
} gal_splits;

/* Collective over control. channels: of this rank, each of two ranks or more with this rank among them. Groups are
 * listed by stream, then members, and each takes the first round in which none of its ranks is busy. GAL_ERR_DEVICE on
 * all ranks if a rank lacks a channel that another one has it in; GAL_ERR_SYSTEM without memory. */
gal_code gal_splits_create(gal_comm *control, const gal_channel_spec *channels, uint32_t channel_count,
                           double deadline_seconds, gal_splits *out, gal_error *err);
void gal_splits_free(gal_splits *splits); /* the arrays; accepts a zeroed one */

/* Group index of the rank; a channel that is not its own, or names a rank twice, is a bug of the caller. */
uint32_t gal_channel_index(const gal_channel_spec *spec, uint32_t rank, uint32_t world_size);
/* By stream, then members: < 0, 0 or > 0. */
int gal_channel_compare(const gal_channel_spec *a, const gal_channel_spec *b);

#endif
