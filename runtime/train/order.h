/* Orders and draws that are functions of a key and an index, so that every plan sees the same data. */
#ifndef GAL_RUNTIME_TRAIN_ORDER_H
#define GAL_RUNTIME_TRAIN_ORDER_H

#include <stdint.h>

/* A bijection of 64-bit words that looks random. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number
 * generators", OOPSLA 2014, mix64 variant 13. */
uint64_t gal_mix(uint64_t x);

/* The index-th element of a permutation of [0, count): a bijection for every key. A Feistel network on the next even
 * power of two, walked until it lands inside: no memory, fewer than four rounds expected. Source: Black and Rogaway,
 * "Ciphers with arbitrary finite domains", CT-RSA 2002, section 4 (generalized-Feistel and cycle walking). */
uint64_t gal_permute(uint64_t index, uint64_t count, uint64_t key);

#endif
