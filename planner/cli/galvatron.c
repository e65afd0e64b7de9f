#include "planner/cli/galvatron.h"

#include <math.h>
#include <stdio.h>

#include "costmodel/galvatron.h"
#include "costmodel/interval.h"
#include "planner/galvatron/galvatron_files.h"
#include "schemas/document.h"

static gal_code read_open(gal_json_doc *doc, gal_galvatron_plan *out, gal_error *err)
{
    static const char *const names[] = {"plan", "galvatron_plan"};
    const gal_json_cursor root = gal_json_root(doc);
    gal_plan plan = {0};
    const bool theirs = gal_json_enum(&root, "document", names, 2) == 1;
    gal_code code = GAL_OK;
    GAL_TRY(gal_json_status(doc, err));
    if (theirs) {
        GAL_TRY(gal_document_read_open(GAL_DOCUMENT_GALVATRON_PLAN, doc, out, err));
    } else {
        GAL_TRY(gal_document_read_open(GAL_DOCUMENT_PLAN, doc, &plan, err));
        GAL_TRY(gal_galvatron_plan_of(&plan, out, err));
    }
cleanup:
    gal_plan_free(&plan);
    return code;
}

gal_code gal_cli_read_any_plan(const char *path, gal_galvatron_plan *out, gal_error *err)
{
    gal_json_doc *doc = NULL;
    gal_code code = gal_json_open(path, &doc, err);
    if (code == GAL_OK) {
        code = read_open(doc, out, err);
    }
    gal_json_close(doc);
    return code;
}

static void print_price(const gal_galvatron_plan *plan, const gal_galvatron_price *price)
{
    (void)printf("prices               galvatron, by its published formulas\n");
    (void)printf("iteration            %.9g s\n", price->iteration_seconds);
    (void)printf("with 90 %%            %.6g to %.6g s, if its profile strays as measurements here do\n",
                 price->iteration_seconds * exp(-GAL_INTERVAL_MEASURED),
                 price->iteration_seconds * exp(GAL_INTERVAL_MEASURED));
    (void)printf("throughput           %.9g samples/s\n", price->samples_per_second);
    (void)printf("\nstage  layers         bytes\n");
    for (uint32_t s = 0; s < price->stage_count; s++) {
        (void)printf("%5u  %6u  %8.1f MiB\n", s, plan->stage_layer_count[s], price->stage_bytes[s] / 1048576.0);
    }
}

static gal_code print_price_json(const gal_galvatron_plan *plan, const gal_galvatron_price *price, gal_error *err)
{
    gal_json_writer *out = gal_json_writer_create();
    gal_json_begin_object(out, NULL);
    gal_json_put_string(out, "prices", "galvatron");
    gal_json_put_f64(out, "iteration_seconds", price->iteration_seconds);
    gal_json_put_f64(out, "low_seconds", price->iteration_seconds * exp(-GAL_INTERVAL_MEASURED));
    gal_json_put_f64(out, "high_seconds", price->iteration_seconds * exp(GAL_INTERVAL_MEASURED));
    gal_json_put_f64(out, "samples_per_second", price->samples_per_second);
    gal_json_begin_array(out, "stages");
    for (uint32_t s = 0; s < price->stage_count; s++) {
        gal_json_begin_object(out, NULL);
        gal_json_put_u64(out, "layer_count", plan->stage_layer_count[s]);
        gal_json_put_f64(out, "bytes", price->stage_bytes[s]);
        gal_json_end_object(out);
    }
    gal_json_end_array(out);
    gal_json_end_object(out);
    const gal_code code = gal_json_writer_save(out, "-", err);
    gal_json_writer_free(out);
    return code;
}

/* Rounded down where samples are left over, as its formulas do: worth a word. */
static void warn_of_rest(const gal_galvatron_plan *plan)
{
    const gal_galvatron_job job = gal_galvatron_job_of(plan);
    for (uint32_t r = 0; r <= plan->run_count; r++) {
        const gal_galvatron_strategy *s = r == 0 ? &plan->outside : &plan->run[r - 1].strategy;
        const uint64_t priced =
            (uint64_t)gal_galvatron_samples(&job, s) * gal_galvatron_replicas(&job, s) * plan->microbatch_count;
        if (priced != plan->global_batch_samples) {
            (void)fprintf(stderr,
                          "galplan: note: of %u samples only %llu are priced: %u replicas and %u microbatches do not "
                          "divide the batch\n",
                          plan->global_batch_samples, (unsigned long long)priced, gal_galvatron_replicas(&job, s),
                          plan->microbatch_count);
            return;
        }
    }
}

gal_code gal_cli_price_galvatron(const char *plan_path, const char *profile_path, bool json, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_galvatron_plan plan = {0};
    gal_galvatron_profile profile = {0};
    gal_galvatron_tables *tables = NULL;
    gal_galvatron_price price = {0};
    GAL_TRY(gal_cli_read_any_plan(plan_path, &plan, err));
    GAL_TRY(gal_galvatron_profile_read(profile_path, &profile, err));
    GAL_TRY(gal_galvatron_tables_create(&profile, &tables, err));
    GAL_TRY(gal_galvatron_price_plan(tables, &plan, &price, err));
    warn_of_rest(&plan);
    if (json) {
        GAL_TRY(print_price_json(&plan, &price, err));
    } else {
        print_price(&plan, &price);
    }
cleanup:
    gal_galvatron_price_free(&price);
    gal_galvatron_tables_free(tables);
    gal_galvatron_profile_free(&profile);
    gal_galvatron_plan_free(&plan);
    return code;
}
