/* Tables of layouts: what is accepted has a price under every kind of framework. */
#include <math.h>

#include "planner/layouts/layout_rows.h"
#include "tests/fuzz/input.h"

enum { ROWS_MAX = 8 };

static void price(const gal_layout_row *row, const char *name)
{
    gal_framework framework;
    gal_framework_estimate estimate;
    gal_constants constants;
    GAL_FUZZ_REQUIRE(gal_framework_read(name, &framework, NULL) == GAL_OK);
    gal_constants_default(row->cluster, &framework, &constants);
    gal_framework_price(&framework, row->cluster, &constants, &row->model, &row->layout, &estimate);
    GAL_FUZZ_REQUIRE(isfinite(estimate.seconds) && estimate.seconds > 0.0);
    GAL_FUZZ_REQUIRE(isfinite(estimate.bytes) && estimate.bytes > 0.0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    gal_layout_rows *rows = NULL;
    gal_error err = {0};
    static const char *path = NULL;
    path = path == NULL ? gal_fuzz_path("layouts.csv") : path;
    gal_fuzz_write(path, bytes, byte_count);
    const gal_code code =
        gal_layout_rows_read(path, &(gal_layout_defaults){"a100-16", GAL_MODEL_OPTIONS_NONE}, &rows, &err);
    if (code != GAL_OK) {
        gal_fuzz_require_refusal(code, &err);
        return 0;
    }
    for (uint32_t i = 0; i < gal_layout_rows_count(rows) && i < ROWS_MAX; i++) {
        const gal_layout_row *row = gal_layout_rows_at(rows, i);
        if (row->refused != NULL) {
            GAL_FUZZ_REQUIRE(row->refused[0] != '\0');
            continue;
        }
        GAL_FUZZ_REQUIRE(row->layout.dp_degree * row->layout.tp_degree * row->layout.pp_degree * row->sequence.degree ==
                         row->cluster->device_count);
        price(row, "megatron-2021");
        price(row, "torchtitan-2024");
    }
    gal_layout_rows_free(rows);
    return 0;
}
