/* Which queries of a device see which keys in one step of a ring attention, for kernels of any device: under a causal
 * mask a query sees all of the chunks before its own, of its own the keys up to itself, and of those behind nothing.
 * Zig-zag, a chunk is two parts, an early and a late one, and a step their pairs. Source: H. Liu et al., "Ring
 * Attention with Blockwise Transformers", arXiv 2310.01889, algorithm 1. */
#ifndef GAL_RUNTIME_OPS_RING_STEP_H
#define GAL_RUNTIME_OPS_RING_STEP_H

#include "runtime/ops/ops.h"

/* Consecutive positions that a chunk has, from `first` on in its rows and from `position` on in the sequence. */
typedef struct gal_ring_part {
    uint32_t first, count, position;
} gal_ring_part;

/* A part of the queries and one of the keys that they see: all, or on the diagonal those up to themselves. */
typedef struct gal_ring_pair {
    gal_ring_part queries, keys;
    bool diagonal;
    bool first_of_queries; /* no pair before it in the step has these queries ... */
    bool first_of_keys;    /* ... or these keys */
} gal_ring_pair;

enum { GAL_RING_PARTS_MAX = 2, GAL_RING_PAIRS_MAX = GAL_RING_PARTS_MAX * GAL_RING_PARTS_MAX };

typedef struct gal_ring_step {
    uint32_t pair_count; /* 0: the step leaves contexts as they are */
    gal_ring_pair pair[GAL_RING_PAIRS_MAX];
    uint32_t unseen_count; /* of parts of the keys that no query sees */
    gal_ring_part unseen[GAL_RING_PARTS_MAX];
} gal_ring_step;

/* Of a call of attention_step or its backward. Diagonals come first, so that in the ring's first step a query meets a
 * key that it sees before any other. */
gal_ring_step gal_ring_step_of(const gal_kernel_call *call);

/* The same with pairs that lie side by side as one, where nothing is masked: for who asks for rows alone, as positions
 * then mean nothing. */
gal_ring_step gal_ring_step_joined(const gal_ring_step *step);

#endif
