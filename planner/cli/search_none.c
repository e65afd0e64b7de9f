#include "planner/cli/search_none.h"

#include <stdio.h>

#include "schemas/limits.h"

enum { DEVICES_AT_LEAST = 1024, DEVICES_TIMES = 4 };

gal_code gal_no_plan_find(gal_no_plan *none, gal_error *err)
{
    const uint32_t times = none->whole->device_count > GAL_DEVICES_MAX / DEVICES_TIMES
                               ? GAL_DEVICES_MAX
                               : DEVICES_TIMES * none->whole->device_count;
    if (none->result->beyond_host_bytes > 0) {
        return GAL_OK;
    }
    none->most_devices = times > DEVICES_AT_LEAST ? times : DEVICES_AT_LEAST;
    const gal_device_counts counts = {none->whole, none->most_devices};
    return gal_least_devices_find(none->request, &none->pp_degrees, &counts, &none->devices, err);
}

static uint64_t memory_of(const gal_no_plan *none)
{
    const uint64_t own = gal_durations_cluster(none->request->durations)->device.memory_bytes;
    return none->request->memory_bytes != 0 ? none->request->memory_bytes : own;
}

static const char *binding_limit(const gal_search_result *result)
{
    return result->beyond_host_bytes > 0 ? "host_memory"
           : result->cell_count == 0     ? "divisibility"
           : result->least_bytes == 0    ? "space"
                                         : "memory";
}

static void print_devices(const gal_no_plan *none)
{
    const gal_least_devices *d = &none->devices;
    const uint32_t node = gal_node_devices(none->whole);
    fprintf(stderr, "galplan: ");
    if (d->exists) {
        fprintf(stderr, "%s number of devices that would do is %u: batch %u in %u microbatches, pp_degree %u",
                d->proven ? "the least" : "a", d->device_count, d->numbers.global_batch_samples,
                d->numbers.microbatch_count, d->numbers.pp_degree);
    } else {
        fprintf(stderr, "%s number of devices up to %u would do", d->proven ? "no" : "of none it is known that a",
                none->most_devices);
    }
    fprintf(stderr, " (tried: divisors of a node of %u, then whole nodes)\n", node);
}

static uint64_t host_memory_of(const gal_no_plan *none)
{
    const uint64_t own = gal_durations_cluster(none->request->durations)->device.host_memory_bytes;
    return none->request->host_memory_bytes != 0 ? none->request->host_memory_bytes : own;
}

/* Devices would do: their least memory and number are of no help. */
static void print_host(const gal_no_plan *none)
{
    fprintf(stderr,
            "galplan: no plan was found within %.1f MiB of host memory per device: the fastest that fits in %.1f MiB "
            "of the device has %.1f MiB there; raise --host-memory or --memory, or give --storage-memory\n",
            (double)host_memory_of(none) / 1048576.0, (double)memory_of(none) / 1048576.0,
            (double)none->result->beyond_host_bytes / 1048576.0);
}

void gal_no_plan_print(const gal_no_plan *none)
{
    const gal_search_result *r = none->result;
    if (r->beyond_host_bytes > 0) {
        print_host(none);
        return;
    }
    if (r->cell_count == 0) {
        fprintf(stderr, "galplan: no plan: %s\n", r->refusal);
    } else if (r->least_bytes == 0) {
        fprintf(stderr,
                "galplan: no plan: no strategy of --space is legal for every block (batch, heads, ffn, vocabulary "
                "and sequence must divide; no tensor may pass 2^32 elements)\n");
    } else {
        fprintf(stderr,
                "galplan: no plan fits in %.1f MiB per device: the least that would do is %llu bytes (%.1f MiB), with "
                "batch %u in %u microbatches, pp_degree %u\n",
                (double)memory_of(none) / 1048576.0, (unsigned long long)r->least_bytes,
                (double)r->least_bytes / 1048576.0, r->least_numbers.global_batch_samples,
                r->least_numbers.microbatch_count, r->least_numbers.pp_degree);
        if (r->least_bound_bytes < r->least_bytes) {
            fprintf(stderr, "galplan: proven is that less than %llu bytes would not\n",
                    (unsigned long long)r->least_bound_bytes);
        }
    }
    print_devices(none);
}

static void put_numbers(gal_json_writer *out, const char *key, const gal_cell_numbers *numbers)
{
    gal_json_begin_object(out, key);
    gal_json_put_u64(out, "global_batch_samples", numbers->global_batch_samples);
    gal_json_put_u64(out, "microbatch_count", numbers->microbatch_count);
    gal_json_put_u64(out, "pp_degree", numbers->pp_degree);
    gal_json_end_object(out);
}

void gal_no_plan_put(const gal_no_plan *none, gal_json_writer *out)
{
    const gal_search_result *r = none->result;
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
    gal_json_put_u64(out, "least_device_count", none->devices.exists ? none->devices.device_count : 0);
    gal_json_put_bool(out, "least_device_count_is_exact", none->devices.proven);
    if (none->devices.exists) {
        put_numbers(out, "least_device_count_plan", &none->devices.numbers);
    }
    gal_json_put_u64(out, "most_device_count_tried", none->most_devices);
}

void gal_no_plan_print_named(const gal_algorithm *algorithm, const gal_search_result *result, uint64_t memory_bytes)
{
    if (result->cell_count == 0) {
        fprintf(stderr, "galplan: no plan: %s\n", result->refusal);
    } else if (result->least_bytes == 0) {
        fprintf(stderr, "galplan: no plan: by its own count of bytes %s finds none in %.1f MiB per device%s\n",
                algorithm->name, (double)memory_bytes / 1048576.0,
                result->unproven_cell_count > 0 ? ", or did not finish (too large, or --time-limit)" : "");
    } else {
        fprintf(stderr,
                "galplan: no plan fits in %.1f MiB per device: the smallest plan met needs %.1f MiB; try more devices, "
                "a smaller batch, more microbatches or a larger --space\n",
                (double)memory_bytes / 1048576.0, (double)result->least_bytes / 1048576.0);
    }
}
