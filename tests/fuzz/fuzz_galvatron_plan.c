/* galvatron_plan documents. One that is accepted is written as a strategy file, which says the same when read. */
#include "planner/galvatron/galvatron_files.h"
#include "schemas/document.h"
#include "tests/fuzz/input.h"

static void export_and_import(const gal_galvatron_plan *plan)
{
    static const char *path;
    path = path == NULL ? gal_fuzz_path("strategy.json") : path;
    gal_galvatron_plan back = {0};
    GAL_FUZZ_REQUIRE(gal_galvatron_export_plan(path, plan, NULL) == GAL_OK);
    GAL_FUZZ_REQUIRE(gal_galvatron_import_plan(path, 0, &back, NULL) == GAL_OK);
    GAL_FUZZ_REQUIRE(back.device_count == plan->device_count && back.pp_degree == plan->pp_degree &&
                     back.global_batch_samples == plan->global_batch_samples &&
                     back.microbatch_count == plan->microbatch_count && back.schedule == plan->schedule &&
                     back.data_parallel == plan->data_parallel);
    GAL_FUZZ_REQUIRE(gal_galvatron_plan_layer_count(&back) == gal_galvatron_plan_layer_count(plan));
    gal_galvatron_plan_free(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    gal_galvatron_plan plan = {0};
    gal_galvatron_plan again = {0};
    if (gal_fuzz_round_trip(GAL_DOCUMENT_GALVATRON_PLAN, bytes, byte_count, &plan, &again)) {
        export_and_import(&plan);
    }
    gal_galvatron_plan_free(&again);
    gal_galvatron_plan_free(&plan);
    return 0;
}
