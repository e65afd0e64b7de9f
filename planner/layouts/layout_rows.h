/* Layouts, one per row of a table: the model (by name, or by its facts), the cluster, how it is cut, and what was
 * measured. */
#ifndef GAL_PLANNER_LAYOUTS_LAYOUT_ROWS_H
#define GAL_PLANNER_LAYOUTS_LAYOUT_ROWS_H

#include "costmodel/framework.h"
#include "planner/layouts/csv.h"
#include "schemas/model_choice.h"

/* X(enumerator, name, what it says) */
#define GAL_LAYOUT_COLUMNS(X)                                                                                          \
    X(GAL_COLUMN_MODEL, "model", "model document or catalogue name; the facts below replace its own")                  \
    X(GAL_COLUMN_FAMILY, "family", "decoder or llama, of a model by its facts (decoder)")                              \
    X(GAL_COLUMN_LAYERS, "layers", "with hidden, heads, seq and vocab the facts of a model without a document")        \
    X(GAL_COLUMN_HIDDEN, "hidden", "features of a row")                                                                \
    X(GAL_COLUMN_HEADS, "heads", "heads of queries")                                                                   \
    X(GAL_COLUMN_KV_HEADS, "kv_heads", "heads of keys and values, of a llama (heads)")                                 \
    X(GAL_COLUMN_FFN, "ffn", "width of the FFN (4 hidden)")                                                            \
    X(GAL_COLUMN_SEQ, "seq", "tokens of a sample (--sequence)")                                                        \
    X(GAL_COLUMN_VOCAB, "vocab", "entries of the vocabulary")                                                          \
    X(GAL_COLUMN_TIED, "tied", "1: the head shares the token table (decoder 1, llama 0)")                              \
    X(GAL_COLUMN_DROPOUT, "dropout", "probability of rows and scores (a document's own, else 0)")                      \
    X(GAL_COLUMN_DTYPE, "dtype",                                                                                       \
      "fp32, fp64, bf16 or fp16 (--dtype; a document's own, else bf16 or what the device has)")                        \
    X(GAL_COLUMN_CLUSTER, "cluster", "cluster document or catalogue name (--cluster)")                                 \
    X(GAL_COLUMN_GPUS, "gpus", "devices (dp x tp x pp x cp)")                                                          \
    X(GAL_COLUMN_DP, "dp", "replicas, or shards under zero (gpus / tp / pp / cp)")                                     \
    X(GAL_COLUMN_TP, "tp", "tensor parallel degree (1)")                                                               \
    X(GAL_COLUMN_PP, "pp", "stages (1)")                                                                               \
    X(GAL_COLUMN_CP, "cp", "context parallel degree: a ring, zigzag for causal models (1)")                            \
    X(GAL_COLUMN_ULYSSES, "ulysses", "in place of cp: degree of Ulysses (1)")                                          \
    X(GAL_COLUMN_RING, "ring", "in place of cp: degree of a ring of neighbouring positions (1)")                       \
    X(GAL_COLUMN_SP, "sp", "1: sequence parallel beside tp (0)")                                                       \
    X(GAL_COLUMN_ZERO, "zero", "ZeRO stage of dp: 0 to 3 (0)")                                                         \
    X(GAL_COLUMN_MICROBATCH, "microbatch", "samples of a microbatch on one replica (1)")                               \
    X(GAL_COLUMN_GLOBAL_BATCH, "global_batch", "samples of a step (microbatch x dp)")                                  \
    X(GAL_COLUMN_RECOMPUTE, "recompute", "none, selective, full or repeat (none)")                                     \
    X(GAL_COLUMN_SCHEDULE, "schedule", "gpipe, 1f1b or interleaved (1f1b)")                                            \
    X(GAL_COLUMN_CHUNKS, "chunks", "pieces of a stage, of interleaved (1)")                                            \
    X(GAL_COLUMN_STAGE_LAYERS, "stage_layers", "layers of each stage, as 11;13 (dealt evenly)")                        \
    X(GAL_COLUMN_SECONDS, "seconds", "of a step, as measured: what calibration fits to")                               \
    X(GAL_COLUMN_BYTES, "bytes", "peak of the fullest device, as measured")                                            \
    X(GAL_COLUMN_GROUP, "group", "rows that belong together: never apart in cross-validation")                         \
    X(GAL_COLUMN_NOTE, "note", "anything")

typedef enum gal_layout_column {
#define X(enumerator, name, text) enumerator,
    GAL_LAYOUT_COLUMNS(X)
#undef X
        GAL_LAYOUT_COLUMN_COUNT
} gal_layout_column;

typedef struct gal_layout_row {
    const char *refused; /* what is wrong with the row, owned by the rows; then nothing else but row is set. NULL: it is
                          * right */
    gal_model model;
    gal_model_origins origins;  /* of the model's facts */
    const gal_cluster *cluster; /* of as many devices as the layout has */
    gal_uniform_layout layout;
    gal_axis sequence;     /* ulysses, ring or zigzag: how positions are split; degree below 2: they are not */
    double seconds, bytes; /* measured; 0: not known */
    const char *group;     /* into the table's text; "" without such a column */
    uint32_t row;          /* of the table */
} gal_layout_row;

typedef struct gal_layout_rows gal_layout_rows;

/* What rows take that do not say it themselves. */
typedef struct gal_layout_defaults {
    const char *cluster; /* document or catalogue name; may be NULL */
    gal_model_options arithmetic;
} gal_layout_defaults;

/* A column may have the name that others use (planner/space/words.h). The dtype of a row: its column, else by the rule
 * of schemas/model_choice.h on the row's cluster. Errors as gal_csv_read, and GAL_ERR_DOCUMENT for an unknown column. A
 * wrong field and a layout that does not divide refuse the row alone. */
gal_code gal_layout_rows_read(const char *path, const gal_layout_defaults *defaults, gal_layout_rows **out,
                              gal_error *err);
void gal_layout_rows_free(gal_layout_rows *rows); /* accepts NULL */

/* GAL_ERR_DOCUMENT with file, line and reason if a row is refused, the first of them. */
gal_code gal_layout_rows_check(const gal_layout_rows *rows, gal_error *err);

const gal_csv *gal_layout_rows_table(const gal_layout_rows *rows);
uint32_t gal_layout_rows_count(const gal_layout_rows *rows);
const gal_layout_row *gal_layout_rows_at(const gal_layout_rows *rows, uint32_t row);

#endif
