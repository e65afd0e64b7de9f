/* What the files of mutations share. A new mutation is a row of its subject's file; what is done to the instruction is
 * one of the functions below, or one of the file. */
#ifndef GAL_TESTS_SUPPORT_MUTATE_INTERNAL_H
#define GAL_TESTS_SUPPORT_MUTATE_INTERNAL_H

#include "tests/support/mutate.h"

typedef bool (*gal_mutate_chooser)(const gal_program *p, const gal_instruction *in);

/* What is done at one place; of those at the same place of the list in every fragment and, for what spans stages, in
 * every stage. */
typedef void (*gal_mutate_editor)(gal_program *p, uint32_t fragment, uint32_t position);
/* False: there is no room for it here. */
typedef bool (*gal_mutate_change)(gal_program *p, uint32_t fragment, uint32_t position, uint64_t *random);

typedef enum gal_mutate_direction { GAL_MUTATE_STAYS, GAL_MUTATE_EARLIER, GAL_MUTATE_LATER } gal_mutate_direction;

/* In front of the nearest one before it in its fragment, or behind the nearest one after it, that touches what the
 * operand of the moved one means. */
typedef struct gal_mutate_way {
    gal_mutate_direction direction;
    uint32_t operand;
    gal_access access;     /* the other's: GAL_READ, or else any that writes */
    gal_mutate_chooser of; /* the other; NULL: any */
} gal_mutate_way;

/* One of the instructions that `wanted` accepts is chosen; of what may be done to it one is set. */
struct gal_mutation {
    const char *name;
    gal_mutate_chooser wanted;
    gal_mutate_editor everywhere; /* to it and its like, in every fragment and stage */
    gal_mutate_change here;       /* to it alone */
    gal_mutate_way past;
    /* Without an instruction to begin with (wanted is NULL). */
    bool (*whole)(gal_program *const *programs, uint32_t stage_count, uint64_t *random);
};

typedef struct gal_mutation_set {
    uint32_t count;
    const gal_mutation *mutation; /* [count] */
} gal_mutation_set;

extern const gal_mutation_set gal_mutations_of_order;
extern const gal_mutation_set gal_mutations_of_communication;
extern const gal_mutation_set gal_mutations_of_sequence;
extern const gal_mutation_set gal_mutations_of_storage;
extern const gal_mutation_set gal_mutations_of_units;
extern const gal_mutation_set gal_mutations_of_masters;
extern const gal_mutation_set gal_mutations_of_kept;
extern const gal_mutation_set gal_mutations_of_weights;

/* ---- mutate_edit.c ---- */

static inline gal_instruction *gal_mutate_at(const gal_program *p, uint32_t fragment, uint32_t position)
{
    return &p->instruction[p->fragment[fragment].first + position];
}

static inline gal_operand *gal_mutate_operands(const gal_program *p, const gal_instruction *in)
{
    return &p->operand[in->first_operand];
}

typedef struct gal_mutate_spot {
    gal_program *program;
    uint32_t fragment, position;
} gal_mutate_spot;

/* Index of the new wait. */
uint32_t gal_mutate_append_wait(gal_program *p, gal_wait wait);
/* Who waited for the instruction waits for what it waited for. */
void gal_mutate_drop(gal_program *p, uint32_t fragment, uint32_t position);
/* It alone: partners of other stages keep theirs. */
bool gal_mutate_drop_here(gal_program *p, uint32_t fragment, uint32_t position, uint64_t *random);
bool gal_mutate_lose_waits(gal_program *p, uint32_t fragment, uint32_t position, uint64_t *random);
/* The instruction twice, one behind the other; who waited for it waits for the second. */
void gal_mutate_repeat(gal_program *p, uint32_t fragment, uint32_t position);
/* Takes the instruction to another place in its fragment; waits follow from the new order. */
void gal_mutate_move(gal_program *p, uint32_t fragment, uint32_t from, uint32_t to);
/* Takes the instruction to the beginning of another fragment, likewise. */
void gal_mutate_move_to(gal_program *p, uint32_t fragment, uint32_t position, uint32_t other);
/* Whether the instruction writes, or else reads, any byte of the place. */
bool gal_mutate_touches(const gal_program *p, const gal_instruction *in, const gal_operand *place, bool writes);

/* One of the instructions of all stages and fragments that `wanted` accepts; false if there is none. */
bool gal_mutate_choose(gal_program *const *programs, uint32_t stage_count, gal_mutate_chooser wanted, uint64_t *random,
                       gal_mutate_spot *out);
void gal_mutate_everywhere(gal_program *const *programs, uint32_t stage_count, const gal_mutate_spot *where,
                           gal_mutate_editor edit);
/* Whether it runs on one of the host's streams. */
bool gal_mutate_is_of_host(const gal_program *p, const gal_instruction *in);
/* The program of one of the stages. */
gal_program *gal_mutate_choose_stage(gal_program *const *programs, uint32_t stage_count, uint64_t *random);

#endif
