#include "schemas/certificate.h"

#include <stddef.h>

#include "schemas/limits.h"

#define X(enumerator, name) [enumerator] = name,
static const char *const objective_names[GAL_OBJECTIVE_COUNT] = {GAL_OBJECTIVES(X)};
#undef X

/* As `galplan search --space` and --takeaways call them. */
static const struct {
    const char *name;
    size_t offset;
} parts[] = {{"dp", offsetof(gal_space, axis[GAL_AXIS_DP])},
             {"sdp", offsetof(gal_space, axis[GAL_AXIS_SDP])},
             {"zero1", offsetof(gal_space, zero_stage[1])},
             {"zero2", offsetof(gal_space, zero_stage[2])},
             {"zero3", offsetof(gal_space, zero_stage[3])},
             {"tp", offsetof(gal_space, axis[GAL_AXIS_TP])},
             {"sp", offsetof(gal_space, sequence_parallel)},
             {"recompute", offsetof(gal_space, recompute)},
             {"selective", offsetof(gal_space, selective)},
             {"takeaway1", offsetof(gal_space, takeaway[1])},
             {"takeaway2", offsetof(gal_space, takeaway[2])},
             {"takeaway3", offsetof(gal_space, takeaway[3])},
             {"ulysses", offsetof(gal_space, axis[GAL_AXIS_ULYSSES])},
             {"ring", offsetof(gal_space, axis[GAL_AXIS_RING])},
             {"2d", offsetof(gal_space, tp_grid[GAL_TP_2D])},
             {"2.5d", offsetof(gal_space, tp_grid[GAL_TP_2P5D])},
             {"3d", offsetof(gal_space, tp_grid[GAL_TP_3D])},
             {"zigzag", offsetof(gal_space, axis[GAL_AXIS_ZIGZAG])},
             {"keep", offsetof(gal_space, keep_panels)},
             {"stepped", offsetof(gal_space, stepped)},
             {"overlap", offsetof(gal_space, overlap)},
             {"bucket", offsetof(gal_space, bucket)},
             {"chunk", offsetof(gal_space, chunk)},
             {"offload", offsetof(gal_space, offload)}};
enum { PARTS = sizeof parts / sizeof parts[0], PARTS_ALWAYS = 12 }; /* those behind: absent where they are false */

static void read_list(const gal_json_cursor *at, const char *key, uint32_t most, gal_u32_list *out)
{
    const gal_json_cursor list = gal_json_array(at, key, 1, GAL_U32_LIST_MAX, &out->count);
    for (uint32_t i = 0; i < out->count; i++) {
        out->value[i] = (uint32_t)gal_json_element_u64(&list, i, 1, most);
    }
}

static void read_host(const gal_json_cursor *at, gal_host_charge *out)
{
    out->host_memory_bytes = gal_json_u64(at, "host_memory_bytes", 1, GAL_BYTES_MAX);
    out->seconds_per_byte = gal_json_f64(at, "seconds_per_byte", GAL_SECONDS_PER_BYTE_MIN, GAL_SECONDS_MAX);
    out->storage = gal_json_bool(at, "storage");
    out->masters = gal_json_has(at, "storage_masters") && gal_json_bool(at, "storage_masters");
    out->weights = gal_json_has(at, "storage_parameters") && gal_json_bool(at, "storage_parameters");
    out->activations = gal_json_has(at, "storage_activations") && gal_json_bool(at, "storage_activations");
    if ((out->masters || out->weights || out->activations) && !out->storage) {
        gal_json_member_error(at, "storage",
                              "must be true with storage_masters, storage_parameters or storage_activations");
    }
    gal_json_reject_unknown(at);
}

void gal_certificate_read_at(const gal_json_cursor *at, gal_certificate *out)
{
    *out = (gal_certificate){.present = true};
    out->objective = (gal_objective)gal_json_enum(at, "objective", objective_names, GAL_OBJECTIVE_COUNT);
    out->memory_bytes = gal_json_u64(at, "memory_bytes", 1, GAL_BYTES_MAX);
    const gal_json_cursor space = gal_json_object(at, "space");
    for (size_t i = 0; i < PARTS; i++) {
        if (i < PARTS_ALWAYS || gal_json_has(&space, parts[i].name)) {
            *(bool *)((char *)&out->space + parts[i].offset) = gal_json_bool(&space, parts[i].name);
        }
    }
    gal_json_reject_unknown(&space);
    read_list(at, "microbatch_counts", GAL_BATCH_SAMPLES_MAX, &out->microbatch_counts);
    read_list(at, "pp_degrees", GAL_DEVICES_MAX, &out->pp_degrees);
    out->searched_bound_seconds = gal_json_f64(at, "searched_bound_seconds", 0.0, GAL_SECONDS_MAX);
    if (gal_json_has(at, "host")) {
        const gal_json_cursor host = gal_json_object(at, "host");
        read_host(&host, &out->host);
    }
    gal_json_reject_unknown(at);
}

static void write_list(gal_json_writer *out, const char *key, const gal_u32_list *list)
{
    gal_json_begin_array(out, key);
    for (uint32_t i = 0; i < list->count; i++) {
        gal_json_put_u64(out, NULL, list->value[i]);
    }
    gal_json_end_array(out);
}

void gal_certificate_write_at(gal_json_writer *out, const gal_certificate *certificate)
{
    gal_json_put_string(out, "objective", objective_names[certificate->objective]);
    gal_json_put_u64(out, "memory_bytes", certificate->memory_bytes);
    gal_json_begin_object(out, "space");
    for (size_t i = 0; i < PARTS; i++) {
        const bool allowed = *(const bool *)((const char *)&certificate->space + parts[i].offset);
        if (allowed || i < PARTS_ALWAYS) {
            gal_json_put_bool(out, parts[i].name, allowed);
        }
    }
    gal_json_end_object(out);
    write_list(out, "microbatch_counts", &certificate->microbatch_counts);
    write_list(out, "pp_degrees", &certificate->pp_degrees);
    gal_json_put_f64(out, "searched_bound_seconds", certificate->searched_bound_seconds);
    if (certificate->host.host_memory_bytes > 0) {
        gal_json_begin_object(out, "host");
        gal_json_put_u64(out, "host_memory_bytes", certificate->host.host_memory_bytes);
        gal_json_put_f64(out, "seconds_per_byte", certificate->host.seconds_per_byte);
        gal_json_put_bool(out, "storage", certificate->host.storage);
        if (certificate->host.masters) {
            gal_json_put_bool(out, "storage_masters", true);
        }
        if (certificate->host.weights) {
            gal_json_put_bool(out, "storage_parameters", true);
        }
        if (certificate->host.activations) {
            gal_json_put_bool(out, "storage_activations", true);
        }
        gal_json_end_object(out);
    }
}
