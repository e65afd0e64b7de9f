#include <stdlib.h>
#include <string.h>

#include "planner/galvatron/galvatron_files.h"
#include "schemas/base/json.h"
#include "schemas/limits.h"

/* Their units: 2^20 bytes, milliseconds, and bandwidth in the one over the other. */
#define MEBIBYTE 1048576.0
#define MILLISECOND 1e-3
#define SIZE_MAX_MEBIBYTES 0x1p33
#define TIME_MAX_MILLISECONDS 1e12
#define RATE_MAX_MEBIBYTES 1e12

enum { NUMBERS_MAX = 4 };

typedef struct reading {
    gal_galvatron_profile *profile;
    bool sequence_parallel; /* of the file at hand */
    bool has_overlap;
    bool has_memory; /* any file with the memory of layers */
    gal_code code;   /* GAL_ERR_SYSTEM: no memory */
} reading;

/* ---- keys ---- */

/* Whether the text is the pattern, in which # stands for a number of at most nine digits and * for any rest. */
static bool matches(const char *text, const char *pattern, uint32_t *number)
{
    for (; *pattern != '\0'; pattern++) {
        if (*pattern == '*') {
            return true;
        }
        if (*pattern != '#') {
            if (*text++ != *pattern) {
                return false;
            }
            continue;
        }
        const size_t digits = strspn(text, "0123456789");
        if (digits == 0 || digits > 9) {
            return false;
        }
        *number++ = (uint32_t)strtoul(text, NULL, 10);
        text += digits;
    }
    return *text == '\0';
}

/* Number `index` of "[1,2,3]"; 0 where there is none. */
static uint32_t number_of_list(const char *text, uint32_t index)
{
    uint32_t value = 0;
    if (*text++ != '[') {
        return 0;
    }
    for (uint32_t i = 0; i <= index; i++) {
        const size_t digits = strspn(text, "0123456789");
        if (digits == 0 || digits > 9) {
            return 0;
        }
        value = (uint32_t)strtoul(text, NULL, 10);
        text += digits;
        if (i < index && *text++ != ',') {
            return 0;
        }
    }
    return value;
}

/* A sequence length: "2048", or "[3136,784,196,49]" of several layer types, whose own it is. 0: neither. */
static uint32_t sequence_of(const char *text, uint32_t layer_type)
{
    uint32_t number;
    return matches(text, "#", &number) ? number : number_of_list(text, layer_type);
}

/* Where "[1,2]" or digits behind the last "seq" of a key begin. */
static const char *sequence_text(const char *key)
{
    const char *at = strstr(key, "seq");
    return at == NULL ? "" : at + 3;
}

static void not_ours(const gal_json_cursor *at)
{
    gal_json_error(at, "is no key of a profile of Hetu-Galvatron");
}

/* ---- rows ---- */

/* Room for one row more; NULL without memory or when there are too many, which is noted. */
static void *grown(reading *s, const gal_json_cursor *at, void *rows, uint32_t count, size_t row_bytes)
{
    if (count == GAL_GALVATRON_ROWS_MAX) {
        gal_json_error(at, "must be one of at most %d rows of its kind", GAL_GALVATRON_ROWS_MAX);
        return NULL;
    }
    if (count != 0 && (count & (count - 1)) != 0) {
        return rows; /* room for the next power of two was made */
    }
    void *larger = realloc(rows, (count == 0 ? 2 : 2 * (size_t)count) * row_bytes);
    if (larger == NULL) {
        s->code = GAL_ERR_SYSTEM;
    }
    return larger;
}

#define ADD_ROW(s, at, rows, ...)                                                                                      \
    do {                                                                                                               \
        void *larger = grown((s), (at), (s)->profile->rows, (s)->profile->rows##_count, sizeof *(s)->profile->rows);   \
        if (larger != NULL) {                                                                                          \
            (s)->profile->rows = larger;                                                                               \
            (s)->profile->rows[(s)->profile->rows##_count++] = __VA_ARGS__;                                            \
        }                                                                                                              \
    } while (0)

static uint32_t bounded(const gal_json_cursor *at, uint32_t number, uint32_t max)
{
    if (number < 1 || number > max) {
        gal_json_error(at, "has %u in its key, which must be 1 to %u", number, max);
        return 1;
    }
    return number;
}

static bool known_type(const reading *s, const gal_json_cursor *at, uint32_t layer_type)
{
    if (layer_type >= s->profile->layer_type_count) {
        gal_json_error(at, "is of layer type %u, and the model has %u (--layers, --hidden, --sequence take lists)",
                       layer_type, s->profile->layer_type_count);
        return false;
    }
    return true;
}

/* ---- hardware ---- */

static void take_all_reduce_rate(reading *s, const gal_json_cursor *at, const uint32_t *number)
{
    const uint32_t size = bounded(at, number[0], GAL_DEVICES_MAX);
    const double rate = gal_json_number(at, 1e-12, RATE_MAX_MEBIBYTES);
    if (number[1] > 1) {
        not_ours(at);
        return;
    }
    s->profile->device_count = size > s->profile->device_count ? size : s->profile->device_count;
    ADD_ROW(s, at, all_reduce_rate,
            (gal_galvatron_all_reduce_rate){size, number[1] == 0, rate * (MEBIBYTE / MILLISECOND)});
}

static void take_p2p_rate(reading *s, const gal_json_cursor *at, const uint32_t *number)
{
    const uint32_t count = bounded(at, number[0], GAL_DEVICES_MAX);
    const double rate = gal_json_number(at, 1e-12, RATE_MAX_MEBIBYTES);
    ADD_ROW(s, at, p2p_rate, (gal_galvatron_p2p_rate){count, rate * (MEBIBYTE / MILLISECOND)});
}

static void take_message(reading *s, const gal_json_cursor *at, gal_galvatron_collective op, const uint32_t *number)
{
    const uint32_t size = bounded(at, number[0], GAL_DEVICES_MAX);
    const uint64_t bytes = (uint64_t)bounded(at, number[1], 1u << 30) << 20;
    const double time = gal_json_number(at, 0.0, TIME_MAX_MILLISECONDS);
    ADD_ROW(s, at, message_time, (gal_galvatron_message_time){op, size, bytes, time * MILLISECOND});
}

static void take_all_reduce_time(reading *s, const gal_json_cursor *at, const uint32_t *number)
{
    take_message(s, at, GAL_GALVATRON_ALL_REDUCE, number);
}

static void take_all_to_all_time(reading *s, const gal_json_cursor *at, const uint32_t *number)
{
    take_message(s, at, GAL_GALVATRON_ALL_TO_ALL, number);
}

static void take_overlap(reading *s, const gal_json_cursor *at, const uint32_t *number)
{
    (void)number;
    s->profile->overlap_slowdown = gal_json_number(at, 1.0, 1000.0);
    s->has_overlap = true;
}

/* ---- computation ---- */

/* A key without a batch or a sequence length is of one sample, of the model's length. */
static void take_layer_time(reading *s, const gal_json_cursor *at, const uint32_t *number)
{
    const uint32_t type = number[0];
    const char *sequence = sequence_text(at->key);
    if (!known_type(s, at, type)) {
        return;
    }
    const uint32_t length =
        *sequence == '\0' ? s->profile->layer_type[type].sequence_length : sequence_of(sequence, type);
    const uint32_t samples = strstr(at->key, "_bsz") == NULL ? 1 : number[1];
    const double time = gal_json_number(at, 0.0, TIME_MAX_MILLISECONDS);
    ADD_ROW(s, at, layer_time,
            (gal_galvatron_layer_time){type, bounded(at, samples, GAL_BATCH_SAMPLES_MAX),
                                       bounded(at, length, GAL_SEQUENCE_LENGTH_MAX), time * MILLISECOND});
}

static void take_outside(reading *s, const gal_json_cursor *at, uint32_t samples)
{
    const char *sequence = sequence_text(at->key);
    const uint32_t length = *sequence == '\0' ? s->profile->layer_type[0].sequence_length : sequence_of(sequence, 0);
    const double time = gal_json_number(at, 0.0, TIME_MAX_MILLISECONDS);
    ADD_ROW(s, at, outside_time,
            (gal_galvatron_outside_time){bounded(at, samples, GAL_BATCH_SAMPLES_MAX),
                                         bounded(at, length, GAL_SEQUENCE_LENGTH_MAX), time * MILLISECOND});
}

static void take_outside_time(reading *s, const gal_json_cursor *at, const uint32_t *number)
{
    take_outside(s, at, number[0]);
}

/* With a type's number in front of the batch, which is that of the model's first. */
static void take_outside_time_typed(reading *s, const gal_json_cursor *at, const uint32_t *number)
{
    take_outside(s, at, strstr(at->key, "_bsz") == NULL ? 1 : number[1]);
}

/* ---- memory ---- */

static void take_activation(reading *s, const gal_json_cursor *at, uint32_t type, uint32_t length)
{
    uint32_t degree;
    if (strcmp(at->key, "checkpoint") == 0) {
        return;
    }
    if (!matches(at->key, "#", &degree)) {
        gal_json_error(at, "must have a degree or \"checkpoint\" for its key");
        return;
    }
    const double size = gal_json_number(at, 0.0, SIZE_MAX_MEBIBYTES);
    ADD_ROW(s, at, activation,
            (gal_galvatron_activation){type, length, bounded(at, degree, GAL_DEVICES_MAX), size * MEBIBYTE});
}

static void take_layer_size_at(reading *s, const gal_json_cursor *at, uint32_t type, uint32_t length)
{
    gal_json_cursor activations = gal_json_object(at, "tp_activation_per_bsz_dict");
    gal_json_cursor child = {0};
    const double parameters = gal_json_f64(at, "parameter_size", 0.0, SIZE_MAX_MEBIBYTES);
    const double kept = gal_json_f64(&activations, "checkpoint", 0.0, SIZE_MAX_MEBIBYTES);
    ADD_ROW(s, at, layer_size,
            (gal_galvatron_layer_size){type, bounded(at, length, GAL_SEQUENCE_LENGTH_MAX), parameters * MEBIBYTE,
                                       kept * MEBIBYTE});
    while (s->code == GAL_OK && gal_json_next_member(&activations, &child)) {
        take_activation(s, &child, type, length);
    }
    gal_json_reject_unknown(at);
}

/* One object, or one for each sequence length. */
static void take_layer_size(reading *s, const gal_json_cursor *at, const uint32_t *number)
{
    gal_json_cursor child = {0};
    const uint32_t type = number[0];
    if (!known_type(s, at, type)) {
        return;
    }
    s->has_memory = true;
    if (gal_json_has(at, "parameter_size")) {
        take_layer_size_at(s, at, type, s->profile->layer_type[type].sequence_length);
        return;
    }
    while (s->code == GAL_OK && gal_json_next_member(at, &child)) {
        take_layer_size_at(s, &child, type, sequence_of(child.key, type));
    }
}

static void add_outside_size(reading *s, const gal_json_cursor *at, gal_galvatron_place place, uint32_t length,
                             uint32_t degree, double states, double activation)
{
    ADD_ROW(s, at, outside_size,
            (gal_galvatron_outside_size){place, bounded(at, length, GAL_SEQUENCE_LENGTH_MAX),
                                         bounded(at, degree, GAL_DEVICES_MAX), states * MEBIBYTE,
                                         activation * MEBIBYTE});
}

/* Numbers, of the whole on one device; or an object of them by degree. */
static void take_outside_size_at(reading *s, const gal_json_cursor *at, gal_galvatron_place place, uint32_t length)
{
    gal_json_cursor child = {0};
    gal_json_cursor states = {0};
    gal_json_cursor activations = {0};
    while (gal_json_next_member(at, &child)) {
        states = strcmp(child.key, "model_states") == 0 ? child : states;
        activations = strcmp(child.key, "activation") == 0 ? child : activations;
    }
    if (!gal_json_is_object(&states)) {
        add_outside_size(s, at, place, length, 1, gal_json_f64(at, "model_states", 0.0, SIZE_MAX_MEBIBYTES),
                         gal_json_f64(at, "activation", 0.0, SIZE_MAX_MEBIBYTES));
        return;
    }
    activations = gal_json_object(at, "activation");
    child = (gal_json_cursor){0};
    while (s->code == GAL_OK && gal_json_next_member(&states, &child)) {
        uint32_t degree;
        if (!matches(child.key, "#", &degree)) {
            gal_json_error(&child, "must have a degree for its key");
            return;
        }
        add_outside_size(s, &child, place, length, degree, gal_json_number(&child, 0.0, SIZE_MAX_MEBIBYTES),
                         gal_json_f64(&activations, child.key, 0.0, SIZE_MAX_MEBIBYTES));
    }
}

static void take_outside_size(reading *s, const gal_json_cursor *at, gal_galvatron_place place)
{
    gal_json_cursor child = {0};
    if (gal_json_has(at, "model_states")) {
        take_outside_size_at(s, at, place, s->profile->layer_type[0].sequence_length);
        return;
    }
    while (s->code == GAL_OK && gal_json_next_member(at, &child)) {
        take_outside_size_at(s, &child, place, sequence_of(child.key, 0));
    }
}

static void take_only_stage(reading *s, const gal_json_cursor *at, const uint32_t *number)
{
    (void)number;
    take_outside_size(s, at, GAL_GALVATRON_ONLY_STAGE);
}

static void take_first_stage(reading *s, const gal_json_cursor *at, const uint32_t *number)
{
    (void)number;
    take_outside_size(s, at, GAL_GALVATRON_FIRST_STAGE);
}

static void take_last_stage(reading *s, const gal_json_cursor *at, const uint32_t *number)
{
    (void)number;
    take_outside_size(s, at, GAL_GALVATRON_LAST_STAGE);
}

/* What the tables were made of: runs of small models. */
static void take_raw(reading *s, const gal_json_cursor *at, const uint32_t *number)
{
    (void)s;
    (void)at;
    (void)number;
}

/* ---- files ---- */

typedef enum family { ANY, WITHOUT_SEQUENCE_PARALLEL, WITH_SEQUENCE_PARALLEL } family;

typedef struct pattern {
    const char *key;
    bool is_object;
    family family; /* memory: measured with sequence parallelism or without */
    void (*take)(reading *s, const gal_json_cursor *at, const uint32_t *number);
} pattern;

/* The first that fits is taken. */
static const pattern patterns[] = {
    {"allreduce_size_#_consec_#", false, ANY, take_all_reduce_rate},
    {"allreduce_size_#_#MB_time", false, ANY, take_all_reduce_time},
    {"all2all_size_#_#MB_time", false, ANY, take_all_to_all_time},
    {"pp_size_#", false, ANY, take_p2p_rate},
    {"overlap_coe", false, ANY, take_overlap},

    {"layertype_other_#_bsz#*", false, ANY, take_outside_time_typed},
    {"layertype_other", false, ANY, take_outside_time_typed},
    {"layertype_other_#", false, ANY, take_outside_time_typed},
    {"layertype_other_#_bsz#", false, ANY, take_outside_time_typed},
    {"layertype_other_#_bsz#_seq*", false, ANY, take_outside_time_typed},
    {"layertype_other_bsz#", false, ANY, take_outside_time},
    {"layertype_other_bsz#_seq*", false, ANY, take_outside_time},
    {"layertype_#", false, ANY, take_layer_time},
    {"layertype_#_bsz#", false, ANY, take_layer_time},
    {"layertype_#_bsz#_seq*", false, ANY, take_layer_time},
    {"layertype_#_sp", true, WITH_SEQUENCE_PARALLEL, take_layer_size},
    {"layertype_#", true, WITHOUT_SEQUENCE_PARALLEL, take_layer_size},
    {"other_memory_pp_off_sp", true, WITH_SEQUENCE_PARALLEL, take_only_stage},
    {"other_memory_pp_on_first_sp", true, WITH_SEQUENCE_PARALLEL, take_first_stage},
    {"other_memory_pp_on_last_sp", true, WITH_SEQUENCE_PARALLEL, take_last_stage},
    {"other_memory_pp_off", true, WITHOUT_SEQUENCE_PARALLEL, take_only_stage},
    {"other_memory_pp_on_first", true, WITHOUT_SEQUENCE_PARALLEL, take_first_stage},
    {"other_memory_pp_on_last", true, WITHOUT_SEQUENCE_PARALLEL, take_last_stage},
    {"layernum*", false, ANY, take_raw},
    {"#_#_#*", true, ANY, take_raw},
};
enum { PATTERN_COUNT = sizeof patterns / sizeof patterns[0] };

static void take(reading *s, const gal_json_cursor *at)
{
    uint32_t number[NUMBERS_MAX] = {0};
    for (uint32_t i = 0; i < PATTERN_COUNT; i++) {
        const pattern *p = &patterns[i];
        if (p->is_object != gal_json_is_object(at) || !matches(at->key, p->key, number)) {
            continue;
        }
        if (p->family == ANY || (p->family == WITH_SEQUENCE_PARALLEL) == s->sequence_parallel) {
            p->take(s, at, number);
        }
        return;
    }
    not_ours(at);
}

static gal_code take_file(reading *s, gal_json_doc *doc, gal_error *err)
{
    gal_json_cursor child = {0};
    const gal_json_cursor root = gal_json_root(doc);
    s->sequence_parallel = gal_json_has(&root, "layertype_0_sp");
    while (s->code == GAL_OK && gal_json_next_member(&root, &child)) {
        take(s, &child);
    }
    if (s->has_memory) {
        s->profile->sequence_parallel = s->profile->sequence_parallel || s->sequence_parallel;
    }
    return s->code == GAL_OK ? gal_json_status(doc, err) : gal_fail(err, s->code, "out of memory");
}

static gal_code missing(const reading *s, gal_error *err)
{
    const gal_galvatron_profile *p = s->profile;
    const char *what = p->layer_time_count == 0        ? "computation profile (keys layertype_0_bsz1_seq...)"
                       : !s->has_memory                ? "memory profile (keys layertype_0_sp or layertype_0)"
                       : p->outside_size_count == 0    ? "memory of embedding and head (keys other_memory_pp_off...)"
                       : p->all_reduce_rate_count == 0 ? "all-reduce bandwidths (keys allreduce_size_N_consec_1)"
                       : !s->has_overlap               ? "overlap coefficient (key overlap_coe)"
                                                       : NULL;
    if (what != NULL) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "no %s in the files", what);
    }
    for (uint32_t type = 0; type < p->layer_type_count; type++) {
        bool timed = false;
        for (uint32_t i = 0; i < p->layer_time_count; i++) {
            timed = timed || p->layer_time[i].layer_type == type;
        }
        if (!timed) {
            return gal_fail(err, GAL_ERR_DOCUMENT, "no time of layer type %u in the files", type);
        }
    }
    return GAL_OK;
}

gal_code gal_galvatron_import_profile_open(gal_json_doc *const *docs, uint32_t doc_count,
                                           gal_galvatron_profile *profile, bool *outside_missing, gal_error *err)
{
    reading s = {.profile = profile};
    gal_code code = GAL_OK;
    for (uint32_t i = 0; i < doc_count; i++) {
        GAL_TRY(take_file(&s, docs[i], err));
    }
    GAL_TRY(missing(&s, err));
    *outside_missing = profile->outside_time_count == 0;
    if (*outside_missing) {
        profile->outside_time = calloc(1, sizeof *profile->outside_time);
        if (profile->outside_time == NULL) {
            GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
        }
        profile->outside_time[profile->outside_time_count++] =
            (gal_galvatron_outside_time){1, profile->layer_type[0].sequence_length, 0.0};
    }
cleanup:
    return code;
}

gal_code gal_galvatron_import_profile(const char *const *paths, uint32_t path_count, gal_galvatron_profile *profile,
                                      bool *outside_missing, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_json_doc **docs = calloc((size_t)path_count + 1, sizeof(gal_json_doc *));
    if (docs == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    for (uint32_t i = 0; i < path_count; i++) {
        GAL_TRY(gal_json_open(paths[i], &docs[i], err));
    }
    GAL_TRY(gal_galvatron_import_profile_open(docs, path_count, profile, outside_missing, err));
cleanup:
    for (uint32_t i = 0; i < path_count; i++) {
        gal_json_close(docs[i]);
    }
    free(docs);
    return code;
}
