/* One rank of a plan under test: program, communicators and an engine on poisoned memory, fed with synthetic tokens;
 * and the model's tensors as one rank computes them, to compare with. Documents and memory fail by assertion here. */
#ifndef GAL_TESTS_SUPPORT_NUMERICS_TRIAL_H
#define GAL_TESTS_SUPPORT_NUMERICS_TRIAL_H

#include "runtime/engine/engine.h"
#include "runtime/train/weights.h"

enum { GAL_TRIAL_STEPS = 5, GAL_TRIAL_TENSORS_MAX = 192 };

/* What ranks compute on, and how far their results may be off those of the host in fp64. */
typedef struct gal_trial_on {
    const char *name;
    const gal_device_ops *device; /* with queues: communication is staged through the host */
    const gal_ops *ops;           /* the plan's compute_dtype is its */
    double relative_bound;        /* losses, norms, gradients: see gal_trial_compare */
    double weight_bound;          /* weights likewise, and by so many times the steps' learning rates */
    bool same_memory;             /* every buffer of the program is written: no kernels are fused */
    bool delays;   /* requests between ranks are late (delayed_comm.h), of ranks that compute by the host alone */
    bool one_adam; /* the device's is the kernel that updates in the host's memory: the same bits */
    const gal_ops *host_ops; /* of devices with queues: what the host does beside them; else NULL */
    const gal_ops *wide_ops; /* of 16 bits: see gal_engine_options; else NULL */
    bool graphs;
} gal_trial_on;

extern const gal_trial_on gal_trial_on_host; /* fp64 */

typedef struct gal_trial {
    const gal_plan *plan; /* borrowed */
    const gal_trial_on *on;
    uint32_t rank, device; /* device: number within the stage */
    gal_program *program;
    gal_channels channels;
    gal_comm *comm; /* NULL: one rank */
    gal_engine *engine;
    unsigned char *copy; /* of a buffer in the arena */
    double *value;       /* its numbers */
} gal_trial;

/* A token of the synthetic data: a function of its indices alone. Targets of an encoder-decoder are those of positions
 * from GAL_TRIAL_TARGETS on. */
enum { GAL_TRIAL_TARGETS = 1 << 16 };
int32_t gal_trial_token(uint32_t vocabulary, uint64_t batch, uint32_t sample, uint32_t position, bool evaluation);

/* The synthetic data for any rank of a plan, which is borrowed: numerics_tokens.c. */
gal_token_source gal_trial_tokens(const gal_plan *plan);
/* Where files of storage go: to memory if possible, as other work on a disk is a delay. */
const char *gal_trial_storage(void);

/* Ranks of the plan. */
uint32_t gal_trial_world(const gal_plan *plan);

/* The rank's arena is poisoned, then its weights are initialised by `seed`. More than one rank: collective over the
 * launch; *out is zeroed on ranks that the plan does not need. tokens NULL: the synthetic ones. */
gal_code gal_trial_create(const gal_plan *plan, uint64_t seed, const gal_token_source *tokens, gal_trial *out,
                          gal_error *err);
/* The same on something else than the host. */
gal_code gal_trial_create_on(const gal_trial_on *on, const gal_plan *plan, uint64_t seed,
                             const gal_token_source *tokens, gal_trial *out, gal_error *err);
void gal_trial_free(gal_trial *trial); /* accepts a zeroed one */

/* The plan that computes the same on one rank, in one microbatch. gal_plan_free releases it. */
void gal_trial_serial_plan(const gal_plan *plan, gal_plan *out);

/* The tensors of a model: values of tensor t, without padding, from value[offset[t]] on, offset[t + 1] - offset[t]
 * many. */
typedef struct gal_tensor_table {
    uint32_t count;
    uint64_t offset[GAL_TRIAL_TENSORS_MAX + 1];
    char name[GAL_TRIAL_TENSORS_MAX][GAL_PARAMETER_NAME_BYTES];
} gal_tensor_table;

/* Of a program that holds the whole model: one stage. */
void gal_tensor_table_of(const gal_program *program, gal_tensor_table *out);

/* What one rank gives. gradient: after the first step, before clipping; weight: after the last one. */
typedef struct gal_reference {
    gal_tensor_table table;
    double loss[GAL_TRIAL_STEPS], norm[GAL_TRIAL_STEPS], evaluation;
    double *gradient, *weight; /* owned */
} gal_reference;

/* Allocates the arrays for the plan's model. */
void gal_reference_create(const gal_plan *serial, gal_reference *out);
void gal_reference_free(gal_reference *reference);
/* Trains GAL_TRIAL_STEPS steps and evaluates one batch, on this rank alone. */
gal_code gal_reference_run(const gal_plan *serial, uint64_t seed, double learning_rate, gal_reference *out,
                           gal_error *err);

/* Element `element` of a unit on this device, from its definition in runtime/program/program.h: *parameter, or NULL
 * where the unit is padded, and the index in the global tensor without padding. */
bool gal_unit_element(const gal_program *program, uint32_t unit, uint32_t device, uint64_t element,
                      const gal_parameter **parameter, uint64_t *global_index);

/* The values that a device holds of a part of a unit: elements [first, first + count). Valid until the next call. */
typedef struct gal_unit_values {
    uint64_t first, count;
    const double *value;
} gal_unit_values;
gal_unit_values gal_trial_unit_values(const gal_trial *trial, uint32_t unit, gal_state_part part);

/* Copies what this rank holds of a part to its place in out[offset[count]]; the rest is left alone. */
void gal_trial_read(const gal_trial *trial, gal_state_part part, const gal_tensor_table *table, double *out);

/* Compares what this rank holds of a part (weights or gradients) with the reference's `expected`: padding exactly zero,
 * each tensor within relative * max(its largest entry, 1e-6 * the model's largest) + absolute. Returns the largest
 * error in units of the allowed one (> 1: refused) and describes it; held[element] counts the elements met, NULL: not
 * wanted. */
double gal_trial_compare(const gal_trial *trial, gal_state_part part, const gal_tensor_table *table,
                         const double *expected, double relative, double absolute, uint32_t *held, char *text,
                         size_t capacity);

/* The gradient of the bias of keys is zero: it moves all scores of a query alike. What is found there is the rounding
 * of sums whose terms do not vanish, some 1e-16 of the model's largest entries, and Adam makes weights of it that are
 * some 1e-3 / 1e-8 (learning rate, epsilon) times as large per step: such a tensor is allowed errors relative to the
 * model's largest entry, not to its own. */
bool gal_trial_has_no_gradient(const char *name);

#endif
