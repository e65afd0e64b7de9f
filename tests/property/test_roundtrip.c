/* Seeded random documents: write -> read gives the same bits in every field, and write -> read -> write the same
 * bytes. A failure prints its seed; GAL_SEED=n in the environment starts there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "schemas/base/file.h"
#include "schemas/document.h"
#include "schemas/plan_check.h"
#include "tests/support/random_documents.h"
#include "tests/support/random_plan.h"

enum { CASES = 500 };

/* ---- comparing: write(read(write(x))) has the bytes of write(x), and the structs have equal bits ---- */

static char path_a[64], path_b[64];

static void expect_equal_files(uint64_t seed)
{
    char *a = NULL;
    char *b = NULL;
    size_t a_bytes = 0;
    size_t b_bytes = 0;
    assert_int_equal(gal_file_read(path_a, SIZE_MAX, &a, &a_bytes, NULL), GAL_OK);
    assert_int_equal(gal_file_read(path_b, SIZE_MAX, &b, &b_bytes, NULL), GAL_OK);
    if (a_bytes != b_bytes || memcmp(a, b, a_bytes) != 0) {
        fail_msg("seed %llu: second writing differs", (unsigned long long)seed);
    }
    free(a);
    free(b);
}

static void expect_ok(gal_code code, const gal_error *err, uint64_t seed)
{
    if (code != GAL_OK) {
        fail_msg("seed %llu: %s", (unsigned long long)seed, err->text);
    }
}

static bool equal_optimizers(const gal_optimizer *a, const gal_optimizer *b)
{
    return a->kind == b->kind && a->warmup_steps == b->warmup_steps && a->decay_steps == b->decay_steps &&
           memcmp(&a->learning_rate, &b->learning_rate, 2 * sizeof(double)) == 0 &&
           memcmp(&a->beta1, &b->beta1, 5 * sizeof(double)) == 0;
}

static bool equal_scalings(const gal_rotary_scaling *a, const gal_rotary_scaling *b)
{
    return a->kind == b->kind && memcmp(&a->factor, &b->factor, 3 * sizeof(double)) == 0 &&
           a->original_positions == b->original_positions;
}

static bool equal_models(const gal_model *a, const gal_model *b)
{
    return strcmp(a->name, b->name) == 0 && a->family == b->family &&
           memcmp(&a->layer_count, &b->layer_count, 9 * sizeof(uint32_t)) == 0 &&
           memcmp(&a->rotary_base, &b->rotary_base, sizeof a->rotary_base) == 0 && a->qkv_bias == b->qkv_bias &&
           equal_scalings(&a->rotary_scaling, &b->rotary_scaling) && a->activation == b->activation &&
           memcmp(&a->type_count, &b->type_count, 2 * sizeof(uint32_t)) == 0 &&
           memcmp(&a->decoder_layer_count, &b->decoder_layer_count, 4 * sizeof(uint32_t)) == 0 &&
           memcmp(&a->image_size, &b->image_size, 3 * sizeof(uint32_t)) == 0 &&
           memcmp(&a->pixel_mean, &b->pixel_mean, 2 * sizeof(double)) == 0 &&
           memcmp(&a->window_size, &b->window_size, (2 + 2 * GAL_LEVELS_MAX) * sizeof(uint32_t)) == 0 &&
           a->gated == b->gated && a->tied_embeddings == b->tied_embeddings && a->padding == b->padding &&
           memcmp(&a->norm_epsilon, &b->norm_epsilon, 5 * sizeof(double)) == 0 &&
           a->compute_dtype == b->compute_dtype && a->global_batch_samples == b->global_batch_samples &&
           equal_optimizers(&a->optimizer, &b->optimizer);
}

/* Of the device all that may be left out. */
static bool equal_options(const gal_device *a, const gal_device *b)
{
    return a->tf32_flops_per_second == b->tf32_flops_per_second &&
           a->fp16_flops_per_second == b->fp16_flops_per_second &&
           a->bf16_flops_per_second == b->bf16_flops_per_second && a->multiprocessor_count == b->multiprocessor_count &&
           a->launch_seconds == b->launch_seconds && a->gemm_fraction == b->gemm_fraction &&
           a->memory_fraction == b->memory_fraction && a->host_memory_bytes == b->host_memory_bytes &&
           a->host_memory_bytes_per_second == b->host_memory_bytes_per_second &&
           a->host_copy_bytes_per_second == b->host_copy_bytes_per_second && a->storage_bytes == b->storage_bytes &&
           a->storage_read_bytes_per_second == b->storage_read_bytes_per_second &&
           a->storage_write_bytes_per_second == b->storage_write_bytes_per_second &&
           a->storage_read_latency_seconds == b->storage_read_latency_seconds &&
           a->storage_write_latency_seconds == b->storage_write_latency_seconds;
}

static bool equal_clusters(const gal_cluster *a, const gal_cluster *b)
{
    bool are_equal =
        strcmp(a->name, b->name) == 0 && a->device_count == b->device_count && a->level_count == b->level_count &&
        strcmp(a->device.kind, b->device.kind) == 0 && a->device.memory_bytes == b->device.memory_bytes &&
        memcmp(&a->device.fp32_flops_per_second, &b->device.fp32_flops_per_second, 3 * sizeof(double)) == 0 &&
        equal_options(&a->device, &b->device);
    for (uint32_t i = 0; are_equal && i < a->level_count; i++) {
        are_equal = strcmp(a->level[i].name, b->level[i].name) == 0 &&
                    a->level[i].span_devices == b->level[i].span_devices &&
                    memcmp(&a->level[i].latency_seconds, &b->level[i].latency_seconds, 2 * sizeof(double)) == 0 &&
                    a->level[i].achievable_fraction == b->level[i].achievable_fraction &&
                    a->level[i].shared == b->level[i].shared;
    }
    return are_equal;
}

static bool equal_gpus(const gal_profile_gpu *a, const gal_profile_gpu *b)
{
    bool are_equal = a->context_bytes == b->context_bytes && a->library_bytes == b->library_bytes &&
                     a->communicator_bytes == b->communicator_bytes &&
                     memcmp(&a->clock_hertz, &b->clock_hertz, 7 * sizeof(double)) == 0 &&
                     a->by_ctas_count == b->by_ctas_count;
    for (uint32_t i = 0; are_equal && i < a->by_ctas_count; i++) {
        are_equal = a->by_ctas[i].ctas == b->by_ctas[i].ctas &&
                    memcmp(&a->by_ctas[i].compute, &b->by_ctas[i].compute, 3 * sizeof(double)) == 0;
    }
    return are_equal;
}

static bool equal_hosts(const gal_profile_host *a, const gal_profile_host *b)
{
    bool are_equal =
        a->threads_per_rank == b->threads_per_rank && a->adam_count == b->adam_count && a->node_count == b->node_count;
    for (uint32_t i = 0; are_equal && i < a->adam_count; i++) {
        are_equal = a->adam[i].threads == b->adam[i].threads &&
                    a->adam[i].elements_per_second == b->adam[i].elements_per_second;
    }
    for (uint32_t i = 0; are_equal && i < a->node_count; i++) {
        are_equal = a->node[i].node == b->node[i].node &&
                    memcmp(&a->node[i].to_device, &b->node[i].to_device, 2 * sizeof a->node[i].to_device) == 0;
    }
    return are_equal;
}

static bool equal_profiles(const gal_profile *a, const gal_profile *b)
{
    bool are_equal =
        equal_clusters(&a->cluster, &b->cluster) && strcmp(a->date, b->date) == 0 &&
        strcmp(a->processor, b->processor) == 0 && strcmp(a->libraries, b->libraries) == 0 &&
        strcmp(a->command, b->command) == 0 && a->rank_count == b->rank_count && a->fixed_bytes == b->fixed_bytes &&
        memcmp(&a->fixed_step_seconds, &b->fixed_step_seconds, 2 * sizeof(double)) == 0 &&
        memcmp(a->slowdown, b->slowdown, sizeof a->slowdown) == 0 && a->operator_count == b->operator_count &&
        a->collective_count == b->collective_count && a->block_count == b->block_count && a->has_host == b->has_host &&
        equal_hosts(&a->host, &b->host) && a->has_gpu == b->has_gpu && equal_gpus(&a->gpu, &b->gpu);
    for (uint32_t i = 0; are_equal && i < a->operator_count; i++) {
        are_equal = gal_shape_compare(&a->operators[i].shape, &b->operators[i].shape) == 0 &&
                    memcmp(&a->operators[i].seconds, &b->operators[i].seconds, 2 * sizeof(double)) == 0 &&
                    a->operators[i].source == b->operators[i].source;
    }
    for (uint32_t i = 0; are_equal && i < a->collective_count; i++) {
        const gal_profile_collective *x = &a->collectives[i];
        const gal_profile_collective *y = &b->collectives[i];
        are_equal = x->op == y->op && memcmp(x->level_counts, y->level_counts, sizeof x->level_counts) == 0 &&
                    x->bytes == y->bytes && memcmp(&x->seconds, &y->seconds, 2 * sizeof(double)) == 0 &&
                    x->source == y->source;
    }
    for (uint32_t i = 0; are_equal && i < a->block_count; i++) {
        are_equal = a->blocks[i].kind == b->blocks[i].kind && a->blocks[i].tp_degree == b->blocks[i].tp_degree &&
                    a->blocks[i].samples == b->blocks[i].samples &&
                    memcmp(&a->blocks[i].forward_seconds, &b->blocks[i].forward_seconds, 8 * sizeof(double)) == 0;
    }
    return are_equal;
}

static bool equal_lists(const gal_u32_list *a, const gal_u32_list *b)
{
    return a->count == b->count && memcmp(a->value, b->value, a->count * sizeof *a->value) == 0;
}

static bool equal_charges(const gal_host_charge *a, const gal_host_charge *b)
{
    return a->host_memory_bytes == b->host_memory_bytes && a->seconds_per_byte == b->seconds_per_byte &&
           a->storage == b->storage && a->masters == b->masters && a->weights == b->weights;
}

static bool equal_certificates(const gal_certificate *a, const gal_certificate *b)
{
    return a->present == b->present && a->objective == b->objective && a->memory_bytes == b->memory_bytes &&
           memcmp(&a->space, &b->space, sizeof a->space) == 0 && equal_charges(&a->host, &b->host) &&
           equal_lists(&a->microbatch_counts, &b->microbatch_counts) && equal_lists(&a->pp_degrees, &b->pp_degrees) &&
           memcmp(&a->searched_bound_seconds, &b->searched_bound_seconds, sizeof(double)) == 0;
}

static bool equal_prices(const gal_plan *a, const gal_plan *b)
{
    const gal_risk *r = &a->risk, *q = &b->risk;
    return r->present == q->present && r->quantile == q->quantile && r->quantile_seconds == q->quantile_seconds &&
           r->memory_bytes == q->memory_bytes && r->memory_chance == q->memory_chance &&
           a->pricing.present == b->pricing.present && a->pricing.bytes == b->pricing.bytes &&
           memcmp(&a->pricing.framework, &b->pricing.framework, sizeof a->pricing.framework) == 0 &&
           memcmp(&a->pricing.constants, &b->pricing.constants, sizeof a->pricing.constants) == 0;
}

static bool equal_plans(const gal_plan *a, const gal_plan *b)
{
    bool are_equal =
        equal_models(&a->model, &b->model) && equal_clusters(&a->cluster, &b->cluster) &&
        strcmp(a->profile_hash, b->profile_hash) == 0 && a->global_batch_samples == b->global_batch_samples &&
        a->microbatch_count == b->microbatch_count && a->pp_degree == b->pp_degree && a->schedule == b->schedule &&
        a->prefetch_depth == b->prefetch_depth && a->communication_ctas == b->communication_ctas &&
        a->storage_part_bytes == b->storage_part_bytes && a->stage_count == b->stage_count &&
        a->chunk_count == b->chunk_count && a->run_count == b->run_count && a->fixed_bytes == b->fixed_bytes &&
        memcmp(&a->objective_seconds, &b->objective_seconds, 5 * sizeof(double)) == 0 &&
        equal_certificates(&a->certificate, &b->certificate) && equal_prices(a, b);
    for (uint32_t i = 0; are_equal && i < gal_plan_piece_count(a); i++) {
        are_equal = a->stage[i].first_run == b->stage[i].first_run && a->stage[i].run_count == b->stage[i].run_count &&
                    a->stage[i].predicted_bytes == b->stage[i].predicted_bytes &&
                    a->stage[i].predicted_host_bytes == b->stage[i].predicted_host_bytes &&
                    a->stage[i].predicted_storage_bytes == b->stage[i].predicted_storage_bytes;
    }
    for (uint32_t i = 0; are_equal && i < a->run_count; i++) {
        are_equal = a->run[i].block_count == b->run[i].block_count &&
                    gal_strategy_equal(&a->run[i].strategy, &b->run[i].strategy);
    }
    return are_equal;
}

static bool equal_problems(const gal_problem *a, const gal_problem *b)
{
    const size_t changes = (size_t)a->transition_count * a->strategy_count * a->strategy_count;
    bool are_equal = strcmp(a->name, b->name) == 0 && a->schedule == b->schedule && a->stage_count == b->stage_count &&
                     a->microbatch_count == b->microbatch_count && a->budget_bytes == b->budget_bytes &&
                     a->strategy_count == b->strategy_count && a->transition_count == b->transition_count &&
                     a->kind_count == b->kind_count && a->run_count == b->run_count &&
                     memcmp(a->transition_seconds, b->transition_seconds, changes * sizeof(double)) == 0 &&
                     memcmp(a->cost, b->cost, a->kind_count * a->strategy_count * sizeof *a->cost) == 0 &&
                     memcmp(a->run, b->run, a->run_count * sizeof *a->run) == 0;
    for (uint32_t s = 0; are_equal && s < a->strategy_count; s++) {
        are_equal = strcmp(a->strategy[s].name, b->strategy[s].name) == 0 &&
                    memcmp(&a->strategy[s].tied_seconds, &b->strategy[s].tied_seconds, sizeof(double)) == 0;
    }
    for (uint32_t k = 0; are_equal && k < a->kind_count; k++) {
        are_equal =
            strcmp(a->kind[k].name, b->kind[k].name) == 0 && a->kind[k].transition_index == b->kind[k].transition_index;
    }
    return are_equal;
}

static uint64_t first_seed(void)
{
    const char *text_of_seed = getenv("GAL_SEED");
    return text_of_seed == NULL ? 1 : strtoull(text_of_seed, NULL, 10);
}

static void test_models(void **state)
{
    (void)state;
    for (uint64_t seed = first_seed(), end = seed + CASES; seed < end; seed++) {
        uint64_t stream = seed;
        gal_error err = {0};
        gal_model back;
        gal_model model = gal_random_model(&stream);
        if (model.family == GAL_FAMILY_DECODER && gal_random_below(&stream, 3) > 0) {
            (gal_random_below(&stream, 2) == 0 ? gal_random_turn_to_vit : gal_random_turn_to_swin)(&stream, &model);
        }
        expect_ok(gal_model_write(path_a, &model, &err), &err, seed);
        expect_ok(gal_model_read(path_a, &back, &err), &err, seed);
        expect_ok(gal_model_write(path_b, &back, &err), &err, seed);
        expect_equal_files(seed);
        assert_true(equal_models(&model, &back));
    }
}

static void test_clusters(void **state)
{
    (void)state;
    for (uint64_t seed = first_seed(), end = seed + CASES; seed < end; seed++) {
        uint64_t stream = seed;
        gal_error err = {0};
        gal_cluster back;
        gal_cluster cluster = gal_random_cluster(&stream);
        expect_ok(gal_cluster_write(path_a, &cluster, &err), &err, seed);
        expect_ok(gal_cluster_read(path_a, &back, &err), &err, seed);
        expect_ok(gal_cluster_write(path_b, &back, &err), &err, seed);
        expect_equal_files(seed);
        assert_true(equal_clusters(&cluster, &back));
    }
}

static void test_profiles(void **state)
{
    (void)state;
    for (uint64_t seed = first_seed(), end = seed + CASES; seed < end; seed++) {
        uint64_t stream = seed;
        gal_error err = {0};
        gal_profile back = {0};
        gal_profile profile = gal_random_profile(&stream);
        expect_ok(gal_profile_write(path_a, &profile, &err), &err, seed); /* sorts, so the structs compare below */
        expect_ok(gal_profile_read(path_a, &back, &err), &err, seed);
        expect_ok(gal_profile_write(path_b, &back, &err), &err, seed);
        expect_equal_files(seed);
        assert_true(equal_profiles(&profile, &back));
        gal_profile_free(&profile);
        gal_profile_free(&back);
    }
}

static void test_plans(void **state)
{
    (void)state;
    for (uint64_t seed = first_seed(), end = seed + CASES; seed < end; seed++) {
        uint64_t stream = seed;
        gal_error err = {0};
        gal_plan back = {0};
        gal_plan plan = gal_random_plan_document(&stream);
        expect_ok(gal_plan_check(&plan, NULL, &err), &err, seed);
        expect_ok(gal_plan_write(path_a, &plan, &err), &err, seed);
        expect_ok(gal_plan_read(path_a, &back, &err), &err, seed);
        expect_ok(gal_plan_write(path_b, &back, &err), &err, seed);
        expect_equal_files(seed);
        assert_true(equal_plans(&plan, &back));
        gal_plan_free(&plan);
        gal_plan_free(&back);
    }
}

static void test_problems(void **state)
{
    (void)state;
    for (uint64_t seed = first_seed(), end = seed + CASES; seed < end; seed++) {
        uint64_t stream = seed;
        gal_error err = {0};
        gal_problem back = {0};
        gal_problem problem = gal_random_problem_document(&stream);
        expect_ok(gal_problem_write(path_a, &problem, &err), &err, seed);
        expect_ok(gal_problem_read(path_a, &back, &err), &err, seed);
        expect_ok(gal_problem_write(path_b, &back, &err), &err, seed);
        expect_equal_files(seed);
        assert_true(equal_problems(&problem, &back));
        gal_problem_free(&problem);
        gal_problem_free(&back);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_models), cmocka_unit_test(test_clusters),
                                       cmocka_unit_test(test_profiles), cmocka_unit_test(test_plans),
                                       cmocka_unit_test(test_problems)};
    char in_memory[] = "/dev/shm/gal_roundtrip_XXXXXX", on_disk[] = "/tmp/gal_roundtrip_XXXXXX";
    const char *folder = mkdtemp(in_memory); /* where nobody waits for fsync, if there is such a place */
    folder = folder != NULL ? folder : mkdtemp(on_disk);
    if (folder == NULL) {
        perror("mkdtemp");
        return 1;
    }
    (void)snprintf(path_a, sizeof path_a, "%s/a.json", folder);
    (void)snprintf(path_b, sizeof path_b, "%s/b.json", folder);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(path_a);
    (void)unlink(path_b);
    (void)rmdir(folder);
    return failed;
}
