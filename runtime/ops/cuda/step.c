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
