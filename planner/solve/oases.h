/* The planner of Oases (S. Li et al., "Automated Tensor Model Parallelism with Overlapped Communication for Efficient
 * Foundation Model Training", 2023, section 4): a degree of tensor parallelism for every block of a chain.
 *
 * A block is a computation with the all-reduce behind it, run for two halves of a batch in turn, so that one half
 * computes while the other communicates. With d the computation's and c the all-reduce's seconds of half x, Eq. 3:
 *     T(d, c) = d0(first) + sum over i > first of max(d0(i), c1(i - 1)) + sum over i of max(d1(i), c0(i)) + c1(last)
 * for forward and for backward, and Eq. 4 between neighbours of degrees a and b:
 *     R = gather(a, b) + min(c1(i - 1), d0(i)), of forward where a < b, of backward where a > b; 0 where a = b
 * Eq. 5 is their sum, Eq. 6 the bytes: sum of state + saved, and runtime of the last block, < the budget.
 *
 * Every term of Eq. 5 is of one block or of two neighbours, so it is a problem in plain tables (schemas/problem.h): one
 * stage, one microbatch, seconds = max(d1, c0), transitions = max(d0, c1) + R. What solves those solves this. */
#ifndef GAL_PLANNER_SOLVE_OASES_H
#define GAL_PLANNER_SOLVE_OASES_H

#include "schemas/problem.h"

typedef enum gal_oases_pass { GAL_OASES_FORWARD, GAL_OASES_BACKWARD, GAL_OASES_PASS_COUNT } gal_oases_pass;

/* Of a block under a degree. [pass][half] */
typedef struct gal_oases_cost {
    double compute_seconds[GAL_OASES_PASS_COUNT][2], reduce_seconds[GAL_OASES_PASS_COUNT][2];
    uint64_t state_bytes, saved_bytes, runtime_bytes;
} gal_oases_cost;

typedef struct gal_oases {
    uint32_t block_count, degree_count;
    uint64_t budget_bytes;  /* >= 2 */
    uint32_t *degree;       /* (degree): ascending */
    gal_oases_cost *cost;   /* (block, degree) */
    double *gather_seconds; /* (block, from, to): in front of the block; of forward where from < to, else backward */
} gal_oases;

/* GAL_ERR_SYSTEM without memory. */
gal_code gal_oases_create(uint32_t block_count, uint32_t degree_count, gal_oases *out, gal_error *err);
void gal_oases_free(gal_oases *oases);

/* The tables; strategies are the degrees. The caller frees them with gal_problem_free. GAL_ERR_SYSTEM without memory.
 */
gal_code gal_oases_tabulate(const gal_oases *oases, gal_problem *out, gal_error *err);

/* Seconds of an all-reduce among `degree` devices, 2 K (N - 1) / N bytes over a link (section 4), and of an all-gather
 * that makes message_bytes of its shares on `degree` devices, K (N - 1) / N. */
double gal_oases_reduce_seconds(double message_bytes, uint32_t degree, double bytes_per_second);
double gal_oases_gather_seconds(double message_bytes, uint32_t degree, double bytes_per_second);

#endif
