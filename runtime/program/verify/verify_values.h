/* What the buffers of a stage hold, as types: the store that the typing rules read and write. For verify_*.c alone. */
#ifndef GAL_RUNTIME_PROGRAM_VERIFY_VERIFY_VALUES_H
#define GAL_RUNTIME_PROGRAM_VERIFY_VERIFY_VALUES_H

#include "runtime/program/verify/verify_rows.h"

/* A value on the devices of a stage. What follows `kind` is used by the kinds named there. */
typedef enum gal_value_kind {
    GAL_VALUE_ROWS,     /* activations: rows, features, split, partial, max_partial, dealt, within, part, ring */
    GAL_VALUE_TOKENS,   /* rows [sample][position]; features: the operator that loaded them */
    GAL_VALUE_LENGTHS,  /* rows of one position; features: the positions that they are at most */
    GAL_VALUE_WEIGHT,   /* of `unit`: range, in_place */
    GAL_VALUE_MOMENT,   /* of `unit`: range; its masters too, and its weights on the host */
    GAL_VALUE_PIECE,    /* gradient of one tensor, m by n: split over atoms by rows, by columns; partial */
    GAL_VALUE_GRADIENT, /* of a whole unit, made of pieces: range, in_place, partial */
    GAL_VALUE_ZERO,
    GAL_VALUE_LOSS,   /* partial */
    GAL_VALUE_NORM,   /* partial over the world, or of everything */
    GAL_VALUE_STORED, /* a part of a moment, master or weights of `unit`: first_element, element_count, which one,
                       * whether updated */
    GAL_VALUE_COUNT
} gal_value_kind;

/* Sets of atoms, and two bits more for sums over relations between stages. */
#define GAL_PARTIAL_TIED (UINT32_C(1) << 30)
#define GAL_PARTIAL_WORLD (UINT32_C(1) << 31)

typedef struct gal_typed {
    uint8_t kind;  /* gal_value_kind */
    uint8_t dtype; /* gal_dtype of its elements */
    bool in_place; /* only the own range of the whole is right */
    bool loaded;   /* rows of data: nobody asks for their gradient */
    uint32_t rows; /* number of an interned gal_rows */
    uint32_t unit;
    uint64_t features; /* per row, on a device */
    gal_group split;   /* features are the index-th chunk over these atoms */
    gal_group partial; /* the value is the sum of what the devices of this set hold */
    gal_group max_partial;
    gal_group dealt;                   /* not [row][features]: [member of these atoms][row][its chunk of each part] */
    gal_group within;                  /* of the features split so, the index-th chunk of each part over these atoms */
    uint64_t part[GAL_FEATURE_PARTS];  /* with either: features of the parts, of one chunk */
    gal_group ring;                    /* of what passes round these devices, or is summed while others do: */
    gal_group mirrored;                /* the second half of the rows are those of the device's mirror among these */
    uint32_t turn;                     /* rows of the member so many before this one, counted round */
    uint32_t share_first, share_count; /* a sum of these steps alone; 0: of all */
    uint8_t moment;                    /* 0 the first, 1 the second; GAL_STORED_MASTER, GAL_STORED_WEIGHT */
    bool updated;
    uint64_t m, n;
    gal_group split_m, split_n;
    uint32_t half_rows; /* of a piece of one sub-batch alone: their rows, plus one; 0: of all */
    uint32_t first_piece, piece_count;
    gal_group range; /* a flat unit is cut over these atoms */
    /* Matrices one behind another, each the part of the features (of weights: of rows or columns) that one device of a
     * group has: chunks of them, or of these the one of number `chunk`; chunk == chunks: all. 0 chunks: no panel. */
    uint32_t chunks, chunk;
    bool chunk_rows;     /* of a piece: the parts are of rows */
    uint32_t terms_left; /* of a sum over the chunks of what it contracts: so many are still to be added */
    uint64_t first_element, element_count; /* of a panel of weights: each part, in the unit */
    uint64_t first_row, row_count; /* of a piece that is a part of the gradient of tensors read as one: where it begins
                                    * among their rows on a device, and these; 0 rows: it is the whole */
} gal_typed;

/* A tensor's gradient inside a unit. */
typedef struct gal_piece {
    uint64_t offset_bytes, bytes, m, n;
    gal_group split_m, split_n;
    uint64_t first_row, row_count;
} gal_piece;

/* A stretch of a buffer with one value; a list per buffer, by offset. */
typedef struct gal_stretch {
    uint64_t begin, end;
    gal_typed value;
    uint32_t next;
} gal_stretch;

typedef struct gal_store {
    const gal_program *program;
    uint32_t *head; /* per buffer; 0: nothing known */
    gal_stretch *stretch;
    uint32_t stretch_count, stretch_capacity, free_list;
    gal_piece *piece;
    uint32_t piece_count, piece_capacity;
    bool out_of_memory;
} gal_store;

bool gal_store_init(gal_store *store, const gal_program *program);
void gal_store_free(gal_store *store);

/* The stretch that covers exactly [begin, end) of the buffer, the one that holds it, or NULL. */
gal_stretch *gal_store_exact(gal_store *store, uint32_t buffer, uint64_t begin, uint64_t end);
gal_stretch *gal_store_around(gal_store *store, uint32_t buffer, uint64_t begin, uint64_t end);

/* The first stretch of the buffer that meets [begin, end) from *at on, 0 at first; NULL: no more. */
gal_stretch *gal_store_next(gal_store *store, uint32_t buffer, uint64_t begin, uint64_t end, uint32_t *at);

/* Replaces what [begin, end) held; a stretch cut by it is forgotten. */
void gal_store_put(gal_store *store, uint32_t buffer, uint64_t begin, uint64_t end, const gal_typed *value);

/* The gradient of a unit in [0, bytes): as stored, or put together from pieces and zeros that cover it and are partial
 * alike. NULL, or the rule that is broken. */
const char *gal_store_gradient(gal_store *store, uint32_t buffer, uint64_t bytes, gal_typed *out);

#endif
