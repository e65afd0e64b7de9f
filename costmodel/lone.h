/* A block lowered alone: what its instructions cost and what it keeps in memory. For costmodel alone.
 *
 * Of its program only sizes are kept, a page of them for two blocks: lists are those of another one, whose lists equal.
 * No instruction depends on the number of samples but by the sizes of its rows, nor on the order of the axes but by the
 * groups of its collectives; so costs and bytes are had for other samples, orders of the axes and places in the link
 * tree, without lowering: where its buffers stay aligned bytes scale, else what grows is placed anew. Of what several
 * blocks hold it brings its own copy. */
#ifndef GAL_COSTMODEL_LONE_H
#define GAL_COSTMODEL_LONE_H

#include "costmodel/axes.h"
#include "costmodel/chain.h"
#include "costmodel/known_kernels.h"

enum { GAL_LONE_NOT_SCALED = 255 };

/* Sizes of an instruction. */
typedef struct gal_lone_size {
    uint64_t bytes;
    uint8_t axes;       /* of a collective: the set of its group */
    uint8_t scaled_dim; /* the dimension that counts rows or samples, GAL_LONE_NOT_SCALED: none */
    uint32_t dims;      /* of a kernel: where its shape's begin in gal_lone.dims */
} gal_lone_size;

/* What says where a buffer that grows with the samples lies. */
typedef struct gal_lone_buffer {
    uint64_t bytes;
    const char *name; /* static string */
} gal_lone_buffer;

/* What is the same for any samples where the axes lie so. */
typedef struct gal_lone_laid {
    const gal_axis_levels *levels;
    bool knows_update;                                              /* then: */
    double update_seconds, shared_update_seconds[GAL_SHARED_COUNT]; /* of gal_chain_times */
    gal_cost cost[];                                                /* [collective] but those that grow with samples */
} gal_lone_laid;

enum { GAL_LONE_LAID_MAX = 8 };

/* What instructions cost in company: kernels for the samples that were asked for last, which other orders and places
 * ask for too; collectives where the axes lay then. */
typedef struct gal_lone_kernels {
    uint32_t samples; /* 0: none yet */
    double own_forward_seconds, own_backward_seconds, own_update_seconds;
    uint32_t laid_count;  /* ways in which the axes lie that were asked for, as far as they are kept */
    gal_lone_laid **laid; /* [GAL_LONE_LAID_MAX] owned, the last one that was asked for first; NULL beyond the count */
    gal_lone_laid *now;   /* as they were asked for last; NULL: none, or there was no memory to keep it */
    gal_cost *cost; /* [instruction]; 0 of what goes between stages, and of plain backward, whose costs are those of
                     * backward+sync */
} gal_lone_kernels;

typedef struct gal_lone {
    const gal_program *like; /* whose lists these are; not owned */
    uint32_t list_class;     /* equal for equal lists */
    bool stepped;            /* the strategy's */
    uint32_t lowered_samples;
    uint32_t chunk_elements;                 /* its unit is a part of a chunk of about so many; 0: a whole */
    uint32_t axis_sets;                      /* of its collectives: bit s for the set s */
    uint64_t grain_bytes;                    /* divides all buffers that grow with the samples */
    uint32_t largest_dim;                    /* of those that grow with them */
    uint32_t shared_units[GAL_SHARED_COUNT]; /* gal_units_of_shared */
    gal_block_memory memory;
    gal_lone_buffer *buffer; /* [buffer] */
    gal_lone_size *size;     /* [instruction]; owns the memory of dims, kernels and buffer */
    uint32_t *dims;          /* of each shape as many as its operator has; none of collectives */
    uint32_t collective_count;
    uint32_t *collective; /* the instructions that are collectives of this stage */
    gal_lone_kernels *kernels;
    gal_known_kernels *known; /* of all blocks; not owned */
} gal_lone;

/* The lists of the query's block, a stage between others; of an embedding or a head with one on its other side.
 * GAL_ERR_SYSTEM without memory; GAL_ERR_DOCUMENT if a tensor is too large. */
gal_code gal_lone_lower(const gal_model *model, const gal_price_query *query, gal_program *recycled, gal_program **out,
                        gal_error *err);
/* Places the program like `like`, reads it; it is not referred to afterwards. strategy: it was lowered under. known is
 * referred to. GAL_ERR_SYSTEM without memory. */
gal_code gal_lone_create(gal_program *program, const gal_strategy *strategy, const gal_program *like,
                         uint32_t list_class, gal_known_kernels *known, gal_lone *out, gal_error *err);
void gal_lone_free(gal_lone *lone); /* the arrays; accepts a zeroed one */

/* Whether it also stands for so many samples: no tensor becomes too large; and, of products in steps, whose work has
 * terms of weights too, and of what is kept in a file, its placement scales: every buffer that grows with the samples
 * stays aligned. */
bool gal_lone_stands_for(const gal_lone *lone, uint32_t microbatch_samples);
/* Whether an earlier block of the chain has brought a unit of this one, the chain's block. */
bool gal_lone_borrows(const gal_lone *lone, const gal_program *chain, uint32_t block);
/* Of a unit that several blocks hold: where an earlier block of a chain brings it, a later one does not synchronise it.
 */
bool gal_lone_is_of_shared(const gal_program *program, const gal_instruction *in);
/* [instruction] in company, where the axes lie so, as gal_lone_kernels has them: the block's, until it is asked again.
 * levels stay what they are as long as the block is there: what they are known for is not asked again. */
const gal_cost *gal_lone_costs(const gal_lone *lone, const gal_durations *durations, const gal_axis_levels *levels,
                               uint32_t microbatch_samples);
/* Of the collectives of tensor parallelism in forward: what they take one after the other where the axes lie so. */
double gal_lone_tensor_forward_seconds(const gal_lone *lone, const gal_durations *durations,
                                       const gal_axis_levels *levels, uint32_t microbatch_samples);
/* Of the kernels of forward and backward whose work grows with the samples: what they take one after the other. */
double gal_lone_compute_seconds(const gal_lone *lone, const gal_durations *durations, uint32_t microbatch_samples);
/* Kernels of forward, of backward of one microbatch (GAL_FRAGMENT_BACKWARD_SYNC) or of the update, one after the other.
 */
double gal_lone_own_seconds(const gal_lone *lone, const gal_durations *durations, uint32_t microbatch_samples,
                            gal_fragment_kind kind);
/* Likewise of transfers to and from a file. */
double gal_lone_stored_seconds(const gal_lone *lone, const gal_durations *durations, uint32_t microbatch_samples,
                               gal_fragment_kind kind);
/* Of cost, what its collectives take the links of each level in forward and backward of one microbatch. */
void gal_lone_link_seconds(const gal_lone *lone, const gal_cost *cost, double seconds[GAL_LINK_LEVELS_MAX]);
/* Likewise of forward what those of tensor and sequence parallelism take, and all on the stream that they take longest
 * on; of backward with sync the latter, its reductions, but of what other blocks hold too, and what its other
 * collectives take the links of each level. */
void gal_lone_collective_seconds(const gal_lone *lone, const gal_cost *cost, gal_chain_times *out);
/* As lowered for so many samples, if it stands for them; else, without a file, all but the work. bytes.boundary is 0.
 * GAL_ERR_SYSTEM without memory. */
gal_code gal_lone_memory(const gal_lone *lone, uint32_t microbatch_samples, gal_block_memory *out, gal_error *err);

#endif
