#include "runtime/train/text_check.h"

#include <stdlib.h>
#include <string.h>

#include "schemas/base/utf8.h"

enum { CHUNK_BYTES = 1 << 20, CHARACTER_BYTES = 4 };

static const char advice[] =
    "tokens are read from .bin files of llm.c or Megatron-LM, text from files of UTF-8; --text "
    "takes any file's bytes as tokens";

/* ---- formats by their first bytes ---- */

typedef struct magic {
    const char *bytes;
    uint8_t count;
    const char *name;
} magic;

/* Sources: RFC 1952 (gzip), RFC 8878 (zstd), numpy.lib.format, parquet-format README, the format descriptions of the
 * others; UTF-16 and UTF-32 by their byte order marks, the longer mark first. */
static const magic magics[] = {
    {"\x1f\x8b", 2, "a gzip file"},
    {"\x28\xb5\x2f\xfd", 4, "a zstd file"},
    {"BZh", 3, "a bzip2 file"},
    {"\xfd"
     "7zXZ\0",
     6, "an xz file"},
    {"\x04\x22\x4d\x18", 4, "an lz4 file"},
    {"PK\x03\x04", 4, "a zip file (also .npz and PyTorch's .pt)"},
    {"\x93NUMPY", 6, "an array of NumPy (.npy)"},
    {"PAR1", 4, "a Parquet file"},
    {"ARROW1", 6, "an Arrow file"},
    {"\x89HDF\r\n\x1a\n", 8, "an HDF5 file"},
    {"\x80\x02", 2, "a pickle of Python"},
    {"\x80\x04\x95", 3, "a pickle of Python"},
    {"MMIDIDX", 7, "an index of Megatron-LM (.idx)"},
    {"%PDF-", 5, "a PDF file"},
    {"GGUF", 4, "a GGUF file"},
    {"\xff\xfe\0\0", 4, "text in UTF-32"},
    {"\0\0\xfe\xff", 4, "text in UTF-32"},
    {"\xff\xfe", 2, "text in UTF-16"},
    {"\xfe\xff", 2, "text in UTF-16"},
};

/* Safetensors begin with the length of a JSON object, 8 bytes little-endian, and the object's brace. */
static bool is_safetensors(const uint8_t *bytes, uint64_t byte_count)
{
    uint64_t length = 0;
    for (uint32_t i = 0; i < 8 && byte_count >= 9; i++) {
        length |= (uint64_t)bytes[i] << (8 * i);
    }
    return byte_count >= 9 && bytes[8] == '{' && length >= 2 && length <= byte_count - 8;
}

const char *gal_known_format(const uint8_t *bytes, uint64_t byte_count)
{
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++) {
        if (byte_count >= magics[i].count && memcmp(bytes, magics[i].bytes, magics[i].count) == 0) {
            return magics[i].name;
        }
    }
    return is_safetensors(bytes, byte_count) ? "a safetensors file" : NULL;
}

/* ---- UTF-8 ---- */

/* Checks the characters of text[byte_count], which lies at byte `first` of the file, up to the last one that may go on
 * behind it; *used is where that begins. at_end: nothing lies behind. */
static gal_code check_characters(const gal_opened *file, uint64_t first, const char *text, size_t byte_count,
                                 bool at_end, size_t *used, gal_error *err)
{
    size_t at = 0;
    while (at < byte_count && (at_end || byte_count - at >= CHARACTER_BYTES)) {
        const size_t length = gal_utf8_length(text + at, byte_count - at);
        if (text[at] == '\0') {
            return gal_fail(err, GAL_ERR_DOCUMENT, "%s: byte %llu is NUL, so this is no text: %s", file->path,
                            (unsigned long long)(first + at), advice);
        }
        if (length == 0) {
            return gal_fail(err, GAL_ERR_DOCUMENT, "%s: byte %llu begins no character of UTF-8, so this is no text: %s",
                            file->path, (unsigned long long)(first + at), advice);
        }
        at += length;
    }
    *used = at;
    return GAL_OK;
}

gal_code gal_text_check(const gal_opened *file, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint64_t total =
        file->byte_count < GAL_TEXT_CHECKED_BYTES ? file->byte_count : (uint64_t)GAL_TEXT_CHECKED_BYTES;
    char *chunk = malloc(CHUNK_BYTES);
    if (chunk == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "%s: out of memory", file->path);
    }
    for (uint64_t first = 0; first < total;) {
        const size_t count = total - first < CHUNK_BYTES ? (size_t)(total - first) : (size_t)CHUNK_BYTES;
        const bool at_end = first + count == file->byte_count;
        size_t used = 0;
        GAL_TRY(gal_opened_read(file, first, chunk, count, err));
        const char *format = first == 0 ? gal_known_format((const uint8_t *)chunk, file->byte_count) : NULL;
        if (format != NULL) {
            code = gal_fail(err, GAL_ERR_DOCUMENT, "%s: this is %s: %s", file->path, format, advice);
            goto cleanup;
        }
        GAL_TRY(check_characters(file, first, chunk, count, at_end, &used, err));
        if (used == 0) { /* the last bytes before the limit begin a character that goes on behind it */
            break;
        }
        first += used;
    }
cleanup:
    free(chunk);
    return code;
}
