#include "runtime/train/data.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    TOKEN_FILE_MAGIC = 20240520,
    TOKEN_FILE_VERSION = 1,
    TOKEN_FILE_HEADER_BYTES = 1024,
    FEISTEL_ROUNDS = 8,
    CHUNK_TOKENS = 1 << 16
};

typedef struct token_file {
    const char *path; /* borrowed */
    int descriptor;
    bool text; /* a token is a byte; else a word behind the header */
    uint64_t byte_count, token_count;
} token_file;

/* Tokens [first, first + token_count) of a file. */
typedef struct split {
    const token_file *file;
    uint64_t first, token_count, window_count;
} split;

struct gal_data {
    gal_data_options options;
    token_file file, validation_file;
    split train, validation;
    uint16_t *window; /* [sequence_length] */
};

/* ---- files ---- */

/* byte_count bytes from offset on. A file is read and not mapped: one that shrinks under a mapping ends the process by
 * SIGBUS, one that is read comes up short. */
static gal_code read_bytes(const token_file *file, uint64_t offset, void *out, size_t byte_count, gal_error *err)
{
    for (size_t done = 0; done < byte_count;) {
        const ssize_t got = pread(file->descriptor, (char *)out + done, byte_count - done, (off_t)(offset + done));
        if (got == 0) {
            return gal_fail(err, GAL_ERR_SYSTEM, "%s: the file had %llu bytes when it was opened, byte %llu is gone",
                            file->path, (unsigned long long)file->byte_count, (unsigned long long)(offset + done));
        }
        if (got < 0 && errno != EINTR) {
            return gal_fail(err, GAL_ERR_SYSTEM, "%s: %s", file->path, strerror(errno));
        }
        done += got > 0 ? (size_t)got : 0;
    }
    return GAL_OK;
}

/* Tokens [first, first + count) of a file. */
static gal_code read_tokens(const token_file *file, uint64_t first, size_t count, uint16_t *out, gal_error *err)
{
    gal_code code = GAL_OK;
    if (!file->text) {
        return read_bytes(file, TOKEN_FILE_HEADER_BYTES + 2 * first, out, 2 * count, err);
    }
    /* The bytes go to the upper half and are spread from its start: byte i lies at count + i, word i ends at 2 i + 2.
     */
    uint8_t *bytes = (uint8_t *)out + count;
    GAL_TRY(read_bytes(file, first, bytes, count, err));
    for (size_t i = 0; i < count; i++) {
        out[i] = bytes[i];
    }
cleanup:
    return code;
}

static gal_code open_bytes(const char *path, token_file *out, gal_error *err)
{
    struct stat status;
    out->path = path;
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

static gal_code read_header(token_file *file, gal_error *err)
{
    gal_code code = GAL_OK;
    int32_t header[3] = {0};
    const char *path = file->path;
    const size_t name_length = strlen(path);
    if (file->byte_count >= sizeof header) {
        GAL_TRY(read_bytes(file, 0, header, sizeof header, err));
    }
    if (header[0] != TOKEN_FILE_MAGIC) {
        if (name_length >= 4 && strcmp(path + name_length - 4, ".bin") == 0) {
            return gal_fail(err, GAL_ERR_DOCUMENT, "%s: a .bin file must begin with %d (llm.c tokens), got %d", path,
                            TOKEN_FILE_MAGIC, header[0]);
        }
        file->text = true;
        file->token_count = file->byte_count;
        return GAL_OK;
    }
    const uint64_t expected_bytes = TOKEN_FILE_HEADER_BYTES + 2 * (uint64_t)(uint32_t)header[2];
    if (header[1] != TOKEN_FILE_VERSION) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "%s: token file version must be %d, got %d", path, TOKEN_FILE_VERSION,
                        header[1]);
    }
    if (file->byte_count != expected_bytes) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "%s: %u tokens make %llu bytes, the file has %llu", path,
                        (uint32_t)header[2], (unsigned long long)expected_bytes, (unsigned long long)file->byte_count);
    }
    file->token_count = (uint32_t)header[2];
cleanup:
    return code;
}

/* Gives each(context, first, tokens, count) all tokens of [first, end) in turn; it may fail. */
static gal_code each_chunk(const token_file *file, uint64_t first, uint64_t end,
                           gal_code (*each)(void *context, uint64_t first, const uint16_t *tokens, size_t count,
                                            gal_error *err),
                           void *context, gal_error *err)
{
    gal_code code = GAL_OK;
    uint16_t *tokens = malloc(CHUNK_TOKENS * sizeof *tokens);
    if (tokens == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: data");
    }
    while (first < end) {
        const size_t count = end - first < CHUNK_TOKENS ? (size_t)(end - first) : (size_t)CHUNK_TOKENS;
        GAL_TRY(read_tokens(file, first, count, tokens, err));
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

static gal_code check_chunk(void *context, uint64_t first, const uint16_t *tokens, size_t count, gal_error *err)
{
    const limit *at = context;
    for (size_t i = 0; i < count; i++) {
        if (tokens[i] >= at->vocabulary) {
            return gal_fail(err, GAL_ERR_DOCUMENT, "%s: token %llu is %u, the model's vocabulary has %u entries",
                            at->path, (unsigned long long)(first + i), tokens[i], at->vocabulary);
        }
    }
    return GAL_OK;
}

static gal_code check_tokens(const token_file *file, uint32_t vocabulary, gal_error *err)
{
    if (file->text) {
        return vocabulary >= 256 ? GAL_OK
                                 : gal_fail(err, GAL_ERR_DOCUMENT,
                                            "%s: text is read as bytes and needs a vocabulary of 256 or more, the "
                                            "model has %u",
                                            file->path, vocabulary);
    }
    limit context = {.path = file->path, .vocabulary = vocabulary};
    return vocabulary > UINT16_MAX ? GAL_OK : each_chunk(file, 0, file->token_count, check_chunk, &context, err);
}

static gal_code open_file(const char *path, uint32_t vocabulary, token_file *file, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_TRY(open_bytes(path, file, err));
    GAL_TRY(read_header(file, err));
    GAL_TRY(check_tokens(file, vocabulary, err));
cleanup:
    return code; /* the descriptor is closed with the data */
}

/* ---- splits ---- */

static gal_code make_split(const char *path, const char *name, const token_file *file, uint64_t first,
                           uint64_t token_count, uint32_t sequence_length, split *out, gal_error *err)
{
    const uint64_t window_count = token_count > sequence_length ? (token_count - 1) / sequence_length : 0;
    if (window_count == 0) {
        return gal_fail(err, GAL_ERR_DOCUMENT,
                        "%s: the %s split has %llu tokens, one window needs %llu (sequence_length + 1)", path, name,
                        (unsigned long long)token_count, (unsigned long long)sequence_length + 1);
    }
    *out = (split){.file = file, .first = first, .token_count = token_count, .window_count = window_count};
    return GAL_OK;
}

static gal_code split_files(gal_data *data, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_data_options *o = &data->options;
    const uint64_t total = data->file.token_count;
    const uint64_t held_out = o->validation_path == NULL ? total / 10 : 0;
    GAL_TRY(make_split(o->path, "training", &data->file, 0, total - held_out, o->sequence_length, &data->train, err));
    if (o->validation_path == NULL) {
        GAL_TRY(make_split(o->path, "validation (last tenth)", &data->file, total - held_out, held_out,
                           o->sequence_length, &data->validation, err));
    } else {
        GAL_TRY(make_split(o->validation_path, "validation", &data->validation_file, 0,
                           data->validation_file.token_count, o->sequence_length, &data->validation, err));
    }
cleanup:
    return code;
}

gal_code gal_data_open(const gal_data_options *options, gal_data **out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_data *data = calloc(1, sizeof *data);
    if (data == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: data");
    }
    data->options = *options;
    data->file.descriptor = data->validation_file.descriptor = -1;
    data->window = malloc((size_t)options->sequence_length * sizeof *data->window);
    if (data->window == NULL) {
        code = gal_fail(err, GAL_ERR_SYSTEM, "out of memory: data");
        goto cleanup;
    }
    GAL_TRY(open_file(options->path, options->vocabulary, &data->file, err));
    if (options->validation_path != NULL) {
        GAL_TRY(open_file(options->validation_path, options->vocabulary, &data->validation_file, err));
    }
    GAL_TRY(split_files(data, err));
    *out = data;
    data = NULL;
cleanup:
    gal_data_close(data);
    return code;
}

void gal_data_close(gal_data *data)
{
    if (data == NULL) {
        return;
    }
    if (data->validation_file.descriptor >= 0) {
        close(data->validation_file.descriptor);
    }
    if (data->file.descriptor >= 0) {
        close(data->file.descriptor);
    }
    free(data->window);
    free(data);
}

uint64_t gal_data_train_windows(const gal_data *data)
{
    return data->train.window_count;
}

uint64_t gal_data_validation_windows(const gal_data *data)
{
    return data->validation.window_count;
}

uint64_t gal_data_train_tokens(const gal_data *data)
{
    return data->train.token_count;
}

static gal_code count_chunk(void *context, uint64_t first, const uint16_t *tokens, size_t count, gal_error *err)
{
    uint64_t *histogram = context;
    (void)first;
    (void)err;
    for (size_t i = 0; i < count; i++) {
        histogram[tokens[i]]++;
    }
    return GAL_OK;
}

double gal_data_unigram_entropy(const gal_data *data)
{
    const split *splits[] = {&data->train, &data->validation};
    const uint64_t total = data->train.token_count + data->validation.token_count;
    uint64_t *histogram = calloc(UINT16_MAX + 1, sizeof *histogram);
    double entropy = histogram != NULL ? 0.0 : NAN;
    for (uint32_t s = 0; s < 2 && histogram != NULL; s++) {
        const uint64_t first = splits[s]->first;
        if (each_chunk(splits[s]->file, first, first + splits[s]->token_count, count_chunk, histogram, NULL) !=
            GAL_OK) {
            entropy = NAN;
        }
    }
    if (isnan(entropy)) {
        free(histogram);
        return NAN;
    }
    for (uint32_t t = 0; t <= UINT16_MAX; t++) {
        if (histogram[t] > 0) {
            const double share = (double)histogram[t] / (double)total;
            entropy -= share * log(share);
        }
    }
    free(histogram);
    return entropy;
}

/* ---- order ---- */

/* Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014, mix64 variant 13. */
static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

uint64_t gal_permute(uint64_t index, uint64_t count, uint64_t key)
{
    uint32_t half_bits = 1;
    while (half_bits < 31 && (UINT64_C(1) << 2 * half_bits) < count) {
        half_bits++;
    }
    const uint64_t mask = (UINT64_C(1) << half_bits) - 1;
    GAL_ASSERT(index < count && count <= UINT64_C(1) << 62);
    do {
        uint64_t left = index >> half_bits;
        uint64_t right = index & mask;
        for (uint64_t round = 0; round < FEISTEL_ROUNDS; round++) {
            const uint64_t next = left ^ (mix(key ^ mix(right + (round << 56))) & mask);
            left = right;
            right = next;
        }
        index = left << half_bits | right;
    } while (index >= count);
    return index;
}

gal_code gal_data_fill(void *context, const gal_token_request *request, int32_t *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_data *data = context;
    const split *from = request->evaluation ? &data->validation : &data->train;
    const uint32_t length = request->sequence_length;
    GAL_ASSERT(length == data->options.sequence_length);
    for (uint32_t s = 0; s < request->sample_count; s++) {
        const uint64_t serial = request->batch * data->options.global_batch_samples + request->samples[s];
        uint64_t window = serial % from->window_count;
        if (!request->evaluation) {
            const uint64_t epoch = serial / from->window_count;
            window = gal_permute(window, from->window_count, mix(mix(data->options.seed) ^ epoch));
        }
        const uint64_t first = from->first + window * length + (request->targets ? 1 : 0);
        GAL_TRY(read_tokens(from->file, first, length, data->window, err));
        for (uint32_t i = 0; i < length; i++) {
            out[(size_t)s * length + i] = data->window[i];
        }
    }
cleanup:
    return code;
}
