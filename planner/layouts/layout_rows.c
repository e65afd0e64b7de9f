#include "planner/layouts/layout_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/layouts/kept_documents.h"
#include "planner/space/words.h"
#include "schemas/limits.h"

enum { DEGREE_MAX = 1 << 16, RULE_BYTES = 1024 };

struct gal_layout_rows {
    gal_csv *csv;
    gal_kept_documents *kept;
    uint32_t *stage_layers; /* of all rows that say them, one after the other */
    size_t stage_layers_count, stage_layers_capacity;
    gal_layout_row *row;
    uint32_t column[GAL_LAYOUT_COLUMN_COUNT];
};

#define X(enumerator, name, text) [enumerator] = name,
static const char *const column_names[GAL_LAYOUT_COLUMN_COUNT] = {GAL_LAYOUT_COLUMNS(X)};
#undef X

void gal_layout_rows_free(gal_layout_rows *rows)
{
    if (rows == NULL) {
        return;
    }
    for (uint32_t i = 0; rows->row != NULL && i < gal_layout_rows_count(rows); i++) {
        free((char *)rows->row[i].refused);
    }
    gal_kept_documents_free(rows->kept);
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

/* Names, or the words of others for them. */
static uint32_t read_word(reader *r, gal_layout_column which, gal_vocabulary vocabulary, const char *const *names,
                          uint32_t count, uint32_t otherwise)
{
    const char *text = text_of(r, which);
    if (*text == '\0' || r->code != GAL_OK) {
        return otherwise;
    }
    const uint32_t found = gal_words_find(vocabulary, text, names, count);
    if (found == count) {
        char known[RULE_BYTES / 2], rule[RULE_BYTES];
        gal_words_suggest(vocabulary, text, names, count, known, sizeof known);
        (void)snprintf(rule, sizeof rule, "%s \"%.64s\" is unknown; %s", column_names[which], text, known);
        refuse_row(r, rule);
    }
    return found;
}

/* ---- models and clusters ---- */

static const gal_cluster *read_cluster(reader *r, uint32_t devices)
{
    const char *name = has(r, GAL_COLUMN_CLUSTER) ? text_of(r, GAL_COLUMN_CLUSTER) : r->defaults->cluster;
    const gal_cluster *cluster = NULL;
    if (name == NULL) {
        refuse_row(r, "must have a column cluster, or --cluster be given");
    }
    if (r->code == GAL_OK) {
        r->code = gal_kept_cluster(r->rows->kept, name, devices, &cluster, r->err);
    }
    return cluster;
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
        const gal_model *kept = NULL;
        if (r->code == GAL_OK) {
            r->code = gal_kept_model(r->rows->kept, text_of(r, GAL_COLUMN_MODEL), &kept, &row->origins, r->err);
        }
        if (kept != NULL) {
            *out = *kept;
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

/* A ring under a causal mask has late positions, which see most, on some devices: zigzag evens that out. */
static bool is_causal(const gal_model *model)
{
    return model->family == GAL_FAMILY_DECODER || model->family == GAL_FAMILY_LLAMA;
}

static gal_axis read_sequence(reader *r, const gal_model *model)
{
    const gal_axis axes[] = {
        {is_causal(model) ? GAL_AXIS_ZIGZAG : GAL_AXIS_RING, read_u32(r, GAL_COLUMN_CP, 1, DEGREE_MAX, 1)},
        {GAL_AXIS_ULYSSES, read_u32(r, GAL_COLUMN_ULYSSES, 1, DEGREE_MAX, 1)},
        {GAL_AXIS_RING, read_u32(r, GAL_COLUMN_RING, 1, DEGREE_MAX, 1)},
    };
    gal_axis chosen = {GAL_AXIS_ULYSSES, 1};
    for (uint32_t i = 0; i < sizeof axes / sizeof axes[0]; i++) {
        if (axes[i].degree > 1 && chosen.degree > 1) {
            refuse_row(r, "of cp, ulysses and ring at most one may be above 1");
        }
        chosen = axes[i].degree > 1 ? axes[i] : chosen;
    }
    return chosen;
}

static const char *sequence_column(const gal_axis *sequence, bool cp)
{
    return column_names[sequence->kind == GAL_AXIS_ULYSSES ? GAL_COLUMN_ULYSSES : cp ? GAL_COLUMN_CP : GAL_COLUMN_RING];
}

/* "gpus 8 is not dp 3 x tp 2 x pp 1 = 6": the factors that there are, with their product. */
static void refuse_product(reader *r, const gal_uniform_layout *layout, const gal_axis *sequence, uint32_t gpus,
                           uint64_t inner)
{
    char rule[RULE_BYTES], split[64] = "", replicas[32] = "";
    const bool says_dp = has(r, GAL_COLUMN_DP);
    if (sequence->degree > 1) {
        (void)snprintf(split, sizeof split, " x %s %u", sequence_column(sequence, has(r, GAL_COLUMN_CP)),
                       sequence->degree);
    }
    if (says_dp) {
        (void)snprintf(replicas, sizeof replicas, "dp %u x ", layout->dp_degree);
    }
    (void)snprintf(rule, sizeof rule, "gpus %u is %s%stp %u x pp %u%s = %llu", gpus,
                   says_dp ? "not " : "no multiple of ", replicas, layout->tp_degree, layout->pp_degree, split,
                   (unsigned long long)(says_dp ? inner * layout->dp_degree : inner));
    refuse_row(r, rule);
}

static uint32_t read_degrees(reader *r, const gal_axis *sequence, gal_uniform_layout *out)
{
    out->tp_degree = read_u32(r, GAL_COLUMN_TP, 1, DEGREE_MAX, 1);
    out->pp_degree = read_u32(r, GAL_COLUMN_PP, 1, DEGREE_MAX, 1);
    const uint32_t gpus = read_u32(r, GAL_COLUMN_GPUS, 1, GAL_DEVICES_MAX, 0);
    const uint64_t inner = (uint64_t)out->tp_degree * out->pp_degree * sequence->degree;
    const uint32_t rest = gpus / inner > 0 ? (uint32_t)(gpus / inner) : 1;
    out->dp_degree = read_u32(r, GAL_COLUMN_DP, 1, DEGREE_MAX, rest);
    if (inner > GAL_DEVICES_MAX || inner * out->dp_degree > GAL_DEVICES_MAX) {
        refuse_row(r, "there are more than 2^20 devices");
        return 1;
    }
    if (gpus != 0 && gpus != inner * out->dp_degree) {
        refuse_product(r, out, sequence, gpus, inner);
    }
    return (uint32_t)(inner * out->dp_degree);
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
    static const char *const stages[] = {"0", "1", "2", "3"};
    out->sequence_parallel = read_u32(r, GAL_COLUMN_SP, 0, 1, 0) != 0;
    out->zero_stage = read_word(r, GAL_COLUMN_ZERO, GAL_VOCABULARY_ZERO, stages, 4, 0);
    out->microbatch_samples = read_u32(r, GAL_COLUMN_MICROBATCH, 1, GAL_BATCH_SAMPLES_MAX, 1);
    const uint64_t pass = (uint64_t)out->microbatch_samples * out->dp_degree;
    out->global_batch_samples = read_u32(r, GAL_COLUMN_GLOBAL_BATCH, 1, GAL_BATCH_SAMPLES_MAX,
                                         pass < GAL_BATCH_SAMPLES_MAX ? (uint32_t)pass : GAL_BATCH_SAMPLES_MAX);
    out->recompute = (gal_recompute)read_word(r, GAL_COLUMN_RECOMPUTE, GAL_VOCABULARY_RECOMPUTE, gal_recompute_names,
                                              GAL_RECOMPUTE_COUNT, 0);
    out->schedule = (gal_schedule)read_word(r, GAL_COLUMN_SCHEDULE, GAL_VOCABULARY_SCHEDULE, gal_schedule_names,
                                            GAL_SCHEDULE_INTERLEAVED + 1, GAL_SCHEDULE_1F1B);
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

/* Keeps why a row is refused, without the place, which the row says itself. Without memory GAL_ERR_SYSTEM. */
static gal_code keep_refusal(const gal_layout_rows *rows, uint32_t row, const char *text, gal_layout_row *out,
                             gal_error *err)
{
    char place[RULE_BYTES];
    const int length = snprintf(place, sizeof place, "%s:%u: ", gal_csv_path(rows->csv), gal_csv_line(rows->csv, row));
    const bool has_place = length > 0 && length < RULE_BYTES && strncmp(text, place, (size_t)length) == 0;
    *out = (gal_layout_row){.refused = strdup(text + (has_place ? length : 0)), .row = row};
    return out->refused == NULL ? gal_fail(err, GAL_ERR_SYSTEM, "out of memory: rows") : GAL_OK;
}

static gal_code read_row(gal_layout_rows *rows, uint32_t row, const gal_layout_defaults *defaults, gal_error *err)
{
    gal_error why = {0};
    reader r = {.rows = rows, .defaults = defaults, .row = row, .err = &why, .code = GAL_OK};
    gal_layout_row *out = &rows->row[row];
    uint64_t bytes = 0;
    out->row = row;
    r.code = gal_csv_check_row(rows->csv, row, &why);
    gal_model_defaults(&out->model);
    start_model(&r, out);
    read_facts(&r, &out->model);
    read_dropout(&r, &out->model);
    out->sequence = read_sequence(&r, &out->model);
    const uint32_t devices = read_degrees(&r, &out->sequence, &out->layout);
    read_layout(&r, &out->model, &out->layout);
    out->cluster = read_cluster(&r, devices);
    read_dtype(&r, out);
    out->origins.sequence = has(&r, GAL_COLUMN_SEQ) ? GAL_ORIGIN_COLUMN : out->origins.sequence;
    out->origins.batch = GAL_ORIGIN_COLUMN;
    out->seconds = read_f64(&r, GAL_COLUMN_SECONDS, 1e-9, GAL_SECONDS_MAX, 0.0);
    if (r.code == GAL_OK) {
        r.code = gal_csv_size(rows->csv, row, rows->column[GAL_COLUMN_BYTES], 1, GAL_BYTES_MAX, &bytes, &why);
    }
    out->bytes = (double)bytes;
    out->group = text_of(&r, GAL_COLUMN_GROUP);
    return r.code == GAL_OK           ? GAL_OK
           : r.code == GAL_ERR_SYSTEM ? gal_fail(err, r.code, "%s", why.text)
                                      : keep_refusal(rows, row, why.text, out, err);
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

static gal_code unknown_column(const gal_csv *csv, const char *name, gal_error *err)
{
    char known[RULE_BYTES];
    gal_words_suggest(GAL_VOCABULARY_COLUMN, name, column_names, GAL_LAYOUT_COLUMN_COUNT, known, sizeof known);
    return gal_fail(err, GAL_ERR_DOCUMENT, "%s:%u: unknown column \"%s\"; %s", gal_csv_path(csv),
                    gal_csv_names_line(csv), name, known);
}

static gal_code find_columns(gal_layout_rows *rows, gal_error *err)
{
    for (uint32_t i = 0; i < GAL_LAYOUT_COLUMN_COUNT; i++) {
        rows->column[i] = GAL_CSV_NONE;
    }
    for (uint32_t c = 0; c < gal_csv_column_count(rows->csv); c++) {
        const char *name = gal_csv_column_name(rows->csv, c);
        const uint32_t known = gal_words_find(GAL_VOCABULARY_COLUMN, name, column_names, GAL_LAYOUT_COLUMN_COUNT);
        if (known == GAL_LAYOUT_COLUMN_COUNT) {
            return unknown_column(rows->csv, name, err);
        }
        if (rows->column[known] != GAL_CSV_NONE) {
            return gal_fail(err, GAL_ERR_DOCUMENT, "%s:%u: columns \"%s\" and \"%s\" both say %s",
                            gal_csv_path(rows->csv), gal_csv_names_line(rows->csv),
                            gal_csv_column_name(rows->csv, rows->column[known]), name, column_names[known]);
        }
        rows->column[known] = c;
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
    rows->kept = gal_kept_documents_create();
    rows->row = calloc((size_t)gal_csv_row_count(rows->csv) + 1, sizeof *rows->row);
    if (rows->row == NULL || rows->kept == NULL) {
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

gal_code gal_layout_rows_check(const gal_layout_rows *rows, gal_error *err)
{
    for (uint32_t i = 0; i < gal_layout_rows_count(rows); i++) {
        if (rows->row[i].refused != NULL) {
            return gal_fail(err, GAL_ERR_DOCUMENT, "%s:%u: %s", gal_csv_path(rows->csv), gal_csv_line(rows->csv, i),
                            rows->row[i].refused);
        }
    }
    return GAL_OK;
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
