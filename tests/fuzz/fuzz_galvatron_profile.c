/* galvatron_profile documents. One that is accepted prices a plan of one stage under every strategy, or says what it
 * lacks; a small one is searched. */
#include <math.h>

#include "planner/galvatron/galvatron_search.h"
#include "schemas/document.h"
#include "tests/fuzz/input.h"

static void price(const gal_galvatron_profile *profile, const gal_galvatron_tables *tables,
                  gal_galvatron_strategy strategy)
{
    gal_error err = {0};
    gal_galvatron_price found = {0};
    uint32_t layer_count = gal_galvatron_layer_count(profile);
    gal_galvatron_run run = {layer_count, strategy};
    const gal_galvatron_plan plan = {.device_count = 8,
                                     .pp_degree = 1,
                                     .global_batch_samples = 16,
                                     .microbatch_count = 2,
                                     .data_parallel = GAL_GALVATRON_ZERO2,
                                     .outside = {.degree = strategy.degree, .ulysses = strategy.ulysses},
                                     .stage_layer_count = &layer_count,
                                     .run_count = 1,
                                     .run = &run};
    const gal_code code = gal_galvatron_price_plan(tables, &plan, &found, &err);
    if (code == GAL_OK) {
        GAL_FUZZ_REQUIRE(isfinite(found.iteration_seconds) && isfinite(found.samples_per_second));
        GAL_FUZZ_REQUIRE(isfinite(found.stage_bytes[0]));
    } else {
        gal_fuzz_require_refusal(code, &err);
    }
    gal_galvatron_price_free(&found);
}

static void search(const gal_galvatron_tables *tables)
{
    gal_error err = {0};
    gal_galvatron_found found;
    const gal_galvatron_request request = {.tables = tables,
                                           .device_count = 4,
                                           .limit_bytes = UINT64_C(8) << 30,
                                           .batches = {1, {4}},
                                           .degree_max = 2,
                                           .data_parallel = GAL_GALVATRON_ZERO2};
    const gal_code code = gal_galvatron_search_plans(&request, &found, &err);
    if (code != GAL_OK) {
        gal_fuzz_require_refusal(code, &err);
        return;
    }
    if (found.feasible) {
        GAL_FUZZ_REQUIRE(found.samples_per_second <= found.samples_per_second_bound * (1.0 + 1e-12));
        GAL_FUZZ_REQUIRE(gal_galvatron_plan_check(&found.plan, NULL) == GAL_OK);
    }
    GAL_FUZZ_REQUIRE(found.least_limit_bytes <= UINT64_C(1) << 53);
    gal_galvatron_found_free(&found);
}

static void price_all(const gal_galvatron_profile *profile)
{
    gal_error err = {0};
    gal_galvatron_tables *tables = NULL;
    const gal_code code = gal_galvatron_tables_create(profile, &tables, &err);
    if (code != GAL_OK) {
        gal_fuzz_require_refusal(code, &err);
        return;
    }
    for (uint32_t i = 0; i < 32; i++) {
        price(profile, tables,
              (gal_galvatron_strategy){
                  .degree = 1u << (i & 3), .ulysses = (i & 4) != 0, .zero3 = (i & 8) != 0, .recompute = (i & 16) != 0});
    }
    if (gal_galvatron_layer_count(profile) <= 8) {
        search(tables);
    }
    gal_galvatron_tables_free(tables);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    gal_galvatron_profile profile = {0};
    gal_galvatron_profile again = {0};
    if (gal_fuzz_round_trip(GAL_DOCUMENT_GALVATRON_PROFILE, bytes, byte_count, &profile, &again)) {
        price_all(&profile);
    }
    gal_galvatron_profile_free(&again);
    gal_galvatron_profile_free(&profile);
    return 0;
}
