/* A block lowered alone: what its instructions cost and what it keeps in memory. For costmodel alone.
 *
 * Of its program only sizes are kept, a page of them for two blocks: lists are those of another one, whose lists equal.
 * No instruction depends on the number of samples but by the sizes of its rows, nor on the order of the axes but by the
 * groups of its collectives; so costs and bytes are had for other samples, orders of the axes and places in the link
 * tree, without lowering. Of what several blocks hold it brings its own copy. */
#ifndef GAL_COSTMODEL_LONE_H
#define GAL_COSTMODEL_LONE_H

#include "costmodel/axes.h"
#include "costmodel/chain.h"

enum { GAL_LONE_DIMS = 11 /* no operator of such a block has more */, GAL_LONE_NOT_SCALED = 255 };

/* Sizes of an instruction. */
typedef struct gal_lone_size {
    uint64_t bytes;
    uint8_t axes;       /* of a collective: the set of its group */
    uint8_t scaled_dim; /* the dimension that counts rows or samples, GAL_LONE_NOT_SCALED: none */
    uint32_t dims;      /* into gal_lone.dims */
} gal_lone_size;

/* What kernels take in company, for the samples that were asked for last: other orders and places ask for the same. */
typedef struct gal_lone_kernels {
    uint32_t samples; /* 0: none yet */
    double *seconds;  /* [instruction] */
} gal_lone_kernels;

typedef struct gal_lone {
    const gal_program *like; /* whose lists these are; not owned */
    uint32_t list_class;     /* equal for equal lists */
    uint32_t lowered_samples;
    uint32_t chunk_elements;                 /* its unit is a part of a chunk of about so many; 0: a whole */
    uint32_t axis_sets;                      /* of its collectives: bit s for the set s */
    uint64_t grain_bytes;                    /* divides all buffers that grow with the samples */
    uint32_t largest_dim;                    /* of those that grow with them */
    uint32_t shared_units[GAL_SHARED_COUNT]; /* gal_units_of_shared */
    gal_block_memory memory;
    gal_lone_size *size; /* [instruction]; owns the memory of dims and kernels */
    uint32_t (*dims)[GAL_LONE_DIMS];
    gal_lone_kernels *kernels;
} gal_lone;

/* The lists of the query's block, a stage between others; of an embedding or a head with one on its other side.
 * GAL_ERR_SYSTEM without memory; GAL_ERR_DOCUMENT if a tensor is too large. */
gal_code gal_lone_lower(const gal_model *model, const gal_price_query *query, gal_program *recycled, gal_program **out,
                        gal_error *err);
/* Places the program like `like`, reads it; it is not referred to afterwards. strategy: it was lowered under.
 * GAL_ERR_SYSTEM without memory. */
gal_code gal_lone_create(gal_program *program, const gal_strategy *strategy, const gal_program *like,
                         uint32_t list_class, gal_lone *out, gal_error *err);
void gal_lone_free(gal_lone *lone); /* the arrays; accepts a zeroed one */

/* Whether it also stands for so many samples: every buffer that grows with them stays a multiple of
 * GAL_ALIGNMENT_BYTES, of GAL_STORAGE_BLOCK_BYTES where some are in a file, so that its placement scales, and no tensor
 * becomes too large. */
bool gal_lone_scales(const gal_lone *lone, uint32_t microbatch_samples);
/* cost[instruction] in company, where the axes lie so; left as they are: what goes between stages, and plain backward,
 * whose costs are those of backward+sync. */
void gal_lone_costs(const gal_lone *lone, const gal_durations *durations, const gal_axis_levels *levels,
                    uint32_t microbatch_samples, gal_cost *cost);
/* Of the kernels of forward and backward whose work grows with the samples: what they take one after the other. */
double gal_lone_compute_seconds(const gal_lone *lone, const gal_durations *durations, uint32_t microbatch_samples);
/* Kernels of forward or of backward of one microbatch (GAL_FRAGMENT_BACKWARD_SYNC), one after the other. */
double gal_lone_own_seconds(const gal_lone *lone, const gal_durations *durations, uint32_t microbatch_samples,
                            gal_fragment_kind kind);
/* Likewise of transfers to and from a file. */
double gal_lone_stored_seconds(const gal_lone *lone, const gal_durations *durations, uint32_t microbatch_samples,
                               gal_fragment_kind kind);
void gal_lone_memory(const gal_lone *lone, uint32_t microbatch_samples, gal_block_memory *out);

#endif
