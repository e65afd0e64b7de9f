#include "schemas/galvatron_plan.h"

#include <stdlib.h>
#include <string.h>

#include "schemas/document.h"
#include "schemas/limits.h"

#define X(enumerator, name) [enumerator] = name,
const char *const gal_galvatron_data_parallel_names[GAL_GALVATRON_DATA_PARALLEL_COUNT] = {
    GAL_GALVATRON_DATA_PARALLELS(X)};
#undef X

static const char *const split_names[] = {"tensor", "ulysses"};

uint32_t gal_galvatron_plan_layer_count(const gal_galvatron_plan *plan)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        count += plan->run[r].layer_count;
    }
    return count;
}

const gal_galvatron_strategy *gal_galvatron_plan_strategy(const gal_galvatron_plan *plan, uint32_t layer)
{
    uint32_t r = 0;
    while (layer >= plan->run[r].layer_count) {
        layer -= plan->run[r].layer_count;
        r++;
    }
    return &plan->run[r].strategy;
}

bool gal_galvatron_strategy_equal(const gal_galvatron_strategy *a, const gal_galvatron_strategy *b)
{
    return a->degree == b->degree && a->ulysses == b->ulysses && a->zero3 == b->zero3 && a->recompute == b->recompute;
}

gal_code gal_galvatron_plan_check(const gal_galvatron_plan *plan, gal_error *err)
{
    uint32_t stage_layers = 0;
    if (plan->device_count % plan->pp_degree != 0) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "/pp_degree: must divide device_count");
    }
    const uint32_t devices = plan->device_count / plan->pp_degree;
    if (devices % plan->outside.degree != 0) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "/outside/degree: must divide the %u devices of a stage", devices);
    }
    for (uint32_t r = 0; r < plan->run_count; r++) {
        if (devices % plan->run[r].strategy.degree != 0) {
            return gal_fail(err, GAL_ERR_DOCUMENT, "/runs/%u/degree: must divide the %u devices of a stage", r,
                            devices);
        }
    }
    for (uint32_t s = 0; s < plan->pp_degree; s++) {
        stage_layers += plan->stage_layer_count[s];
    }
    /* 4,096 stages of 4,096 layers stay below 2^32. */
    const uint32_t layer_count = gal_galvatron_plan_layer_count(plan);
    if (layer_count > GAL_LAYERS_MAX) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "/runs: must have at most 4096 layers in all, got %u", layer_count);
    }
    if (stage_layers != layer_count) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "/stage_layer_counts: must give the %u layers of the runs, got %u",
                        layer_count, stage_layers);
    }
    return GAL_OK;
}

/* ---- reading ---- */

static void read_strategy(const gal_json_cursor *at, gal_galvatron_strategy *out)
{
    out->degree = gal_json_u32(at, "degree", 1, GAL_DEVICES_MAX);
    out->ulysses = gal_json_enum(at, "split", split_names, 2) == 1;
    out->zero3 = gal_json_bool(at, "zero3");
}

/* False without memory, as the other one. No allocation of 0 bytes. */
static bool read_stages(const gal_json_cursor *root, gal_galvatron_plan *out)
{
    uint32_t count;
    gal_json_cursor stages = gal_json_array(root, "stage_layer_counts", out->pp_degree, out->pp_degree, &count);
    out->stage_layer_count = calloc((size_t)out->pp_degree + 1, sizeof *out->stage_layer_count);
    for (uint32_t s = 0; out->stage_layer_count != NULL && s < count; s++) {
        out->stage_layer_count[s] = (uint32_t)gal_json_element_u64(&stages, s, 1, GAL_LAYERS_MAX);
    }
    return out->stage_layer_count != NULL;
}

static bool read_runs(const gal_json_cursor *root, gal_galvatron_plan *out)
{
    gal_json_cursor runs = gal_json_array(root, "runs", 1, GAL_LAYERS_MAX, &out->run_count);
    out->run = calloc((size_t)out->run_count + 1, sizeof *out->run);
    for (uint32_t r = 0; out->run != NULL && r < out->run_count; r++) {
        gal_json_cursor at = gal_json_element(&runs, r);
        out->run[r].layer_count = gal_json_u32(&at, "layer_count", 1, GAL_LAYERS_MAX);
        read_strategy(&at, &out->run[r].strategy);
        out->run[r].strategy.recompute = gal_json_bool(&at, "recompute");
        gal_json_reject_unknown(&at);
    }
    return out->run != NULL;
}

static bool read_galvatron_plan(const gal_json_cursor *root, void *document)
{
    gal_galvatron_plan *out = document;
    gal_json_expect_document(root, "galvatron_plan", GAL_GALVATRON_PLAN_VERSION);
    gal_json_string(root, "name", out->name, sizeof out->name);
    out->device_count = gal_json_u32(root, "device_count", 1, GAL_DEVICES_MAX);
    out->pp_degree = gal_json_u32(root, "pp_degree", 1, GAL_LAYERS_MAX);
    out->global_batch_samples = gal_json_u32(root, "global_batch_samples", 1, GAL_BATCH_SAMPLES_MAX);
    out->microbatch_count = gal_json_u32(root, "microbatch_count", 1, GAL_STAGE_MICROBATCHES_MAX);
    out->schedule = (gal_schedule)gal_json_enum(root, "schedule", gal_schedule_names, GAL_SCHEDULE_1F1B + 1);
    out->data_parallel = (gal_galvatron_data_parallel)gal_json_enum(
        root, "data_parallel", gal_galvatron_data_parallel_names, GAL_GALVATRON_DATA_PARALLEL_COUNT);
    gal_json_cursor outside = gal_json_object(root, "outside");
    read_strategy(&outside, &out->outside);
    gal_json_reject_unknown(&outside);
    const bool has_memory = read_stages(root, out) && read_runs(root, out);
    gal_json_reject_unknown(root);
    return has_memory;
}

static void finish_galvatron_plan(gal_json_doc *doc, void *document)
{
    gal_error broken = {0};
    if (gal_galvatron_plan_check(document, &broken) != GAL_OK) {
        char *rule = strchr(broken.text, ':');
        *rule = '\0';
        gal_json_error_at_path(doc, broken.text, rule + 2);
    }
}

/* ---- writing ---- */

static void write_strategy(gal_json_writer *out, const gal_galvatron_strategy *strategy)
{
    gal_json_put_u64(out, "degree", strategy->degree);
    gal_json_put_string(out, "split", split_names[strategy->ulysses ? 1 : 0]);
    gal_json_put_bool(out, "zero3", strategy->zero3);
}

static void write_galvatron_plan(gal_json_writer *out, const void *document)
{
    const gal_galvatron_plan *p = document;
    gal_json_put_string(out, "document", "galvatron_plan");
    gal_json_put_u64(out, "version", GAL_GALVATRON_PLAN_VERSION);
    gal_json_put_string(out, "name", p->name);
    gal_json_put_u64(out, "device_count", p->device_count);
    gal_json_put_u64(out, "pp_degree", p->pp_degree);
    gal_json_put_u64(out, "global_batch_samples", p->global_batch_samples);
    gal_json_put_u64(out, "microbatch_count", p->microbatch_count);
    gal_json_put_string(out, "schedule", gal_schedule_names[p->schedule]);
    gal_json_put_string(out, "data_parallel", gal_galvatron_data_parallel_names[p->data_parallel]);
    gal_json_begin_object(out, "outside");
    write_strategy(out, &p->outside);
    gal_json_end_object(out);
    gal_json_begin_array(out, "stage_layer_counts");
    for (uint32_t s = 0; s < p->pp_degree; s++) {
        gal_json_put_u64(out, NULL, p->stage_layer_count[s]);
    }
    gal_json_end_array(out);
    gal_json_begin_array(out, "runs");
    for (uint32_t r = 0; r < p->run_count; r++) {
        gal_json_begin_object(out, NULL);
        gal_json_put_u64(out, "layer_count", p->run[r].layer_count);
        write_strategy(out, &p->run[r].strategy);
        gal_json_put_bool(out, "recompute", p->run[r].strategy.recompute);
        gal_json_end_object(out);
    }
    gal_json_end_array(out);
}

void gal_galvatron_plan_free(gal_galvatron_plan *plan)
{
    if (plan != NULL) {
        free(plan->stage_layer_count);
        free(plan->run);
        *plan = (gal_galvatron_plan){0};
    }
}

static void release_galvatron_plan(void *plan)
{
    gal_galvatron_plan_free(plan);
}

const gal_document_form gal_galvatron_plan_form = {sizeof(gal_galvatron_plan), read_galvatron_plan,
                                                   finish_galvatron_plan, write_galvatron_plan, release_galvatron_plan};

gal_code gal_galvatron_plan_read(const char *path, gal_galvatron_plan *out, gal_error *err)
{
    return gal_document_read(GAL_DOCUMENT_GALVATRON_PLAN, path, out, err);
}

gal_code gal_galvatron_plan_write(const char *path, const gal_galvatron_plan *plan, gal_error *err)
{
    return gal_document_write(GAL_DOCUMENT_GALVATRON_PLAN, path, plan, err);
}
