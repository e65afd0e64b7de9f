#include "runtime/program/schedule.h"

static uint32_t in_flight(uint32_t stage, uint32_t stage_count, uint32_t microbatch_count)
{
    (void)stage;
    (void)stage_count;
    return microbatch_count;
}

static void order(uint32_t stage, uint32_t stage_count, uint32_t microbatch_count, gal_call *calls)
{
    (void)stage;
    (void)stage_count;
    for (uint32_t i = 0; i < microbatch_count; i++) {
        bool last = i + 1 == microbatch_count;
        calls[i] = (gal_call){GAL_FRAGMENT_FORWARD, i};
        calls[microbatch_count + i] = (gal_call){last ? GAL_FRAGMENT_BACKWARD_SYNC : GAL_FRAGMENT_BACKWARD, i};
    }
}

const gal_schedule_rule gal_schedule_gpipe = {in_flight, order};
