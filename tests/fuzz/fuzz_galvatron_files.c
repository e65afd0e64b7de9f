/* Files of Hetu-Galvatron: as a profile of two layer types, and as a strategy. What is read is a document that its
 * reader accepts. */
#include <stdlib.h>

#include "planner/galvatron/galvatron_files.h"
#include "schemas/document.h"
#include "tests/fuzz/input.h"

/* The tables that every price needs, so that one file more may be anything. */
static const char others[] = "{\"layertype_0_bsz1_seq8\": 1, \"layertype_1_bsz1_seq8\": 1, \"overlap_coe\": 1,"
                             "\"layertype_0\": {\"parameter_size\": 1, \"tp_activation_per_bsz_dict\": {\"1\": 1,"
                             "\"checkpoint\": 1}}, \"other_memory_pp_off\": {\"model_states\": 1, \"activation\": 1},"
                             "\"allreduce_size_2_consec_1\": 1}";

static const char *input_path, *base_path, *written_path;

static void import_profile(const char *path)
{
    const char *const paths[] = {path, base_path};
    gal_error err = {0};
    bool outside_missing = false;
    gal_galvatron_profile profile = {.name = "fuzz"};
    gal_galvatron_profile back = {0};
    profile.layer_type = calloc(2, sizeof *profile.layer_type);
    GAL_FUZZ_REQUIRE(profile.layer_type != NULL);
    profile.layer_type[0] = (gal_galvatron_layer_type){2, 8, 8};
    profile.layer_type[1] = (gal_galvatron_layer_type){3, 4, 8};
    profile.layer_type_count = 2;
    gal_fuzz_write(base_path, others, sizeof others - 1);
    const gal_code code = gal_galvatron_import_profile(paths, 2, &profile, &outside_missing, &err);
    if (code == GAL_OK) {
        GAL_FUZZ_REQUIRE(gal_galvatron_profile_write(written_path, &profile, NULL) == GAL_OK);
        GAL_FUZZ_REQUIRE(gal_galvatron_profile_read(written_path, &back, NULL) == GAL_OK);
    } else {
        gal_fuzz_require_refusal(code, &err);
    }
    gal_galvatron_profile_free(&back);
    gal_galvatron_profile_free(&profile);
}

static void import_plan(const char *path)
{
    gal_error err = {0};
    gal_galvatron_plan plan = {0};
    gal_galvatron_plan back = {0};
    const gal_code code = gal_galvatron_import_plan(path, 8, &plan, &err);
    if (code == GAL_OK) {
        GAL_FUZZ_REQUIRE(gal_galvatron_plan_write(written_path, &plan, NULL) == GAL_OK);
        GAL_FUZZ_REQUIRE(gal_galvatron_plan_read(written_path, &back, NULL) == GAL_OK);
    } else {
        gal_fuzz_require_refusal(code, &err);
    }
    gal_galvatron_plan_free(&back);
    gal_galvatron_plan_free(&plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    if (input_path == NULL) {
        input_path = gal_fuzz_path("input.json");
        base_path = gal_fuzz_path("base.json");
        written_path = gal_fuzz_path("document.json");
    }
    gal_fuzz_write(input_path, bytes, byte_count);
    import_profile(input_path);
    import_plan(input_path);
    return 0;
}
