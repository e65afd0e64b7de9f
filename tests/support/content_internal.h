/* What the files of content.h share. For them alone. */
#ifndef GAL_TESTS_SUPPORT_CONTENT_INTERNAL_H
#define GAL_TESTS_SUPPORT_CONTENT_INTERNAL_H

#include "tests/support/content.h"

/* Calls of the program's lists: two training steps, an evaluation, a third step. */
enum { GAL_CONTENT_RUNS = 4, GAL_CONTENT_RANKS_MAX = 64 };

typedef struct gal_content_awaited {
    uint8_t stream;
    uint32_t number; /* instructions of the stream that must be complete */
} gal_content_awaited;

/* An instruction of a call, as the hosts of a stage issue it. */
typedef struct gal_content_task {
    const gal_instruction *in;
    uint32_t microbatch;
    uint32_t first_awaited, awaited_count;
    uint64_t meaning; /* what it does beside what it reads: operator, shape; of kernels: block, microbatch */
} gal_content_task;

/* A physical cell: what was written, and to which stretch of cells. */
typedef struct gal_content_cell {
    uint64_t value;
    uint32_t first, count;
} gal_content_cell;

/* A piece of a buffer that no operand cuts. */
typedef struct gal_content_piece {
    uint64_t begin, end;   /* in the buffer */
    uint32_t first, count; /* physical cells, in the item */
} gal_content_piece;

typedef struct gal_content_stage {
    const gal_program *program;
    gal_content_piece *piece;
    uint32_t *first_piece;               /* of each buffer, and one past the last */
    uint32_t arena_cell[GAL_ARENAS_MAX]; /* first physical cell of item 0 */
    uint32_t item_cells[GAL_ARENAS_MAX];
    uint32_t cell_count;   /* of a rank, as placed */
    uint32_t memory_cells; /* enough for the reference too */
    gal_content_task *task;
    uint32_t task_count;
    gal_content_awaited *awaited;
    uint32_t awaited_count, awaited_capacity;
    uint32_t *queue[GAL_STREAM_COUNT]; /* task numbers */
    uint32_t queue_count[GAL_STREAM_COUNT];
} gal_content_stage;

/* Why the head of a stream did not run: a rank was not ready for it, and is not before it has moved. */
typedef struct gal_content_held {
    uint32_t rank, moves; /* 0 moves: no reason is known */
} gal_content_held;

struct gal_content {
    uint32_t stage_count, devices, rank_count;
    bool apart; /* the reference: no buffer shares bytes with another */
    gal_content_stage *stage;
    gal_content_cell **memory;             /* of each rank */
    uint32_t (*done)[GAL_STREAM_COUNT];    /* of each rank */
    uint32_t moves[GAL_CONTENT_RANKS_MAX]; /* of each rank, from 1 */
    gal_content_held held[GAL_CONTENT_RANKS_MAX][GAL_STREAM_COUNT];
};

/* An instruction at work on a rank. */
typedef struct gal_content_place {
    gal_content *content;
    gal_content_stage *stage;
    uint32_t rank, device;
    const gal_content_task *task;
} gal_content_place;

static inline uint64_t gal_content_mix(uint64_t a, uint64_t b)
{
    uint64_t z = (a ^ (b + UINT64_C(0x9E3779B97F4A7C15) + (a << 6) + (a >> 2))) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 29) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 32;
}

/* ---- content_memory.c ---- */

/* Cuts the memory of a stage in pieces and cells; false without memory. */
bool gal_content_cut(gal_content_stage *stage);
/* Noise everywhere, but the same weights and moments in every run; what a buffer begins with depends on nothing else.
 */
void gal_content_initialise(gal_content *content);
/* A hash of weights, moments, norm and loss of all ranks. */
uint64_t gal_content_state(gal_content *content);
/* A hash of what operand k of the task holds on this device; an in-place collective means its own chunk when `own` is
 * set. */
uint64_t gal_content_read(const gal_content_place *at, uint32_t k, bool own);
void gal_content_write(const gal_content_place *at, uint32_t k, bool own, uint64_t value);

/* ---- content_issue.c ---- */

/* The tasks of a stage, their queues and what each waits for; false without memory. */
bool gal_content_issue(gal_content_stage *stage);

/* ---- content_instruction.c ---- */

gal_content_place gal_content_place_of(gal_content *content, uint32_t rank, const gal_content_task *task);
void gal_content_run_kernel(const gal_content_place *at);
/* A collective of members that are all ready; member[i] is in index order. */
void gal_content_run_collective(const gal_content_place *member, uint32_t count);
/* Whether a stage is one of those that a relation of more than two stages is over. */
bool gal_content_takes_part(const gal_content *content, uint32_t stage, gal_group group);
/* Ranks of a collective that `rank` takes part in, in index order. */
uint32_t gal_content_members(const gal_content *content, uint32_t rank, const gal_instruction *in, uint32_t *member);
bool gal_content_is_partner(const gal_instruction *a, const gal_instruction *b);

#endif
