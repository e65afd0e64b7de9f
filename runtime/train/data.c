#include "runtime/train/data.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/train/token_file.h"

enum { FEISTEL_ROUNDS = 8 };

/* Tokens [first, first + token_count) of a file. */
typedef struct split {
    const gal_token_file *file;
    uint64_t first, token_count, window_count;
} split;

struct gal_data {
    gal_data_options options;
    gal_token_file file, validation_file;
    split train, validation;
};

/* ---- splits ---- */

static gal_code make_split(const char *path, const char *name, const gal_token_file *file, uint64_t first,
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
    GAL_TRY(gal_token_file_open(options->path, options->vocabulary, &data->file, err));
    if (options->validation_path != NULL) {
        GAL_TRY(gal_token_file_open(options->validation_path, options->vocabulary, &data->validation_file, err));
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
    gal_token_file_close(&data->validation_file);
    gal_token_file_close(&data->file);
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

static gal_code count_chunk(void *context, uint64_t first, const int32_t *tokens, size_t count, gal_error *err)
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
    uint64_t *histogram = calloc(data->options.vocabulary, sizeof *histogram);
    double entropy = histogram != NULL ? 0.0 : NAN;
    for (uint32_t s = 0; s < 2 && histogram != NULL; s++) {
        const uint64_t first = splits[s]->first;
        if (gal_token_file_each(splits[s]->file, first, first + splits[s]->token_count, count_chunk, histogram, NULL) !=
            GAL_OK) {
            entropy = NAN;
        }
    }
    if (isnan(entropy)) {
        free(histogram);
        return NAN;
    }
    for (uint32_t t = 0; t < data->options.vocabulary; t++) {
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
        GAL_TRY(gal_token_file_read(from->file, first, length, out + (size_t)s * length, err));
    }
cleanup:
    return code;
}
