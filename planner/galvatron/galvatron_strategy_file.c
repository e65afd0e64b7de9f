/* The strategy file: one list of numbers per property, with commas between them, one number per layer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/galvatron/galvatron_files.h"
#include "schemas/base/json.h"
#include "schemas/limits.h"

enum { LIST_TEXT_BYTES = 12 * GAL_LAYERS_MAX };

static const char *const schedule_names[] = {"gpipe", "pipedream_flush"};

/* Scratch of one file. */
typedef struct lists {
    char text[LIST_TEXT_BYTES];
    uint32_t degree[GAL_LAYERS_MAX], neighbours[GAL_LAYERS_MAX], zero3[GAL_LAYERS_MAX], ulysses[GAL_LAYERS_MAX];
    uint32_t recompute[GAL_LAYERS_MAX], other[GAL_LAYERS_MAX];
} lists;

/* ---- reading ---- */

/* The numbers of a list, each min to max; their count, 0 after an error. */
static uint32_t read_list(const gal_json_cursor *at, const char *key, lists *scratch, uint32_t min, uint32_t max,
                          uint32_t *out)
{
    const char *next = scratch->text;
    uint32_t count = 0;
    gal_json_string(at, key, scratch->text, sizeof scratch->text);
    while (count < GAL_LAYERS_MAX) {
        const size_t digits = strspn(next, "0123456789");
        const unsigned long value = digits == 0 || digits > 9 ? (unsigned long)max + 1 : strtoul(next, NULL, 10);
        if (value < min || value > max) {
            break;
        }
        out[count++] = (uint32_t)value;
        next += digits;
        if (*next == '\0') {
            return count;
        }
        if (*next++ != ',') {
            break;
        }
    }
    gal_json_member_error(at, key, "must be at most %d numbers from %u to %u with commas between them", GAL_LAYERS_MAX,
                          min, max);
    return 0;
}

/* A list that has a number for each layer; what an older file leaves out is all `absent`. */
static void read_layer_list(const gal_json_cursor *at, const char *key, lists *scratch, uint32_t layer_count,
                            uint32_t min, uint32_t max, uint32_t absent, uint32_t *out)
{
    if (!gal_json_has(at, key)) {
        for (uint32_t l = 0; l < layer_count; l++) {
            out[l] = absent;
        }
        return;
    }
    const uint32_t count = read_list(at, key, scratch, min, max, out);
    if (count != 0 && count != layer_count) {
        gal_json_member_error(at, key, "must have the %u layers of tp_sizes_enc", layer_count);
    }
}

/* What only its runtime has: nothing but ones. */
static void refuse_degrees(const gal_json_cursor *at, const char *key, lists *scratch)
{
    if (gal_json_has(at, key)) {
        const uint32_t count = read_list(at, key, scratch, 1, GAL_DEVICES_MAX, scratch->other);
        for (uint32_t l = 0; l < count; l++) {
            if (scratch->other[l] != 1) {
                gal_json_member_error(at, key, "must be 1 everywhere: context and expert parallelism have no price");
                return;
            }
        }
    }
}

static bool read_flag(const gal_json_cursor *at, const char *key)
{
    return gal_json_has(at, key) && gal_json_u32(at, key, 0, 1) == 1;
}

/* Both names of one thing. */
static bool read_outside_zero3(const gal_json_cursor *at)
{
    const bool planned = read_flag(at, "embed_sdp");
    const bool run = read_flag(at, "vocab_sdp");
    if (gal_json_has(at, "embed_sdp") && gal_json_has(at, "vocab_sdp") && planned != run) {
        gal_json_member_error(at, "vocab_sdp", "must be embed_sdp");
    }
    return planned || run;
}

static gal_galvatron_strategy strategy_of(const lists *l, uint32_t layer)
{
    return (gal_galvatron_strategy){.degree = l->degree[layer],
                                    .ulysses = l->ulysses[layer] == 1 && l->degree[layer] > 1,
                                    .zero3 = l->zero3[layer] == 1,
                                    .recompute = l->recompute[layer] == 1};
}

static bool make_runs(const lists *l, uint32_t layer_count, gal_galvatron_plan *out)
{
    out->run = calloc((size_t)layer_count + 1, sizeof *out->run);
    for (uint32_t i = 0; out->run != NULL && i < layer_count; i++) {
        const gal_galvatron_strategy here = strategy_of(l, i);
        if (out->run_count == 0 || !gal_galvatron_strategy_equal(&out->run[out->run_count - 1].strategy, &here)) {
            out->run[out->run_count++].strategy = here;
        }
        out->run[out->run_count - 1].layer_count++;
    }
    return out->run != NULL;
}

static void read_layers(const gal_json_cursor *root, lists *l, uint32_t layer_count)
{
    read_layer_list(root, "tp_consecutive_flags", l, layer_count, 0, 1, 1, l->neighbours);
    read_layer_list(root, "dp_types_enc", l, layer_count, 0, 1, 0, l->zero3);
    read_layer_list(root, "use_sp", l, layer_count, 0, 1, 0, l->ulysses);
    read_layer_list(root, "checkpoint", l, layer_count, 0, 1, 0, l->recompute);
    for (uint32_t i = 0; i < layer_count; i++) {
        if (l->neighbours[i] == 0 && l->degree[i] > 1) {
            gal_json_member_error(root, "tp_consecutive_flags", "must be 1 where tp_sizes_enc is above 1");
            return;
        }
    }
    refuse_degrees(root, "cp_sizes_enc", l);
    refuse_degrees(root, "ep_sizes_enc", l);
    refuse_degrees(root, "tp_of_ep_sizes_enc", l);
    if (gal_json_has(root, "vcp") && gal_json_u32(root, "vcp", 1, GAL_DEVICES_MAX) > 1) {
        gal_json_member_error(root, "vcp", "must be 1: context parallelism has no price");
    }
}

/* False without memory. */
static bool read_strategy_file(const gal_json_cursor *root, uint32_t device_count, lists *l, gal_galvatron_plan *out)
{
    out->pp_degree = gal_json_u32(root, "pp_deg", 1, GAL_LAYERS_MAX);
    out->global_batch_samples = gal_json_u32(root, "global_bsz", 1, GAL_BATCH_SAMPLES_MAX);
    out->microbatch_count = gal_json_u32(root, "chunks", 1, GAL_STAGE_MICROBATCHES_MAX);
    out->schedule =
        gal_json_enum(root, "pipeline_type", schedule_names, 2) == 1 ? GAL_SCHEDULE_1F1B : GAL_SCHEDULE_GPIPE;
    out->data_parallel = (gal_galvatron_data_parallel)gal_json_enum(
        root, "default_dp_type", gal_galvatron_data_parallel_names, GAL_GALVATRON_DATA_PARALLEL_COUNT);
    out->outside.degree = gal_json_u32(root, "vtp", 1, GAL_DEVICES_MAX);
    out->outside.ulysses = read_flag(root, "vsp") && out->outside.degree > 1;
    out->outside.zero3 = read_outside_zero3(root);
    out->device_count = device_count;
    if (gal_json_has(root, "world_size")) {
        out->device_count = gal_json_u32(root, "world_size", 1, GAL_DEVICES_MAX);
        if (device_count != 0 && out->device_count != device_count) {
            gal_json_member_error(root, "world_size", "must be --devices, which is %u", device_count);
        }
    } else if (device_count == 0) {
        gal_json_error(root, "has no world_size: give --devices");
    }
    const uint32_t layer_count = read_list(root, "tp_sizes_enc", l, 1, GAL_DEVICES_MAX, l->degree);
    read_layers(root, l, layer_count);
    const uint32_t stage_count = read_list(root, "pp_division", l, 1, GAL_LAYERS_MAX, l->other);
    if (stage_count != 0 && stage_count != out->pp_degree) {
        gal_json_member_error(root, "pp_division", "must have the %u stages of pp_deg", out->pp_degree);
    }
    out->stage_layer_count = calloc((size_t)stage_count + 1, sizeof *out->stage_layer_count);
    if (out->stage_layer_count != NULL) {
        memcpy(out->stage_layer_count, l->other, stage_count * sizeof *out->stage_layer_count);
    }
    gal_json_reject_unknown(root);
    return out->stage_layer_count != NULL && make_runs(l, layer_count, out);
}

/* The file's name without folder and ending. */
static void name_after(const char *path, char *name)
{
    const char *begin = strrchr(path, '/');
    begin = begin == NULL ? path : begin + 1;
    size_t length = strlen(begin);
    length = length > 5 && strcmp(begin + length - 5, ".json") == 0 ? length - 5 : length;
    length = length < GAL_NAME_BYTES ? length : GAL_NAME_BYTES - 1;
    memcpy(name, begin, length);
    name[length] = '\0';
}

bool gal_galvatron_is_strategy(gal_json_doc *doc)
{
    const gal_json_cursor root = gal_json_root(doc);
    return gal_json_has(&root, "pp_deg");
}

gal_code gal_galvatron_import_plan_open(gal_json_doc *doc, const char *path, uint32_t device_count,
                                        gal_galvatron_plan *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_galvatron_plan plan = {0};
    gal_error broken = {0};
    lists *scratch = calloc(1, sizeof *scratch);
    if (scratch == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    const gal_json_cursor root = gal_json_root(doc);
    if (!read_strategy_file(&root, device_count, scratch, &plan)) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    GAL_TRY(gal_json_status(doc, err));
    name_after(path, plan.name);
    if (gal_galvatron_plan_check(&plan, &broken) != GAL_OK) {
        GAL_TRY(gal_fail(err, GAL_ERR_DOCUMENT, "%s: as a galvatron_plan: %s", path, broken.text));
    }
    *out = plan;
    plan = (gal_galvatron_plan){0};
cleanup:
    gal_galvatron_plan_free(&plan);
    free(scratch);
    return code;
}

gal_code gal_galvatron_import_plan(const char *path, uint32_t device_count, gal_galvatron_plan *out, gal_error *err)
{
    gal_json_doc *doc = NULL;
    gal_code code = gal_json_open(path, &doc, err);
    if (code == GAL_OK) {
        code = gal_galvatron_import_plan_open(doc, path, device_count, out, err);
    }
    gal_json_close(doc);
    return code;
}

/* ---- writing ---- */

static uint32_t degree_of(const gal_galvatron_strategy *strategy)
{
    return strategy->degree;
}
static uint32_t neighbours_of(const gal_galvatron_strategy *strategy)
{
    (void)strategy;
    return 1;
}
static uint32_t zero3_of(const gal_galvatron_strategy *strategy)
{
    return strategy->zero3 ? 1 : 0;
}
static uint32_t ulysses_of(const gal_galvatron_strategy *strategy)
{
    return strategy->ulysses ? 1 : 0;
}
static uint32_t recompute_of(const gal_galvatron_strategy *strategy)
{
    return strategy->recompute ? 1 : 0;
}

static size_t add_number(char *text, size_t used, uint32_t number)
{
    return used + (size_t)snprintf(text + used, LIST_TEXT_BYTES - used, "%s%u", used == 0 ? "" : ",", number);
}

static void put_layers(gal_json_writer *out, const char *key, const gal_galvatron_plan *plan,
                       uint32_t (*number_of)(const gal_galvatron_strategy *), char *text)
{
    size_t used = 0;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        for (uint32_t l = 0; l < plan->run[r].layer_count; l++) {
            used = add_number(text, used, number_of(&plan->run[r].strategy));
        }
    }
    gal_json_put_string(out, key, text);
}

static void put_stages(gal_json_writer *out, const gal_galvatron_plan *plan, char *text)
{
    size_t used = 0;
    for (uint32_t s = 0; s < plan->pp_degree; s++) {
        used = add_number(text, used, plan->stage_layer_count[s]);
    }
    gal_json_put_string(out, "pp_division", text);
}

gal_code gal_galvatron_export_plan(const char *path, const gal_galvatron_plan *plan, gal_error *err)
{
    char *text = malloc(LIST_TEXT_BYTES);
    if (text == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    gal_json_writer *out = gal_json_writer_create();
    gal_json_begin_object(out, NULL);
    gal_json_put_u64(out, "pp_deg", plan->pp_degree);
    put_layers(out, "tp_sizes_enc", plan, degree_of, text);
    put_layers(out, "tp_consecutive_flags", plan, neighbours_of, text);
    put_layers(out, "dp_types_enc", plan, zero3_of, text);
    put_layers(out, "use_sp", plan, ulysses_of, text);
    put_layers(out, "checkpoint", plan, recompute_of, text);
    gal_json_put_u64(out, "world_size", plan->device_count);
    gal_json_put_u64(out, "global_bsz", plan->global_batch_samples);
    gal_json_put_u64(out, "chunks", plan->microbatch_count);
    put_stages(out, plan, text);
    gal_json_put_string(out, "pipeline_type", schedule_names[plan->schedule == GAL_SCHEDULE_1F1B ? 1 : 0]);
    gal_json_put_string(out, "default_dp_type", gal_galvatron_data_parallel_names[plan->data_parallel]);
    gal_json_put_u64(out, "vtp", plan->outside.degree);
    gal_json_put_u64(out, "vsp", ulysses_of(&plan->outside));
    gal_json_put_u64(out, "embed_sdp", zero3_of(&plan->outside));
    gal_json_put_u64(out, "vocab_sdp", zero3_of(&plan->outside));
    gal_json_end_object(out);
    const gal_code code = gal_json_writer_save(out, path, err);
    gal_json_writer_free(out);
    free(text);
    return code;
}
