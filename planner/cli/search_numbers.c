#include "planner/cli/search_numbers.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 256 };

/* Returns true and a text if a number of a list is wrong; else returns false. */
typedef bool wrong_number(const gal_search_request *request, uint32_t number, char text[TEXT_BYTES]);

static gal_code list_rule(const gal_search_request *request, const char *option, const gal_u32_list *list,
                          wrong_number *is_wrong, gal_error *err)
{
    char text[TEXT_BYTES];
    uint32_t wrong_count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        wrong_count += is_wrong(request, list->value[i], text);
    }
    if (list->count > 0 && wrong_count == list->count) {
        (void)is_wrong(request, list->value[0], text);
        return gal_fail(err, GAL_ERR_USAGE, "--%s: %s", option, text);
    }
    for (uint32_t i = 0; i < list->count; i++) {
        if (is_wrong(request, list->value[i], text)) {
            fprintf(stderr, "galplan: note: left out of --%s: %s\n", option, text);
        }
    }
    return GAL_OK;
}

static bool wrong_microbatches(const gal_search_request *request, uint32_t number, char text[TEXT_BYTES])
{
    const gal_u32_list own = {1, {request->model->global_batch_samples}};
    const gal_u32_list *batches = request->batches.count > 0 ? &request->batches : &own;
    const uint32_t *batch = batches->value;
    bool divides = false;
    for (uint32_t i = 0; i < batches->count; i++) {
        divides = divides || batch[i] % number == 0;
    }
    if (batches->count == 1) {
        (void)snprintf(text, TEXT_BYTES, "%u does not divide the batch of %u samples%s", number, batch[0],
                       batches == &own ? " (--batch)" : "");
    } else {
        (void)snprintf(text, TEXT_BYTES, "%u divides none of the %u batches from %u to %u samples", number,
                       batches->count, batch[0], batch[batches->count - 1]);
    }
    return !divides;
}

/* "1, 2, 4, 8": the degrees that there are. */
static void list_degrees(uint32_t devices, uint32_t blocks, char text[TEXT_BYTES])
{
    size_t length = 0;
    text[0] = '\0';
    for (uint32_t p = 1; p <= devices && p <= GAL_STAGES_MAX && p <= blocks && length + 16 < TEXT_BYTES; p++) {
        if (devices % p == 0) {
            length += (size_t)snprintf(text + length, TEXT_BYTES - length, "%s%u", length > 0 ? ", " : "", p);
        }
    }
}

static bool wrong_pp(const gal_search_request *request, uint32_t number, char text[TEXT_BYTES])
{
    const uint32_t devices = gal_durations_cluster(request->durations)->device_count;
    const uint32_t blocks = gal_model_block_count(request->model);
    char degrees[TEXT_BYTES];
    list_degrees(devices, blocks, degrees);
    if (devices % number != 0) {
        (void)snprintf(text, TEXT_BYTES, "%u does not divide the %u devices; these do: %.128s", number, devices,
                       degrees);
    } else if (number > blocks) {
        (void)snprintf(text, TEXT_BYTES, "%u is more than the %u blocks of the model; there are: %.128s", number,
                       blocks, degrees);
    } else if (number == 1 && request->schedule == GAL_SCHEDULE_INTERLEAVED) {
        (void)snprintf(text, TEXT_BYTES, "1 has no stages to interleave; there are: %.128s", degrees);
    } else {
        return false;
    }
    return true;
}

gal_code gal_search_numbers_rule(const gal_search_request *request, const char *microbatches,
                                 const gal_u32_list *pp_degrees, gal_error *err)
{
    const bool is_range = microbatches != NULL && strncmp(microbatches, "max:", 4) == 0;
    const gal_u32_list none = {0};
    const gal_code code =
        list_rule(request, "microbatches", is_range ? &none : &request->microbatch_counts, wrong_microbatches, err);
    return code == GAL_OK ? list_rule(request, "pp", pp_degrees, wrong_pp, err) : code;
}
