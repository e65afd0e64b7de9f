#include "costmodel/together.h"

#include <math.h>

/* The host's stream comes to what is not on storage when all that is has been moved. */
static void turn_to_unstored(gal_stream_work *left)
{
    if (left->seconds[GAL_STREAM_HOST] == 0.0 && left->seconds[GAL_STREAM_STORAGE_IN] == 0.0 &&
        left->seconds[GAL_STREAM_STORAGE_OUT] == 0.0) {
        left->seconds[GAL_STREAM_HOST] = left->unstored_seconds;
        left->unstored_seconds = 0.0;
    }
}

/* Streams that have work left, as bits; their activities, and those of several of them, likewise. */
typedef struct company {
    uint32_t streams, present, several;
} company;

static company company_of(const gal_stream_work *left)
{
    company out = {0};
    for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
        if (left->seconds[stream] > 0.0) {
            const uint32_t own = 1U << left->activity[stream];
            out.streams |= 1U << stream;
            out.several |= out.present & own;
            out.present |= own;
        }
    }
    return out;
}

static double factor_of(const company *c, uint8_t activity, const gal_company_factors *factors)
{
    const uint32_t own = 1U << activity;
    return factors->of[activity][((c->present & ~own) | (c->several & own)) & (GAL_COMPANIES - 1U)];
}

/* The stream of the lowest bit, which is taken away. */
static uint32_t take_stream(uint32_t *streams)
{
    const uint32_t stream = (uint32_t)__builtin_ctz(*streams);
    *streams &= *streams - 1;
    return stream;
}

double gal_together_seconds(const gal_stream_work *work, const gal_company_factors *factors)
{
    gal_stream_work left = *work;
    double seconds = 0.0;
    for (;;) { /* until the next stream is done, in unchanged company */
        turn_to_unstored(&left);
        const company c = company_of(&left);
        double factor[GAL_STREAM_COUNT], next_seconds = INFINITY;
        for (uint32_t streams = c.streams; streams != 0;) {
            const uint32_t stream = take_stream(&streams);
            factor[stream] = factor_of(&c, left.activity[stream], factors);
            next_seconds = fmin(next_seconds, left.seconds[stream] * factor[stream]);
        }
        if (c.streams == 0) {
            return seconds;
        }
        seconds += next_seconds;
        for (uint32_t streams = c.streams; streams != 0;) {
            const uint32_t stream = take_stream(&streams);
            const bool done = left.seconds[stream] * factor[stream] <= next_seconds;
            left.seconds[stream] = done ? 0.0 : fmax(left.seconds[stream] - next_seconds / factor[stream], 0.0);
        }
    }
}
