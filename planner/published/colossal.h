/* The tables and figures of Colossal-AI ("A Unified Deep Learning System For Large-Scale Parallel Training") that this
 * repository answers: what is compared (the configurations, committed in colossal.c) and what our formulas, programs
 * and prices say of it. Nothing is fitted to the paper's own figures.
 *
 *     table1            Table I at Figure 9's point: elements that all devices of one h x h linear receive, forward and
 *                       backward, by the formulas as printed
 *     table1-corrected  by those that counting gives: see gal_colossal_elements
 *     fig9, fig9-corrected   the same from 1 to 512 devices
 *     fig12             bytes of two linear layers, by batch and by width: colossal_range.h
 *     fig14             images per second of ViT on systems I and II: of the batch sizes that fit, the best. As the
 *                       release of Colossal-AI carried it out (colossal_release.h), so that it may be compared with the
 *                       paper's own
 *     fig14-galrun      the same as galrun carries it out, squares gathered
 *     fig15a, fig15b    largest batch of 512 positions, and most positions of 64 samples, of BERT-Base that fit on
 *                       system III, 1D beside the ring
 *     fig16a, fig16b    tokens per second at the largest batch; likewise by pipeline stages of 4 devices
 *     table3, table3-galrun   images per second of ViT on system IV, as fig14 and fig14-galrun
 *     fig17             samples per second of GPT-2 by ZeRO-3 and offload: colossal_offload.h
 *
 * Colossal's sequence parallelism stores scores (two passes round the ring); ours keeps log-sum-exps. What it says of
 * neither: precision (here fp16 beside fp32 masters), recomputation (none), microbatches of fig16b (4). Memory is what
 * the programs take, and a device's whole memory counts. */
#ifndef GAL_PLANNER_PUBLISHED_COLOSSAL_H
#define GAL_PLANNER_PUBLISHED_COLOSSAL_H

#include "schemas/plan.h"

typedef enum gal_colossal_form { GAL_COLOSSAL_PRINTED, GAL_COLOSSAL_CORRECTED } gal_colossal_form;

/* A linear Y = X W of these elements. */
typedef struct gal_colossal_linear {
    double x, w, y;
} gal_colossal_linear;

/* Elements received by all devices of a block of tensor parallelism for one linear, forward and backward, ring
 * collectives. depth: of 2.5d, else 1. As printed in Table I:
 *     1d 2 (p-1) Sx    2d 3 (q-1) (Sx + Sw)    2.5d 3 (q-1) (Sx/d + Sw)    3d 2 (l-1)/l (Sx + Sw + Sy)
 * The rows are of different things: 1d and 2d of all devices, 2.5d of one of d slices and without the sum of weight
 * gradients over depth, 3d divided by l. Corrected, all of all devices:
 *     2.5d 3 (q-1) (Sx + d Sw) + 2 (d-1) Sw    3d 2 (l-1) (Sx + Sw + Sy)
 * Source: counted by a simulation of every rank (colossal-spec, section 5). Negative: devices are no such grid. */
double gal_colossal_elements(gal_tp_mode mode, uint32_t devices, uint32_t depth, const gal_colossal_linear *linear,
                             gal_colossal_form form);

typedef struct gal_colossal_row {
    const char *figure, *system; /* system "": none */
    uint32_t devices;
    const char *mode; /* 1d, 2d, 2.5d, 3d or ring; of fig17 zero3-host or hybrid */
    uint32_t depth;   /* of 2.5d; stages of fig16b; else 1 */
    uint32_t batch;   /* samples */
    double value;
    const char *refused; /* why there is no value, or "" */
} gal_colossal_row;

/* Gives every row of the figure (NULL: of all figures) in the order of their listing. each may stop by another code
 * than GAL_OK. GAL_ERR_USAGE for an unknown figure, with the known ones; GAL_ERR_SYSTEM without memory. */
gal_code gal_colossal_reproduce(const char *figure, gal_code (*each)(void *context, const gal_colossal_row *row),
                                void *context, gal_error *err);

#endif
