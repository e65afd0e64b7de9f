/* A block lowered alone: what its instructions cost and what it keeps in memory. For costmodel alone.
 *
 * Of its program only sizes are kept: lists are those of another one, whose lists equal. No instruction depends on the
 * number of samples but by the sizes of its rows, so costs and bytes are renewed for other samples, and for other
 * places in the link tree, without lowering. Attention and FFN alone: an embedding or a head is not priced without a
 * neighbour. */
#ifndef GAL_COSTMODEL_LONE_H
#define GAL_COSTMODEL_LONE_H

#include "costmodel/chain.h"

/* Sizes of an instruction. */
typedef struct gal_lone_size {
    uint32_t shape; /* into gal_lone.shape */
    gal_group group;
    uint64_t bytes;
} gal_lone_size;

typedef struct gal_lone {
    const gal_program *like; /* whose lists these are; not owned */
    uint32_t list_class;     /* equal for equal lists */
    gal_atoms atoms;
    uint32_t device_count, lowered_samples;
    gal_block_memory memory;
    uint64_t grain_bytes;                            /* divides all buffers that grow with the samples */
    uint32_t microbatch_samples, stage, stage_count; /* that the costs are of; 0 samples: of none yet */
    double update_seconds;
    gal_cost *cost; /* [instruction] in company; owns the memory of the next two. Plain backward's: backward+sync's */
    gal_lone_size *size; /* [instruction] */
    gal_shape *shape;
} gal_lone;

/* Lists and sizes of the query's block, the middle one of three stages. GAL_ERR_SYSTEM without memory; GAL_ERR_DOCUMENT
 * if a tensor is too large. */
gal_code gal_lone_lower(const gal_model *model, const gal_price_query *query, gal_lowered lowered,
                        gal_program *recycled, gal_program **out, gal_error *err);
/* Places the program like `like`, reads it; it is not referred to afterwards. GAL_ERR_SYSTEM without memory. */
gal_code gal_lone_create(gal_program *program, const gal_program *like, uint32_t list_class, gal_lone **out,
                         gal_error *err);
void gal_lone_free(gal_lone *lone); /* accepts NULL */

/* Whether it also stands for so many samples: every buffer that grows with them stays a multiple of
 * GAL_ALIGNMENT_BYTES, so that its placement scales. */
bool gal_lone_scales(const gal_lone *lone, uint32_t microbatch_samples);
/* Renews the costs if they are of other samples or another stage. */
void gal_lone_renew(gal_lone *lone, const gal_durations *durations, uint32_t microbatch_samples, uint32_t stage,
                    uint32_t stage_count);
void gal_lone_memory(const gal_lone *lone, uint32_t microbatch_samples, gal_block_memory *out);

#endif
