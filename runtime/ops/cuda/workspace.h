/* How the kernels of this folder cut sums that take two steps, and so the workspace for the partial ones. By shape
 * alone: the same cut, and the same bits, on every device. */
#ifndef GAL_RUNTIME_OPS_CUDA_WORKSPACE_H
#define GAL_RUNTIME_OPS_CUDA_WORKSPACE_H

#include <stdint.h>

/* Parts of the rows in the backward pass of normalisations: four blocks of 128 threads, or two of 256, are what a
 * multiprocessor of an H100 has registers for, and it has 132; rows too long for those take two blocks of 512 in turn.
 * At least 1. */
static inline uint32_t gal_cuda_norm_parts(uint32_t rows, uint32_t hidden)
{
    const uint32_t most = hidden <= 2048 ? 528 : 264;
    return rows == 0 ? 1 : rows < most ? rows : most;
}

/* Parts of elements in sum_squares. */
enum { GAL_CUDA_SQUARE_PARTS = 1056, GAL_CUDA_SQUARE_LEAST = 4096 };

static inline uint32_t gal_cuda_square_parts(uint32_t elements)
{
    const uint32_t wanted = elements / GAL_CUDA_SQUARE_LEAST + 1;
    return wanted < GAL_CUDA_SQUARE_PARTS ? wanted : (uint32_t)GAL_CUDA_SQUARE_PARTS;
}

/* Tokens in their order by table row are cut in pieces of so many; a table row that lies in several pieces is added up
 * from the pieces' sums. */
enum { GAL_CUDA_PIECE_TOKENS = 32 };

static inline uint64_t gal_cuda_pieces(uint64_t tokens)
{
    return (tokens + GAL_CUDA_PIECE_TOKENS - 1) / GAL_CUDA_PIECE_TOKENS;
}

/* Bytes of the two lists of embed_backward (token numbers in order, their table rows), a multiple of 16. */
static inline uint64_t gal_cuda_order_bytes(uint64_t tokens)
{
    return (2 * tokens * sizeof(int32_t) + 15) / 16 * 16;
}

#endif
