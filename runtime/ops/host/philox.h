/* Philox in bulk; gal_philox itself is in runtime/ops/ops.h. */
#ifndef GAL_RUNTIME_OPS_HOST_PHILOX_H
#define GAL_RUNTIME_OPS_HOST_PHILOX_H

#include <stddef.h>
#include <stdint.h>

/* lanes[4 * count]: those of gal_philox(key, quad, ...), gal_philox(key, quad + 1, ...), ... */
void gal_philox_many(uint64_t key, uint64_t quad, uint32_t site, uint32_t step, size_t count, uint32_t *lanes);

#endif
