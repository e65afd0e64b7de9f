#include "schemas/galvatron_profile.h"

#include <stdlib.h>
#include <string.h>

#include "schemas/document.h"
#include "schemas/limits.h"

#define X(enumerator, name) [enumerator] = name,
const char *const gal_galvatron_time_mode_names[GAL_GALVATRON_TIME_MODE_COUNT] = {GAL_GALVATRON_TIME_MODES(X)};
const char *const gal_galvatron_memory_mode_names[GAL_GALVATRON_MEMORY_MODE_COUNT] = {GAL_GALVATRON_MEMORY_MODES(X)};
const char *const gal_galvatron_dtype_names[GAL_GALVATRON_DTYPE_COUNT] = {GAL_GALVATRON_DTYPES(X)};
static const char *const place_names[GAL_GALVATRON_PLACE_COUNT] = {GAL_GALVATRON_PLACES(X)};
static const char *const collective_names[GAL_GALVATRON_COLLECTIVE_COUNT] = {GAL_GALVATRON_COLLECTIVES(X)};
#undef X

#define BYTES_MAX 0x1p53
#define SLOWDOWN_MAX 1000.0

/* ---- tables: every row is numbers, so one reader and one writer go by the columns ---- */

typedef enum column_kind { COLUMN_WHOLE, COLUMN_WHOLE_BYTES, COLUMN_REAL, COLUMN_BOOL, COLUMN_NAME } column_kind;

typedef struct column {
    const char *key;
    column_kind kind;
    size_t offset;
    double min, max;
    const char *const *names;
    uint32_t name_count;
} column;

typedef struct table {
    const char *key;
    size_t rows_offset, count_offset, row_bytes;
    uint32_t min_count;
    const column *columns;
    uint32_t column_count;
} table;

#define WHOLE(row, key, field, max)                                                                                    \
    {                                                                                                                  \
        key, COLUMN_WHOLE, offsetof(row, field), 1.0, (double)(max), NULL, 0                                           \
    }
#define INDEX(row, key, field)                                                                                         \
    {                                                                                                                  \
        key, COLUMN_WHOLE, offsetof(row, field), 0.0, GAL_GALVATRON_ROWS_MAX - 1, NULL, 0                              \
    }
#define REAL(row, key, field, min, max)                                                                                \
    {                                                                                                                  \
        key, COLUMN_REAL, offsetof(row, field), min, max, NULL, 0                                                      \
    }
#define NAME(row, key, field, names, count)                                                                            \
    {                                                                                                                  \
        key, COLUMN_NAME, offsetof(row, field), 0.0, 0.0, names, count                                                 \
    }

static const column layer_type_columns[] = {
    WHOLE(gal_galvatron_layer_type, "layer_count", layer_count, GAL_LAYERS_MAX),
    WHOLE(gal_galvatron_layer_type, "hidden", hidden, GAL_HIDDEN_MAX),
    WHOLE(gal_galvatron_layer_type, "sequence_length", sequence_length, GAL_SEQUENCE_LENGTH_MAX),
};
static const column layer_time_columns[] = {
    INDEX(gal_galvatron_layer_time, "layer_type_index", layer_type),
    WHOLE(gal_galvatron_layer_time, "batch_samples", batch_samples, GAL_BATCH_SAMPLES_MAX),
    WHOLE(gal_galvatron_layer_time, "sequence_length", sequence_length, GAL_SEQUENCE_LENGTH_MAX),
    REAL(gal_galvatron_layer_time, "seconds", seconds, 0.0, GAL_SECONDS_MAX),
};
static const column layer_size_columns[] = {
    INDEX(gal_galvatron_layer_size, "layer_type_index", layer_type),
    WHOLE(gal_galvatron_layer_size, "sequence_length", sequence_length, GAL_SEQUENCE_LENGTH_MAX),
    REAL(gal_galvatron_layer_size, "parameter_bytes", parameter_bytes, 0.0, BYTES_MAX),
    REAL(gal_galvatron_layer_size, "recompute_bytes", recompute_bytes, 0.0, BYTES_MAX),
};
static const column activation_columns[] = {
    INDEX(gal_galvatron_activation, "layer_type_index", layer_type),
    WHOLE(gal_galvatron_activation, "sequence_length", sequence_length, GAL_SEQUENCE_LENGTH_MAX),
    WHOLE(gal_galvatron_activation, "degree", degree, GAL_DEVICES_MAX),
    REAL(gal_galvatron_activation, "bytes", bytes, 0.0, BYTES_MAX),
};
static const column outside_time_columns[] = {
    WHOLE(gal_galvatron_outside_time, "batch_samples", batch_samples, GAL_BATCH_SAMPLES_MAX),
    WHOLE(gal_galvatron_outside_time, "sequence_length", sequence_length, GAL_SEQUENCE_LENGTH_MAX),
    REAL(gal_galvatron_outside_time, "seconds", seconds, 0.0, GAL_SECONDS_MAX),
};
static const column outside_size_columns[] = {
    NAME(gal_galvatron_outside_size, "place", place, place_names, GAL_GALVATRON_PLACE_COUNT),
    WHOLE(gal_galvatron_outside_size, "sequence_length", sequence_length, GAL_SEQUENCE_LENGTH_MAX),
    WHOLE(gal_galvatron_outside_size, "degree", degree, GAL_DEVICES_MAX),
    REAL(gal_galvatron_outside_size, "state_bytes", state_bytes, 0.0, BYTES_MAX),
    REAL(gal_galvatron_outside_size, "activation_bytes", activation_bytes, 0.0, BYTES_MAX),
};
static const column all_reduce_rate_columns[] = {
    WHOLE(gal_galvatron_all_reduce_rate, "group_size", group_size, GAL_DEVICES_MAX),
    {"strided", COLUMN_BOOL, offsetof(gal_galvatron_all_reduce_rate, strided), 0.0, 0.0, NULL, 0},
    REAL(gal_galvatron_all_reduce_rate, "bytes_per_second", bytes_per_second, GAL_POSITIVE_MIN, GAL_RATE_MAX),
};
static const column p2p_rate_columns[] = {
    WHOLE(gal_galvatron_p2p_rate, "stage_count", stage_count, GAL_DEVICES_MAX),
    REAL(gal_galvatron_p2p_rate, "bytes_per_second", bytes_per_second, GAL_POSITIVE_MIN, GAL_RATE_MAX),
};
static const column message_time_columns[] = {
    NAME(gal_galvatron_message_time, "op", op, collective_names, GAL_GALVATRON_COLLECTIVE_COUNT),
    WHOLE(gal_galvatron_message_time, "group_size", group_size, GAL_DEVICES_MAX),
    {"message_bytes", COLUMN_WHOLE_BYTES, offsetof(gal_galvatron_message_time, message_bytes), 1.0, BYTES_MAX, NULL, 0},
    REAL(gal_galvatron_message_time, "seconds", seconds, 0.0, GAL_SECONDS_MAX),
};

#define TABLE(key, member, min_count, columns)                                                                         \
    {                                                                                                                  \
        key, offsetof(gal_galvatron_profile, member), offsetof(gal_galvatron_profile, member##_count),                 \
            sizeof *((gal_galvatron_profile *)NULL)->member, min_count, columns, sizeof columns / sizeof columns[0]    \
    }

static const table tables[] = {
    TABLE("layer_types", layer_type, 1, layer_type_columns),
    TABLE("layer_times", layer_time, 1, layer_time_columns),
    TABLE("layer_sizes", layer_size, 1, layer_size_columns),
    TABLE("activations", activation, 1, activation_columns),
    TABLE("outside_times", outside_time, 1, outside_time_columns),
    TABLE("outside_sizes", outside_size, 1, outside_size_columns),
    TABLE("all_reduce_rates", all_reduce_rate, 0, all_reduce_rate_columns),
    TABLE("p2p_rates", p2p_rate, 0, p2p_rate_columns),
    TABLE("message_times", message_time, 0, message_time_columns),
};
enum { TABLE_COUNT = sizeof tables / sizeof tables[0] };

/* Pointers of several types: copied as bytes. */
static char *rows_of(const table *t, const gal_galvatron_profile *profile)
{
    char *rows;
    memcpy(&rows, (const char *)profile + t->rows_offset, sizeof rows);
    return rows;
}

static uint32_t count_of(const table *t, const gal_galvatron_profile *profile)
{
    uint32_t count;
    memcpy(&count, (const char *)profile + t->count_offset, sizeof count);
    return count;
}

static void read_value(const gal_json_cursor *at, const column *c, void *value)
{
    switch (c->kind) {
    case COLUMN_WHOLE:
        *(uint32_t *)value = gal_json_u32(at, c->key, (uint32_t)c->min, (uint32_t)c->max);
        break;
    case COLUMN_WHOLE_BYTES:
        *(uint64_t *)value = gal_json_u64(at, c->key, (uint64_t)c->min, (uint64_t)c->max);
        break;
    case COLUMN_REAL:
        *(double *)value = gal_json_f64(at, c->key, c->min, c->max);
        break;
    case COLUMN_BOOL:
        *(bool *)value = gal_json_bool(at, c->key);
        break;
    case COLUMN_NAME:
        *(uint32_t *)value = gal_json_enum(at, c->key, c->names, c->name_count);
        break;
    }
}

static void write_value(gal_json_writer *out, const column *c, const void *value)
{
    switch (c->kind) {
    case COLUMN_WHOLE:
        gal_json_put_u64(out, c->key, *(const uint32_t *)value);
        break;
    case COLUMN_WHOLE_BYTES:
        gal_json_put_u64(out, c->key, *(const uint64_t *)value);
        break;
    case COLUMN_REAL:
        gal_json_put_f64(out, c->key, *(const double *)value);
        break;
    case COLUMN_BOOL:
        gal_json_put_bool(out, c->key, *(const bool *)value);
        break;
    case COLUMN_NAME:
        gal_json_put_string(out, c->key, c->names[*(const uint32_t *)value]);
        break;
    }
}

/* False without memory. No allocation of 0 bytes. */
static bool read_table(const gal_json_cursor *root, const table *t, gal_galvatron_profile *out)
{
    uint32_t count;
    gal_json_cursor array = gal_json_array(root, t->key, t->min_count, GAL_GALVATRON_ROWS_MAX, &count);
    char *rows = calloc((size_t)count + 1, t->row_bytes);
    memcpy((char *)out + t->rows_offset, &rows, sizeof rows);
    memcpy((char *)out + t->count_offset, &count, sizeof count);
    for (uint32_t i = 0; rows != NULL && i < count; i++) {
        gal_json_cursor at = gal_json_element(&array, i);
        for (uint32_t c = 0; c < t->column_count; c++) {
            read_value(&at, &t->columns[c], rows + i * t->row_bytes + t->columns[c].offset);
        }
        gal_json_reject_unknown(&at);
    }
    return rows != NULL;
}

static void write_table(gal_json_writer *out, const table *t, const gal_galvatron_profile *profile)
{
    const char *rows = rows_of(t, profile);
    gal_json_begin_array(out, t->key);
    for (uint32_t i = 0; i < count_of(t, profile); i++) {
        gal_json_begin_object(out, NULL);
        for (uint32_t c = 0; c < t->column_count; c++) {
            write_value(out, &t->columns[c], rows + i * t->row_bytes + t->columns[c].offset);
        }
        gal_json_end_object(out);
    }
    gal_json_end_array(out);
}

/* ---- the document ---- */

static bool read_galvatron_profile(const gal_json_cursor *root, void *document)
{
    gal_galvatron_profile *out = document;
    gal_json_expect_document(root, "galvatron_profile", GAL_GALVATRON_PROFILE_VERSION);
    gal_json_string(root, "name", out->name, sizeof out->name);
    out->dtype =
        (gal_galvatron_dtype)gal_json_enum(root, "dtype", gal_galvatron_dtype_names, GAL_GALVATRON_DTYPE_COUNT);
    out->device_count = gal_json_u32(root, "device_count", 1, GAL_DEVICES_MAX);
    out->synchronous_reduce = gal_json_bool(root, "synchronous_reduce");
    out->time_mode = (gal_galvatron_time_mode)gal_json_enum(root, "time_mode", gal_galvatron_time_mode_names,
                                                            GAL_GALVATRON_TIME_MODE_COUNT);
    out->memory_mode = (gal_galvatron_memory_mode)gal_json_enum(root, "memory_mode", gal_galvatron_memory_mode_names,
                                                                GAL_GALVATRON_MEMORY_MODE_COUNT);
    out->sequence_parallel = gal_json_bool(root, "sequence_parallel");
    out->overlap_slowdown = gal_json_f64(root, "overlap_slowdown", 1.0, SLOWDOWN_MAX);
    bool has_memory = true;
    for (uint32_t t = 0; t < TABLE_COUNT && has_memory; t++) {
        has_memory = read_table(root, &tables[t], out);
    }
    gal_json_reject_unknown(root);
    return has_memory;
}

uint32_t gal_galvatron_layer_count(const gal_galvatron_profile *profile)
{
    uint32_t count = 0;
    for (uint32_t t = 0; t < profile->layer_type_count; t++) {
        count += profile->layer_type[t].layer_count;
    }
    return count;
}

static void finish_galvatron_profile(gal_json_doc *doc, void *document)
{
    const gal_galvatron_profile *p = document;
    uint32_t last = 0;
    for (uint32_t i = 0; i < p->layer_time_count; i++) {
        last = p->layer_time[i].layer_type > last ? p->layer_time[i].layer_type : last;
    }
    for (uint32_t i = 0; i < p->layer_size_count; i++) {
        last = p->layer_size[i].layer_type > last ? p->layer_size[i].layer_type : last;
    }
    for (uint32_t i = 0; i < p->activation_count; i++) {
        last = p->activation[i].layer_type > last ? p->activation[i].layer_type : last;
    }
    if (last >= p->layer_type_count) {
        gal_json_error_at_path(doc, "/layer_types", "must have a row for every layer_type_index");
    } else if (p->layer_type_count > GAL_LAYERS_MAX || gal_galvatron_layer_count(p) > GAL_LAYERS_MAX) {
        gal_json_error_at_path(doc, "/layer_types", "must have at most 4096 layers in all");
    }
}

static void write_galvatron_profile(gal_json_writer *out, const void *document)
{
    const gal_galvatron_profile *profile = document;
    gal_json_put_string(out, "document", "galvatron_profile");
    gal_json_put_u64(out, "version", GAL_GALVATRON_PROFILE_VERSION);
    gal_json_put_string(out, "name", profile->name);
    gal_json_put_string(out, "dtype", gal_galvatron_dtype_names[profile->dtype]);
    gal_json_put_u64(out, "device_count", profile->device_count);
    gal_json_put_bool(out, "synchronous_reduce", profile->synchronous_reduce);
    gal_json_put_string(out, "time_mode", gal_galvatron_time_mode_names[profile->time_mode]);
    gal_json_put_string(out, "memory_mode", gal_galvatron_memory_mode_names[profile->memory_mode]);
    gal_json_put_bool(out, "sequence_parallel", profile->sequence_parallel);
    gal_json_put_f64(out, "overlap_slowdown", profile->overlap_slowdown);
    for (uint32_t t = 0; t < TABLE_COUNT; t++) {
        write_table(out, &tables[t], profile);
    }
}

void gal_galvatron_profile_free(gal_galvatron_profile *profile)
{
    if (profile != NULL) {
        for (uint32_t t = 0; t < TABLE_COUNT; t++) {
            free(rows_of(&tables[t], profile));
        }
        *profile = (gal_galvatron_profile){0};
    }
}

static void release_galvatron_profile(void *profile)
{
    gal_galvatron_profile_free(profile);
}

const gal_document_form gal_galvatron_profile_form = {sizeof(gal_galvatron_profile), read_galvatron_profile,
                                                      finish_galvatron_profile, write_galvatron_profile,
                                                      release_galvatron_profile};

gal_code gal_galvatron_profile_read(const char *path, gal_galvatron_profile *out, gal_error *err)
{
    return gal_document_read(GAL_DOCUMENT_GALVATRON_PROFILE, path, out, err);
}

gal_code gal_galvatron_profile_write(const char *path, const gal_galvatron_profile *profile, gal_error *err)
{
    return gal_document_write(GAL_DOCUMENT_GALVATRON_PROFILE, path, profile, err);
}
