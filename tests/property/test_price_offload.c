/* Sum of prices against the event simulation where blocks have optimizer states and weights in the host's memory and
 * moments on storage, and kernels, copies and transfers of storage slow each other: of GPUs, and of ranks that are
 * processors. Kept activations are not among it: a block that copies them is priced among its like, while in a plan
 * attention and feed-forward copy in turn (up to 19 % too cheap where copies take longer than kernels). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "costmodel/duration.h"
#include "schemas/plan_check.h"
#include "tests/support/priced_plan.h"
#include "tests/support/random_plan.h"

enum { PLANS = 120, PLANS_MAX = 1000, SEED = 20261122 };
static const double median_bound = 0.03; /* as that of plans without (test_price.c) */

static uint32_t plan_count(void)
{
    const char *plans = getenv("PLANS");
    const long count = plans != NULL ? strtol(plans, NULL, 10) : PLANS;
    return count < PLANS_MAX ? (uint32_t)count : PLANS_MAX;
}

/* As of plans without, too. Of 4 groups of 1,000 2 plans are off by as much: units of some bytes take turns of the
 * ring, which then holds less of the large ones than the price has it. */
static double worst_bound(void)
{
    return plan_count() == PLANS_MAX ? 0.13 : 0.10;
}

/* The first parts of a step, as many as the ring has room for, are read before the update, which no sum of blocks
 * knows: that is little of a stage that stores RINGS times as much, and up to half of what one of few parts waits for.
 */
enum { RINGS = 8 };
static double little_worst_bound(void)
{
    return plan_count() == PLANS_MAX ? 0.16 : 0.10;
}

/* A host and its storage, and what slows whom. Of processors a copy is a kernel (gal_profile_copies_are_kernels). */
static void draw_profile(uint64_t *state, bool gpu, gal_plan *plan, gal_profile *out)
{
    gal_device *device = &plan->cluster.device;
    if (gpu) {
        device->multiprocessor_count = 100;
        device->host_memory_bytes_per_second = gal_random_between(state, 2e10, 2e11);
        device->host_copy_bytes_per_second = gal_random_between(state, 1e10, 1e11);
    } else {
        device->fp32_flops_per_second = gal_random_between(state, 1e11, 4e12);
        device->memory_bytes_per_second = gal_random_between(state, 2e10, 4e11);
    }
    device->storage_read_bytes_per_second = gal_random_between(state, 1e9, 1e11);
    device->storage_write_bytes_per_second = gal_random_between(state, 1e9, 1e11);
    gal_profile_analytic(&plan->cluster, out);
    double *const storage = out->slowdown[GAL_ACTIVITY_STORAGE];
    storage[GAL_ACTIVITY_STORAGE] = gal_random_between(state, 1.0, 2.5);
    for (uint32_t i = 0; i < GAL_ACTIVITY_STORAGE; i++) {
        storage[i] = gal_random_between(state, 1.0, 1.5);
        out->slowdown[i][GAL_ACTIVITY_STORAGE] = gal_random_between(state, 1.0, 1.5);
        if (gpu) {
            out->slowdown[GAL_ACTIVITY_COPY][i] = gal_random_between(state, 1.0, 1.5);
            out->slowdown[i][GAL_ACTIVITY_COPY] = gal_random_between(state, 1.0, 1.3);
        }
    }
}

static void draw_offload(uint64_t *state, gal_strategy *out)
{
    static const uint32_t percents[] = {50, 100, 100};
    out->offload_optimizer_percent = percents[gal_random_below(state, 3)];
    out->offload_storage_percent = out->offload_optimizer_percent;
    if (gal_random_below(state, 3) == 0) {
        out->offload_storage_percent = gal_random_below(state, out->offload_optimizer_percent + 1);
    }
    out->offload_parameters =
        out->offload_optimizer_percent == 100 && out->zero_stage == 0 && gal_random_below(state, 4) == 0;
}

/* One way for all blocks, or in turn with another one and none; holders of the token table alike. */
static void give_offload(uint64_t *state, bool mixed, gal_plan *plan)
{
    gal_strategy ways[3] = {{0}};
    draw_offload(state, &ways[0]);
    draw_offload(state, &ways[1]);
    const gal_strategy *now = &ways[0];
    for (uint32_t r = 0; r < plan->run_count; r++) {
        gal_strategy *s = &plan->run[r].strategy;
        now = mixed && gal_random_below(state, 4) == 0 ? &ways[gal_random_below(state, 3)] : now;
        const gal_strategy *way = gal_priced_holds_table(&plan->model, r) ? &ways[0] : now;
        s->offload_optimizer_percent = way->offload_optimizer_percent;
        s->offload_storage_percent = way->offload_storage_percent;
        s->offload_parameters = way->offload_parameters && s->zero_stage == 0;
    }
}

/* Whether a stage stores something, but not RINGS times what its ring has room for. */
static bool stores_little(const gal_plan *plan)
{
    bool little = false;
    gal_program **programs = gal_priced_lower(plan);
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        const gal_class_arena *ring = &programs[s]->arena[GAL_CLASS_STORED];
        little = little || programs[s]->storage_bytes < RINGS * ring->item_bytes * ring->count;
    }
    gal_priced_free(programs, plan->stage_count);
    return little;
}

static void check(const char *name, bool gpu, bool mixed)
{
    uint64_t state = SEED + (gpu ? 1u : 0u) + (mixed ? 2u : 0u);
    char name_of_little[96];
    static gal_priced_errors errors, little;
    little = errors = (gal_priced_errors){.count = 0};
    for (uint32_t i = 0; i < plan_count(); i++) {
        gal_plan plan;
        gal_profile profile;
        gal_error err = {0};
        gal_priced_describe(&state, &plan);
        gal_priced_fill(&state, &plan, mixed, false);
        give_offload(&state, mixed, &plan);
        draw_profile(&state, gpu, &plan, &profile);
        if (gal_plan_check(&plan, "", &err) != GAL_OK) {
            fail_msg("%s", err.text);
        }
        const double error = gal_priced_error(&plan, &profile);
        if (getenv("GAL_VERBOSE") != NULL) {
            char text[64];
            printf("  %+6.2f %% P %u D %u m %u layers %u hidden %u %s little %d\n", 100 * error, plan.stage_count,
                   gal_plan_stage_devices(&plan), plan.microbatch_count, plan.model.layer_count, plan.model.hidden,
                   gal_strategy_name(&plan.run[0].strategy, text), stores_little(&plan));
        }
        gal_priced_add(stores_little(&plan) ? &little : &errors, fabs(error));
        gal_plan_free(&plan);
    }
    gal_priced_check(name, &errors, median_bound, worst_bound());
    (void)snprintf(name_of_little, sizeof name_of_little, "%s, little of it", name);
    gal_priced_check(name_of_little, &little, median_bound, little_worst_bound());
}

static void beside_gpus(void **unused)
{
    (void)unused;
    check("offload of GPUs", true, false);
    check("offload of GPUs, mixed", true, true);
}

static void on_processors(void **unused)
{
    (void)unused;
    check("offload on processors", false, false);
    check("offload on processors, mixed", false, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(beside_gpus),
        cmocka_unit_test(on_processors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
