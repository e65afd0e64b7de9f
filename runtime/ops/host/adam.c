#include "runtime/ops/host/adam.h"

#include <stdbool.h>

GAL_INLINE void update(const gal_adam_scalars *scalars, const gal_adam_range *range)
{
    const gal_adam_scalars a = *scalars;
    gal_real *restrict w = range->w, *restrict m = range->m, *restrict v = range->v;
    const gal_real *restrict g = range->g;
    const size_t end = range->end;
    for (size_t i = range->begin; i < end; i++) {
        const gal_real gradient = g[i] * a.clip + a.l2 * w[i];
        m[i] = a.beta1 * m[i] + a.rest1 * gradient;
        v[i] = a.beta2 * v[i] + a.rest2 * gradient * gradient;
        const gal_real deviation = gal_real_sqrt(v[i]) * a.v_correction + a.epsilon;
        w[i] = (w[i] - a.decoupled_rate * w[i]) - a.corrected_rate * m[i] / deviation;
    }
}

static void update_plain(const gal_adam_scalars *scalars, const gal_adam_range *range)
{
    update(scalars, range);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void update_avx2(const gal_adam_scalars *scalars, const gal_adam_range *range)
{
    update(scalars, range);
}

__attribute__((target("avx512f"))) static void update_avx512(const gal_adam_scalars *scalars,
                                                             const gal_adam_range *range)
{
    update(scalars, range);
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f");
}
#else
#define update_avx2 update_plain
#define update_avx512 update_plain

static bool has_avx2(void)
{
    return false;
}

static bool has_avx512(void)
{
    return false;
}
#endif

uint32_t gal_adam_versions(gal_adam_version out[GAL_ADAM_VERSIONS_MAX])
{
    uint32_t count = 0;
    out[count++] = (gal_adam_version){"C", update_plain};
    if (has_avx2()) {
        out[count++] = (gal_adam_version){"AVX2", update_avx2};
    }
    if (has_avx512()) {
        out[count++] = (gal_adam_version){"AVX-512", update_avx512};
    }
    return count;
}

void gal_adam_update(const gal_adam_scalars *scalars, const gal_adam_range *range)
{
    (has_avx512() ? update_avx512 : has_avx2() ? update_avx2 : update_plain)(scalars, range);
}
