/* The carried tensor of an encoder-decoder within a chunk of a stage: where it is kept, in which layouts, and what
 * happens to its gradient. For lower.c alone.
 *
 * It exists in versions. The first is what the bridge makes or the previous piece sends; a cross-attention that wants
 * other rows has the latest version converted into its own, which is the latest from there on. The next piece is sent
 * the latest one. All readers of a version lie between its making and that of the next; so in backward, which meets
 * them in reverse, the gradient of a version begins as what the next stage sends or as the gradient of the next version
 * converted back, its readers add to it one after another (always in the same order), and then it is whole. */
#ifndef GAL_RUNTIME_PROGRAM_LOWER_CARRIED_H
#define GAL_RUNTIME_PROGRAM_LOWER_CARRIED_H

#include "runtime/program/lower/emit.h"

typedef struct gal_carried_version {
    gal_layout layout;
    uint32_t block; /* of the stage, that makes it or that it is converted for; of a received one 0 */
    uint32_t step_count;
    gal_layout_step *step; /* from the version before; owned */
    bool read;             /* by a cross-attention, as it is */
    uint32_t buffer, gradient;
    bool gradient_begun; /* in the fragment that is being lowered */
} gal_carried_version;

typedef struct gal_carried {
    gal_flow flow;
    bool received, sent;
    uint32_t first, end;   /* blocks of the stage: the chunk's */
    uint32_t first_reader; /* block that the first version or its conversion is for; UINT32_MAX: none of the chunk */
    uint32_t version_count, version_capacity;
    gal_carried_version *version; /* owned */
} gal_carried;

/* Of the blocks [first, end); then block by block (index), with the layout of its rows. entry: of the tensor as it is
 * received. False without memory. */
void gal_carried_begin(gal_carried *c, uint32_t first, uint32_t end);
bool gal_carried_add_block(gal_carried *c, const gal_atoms *atoms, uint32_t index, const gal_block_shape *shape,
                           const gal_layout *layout, const gal_layout *entry);
void gal_carried_free(gal_carried *c);

/* Where the tensor comes from and goes to in the chunk: its buffers, and the ports of the stage's blocks. */
void gal_carried_make_ports(gal_builder *b, gal_carried *c, gal_block_emit *blocks);

/* What is received and sent; GAL_NO_BUFFER: nothing. */
uint32_t gal_carried_received(const gal_carried *c);
uint32_t gal_carried_sent(const gal_carried *c);
uint32_t gal_carried_received_gradient(const gal_carried *c);
uint32_t gal_carried_sent_gradient(const gal_carried *c);
/* The block behind which, forward, the tensor is ready to be sent; and the one behind which, backward, its gradient is.
 * UINT32_MAX: as soon as it is received. */
uint32_t gal_carried_ready(const gal_carried *c);
uint32_t gal_carried_gradient_ready(const gal_carried *c);

/* Around the instructions of block e->index: conversions, and what has been written to the gradient. */
void gal_carried_before_forward(gal_builder *b, const gal_carried *c, const gal_block_emit *e);
void gal_carried_begin_backward(gal_carried *c);
void gal_carried_before_backward(gal_carried *c, gal_block_emit *e);
void gal_carried_after_backward(gal_builder *b, gal_carried *c, const gal_block_emit *e);

#endif
