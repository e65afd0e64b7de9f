/* Which rows of an activation lie where: an algebra of digits, independent of the lowering. For verify_*.c alone.
 *
 * A row of a microbatch is (position, sample); its number is position * samples + sample. What a device holds is a
 * mixed radix number of digits, most significant first: a digit with (radix, stride) contributes value * stride to
 * the number of the row. An atom that owns a digit fixes its value by the device's own digit. Collectives and strided
 * copies move digits between the local ones and the owners, so that every legal chain of them is followed exactly. */
#ifndef GAL_RUNTIME_PROGRAM_VERIFY_VERIFY_ROWS_H
#define GAL_RUNTIME_PROGRAM_VERIFY_VERIFY_ROWS_H

#include "runtime/program/program.h"

enum { GAL_ROW_DIGITS_MAX = 2 * GAL_DIGITS_MAX };

typedef struct gal_row_digit {
    uint64_t radix, stride;
} gal_row_digit;

typedef struct gal_rows {
    uint32_t digit_count; /* local ones, normal form: no radix 1, no two that are one */
    gal_group owners;
    uint64_t local_count; /* rows that a device holds */
    uint64_t base;        /* the number of the first row of all: of a part of the samples */
    gal_row_digit digit[GAL_ROW_DIGITS_MAX];
    uint64_t owner_stride[GAL_ATOMS_MAX];
} gal_rows;

bool gal_rows_equal(const gal_rows *a, const gal_rows *b);

/* Rows [position][sample] of a layout, local_positions of them on a device. */
bool gal_rows_of_layout(const gal_layout *layout, const gal_atoms *atoms, uint64_t local_positions, gal_rows *out);

/* The moves below return NULL, or the rule that is broken. Members deliver or take equal chunks in index order. */
const char *gal_rows_gather(const gal_rows *from, const gal_atoms *atoms, gal_group group, gal_rows *to);
const char *gal_rows_scatter(const gal_rows *from, const gal_atoms *atoms, gal_group group, gal_rows *to);
const char *gal_rows_exchange(const gal_rows *from, const gal_atoms *atoms, gal_group group, gal_rows *to);

/* Of the local rows those from `first` on, `count` of them. */
const char *gal_rows_cut(const gal_rows *from, uint64_t first, uint64_t count, gal_rows *to);
/* Two halves, the second behind the first; false if they are not two parts of one. */
bool gal_rows_join(const gal_rows *first, const gal_rows *second, gal_rows *to);

/* target[c0..c4] = source row sum(c_i stride_i) + index over view * view_stride. dims as of GAL_OP_PERMUTE. */
const char *gal_rows_permute(const gal_rows *from, const gal_atoms *atoms, const uint32_t *dims, gal_group view,
                             uint64_t view_stride, gal_rows *to);

#endif
