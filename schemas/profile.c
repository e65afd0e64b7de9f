#include "schemas/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/document.h"
#include "schemas/limits.h"
#include "schemas/plan.h"

#define X(enumerator, name) [enumerator] = name,
const char *const gal_source_names[GAL_SOURCE_COUNT] = {GAL_SOURCES(X)};
const char *const gal_activity_names[GAL_ACTIVITY_COUNT] = {GAL_ACTIVITIES(X)};
#undef X

#define SLOWDOWN_MAX 1000.0

static void sort_tables(gal_profile *profile)
{
    if (profile->operator_count > 0) {
        qsort(profile->operators, profile->operator_count, sizeof *profile->operators, gal_operator_compare);
    }
    if (profile->collective_count > 0) {
        qsort(profile->collectives, profile->collective_count, sizeof *profile->collectives, gal_collective_compare);
    }
}

/* ---- reading ---- */

static void read_operator(const gal_json_cursor *at, gal_profile_operator *out)
{
    uint32_t dim_count;
    *out = (gal_profile_operator){0};
    out->shape.op = (gal_op)gal_json_enum(at, "op", gal_op_names, GAL_OP_COUNT);
    if (gal_op_is_collective[out->shape.op]) {
        gal_json_member_error(at, "op", "must be a kernel (collectives have their own table)");
    }
    out->shape.dtype = (gal_dtype)gal_json_enum(at, "dtype", gal_dtype_names, GAL_DTYPE_COUNT);
    uint32_t expected = gal_op_dim_count[out->shape.op];
    gal_json_cursor dims = gal_json_array(at, "dims", expected, expected, &dim_count);
    for (uint32_t i = 0; i < dim_count; i++) {
        out->shape.dims[i] = (uint32_t)gal_json_element_u64(&dims, i, 0, UINT32_MAX);
    }
    out->seconds = gal_json_f64(at, "seconds", 0.0, GAL_SECONDS_MAX);
    out->spread_seconds = gal_json_f64(at, "spread_seconds", 0.0, GAL_SECONDS_MAX);
    out->source = (gal_source)gal_json_enum(at, "source", gal_source_names, GAL_SOURCE_COUNT);
    gal_json_reject_unknown(at);
}

/* How many parts of a level's devices a group can reach: the level's span over that of the level below. */
static uint32_t level_width(const gal_cluster *cluster, uint32_t level)
{
    uint32_t below = level == 0 ? 1 : cluster->level[level - 1].span_devices;
    return below == 0 ? 1 : cluster->level[level].span_devices / below;
}

static void read_level_counts(const gal_json_cursor *at, const gal_cluster *cluster, gal_profile_collective *out)
{
    uint32_t level_count;
    uint32_t crossed = 0;
    uint64_t members = 1;
    for (uint32_t i = 0; i < GAL_LINK_LEVELS_MAX; i++) {
        out->level_counts[i] = 1;
    }
    gal_json_cursor counts =
        gal_json_array(at, "level_counts", cluster->level_count, cluster->level_count, &level_count);
    for (uint32_t i = 0; i < level_count; i++) {
        out->level_counts[i] = (uint32_t)gal_json_element_u64(&counts, i, 1, level_width(cluster, i));
        members *= out->level_counts[i];
        crossed += out->level_counts[i] > 1;
    }
    if (members < 2) {
        gal_json_member_error(at, "level_counts", "must give a group of at least 2 members");
    }
    if (out->op == GAL_OP_SEND && (crossed != 1 || members != 2)) {
        gal_json_member_error(at, "level_counts", "must be 2 at one level and 1 elsewhere for send");
    }
}

static void read_collective(const gal_json_cursor *at, const gal_cluster *cluster, gal_profile_collective *out)
{
    *out = (gal_profile_collective){0};
    out->op = (gal_op)gal_json_enum(at, "op", gal_op_names, GAL_OP_COUNT);
    if (!gal_op_is_collective[out->op] || out->op == GAL_OP_RECEIVE) {
        gal_json_member_error(at, "op", "must be a collective or send");
    }
    read_level_counts(at, cluster, out);
    out->bytes = gal_json_u64(at, "bytes", 1, GAL_BYTES_MAX);
    out->seconds = gal_json_f64(at, "seconds", 0.0, GAL_SECONDS_MAX);
    out->spread_seconds = gal_json_f64(at, "spread_seconds", 0.0, GAL_SECONDS_MAX);
    out->source = (gal_source)gal_json_enum(at, "source", gal_source_names, GAL_SOURCE_COUNT);
    gal_json_reject_unknown(at);
}

/* Both keys or neither. */
static void read_again(const gal_json_cursor *at, const char *key, const char *operator_key, gal_profile_again *out)
{
    if (gal_json_has(at, key) || gal_json_has(at, operator_key)) {
        out->seconds = gal_json_f64(at, key, GAL_POSITIVE_MIN, GAL_SECONDS_MAX);
        out->operator_seconds = gal_json_f64(at, operator_key, GAL_POSITIVE_MIN, GAL_SECONDS_MAX);
    }
}

static void read_block(const gal_json_cursor *at, gal_profile_block *out)
{
    out->kind = (gal_block_kind)gal_json_enum(at, "kind", gal_block_kind_names, GAL_BLOCK_KIND_COUNT);
    out->tp_degree = gal_json_u32(at, "tp_degree", 1, GAL_DEVICES_MAX);
    out->samples = gal_json_u32(at, "samples", 1, GAL_BATCH_SAMPLES_MAX);
    out->forward_seconds = gal_json_f64(at, "forward_seconds", GAL_POSITIVE_MIN, GAL_SECONDS_MAX);
    out->backward_seconds = gal_json_f64(at, "backward_seconds", GAL_POSITIVE_MIN, GAL_SECONDS_MAX);
    out->forward_operator_seconds = gal_json_f64(at, "forward_operator_seconds", GAL_POSITIVE_MIN, GAL_SECONDS_MAX);
    out->backward_operator_seconds = gal_json_f64(at, "backward_operator_seconds", GAL_POSITIVE_MIN, GAL_SECONDS_MAX);
    read_again(at, "backward_full_seconds", "backward_full_operator_seconds", &out->backward_full);
    read_again(at, "backward_selective_seconds", "backward_selective_operator_seconds", &out->backward_selective);
    gal_json_reject_unknown(at);
}

void gal_profile_copies_are_kernels(gal_profile *profile)
{
    double(*const of)[GAL_ACTIVITY_COUNT] = profile->slowdown;
    for (uint32_t i = 0; i < GAL_ACTIVITY_COPY; i++) {
        of[i][GAL_ACTIVITY_COPY] = of[i][GAL_ACTIVITY_COMPUTE];
        of[GAL_ACTIVITY_COPY][i] = of[GAL_ACTIVITY_COMPUTE][i];
    }
    of[GAL_ACTIVITY_COPY][GAL_ACTIVITY_COPY] = of[GAL_ACTIVITY_COMPUTE][GAL_ACTIVITY_COMPUTE];
}

/* Of activities that a profile from before they were measured has no row and column of: they slow nobody and are not
 * slowed. */
static void read_slowdown(const gal_json_cursor *root, gal_profile *out)
{
    uint32_t row_count;
    uint32_t column_count;
    gal_json_cursor rows = gal_json_array(root, "slowdown", GAL_ACTIVITY_COPY, GAL_ACTIVITY_COUNT, &row_count);
    for (uint32_t i = 0; i < row_count; i++) {
        gal_json_cursor row = gal_json_element_array(&rows, i, row_count, row_count, &column_count);
        for (uint32_t j = 0; j < column_count; j++) {
            out->slowdown[i][j] = gal_json_element_f64(&row, j, 1.0, SLOWDOWN_MAX);
        }
    }
    for (uint32_t i = 0; i < GAL_ACTIVITY_COUNT; i++) {
        for (uint32_t j = row_count; j < GAL_ACTIVITY_COUNT; j++) {
            out->slowdown[i][j] = out->slowdown[j][i] = 1.0;
        }
    }
    if (row_count == GAL_ACTIVITY_COPY && !gal_json_has(root, "gpu") && out->cluster.device.multiprocessor_count == 0) {
        gal_profile_copies_are_kernels(out);
    }
}

static void read_copies(const gal_json_cursor *at, const char *key, gal_profile_copies *out)
{
    gal_json_cursor copies = gal_json_object(at, key);
    out->latency_seconds = gal_json_f64(&copies, "latency_seconds", 0.0, GAL_SECONDS_MAX);
    out->bytes_per_second = gal_json_f64(&copies, "bytes_per_second", GAL_POSITIVE_MIN, GAL_RATE_MAX);
    gal_json_reject_unknown(&copies);
}

/* A list whose entries have a whole number that rises from each to the next. */
typedef struct rising_list {
    const char *name, *key;
    uint32_t count_min, count_max;
    /* Reads entry [index] of entries and gives its number. */
    uint32_t (*read)(const gal_json_cursor *at, const char *key, void *entries, uint32_t index);
} rising_list;

/* entries  room for list->count_max of what list->read takes
 * Returns how many there are. */
static uint32_t read_rising(const gal_json_cursor *at, const rising_list *list, void *entries)
{
    uint32_t count, before = 0;
    gal_json_cursor array = gal_json_array(at, list->name, list->count_min, list->count_max, &count);
    for (uint32_t i = 0; i < count; i++) {
        gal_json_cursor entry = gal_json_element(&array, i);
        const uint32_t number = list->read(&entry, list->key, entries, i);
        if (i > 0 && number <= before) {
            gal_json_member_error(&entry, list->key, "must be more than in the entry before");
        }
        before = number;
        gal_json_reject_unknown(&entry);
    }
    return count;
}

static uint32_t read_ctas(const gal_json_cursor *at, const char *key, void *entries, uint32_t index)
{
    gal_profile_ctas *out = (gal_profile_ctas *)entries + index;
    out->ctas = gal_json_u32(at, key, 1, GAL_COMMUNICATION_CTAS_MAX);
    out->compute = gal_json_f64(at, "compute", 1.0, SLOWDOWN_MAX);
    out->communication = gal_json_f64(at, "communication", 1.0, SLOWDOWN_MAX);
    if (gal_json_has(at, "communication_alone")) {
        out->communication_alone = gal_json_f64(at, "communication_alone", GAL_POSITIVE_MIN, SLOWDOWN_MAX);
    }
    return out->ctas;
}

static uint32_t read_adam(const gal_json_cursor *at, const char *key, void *entries, uint32_t index)
{
    gal_profile_adam *out = (gal_profile_adam *)entries + index;
    out->threads = gal_json_u32(at, key, 1, GAL_PROFILE_THREADS_MAX);
    out->elements_per_second = gal_json_f64(at, "elements_per_second", GAL_POSITIVE_MIN, GAL_RATE_MAX);
    return out->threads;
}

static uint32_t read_node(const gal_json_cursor *at, const char *key, void *entries, uint32_t index)
{
    gal_profile_node *out = (gal_profile_node *)entries + index;
    out->node = gal_json_u32(at, key, 0, GAL_NUMA_NODE_MAX);
    read_copies(at, "to_device", &out->to_device);
    read_copies(at, "from_device", &out->from_device);
    return out->node;
}

static const rising_list ctas_list = {"slowdown_by_ctas", "ctas", 0, GAL_PROFILE_CTAS_MAX, read_ctas};
static const rising_list adam_list = {"adam_by_threads", "threads", 1, GAL_PROFILE_ADAMS_MAX, read_adam};
static const rising_list node_list = {"copies_by_node", "node", 1, GAL_PROFILE_NODES_MAX, read_node};

static void read_host(const gal_json_cursor *root, gal_profile *out)
{
    out->has_host = gal_json_has(root, "host");
    if (out->has_host) {
        gal_json_cursor at = gal_json_object(root, "host");
        out->host.threads_per_rank = gal_json_u32(&at, "threads_per_rank", 1, GAL_PROFILE_THREADS_MAX);
        out->host.adam_count = read_rising(&at, &adam_list, out->host.adam);
        out->host.node_count = read_rising(&at, &node_list, out->host.node);
        gal_json_reject_unknown(&at);
    }
}

/* Profiles from before "host" was there have its rates in "gpu": of one thread, of a node that they do not name. */
static void read_host_in_gpu(const gal_json_cursor *at, gal_profile *out)
{
    gal_profile_host *host = &out->host;
    if (!gal_json_has(at, "to_device") && !gal_json_has(at, "from_device") &&
        !gal_json_has(at, "host_adam_elements_per_second")) {
        return;
    }
    if (out->has_host) {
        gal_json_error(at, "to_device, from_device and host_adam_elements_per_second must not stand beside /host");
        return;
    }
    out->has_host = true;
    host->threads_per_rank = host->adam[0].threads = host->adam_count = host->node_count = 1;
    read_copies(at, "to_device", &host->node[0].to_device);
    read_copies(at, "from_device", &host->node[0].from_device);
    host->adam[0].elements_per_second =
        gal_json_f64(at, "host_adam_elements_per_second", GAL_POSITIVE_MIN, GAL_RATE_MAX);
}

static void read_gpu(const gal_json_cursor *root, gal_profile *out)
{
    gal_profile_gpu *gpu = &out->gpu;
    out->has_gpu = gal_json_has(root, "gpu");
    if (!out->has_gpu) {
        return;
    }
    gal_json_cursor at = gal_json_object(root, "gpu");
    gpu->context_bytes = gal_json_u64(&at, "context_bytes", 0, GAL_BYTES_MAX);
    gpu->library_bytes = gal_json_u64(&at, "library_bytes", 0, GAL_BYTES_MAX);
    gpu->communicator_bytes = gal_json_u64(&at, "communicator_bytes", 0, GAL_BYTES_MAX);
    gpu->clock_hertz = gal_json_f64(&at, "clock_hertz", 0.0, GAL_RATE_MAX);
    gpu->clock_hertz_max = gal_json_f64(&at, "clock_hertz_max", 0.0, GAL_RATE_MAX);
    read_host_in_gpu(&at, out);
    gpu->tf32 = gal_json_has(&at, "tf32") && gal_json_bool(&at, "tf32");
    gpu->by_ctas_count = read_rising(&at, &ctas_list, gpu->by_ctas);
    gal_json_reject_unknown(&at);
}

/* False without memory. Every table has one entry more than it needs: no allocation of 0 bytes. */
static bool read_tables(const gal_json_cursor *root, gal_profile *out)
{
    gal_json_cursor operators = gal_json_array(root, "operators", 0, GAL_PROFILE_ENTRIES_MAX, &out->operator_count);
    gal_json_cursor collectives =
        gal_json_array(root, "collectives", 0, GAL_PROFILE_ENTRIES_MAX, &out->collective_count);
    gal_json_cursor blocks = gal_json_array(root, "blocks", 0, GAL_PROFILE_ENTRIES_MAX, &out->block_count);
    out->operators = calloc((size_t)out->operator_count + 1, sizeof *out->operators);
    out->collectives = calloc((size_t)out->collective_count + 1, sizeof *out->collectives);
    out->blocks = calloc((size_t)out->block_count + 1, sizeof *out->blocks);
    if (out->operators == NULL || out->collectives == NULL || out->blocks == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < out->operator_count; i++) {
        gal_json_cursor entry = gal_json_element(&operators, i);
        read_operator(&entry, &out->operators[i]);
    }
    for (uint32_t i = 0; i < out->collective_count; i++) {
        gal_json_cursor entry = gal_json_element(&collectives, i);
        read_collective(&entry, &out->cluster, &out->collectives[i]);
    }
    for (uint32_t i = 0; i < out->block_count; i++) {
        gal_json_cursor entry = gal_json_element(&blocks, i);
        read_block(&entry, &out->blocks[i]);
    }
    return true;
}

static bool read_profile(const gal_json_cursor *root, void *document)
{
    gal_profile *out = document;
    gal_json_expect_document(root, "profile", GAL_PROFILE_VERSION);
    gal_json_cursor cluster = gal_json_object(root, "cluster");
    gal_cluster_read_at(&cluster, &out->cluster);
    gal_json_string(root, "date", out->date, sizeof out->date);
    gal_json_string(root, "processor", out->processor, sizeof out->processor);
    gal_json_string(root, "libraries", out->libraries, sizeof out->libraries);
    gal_json_string(root, "command", out->command, sizeof out->command);
    out->rank_count = gal_json_u32(root, "rank_count", 1, GAL_DEVICES_MAX);
    out->fixed_bytes = gal_json_u64(root, "fixed_bytes", 0, GAL_BYTES_MAX);
    out->fixed_step_seconds = gal_json_f64(root, "fixed_step_seconds", 0.0, GAL_SECONDS_MAX);
    out->instruction_seconds = gal_json_f64(root, "instruction_seconds", 0.0, GAL_SECONDS_MAX);
    read_slowdown(root, out);
    read_host(root, out);
    read_gpu(root, out);
    bool has_memory = read_tables(root, out);
    gal_json_reject_unknown(root);
    return has_memory;
}

static void shape_text(const gal_shape *shape, char *text, size_t capacity)
{
    size_t used = (size_t)snprintf(text, capacity, "%s %s [", gal_op_names[shape->op], gal_dtype_names[shape->dtype]);
    for (uint32_t i = 0; i < gal_op_dim_count[shape->op]; i++) {
        used += (size_t)snprintf(text + used, capacity - used, "%s%u", i == 0 ? "" : ", ", shape->dims[i]);
    }
    (void)snprintf(text + used, capacity - used, "]");
}

/* The tables are keys: two entries for one key would make prices depend on their order. */
static void refuse_doubles(gal_json_doc *doc, const gal_profile *profile)
{
    char text[320];
    for (uint32_t i = 1; i < profile->operator_count; i++) {
        if (gal_operator_compare(&profile->operators[i - 1], &profile->operators[i]) == 0) {
            char shape[256];
            shape_text(&profile->operators[i].shape, shape, sizeof shape);
            (void)snprintf(text, sizeof text, "must have one entry per shape, got two of %s", shape);
            gal_json_error_at_path(doc, "/operators", text);
            return;
        }
    }
    for (uint32_t i = 1; i < profile->collective_count; i++) {
        const gal_profile_collective *entry = &profile->collectives[i];
        if (gal_collective_compare(entry - 1, entry) == 0) {
            (void)snprintf(text, sizeof text,
                           "must have one entry per op, level_counts and bytes, got two of %s of %llu bytes",
                           gal_op_names[entry->op], (unsigned long long)entry->bytes);
            gal_json_error_at_path(doc, "/collectives", text);
            return;
        }
    }
}

static void finish_profile(gal_json_doc *doc, void *document)
{
    gal_profile *profile = document;
    sort_tables(profile);
    refuse_doubles(doc, profile);
    gal_json_hash(doc, profile->hash);
}

void gal_profile_free(gal_profile *profile)
{
    if (profile == NULL) {
        return;
    }
    free(profile->operators);
    free(profile->collectives);
    free(profile->blocks);
    *profile = (gal_profile){0};
}

/* ---- writing ---- */

static void write_operator(gal_json_writer *out, const gal_profile_operator *entry)
{
    gal_json_begin_object(out, NULL);
    gal_json_put_string(out, "op", gal_op_names[entry->shape.op]);
    gal_json_put_string(out, "dtype", gal_dtype_names[entry->shape.dtype]);
    gal_json_begin_array(out, "dims");
    for (uint32_t i = 0; i < gal_op_dim_count[entry->shape.op]; i++) {
        gal_json_put_u64(out, NULL, entry->shape.dims[i]);
    }
    gal_json_end_array(out);
    gal_json_put_f64(out, "seconds", entry->seconds);
    gal_json_put_f64(out, "spread_seconds", entry->spread_seconds);
    gal_json_put_string(out, "source", gal_source_names[entry->source]);
    gal_json_end_object(out);
}

static void write_collective(gal_json_writer *out, const gal_profile_collective *entry, uint32_t level_count)
{
    gal_json_begin_object(out, NULL);
    gal_json_put_string(out, "op", gal_op_names[entry->op]);
    gal_json_begin_array(out, "level_counts");
    for (uint32_t i = 0; i < level_count; i++) {
        gal_json_put_u64(out, NULL, entry->level_counts[i]);
    }
    gal_json_end_array(out);
    gal_json_put_u64(out, "bytes", entry->bytes);
    gal_json_put_f64(out, "seconds", entry->seconds);
    gal_json_put_f64(out, "spread_seconds", entry->spread_seconds);
    gal_json_put_string(out, "source", gal_source_names[entry->source]);
    gal_json_end_object(out);
}

static void write_again(gal_json_writer *out, const char *key, const char *operator_key, const gal_profile_again *again)
{
    if (again->seconds > 0.0) {
        gal_json_put_f64(out, key, again->seconds);
        gal_json_put_f64(out, operator_key, again->operator_seconds);
    }
}

static void write_block(gal_json_writer *out, const gal_profile_block *entry)
{
    gal_json_begin_object(out, NULL);
    gal_json_put_string(out, "kind", gal_block_kind_names[entry->kind]);
    gal_json_put_u64(out, "tp_degree", entry->tp_degree);
    gal_json_put_u64(out, "samples", entry->samples);
    gal_json_put_f64(out, "forward_seconds", entry->forward_seconds);
    gal_json_put_f64(out, "backward_seconds", entry->backward_seconds);
    gal_json_put_f64(out, "forward_operator_seconds", entry->forward_operator_seconds);
    gal_json_put_f64(out, "backward_operator_seconds", entry->backward_operator_seconds);
    write_again(out, "backward_full_seconds", "backward_full_operator_seconds", &entry->backward_full);
    write_again(out, "backward_selective_seconds", "backward_selective_operator_seconds", &entry->backward_selective);
    gal_json_end_object(out);
}

static void write_tables(gal_json_writer *out, const gal_profile *profile)
{
    gal_json_begin_array(out, "operators");
    for (uint32_t i = 0; i < profile->operator_count; i++) {
        write_operator(out, &profile->operators[i]);
    }
    gal_json_end_array(out);
    gal_json_begin_array(out, "collectives");
    for (uint32_t i = 0; i < profile->collective_count; i++) {
        write_collective(out, &profile->collectives[i], profile->cluster.level_count);
    }
    gal_json_end_array(out);
    gal_json_begin_array(out, "blocks");
    for (uint32_t i = 0; i < profile->block_count; i++) {
        write_block(out, &profile->blocks[i]);
    }
    gal_json_end_array(out);
}

static void write_copies(gal_json_writer *out, const char *key, const gal_profile_copies *copies)
{
    gal_json_begin_object(out, key);
    gal_json_put_f64(out, "latency_seconds", copies->latency_seconds);
    gal_json_put_f64(out, "bytes_per_second", copies->bytes_per_second);
    gal_json_end_object(out);
}

static void write_host(gal_json_writer *out, const gal_profile_host *host)
{
    gal_json_begin_object(out, "host");
    gal_json_put_u64(out, "threads_per_rank", host->threads_per_rank);
    gal_json_begin_array(out, "adam_by_threads");
    for (uint32_t i = 0; i < host->adam_count; i++) {
        gal_json_begin_object(out, NULL);
        gal_json_put_u64(out, "threads", host->adam[i].threads);
        gal_json_put_f64(out, "elements_per_second", host->adam[i].elements_per_second);
        gal_json_end_object(out);
    }
    gal_json_end_array(out);
    gal_json_begin_array(out, "copies_by_node");
    for (uint32_t i = 0; i < host->node_count; i++) {
        gal_json_begin_object(out, NULL);
        gal_json_put_u64(out, "node", host->node[i].node);
        write_copies(out, "to_device", &host->node[i].to_device);
        write_copies(out, "from_device", &host->node[i].from_device);
        gal_json_end_object(out);
    }
    gal_json_end_array(out);
    gal_json_end_object(out);
}

static void write_gpu(gal_json_writer *out, const gal_profile_gpu *gpu)
{
    gal_json_begin_object(out, "gpu");
    gal_json_put_u64(out, "context_bytes", gpu->context_bytes);
    gal_json_put_u64(out, "library_bytes", gpu->library_bytes);
    gal_json_put_u64(out, "communicator_bytes", gpu->communicator_bytes);
    gal_json_put_f64(out, "clock_hertz", gpu->clock_hertz);
    gal_json_put_f64(out, "clock_hertz_max", gpu->clock_hertz_max);
    if (gpu->tf32) {
        gal_json_put_bool(out, "tf32", true);
    }
    gal_json_begin_array(out, "slowdown_by_ctas");
    for (uint32_t i = 0; i < gpu->by_ctas_count; i++) {
        gal_json_begin_object(out, NULL);
        gal_json_put_u64(out, "ctas", gpu->by_ctas[i].ctas);
        gal_json_put_f64(out, "compute", gpu->by_ctas[i].compute);
        gal_json_put_f64(out, "communication", gpu->by_ctas[i].communication);
        if (gpu->by_ctas[i].communication_alone > 0.0) {
            gal_json_put_f64(out, "communication_alone", gpu->by_ctas[i].communication_alone);
        }
        gal_json_end_object(out);
    }
    gal_json_end_array(out);
    gal_json_end_object(out);
}

/* The tables as they are ordered. */
static void write_profile(gal_json_writer *out, const void *document)
{
    const gal_profile *profile = document;
    gal_json_put_string(out, "document", "profile");
    gal_json_put_u64(out, "version", GAL_PROFILE_VERSION);
    gal_json_begin_object(out, "cluster");
    gal_cluster_write_at(out, &profile->cluster);
    gal_json_end_object(out);
    gal_json_put_string(out, "date", profile->date);
    gal_json_put_string(out, "processor", profile->processor);
    gal_json_put_string(out, "libraries", profile->libraries);
    gal_json_put_string(out, "command", profile->command);
    gal_json_put_u64(out, "rank_count", profile->rank_count);
    gal_json_put_u64(out, "fixed_bytes", profile->fixed_bytes);
    gal_json_put_f64(out, "fixed_step_seconds", profile->fixed_step_seconds);
    gal_json_put_f64(out, "instruction_seconds", profile->instruction_seconds);
    gal_json_begin_array(out, "slowdown");
    for (uint32_t i = 0; i < GAL_ACTIVITY_COUNT; i++) {
        gal_json_begin_array(out, NULL);
        for (uint32_t j = 0; j < GAL_ACTIVITY_COUNT; j++) {
            gal_json_put_f64(out, NULL, profile->slowdown[i][j]);
        }
        gal_json_end_array(out);
    }
    gal_json_end_array(out);
    if (profile->has_host) {
        write_host(out, &profile->host);
    }
    if (profile->has_gpu) {
        write_gpu(out, &profile->gpu);
    }
    write_tables(out, profile);
}

static void release_profile(void *profile)
{
    gal_profile_free(profile);
}

const gal_document_form gal_profile_form = {sizeof(gal_profile), read_profile, finish_profile, write_profile,
                                            release_profile};

gal_code gal_profile_read(const char *path, gal_profile *out, gal_error *err)
{
    return gal_document_read(GAL_DOCUMENT_PROFILE, path, out, err);
}

gal_code gal_profile_write(const char *path, gal_profile *profile, gal_error *err)
{
    sort_tables(profile);
    return gal_document_write(GAL_DOCUMENT_PROFILE, path, profile, err);
}
