/* What our programs, prices and simulation say of the tables and figures of Oases ("Automated Tensor Model Parallelism
 * with Overlapped Communication for Efficient Foundation Model Training"), from its settings and, of what it measured,
 * Megatron-LM's column of Table 3 alone (planner/published/oases_fit.h).
 *
 *     tables   Figure 4 and Table 3: thousands of tokens per second of the seven models of Table 4 on 32 devices of
 *              both clusters, by every method (planner/published/oases_case.h)
 *     fig2     share of a step on 4 devices in which no kernel computes: communication that nothing hides
 *     table2   device efficiency: the share of a step in which a kernel computes
 *     fig3     time lines of the backward of one attention and FFN under each schedule
 *     fig5     thousands of tokens per second of Table 5's models on 4 stages, by global batch
 *     fig7     weak scaling: thousands of tokens per second of 4 to 32 devices, the batch with them
 * What the paper leaves open: which models Figures 2 and 7 are of (here hidden 2048 and 4096), the batches of Figure 5,
 * microbatches (all samples of a replica at once; 2 of Figure 5). Planner runs the proposal of Eq. 3 to 6, or uniform
 * degrees where these simulate faster: the equations do not know what sums of gradients take. Bytes limit the proposal
 * alone: what the paper ran is simulated, though with gradients in fp32 our programs of Table 5 would need 25 and 28
 * GiB.
 * Planner is held against baselines of Table 4's degrees, which the paper's grid search found best, and against what a
 * grid search by our prices finds for them. The two agree at hidden 3072 to 8192, where half of a degree needs 25 to 32
 * GiB by our bytes; at 1024 and 2048 half needs 8 and 13 GiB and Megatron-LM is 1.06 to 2.2 times as fast with it, so
 * there Planner, which may take it, is up to 2.8 times Megatron-LM of Table 4's degree, but no more than 1.51 times
 * Megatron-LM at its best. What kept the paper from these degrees it does not say; not bytes: its models of 12288 need
 * 17 GiB by the same count and ran.
 */
#ifndef GAL_PLANNER_PUBLISHED_OASES_TABLES_H
#define GAL_PLANNER_PUBLISHED_OASES_TABLES_H

#include "planner/published/oases_case.h"
#include "planner/published/oases_fit.h"

enum { GAL_OASES_DEGREES_BYTES = 256 };

typedef struct gal_oases_row {
    const char *figure, *cluster, *model; /* cluster and model as the tables call them: hidden, or a name */
    gal_oases_method method;
    uint32_t devices, batch;
    double value;                          /* tokens per second, or a share */
    double speedup;                        /* over Megatron-LM there; of tables, fig5, fig7 */
    char degrees[GAL_OASES_DEGREES_BYTES]; /* TP's by layer: "[4]*20+[2]*4", "[4/2]": of attention and FFN */
    uint32_t best_tp_degree;               /* of tables, baselines: by grid search; 0: none fits, or not asked */
    double best_value;                     /* and what it reaches */
    double planner_seconds;                /* of the processor; Planner alone, else 0 */
    const char *refused;                   /* why there is no value, or "" */
} gal_oases_row;

/* Gives every row of the figure in order. each may stop by another code than GAL_OK. GAL_ERR_USAGE for an unknown
 * figure, with the known ones; GAL_ERR_SYSTEM without memory. */
gal_code gal_oases_reproduce(const gal_oases_fit *fit, const char *figure,
                             gal_code (*each)(void *context, const gal_oases_row *row), void *context, gal_error *err);

#endif
