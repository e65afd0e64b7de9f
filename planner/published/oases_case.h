/* One training run of the paper of Oases: a model on devices under one of the methods that it compares, lowered and
 * simulated. For the reproduction of its tables (planner/published/oases_tables.h).
 *
 *     Megatron-LM    TP whose collectives nothing hides; recompute runs all of forward again (recompute repeat)
 *     Merak          two sub-batches inside every pass, recompute as above (overlap in_pass)
 *     Cross-pass     section 3.1 (cross_pass)         Fine-grained   section 3.2 (fine)
 *     Planner        fine, and every block's degree by Eq. 3 to 6 (planner/search/named_oases.c)
 * 16 bits beside fp32 masters; gradients of replicas are summed beside backward, in 16 bits, as Megatron-LM's fp16 does
 * under PyTorch's data parallel. galrun's own programs sum them in fp32: here half of their bytes travel. */
#ifndef GAL_PLANNER_PUBLISHED_OASES_CASE_H
#define GAL_PLANNER_PUBLISHED_OASES_CASE_H

#include "costmodel/duration.h"
#include "runtime/program/program.h"
#include "schemas/plan.h"

/* X(enumerator, name) */
#define GAL_OASES_METHODS(X)                                                                                           \
    X(GAL_OASES_MEGATRON, "Megatron-LM")                                                                               \
    X(GAL_OASES_MERAK, "Merak")                                                                                        \
    X(GAL_OASES_CROSS_PASS, "Cross-pass")                                                                              \
    X(GAL_OASES_FINE, "Fine-grained")                                                                                  \
    X(GAL_OASES_PLANNER, "Planner")

typedef enum gal_oases_method {
#define X(enumerator, name) enumerator,
    GAL_OASES_METHODS(X)
#undef X
        GAL_OASES_METHOD_COUNT
} gal_oases_method;

extern const char *const gal_oases_method_names[GAL_OASES_METHOD_COUNT];

/* All devices of the cluster; tp_degree * pp_degree divides them, the rest are replicas. */
typedef struct gal_oases_case {
    gal_model model;
    gal_cluster cluster;
    uint32_t tp_degree, pp_degree;
    uint32_t global_batch_samples, microbatch_count;
} gal_oases_case;

/* The catalogue's model and its first devices of a cluster. The model's own batch; a microbatch is all of it. */
gal_code gal_oases_case_read(const char *model, const char *cluster, uint32_t devices, uint32_t tp_degree,
                             gal_oases_case *out, gal_error *err);

/* Of the uniform methods, layers dealt evenly to stages. *out owns its runs and stages: gal_plan_free. GAL_ERR_SYSTEM
 * without memory; GAL_NO if the plan is not legal. */
gal_code gal_oases_case_plan(const gal_oases_case *of, gal_oases_method method, gal_plan *out, gal_error *err);

typedef struct gal_oases_seconds {
    double step;           /* simulated */
    double compute;        /* of it: kernels run on the first stage */
    uint64_t device_bytes; /* of the largest stage, with what the framework keeps */
} gal_oases_seconds;

/* The plan's programs, gradients summed in 16 bits: [pp_degree], each to be freed. */
gal_code gal_oases_plan_lower(const gal_plan *plan, gal_program **programs, gal_error *err);

/* GAL_ERR_SYSTEM without memory. */
gal_code gal_oases_plan_seconds(const gal_plan *plan, const gal_durations *durations, gal_oases_seconds *out,
                                gal_error *err);

/* The paper's grid search for its baselines (section 5.1): of all degrees of TP, the rest replicas, the one of least
 * simulated step among the legal ones whose bytes fit the device. *tp_degree is 0 if there is none. GAL_ERR_SYSTEM
 * without memory. */
gal_code gal_oases_case_search(const gal_oases_case *of, gal_oases_method method, const gal_durations *durations,
                               uint32_t *tp_degree, double *step_seconds, gal_error *err);

/* What Planner proposes: the plan, owned by the caller, and the processor's seconds that it took. GAL_NO: none fits. */
gal_code gal_oases_case_propose(const gal_oases_case *of, const gal_durations *durations, gal_plan *out,
                                double *seconds, gal_error *err);

#endif
