#include "runtime/train/data.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TOKEN_FILE_MAGIC = 20240520, TOKEN_FILE_VERSION = 1, TOKEN_FILE_HEADER_BYTES = 1024, FEISTEL_ROUNDS = 8 };

typedef struct token_file {
    void *mapping;
    size_t mapping_bytes;
    const uint8_t *bytes;  /* one of the two: text */
    const uint16_t *words; /* or a token file */
    uint64_t token_count;
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
};

/* ---- files ---- */

static uint32_t token_at(const token_file *file, uint64_t index)
{
    return file->bytes != NULL ? file->bytes[index] : file->words[index];
}

static gal_code map_file(const char *path, token_file *out, gal_error *err)
{
    gal_code code = GAL_OK;
    struct stat status;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0 || fstat(descriptor, &status) != 0) {
        code = gal_fail(err, GAL_ERR_SYSTEM, "%s: %s", path, strerror(errno));
        goto cleanup;
    }
    if (!S_ISREG(status.st_mode) || status.st_size == 0) {
        code = gal_fail(err, GAL_ERR_DOCUMENT, "%s: %s", path,
                        S_ISREG(status.st_mode) ? "the file is empty" : "not a regular file");
        goto cleanup;
    }
    void *mapping = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (mapping == MAP_FAILED) {
        code = gal_fail(err, GAL_ERR_SYSTEM, "%s: %s", path, strerror(errno));
        goto cleanup;
    }
    out->mapping = mapping;
    out->mapping_bytes = (size_t)status.st_size;
cleanup:
    if (descriptor >= 0) {
        close(descriptor);
    }
    return code;
}

static gal_code read_header(const char *path, token_file *file, gal_error *err)
{
    int32_t header[3] = {0};
    const size_t name_length = strlen(path);
    if (file->mapping_bytes >= sizeof header) {
        memcpy(header, file->mapping, sizeof header);
    }
    if (header[0] != TOKEN_FILE_MAGIC) {
        if (name_length >= 4 && strcmp(path + name_length - 4, ".bin") == 0) {
            return gal_fail(err, GAL_ERR_DOCUMENT, "%s: a .bin file must begin with %d (llm.c tokens), got %d", path,
                            TOKEN_FILE_MAGIC, header[0]);
        }
        file->bytes = file->mapping;
        file->token_count = file->mapping_bytes;
        return GAL_OK;
    }
    const uint64_t expected_bytes = TOKEN_FILE_HEADER_BYTES + 2 * (uint64_t)(uint32_t)header[2];
    if (header[1] != TOKEN_FILE_VERSION) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "%s: token file version must be %d, got %d", path, TOKEN_FILE_VERSION,
                        header[1]);
    }
    if (file->mapping_bytes != expected_bytes) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "%s: %u tokens make %llu bytes, the file has %zu", path,
                        (uint32_t)header[2], (unsigned long long)expected_bytes, file->mapping_bytes);
    }
    file->words = (const uint16_t *)(const void *)((const char *)file->mapping + TOKEN_FILE_HEADER_BYTES);
    file->token_count = (uint32_t)header[2];
    return GAL_OK;
}

static gal_code check_tokens(const char *path, const token_file *file, uint32_t vocabulary, gal_error *err)
{
    if (file->bytes != NULL) {
        return vocabulary >= 256 ? GAL_OK
                                 : gal_fail(err, GAL_ERR_DOCUMENT,
                                            "%s: text is read as bytes and needs a vocabulary of 256 or more, the "
                                            "model has %u",
                                            path, vocabulary);
    }
    for (uint64_t i = 0; i < file->token_count && vocabulary <= UINT16_MAX; i++) {
        if (file->words[i] >= vocabulary) {
            return gal_fail(err, GAL_ERR_DOCUMENT, "%s: token %llu is %u, the model's vocabulary has %u entries", path,
                            (unsigned long long)i, file->words[i], vocabulary);
        }
    }
    return GAL_OK;
}

static gal_code open_file(const char *path, uint32_t vocabulary, token_file *file, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_TRY(map_file(path, file, err));
    GAL_TRY(read_header(path, file, err));
    GAL_TRY(check_tokens(path, file, vocabulary, err));
cleanup:
    return code; /* the mapping is released with the data */
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
    if (data->validation_file.mapping != NULL) {
        munmap(data->validation_file.mapping, data->validation_file.mapping_bytes);
    }
    if (data->file.mapping != NULL) {
        munmap(data->file.mapping, data->file.mapping_bytes);
    }
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

double gal_data_unigram_entropy(const gal_data *data)
{
    const split *splits[] = {&data->train, &data->validation};
    const uint64_t total = data->train.token_count + data->validation.token_count;
    uint64_t *histogram = calloc(UINT16_MAX + 1, sizeof *histogram);
    double entropy = 0.0;
    if (histogram == NULL) {
        return NAN;
    }
    for (uint32_t s = 0; s < 2; s++) {
        for (uint64_t i = 0; i < splits[s]->token_count; i++) {
            histogram[token_at(splits[s]->file, splits[s]->first + i)]++;
        }
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
    (void)err;
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
        for (uint32_t i = 0; i < length; i++) {
            out[(size_t)s * length + i] = (int32_t)token_at(from->file, first + i);
        }
    }
    return GAL_OK;
}
