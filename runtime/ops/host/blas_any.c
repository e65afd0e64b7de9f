#include "runtime/ops/host/blas.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The best kernels that the processor can run, or NULL to leave the choice alone. */
static const char *better_core(void)
{
#if defined(__x86_64__)
    if (strcmp(openblas_get_corename(), "Prescott") != 0) {
        return NULL;
    }
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
        return "SkylakeX";
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return "Haswell";
    }
#endif
    return NULL;
}

void gal_blas_choose_kernels(char *const *argv)
{
    const char *core = getenv("OPENBLAS_CORETYPE") == NULL ? better_core() : NULL;
    if (core != NULL && setenv("OPENBLAS_CORETYPE", core, 1) == 0) {
        execv("/proc/self/exe", argv); /* where this fails the slow kernels do the same work */
    }
}

const char *gal_blas_description(void)
{
    static char text[128];
    if (text[0] == '\0') {
        char version[64] = "";
        if (sscanf(openblas_get_config(), "OpenBLAS %63s", version) != 1) {
            version[0] = '\0';
        }
        snprintf(text, sizeof text, "OpenBLAS %s %s", version, openblas_get_corename());
    }
    return text;
}
