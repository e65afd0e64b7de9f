/* Which kernels OpenBLAS uses. It looks the processor up in a table when it is loaded; one that is newer than the
 * table gets the oldest kernels (SSE3), several times too slow. */
#ifndef GAL_RUNTIME_OPS_HOST_BLAS_H
#define GAL_RUNTIME_OPS_HOST_BLAS_H

/* If OpenBLAS fell back to its oldest kernels on a processor with AVX2 or AVX-512, names better ones in
 * OPENBLAS_CORETYPE and runs this program again from the start; else, or where the variable is set already, returns.
 * Call it first in main: what it starts inherits the variable, so measuring and training use the same kernels. */
void gal_blas_choose_kernels(char *const *argv);

/* "OpenBLAS 0.3.21 SkylakeX": version and kernels in use. A static string after the first call. */
const char *gal_blas_description(void);

#endif
