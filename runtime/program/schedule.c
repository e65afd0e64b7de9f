#include "runtime/program/schedule.h"

#include <string.h>

static uint32_t unit_count(const gal_schedule_place *at)
{
    return at->chunk_count * at->microbatch_count;
}

/* Groups of microbatches that go through the chunks together: of P at least, if there are as many. */
static uint32_t group_count(const gal_schedule_place *at)
{
    return at->microbatch_count < at->stage_count ? 1 : at->microbatch_count / at->stage_count;
}

/* Microbatches before group i of n: floor(m i / n). */
static uint32_t before_group(const gal_schedule_place *at, uint32_t group)
{
    return (uint32_t)((uint64_t)at->microbatch_count * group / group_count(at));
}

static uint32_t largest_group(const gal_schedule_place *at)
{
    return (at->microbatch_count + group_count(at) - 1) / group_count(at);
}

/* The group whose units the index is among: the last one with floor(m i / n) <= index / v. */
static gal_call unit(const gal_schedule_place *at, uint32_t index, bool backward, gal_fragment_kind kind)
{
    if (at->chunk_count == 1) {
        return (gal_call){(uint16_t)kind, index}; /* as below, without the divisions: prices ask often */
    }
    const uint64_t after = (uint64_t)(index / at->chunk_count) + 1;
    const uint32_t group = (uint32_t)((after * group_count(at) - 1) / at->microbatch_count);
    const uint32_t before = before_group(at, group);
    const uint32_t microbatches = before_group(at, group + 1) - before;
    const uint32_t within = index - before * at->chunk_count;
    const uint32_t turn = within / microbatches;
    const uint32_t chunk = backward ? at->chunk_count - 1 - turn : turn;
    return (gal_call){(uint16_t)gal_fragment_number(kind, chunk), before + within % microbatches};
}

static uint32_t ahead(const gal_schedule_place *at)
{
    const uint32_t behind = at->stage_count - 1 - at->stage; /* stages */
    switch (at->schedule) {
    case GAL_SCHEDULE_1F1B:
    case GAL_SCHEDULE_ZERO_BUBBLE:
        return behind;
    case GAL_SCHEDULE_INTERLEAVED:
        return 2 * behind + (at->chunk_count - 1) * largest_group(at);
    default:
        return unit_count(at);
    }
}

bool gal_schedule_splits(gal_schedule schedule)
{
    return schedule == GAL_SCHEDULE_ZERO_BUBBLE;
}

gal_call gal_schedule_forward(const gal_schedule_place *at, uint32_t index, gal_fragment_kind kind)
{
    return unit(at, index, false, kind);
}

uint32_t gal_schedule_call_count(const gal_schedule_place *at)
{
    return (gal_schedule_splits(at->schedule) ? 3 : 2) * unit_count(at);
}

static bool weight_is_next(const gal_schedule_walk *walk)
{
    const uint32_t units = unit_count(&walk->at);
    return gal_schedule_splits(walk->at.schedule) && walk->weight < units &&
           (walk->weight + walk->at.stage < walk->backward || walk->backward == units);
}

/* Of the last microbatch the fragment with sync. */
static gal_call last_part(const gal_schedule_place *at, uint32_t index, gal_fragment_kind plain,
                          gal_fragment_kind with_sync)
{
    const gal_call call = unit(at, index, true, plain);
    return call.microbatch + 1 < at->microbatch_count ? call : unit(at, index, true, with_sync);
}

bool gal_schedule_next(gal_schedule_walk *walk, gal_call *out)
{
    const gal_schedule_place *at = &walk->at;
    const uint32_t units = unit_count(at);
    if (weight_is_next(walk)) {
        *out = last_part(at, walk->weight++, GAL_FRAGMENT_WEIGHT, GAL_FRAGMENT_WEIGHT_SYNC);
    } else if (walk->forward < units && walk->forward <= walk->backward + ahead(at)) {
        *out = unit(at, walk->forward++, false, GAL_FRAGMENT_FORWARD);
    } else if (walk->backward < units) {
        const bool split = gal_schedule_splits(at->schedule);
        *out = last_part(at, walk->backward++, GAL_FRAGMENT_BACKWARD,
                         split ? GAL_FRAGMENT_BACKWARD : GAL_FRAGMENT_BACKWARD_SYNC);
    } else {
        return false;
    }
    return true;
}

uint32_t gal_schedule_in_flight(const gal_schedule_place *at, uint32_t in_flight[GAL_CHUNKS_MAX])
{
    const bool split = gal_schedule_splits(at->schedule);
    uint32_t now[GAL_CHUNKS_MAX] = {0};
    uint32_t all = 0, most = 0;
    gal_schedule_walk walk = {.at = *at};
    gal_call call;
    memset(in_flight, 0, at->chunk_count * sizeof *in_flight);
    while (gal_schedule_next(&walk, &call)) {
        const uint32_t chunk = gal_fragment_chunk(call.fragment);
        const gal_fragment_kind kind = gal_fragment_kind_of(call.fragment);
        if (kind == GAL_FRAGMENT_FORWARD) {
            all++;
            most = all > most ? all : most;
            in_flight[chunk] = ++now[chunk] > in_flight[chunk] ? now[chunk] : in_flight[chunk];
        } else if (!split || kind != GAL_FRAGMENT_BACKWARD) {
            now[chunk]--;
            all--;
        }
    }
    return most;
}

uint32_t gal_schedule_kept(const gal_schedule_place *at)
{
    uint32_t most = 0;
    gal_schedule_walk walk = {.at = *at};
    gal_call call;
    while (gal_schedule_splits(at->schedule) && gal_schedule_next(&walk, &call)) {
        most = walk.backward - walk.weight > most ? walk.backward - walk.weight : most;
    }
    return most;
}
