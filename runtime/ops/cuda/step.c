/* What the host works out for device kernels between two steps. */
#include <math.h>

#include "runtime/ops/cuda/kernels.h"

/* Adam's corrections are as runtime/ops/host/optimizer.c has them: a device's pow might round otherwise. */
gal_cuda_step gal_cuda_step_of(const gal_kernel_step *step, double gradient_scale)
{
    const gal_optimizer *optimizer = &step->model->optimizer;
    const double count = (double)(step->step + 1);
    const bool decoupled = optimizer->kind == GAL_OPTIMIZER_ADAMW;
    return (gal_cuda_step){
        .seed = step->seed,
        .step = (uint32_t)step->step,
        .training = step->training ? 1 : 0,
        .loss_scale = step->loss_scale,
        .gradient_scale = gradient_scale,
        .decoupled_rate = (float)(decoupled ? step->learning_rate * optimizer->weight_decay : 0.0),
        .corrected_rate = (float)(step->learning_rate / (1.0 - pow(optimizer->beta1, count))),
        .v_correction = (float)(1.0 / sqrt(1.0 - pow(optimizer->beta2, count))),
    };
}

static const double first_scale = 32768.0, largest_scale = 16777216.0;
enum { GROWTH_STEPS = 2000 };

void gal_cuda_scaling_init(gal_cuda_scaling *out)
{
    *out = (gal_cuda_scaling){.scale = first_scale};
}

void gal_cuda_scaling_update(gal_cuda_scaling *at, int finite)
{
    at->finite_steps = finite ? at->finite_steps + 1 : 0;
    if (!finite) {
        at->scale = fmax(at->scale / 2.0, 1.0);
    } else if (at->finite_steps == GROWTH_STEPS) {
        at->scale = fmin(at->scale * 2.0, largest_scale);
        at->finite_steps = 0;
    }
}
