/* Random legal plans of a tiny model, for property and equivalence tests. Same seed and world, same plan. */
#ifndef GAL_TESTS_SUPPORT_RANDOM_PLAN_H
#define GAL_TESTS_SUPPORT_RANDOM_PLAN_H

#include "schemas/plan.h"

/* splitmix64: the next number of the sequence that *state stands for. */
uint64_t gal_random_next(uint64_t *state);
/* Below count, which is at least 1. */
uint32_t gal_random_below(uint64_t *state, uint32_t count);
/* As likely in every decade from `from` to `to`, both above 0. */
double gal_random_between(uint64_t *state, double from, double to);

/* A plan over `world` ranks (1, 2, 3, 4, 6 or 8) that passes gal_plan_check: any family, 2 or 3 layers (t5 and swin: 1
 * or 2 of each stack or level), hidden 32 (48 where 3 divides the world), any legal strategy per block (with
 * probability 1/2 that of the block before), any order of axes, any overlap, even and uneven stages, both schedules, 1
 * to 4 microbatches, prefetch 1 or 2, tied or not, dropout or not, Adam or AdamW, with and without clipping. fp64. The
 * caller frees it with gal_plan_free. */
void gal_random_plan(uint64_t seed, uint32_t world, gal_plan *out);
/* Where that is legal, every other plan keeps gradients where their weights were. */
void gal_random_reuse(uint64_t seed, gal_plan *plan);

/* Of every eighth seed nothing. Of the others each run has none, a part or all of its optimizer in the host's memory,
 * or all runs have all and their weights where that is legal; every third its activations or a part of them, where that
 * is; then prefetch is 2 where it must be, and the holders of a token table are alike. */
void gal_random_offload(uint64_t seed, gal_plan *plan);
/* Of plans that have a part of the optimizer in the host's memory two of three have moments on storage: all of that, or
 * of some runs a part; in parts of one block, two or all that there is. Likewise of their own of plans that have
 * activations there. */
void gal_random_storage(uint64_t seed, gal_plan *plan);
/* Of plans of 16 bits each run, or all where tables are shared, has the masters there too, or not. */
void gal_random_masters(uint64_t seed, gal_plan *plan);

/* Of every third seed nothing. Of the others every run that may has buckets, chunks of less than a block to several, or
 * matrices. */
void gal_random_shard_units(uint64_t seed, gal_plan *plan);

#endif
