/* Global gradient norm, and Adam with L2 or decoupled decay.
 * Source: D. Kingma, J. Ba, "Adam: a method for stochastic optimization", ICLR 2015, algorithm 1; I. Loshchilov,
 * F. Hutter, "Decoupled weight decay regularization", ICLR 2019, algorithm 2 (decay times the learning rate, as
 * PyTorch has it). Clipping as torch.nn.utils.clip_grad_norm_. */
#include <string.h>

#include "runtime/ops/host/adam.h"
#include "runtime/ops/host/kernels.h"

gal_code GAL_KERNEL(norm_start)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    const bool has_loss = call->operand_count == 2;
    double *norm = call->operand[has_loss ? 1 : 0];
    const double loss = has_loss ? *(const double *)call->operand[0] : 0.0;
    norm[0] = 0.0;
    norm[1] = loss / (double)call->dims[0];
    return GAL_OK;
}

GAL_VECTOR
static double sum_of_squares(const gal_real *x, size_t count)
{
    return gal_row_dot(x, x, count);
}

/* The sum is of the sums of so many parts, in their order: the same bits for any number of threads. */
enum { SQUARE_PARTS = 64, SQUARE_UNIT = 1024 };

typedef struct square_sums {
    const gal_real *x;
    gal_cut cut;
    double *sum; /* [SQUARE_PARTS] */
} square_sums;

static void squares_part(const void *context, uint32_t part)
{
    const square_sums *at = context;
    const size_t begin = gal_cut_begin(&at->cut, part);
    at->sum[part] = sum_of_squares(at->x + begin, gal_cut_begin(&at->cut, part + 1) - begin);
}

gal_code GAL_KERNEL(sum_squares)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    double *norm = call->operand[1];
    double part_sum[SQUARE_PARTS], total = 0.0;
    const square_sums sums = {
        .x = call->operand[0],
        .cut = {.count = call->dims[0],
                .unit = SQUARE_UNIT,
                .part_count = call->dims[0] < SQUARE_PARTS * SQUARE_UNIT ? 1 : SQUARE_PARTS},
        .sum = part_sum,
    };
    gal_parallel(sums.cut.part_count, squares_part, &sums);
    for (uint32_t part = 0; part < sums.cut.part_count; part++) {
        total += part_sum[part];
    }
    norm[0] += total / (double)call->dims[1];
    return GAL_OK;
}

static gal_adam_scalars scalars_of(const gal_kernel_step *step, double square_sum)
{
    const gal_optimizer *optimizer = &step->model->optimizer;
    const double count = (double)(step->step + 1);
    double clip = 1.0;
    if (optimizer->gradient_clip_norm > 0.0) {
        clip = optimizer->gradient_clip_norm / (sqrt(square_sum) + 1e-6);
        clip = clip > 1.0 ? 1.0 : clip; /* NaN stays NaN */
    }
    if (step->gradient_scale > 0.0) { /* beside a device of fp16: the norm is without it, gradients are not */
        clip /= step->gradient_scale;
    }
    const bool decoupled = optimizer->kind == GAL_OPTIMIZER_ADAMW;
    return (gal_adam_scalars){
        .clip = (gal_real)clip,
        .l2 = (gal_real)(decoupled ? 0.0 : optimizer->weight_decay),
        .decoupled_rate = (gal_real)(decoupled ? step->learning_rate * optimizer->weight_decay : 0.0),
        .beta1 = (gal_real)optimizer->beta1,
        .beta2 = (gal_real)optimizer->beta2,
        .rest1 = (gal_real)(1.0 - optimizer->beta1),
        .rest2 = (gal_real)(1.0 - optimizer->beta2),
        .corrected_rate = (gal_real)(step->learning_rate / (1.0 - pow(optimizer->beta1, count))),
        .v_correction = (gal_real)(1.0 / sqrt(1.0 - pow(optimizer->beta2, count))),
        .epsilon = (gal_real)optimizer->epsilon,
    };
}

/* What the update of a call reads and writes. */
typedef struct adam_arrays {
    gal_real *w;
    const gal_real *g;
    gal_real *m, *v;
    const double *norm;
    uint64_t first_element; /* of the unit */
} adam_arrays;

static void update_part(const gal_split *at, uint32_t part, const adam_arrays *of)
{
    const gal_kernel_call *call = at->call;
    const uint64_t first = of->first_element;
    const uint64_t left = call->dims[1] > first ? call->dims[1] - first : 0;
    const size_t begin = gal_cut_begin(&at->cut, part), end = gal_cut_begin(&at->cut, part + 1);
    const size_t decaying = left < end ? (left > begin ? (size_t)left : begin) : end;
    gal_adam_scalars scalars = scalars_of(call->step, *of->norm);
    gal_adam_range range = {.w = of->w, .g = of->g, .m = of->m, .v = of->v, .begin = begin, .end = decaying};
    gal_adam_update(&scalars, &range);
    scalars.l2 = 0;
    scalars.decoupled_rate = 0;
    range.begin = decaying;
    range.end = end;
    gal_adam_update(&scalars, &range);
}

/* A rank's range begins at element index * elements. */
static uint64_t first_of_range(const gal_kernel_call *call)
{
    return (uint64_t)call->group_index * call->dims[0];
}

static void adam_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    void *const *operand = at->call->operand;
    update_part(at, part,
                &(adam_arrays){operand[0], operand[1], operand[2], operand[3], operand[4], first_of_range(at->call)});
}

gal_code GAL_KERNEL(adam)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    gal_split_run(call, call->dims[0], GAL_COLUMN_UNIT, 1, adam_part);
    return GAL_OK;
}

/* On the host nothing is narrower. */
gal_code GAL_KERNEL(keep_gradient)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    memcpy(call->operand[1], call->operand[0], call->dims[0] * sizeof(gal_real));
    return GAL_OK;
}

/* The weights are the masters; these are updated by the gradient that lies where the weights were. */
static void adam_in_place_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    void *const *operand = at->call->operand;
    const double *norm = operand[3];
    const size_t begin = gal_cut_begin(&at->cut, part), end = gal_cut_begin(&at->cut, part + 1);
    gal_real *place = operand[0], *master = operand[4];
    if (isfinite(norm[0]) && isfinite(norm[1])) {
        update_part(at, part, &(adam_arrays){master, place, operand[1], operand[2], norm, first_of_range(at->call)});
    }
    memcpy(place + begin, master + begin, (end - begin) * sizeof *place);
}

gal_code GAL_KERNEL(adam_in_place)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    gal_split_run(call, call->dims[0], GAL_COLUMN_UNIT, 1, adam_in_place_part);
    return GAL_OK;
}

gal_code GAL_KERNEL(host_adam)(const gal_kernel_call *call, gal_error *err)
{
    return GAL_KERNEL(adam)(call, err);
}

/* Of a range of dims[2] elements those from dims[3] on. */
static void host_adam_part_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    void *const *operand = at->call->operand;
    const uint32_t *dims = at->call->dims;
    update_part(at, part,
                &(adam_arrays){operand[0], operand[1], operand[2], operand[3], operand[4],
                               (uint64_t)at->call->group_index * dims[2] + dims[3]});
}

gal_code GAL_KERNEL(host_adam_part)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    gal_split_run(call, call->dims[0], GAL_COLUMN_UNIT, 1, host_adam_part_part);
    return GAL_OK;
}
