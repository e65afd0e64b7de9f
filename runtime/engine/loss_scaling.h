/* Dynamic loss scaling of programs of fp16, whose gradients would else be too small for the type. Every rank keeps its
 * own: all see the same norm and so the same scale.
 * Source: P. Micikevicius et al., "Mixed precision training", ICLR 2018, section 3.2; sizes as in PyTorch's GradScaler
 * (factors 2 and 1/2, 2,000 finite steps), but from 2^15 on and within [1, 2^24]. */
#ifndef GAL_RUNTIME_ENGINE_LOSS_SCALING_H
#define GAL_RUNTIME_ENGINE_LOSS_SCALING_H

#include <stdbool.h>
#include <stdint.h>

enum { GAL_LOSS_SCALING_STEPS = 2000 }; /* finite ones until the scale is doubled */
#define GAL_LOSS_SCALING_MAX 16777216.0

typedef struct gal_loss_scaling {
    double scale;          /* a power of two, 1 .. GAL_LOSS_SCALING_MAX */
    uint32_t finite_steps; /* since the scale changed, below GAL_LOSS_SCALING_STEPS */
} gal_loss_scaling;

void gal_loss_scaling_init(gal_loss_scaling *out);
/* After a step: finite if the norm was, that is if adam wrote anything. */
void gal_loss_scaling_update(gal_loss_scaling *at, bool finite);

#endif
