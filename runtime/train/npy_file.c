#include "runtime/train/npy_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/train/opened.h"

enum { MAGIC_BYTES = 8, HEADER_BYTES_MAX = 1 << 16 };

static const uint64_t elements_max = UINT64_C(1) << 53;

/* ---- bytes ---- */

static gal_code read_at(const gal_npy_file *file, uint64_t offset, void *out, uint64_t byte_count, gal_error *err)
{
    return gal_opened_read(&(gal_opened){file->path, file->descriptor, file->byte_count}, offset, out, byte_count, err);
}

gal_code gal_npy_read(const gal_npy_file *file, uint64_t offset, void *out, uint64_t byte_count, gal_error *err)
{
    return read_at(file, file->first_byte + offset, out, byte_count, err);
}

void gal_npy_close(gal_npy_file *file)
{
    if (file->descriptor >= 0) {
        close(file->descriptor);
        file->descriptor = -1;
    }
}

static gal_code open_bytes(const char *path, gal_npy_file *out, gal_error *err)
{
    struct stat status;
    *out = (gal_npy_file){.path = path, .descriptor = open(path, O_RDONLY | O_CLOEXEC)};
    if (out->descriptor < 0 || fstat(out->descriptor, &status) != 0) {
        return gal_fail(err, GAL_ERR_SYSTEM, "%s: %s", path, strerror(errno));
    }
    if (!S_ISREG(status.st_mode)) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "%s: not a regular file", path);
    }
    out->byte_count = (uint64_t)status.st_size;
    return GAL_OK;
}

/* ---- header ---- */

static bool skip(const char **at, const char *text)
{
    const size_t length = strlen(text);
    const bool found = strncmp(*at, text, length) == 0;
    *at += found ? length : 0;
    return found;
}

static bool read_number(const char **at, uint64_t *out)
{
    uint64_t value = 0;
    const char *first = *at;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        value = value * 10 + (uint64_t)(**at - '0');
        if (value > elements_max) {
            return false;
        }
    }
    *out = value;
    return *at > first && (*first != '0' || *at == first + 1);
}

static bool read_type(const char **at, gal_npy_file *file)
{
    static const struct type {
        const char *name;
        bool is_signed;
        uint32_t bytes;
    } types[] = {{"'|u1'", false, 1}, {"'|i1'", true, 1}, {"'<u2'", false, 2},
                 {"'<i2'", true, 2},  {"'<i4'", true, 4}, {"'<i8'", true, 8}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (skip(at, types[i].name)) {
            file->is_signed = types[i].is_signed;
            file->item_bytes = types[i].bytes;
            return true;
        }
    }
    return false;
}

/* "(1797,)" or "(1797, 8, 8)". */
static bool read_shape(const char **at, gal_npy_file *file)
{
    if (!skip(at, "(")) {
        return false;
    }
    while (file->dim_count < GAL_NPY_DIMS_MAX) {
        if (!read_number(at, &file->dims[file->dim_count++])) {
            return false;
        }
        if (file->dim_count == 1 && skip(at, ",)")) {
            return true;
        }
        if (file->dim_count > 1 && skip(at, ")")) {
            return true;
        }
        if (!skip(at, ", ")) {
            return false;
        }
    }
    return false;
}

static bool read_header(const char *text, gal_npy_file *file)
{
    const char *at = text;
    if (!skip(&at, "{'descr': ") || !read_type(&at, file) || !skip(&at, ", 'fortran_order': False, 'shape': ") ||
        !read_shape(&at, file) || !skip(&at, ", }")) {
        return false;
    }
    at += strspn(at, " ");
    return strcmp(at, "\n") == 0;
}

static gal_code check_length(const gal_npy_file *file, gal_error *err)
{
    uint64_t bytes = file->item_bytes;
    for (uint32_t i = 0; i < file->dim_count; i++) {
        if (file->dims[i] == 0 || bytes > elements_max / file->dims[i]) {
            return gal_fail(err, GAL_ERR_DOCUMENT, "%s: dimension %u of the array is %llu", file->path, i,
                            (unsigned long long)file->dims[i]);
        }
        bytes *= file->dims[i];
    }
    if (file->byte_count != file->first_byte + bytes) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "%s: its shape makes %llu bytes with the header, the file has %llu",
                        file->path, (unsigned long long)(file->first_byte + bytes),
                        (unsigned long long)file->byte_count);
    }
    return GAL_OK;
}

gal_code gal_npy_open(const char *path, gal_npy_file *out, gal_error *err)
{
    gal_code code = GAL_OK;
    uint8_t start[MAGIC_BYTES + 4] = {0};
    char *header = NULL;
    GAL_TRY(open_bytes(path, out, err));
    if (out->byte_count >= sizeof start) {
        GAL_TRY(read_at(out, 0, start, sizeof start, err));
    }
    if (memcmp(start, "\x93NUMPY", 6) != 0 || (start[6] != 1 && start[6] != 2) || start[7] != 0) {
        GAL_TRY(gal_fail(err, GAL_ERR_DOCUMENT, "%s: not an array of numpy.save (.npy, format 1.0 or 2.0)", path));
    }
    const bool wide = start[6] == 2;
    const uint64_t length =
        start[8] | (uint64_t)start[9] << 8 | (wide ? (uint64_t)start[10] << 16 | (uint64_t)start[11] << 24 : 0);
    const uint64_t begin = MAGIC_BYTES + (wide ? 4 : 2);
    out->first_byte = begin + length;
    if (length >= HEADER_BYTES_MAX || out->first_byte > out->byte_count) {
        GAL_TRY(gal_fail(err, GAL_ERR_DOCUMENT, "%s: a header of %llu bytes, the file has %llu", path,
                         (unsigned long long)length, (unsigned long long)out->byte_count));
    }
    header = calloc(1, length + 1);
    code = header != NULL ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "out of memory: %s", path);
    GAL_TRY(code);
    GAL_TRY(read_at(out, begin, header, length, err));
    if (strlen(header) != length || !read_header(header, out)) {
        GAL_TRY(gal_fail(err, GAL_ERR_DOCUMENT,
                         "%s: the header must be as numpy.save writes it, for 1 to 4 dimensions of whole numbers in C "
                         "order",
                         path));
    }
    GAL_TRY(check_length(out, err));
cleanup:
    free(header);
    return code; /* the descriptor is closed by gal_npy_close */
}
