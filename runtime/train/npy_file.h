/* A file of NumPy's: an array of whole numbers in C order, little-endian. Format 1.0 and 2.0: "\x93NUMPY", two bytes of
 * version, the header's length (uint16, or uint32 in 2.0), the header, the numbers. The header is read in the one form
 * that numpy.save writes: {'descr': '|u1', 'fortran_order': False, 'shape': (1797, 8, 8), } and blanks, ended by a line
 * feed. Numbers: '|u1', '|i1', '<u2', '<i2', '<i4', '<i8'. Source: NumPy, NEP 1 and numpy/lib/format.py. */
#ifndef GAL_RUNTIME_TRAIN_NPY_FILE_H
#define GAL_RUNTIME_TRAIN_NPY_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/base/status.h"

enum { GAL_NPY_DIMS_MAX = 4 };

typedef struct gal_npy_file {
    const char *path; /* borrowed */
    int descriptor;   /* below 0: none */
    bool is_signed;
    uint32_t item_bytes;
    uint32_t dim_count;
    uint64_t dims[GAL_NPY_DIMS_MAX];
    uint64_t first_byte, byte_count; /* of the numbers; of the file */
} gal_npy_file;

/* Afterwards gal_npy_close, also on failure. GAL_ERR_SYSTEM: cannot be read; GAL_ERR_DOCUMENT: another form, or not as
 * long as its shape says. */
gal_code gal_npy_open(const char *path, gal_npy_file *out, gal_error *err);
void gal_npy_close(gal_npy_file *file);

/* byte_count bytes of the numbers from an offset among them. GAL_ERR_SYSTEM: the file has shrunk, or cannot be read. */
gal_code gal_npy_read(const gal_npy_file *file, uint64_t offset, void *out, uint64_t byte_count, gal_error *err);

#endif
