/* Numbers of 16 bits on the host, and numbers of any type in memory. */
#ifndef GAL_RUNTIME_NARROW_H
#define GAL_RUNTIME_NARROW_H

#include "schemas/base/dtype.h"

/* fp32 to 16 bits, to nearest even, and back. NaNs stay NaNs. dtype: GAL_BF16 or GAL_FP16. */
uint16_t gal_narrow(float value, gal_dtype dtype);
float gal_widen(uint16_t bits, gal_dtype dtype);

/* Element `index` of numbers of a floating-point type: to nearest even, of 16 bits by way of fp32, so that they are
 * what fp32 elements of the same values are when rounded. */
void gal_put_real(gal_dtype dtype, void *out, uint64_t index, double value);
double gal_get_real(gal_dtype dtype, const void *from, uint64_t index);

#endif
