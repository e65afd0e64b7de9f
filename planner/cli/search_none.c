#include "planner/cli/search_none.h"

#include <stdio.h>
#include <string.h>

#include "planner/answers/figure_text.h"
#include "planner/cli/memory_line.h"
#include "schemas/limits.h"

enum { DEVICES_AT_LEAST = 1024, DEVICES_TIMES = 4, WORDS_BYTES = 512 };

static bool is_illegal(const gal_search_result *result)
{
    return result->cell_count > 0 && result->least_bytes == 0;
}

gal_code gal_no_plan_find(gal_no_plan *none, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_search_result *result = none->of.result;
    const uint32_t devices = none->of.whole->device_count;
    const uint32_t times = devices > GAL_DEVICES_MAX / DEVICES_TIMES ? GAL_DEVICES_MAX : DEVICES_TIMES * devices;
    none->of.most_devices = times > DEVICES_AT_LEAST ? times : DEVICES_AT_LEAST;
    if (is_illegal(result)) {
        code = gal_search_illegal(none->of.request, &none->illegal, err);
    }
    if (code == GAL_OK && result->beyond_host_bytes == 0) {
        gal_repairs_find(&none->of, &none->repairs);
    }
    return code;
}

static uint64_t memory_of(const gal_no_plan *none)
{
    const gal_search_request *request = none->of.request;
    const uint64_t own = gal_durations_cluster(request->durations)->device.memory_bytes;
    return request->memory_bytes != 0 ? request->memory_bytes : own;
}

static uint64_t host_memory_of(const gal_no_plan *none)
{
    const gal_search_request *request = none->of.request;
    const uint64_t own = gal_durations_cluster(request->durations)->device.host_memory_bytes;
    return request->host_memory_bytes != 0 ? request->host_memory_bytes : own;
}

/* ---- why ---- */

void gal_left_out_print(const gal_search_result *result)
{
    const uint32_t count = result->too_large_cell_count;
    if (count > 0) {
        fprintf(
            stderr,
            "galplan: note: %u of %u cells left out: a tensor would have more than 4294967295 elements on one device\n",
            count, result->cell_count);
    }
}

/* Devices would do: their least memory and number are of no help. */
static void print_host(const gal_no_plan *none)
{
    char host[GAL_FIGURE_TEXT_BYTES], memory[GAL_FIGURE_TEXT_BYTES], beyond[GAL_FIGURE_TEXT_BYTES];
    (void)gal_memory_text(host_memory_of(none), host);
    (void)gal_memory_text(memory_of(none), memory);
    (void)gal_memory_text(none->of.result->beyond_host_bytes, beyond);
    fprintf(stderr,
            "galplan: no plan was found within %s of host memory per device: the fastest that fits in %s of the "
            "device has %s there; raise --host-memory or --memory, or give --storage-memory\n",
            host, memory, beyond);
}

/* The name of the number that the rule counts, and its value; NULL: the rule counts nothing. */
static const char *counted_by(const gal_illegal_rule *rule, const gal_model *model, uint64_t *count)
{
    const struct {
        const char *word;
        uint64_t count;
    } words[] = {{"kv_head_count", rule->block.kv_head_count},
                 {"head_count", rule->block.head_count},
                 {"ffn_hidden", rule->block.ffn_hidden},
                 {"padded vocabulary", gal_model_padded_vocabulary(model)},
                 {"samples of a microbatch", rule->microbatch_samples},
                 {"decoder_sequence_length", model->decoder_sequence_length},
                 {"sequence_length", model->sequence_length},
                 {"hidden", model->hidden}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strstr(rule->rule, words[i].word) != NULL) {
            *count = words[i].count;
            return words[i].word;
        }
    }
    return NULL;
}

static void print_rule(const gal_illegal_rule *rule, const gal_model *model)
{
    char name[GAL_STRATEGY_NAME_BYTES];
    uint64_t count = 0;
    fprintf(stderr, "  %s block: ", gal_block_kind_names[rule->block.kind]);
    if (rule->rule == NULL) {
        fprintf(stderr, "a tensor would have more than 4294967295 elements on one device\n");
        return;
    }
    const char *word = counted_by(rule, model, &count);
    fprintf(stderr, "%s", rule->rule);
    if (word != NULL) {
        fprintf(stderr, " (%s is %llu)", word, (unsigned long long)count);
    }
    for (uint32_t i = 0; i < rule->strategy_count; i++) {
        gal_strategy_name(&rule->strategy[i], name);
        fprintf(stderr, "%s %s", i == 0 ? "; tried" : ",", name);
    }
    fprintf(stderr, "\n");
}

static void print_illegal(const gal_no_plan *none)
{
    const gal_illegal *illegal = &none->illegal;
    fprintf(stderr, "galplan: no plan is legal, whatever the memory:\n");
    bool too_large = false;
    for (uint32_t i = 0; i < illegal->rule_count; i++) {
        print_rule(&illegal->rule[i], none->of.request->model);
        too_large = too_large || illegal->rule[i].rule == NULL;
    }
    if (too_large) {
        fprintf(stderr,
                "  tensors are smaller with more microbatches, a shorter sequence, or more tensor parallelism and "
                "sharding in --space\n");
    }
    if (illegal->bare_devices > 0) {
        fprintf(stderr, "  --space has no strategy of %u devices: it needs dp, sdp, tp or an axis of the sequence\n",
                illegal->bare_devices);
    }
}

static void print_memory(const gal_no_plan *none)
{
    const gal_search_result *r = none->of.result;
    const gal_cell_numbers *numbers = &r->least_numbers;
    char line[GAL_MEMORY_LINE_BYTES], memory[GAL_FIGURE_TEXT_BYTES], least[GAL_FIGURE_TEXT_BYTES];
    (void)gal_memory_text(memory_of(none), memory);
    (void)gal_memory_text(r->least_bytes, least);
    fprintf(stderr,
            "galplan: no plan fits in %s per device: the least that would do is %s (%llu bytes), with batch %u in %u "
            "microbatches, pp_degree %u\n",
            memory, least, (unsigned long long)r->least_bytes, numbers->global_batch_samples, numbers->microbatch_count,
            numbers->pp_degree);
    if (r->least_bound_bytes < r->least_bytes) {
        fprintf(stderr, "galplan: proven is that less than %llu bytes would not\n",
                (unsigned long long)r->least_bound_bytes);
    }
    if (none->repairs.has_memory) {
        gal_memory_line(&none->repairs.memory, memory_of(none), line);
        fprintf(stderr, "  its fullest device: %s\n", line);
    }
}

/* ---- what would do ---- */

static void print_repair(const gal_repair *repair)
{
    char host[GAL_FIGURE_TEXT_BYTES], rate[GAL_FIGURE_TEXT_BYTES], step[GAL_FIGURE_TEXT_BYTES];
    fprintf(stderr, "  %-44s  ", repair->options);
    if (repair->step_seconds > 0.0) {
        fprintf(stderr, "step %s s, %s samples/s", gal_figure_text(repair->step_seconds, step),
                gal_figure_text(repair->samples_per_second, rate));
    } else {
        fprintf(stderr, "fits; there was no time for its seconds");
    }
    if (repair->host_bytes > 0) {
        (void)gal_memory_text(repair->host_bytes, host);
        fprintf(stderr, ", %s of its host per device", host);
    }
    fprintf(stderr, "\n");
}

/* "recompute, offload": those of a state. Returns their number. */
static uint32_t list_words(const gal_repairs *repairs, gal_repair_state state, char text[WORDS_BYTES])
{
    uint32_t count = 0;
    size_t length = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < repairs->count && length < WORDS_BYTES; i++) {
        if (repairs->repair[i].state == state) {
            length += (size_t)snprintf(text + length, WORDS_BYTES - length, "%s%s", count++ > 0 ? ", " : "",
                                       repairs->repair[i].words);
        }
    }
    return count;
}

static void print_repairs(const gal_no_plan *none)
{
    const gal_repairs *repairs = &none->repairs;
    char words[WORDS_BYTES];
    if (list_words(repairs, GAL_REPAIR_FITS, words) > 0) {
        fprintf(stderr, "galplan: a plan fits with one of these, each searched:\n");
    }
    for (uint32_t i = 0; i < repairs->count && repairs->repair[i].state == GAL_REPAIR_FITS; i++) {
        print_repair(&repairs->repair[i]);
    }
    if (list_words(repairs, GAL_REPAIR_NO, words) > 0) {
        fprintf(stderr, "galplan: no plan fits either with: %s", words);
        if (repairs->devices_known && !repairs->devices.exists) {
            fprintf(stderr, " (up to %u)", none->of.most_devices);
        }
        fprintf(stderr, "\n");
    }
    if (list_words(repairs, GAL_REPAIR_CUT, words) > 0) {
        fprintf(stderr, "galplan: not known within %g s (--time-limit): %s\n", none->of.time_limit_seconds, words);
    }
}

void gal_no_plan_print(const gal_no_plan *none)
{
    const gal_search_result *r = none->of.result;
    if (r->beyond_host_bytes > 0) {
        print_host(none);
        return;
    }
    if (r->cell_count == 0) {
        fprintf(stderr, "galplan: no plan: %s\n", r->refusal);
    } else if (is_illegal(r)) {
        print_illegal(none);
    } else {
        print_memory(none);
        gal_left_out_print(r);
    }
    print_repairs(none);
}

/* ---- as JSON ---- */

static const char *binding_limit(const gal_search_result *result)
{
    return result->beyond_host_bytes > 0 ? "host_memory"
           : result->cell_count == 0     ? "divisibility"
           : result->least_bytes == 0    ? "space"
                                         : "memory";
}

static void put_numbers(gal_json_writer *out, const char *key, const gal_cell_numbers *numbers)
{
    gal_json_begin_object(out, key);
    gal_json_put_u64(out, "global_batch_samples", numbers->global_batch_samples);
    gal_json_put_u64(out, "microbatch_count", numbers->microbatch_count);
    gal_json_put_u64(out, "pp_degree", numbers->pp_degree);
    gal_json_end_object(out);
}

static void put_repairs(const gal_repairs *repairs, gal_json_writer *out)
{
    static const char *const states[] = {"fits", "no", "not_known"};
    gal_json_begin_array(out, "repairs");
    for (uint32_t i = 0; i < repairs->count; i++) {
        const gal_repair *repair = &repairs->repair[i];
        gal_json_begin_object(out, NULL);
        gal_json_put_string(out, "change", repair->words);
        gal_json_put_string(out, "answer", states[repair->state]);
        if (repair->state == GAL_REPAIR_FITS) {
            gal_json_put_string(out, "options", repair->options);
        }
        if (repair->state == GAL_REPAIR_FITS && repair->step_seconds > 0.0) {
            gal_json_put_f64(out, "samples_per_second", repair->samples_per_second);
            gal_json_put_f64(out, "simulated_seconds", repair->step_seconds);
            gal_json_put_u64(out, "host_bytes", repair->host_bytes);
        }
        gal_json_end_object(out);
    }
    gal_json_end_array(out);
}

static void put_illegal(const gal_illegal *illegal, gal_json_writer *out)
{
    gal_json_begin_array(out, "rules");
    for (uint32_t i = 0; i < illegal->rule_count; i++) {
        gal_json_begin_object(out, NULL);
        gal_json_put_string(out, "block", gal_block_kind_names[illegal->rule[i].block.kind]);
        gal_json_put_string(out, "rule",
                            illegal->rule[i].rule != NULL
                                ? illegal->rule[i].rule
                                : "a tensor must have at most 4294967295 elements on one device");
        gal_json_end_object(out);
    }
    gal_json_end_array(out);
}

void gal_no_plan_put(const gal_no_plan *none, gal_json_writer *out)
{
    const gal_search_result *r = none->of.result;
    const gal_least_devices *devices = &none->repairs.devices;
    gal_json_put_string(out, "binding_limit", binding_limit(r));
    gal_json_put_u64(out, "memory_bytes", memory_of(none));
    if (r->beyond_host_bytes > 0) {
        gal_json_put_u64(out, "host_memory_bytes", host_memory_of(none));
        gal_json_put_u64(out, "fastest_plan_host_bytes", r->beyond_host_bytes);
        return;
    }
    gal_json_put_u64(out, "least_bytes", r->least_bytes);
    if (r->least_bytes > 0) {
        gal_json_put_bool(out, "least_bytes_is_exact", r->least_bound_bytes == r->least_bytes);
        put_numbers(out, "least_bytes_plan", &r->least_numbers);
    }
    if (none->repairs.has_memory) {
        gal_memory_put(out, &none->repairs.memory, none->repairs.memory_stage, memory_of(none));
    }
    if (is_illegal(r)) {
        put_illegal(&none->illegal, out);
    }
    gal_json_put_u64(out, "least_device_count", devices->exists ? devices->device_count : 0);
    gal_json_put_bool(out, "least_device_count_is_exact", none->repairs.devices_known && devices->proven);
    if (devices->exists) {
        put_numbers(out, "least_device_count_plan", &devices->numbers);
    }
    gal_json_put_u64(out, "most_device_count_tried", none->of.most_devices);
    put_repairs(&none->repairs, out);
}

void gal_no_plan_print_named(const gal_algorithm *algorithm, const gal_search_result *result, uint64_t memory_bytes)
{
    char memory[GAL_FIGURE_TEXT_BYTES], least[GAL_FIGURE_TEXT_BYTES];
    (void)gal_memory_text(memory_bytes, memory);
    (void)gal_memory_text(result->least_bytes, least);
    if (result->cell_count == 0) {
        fprintf(stderr, "galplan: no plan: %s\n", result->refusal);
    } else if (result->least_bytes == 0) {
        fprintf(stderr, "galplan: no plan: by its own count of bytes %s finds none in %s per device%s\n",
                algorithm->name, memory,
                result->unproven_cell_count > 0 ? ", or did not finish (too large, or --time-limit)" : "");
    } else {
        fprintf(stderr,
                "galplan: no plan fits in %s per device: the smallest plan met needs %s; try more devices, "
                "a smaller batch, more microbatches or a larger --space\n",
                memory, least);
    }
}
