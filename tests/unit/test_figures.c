/* Model FLOPs of each family by hand, and the figures of a step. Forward of a layer without a gate and with heads that
 * fill the hidden size h is 2 * 12 h^2 a position, and 4 h for each position that it attends to. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "schemas/figures.h"

static double flops_of(const char *name)
{
    gal_model model;
    gal_error err = {0};
    assert_int_equal(gal_model_read(name, &model, &err), GAL_OK);
    return gal_model_sample_flops(&model);
}

/* GPT-2 small: 12 layers of h 768, causal over 1024, and a head of 50257: 2 (12 * 12 * 768^2 + 768 * 50257) +
 * 12 * 4 * 768 * 512 a token. */
static void test_decoder(void **state)
{
    (void)state;
    const double token = 2.0 * (84934656.0 + 38597376.0) + 18874368.0;
    assert_true(flops_of("gpt2-small") == 3.0 * 1024.0 * token);
}

/* Llama 2 7B: 32 layers of 4 h^2 + 3 h f, h 4096, f 11008, causal over 4096, head of 32000. These matrices have
 * 6,607,077,376 numbers, so a token costs 6 times as much, and 6 * 32 * 4096 * 4096 for the attention; 42.9 GFLOP. */
static void test_llama(void **state)
{
    (void)state;
    assert_true(flops_of("llama2-7b") == 4096.0 * (6.0 * 6607077376.0 + 6.0 * 32.0 * 4096.0 * 4096.0));
}

/* Llama 3 8B: 8 of 32 heads for keys and values, so 2.5 h^2 in place of 4; f 14336, over 8192, head of 128256. */
static void test_shared_keys(void **state)
{
    (void)state;
    const double numbers = 32.0 * (2.5 * 16777216.0 + 3.0 * 4096.0 * 14336.0) + 4096.0 * 128256.0;
    assert_true(flops_of("llama3-8b") == 8192.0 * (6.0 * numbers + 6.0 * 32.0 * 8192.0 * 4096.0));
}

/* BERT base: 12 layers of h 768 that attend to all 512, and a head that transforms: 768 (768 + 30522). */
static void test_bert(void **state)
{
    (void)state;
    const double token = 2.0 * (84934656.0 + 24030720.0) + 12.0 * 4.0 * 768.0 * 512.0;
    assert_true(flops_of("bert-base") == 3.0 * 512.0 * token);
}

/* ViT base: 196 patches of 16 * 16 * 3 numbers and a class token, by which alone the head tells 1000 labels. Its
 * authors count 17.6 G multiply-adds in forward. */
static void test_vit(void **state)
{
    (void)state;
    const double layers = 197.0 * (2.0 * 84934656.0 + 12.0 * 4.0 * 768.0 * 197.0);
    const double patches = 2.0 * 196.0 * 768.0 * 768.0, head = 2.0 * 768.0 * 1000.0;
    assert_true(flops_of("vit-base") == 3.0 * (layers + patches + head));
    assert_true(fabs(flops_of("vit-base") / 6e9 - 17.6) < 0.05);
}

/* T5 small: h 512, f 2048, 6 layers of encoder and of decoder, 512 positions in both. An encoder's layer has 4 h^2 +
 * 2 h f numbers, a decoder's 8 h^2 + 2 h f; attention: the encoder's and the cross-attention's whole, the decoder's
 * half; head of 32128 over the target. */
static void test_t5(void **state)
{
    (void)state;
    const double encoder = 6.0 * (4.0 * 262144.0 + 2.0 * 512.0 * 2048.0);
    const double decoder = 6.0 * (8.0 * 262144.0 + 2.0 * 512.0 * 2048.0);
    const double pairs = 6.0 * 4.0 * 512.0 * 512.0 * (1.0 + 0.5 + 1.0);
    const double forward = 512.0 * (2.0 * (encoder + decoder + 512.0 * 32128.0) + pairs);
    assert_true(flops_of("t5-small") == 3.0 * forward);
}

/* v1.1: 12 and 12 layers of h 768, heads that fill it, f 2048 with a gate, and a head of its own, not tied. */
static void test_gated_t5(void **state)
{
    (void)state;
    const double layers = 12.0 * (12.0 * 768.0 * 768.0 + 2.0 * 3.0 * 768.0 * 2048.0);
    const double pairs = 12.0 * 4.0 * 768.0 * 512.0 * 2.5;
    const double forward = 512.0 * (2.0 * (layers + 768.0 * 32128.0) + pairs);
    assert_true(flops_of("t5-v1.1-base") == 3.0 * forward);
}

/* Swin tiny: 3136 positions of h 96, quartered and doubled three times behind 2, 2, 6 layers, then 2; windows of 7 * 7.
 * A layer costs 24 p h^2 whatever its level, p h halves; a merge 4 p h^2. Its authors count 4.5 G multiply-adds. */
static void test_swin(void **state)
{
    (void)state;
    const double square = 3136.0 * 96.0 * 96.0, attention = 4.0 * 49.0 * 3136.0 * 96.0;
    const double layers = 12.0 * 24.0 * square + attention * (2.0 + 2.0 / 2.0 + 6.0 / 4.0 + 2.0 / 8.0);
    const double merges = 3.0 * 4.0 * square, patches = 2.0 * 3136.0 * 48.0 * 96.0, head = 2.0 * 768.0 * 1000.0;
    assert_true(flops_of("swin-tiny") == 3.0 * (layers + merges + patches + head));
    assert_true(fabs(flops_of("swin-tiny") / 6e9 - 4.5) < 0.02);
}

static gal_figures figures_of(const char *name, uint32_t devices, uint32_t samples, double seconds)
{
    static const gal_device device = {
        .fp32_flops_per_second = 67e12, .tf32_flops_per_second = 494.5e12, .bf16_flops_per_second = 989e12};
    gal_model model;
    gal_figures out;
    gal_error err = {0};
    assert_int_equal(gal_model_read(name, &model, &err), GAL_OK);
    model.compute_dtype = GAL_BF16;
    gal_figures_of(&(gal_step){.model = &model,
                               .device = &device,
                               .device_count = devices,
                               .global_batch_samples = samples,
                               .seconds = seconds},
                   &out);
    return out;
}

/* Llama 2 7B, 128 samples in 8 s on 8 GPUs: 65,536 tokens/s, 8,192 each, 42,863,689,728 * 8192 = 351.1 TFLOP/s of 989.
 */
static void test_step(void **state)
{
    (void)state;
    const gal_figures f = figures_of("llama2-7b", 8, 128, 8.0);
    assert_true(f.step_seconds == 8.0 && f.samples_per_second == 16.0 && f.tokens_per_second == 65536.0);
    assert_true(f.tokens_per_second_per_device == 8192.0);
    assert_true(f.model_flops_per_second_per_device == 42863689728.0 * 8192.0);
    assert_true(fabs(f.mfu - 0.35505) < 1e-4);
}

/* Images count as one each; T5's source and target both count. */
static void test_tokens(void **state)
{
    (void)state;
    const gal_figures images = figures_of("vit-base", 4, 100, 0.5), pairs = figures_of("t5-small", 4, 100, 0.5);
    assert_true(images.tokens_per_second == 200.0 && images.tokens_per_second_per_device == 50.0);
    assert_true(pairs.tokens_per_second == 200.0 * 1024.0);
}

static void test_peaks(void **state)
{
    (void)state;
    const gal_device host = {.fp32_flops_per_second = 2.0, .fp64_flops_per_second = 1.0};
    const gal_device gpu = {.fp32_flops_per_second = 2.0, .tf32_flops_per_second = 8.0, .bf16_flops_per_second = 16.0};
    assert_true(gal_device_peak_flops_per_second(&host, GAL_FP64, false) == 1.0);
    assert_true(gal_device_peak_flops_per_second(&host, GAL_BF16, false) == 2.0);
    assert_true(gal_device_peak_flops_per_second(&host, GAL_FP32, true) == 2.0);
    assert_true(gal_device_peak_flops_per_second(&gpu, GAL_FP32, false) == 2.0);
    assert_true(gal_device_peak_flops_per_second(&gpu, GAL_FP32, true) == 8.0);
    assert_true(gal_device_peak_flops_per_second(&gpu, GAL_FP16, true) == 8.0);
    assert_true(gal_device_peak_flops_per_second(&gpu, GAL_BF16, true) == 16.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decoder), cmocka_unit_test(test_llama),    cmocka_unit_test(test_shared_keys),
        cmocka_unit_test(test_bert),    cmocka_unit_test(test_vit),      cmocka_unit_test(test_t5),
        cmocka_unit_test(test_swin),    cmocka_unit_test(test_gated_t5), cmocka_unit_test(test_step),
        cmocka_unit_test(test_tokens),  cmocka_unit_test(test_peaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
