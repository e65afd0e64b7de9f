/* What kernels take alone, by their shapes: blocks under many strategies run the same ones. For costmodel alone. */
#ifndef GAL_COSTMODEL_KNOWN_KERNELS_H
#define GAL_COSTMODEL_KNOWN_KERNELS_H

#include "costmodel/duration.h"

enum { GAL_KNOWN_KERNELS = 1024 };

/* Shapes that fall on one place displace each other. Zeroed it is empty. */
typedef struct gal_known_kernels {
    const gal_durations *durations; /* they are of */
    struct {
        gal_shape shape;
        double seconds; /* 0: none */
    } at[GAL_KNOWN_KERNELS];
} gal_known_kernels;

/* As gal_kernel_seconds. */
double gal_known_kernel_seconds(gal_known_kernels *known, const gal_durations *durations, const gal_shape *shape);

#endif
