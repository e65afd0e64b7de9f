#include "planner/layouts/layout_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/least/least.h"
#include "schemas/base/nearest.h"
#include "schemas/document.h"
#include "schemas/limits.h"

enum { KEPT_MAX = 256, DEGREE_MAX = 1 << 16 };

/* A document read once, however many rows name it. */
typedef struct kept_model {
    char *name;
    gal_model model;
    gal_model_origins origins;
} kept_model;

typedef struct kept_cluster {
    char *name;
    uint32_t devices; /* 0: as the document says */
    gal_cluster cluster;
} kept_cluster;

struct gal_layout_rows {
    gal_csv *csv;
    uint32_t *stage_layers; /* of all rows that say them, one after the other */
    size_t stage_layers_count, stage_layers_capacity;
    gal_layout_row *row;
    uint32_t column[GAL_LAYOUT_COLUMN_COUNT];
    uint32_t model_count, cluster_count;
    kept_model *model[KEPT_MAX];
    kept_cluster *cluster[KEPT_MAX];
};

#define X(enumerator, name, text) [enumerator] = name,
static const char *const column_names[GAL_LAYOUT_COLUMN_COUNT] = {GAL_LAYOUT_COLUMNS(X)};
#undef X

void gal_layout_rows_free(gal_layout_rows *rows)
{
    if (rows == NULL) {
        return;
    }
    for (uint32_t i = 0; i < rows->model_count; i++) {
        free(rows->model[i]->name);
        free(rows->model[i]);
    }
    for (uint32_t i = 0; i < rows->cluster_count; i++) {
        free(rows->cluster[i]->name);
        free(rows->cluster[i]);
    }
    free(rows->row);
    free(rows->stage_layers);
    gal_csv_free(rows->csv);
    free(rows);
}

/* ---- fields ---- */

typedef struct reader {
    gal_layout_rows *rows;
    const gal_layout_defaults *defaults;
    uint32_t row;
    gal_error *err;
    gal_code code; /* the first failure sticks: later reads change nothing */
} reader;

static const char *text_of(const reader *r, gal_layout_column which)
{
    return gal_csv_field(r->rows->csv, r->row, r->rows->column[which]);
}

static bool has(const reader *r, gal_layout_column which)
{
    return text_of(r, which)[0] != '\0';
}

static void refuse(reader *r, gal_layout_column which, const char *rule)
{
    if (r->code == GAL_OK) {
        r->code = gal_csv_fail(r->rows->csv, r->row, r->rows->column[which], r->err, "%s", rule);
    }
}

/* A rule between columns, which no one of them broke. */
static void refuse_row(reader *r, const char *rule)
{
    if (r->code == GAL_OK) {
        r->code = gal_fail(r->err, GAL_ERR_DOCUMENT, "%s:%u: %s", gal_csv_path(r->rows->csv),
                           gal_csv_line(r->rows->csv, r->row), rule);
    }
}

static uint32_t read_u32(reader *r, gal_layout_column which, uint32_t least, uint32_t most, uint32_t otherwise)
{
    if (r->code == GAL_OK) {
        r->code = gal_csv_u32(r->rows->csv, r->row, r->rows->column[which], least, most, &otherwise, r->err);
    }
    return otherwise;
}

static double read_f64(reader *r, gal_layout_column which, double least, double most, double otherwise)
{
    if (r->code == GAL_OK) {
        r->code = gal_csv_f64(r->rows->csv, r->row, r->rows->column[which], least, most, &otherwise, r->err);
    }
    return otherwise;
}

static uint32_t read_enum(reader *r, gal_layout_column which, const char *const *names, uint32_t count,
                          uint32_t otherwise)
{
    if (r->code == GAL_OK) {
        r->code = gal_csv_enum(r->rows->csv, r->row, r->rows->column[which], names, count, &otherwise, r->err);
    }
    return otherwise;
}

/* ---- models and clusters ---- */

static kept_model *keep_model(reader *r, const char *name)
{
    gal_layout_rows *rows = r->rows;
    for (uint32_t i = 0; i < rows->model_count; i++) {
        if (strcmp(rows->model[i]->name, name) == 0) {
            return rows->model[i];
        }
    }
    if (rows->model_count == KEPT_MAX) {
        refuse(r, GAL_COLUMN_MODEL, "must name at most 256 different models");
        return NULL;
    }
    kept_model *kept = calloc(1, sizeof *kept);
    if (kept == NULL || (kept->name = strdup(name)) == NULL) {
        free(kept);
        r->code = gal_fail(r->err, GAL_ERR_SYSTEM, "out of memory: models");
        return NULL;
    }
    rows->model[rows->model_count++] = kept;
    r->code = gal_model_read(name, &kept->model, r->err);
    gal_model_origins_of(name, &kept->model, &kept->origins);
    return r->code == GAL_OK ? kept : NULL;
}

static kept_cluster *keep_cluster(reader *r, const char *name, uint32_t devices)
{
    gal_layout_rows *rows = r->rows;
    const gal_cluster *whole = NULL;
    for (uint32_t i = 0; i < rows->cluster_count; i++) {
        if (strcmp(rows->cluster[i]->name, name) == 0) {
            if (rows->cluster[i]->devices == devices) {
                return rows->cluster[i];
            }
            whole = rows->cluster[i]->devices == 0 ? &rows->cluster[i]->cluster : whole;
        }
    }
    if (rows->cluster_count == KEPT_MAX) {
        refuse_row(r, "must be at most 256 different clusters and numbers of devices");
        return NULL;
    }
    kept_cluster *kept = calloc(1, sizeof *kept);
    if (kept == NULL || (kept->name = strdup(name)) == NULL) {
        free(kept);
        r->code = gal_fail(r->err, GAL_ERR_SYSTEM, "out of memory: clusters");
        return NULL;
    }
    rows->cluster[rows->cluster_count++] = kept;
    kept->devices = devices;
    if (whole != NULL) {
        kept->cluster = *whole;
        gal_cluster_resize(&kept->cluster, devices);
        return kept;
    }
    r->code = gal_cluster_read(name, &kept->cluster, r->err);
    return r->code == GAL_OK ? kept : NULL;
}

/* More nodes hang on the outermost link; a cluster of one link has no more. */
static const gal_cluster *read_cluster(reader *r, uint32_t devices)
{
    const char *name = has(r, GAL_COLUMN_CLUSTER) ? text_of(r, GAL_COLUMN_CLUSTER) : r->defaults->cluster;
    if (name == NULL) {
        refuse_row(r, "must have a column cluster, or --cluster be given");
        return NULL;
    }
    const kept_cluster *whole = r->code == GAL_OK ? keep_cluster(r, name, 0) : NULL;
    if (whole == NULL) {
        return NULL;
    }
    if (devices > whole->cluster.device_count && whole->cluster.level_count == 1) {
        char rule[GAL_ERROR_TEXT_BYTES / 8];
        (void)snprintf(rule, sizeof rule, "must be at most the %u devices of cluster %s, got %u",
                       whole->cluster.device_count, whole->cluster.name, devices);
        refuse_row(r, rule);
        return NULL;
    }
    const kept_cluster *fit = devices == whole->cluster.device_count ? whole : keep_cluster(r, name, devices);
    return fit == NULL ? NULL : &fit->cluster;
}

/* --sequence, of a row that names a model and no length of its own. */
static void set_sequence(reader *r, gal_layout_row *out)
{
    gal_error broken = {0};
    const uint32_t asked = r->defaults->arithmetic.sequence_length;
    if (asked == 0 || has(r, GAL_COLUMN_SEQ)) {
        return;
    }
    out->origins.sequence = GAL_ORIGIN_OPTION;
    if (gal_model_set_sequence(&out->model, asked, &broken) != GAL_OK) {
        refuse_row(r, broken.text);
    }
}

static void start_model(reader *r, gal_layout_row *row)
{
    static const char *const families[] = {[GAL_FAMILY_DECODER] = "decoder", [GAL_FAMILY_LLAMA] = "llama"};
    static const gal_layout_column facts[] = {GAL_COLUMN_LAYERS, GAL_COLUMN_HIDDEN, GAL_COLUMN_HEADS, GAL_COLUMN_SEQ,
                                              GAL_COLUMN_VOCAB};
    gal_model *out = &row->model;
    if (has(r, GAL_COLUMN_MODEL)) {
        const kept_model *kept = r->code == GAL_OK ? keep_model(r, text_of(r, GAL_COLUMN_MODEL)) : NULL;
        if (kept != NULL) {
            *out = kept->model;
            row->origins = kept->origins;
            set_sequence(r, row);
        }
        return;
    }
    out->sequence_length = r->defaults->arithmetic.sequence_length;
    row->origins = (gal_model_origins){.dtype = GAL_ORIGIN_DEFAULT,
                                       .sequence = out->sequence_length > 0 ? GAL_ORIGIN_OPTION : GAL_ORIGIN_COLUMN,
                                       .optimizer = GAL_ORIGIN_DEFAULT,
                                       .preferred_dtype = GAL_BF16};
    for (uint32_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        if (!has(r, facts[i]) && (facts[i] != GAL_COLUMN_SEQ || out->sequence_length == 0)) {
            char rule[GAL_NAME_BYTES + 32];
            (void)snprintf(rule, sizeof rule, "must have a model, or its %s", column_names[facts[i]]);
            refuse_row(r, rule);
        }
    }
    out->family =
        (gal_family)read_enum(r, GAL_COLUMN_FAMILY, families, sizeof families / sizeof families[0], GAL_FAMILY_DECODER);
    out->tied_embeddings = out->family == GAL_FAMILY_DECODER;
}

/* Of families whose sizes hang together otherwise, a document says all. */
static bool has_own_facts(const reader *r)
{
    for (uint32_t i = GAL_COLUMN_LAYERS; i <= GAL_COLUMN_TIED; i++) {
        if (has(r, (gal_layout_column)i)) {
            return true;
        }
    }
    return false;
}

static void read_facts(reader *r, gal_model *out)
{
    if (out->family != GAL_FAMILY_DECODER && out->family != GAL_FAMILY_LLAMA && out->family != GAL_FAMILY_BERT &&
        has_own_facts(r)) {
        refuse_row(r, "must have no facts beside a model of this family (bert, decoder and llama can)");
        return;
    }
    const bool facts_alone = !has(r, GAL_COLUMN_MODEL);
    out->layer_count = read_u32(r, GAL_COLUMN_LAYERS, 1, GAL_LAYERS_MAX, out->layer_count);
    out->hidden = read_u32(r, GAL_COLUMN_HIDDEN, 1, GAL_HIDDEN_MAX, out->hidden);
    out->head_count = read_u32(r, GAL_COLUMN_HEADS, 1, GAL_HIDDEN_MAX, out->head_count);
    const uint32_t ffn = facts_alone ? 4 * out->hidden : out->ffn_hidden;
    out->ffn_hidden = read_u32(r, GAL_COLUMN_FFN, 1, GAL_FFN_HIDDEN_MAX, ffn);
    out->sequence_length = read_u32(r, GAL_COLUMN_SEQ, 1, GAL_SEQUENCE_LENGTH_MAX, out->sequence_length);
    if (facts_alone) {
        (void)snprintf(out->name, sizeof out->name, "%s-%ul-h%u", gal_family_names[out->family], out->layer_count,
                       out->hidden);
    }
    out->vocabulary = read_u32(r, GAL_COLUMN_VOCAB, 1, GAL_VOCABULARY_MAX, out->vocabulary);
    out->tied_embeddings = read_u32(r, GAL_COLUMN_TIED, 0, 1, out->tied_embeddings) != 0;
    const bool by_hidden = facts_alone || out->family != GAL_FAMILY_LLAMA; /* a llama's document says its head_dim */
    if (r->code == GAL_OK && by_hidden && out->hidden % out->head_count != 0) {
        refuse_row(r, "heads must divide hidden");
    }
    if (r->code == GAL_OK && out->family == GAL_FAMILY_LLAMA) {
        const uint32_t kv = facts_alone ? out->head_count : out->kv_head_count;
        out->kv_head_count = read_u32(r, GAL_COLUMN_KV_HEADS, 1, out->head_count, kv);
        out->head_dim = facts_alone ? out->hidden / out->head_count : out->head_dim;
    } else if (has(r, GAL_COLUMN_KV_HEADS)) {
        refuse(r, GAL_COLUMN_KV_HEADS, "must be left out but for a llama");
    }
}

static void read_dropout(reader *r, gal_model *out)
{
    if (has(r, GAL_COLUMN_DROPOUT)) {
        out->residual_dropout = read_f64(r, GAL_COLUMN_DROPOUT, 0.0, GAL_JSON_BELOW_ONE, 0.0);
        out->attention_dropout = out->residual_dropout;
    }
}

/* On the row's own cluster. */
static void read_dtype(reader *r, gal_layout_row *out)
{
    gal_model *model = &out->model;
    if (out->cluster != NULL) {
        gal_model_choose_dtype(model, r->defaults->arithmetic.dtype, gal_device_dtypes(&out->cluster->device),
                               &out->origins);
    }
    if (has(r, GAL_COLUMN_DTYPE)) {
        model->compute_dtype = (gal_dtype)read_enum(r, GAL_COLUMN_DTYPE, gal_dtype_names, GAL_COMPUTE_DTYPE_COUNT, 0);
        out->origins.dtype = GAL_ORIGIN_COLUMN;
        out->origins.preferred_dtype = model->compute_dtype;
    }
}

/* ---- layouts ---- */

static uint32_t read_degrees(reader *r, gal_uniform_layout *out)
{
    out->tp_degree = read_u32(r, GAL_COLUMN_TP, 1, DEGREE_MAX, 1);
    out->pp_degree = read_u32(r, GAL_COLUMN_PP, 1, DEGREE_MAX, 1);
    const uint32_t gpus = read_u32(r, GAL_COLUMN_GPUS, 1, GAL_DEVICES_MAX, 0);
    const uint64_t inner = (uint64_t)out->tp_degree * out->pp_degree;
    const uint32_t rest = gpus / inner > 0 ? (uint32_t)(gpus / inner) : 1;
    out->dp_degree = read_u32(r, GAL_COLUMN_DP, 1, DEGREE_MAX, rest);
    const uint64_t devices = inner * out->dp_degree;
    if (gpus != 0 && gpus != devices) {
        refuse(r, GAL_COLUMN_GPUS, "must be dp x tp x pp");
    }
    if (devices > GAL_DEVICES_MAX) {
        refuse_row(r, "dp x tp x pp must be at most 2^20 devices");
    }
    return (uint32_t)devices;
}

/* "4;7;7;6": pp numbers, from 1 on, with the sum of the layers. What is read lies behind that of the rows before. */
static void read_stage_layers(reader *r, const gal_model *model, uint32_t stages)
{
    gal_layout_rows *rows = r->rows;
    const uint64_t layers = (uint64_t)model->layer_count + model->decoder_layer_count;
    const char *text = text_of(r, GAL_COLUMN_STAGE_LAYERS);
    uint64_t sum = 0;
    uint32_t count = 0;
    bool good = true;
    while (good && count < stages && rows->stage_layers_count < rows->stage_layers_capacity) {
        const size_t digits = strspn(text, "0123456789");
        const uint32_t value = digits > 0 && digits < 6 ? (uint32_t)strtoul(text, NULL, 10) : 0;
        text += digits;
        good = value > 0 && (*text == ';' || *text == '\0');
        text += *text == ';';
        rows->stage_layers[rows->stage_layers_count++] = value;
        sum += value;
        count++;
    }
    if (!good || *text != '\0' || count != stages || sum != layers) {
        refuse(r, GAL_COLUMN_STAGE_LAYERS, "must be a number of layers for each stage, as 11;13, with the sum of all");
    }
}

static void read_layout(reader *r, const gal_model *model, gal_uniform_layout *out)
{
    out->sequence_parallel = read_u32(r, GAL_COLUMN_SP, 0, 1, 0) != 0;
    out->zero_stage = read_u32(r, GAL_COLUMN_ZERO, 0, 3, 0);
    out->microbatch_samples = read_u32(r, GAL_COLUMN_MICROBATCH, 1, GAL_BATCH_SAMPLES_MAX, 1);
    const uint64_t pass = (uint64_t)out->microbatch_samples * out->dp_degree;
    out->global_batch_samples = read_u32(r, GAL_COLUMN_GLOBAL_BATCH, 1, GAL_BATCH_SAMPLES_MAX,
                                         pass < GAL_BATCH_SAMPLES_MAX ? (uint32_t)pass : GAL_BATCH_SAMPLES_MAX);
    out->recompute = (gal_recompute)read_enum(r, GAL_COLUMN_RECOMPUTE, gal_recompute_names, GAL_RECOMPUTE_COUNT, 0);
    out->schedule = (gal_schedule)read_enum(r, GAL_COLUMN_SCHEDULE, gal_schedule_names, GAL_SCHEDULE_INTERLEAVED + 1,
                                            GAL_SCHEDULE_1F1B);
    out->chunk_count = read_u32(r, GAL_COLUMN_CHUNKS, 1, GAL_PLAN_CHUNKS_MAX, 1);
    if (out->sequence_parallel && out->tp_degree == 1) {
        refuse(r, GAL_COLUMN_SP, "must be 0 where tp is 1");
    }
    if ((out->schedule == GAL_SCHEDULE_INTERLEAVED) != (out->chunk_count > 1)) {
        refuse_row(r, "chunks must be 2 or more with schedule interleaved, and 1 with any other");
    }
    if (r->code == GAL_OK && has(r, GAL_COLUMN_STAGE_LAYERS)) {
        out->stage_layers = r->rows->stage_layers + r->rows->stage_layers_count;
        read_stage_layers(r, model, out->pp_degree);
        if (out->chunk_count > 1) {
            refuse(r, GAL_COLUMN_STAGE_LAYERS, "must be left out where schedule is interleaved");
        }
    }
    gal_error broken = {0};
    if (r->code == GAL_OK && gal_uniform_layout_check(out, model, &broken) != GAL_OK) {
        refuse_row(r, broken.text);
    }
}

static gal_code read_row(gal_layout_rows *rows, uint32_t row, const gal_layout_defaults *defaults, gal_error *err)
{
    reader r = {.rows = rows, .defaults = defaults, .row = row, .err = err, .code = GAL_OK};
    gal_layout_row *out = &rows->row[row];
    out->row = row;
    gal_model_defaults(&out->model);
    start_model(&r, out);
    read_facts(&r, &out->model);
    read_dropout(&r, &out->model);
    const uint32_t devices = read_degrees(&r, &out->layout);
    read_layout(&r, &out->model, &out->layout);
    out->cluster = read_cluster(&r, devices);
    read_dtype(&r, out);
    out->origins.sequence = has(&r, GAL_COLUMN_SEQ) ? GAL_ORIGIN_COLUMN : out->origins.sequence;
    out->origins.batch = GAL_ORIGIN_COLUMN;
    out->seconds = read_f64(&r, GAL_COLUMN_SECONDS, 1e-9, GAL_SECONDS_MAX, 0.0);
    out->bytes = read_f64(&r, GAL_COLUMN_BYTES, 1.0, (double)GAL_BYTES_MAX, 0.0);
    out->group = text_of(&r, GAL_COLUMN_GROUP);
    return r.code;
}

/* Room for every number that the column could hold: one for every second character. */
static gal_code reserve_stage_layers(gal_layout_rows *rows, gal_error *err)
{
    for (uint32_t i = 0; i < gal_csv_row_count(rows->csv); i++) {
        rows->stage_layers_capacity +=
            strlen(gal_csv_field(rows->csv, i, rows->column[GAL_COLUMN_STAGE_LAYERS])) / 2 + 1;
    }
    rows->stage_layers = calloc(rows->stage_layers_capacity + 1, sizeof *rows->stage_layers);
    return rows->stage_layers == NULL ? gal_fail(err, GAL_ERR_SYSTEM, "out of memory: rows") : GAL_OK;
}

static gal_code find_columns(gal_layout_rows *rows, gal_error *err)
{
    for (uint32_t i = 0; i < GAL_LAYOUT_COLUMN_COUNT; i++) {
        rows->column[i] = gal_csv_column(rows->csv, column_names[i]);
    }
    for (uint32_t c = 0; c < gal_csv_column_count(rows->csv); c++) {
        const char *name = gal_csv_column_name(rows->csv, c);
        uint32_t known = 0;
        while (known < GAL_LAYOUT_COLUMN_COUNT && strcmp(name, column_names[known]) != 0) {
            known++;
        }
        if (known == GAL_LAYOUT_COLUMN_COUNT) {
            const char *nearest = gal_nearest_name(name, column_names, GAL_LAYOUT_COLUMN_COUNT);
            return gal_fail(err, GAL_ERR_DOCUMENT, "%s:%u: unknown column \"%s\"%s%s%s", gal_csv_path(rows->csv),
                            gal_csv_names_line(rows->csv), name, nearest == NULL ? "" : "; did you mean \"",
                            nearest == NULL ? "" : nearest, nearest == NULL ? "" : "\"?");
        }
    }
    return GAL_OK;
}

gal_code gal_layout_rows_read(const char *path, const gal_layout_defaults *defaults, gal_layout_rows **out,
                              gal_error *err)
{
    gal_code code = GAL_OK;
    gal_layout_rows *rows = calloc(1, sizeof *rows);
    if (rows == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: rows");
    }
    GAL_TRY(gal_csv_read(path, &rows->csv, err));
    GAL_TRY(find_columns(rows, err));
    GAL_TRY(reserve_stage_layers(rows, err));
    rows->row = calloc((size_t)gal_csv_row_count(rows->csv) + 1, sizeof *rows->row);
    if (rows->row == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory: rows"));
    }
    for (uint32_t i = 0; i < gal_csv_row_count(rows->csv); i++) {
        GAL_TRY(read_row(rows, i, defaults, err));
    }
    *out = rows;
    rows = NULL;
cleanup:
    gal_layout_rows_free(rows);
    return code;
}

const gal_csv *gal_layout_rows_table(const gal_layout_rows *rows)
{
    return rows->csv;
}

uint32_t gal_layout_rows_count(const gal_layout_rows *rows)
{
    return gal_csv_row_count(rows->csv);
}

const gal_layout_row *gal_layout_rows_at(const gal_layout_rows *rows, uint32_t row)
{
    return &rows->row[row];
}
