/* From graphs to instructions: the state of one block while its stage is lowered. For runtime/program alone. */
#ifndef GAL_RUNTIME_PROGRAM_LOWER_EMIT_H
#define GAL_RUNTIME_PROGRAM_LOWER_EMIT_H

#include "runtime/program/builder.h"
#include "runtime/program/graph/graph.h"

/* What each of two sub-batches has for itself. */
typedef struct gal_emit_half {
    uint16_t chunk_layout, whole_layout, all_layout;
    uint8_t pending;
    uint32_t dy, dx;
    uint32_t forward[GAL_GRAPH_MAX], backward[GAL_GRAPH_MAX], gradient[GAL_GRAPH_MAX];
} gal_emit_half;

typedef struct gal_block_emit gal_block_emit;

/* Where a unit is kept, as the strategy says: it is updated on the host; its weights are there alone; its moments are
 * in a file; its weights are. */
typedef struct gal_unit_places {
    bool on_host, fetched, stored, weight_stored;
} gal_unit_places;

/* Where a unit began: that block keeps what is known of it while it is emitted, under that one of its units. */
typedef struct gal_unit_home {
    gal_block_emit *block;
    uint8_t index;
} gal_unit_home;

struct gal_block_emit {
    uint32_t index; /* in the stage */
    const gal_strategy *strategy;
    gal_mesh mesh;
    gal_block_shape shape;
    gal_graph graph;
    gal_layout layout; /* of its input and output */
    /* The same samples, as program layouts: positions split as between blocks; as where Megatron's chunks are gathered,
     * so over the sequence axis alone; whole. And how many positions of the block and of the carried tensor each has.
     */
    uint16_t chunk_layout, whole_layout, all_layout;
    uint16_t turned_layout; /* on a 3d grid: the same samples as behind the first product */
    uint32_t samples, sequence, chunk_positions, all_positions;
    uint32_t carried_sequence, carried_chunk, carried_positions;

    bool redo[GAL_GRAPH_MAX];         /* node: run again in backward */
    bool saved[GAL_GRAPH_MAX];        /* value: kept from forward to backward */
    uint32_t forward[GAL_GRAPH_MAX];  /* value -> buffer in the forward fragment */
    uint32_t backward[GAL_GRAPH_MAX]; /* value -> buffer readable in the backward fragment */
    uint32_t gradient[GAL_GRAPH_MAX]; /* value -> buffer of its gradient */
    uint8_t pending;                  /* node whose weight gradient is still to be issued, or GAL_NO_VALUE */

    uint32_t unit[GAL_BLOCK_UNITS]; /* program units: of several of the graph's there may be one */
    gal_unit_home home[GAL_BLOCK_UNITS];
    gal_unit_places unit_at[GAL_BLOCK_UNITS];
    bool unit_borrowed[GAL_BLOCK_UNITS]; /* it belongs to an earlier block of the stage that holds the same tensor */
    bool unit_lent[GAL_BLOCK_UNITS];     /* a later one holds it too: the gradient already has that one's part */
    uint32_t gradients[GAL_BLOCK_UNITS]; /* of the unit that begins here, with those of other blocks: as many are
                                          * written per microbatch, of each sub-batch one ... */
    uint32_t gradients_left[GAL_BLOCK_UNITS];  /* ... of which so many are still to be; 0: all */
    uint32_t bucket[GAL_BLOCK_UNITS];          /* ring buffer in use, or GAL_NO_BUFFER */
    uint64_t tensor_offset[GAL_BLOCK_TENSORS]; /* elements in the unit */
    uint64_t tensor_elements[GAL_BLOCK_TENSORS];

    bool cut;       /* products whose results a collective sums, and those: emit_chunks.c */
    uint8_t summed; /* the value, or the value of a gradient, that was last summed with its product */

    bool puts_x_away;                        /* of what backward reads the input goes to the host's memory ... */
    uint32_t away_count;                     /* ... and so many values, as forward makes them: activations.c */
    uint8_t away[GAL_GRAPH_MAX];             /* values that are their own storage */
    bool stores_x, stored[GAL_GRAPH_MAX];    /* of them: to a file; [of away] */
    uint32_t staged, staged_x;               /* its turn of the device's buffers for that, and of those for inputs */
    uint64_t staged_bytes;                   /* of kept values so far */
    uint64_t staged_offset[GAL_GRAPH_MAX];   /* value that is its own storage -> where it lies in `staged` */
    uint32_t away_x, away_in[GAL_GRAPH_MAX]; /* buffers there or in the file; [of away] */

    bool unsynchronised[GAL_BLOCK_UNITS]; /* complete in the input part of backward */

    uint32_t x, y, dy, dx;      /* buffers of the block's ports, GAL_NO_BUFFER where there is none */
    uint32_t carried, dcarried; /* likewise of the carried tensor that it reads or makes */
    bool dcarried_written;      /* its gradient already has parts of later blocks */

    /* Two sub-batches, emitted one after the other: samples and layouts above are of one, so is what gal_emit_half
     * names. Its part of a port lies at that half of it, or in a buffer of its own. */
    bool halved;
    uint8_t half; /* the one of now: 0 or 1 ... */
    gal_emit_half other;
    bool dy_apart, dx_apart;
};

/* The latest block of the stage that holds each shared tensor, and by which of its units. */
typedef struct gal_holders {
    gal_block_emit *block[GAL_SHARED_COUNT];
    uint8_t unit[GAL_SHARED_COUNT];
    gal_unit_home open; /* where the unit began that takes more matrices; block NULL: there is none */
    gal_unit open_unit; /* it, as far as it is known; used_elements are those so far */
} gal_holders;

/* emit.c: the nodes of a block. Ports are set by the caller. before: the one in front of it; NULL: there is none. */
void gal_emit_init(gal_builder *b, uint32_t index, const gal_layout *layout, const gal_block_emit *before,
                   gal_block_emit *out);
void gal_emit_forward(gal_builder *b, gal_block_emit *e);
/* The forward of a block again, all of it: what a pass of recompute does that knows nothing of the backward behind it.
 */
void gal_emit_recompute(gal_builder *b, gal_block_emit *e);
void gal_emit_backward(gal_builder *b, gal_block_emit *e);
/* The same in two parts, for schedules that split it. To the weight part belong the gradients of linears, row biases
 * and an embedding. A norm's gains come with its input's gradient, from one kernel; and a head is in the input part
 * whole: to keep gradients of its logits would take more memory than anything else of the stage. What the weight part
 * reads and the input part makes is moved to class kept; what recompute makes is made once, in the input part, gathers
 * of sequence chunks apart, which the weight part repeats. */
void gal_emit_backward_input(gal_builder *b, gal_block_emit *e);
void gal_emit_backward_weight(gal_builder *b, gal_block_emit *e);
bool gal_emit_weight_reads_dy(const gal_builder *b, const gal_block_emit *e);
void gal_emit_head_evaluation(gal_builder *b, gal_block_emit *e); /* a head's forward and loss, for evaluation */

/* emit_halves.c: blocks of one or two sub-batches. A segment of theirs, forward and backward of all that they have: in
 * front of what the first sub-batch is the second has nothing. Under recompute that is a pass of its own the two take
 * turns (gal_overlap_order) in each pass; else they are in order. */
void gal_emit_begin_segment(gal_builder *b, const gal_block_emit *e, uint32_t fragment);
void gal_emit_forward_all(gal_builder *b, gal_block_emit *e);
void gal_emit_backward_all(gal_builder *b, gal_block_emit *e);
/* Recompute is such a pass, with nothing of other blocks beside it. */
bool gal_emit_passes_apart(const gal_block_emit *e);
/* The ports of a block's gradients: the buffer, of which each sub-batch has its part; apart: each has a buffer of its
 * own, the first this one, so that nobody waits for what the other one does there. */
void gal_emit_set_dx(gal_builder *b, gal_block_emit *e, bool apart, uint32_t buffer);
void gal_emit_set_dy(const gal_builder *b, gal_block_emit *e, bool apart, uint32_t buffer);

/* activations.c: kept values in the host's memory, or in a file. Which ones of a block's, and whether a value is one;
 * the place of its input, and of a value that is kept; and the copies, behind its forward and in front of its backward.
 */
void gal_activations_choose(const gal_builder *b, gal_block_emit *e);
bool gal_activations_has(const gal_block_emit *e, uint8_t value);
uint32_t gal_activations_input(gal_builder *b, gal_block_emit *e);
uint32_t gal_activations_place(gal_builder *b, gal_block_emit *e, uint8_t value);
void gal_activations_put_away(gal_builder *b, gal_block_emit *e);
void gal_activations_fetch(gal_builder *b, gal_block_emit *e);

/* recompute.c: which nodes run again, which values are kept. */
void gal_recompute_policy(gal_block_emit *e);
/* The value whose buffer a value shares: nodes that work in place give no buffer of their own. */
uint8_t gal_graph_storage(const gal_graph *graph, uint8_t value);

/* zero_units.c: the units of a block; a chunk is left open for the next one, and closed behind the last of a piece. */
void gal_zero_units(gal_builder *b, gal_block_emit *e, gal_holders *holders);
void gal_zero_close_units(gal_builder *b, gal_holders *holders);
/* zero.c: parameters, their sharding and their synchronisation. */
/* The operand that reads a tensor's weights; ZeRO-3 gathers its unit first, unless the ring still holds it. */
gal_operand gal_zero_weight(gal_builder *b, gal_block_emit *e, uint8_t tensor);
/* The operand that takes a tensor's gradient, and what follows when it has been written. */
gal_operand gal_zero_gradient(gal_builder *b, gal_block_emit *e, uint8_t tensor);
void gal_zero_gradient_done(gal_builder *b, gal_block_emit *e, uint8_t tensor);
/* The same of a tensor whose kernels work on the panel of all parts (gal_tensor.gather_group), one behind another, or
 * on the tensor itself where there is no such group. The panel is written whole; `done` is given what was written. */
gal_operand gal_zero_weight_panel(gal_builder *b, gal_block_emit *e, uint8_t tensor);
/* Of such a tensor part t alone, to a buffer of the ring; and how many such parts there may be at a time, the oldest
 * making way for a further one. */
uint32_t gal_zero_weight_steps(const gal_builder *b, const gal_block_emit *e, uint8_t tensor);
gal_operand gal_zero_weight_step(gal_builder *b, gal_block_emit *e, uint8_t tensor, uint32_t t);
gal_operand gal_zero_gradient_panel(gal_builder *b, gal_block_emit *e, uint8_t tensor);
void gal_zero_gradient_panel_done(gal_builder *b, gal_block_emit *e, uint8_t tensor, const gal_operand *panel);
/* The buffer in which what is to be added to gradients is put together, of so many bytes at least. */
uint32_t gal_zero_scratch(gal_builder *b, uint64_t bytes);
/* Synchronises what was complete while sync_later was set. */
void gal_zero_synchronise(gal_builder *b, gal_block_emit *e);
/* zero_host.c: units that are updated on the host. Where each of the block's own is kept, by their elements. */
void gal_host_choose(gal_block_emit *e, const uint64_t elements[GAL_BLOCK_UNITS]);
/* The buffers that such a unit has for that. */
void gal_host_buffers(gal_builder *b, uint32_t block, gal_unit *unit);
/* The weights of one that has them there alone, or in a file, to a buffer of the device. */
void gal_host_fetch(gal_builder *b, const gal_unit *unit, uint32_t buffer);
/* Its gradient, which is complete, to the host; the norm, which is summed; the update; and the weights back. */
void gal_host_take_gradient(gal_builder *b, const gal_unit *unit, const gal_operand *gradient);
void gal_host_take_norm(gal_builder *b);
void gal_host_update(gal_builder *b, const gal_unit *unit);
void gal_host_bring(gal_builder *b, const gal_unit *unit, const gal_operand *weight);

/* storage.c: of these units, those whose moments are on storage: the buffers of one, of its master and weights too or
 * of its moments alone; its weights to a buffer of the device; what is read ahead of the updates; and the update of
 * one, part by part. */
typedef struct gal_storage_kinds {
    bool master, weight;
} gal_storage_kinds;
void gal_storage_buffers(gal_builder *b, uint32_t block, gal_storage_kinds kinds, gal_unit *unit);
void gal_storage_fetch(gal_builder *b, const gal_unit *unit, uint32_t buffer);
typedef struct gal_storage_cursor {
    uint32_t unit;  /* what is read next: of this unit ... */
    uint64_t first; /* ... the part from this element on ... */
    uint32_t turn;  /* ... which is the turn'th of the stage */
    uint32_t done;  /* parts that are updated */
} gal_storage_cursor;
void gal_storage_read_ahead(gal_builder *b, gal_storage_cursor *next);
void gal_storage_update(gal_builder *b, uint32_t unit, gal_storage_cursor *next);

/* The update fragment: norm, clipping, Adam, gathers of sharded weights. */
void gal_zero_update(gal_builder *b, uint32_t loss_replicas);
/* The end of an evaluation: the loss to every rank. */
void gal_zero_report(gal_builder *b, uint32_t loss_replicas);
/* Forgets what the rings hold: at the start of a fragment. */
void gal_zero_begin_fragment(gal_builder *b);

/* relayout.c: `rows` per sample from one layout to another; the steps of gal_layout_convert, or their inverses. The
 * source is readable, the target is written last; what lies between is placed in class `between` from first_offset. */
void gal_emit_steps(gal_builder *b, gal_class between, const gal_layout_step *steps, uint32_t step_count, bool inverse,
                    gal_flow rows, uint32_t source, uint32_t target, uint64_t first_offset);
uint64_t gal_layout_bytes(const gal_builder *b, const gal_layout *layout, gal_flow rows);

/* Collectives of the builder: sets group and bytes. elements as schemas/operator.h defines them. */
gal_instruction *gal_emit_collective(gal_builder *b, gal_op op, gal_stream stream, const char *name, gal_dtype dtype,
                                     gal_group group, uint64_t elements, uint32_t option);

#endif
