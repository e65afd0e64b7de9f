/* The typing rules of verify_types.c: their state, how they read and write operands, and their tables. For
 * verify_type*.c alone.
 *
 * A rule reads the values of the present instruction's operands, says what is wrong with them if anything, and stores
 * the values of its outputs. gal_type_holds() and gal_type_broken() record the first broken rule; what follows a broken
 * rule may be skipped. k is the number of an operand. */
#ifndef GAL_RUNTIME_PROGRAM_VERIFY_VERIFY_TYPER_H
#define GAL_RUNTIME_PROGRAM_VERIFY_VERIFY_TYPER_H

#include "runtime/program/verify/verify_values.h"

/* Between two stages the stream's rows are under way, and in an encoder-decoder the carried tensor. */
enum { GAL_TYPE_DIRECTIONS = 2, GAL_TYPE_SENT_MAX = 2 };
/* A unit that is updated on the host counts so many updates: Adam there, and the copy of its weights. */
enum { GAL_TYPE_HOST_UPDATES = 2 };

/* What has been sent and not yet received, oldest first. */
typedef struct gal_type_mail {
    uint32_t count;
    gal_typed value[GAL_TYPE_SENT_MAX];
    uint64_t bytes[GAL_TYPE_SENT_MAX];
} gal_type_mail;

/* Where a tensor is read: in the fragments of a step, of an evaluation; by a GEMM as stored or transposed. */
typedef enum gal_tensor_use {
    GAL_USE_STEP = 1,
    GAL_USE_EVALUATION = 2,
    GAL_USE_STEP_PLAIN = 4,
    GAL_USE_STEP_TRANSPOSED = 8,
    GAL_USE_EVALUATION_PLAIN = 16,
    GAL_USE_EVALUATION_TRANSPOSED = 32
} gal_tensor_use;

/* Of a unit whose moments are on storage: its first elements that are updated, and of each moment, of its master and of
 * its weights those written back. */
typedef struct gal_type_stored {
    uint64_t updated, written[GAL_STORED_KINDS];
} gal_type_stored;

/* Which tensor a kernel of a block reads: forward's and what recompute runs again are of one name, and of one tensor.
 */
enum { GAL_TYPE_READERS = 24 };
typedef struct gal_type_reader {
    const char *name;
    gal_op op;
    uint32_t operand, unit;
} gal_type_reader;

typedef struct gal_type_stage {
    const gal_program *program;
    gal_store store;
    gal_type_mail sent[GAL_TYPE_DIRECTIONS]; /* to the previous, to the next stage */
    gal_typed tied[GAL_SHARED_COUNT];        /* what was summed with the other stages that hold it, and its pieces */
    bool has_tied[GAL_SHARED_COUNT];
    uint32_t *first_parameter;          /* of each unit, and one past the last: parameters of a unit lie together */
    uint8_t *norm_count, *update_count; /* of each unit */
    gal_type_stored *stored;            /* of each unit */
    uint8_t *uses;                      /* of each parameter: tensor_use bits */
    uint32_t *owner; /* of each parameter: who reads it, as read_by_owner numbers them; 0: nobody yet */
    gal_type_reader (*reader)[GAL_TYPE_READERS]; /* of each block of the model, by name and operand */
    gal_group *panels; /* of each block of the model: over which its weights were gathered to panels */
} gal_type_stage;

typedef struct gal_typer {
    gal_type_stage *stage;
    uint32_t stage_count;
    gal_type_stage *now;
    const gal_program *program;
    uint32_t chunk;
    gal_rows *rows; /* interned */
    uint32_t rows_count, rows_capacity;
    bool first; /* microbatch 0: accumulate writes */
    bool evaluates;
    const gal_instruction *in;
    const gal_shape *shape;
    const gal_operand *operand;
    const char *rule; /* broken, or NULL */
} gal_typer;

/* A rule, and how many operands its operator has at least and at most. */
typedef struct gal_typing_rule {
    void (*apply)(gal_typer *);
    uint8_t least, most;
} gal_typing_rule;

/* Rows of operators; others are empty. */
extern const gal_typing_rule gal_type_kernel_rules[GAL_OP_COUNT];
extern const gal_typing_rule gal_type_grid_rules[GAL_OP_COUNT];
extern const gal_typing_rule gal_type_attention_rules[GAL_OP_COUNT];
extern const gal_typing_rule gal_type_update_rules[GAL_OP_COUNT];
extern const gal_typing_rule gal_type_collective_rules[GAL_OP_COUNT];
extern const gal_typing_rule gal_type_ring_rules[GAL_OP_COUNT];
extern const gal_typing_rule gal_type_storage_rules[GAL_OP_COUNT];

bool gal_type_broken(gal_typer *t, const char *rule);
bool gal_type_holds(gal_typer *t, bool condition, const char *rule);
uint64_t gal_type_item_bytes(const gal_typer *t, uint32_t k); /* of an element of operand k */
uint32_t gal_type_size_of(const gal_typer *t, gal_group group);
bool gal_type_expect_elements(gal_typer *t, uint32_t k);
bool gal_type_same_pieces(const gal_store *a, const gal_typed *x, const gal_store *b, const gal_typed *y);
uint32_t gal_type_intern(gal_typer *t, const gal_rows *rows);
/* What an operand reads: written as a whole, or rows cut in two sub-batches or joined again. False: nothing. */
bool gal_type_find(gal_typer *t, uint32_t k, gal_typed *out);
bool gal_type_get(gal_typer *t, uint32_t k, gal_typed *out);
/* The same, or a part of a panel, or all of it: chunks and chunk say which. */
bool gal_type_get_part(gal_typer *t, uint32_t k, gal_typed *out);
bool gal_type_get_kind(gal_typer *t, uint32_t k, gal_value_kind kind, gal_typed *out);
/* Activations of `features` per row on a device, no partial ones. */
bool gal_type_get_complete(gal_typer *t, uint32_t k, uint64_t features, gal_typed *out);
/* Whether a value's features are in no other order than ordinary rows have, or in that of the instruction's parts. */
bool gal_type_expect_order(gal_typer *t, const gal_typed *value);
/* The rule of an addition where the first operand is a part of what passes round a ring; false where it is none. */
bool gal_type_add_part(gal_typer *t);
/* The same as another operand in rows and split. */
bool gal_type_get_alike(gal_typer *t, uint32_t k, const gal_typed *other);
/* Stores a part of a panel; the last one makes a panel of all if they are alike. */
bool gal_type_put_part(gal_typer *t, uint32_t k, const gal_typed *value);
/* Stores an output; where the operand adds to what is there, that must be of the same type. */
bool gal_type_put(gal_typer *t, uint32_t k, const gal_typed *value);
/* An output of activations. */
bool gal_type_put_rows(gal_typer *t, uint32_t k, gal_typed value, uint64_t features);
bool gal_type_layout_rows(gal_typer *t, uint64_t local_positions, uint32_t *out);
/* The rows of the instruction's layout, with the number of samples that its shape says. */
bool gal_type_expect_layout(gal_typer *t, uint32_t rows, uint64_t samples, uint64_t local_positions);
uint64_t gal_type_local_elements(const gal_typer *t, const gal_parameter *p);
/* How a matrix of n columns, stored as the tensor's part of a device, is split: by rows or by columns. */
void gal_type_split_of(const gal_typer *t, const gal_parameter *p, uint64_t elements, uint64_t n, gal_group *by_rows,
                       gal_group *by_columns);
/* What an operand reads is of the type that its operator reads there. */
bool gal_type_reads_dtypes(gal_typer *t);
/* After the rule: what was written is of the type that the operator writes there. */
void gal_type_note_dtypes(gal_typer *t);
/* The tensors of a unit that are its elements [first_element, + elements) and one matrix of n columns: one, or several
 * rows below rows that are split alike; of a vector one or several side by side. Returns their count and the first; 0:
 * none.
 */
uint32_t gal_type_joined(const gal_typer *t, uint32_t unit, uint64_t first_element, uint64_t elements, uint64_t n,
                         uint32_t *first);
/* The tensor that an operand reads, as a matrix of m by n on a device. */
bool gal_type_get_weight(gal_typer *t, uint32_t k, uint64_t m, uint64_t n, gal_group *by_rows, gal_group *by_columns);
/* Likewise, or a part of one that is gathered to a panel, or a panel of rows as one matrix. */
typedef struct gal_type_matrix {
    gal_group by_rows, by_columns; /* that it is still split over */
    uint32_t chunks, chunk;        /* chunks 0: no part of a panel */
    bool chunk_rows;
} gal_type_matrix;
/* Whether the index of `part` is the fastest of a dimension cut over `all`: its members have neighbouring chunks. */
bool gal_type_cuts_last(gal_group all, gal_group part);
bool gal_type_get_matrix(gal_typer *t, uint32_t k, uint64_t m, uint64_t n, gal_type_matrix *out);
bool gal_type_get_vector(gal_typer *t, uint32_t k, uint64_t n, gal_group split);
bool gal_type_get_whole_vector(gal_typer *t, uint32_t k, uint64_t n);
bool gal_type_put_piece(gal_typer *t, uint32_t k, uint64_t m, uint64_t n, gal_group split_m, gal_group split_n,
                        gal_group partial);
gal_group gal_type_owners_of(const gal_typer *t, const gal_typed *value);
/* The complete gradient of a unit, range by range. */
bool gal_type_get_gradient(gal_typer *t, uint32_t k, uint64_t elements, gal_typed *out, gal_group *range);
/* Whether the gradient, which is whole, is made of the unit's tensors. */
bool gal_type_expect_tensors(gal_typer *t, const gal_typed *gradient, uint32_t unit);
/* verify_types_update.c: a value, as it is, from operand 0 to operand 1. */
void gal_type_move(gal_typer *t);
/* verify_types_storage.c: all that the file has of a unit is back. */
bool gal_type_is_stored(const gal_type_stage *stage, uint32_t unit);
/* A part of weights, from the ring of those read to the device. */
void gal_type_fetch_part(gal_typer *t);
uint64_t gal_type_buffer_bytes(const gal_typer *t, uint32_t k);
gal_group gal_type_devices_of_pieces(const gal_typer *t, const gal_typed *gradient);

#endif
