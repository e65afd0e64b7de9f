/* Atoms, groups and layouts: where the devices of a stage stand and which rows each of them holds.
 *
 * D devices of a stage are numbered in a mixed radix over the prime factors of D, ascending, innermost first: the
 * atoms. A mesh gives every atom to one axis of a strategy. A group is a set of atoms: its members are the devices
 * that differ only there. So equal groups are equal integers, and a change of layout is set algebra. */
#ifndef GAL_RUNTIME_PROGRAM_ATOMS_H
#define GAL_RUNTIME_PROGRAM_ATOMS_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/plan.h"

enum { GAL_ATOMS_MAX = 30, GAL_DIGITS_MAX = 40 };

typedef struct gal_atoms {
    uint32_t count;
    uint32_t radix[GAL_ATOMS_MAX];
    uint32_t stride[GAL_ATOMS_MAX]; /* device = sum(digit * stride) */
} gal_atoms;

/* Bit a set: atom a. The relations between stages are not sets of atoms and have the top bit. */
typedef uint32_t gal_group;
#define GAL_GROUP_NONE UINT32_C(0)
#define GAL_GROUP_RELATION UINT32_C(0x80000000)
#define GAL_GROUP_NEXT (GAL_GROUP_RELATION | 1u)         /* the same device of the next stage */
#define GAL_GROUP_PREVIOUS (GAL_GROUP_RELATION | 2u)     /* the same device of the previous stage */
#define GAL_GROUP_TIED (GAL_GROUP_RELATION | 3u)         /* the same device of all stages that hold the token table */
#define GAL_GROUP_WORLD (GAL_GROUP_RELATION | 4u)        /* every rank */
#define GAL_GROUP_ENCODER_BIAS (GAL_GROUP_RELATION | 5u) /* as tied, of those that hold a relative bias */
#define GAL_GROUP_DECODER_BIAS (GAL_GROUP_RELATION | 6u)

/* The relation over the stages that hold a shared tensor, and the reverse: GAL_SHARED_COUNT for other groups. */
static inline gal_group gal_group_of_shared(gal_shared shared)
{
    return shared == GAL_SHARED_TABLE ? GAL_GROUP_TIED : GAL_GROUP_WORLD + (gal_group)shared;
}

static inline gal_shared gal_shared_of_group(gal_group group)
{
    return group == GAL_GROUP_TIED                                              ? GAL_SHARED_TABLE
           : group == GAL_GROUP_ENCODER_BIAS || group == GAL_GROUP_DECODER_BIAS ? (gal_shared)(group - GAL_GROUP_WORLD)
                                                                                : GAL_SHARED_COUNT;
}

static inline bool gal_group_has(gal_group group, uint32_t atom)
{
    return (group >> atom & 1u) != 0;
}

void gal_atoms_of(uint32_t device_count, gal_atoms *out);
uint32_t gal_group_size(const gal_atoms *atoms, gal_group group);
/* The device's number inside its group: a mixed radix over the group's atoms, innermost first. */
uint32_t gal_group_index(const gal_atoms *atoms, gal_group group, uint32_t device);
/* Device numbers (within the stage) of the members of this device's group, in index order; returns their count. */
uint32_t gal_group_members(const gal_atoms *atoms, gal_group group, uint32_t device, uint32_t *members);

/* The atoms of the strategy's axes. Asserts what gal_strategy_rule_broken checks.
 * tp is what divides the features inside blocks: heads, FFN, vocabulary. Of a 2d grid, device i * q + j of the TP axis
 * in row i and column j, that is the row (j varies): consecutive devices. The column (i varies) divides samples, and so
 * does the depth of a 2.5d grid, outermost; and since nothing else tells that from data parallelism, it is of dp.
 * Of a 3d grid, device i + l (j + l k), the column is i, along which weights are gathered as in 2d, tp is j (inputs)
 * and output is k: between blocks i and j divide samples, k features. Where weights are kept as gathered nothing tells
 * i from sharded data parallelism: it is of sdp. */
typedef struct gal_mesh {
    gal_group dp, sdp, tp, column, output;
    gal_group sequence; /* of the axis that splits the positions everywhere */
} gal_mesh;
gal_mesh gal_mesh_of(const gal_atoms *atoms, const gal_strategy *strategy);
/* What splits the samples of a microbatch, the positions, and the features of rows between blocks. */
gal_group gal_mesh_samples(const gal_mesh *mesh);
gal_group gal_mesh_positions(const gal_mesh *mesh, const gal_strategy *strategy);
gal_group gal_mesh_features(const gal_mesh *mesh);

/* Which rows of an activation a device holds. The samples of a microbatch are a mixed radix number, most significant
 * digit first; a digit is local (the device has all its values) or owned by an atom (the device has the value that
 * equals its own digit). Local rows are ordered [position][sample], samples ascending. The positions are split
 * in contiguous chunks by index over sequence_group, and so are the features of a row over feature_group.
 * Which atom owns which digit depends on the conversions passed before ("slice and gather"), so a kernel that needs
 * global indices is given a sample map and never computes rank * rows. */
typedef struct gal_digit {
    uint32_t radix, stride; /* sample = sum(value * stride) */
    int32_t atom;           /* -1: local; below: gal_digit_fixed */
} gal_digit;

/* Of the rows of a part of the samples alone: a digit that has one value on every device. */
enum { GAL_DIGIT_LOCAL = -1 };
static inline int32_t gal_digit_fixed(uint32_t value)
{
    return -2 - (int32_t)value;
}

static inline bool gal_digit_is_fixed(const gal_digit *digit)
{
    return digit->atom < GAL_DIGIT_LOCAL;
}

static inline uint32_t gal_digit_value(const gal_digit *digit)
{
    return (uint32_t)(-2 - digit->atom);
}

typedef struct gal_layout {
    uint32_t sample_count; /* of the whole microbatch */
    uint32_t digit_count;  /* by descending stride */
    gal_digit digit[GAL_DIGITS_MAX];
    gal_group sample_group; /* atoms that own digits */
    gal_group sequence_group;
    gal_group feature_group;
} gal_layout;

void gal_layout_whole(uint32_t sample_count, gal_layout *out);
/* The layout that gal_layout_convert reaches from whole rows. The group's size divides the samples. */
void gal_layout_split(uint32_t sample_count, const gal_atoms *atoms, gal_group sample_group, gal_group sequence_group,
                      gal_layout *out);
/* The rows of a product on a 3d grid, behind it: what the atoms of `samples` own is owned by those of `features`, as
 * many and of the same radices, atom for atom; and the former split the features. */
void gal_layout_turn(const gal_layout *layout, const gal_atoms *atoms, gal_group samples, gal_group features,
                     gal_layout *out);
uint32_t gal_layout_local_samples(const gal_layout *layout);
bool gal_layout_equal(const gal_layout *a, const gal_layout *b);
/* map[local sample] = sample of the microbatch, for this device; gal_layout_local_samples entries. */
void gal_layout_sample_map(const gal_layout *layout, const gal_atoms *atoms, uint32_t device, uint32_t *map);

/* One step of a conversion. Rows move as the digits say; backward runs the inverse steps in reverse. Slices and gathers
 * are of samples, of positions, or of features, by what `from` and `to` differ in. */
typedef enum gal_step_kind {
    GAL_STEP_SLICE,      /* replicated over group -> split over it: a local copy */
    GAL_STEP_GATHER,     /* split over group -> replicated: all_gather */
    GAL_STEP_ALL_TO_ALL, /* split by position over group <-> split by sample over it */
    GAL_STEP_HALVE, /* rows as ever -> two sub-batches one behind the other (halves.h): a local copy; no layout has it
                     */
    GAL_STEP_JOIN   /* the reverse */
} gal_step_kind;

typedef struct gal_layout_step {
    gal_step_kind kind;
    gal_group group;
    gal_layout from, to;
} gal_layout_step;

enum { GAL_LAYOUT_STEPS_MAX = 6 + 2 * GAL_ATOMS_MAX };

/* The steps from a layout to one in which exactly sample_group owns sample digits and sequence_group splits the
 * positions; 0 steps if that is so already. *to is the layout reached. Asserts divisibility (checked plans). */
uint32_t gal_layout_convert(const gal_layout *from, const gal_atoms *atoms, gal_group sample_group,
                            gal_group sequence_group, gal_layout_step *steps, gal_layout *to);

/* The layout that a block of this strategy reaches from whole rows, and the steps to one as it wants them. */
void gal_layout_of_strategy(uint32_t sample_count, const gal_atoms *atoms, const gal_strategy *strategy,
                            gal_layout *out);
uint32_t gal_layout_enter(const gal_layout *from, const gal_atoms *atoms, const gal_strategy *strategy,
                          gal_layout_step *steps, gal_layout *to);

/* The steps to just the layout *to: the same digits, not only the same owners. Rows that meet rows of another history
 * need that; where gal_layout_convert does not get there, atoms give up what they own and take what they should. */
uint32_t gal_layout_convert_to(const gal_layout *from, const gal_atoms *atoms, const gal_layout *to,
                               gal_layout_step *steps);

#endif
