/* Training data: files, splits, windows and their order. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/train/data.h"
#include "tests/support/scratch_folder.h"

enum { PATH_BYTES = 64, LENGTH = 4, BATCH = 3 };

static const char *write_file(const char *name, const void *bytes, size_t byte_count)
{
    static char path[2 * PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", gal_scratch_folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, byte_count, file), byte_count);
    fclose(file);
    return path;
}

static const char *write_tokens(const char *name, int32_t version, int32_t claimed, const uint16_t *tokens,
                                size_t token_count)
{
    char bytes[4096] = {0};
    const int32_t header[3] = {20240520, version, claimed};
    memcpy(bytes, header, sizeof header);
    memcpy(bytes + 1024, tokens, token_count * sizeof *tokens);
    return write_file(name, bytes, 1024 + token_count * sizeof *tokens);
}

static gal_data_options options_of(const char *path)
{
    return (gal_data_options){
        .path = path, .vocabulary = 256, .sequence_length = LENGTH, .global_batch_samples = BATCH, .seed = 7};
}

static void assert_refused(const gal_data_options *options, gal_code code, const char *text)
{
    gal_error err = {0};
    gal_data *data = NULL;
    assert_int_equal(gal_data_open(options, &data, &err), code);
    assert_null(data);
    if (strstr(err.text, text) == NULL) {
        fail_msg("got: %s", err.text);
    }
}

static void test_permutation_is_a_bijection(void **state)
{
    (void)state;
    for (uint64_t count = 1; count <= 300; count++) {
        for (uint64_t key = 0; key < 4; key++) {
            uint8_t seen[300] = {0};
            for (uint64_t i = 0; i < count; i++) {
                const uint64_t to = gal_permute(i, count, key);
                assert_true(to < count);
                assert_int_equal(seen[to]++, 0);
            }
        }
    }
}

/* Of a random permutation of 1000, about one element stays in place; two share about one place. */
static void test_permutation_mixes(void **state)
{
    (void)state;
    uint32_t fixed = 0, common = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        fixed += gal_permute(i, 1000, 1) == i;
        common += gal_permute(i, 1000, 1) == gal_permute(i, 1000, 2);
    }
    assert_true(fixed < 10 && common < 10);
}

/* 100 bytes 0..99: 90 for training are windows at 0, 4, ... 84 (the last needs byte 88 as its last target: 22 windows),
 * 10 for validation are windows at 90 and 94. */
static void test_windows(void **state)
{
    (void)state;
    uint8_t text[100];
    uint32_t samples[BATCH] = {0, 1, 2}, seen[22] = {0};
    int32_t tokens[BATCH * LENGTH], targets[BATCH * LENGTH];
    for (uint8_t i = 0; i < 100; i++) {
        text[i] = i;
    }
    gal_data_options options = options_of(write_file("text", text, sizeof text));
    gal_error err = {0};
    gal_data *data = NULL;
    assert_refused(&options, GAL_ERR_DOCUMENT, "byte 0 is NUL, so this is no text");
    options.as_bytes = true;
    assert_int_equal(gal_data_open(&options, &data, &err), GAL_OK);
    assert_int_equal(gal_data_train_windows(data), 22);
    assert_int_equal(gal_data_validation_windows(data), 2);
    assert_float_equal(gal_data_unigram_entropy(data), log(100.0), 1e-12);
    gal_token_request request = {.samples = samples, .sample_count = BATCH, .sequence_length = LENGTH};
    for (request.batch = 0; request.batch < 22; request.batch++) { /* 66 samples: three epochs */
        request.targets = false;
        assert_int_equal(gal_data_fill(data, &request, tokens, &err), GAL_OK);
        request.targets = true;
        assert_int_equal(gal_data_fill(data, &request, targets, &err), GAL_OK);
        for (uint32_t i = 0; i < BATCH * LENGTH; i++) {
            assert_int_equal(tokens[i], tokens[i / LENGTH * LENGTH] + (int32_t)(i % LENGTH));
            assert_int_equal(targets[i], tokens[i] + 1);
        }
        for (uint32_t s = 0; s < BATCH; s++) {
            assert_int_equal(tokens[s * LENGTH] % LENGTH, 0);
            seen[tokens[s * LENGTH] / LENGTH]++;
        }
    }
    for (uint32_t w = 0; w < 22; w++) {
        assert_int_equal(seen[w], 3);
    }
    request =
        (gal_token_request){.samples = samples, .sample_count = BATCH, .sequence_length = LENGTH, .evaluation = true};
    assert_int_equal(gal_data_fill(data, &request, tokens, &err), GAL_OK);
    assert_int_equal(tokens[0], 90);
    assert_int_equal(tokens[LENGTH], 94);
    assert_int_equal(tokens[2 * LENGTH], 90);
    gal_data_close(data);
}

/* Sample i of the batch is the same, whoever asks for it and with which others. */
static void test_samples_do_not_depend_on_who_asks(void **state)
{
    (void)state;
    char text[500];
    for (uint32_t i = 0; i < sizeof text; i++) {
        text[i] = (char)('a' + i * i % 23);
    }
    const gal_data_options options = options_of(write_file("text", text, sizeof text));
    gal_error err = {0};
    gal_data *data = NULL;
    const uint32_t all[BATCH] = {0, 1, 2}, some[2] = {2, 0};
    int32_t whole[BATCH * LENGTH], part[2 * LENGTH];
    assert_int_equal(gal_data_open(&options, &data, &err), GAL_OK);
    gal_token_request request = {.batch = 5, .samples = all, .sample_count = BATCH, .sequence_length = LENGTH};
    assert_int_equal(gal_data_fill(data, &request, whole, &err), GAL_OK);
    request.samples = some;
    request.sample_count = 2;
    assert_int_equal(gal_data_fill(data, &request, part, &err), GAL_OK);
    assert_memory_equal(part, whole + 2 * LENGTH, LENGTH * sizeof *part);
    assert_memory_equal(part + LENGTH, whole, LENGTH * sizeof *part);
    gal_data_close(data);
}

static void test_token_file(void **state)
{
    (void)state;
    uint16_t tokens[60];
    for (uint16_t i = 0; i < 60; i++) {
        tokens[i] = (uint16_t)(1000 + i);
    }
    gal_data_options options = options_of(write_tokens("data.bin", 1, 60, tokens, 60));
    options.vocabulary = 1060;
    gal_error err = {0};
    gal_data *data = NULL;
    const uint32_t first = 0;
    int32_t out[LENGTH];
    assert_int_equal(gal_data_open(&options, &data, &err), GAL_OK);
    const gal_token_request request = {
        .samples = &first, .sample_count = 1, .sequence_length = LENGTH, .targets = true, .evaluation = true};
    assert_int_equal(gal_data_fill(data, &request, out, &err), GAL_OK);
    assert_int_equal(out[0], 1055); /* validation is tokens 54..59 */
    gal_data_close(data);
    options.vocabulary = 1059;
    assert_refused(&options, GAL_ERR_DOCUMENT, "token 59 is 1059, the model's vocabulary has 1059 entries");
}

/* The form of Llama 3: 32 bits a token, another magic and version; read alike under a name without an ending. */
static void test_wide_token_file(void **state)
{
    (void)state;
    const int32_t header[3] = {20240801, 7, 60};
    char bytes[1024 + 60 * 4] = {0};
    int32_t tokens[60], out[LENGTH];
    const uint32_t samples[1] = {0};
    gal_error err = {0};
    gal_data *data = NULL;
    for (int32_t i = 0; i < 60; i++) {
        tokens[i] = 100000 + i;
    }
    memcpy(bytes, header, sizeof header);
    memcpy(bytes + 1024, tokens, sizeof tokens);
    for (int named = 0; named < 2; named++) {
        gal_data_options options = options_of(write_file(named ? "wide.bin" : "wide", bytes, sizeof bytes));
        options.vocabulary = 128256;
        assert_int_equal(gal_data_open(&options, &data, &err), GAL_OK);
        assert_int_equal(gal_data_train_tokens(data), 54);
        const gal_token_request request = {
            .samples = samples, .sample_count = 1, .sequence_length = LENGTH, .evaluation = true};
        assert_int_equal(gal_data_fill(data, &request, out, &err), GAL_OK);
        assert_int_equal(out[0], 100054);
        gal_data_close(data);
        options.vocabulary = 100050;
        assert_refused(&options, GAL_ERR_DOCUMENT, "token 50 is 100050");
    }
    bytes[4] = 1;
    gal_data_options options = options_of(write_file("wide.bin", bytes, sizeof bytes));
    assert_refused(&options, GAL_ERR_DOCUMENT, "version must be 7, got 1");
}

/* A Megatron pair NAME.idx, NAME.bin of two sequences; kind 4 (int32) or 8 (uint16). Returns the index's path. */
static const char *write_pair(uint8_t kind, uint64_t version, int64_t second_offset, const void *tokens,
                              size_t token_bytes)
{
    uint8_t index[34 + 2 * 12 + 2 * 8] = "MMIDIDX";
    const uint64_t counts[2] = {2, 2};
    const int32_t lengths[2] = {20, 40};
    const int64_t offsets[2] = {0, second_offset}, documents[2] = {0, 2};
    memcpy(index + 9, &version, 8);
    index[17] = kind;
    memcpy(index + 18, counts, 16);
    memcpy(index + 34, lengths, 8);
    memcpy(index + 42, offsets, 16);
    memcpy(index + 58, documents, 16);
    write_file("pair.bin", tokens, token_bytes);
    return write_file("pair.idx", index, sizeof index);
}

static void assert_validation_begins(const gal_data_options *options, int32_t token)
{
    gal_error err = {0};
    gal_data *data = NULL;
    const uint32_t first = 0;
    int32_t out[LENGTH];
    assert_int_equal(gal_data_open(options, &data, &err), GAL_OK);
    const gal_token_request request = {
        .samples = &first, .sample_count = 1, .sequence_length = LENGTH, .evaluation = true};
    assert_int_equal(gal_data_fill(data, &request, out, &err), GAL_OK);
    assert_int_equal(out[0], token);
    gal_data_close(data);
}

/* 60 tokens, the last 6 for validation; named by either file. */
static void test_megatron_pair(void **state)
{
    (void)state;
    uint16_t words[60];
    int32_t numbers[60];
    char tokens_path[2 * PATH_BYTES];
    for (uint16_t i = 0; i < 60; i++) {
        words[i] = (uint16_t)(1000 + i);
        numbers[i] = 100000 + i;
    }
    snprintf(tokens_path, sizeof tokens_path, "%s/pair.bin", gal_scratch_folder);
    gal_data_options options = options_of(write_pair(8, 1, 40, words, sizeof words));
    options.vocabulary = 1060;
    assert_validation_begins(&options, 1054);
    options.path = tokens_path;
    assert_validation_begins(&options, 1054);
    tokens_path[strlen(tokens_path) - strlen(".bin")] = '\0'; /* the name of both, without an ending */
    assert_validation_begins(&options, 1054);
    options = options_of(write_pair(4, 1, 80, numbers, sizeof numbers));
    options.vocabulary = 100060;
    assert_validation_begins(&options, 100054);
    options.vocabulary = 100059;
    assert_refused(&options, GAL_ERR_DOCUMENT, "token 59 is 100059, the model's vocabulary has 100059 entries");
    numbers[3] = -1;
    options = options_of(write_pair(4, 1, 80, numbers, sizeof numbers));
    assert_refused(&options, GAL_ERR_DOCUMENT, "token 0 is 100000");
    options.vocabulary = 1 << 20;
    assert_refused(&options, GAL_ERR_DOCUMENT, "token 3 is -1");
}

static void test_megatron_pair_is_strict(void **state)
{
    (void)state;
    const uint16_t words[60] = {0};
    gal_data_options options = options_of(write_pair(8, 2, 40, words, sizeof words));
    assert_refused(&options, GAL_ERR_DOCUMENT, "index version must be 1, got 2");
    options = options_of(write_pair(7, 1, 40, words, sizeof words));
    assert_refused(&options, GAL_ERR_DOCUMENT, "uint8, int32 or uint16 (kinds 1, 4 and 8), got kind 7");
    options = options_of(write_pair(8, 1, 42, words, sizeof words));
    assert_refused(&options, GAL_ERR_DOCUMENT, "sequence 1 has 40 tokens from byte 42 on, byte 40 was expected");
    options = options_of(write_pair(8, 1, 40, words, sizeof words - 2));
    assert_refused(&options, GAL_ERR_DOCUMENT, "the sequences have 120 bytes, the tokens' file has 118");
    options = options_of(write_file("pair.idx", "MMIDIDX\0\0", 9));
    assert_refused(&options, GAL_ERR_DOCUMENT, "must begin with MMIDIDX");
    options = options_of(write_file("pair.idx",
                                    "MMIDIDX\0\0\1\0\0\0\0\0\0\0\10"
                                    "\377\377\377\377\377\377\377\377\0\0\0\0\0\0\0\0",
                                    34));
    assert_refused(&options, GAL_ERR_DOCUMENT, "sequences and 0 documents do not make its 34 bytes");
}

static void test_validation_file(void **state)
{
    (void)state;
    char other[2 * PATH_BYTES];
    snprintf(other, sizeof other, "%s", write_file("other", "0123456789", 10));
    gal_data_options options = options_of(write_file("text", "abcdefghijklmnopqrstuvwxyz", 26));
    options.validation_path = other;
    gal_error err = {0};
    gal_data *data = NULL;
    assert_int_equal(gal_data_open(&options, &data, &err), GAL_OK);
    assert_int_equal(gal_data_train_tokens(data), 26);
    assert_int_equal(gal_data_validation_windows(data), 2); /* 0..4 and 4..8 with their targets */
    gal_data_close(data);
}

static void test_refusals(void **state)
{
    (void)state;
    const uint16_t tokens[20] = {0};
    gal_data_options options = options_of("/nonexistent/data");
    assert_refused(&options, GAL_ERR_SYSTEM, "/nonexistent/data: No such file");
    options.path = gal_scratch_folder;
    assert_refused(&options, GAL_ERR_DOCUMENT, "not a regular file");
    options.path = write_file("empty", "", 0);
    assert_refused(&options, GAL_ERR_DOCUMENT, "the file is empty");
    options.path = write_file("short", "0123456789", 10);
    assert_refused(&options, GAL_ERR_DOCUMENT, "has 1 tokens, one window needs 5");
    options.path = write_file("text.bin", "0123456789", 10);
    assert_refused(&options, GAL_ERR_DOCUMENT, "must begin with 20240520");
    options.path = write_tokens("version", 2, 20, tokens, 20);
    assert_refused(&options, GAL_ERR_DOCUMENT, "version must be 1, got 2");
    options.path = write_tokens("cut", 1, 21, tokens, 20);
    assert_refused(&options, GAL_ERR_DOCUMENT, "21 tokens make 1066 bytes, the file has 1064");
    options.path = write_file("text", "0123456789", 10);
    options.vocabulary = 255;
    assert_refused(&options, GAL_ERR_DOCUMENT, "needs a vocabulary of 256 or more, the model has 255");
}

/* Validation samples 0, 1, 2 as rows of `length`. */
static void fill_padded(gal_data *data, uint32_t length, bool targets, bool decoder, int32_t *out)
{
    const uint32_t samples[BATCH] = {0, 1, 2};
    gal_error err = {0};
    const gal_token_request request = {.samples = samples,
                                       .sample_count = BATCH,
                                       .sequence_length = length,
                                       .targets = targets,
                                       .decoder = decoder,
                                       .evaluation = true};
    assert_int_equal(gal_data_fill(data, &request, out, &err), GAL_OK);
}

static void expect_lengths(gal_data *data, const int32_t lengths[BATCH], uint64_t target_count)
{
    const uint32_t samples[BATCH] = {0, 1, 2};
    int32_t got[BATCH];
    uint64_t count = 0;
    gal_error err = {0};
    const gal_token_request request = {
        .samples = samples, .sample_count = BATCH, .sequence_length = LENGTH, .evaluation = true};
    assert_int_equal(gal_data_fill_lengths(data, &request, got, &err), GAL_OK);
    assert_memory_equal(got, lengths, sizeof got);
    assert_int_equal(gal_data_count_targets(data, 0, true, &count, &err), GAL_OK);
    assert_int_equal(count, target_count);
}

/* Lines of 2, 0, 5 and 1 bytes, the last without its end. Of at most 4: ab | cdef | g | h, where h is followed by
 * nothing and so no sample of a model that is to say the next byte. */
static const char lines_text[] = "ab\n\ncdefg\nh";

static gal_data *open_lines(const gal_model *model, uint32_t target_length, uint64_t windows)
{
    gal_data_options options = options_of(write_file("lines", lines_text, sizeof lines_text - 1));
    gal_error err = {0};
    gal_data *data = NULL;
    options.validation_path = options.path;
    options.model = model;
    options.target_length = target_length;
    assert_int_equal(gal_data_open(&options, &data, &err), GAL_OK);
    assert_int_equal(gal_data_train_windows(data), windows);
    assert_int_equal(gal_data_validation_windows(data), windows);
    return data;
}

static void test_lines(void **state)
{
    (void)state;
    const gal_model model = {.family = GAL_FAMILY_DECODER, .sequence_length = LENGTH, .padding = true};
    gal_data *data = open_lines(&model, 0, 3);
    int32_t out[BATCH * LENGTH];
    fill_padded(data, LENGTH, false, false, out);
    assert_memory_equal(out, ((const int32_t[]){'a', 'b', 0, 0, 'c', 'd', 'e', 'f', 'g', 0, 0, 0}), sizeof out);
    fill_padded(data, LENGTH, true, false, out);
    assert_memory_equal(out, ((const int32_t[]){'b', '\n', -1, -1, 'd', 'e', 'f', 'g', '\n', -1, -1, -1}), sizeof out);
    expect_lengths(data, (const int32_t[]){2, 4, 1}, 7);
    const double entropy = 8.0 / 11 * log(11.0) + 3.0 / 11 * log(11.0 / 3); /* 11 bytes, three are line ends */
    assert_true(fabs(gal_data_unigram_entropy(data) - entropy) < 1e-12);
    gal_data_close(data);
}

static void test_lines_copied(void **state)
{
    (void)state;
    const gal_model model = {
        .family = GAL_FAMILY_T5, .sequence_length = LENGTH, .decoder_sequence_length = 2, .padding = true};
    gal_data *data = open_lines(&model, 2, 4);
    int32_t source[BATCH * LENGTH], out[BATCH * 2];
    fill_padded(data, LENGTH, false, false, source);
    assert_memory_equal(source, ((const int32_t[]){'a', 'b', 0, 0, 'c', 'd', 'e', 'f', 'g', 0, 0, 0}), sizeof source);
    fill_padded(data, 2, false, true, out);
    assert_memory_equal(out, ((const int32_t[]){0, 'a', 0, 'c', 0, 0}), sizeof out);
    fill_padded(data, 2, true, false, out);
    assert_memory_equal(out, ((const int32_t[]){'a', 'b', 'c', 'd', 'g', -1}), sizeof out);
    expect_lengths(data, (const int32_t[]){2, 4, 1}, 5);
    gal_data_close(data);
}

/* 15 % of up to four positions: one is masked, never a padded one. */
static void test_lines_masked(void **state)
{
    (void)state;
    const gal_model model = {
        .family = GAL_FAMILY_BERT, .sequence_length = LENGTH, .vocabulary = 256, .mask_token = 1, .padding = true};
    gal_data *data = open_lines(&model, 0, 4);
    int32_t out[BATCH * LENGTH], targets[BATCH * LENGTH];
    const int32_t lengths[BATCH] = {2, 4, 1},
                  tokens[BATCH * LENGTH] = {'a', 'b', 0, 0, 'c', 'd', 'e', 'f', 'g', 0, 0, 0};
    fill_padded(data, LENGTH, false, false, out);
    fill_padded(data, LENGTH, true, false, targets);
    for (int32_t i = 0; i < BATCH * LENGTH; i++) {
        assert_true(targets[i] == -1 ? out[i] == tokens[i]
                                     : targets[i] == tokens[i] && i % LENGTH < lengths[i / LENGTH]);
    }
    for (int32_t s = 0; s < BATCH; s++) {
        const int32_t *row = targets + s * LENGTH;
        assert_int_equal((row[0] >= 0) + (row[1] >= 0) + (row[2] >= 0) + (row[3] >= 0), 1);
    }
    expect_lengths(data, lengths, 3);
    gal_data_close(data);
}

/* The last tenth of 20 lines is for validation; fewer than 10 have none, and a token file has no lines. */
static void test_lines_split(void **state)
{
    (void)state;
    const gal_model model = {.family = GAL_FAMILY_DECODER, .sequence_length = LENGTH, .padding = true};
    const uint16_t tokens[20] = {0};
    char text[40];
    for (uint32_t i = 0; i < 20; i++) {
        text[2 * i] = (char)('a' + i);
        text[2 * i + 1] = '\n';
    }
    gal_data_options options = options_of(write_file("lines", text, sizeof text));
    gal_error err = {0};
    gal_data *data = NULL;
    int32_t out[BATCH * LENGTH];
    options.model = &model;
    assert_int_equal(gal_data_open(&options, &data, &err), GAL_OK);
    assert_int_equal(gal_data_train_windows(data), 18);
    assert_int_equal(gal_data_validation_windows(data), 2);
    fill_padded(data, LENGTH, false, false, out);
    assert_true(out[0] == 's' && out[LENGTH] == 't' && out[2 * LENGTH] == 's');
    gal_data_close(data);
    options.path = write_file("few", text, 18);
    assert_refused(&options, GAL_ERR_DOCUMENT, "the validation (last tenth) split has no line, the file has 9");
    options.path = write_tokens("data.bin", 1, 20, tokens, 20);
    assert_refused(&options, GAL_ERR_DOCUMENT, "its samples are the lines of a text or the sequences of an .idx file");
}

/* Sequences of 20 and 40 tokens, of which the last is said but says nothing: pieces of 8, 8 and 3, then 8, 8, 8, 8 and
 * 7. The last tenth of these eight is none, so validation has the same file. */
static void test_sequences(void **state)
{
    (void)state;
    const gal_model model = {.family = GAL_FAMILY_LLAMA, .sequence_length = 8, .padding = true};
    uint16_t words[60];
    for (uint16_t i = 0; i < 60; i++) {
        words[i] = (uint16_t)(1000 + i);
    }
    gal_data_options options = options_of(write_pair(8, 1, 40, words, sizeof words));
    gal_error err = {0};
    gal_data *data = NULL;
    int32_t targets[BATCH * 8];
    options.vocabulary = 1060;
    options.sequence_length = 8;
    options.model = &model;
    options.validation_path = options.path;
    assert_int_equal(gal_data_open(&options, &data, &err), GAL_OK);
    assert_int_equal(gal_data_validation_windows(data), 8);
    fill_padded(data, 8, true, false, targets);
    assert_memory_equal(targets + 16, ((const int32_t[]){1017, 1018, 1019, -1, -1, -1, -1, -1}), 8 * sizeof *targets);
    assert_int_equal(targets[0], 1001);
    expect_lengths(data, (const int32_t[]){8, 8, 3}, 19);
    gal_data_close(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_permutation_is_a_bijection),
        cmocka_unit_test(test_permutation_mixes),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_samples_do_not_depend_on_who_asks),
        cmocka_unit_test(test_token_file),
        cmocka_unit_test(test_wide_token_file),
        cmocka_unit_test(test_megatron_pair),
        cmocka_unit_test(test_megatron_pair_is_strict),
        cmocka_unit_test(test_validation_file),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_lines_copied),
        cmocka_unit_test(test_lines_masked),
        cmocka_unit_test(test_lines_split),
        cmocka_unit_test(test_sequences),
    };
    return cmocka_run_group_tests(tests, gal_scratch_folder_make, gal_scratch_folder_remove);
}
