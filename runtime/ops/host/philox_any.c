/* Philox 4x32-10 and what is drawn from it. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
 * SC 2011, section 4.3 and table 2; normal numbers by G. E. P. Box and M. E. Muller, "A note on the generation of
 * random normal deviates", 1958. */
#include "runtime/ops/host/philox.h"

#include <math.h>

#include "runtime/ops/host/vector.h"
#include "runtime/ops/ops.h"

enum { ROUNDS = 10, BATCH = 16 };

/* Initial weights count steps from the far end, where no training step comes. */
static const uint32_t initial_step = UINT32_MAX;

typedef struct philox_batch {
    uint32_t counter[4][BATCH];
} philox_batch;

GAL_VECTOR
static void advance(philox_batch *batch, uint64_t key)
{
    uint32_t key0 = (uint32_t)key;
    uint32_t key1 = (uint32_t)(key >> 32);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t j = 0; j < BATCH; j++) {
            const uint64_t product0 = (uint64_t)0xD2511F53U * batch->counter[0][j];
            const uint64_t product1 = (uint64_t)0xCD9E8D57U * batch->counter[2][j];
            batch->counter[0][j] = (uint32_t)(product1 >> 32) ^ batch->counter[1][j] ^ key0;
            batch->counter[1][j] = (uint32_t)product1;
            batch->counter[2][j] = (uint32_t)(product0 >> 32) ^ batch->counter[3][j] ^ key1;
            batch->counter[3][j] = (uint32_t)product0;
        }
        key0 += 0x9E3779B9U;
        key1 += 0xBB67AE85U;
    }
}

void gal_philox_many(uint64_t key, uint64_t quad, uint32_t site, uint32_t step, size_t count, uint32_t *lanes)
{
    philox_batch batch;
    for (size_t done = 0; done < count; done += BATCH) {
        for (size_t j = 0; j < BATCH; j++) {
            batch.counter[0][j] = (uint32_t)(quad + done + j);
            batch.counter[1][j] = (uint32_t)((quad + done + j) >> 32);
            batch.counter[2][j] = site;
            batch.counter[3][j] = step;
        }
        advance(&batch, key);
        const size_t wanted = count - done < BATCH ? count - done : BATCH;
        for (size_t j = 0; j < wanted; j++) {
            for (size_t lane = 0; lane < 4; lane++) {
                lanes[4 * (done + j) + lane] = batch.counter[lane][j];
            }
        }
    }
}

void gal_philox(uint64_t key, uint64_t quad, uint32_t site, uint32_t step, uint32_t lanes[4])
{
    uint32_t counter[4] = {(uint32_t)quad, (uint32_t)(quad >> 32), site, step};
    uint32_t key0 = (uint32_t)key;
    uint32_t key1 = (uint32_t)(key >> 32);
    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t product0 = (uint64_t)0xD2511F53U * counter[0];
        const uint64_t product1 = (uint64_t)0xCD9E8D57U * counter[2];
        counter[0] = (uint32_t)(product1 >> 32) ^ counter[1] ^ key0;
        counter[1] = (uint32_t)product1;
        counter[2] = (uint32_t)(product0 >> 32) ^ counter[3] ^ key1;
        counter[3] = (uint32_t)product0;
        key0 += 0x9E3779B9U;
        key1 += 0xBB67AE85U;
    }
    for (int lane = 0; lane < 4; lane++) {
        lanes[lane] = counter[lane];
    }
}

/* In (0, 1): 52 bits and a half, never 0, whose logarithm would be infinite. */
static double uniform(uint32_t low, uint32_t high)
{
    const uint64_t bits = (((uint64_t)high << 32) | low) >> 12;
    return ((double)bits + 0.5) * 0x1p-52;
}

double gal_initial_normal(uint64_t seed, uint32_t tensor, uint64_t index)
{
    const double two_pi = 6.283185307179586476925286766559;
    uint32_t lanes[4];
    gal_philox(seed, index / 2, tensor, initial_step, lanes);
    const double radius = sqrt(-2.0 * log(uniform(lanes[0], lanes[1])));
    const double angle = two_pi * uniform(lanes[2], lanes[3]);
    return radius * (index % 2 == 0 ? cos(angle) : sin(angle));
}
