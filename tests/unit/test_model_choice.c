/* Which arithmetic and how many positions a model gets, and where its facts are said to be from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "schemas/catalogue/catalogue.h"
#include "schemas/model_choice.h"

enum {
    FP32 = 1U << GAL_FP32,
    FP64 = 1U << GAL_FP64,
    BF16 = 1U << GAL_BF16,
    FP16 = 1U << GAL_FP16,
    NOT_ASKED = GAL_COMPUTE_DTYPE_COUNT
};

#define VALID "tests/fixtures/valid/"

static gal_dtype chosen(const char *path, uint32_t asked, uint32_t device, gal_origin *origin)
{
    const gal_model_options options = {asked, 0};
    gal_model model;
    gal_model_origins origins;
    gal_error err = {0};
    assert_int_equal(gal_model_choose(path, &options, device, &model, &origins, &err), GAL_OK);
    *origin = origins.dtype;
    return model.compute_dtype;
}

static void expect_dtype(const char *path, uint32_t asked, uint32_t device, gal_dtype dtype, gal_origin origin)
{
    gal_origin got;
    assert_int_equal(chosen(path, asked, device, &got), dtype);
    assert_int_equal(got, origin);
}

/* A preference gives way to the device; an option or a document of one's own does not. */
static void test_rule(void **state)
{
    (void)state;
    const uint32_t old = FP32 | FP64 | FP16, new = old | BF16, host = FP32 | FP64;
    expect_dtype("gpt2-small", NOT_ASKED, new, GAL_BF16, GAL_ORIGIN_CATALOGUE);
    expect_dtype("gpt2-small", NOT_ASKED, old, GAL_FP16, GAL_ORIGIN_DEFAULT);
    expect_dtype("gpt2-small", NOT_ASKED, host, GAL_FP32, GAL_ORIGIN_DEFAULT);
    expect_dtype("gpt2-small", GAL_FP64, new, GAL_FP64, GAL_ORIGIN_OPTION);
    expect_dtype("gpt2-small", GAL_BF16, host, GAL_BF16, GAL_ORIGIN_OPTION);
    expect_dtype("bert-large", NOT_ASKED, new, GAL_FP32, GAL_ORIGIN_CATALOGUE);
    expect_dtype("bert-large", GAL_BF16, new, GAL_BF16, GAL_ORIGIN_OPTION);
    expect_dtype(VALID "model.json", NOT_ASKED, new, GAL_FP64, GAL_ORIGIN_FILE);
    expect_dtype(VALID "model.json", GAL_FP32, new, GAL_FP32, GAL_ORIGIN_OPTION);
    expect_dtype(VALID "hugging_face_llama.json", NOT_ASKED, host, GAL_BF16, GAL_ORIGIN_FILE);  /* torch_dtype */
    expect_dtype(VALID "hugging_face_gpt2.json", NOT_ASKED, new, GAL_BF16, GAL_ORIGIN_DEFAULT); /* it says none */
    expect_dtype(VALID "hugging_face_gpt2.json", NOT_ASKED, old, GAL_FP16, GAL_ORIGIN_DEFAULT);
    expect_dtype(VALID "hugging_face_gpt2.json", NOT_ASKED, host, GAL_FP32, GAL_ORIGIN_DEFAULT);
}

/* A file with the name of a catalogue's model is a file. */
static void test_origin_of_files(void **state)
{
    (void)state;
    gal_model model = {.reading = {.training_assumed = true}};
    gal_model_origins origins;
    gal_model_origins_of("gpt2-small", &model, &origins);
    assert_int_equal(origins.sequence, GAL_ORIGIN_CATALOGUE);
    assert_int_equal(origins.batch, GAL_ORIGIN_DEFAULT);
    gal_model_origins_of("./gpt2-small", &model, &origins);
    assert_int_equal(origins.sequence, GAL_ORIGIN_FILE);
}

static void test_decoders_of_the_catalogue_are_in_bf16(void **state)
{
    (void)state;
    static const char *const decoders[] = {"gpt", "llama", "mistral", "qwen", "tinyllama"};
    uint32_t seen = 0;
    for (uint32_t i = 0; i < gal_catalogue_entry_count; i++) {
        const gal_catalogue_entry *entry = &gal_catalogue_entries[i];
        gal_model model;
        gal_error err = {0};
        for (uint32_t d = 0; d < sizeof decoders / sizeof decoders[0]; d++) {
            if (strcmp(entry->kind, "model") == 0 && strncmp(entry->name, decoders[d], strlen(decoders[d])) == 0) {
                assert_int_equal(gal_model_read(entry->name, &model, &err), GAL_OK);
                assert_int_equal(model.compute_dtype, GAL_BF16);
                seen++;
            }
        }
    }
    assert_true(seen >= 20);
}

static gal_model read_model(const char *name)
{
    gal_model model;
    gal_error err = {0};
    assert_int_equal(gal_model_read(name, &model, &err), GAL_OK);
    return model;
}

/* gpt2-small learns 768 numbers for each of 1024 positions; llama none. */
static void test_sequence(void **state)
{
    (void)state;
    gal_error err = {0};
    gal_model model = read_model("gpt2-small");
    const uint64_t before = gal_model_parameter_count(&model);
    assert_int_equal(gal_model_set_sequence(&model, 4096, &err), GAL_OK);
    assert_int_equal(model.sequence_length, 4096);
    assert_int_equal(gal_model_parameter_count(&model), before + 3072 * 768);
    model = read_model("llama3-8b");
    const uint64_t rotary = gal_model_parameter_count(&model);
    assert_int_equal(gal_model_set_sequence(&model, 32768, &err), GAL_OK);
    assert_int_equal(gal_model_parameter_count(&model), rotary);
    model = read_model("t5-base"); /* 512 to 512 */
    assert_int_equal(gal_model_set_sequence(&model, 1024, &err), GAL_OK);
    assert_int_equal(model.decoder_sequence_length, 1024);
    model = read_model("t5-512-4-32"); /* 512 to 4 */
    assert_int_equal(gal_model_set_sequence(&model, 1024, &err), GAL_OK);
    assert_int_equal(model.decoder_sequence_length, 4);
}

static void expect_refusal(const char *name, uint32_t sequence_length, const char *reason)
{
    gal_error err = {0};
    gal_model model = read_model(name);
    const uint32_t before = model.sequence_length;
    assert_int_equal(gal_model_set_sequence(&model, sequence_length, &err), GAL_ERR_USAGE);
    assert_non_null(strstr(err.text, "--sequence"));
    assert_non_null(strstr(err.text, reason));
    assert_int_equal(model.sequence_length, before);
}

static void test_refused_sequences(void **state)
{
    (void)state;
    expect_refusal("vit-base", 256, "family vit");
    expect_refusal("swin-tiny", 256, "family swin");
    expect_refusal(VALID "hugging_face_mistral.json", 4097, "sliding window");
    expect_refusal("llama3-8b", (1 << 20) + 1, "at most 1048576 positions"); /* 1024 samples, 2^30 tokens */
}

/* What is changed is written and read back as it is. */
static void test_changed_document_is_valid(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt2-small", "llama3-8b", "bert-base", "t5-base"};
    const gal_model_options options = {GAL_FP16, 2048};
    char path[] = "/tmp/galplan-choice-XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        gal_model model, back;
        gal_model_origins origins;
        gal_error err = {0};
        assert_int_equal(gal_model_choose(names[i], &options, FP32, &model, &origins, &err), GAL_OK);
        assert_int_equal(origins.sequence, GAL_ORIGIN_OPTION);
        assert_int_equal(gal_model_write(path, &model, &err), GAL_OK);
        assert_int_equal(gal_model_read(path, &back, &err), GAL_OK);
        assert_int_equal(back.compute_dtype, GAL_FP16);
        assert_int_equal(back.sequence_length, 2048);
        assert_int_equal(gal_model_parameter_count(&back), gal_model_parameter_count(&model));
    }
    close(file);
    unlink(path);
}

static void test_device_dtypes(void **state)
{
    (void)state;
    const gal_device turing = {.fp16_flops_per_second = 1.0}, hopper = {.bf16_flops_per_second = 1.0};
    assert_int_equal(gal_device_dtypes(&turing), FP32 | FP64 | FP16);
    assert_int_equal(gal_device_dtypes(&hopper), FP32 | FP64 | BF16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rule),
                                       cmocka_unit_test(test_origin_of_files),
                                       cmocka_unit_test(test_decoders_of_the_catalogue_are_in_bf16),
                                       cmocka_unit_test(test_sequence),
                                       cmocka_unit_test(test_refused_sequences),
                                       cmocka_unit_test(test_changed_document_is_valid),
                                       cmocka_unit_test(test_device_dtypes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
