#include "costmodel/together.h"

#include <math.h>

/* Streams of each activity that have work left. */
typedef struct company {
    uint32_t count[GAL_ACTIVITY_COUNT + 1];
} company;

static company company_of(const gal_stream_work *left)
{
    company out = {{0}};
    for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
        out.count[left->activity[stream]] += left->seconds[stream] > 0.0;
    }
    return out;
}

static double factor_of(const company *c, uint8_t activity, const gal_slowdowns *slowdowns)
{
    double factor = 1.0;
    for (uint32_t i = 0; activity != GAL_ACTIVITY_BESIDE && i < GAL_ACTIVITY_COUNT; i++) {
        const uint32_t own = i == activity;
        factor *= c->count[i] > own ? slowdowns->of[activity][i] : 1.0;
    }
    return factor;
}

/* The host's stream comes to what is not on storage when all that is has been moved. */
static void turn_to_unstored(gal_stream_work *left)
{
    if (left->seconds[GAL_STREAM_HOST] == 0.0 && left->seconds[GAL_STREAM_STORAGE_IN] == 0.0 &&
        left->seconds[GAL_STREAM_STORAGE_OUT] == 0.0) {
        left->seconds[GAL_STREAM_HOST] = left->unstored_seconds;
        left->unstored_seconds = 0.0;
    }
}

double gal_together_seconds(const gal_stream_work *work, const gal_slowdowns *slowdowns)
{
    gal_stream_work left = *work;
    double seconds = 0.0;
    for (;;) { /* until the next stream is done, in unchanged company */
        turn_to_unstored(&left);
        const company c = company_of(&left);
        double factor[GAL_STREAM_COUNT], next_seconds = INFINITY;
        for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
            factor[stream] = factor_of(&c, left.activity[stream], slowdowns);
            const double own_seconds = left.seconds[stream] * factor[stream];
            next_seconds = own_seconds > 0.0 ? fmin(next_seconds, own_seconds) : next_seconds;
        }
        if (isinf(next_seconds)) {
            return seconds;
        }
        seconds += next_seconds;
        for (uint32_t stream = 0; stream < GAL_STREAM_COUNT; stream++) {
            const bool done = left.seconds[stream] * factor[stream] <= next_seconds;
            left.seconds[stream] = done ? 0.0 : fmax(left.seconds[stream] - next_seconds / factor[stream], 0.0);
        }
    }
}
