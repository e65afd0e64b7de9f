#include "runtime/train/token_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/train/opened.h"
#include "runtime/train/text_check.h"

enum { CHUNK_TOKENS = 1 << 16 };
enum { LLM_C_HEADER_BYTES = 1024, KNOWN_BYTES = 12 };

/* ---- bytes ---- */

static gal_code read_bytes(const gal_token_file *file, uint64_t offset, void *out, size_t byte_count, gal_error *err)
{
    return gal_opened_read(&(gal_opened){file->path, file->descriptor, file->byte_count}, offset, out, byte_count, err);
}

static gal_code open_bytes(const char *path, gal_token_file *out, gal_error *err)
{
    struct stat status;
    if (strlen(path) >= sizeof out->path) {
        return gal_fail(err, GAL_ERR_SYSTEM, "%s: %s", path, strerror(ENAMETOOLONG));
    }
    memcpy(out->path, path, strlen(path) + 1);
    out->descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (out->descriptor < 0 || fstat(out->descriptor, &status) != 0) {
        return gal_fail(err, GAL_ERR_SYSTEM, "%s: %s", path, strerror(errno));
    }
    if (!S_ISREG(status.st_mode) || status.st_size == 0) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "%s: %s", path,
                        S_ISREG(status.st_mode) ? "the file is empty" : "not a regular file");
    }
    out->byte_count = (uint64_t)status.st_size;
    return GAL_OK;
}

void gal_token_file_close(gal_token_file *file)
{
    if (file->descriptor >= 0) {
        close(file->descriptor);
        file->descriptor = -1;
    }
}

/* ---- tokens ---- */

gal_code gal_token_file_read(const gal_token_file *file, uint64_t first, size_t count, int32_t *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const size_t bytes = count * file->token_bytes;
    /* Numbers go to the end of the room and are spread from its start: none is overwritten before it is read. */
    const uint8_t *from = (uint8_t *)out + count * sizeof *out - bytes;
    GAL_TRY(read_bytes(file, file->first_byte + first * file->token_bytes, (uint8_t *)out + (from - (uint8_t *)out),
                       bytes, err));
    for (size_t i = 0; i < count && file->token_bytes < sizeof *out; i++) {
        uint16_t word = from[i * file->token_bytes];
        if (file->token_bytes == sizeof word) {
            memcpy(&word, from + i * sizeof word, sizeof word);
        }
        out[i] = word;
    }
cleanup:
    return code;
}

gal_code gal_token_file_each(const gal_token_file *file, uint64_t first, uint64_t end,
                             gal_code (*each)(void *context, uint64_t first, const int32_t *tokens, size_t count,
                                              gal_error *err),
                             void *context, gal_error *err)
{
    gal_code code = GAL_OK;
    int32_t *tokens = malloc(CHUNK_TOKENS * sizeof *tokens);
    if (tokens == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: data");
    }
    while (first < end) {
        const size_t count = end - first < CHUNK_TOKENS ? (size_t)(end - first) : (size_t)CHUNK_TOKENS;
        GAL_TRY(gal_token_file_read(file, first, count, tokens, err));
        GAL_TRY(each(context, first, tokens, count, err));
        first += count;
    }
cleanup:
    free(tokens);
    return code;
}

typedef struct limit {
    const char *path;
    uint32_t vocabulary;
} limit;

static gal_code check_chunk(void *context, uint64_t first, const int32_t *tokens, size_t count, gal_error *err)
{
    const limit *at = context;
    for (size_t i = 0; i < count; i++) {
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= at->vocabulary) {
            return gal_fail(err, GAL_ERR_DOCUMENT, "%s: token %llu is %d, the model's vocabulary has %u entries",
                            at->path, (unsigned long long)(first + i), tokens[i], at->vocabulary);
        }
    }
    return GAL_OK;
}

static gal_code check_tokens(const gal_token_file *file, uint32_t vocabulary, gal_error *err)
{
    if (file->text) {
        return vocabulary >= 256 ? GAL_OK
                                 : gal_fail(err, GAL_ERR_DOCUMENT,
                                            "%s: text is read as bytes and needs a vocabulary of 256 or more, the "
                                            "model has %u",
                                            file->path, vocabulary);
    }
    limit context = {.path = file->path, .vocabulary = vocabulary};
    const bool all_fit = file->token_bytes < sizeof(int32_t) && vocabulary >> (8 * file->token_bytes) != 0;
    return all_fit ? GAL_OK : gal_token_file_each(file, 0, file->token_count, check_chunk, &context, err);
}

/* ---- llm.c ---- */

typedef struct llm_c_form {
    int32_t magic, version;
    uint32_t token_bytes;
} llm_c_form;

/* Source: llm.c, dev/data/data_common.py, write_datafile. */
static const llm_c_form llm_c_forms[] = {{20240520, 1, 2}, {20240801, 7, 4}};

/* The form that the first number of a file names, or NULL. */
static const llm_c_form *find_llm_c_form(int32_t magic)
{
    for (size_t i = 0; i < sizeof llm_c_forms / sizeof llm_c_forms[0]; i++) {
        if (llm_c_forms[i].magic == magic) {
            return &llm_c_forms[i];
        }
    }
    return NULL;
}

static gal_code read_llm_c(gal_token_file *file, const llm_c_form *form, const int32_t header[3], gal_error *err)
{
    const uint64_t token_count = (uint32_t)header[2];
    const uint64_t expected_bytes = LLM_C_HEADER_BYTES + form->token_bytes * token_count;
    if (header[1] != form->version) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "%s: token file version must be %d, got %d", file->path, form->version,
                        header[1]);
    }
    if (file->byte_count != expected_bytes) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "%s: %llu tokens make %llu bytes, the file has %llu", file->path,
                        (unsigned long long)token_count, (unsigned long long)expected_bytes,
                        (unsigned long long)file->byte_count);
    }
    file->token_bytes = form->token_bytes;
    file->first_byte = LLM_C_HEADER_BYTES;
    file->token_count = token_count;
    return GAL_OK;
}

/* ---- Megatron-LM ---- */

static const uint8_t index_magic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X'};
enum { INDEX_HEADER_BYTES = 34, INDEX_VERSION = 1, INDEX_CHUNK = 4096 };

typedef struct index_header {
    uint64_t version;
    uint8_t kind;
    uint64_t sequence_count, document_count;
} index_header;

static gal_code read_index_header(const gal_token_file *index, index_header *out, gal_error *err)
{
    gal_code code = GAL_OK;
    uint8_t bytes[INDEX_HEADER_BYTES] = {0};
    const size_t known = index->byte_count < sizeof bytes ? (size_t)index->byte_count : sizeof bytes;
    GAL_TRY(read_bytes(index, 0, bytes, known, err));
    if (known < sizeof bytes || memcmp(bytes, index_magic, sizeof index_magic) != 0) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "%s: an .idx file must begin with MMIDIDX (Megatron-LM's index)",
                        index->path);
    }
    memcpy(&out->version, bytes + 9, 8);
    out->kind = bytes[17];
    memcpy(&out->sequence_count, bytes + 18, 8);
    memcpy(&out->document_count, bytes + 26, 8);
    if (out->version != INDEX_VERSION) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "%s: index version must be %d, got %llu", index->path, INDEX_VERSION,
                        (unsigned long long)out->version);
    }
    if (out->sequence_count > index->byte_count || out->document_count > index->byte_count ||
        index->byte_count != sizeof bytes + 12 * out->sequence_count + 8 * out->document_count) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "%s: %llu sequences and %llu documents do not make its %llu bytes",
                        index->path, (unsigned long long)out->sequence_count, (unsigned long long)out->document_count,
                        (unsigned long long)index->byte_count);
    }
cleanup:
    return code;
}

/* The sequences lie one behind another, from the first byte to the last. */
static gal_code check_sequences(const gal_token_file *index, const index_header *header, const gal_token_file *tokens,
                                gal_error *err)
{
    gal_code code = GAL_OK;
    int32_t length[INDEX_CHUNK];
    int64_t offset[INDEX_CHUNK];
    uint64_t end = 0; /* bytes */
    for (uint64_t first = 0; first < header->sequence_count; first += INDEX_CHUNK) {
        const uint64_t left = header->sequence_count - first;
        const size_t count = left < INDEX_CHUNK ? (size_t)left : (size_t)INDEX_CHUNK;
        GAL_TRY(read_bytes(index, INDEX_HEADER_BYTES + 4 * first, length, count * sizeof *length, err));
        GAL_TRY(read_bytes(index, INDEX_HEADER_BYTES + 4 * header->sequence_count + 8 * first, offset,
                           count * sizeof *offset, err));
        for (size_t i = 0; i < count; i++) {
            if (length[i] < 0 || offset[i] < 0 || (uint64_t)offset[i] != end) {
                return gal_fail(err, GAL_ERR_DOCUMENT,
                                "%s: sequence %llu has %d tokens from byte %lld on, byte %llu was expected",
                                index->path, (unsigned long long)(first + i), length[i], (long long)offset[i],
                                (unsigned long long)end);
            }
            end += (uint64_t)length[i] * tokens->token_bytes;
        }
    }
    if (end != tokens->byte_count) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "%s: the sequences have %llu bytes, the tokens' file has %llu",
                        index->path, (unsigned long long)end, (unsigned long long)tokens->byte_count);
    }
cleanup:
    return code;
}

/* tokens is open or, if it was the index that was named, is opened now. */
static gal_code read_megatron(const char *index_path, const char *tokens_path, gal_token_file *tokens, gal_error *err)
{
    gal_code code = GAL_OK;
    index_header header = {0};
    gal_token_file index = {.descriptor = -1};
    GAL_TRY(open_bytes(index_path, &index, err));
    GAL_TRY(read_index_header(&index, &header, err));
    tokens->token_bytes = header.kind == 1 ? 1 : header.kind == 4 ? 4 : header.kind == 8 ? 2 : 0;
    if (tokens->token_bytes == 0) {
        code =
            gal_fail(err, GAL_ERR_DOCUMENT, "%s: tokens must be uint8, int32 or uint16 (kinds 1, 4 and 8), got kind %u",
                     index_path, header.kind);
        goto cleanup;
    }
    if (tokens->descriptor < 0) {
        GAL_TRY(open_bytes(tokens_path, tokens, err));
    }
    GAL_TRY(check_sequences(&index, &header, tokens, err));
    tokens->token_count = tokens->byte_count / tokens->token_bytes;
    tokens->indexed = true;
cleanup:
    gal_token_file_close(&index);
    return code;
}

/* ---- which of them ---- */

static bool ends_in(const char *path, const char *suffix)
{
    const size_t length = strlen(path), wanted = strlen(suffix);
    return length >= wanted && strcmp(path + length - wanted, suffix) == 0;
}

/* The path with another ending in the place of its own. False if it is too long. */
static bool beside(const char *path, const char *ending, const char *other_ending, char out[GAL_TOKEN_PATH_BYTES])
{
    const int stem = (int)(strlen(path) - strlen(ending));
    return snprintf(out, GAL_TOKEN_PATH_BYTES, "%.*s%s", stem, path, other_ending) < GAL_TOKEN_PATH_BYTES;
}

/* Both files of a pair are there behind a name without an ending. */
static bool is_prefix(const char *path, char index[GAL_TOKEN_PATH_BYTES], char tokens[GAL_TOKEN_PATH_BYTES])
{
    return access(path, F_OK) != 0 && beside(path, "", ".idx", index) && beside(path, "", ".bin", tokens) &&
           access(index, F_OK) == 0 && access(tokens, F_OK) == 0;
}

static gal_code read_text(bool as_bytes, gal_token_file *out, gal_error *err)
{
    const gal_opened file = {out->path, out->descriptor, out->byte_count};
    const gal_code code = as_bytes ? GAL_OK : gal_text_check(&file, err);
    if (code == GAL_OK) {
        out->text = true;
        out->token_bytes = 1;
        out->token_count = out->byte_count;
    }
    return code;
}

static gal_code read_form(const char *path, bool as_bytes, gal_token_file *out, gal_error *err)
{
    gal_code code = GAL_OK;
    int32_t header[KNOWN_BYTES / sizeof(int32_t)] = {0};
    char other[GAL_TOKEN_PATH_BYTES], index[GAL_TOKEN_PATH_BYTES];
    if (ends_in(path, ".idx") && beside(path, ".idx", ".bin", other)) {
        return read_megatron(path, other, out, err);
    }
    if (is_prefix(path, index, other)) {
        return read_megatron(index, other, out, err);
    }
    GAL_TRY(open_bytes(path, out, err));
    if (out->byte_count >= sizeof header) {
        GAL_TRY(read_bytes(out, 0, header, sizeof header, err));
    }
    const llm_c_form *form = find_llm_c_form(header[0]);
    if (form != NULL) {
        return read_llm_c(out, form, header, err);
    }
    if (ends_in(path, ".bin") && beside(path, ".bin", ".idx", other) && access(other, F_OK) == 0) {
        return read_megatron(other, path, out, err);
    }
    if (ends_in(path, ".bin") && !as_bytes) {
        code = gal_fail(err, GAL_ERR_DOCUMENT,
                        "%s: a .bin file must begin with %d or %d (llm.c tokens) or have an .idx file beside it "
                        "(Megatron-LM's), got %d",
                        path, llm_c_forms[0].magic, llm_c_forms[1].magic, header[0]);
        goto cleanup;
    }
    GAL_TRY(read_text(as_bytes, out, err));
cleanup:
    return code;
}

bool gal_token_file_index_path(const gal_token_file *file, char path[GAL_TOKEN_PATH_BYTES])
{
    return beside(file->path, ".bin", ".idx", path);
}

gal_code gal_token_file_sequences(const gal_token_file *file,
                                  gal_code (*each)(void *context, uint64_t first, uint64_t end, gal_error *err),
                                  void *context, gal_error *err)
{
    gal_code code = GAL_OK;
    char path[GAL_TOKEN_PATH_BYTES];
    int32_t length[INDEX_CHUNK];
    index_header header = {0};
    uint64_t begin = 0;
    gal_token_file index = {.descriptor = -1};
    if (!file->indexed || !gal_token_file_index_path(file, path)) {
        return gal_fail(err, GAL_ERR_DOCUMENT,
                        "%s: the model pads: its samples are the lines of a text or the sequences of an .idx file, and "
                        "here is neither",
                        file->path);
    }
    GAL_TRY(open_bytes(path, &index, err));
    GAL_TRY(read_index_header(&index, &header, err));
    GAL_TRY(check_sequences(&index, &header, file, err)); /* it may have been written anew */
    for (uint64_t first = 0; first < header.sequence_count; first += INDEX_CHUNK) {
        const uint64_t left = header.sequence_count - first;
        const size_t count = left < INDEX_CHUNK ? (size_t)left : (size_t)INDEX_CHUNK;
        GAL_TRY(read_bytes(&index, INDEX_HEADER_BYTES + 4 * first, length, count * sizeof *length, err));
        for (size_t i = 0; i < count; i++) {
            GAL_TRY(each(context, begin, begin + (uint64_t)length[i], err));
            begin += (uint64_t)length[i];
        }
    }
cleanup:
    gal_token_file_close(&index);
    return code;
}

gal_code gal_token_file_open(const char *path, uint32_t vocabulary, bool as_bytes, gal_token_file *out, gal_error *err)
{
    gal_code code = GAL_OK;
    *out = (gal_token_file){.descriptor = -1};
    GAL_TRY(read_form(path, as_bytes, out, err));
    GAL_TRY(check_tokens(out, vocabulary, err));
cleanup:
    return code;
}
