/* Data files: text, token files, pairs of index and tokens. The first byte picks the form, vocabulary, sequence length,
 * whether there is a validation file and whether the model pads; of a pair the second byte is the number of the index's
 * bytes. What is accepted gives tokens below the vocabulary for every window, near the end of the series too, and of
 * lines as many targets as it counts. */
#include <math.h>
#include <stdlib.h>

#include "runtime/train/data.h"
#include "tests/fuzz/input.h"

enum { LENGTH_MAX = 16, SAMPLES = 2 };

static void fill(gal_data *data, const gal_data_options *options, bool evaluation, bool targets, uint64_t batch)
{
    int32_t tokens[SAMPLES * LENGTH_MAX];
    const uint32_t samples[SAMPLES] = {0, options->global_batch_samples - 1};
    const gal_token_request request = {.batch = batch,
                                       .evaluation = evaluation,
                                       .targets = targets,
                                       .sample_count = SAMPLES,
                                       .samples = samples,
                                       .sequence_length = options->sequence_length};
    GAL_FUZZ_REQUIRE(gal_data_fill(data, &request, tokens, NULL) == GAL_OK);
    const bool none = targets && options->model != NULL;
    for (uint32_t i = 0; i < SAMPLES * options->sequence_length; i++) {
        GAL_FUZZ_REQUIRE((tokens[i] >= 0 && (uint32_t)tokens[i] < options->vocabulary) || (none && tokens[i] == -1));
    }
}

static void count(gal_data *data, const gal_data_options *options, bool evaluation, uint64_t batch)
{
    int32_t lengths[SAMPLES + 1], sum = 0;
    uint64_t targets = 0;
    const uint32_t samples[SAMPLES + 1] = {0, 1, 2};
    const gal_token_request request = {.batch = batch,
                                       .evaluation = evaluation,
                                       .sample_count = SAMPLES + 1,
                                       .samples = samples,
                                       .sequence_length = options->sequence_length};
    GAL_ASSERT(options->global_batch_samples == SAMPLES + 1);
    GAL_FUZZ_REQUIRE(gal_data_fill_lengths(data, &request, lengths, NULL) == GAL_OK);
    GAL_FUZZ_REQUIRE(gal_data_count_targets(data, batch, evaluation, &targets, NULL) == GAL_OK);
    for (uint32_t s = 0; s < SAMPLES + 1; s++) {
        GAL_FUZZ_REQUIRE(lengths[s] >= 1 && (uint32_t)lengths[s] <= options->sequence_length);
        sum += lengths[s];
    }
    GAL_FUZZ_REQUIRE(targets == (uint64_t)sum);
}

static void use(gal_data *data, const gal_data_options *options)
{
    GAL_FUZZ_REQUIRE(gal_data_train_windows(data) >= 1 && gal_data_validation_windows(data) >= 1);
    const bool lines = options->model != NULL;
    GAL_FUZZ_REQUIRE(lines ? gal_data_train_tokens(data) >= gal_data_train_windows(data)
                           : gal_data_train_tokens(data) > gal_data_train_windows(data) * options->sequence_length);
    for (uint64_t batch = 0; batch < 3; batch++) {
        fill(data, options, false, false, batch);
        fill(data, options, false, true, batch);
        fill(data, options, true, true, batch);
        if (lines) {
            count(data, options, batch % 2 == 1, batch);
        }
    }
    fill(data, options, false, true, UINT64_C(99999998));
    if (gal_data_train_tokens(data) % 8 == 0) { /* a pass over 2^16 counters: not for every input */
        const double entropy = gal_data_unigram_entropy(data);
        GAL_FUZZ_REQUIRE(isfinite(entropy) && entropy >= 0.0);
    }
}

static const char *path_of[3]; /* words, text, index; the index's tokens */
static const char *pair_path;

static const char *write_form(uint8_t form, const uint8_t *bytes, size_t byte_count)
{
    if (form == 2 && byte_count > 0) {
        const size_t index_bytes = bytes[0] < byte_count - 1 ? bytes[0] : byte_count - 1;
        gal_fuzz_write(path_of[2], bytes + 1, index_bytes);
        gal_fuzz_write(pair_path, bytes + 1 + index_bytes, byte_count - 1 - index_bytes);
        return path_of[2];
    }
    gal_fuzz_write(path_of[form % 2], bytes, byte_count);
    return path_of[form % 2];
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    if (byte_count == 0) {
        return 0;
    }
    if (pair_path == NULL) {
        path_of[0] = gal_fuzz_path("data.bin");
        path_of[1] = gal_fuzz_path("data.txt");
        path_of[2] = gal_fuzz_path("pair.idx");
        pair_path = gal_fuzz_path("pair.bin");
    }
    static const gal_model padded = {.family = GAL_FAMILY_DECODER, .padding = true};
    const uint8_t choice = bytes[0];
    const char *path = write_form(choice % 4, bytes + 1, byte_count - 1);
    const gal_data_options options = {.path = path,
                                      .validation_path = choice / 64 % 2 == 0 ? NULL : path,
                                      .vocabulary = (choice / 4 % 4 + 1u) * 128,
                                      .sequence_length = choice / 16 % 4 * 5 + 1u,
                                      .global_batch_samples = 3,
                                      .seed = choice,
                                      .model = choice / 128 == 1 ? &padded : NULL};
    gal_data *data = NULL;
    gal_error err = {0};
    gal_code code = gal_data_open(&options, &data, &err);
    if (code != GAL_OK) {
        GAL_FUZZ_REQUIRE(code == GAL_ERR_DOCUMENT);
        gal_fuzz_require_refusal(code, &err);
    } else {
        use(data, &options);
    }
    gal_data_close(data);
    return 0;
}
