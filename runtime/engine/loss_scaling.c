#include "runtime/engine/loss_scaling.h"

#include <math.h>

static const double first_scale = 32768.0;

void gal_loss_scaling_init(gal_loss_scaling *out)
{
    *out = (gal_loss_scaling){.scale = first_scale};
}

void gal_loss_scaling_update(gal_loss_scaling *at, bool finite)
{
    at->finite_steps = finite ? at->finite_steps + 1 : 0;
    if (!finite) {
        at->scale = fmax(at->scale / 2.0, 1.0);
    } else if (at->finite_steps == GAL_LOSS_SCALING_STEPS) {
        at->scale = fmin(at->scale * 2.0, GAL_LOSS_SCALING_MAX);
        at->finite_steps = 0;
    }
}
