/* The galvatron_plan document: a strategy of Hetu-Galvatron as such, Ulysses included. `galplan import` makes it of
 * that project's strategy file and `galplan export` writes one; the price provider `galvatron` prices it. galrun runs
 * plans (schemas/plan.h), which `galplan import --model --cluster` makes of it.
 *
 * pp_degree stages of D = device_count / pp_degree devices. A layer splits over `degree` neighbours, by tensors
 * (Megatron) or by sequence (Ulysses), and the batch over the D / degree that are left; these replicate states as
 * data_parallel says, or shard all of them (zero3). Outside the layers, embedding and head share one such strategy. */
#ifndef GAL_SCHEMAS_GALVATRON_PLAN_H
#define GAL_SCHEMAS_GALVATRON_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/base/status.h"
#include "schemas/model.h"
#include "schemas/plan.h"

enum { GAL_GALVATRON_PLAN_VERSION = 1 };

/* What replicas that are not zero3 do: keep all states, or shard gradients and moments. */
#define GAL_GALVATRON_DATA_PARALLELS(X)                                                                                \
    X(GAL_GALVATRON_DDP, "ddp")                                                                                        \
    X(GAL_GALVATRON_ZERO2, "zero2")

#define X(enumerator, name) enumerator,
typedef enum gal_galvatron_data_parallel {
    GAL_GALVATRON_DATA_PARALLELS(X) GAL_GALVATRON_DATA_PARALLEL_COUNT
} gal_galvatron_data_parallel;
#undef X
extern const char *const gal_galvatron_data_parallel_names[GAL_GALVATRON_DATA_PARALLEL_COUNT];

typedef struct gal_galvatron_strategy {
    uint32_t degree; /* divides D */
    bool ulysses, zero3;
    bool recompute; /* the whole layer; not outside the layers */
} gal_galvatron_strategy;

typedef struct gal_galvatron_run {
    uint32_t layer_count;
    gal_galvatron_strategy strategy;
} gal_galvatron_run;

typedef struct gal_galvatron_plan {
    char name[GAL_NAME_BYTES];
    uint32_t device_count, pp_degree;
    uint32_t global_batch_samples, microbatch_count; /* need not divide: what a replica gets is rounded down */
    gal_schedule schedule;                           /* gpipe or 1f1b */
    gal_galvatron_data_parallel data_parallel;
    gal_galvatron_strategy outside;
    uint32_t *stage_layer_count; /* owned; [pp_degree] */
    uint32_t run_count;
    gal_galvatron_run *run; /* owned; in layer order */
} gal_galvatron_plan;

/* As gal_document_read and gal_document_write (schemas/document.h). */
gal_code gal_galvatron_plan_read(const char *path, gal_galvatron_plan *out, gal_error *err);
gal_code gal_galvatron_plan_write(const char *path, const gal_galvatron_plan *plan, gal_error *err);
void gal_galvatron_plan_free(gal_galvatron_plan *plan);

uint32_t gal_galvatron_plan_layer_count(const gal_galvatron_plan *plan);
const gal_galvatron_strategy *gal_galvatron_plan_strategy(const gal_galvatron_plan *plan, uint32_t layer);
bool gal_galvatron_strategy_equal(const gal_galvatron_strategy *a, const gal_galvatron_strategy *b);

/* The rules between members; GAL_ERR_DOCUMENT with "/path: rule" for the first that is broken. */
gal_code gal_galvatron_plan_check(const gal_galvatron_plan *plan, gal_error *err);

#endif
