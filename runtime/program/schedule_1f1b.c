/* 1F1B-flush (PipeDream-flush; Galvatron-BMW section III-A3): a stage keeps at most P - stage microbatches. */
#include "runtime/program/schedule.h"

static uint32_t in_flight(uint32_t stage, uint32_t stage_count, uint32_t microbatch_count)
{
    uint32_t ahead = stage_count - stage;
    return ahead < microbatch_count ? ahead : microbatch_count;
}

static void order(uint32_t stage, uint32_t stage_count, uint32_t microbatch_count, gal_call *calls)
{
    uint32_t ahead = in_flight(stage, stage_count, microbatch_count);
    uint32_t forward = 0;
    uint32_t count = 0;
    while (forward + 1 < ahead) {
        calls[count++] = (gal_call){GAL_FRAGMENT_FORWARD, forward++};
    }
    for (uint32_t i = 0; i < microbatch_count; i++) {
        bool last = i + 1 == microbatch_count;
        if (forward < microbatch_count) {
            calls[count++] = (gal_call){GAL_FRAGMENT_FORWARD, forward++};
        }
        calls[count++] = (gal_call){last ? GAL_FRAGMENT_BACKWARD_SYNC : GAL_FRAGMENT_BACKWARD, i};
    }
}

const gal_schedule_rule gal_schedule_1f1b = {in_flight, order};
