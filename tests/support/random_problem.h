/* Search problems for tests: small ones with any numbers, and ones that look like Transformers. Same seed, same
 * problem. The caller frees them with gal_problem_free. */
#ifndef GAL_TESTS_SUPPORT_RANDOM_PROBLEM_H
#define GAL_TESTS_SUPPORT_RANDOM_PROBLEM_H

#include "schemas/problem.h"

/* Up to layers_max layers in runs of up to 3 kinds, up to strategies_max strategies, stage_count stages of at most as
 * many; whole numbers of picoseconds and few bytes, so that ties and exact fits abound; border and tied costs; backward
 * bytes five times larger where seed % 3 == 0; now and then strategies that share a class, and transitions that cost
 * something from a strategy to itself. The budget lies between least and fastest, now and then outside. */
void gal_random_problem(uint64_t seed, uint32_t layers_min, uint32_t layers_max, uint32_t strategies_max,
                        uint32_t stage_count, gal_problem *out);

/* Layers of a Transformer by flops and bandwidth: hidden 2048 to 6144, 16 bytes per parameter, ring collectives at 200
 * GB/s inside 8 devices and 20 GB/s across; strategies are splits of 64 devices in TP, DP or SDP, with and without
 * recomputation, each off by up to 1.5 %. run_count runs of equal layers (layer_count of them: all differ).
 * budget_share of the way from the least bytes to those of the fastest. Transitions cost by change of activation
 * layout, or, where `all_transitions`, between any two strategies. */
typedef struct gal_transformer_problem {
    uint64_t seed;
    uint32_t layer_count, strategy_count, run_count, stage_count, microbatch_count;
    double budget_share;
    bool all_transitions;
} gal_transformer_problem;
void gal_random_transformer_problem(const gal_transformer_problem *form, gal_problem *out);

#endif
