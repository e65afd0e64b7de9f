/* Seconds of a kernel from its shape and the device's figures alone: what stands where nothing was measured.
 *
 * A device with multiprocessors (a GPU). P: peak of the dtype (of fp32 where the device says none of 16 bits, and for
 * others than gemm and attention, whose arithmetic is fp32), e: gemm_fraction, S: multiprocessor_count, W: memory
 * rate x memory_fraction, L: launch_seconds.
 *
 *   gemm       L + max(bytes / W, c); c is the least over tiles of R x C and splits s of
 *              ceil(tiles s / S) (ceil(k / s) + fill) 2 R C S / (P e share) + what the splits add up / W
 *   attention  L + max(bytes / W, flops / (P e share), the longest tile on one multiprocessor)
 *   others     L + max(bytes / W, flops / (P / 4))
 *
 * gemm: tiles = ceil(m / R) ceil(n / C), of which a multiprocessor takes one after the other, so the last wave costs as
 * much as a full one. fill: depth at which a tile's pipeline is filled and emptied. share: what a tile reaches of the
 * best one. k is split only while that leaves no multiprocessor a second tile. attention: a tile is 128 queries of one
 * head and meets the keys in blocks of 128, under a causal mask those up to its own last query.
 *
 * A device without multiprocessors (a processor): rates that fall off smoothly in every dimension, and no tiles.
 *
 * Sources: "Matrix Multiplication Background User's Guide", NVIDIA Deep Learning Performance documentation, sections on
 * tile and wave quantization; Dao, "FlashAttention-2", sections 3.1 and 4.1.
 *
 * Grows weakly with every dimension of a gemm, falls weakly with P and W, and is never below flops / P or bytes /
 * memory rate. > 0, finite. Cannot fail. */
#ifndef GAL_COSTMODEL_ANALYTIC_KERNEL_H
#define GAL_COSTMODEL_ANALYTIC_KERNEL_H

#include "schemas/cluster.h"
#include "schemas/operator.h"

double gal_kernel_analytic_seconds(const gal_device *device, const gal_shape *shape);

#endif
