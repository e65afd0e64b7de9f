#include "runtime/train/exposure.h"

#include <math.h>

/* The state of the queues at a moment of the step. */
typedef struct moment {
    const gal_queues *queues;
    gal_span *const *span;
    uint32_t completed[GAL_STREAM_COUNT];
    bool in_flight[GAL_STREAM_COUNT];
} moment;

static bool is_finished(const moment *now, uint32_t stream)
{
    return now->completed[stream] == now->queues->count[stream];
}

/* The stream that starts or completes its head next, and when; false at the end. */
static bool next_change(const moment *now, uint32_t *stream, double *at_seconds)
{
    *at_seconds = INFINITY;
    for (uint32_t s = 0; s < GAL_STREAM_COUNT; s++) {
        if (!is_finished(now, s)) {
            const gal_span *head = &now->span[s][now->completed[s]];
            const double seconds = now->in_flight[s] ? head->end_seconds : head->start_seconds;
            if (seconds < *at_seconds) {
                *at_seconds = seconds;
                *stream = s;
            }
        }
    }
    return isfinite(*at_seconds);
}

/* Streams, as bits, that the head of `stream` waits for. */
static uint32_t waited_for(const moment *now, uint32_t stream)
{
    uint32_t streams = 0;
    const gal_queue_entry *head = &now->queues->entry[stream][now->completed[stream]];
    for (uint32_t i = 0; i < head->need_count; i++) {
        const gal_need *need = &now->queues->need[head->first_need + i];
        streams |= (uint32_t)(now->completed[need->stream] < need->completed) << need->stream;
    }
    return streams;
}

/* Streams, as bits, that must move before compute's next kernel starts; 0 if nothing keeps it. */
static uint32_t compute_waits_for(const moment *now)
{
    uint32_t reached = 1u << GAL_STREAM_COMPUTE, before = 0;
    if (is_finished(now, GAL_STREAM_COMPUTE)) {
        return UINT32_MAX;
    }
    while (reached != before) {
        before = reached;
        for (uint32_t s = 0; s < GAL_STREAM_COUNT; s++) {
            if ((before >> s & 1u) != 0 && !now->in_flight[s] && !is_finished(now, s)) {
                reached |= waited_for(now, s);
            }
        }
    }
    return reached & ~(1u << GAL_STREAM_COMPUTE);
}

static void account(const moment *now, double seconds, gal_exposure *sum)
{
    sum->seconds += seconds;
    for (uint32_t s = GAL_STREAM_COMPUTE + 1; s < GAL_STREAM_COUNT; s++) {
        sum->in_flight_seconds[s] += now->in_flight[s] ? seconds : 0.0;
    }
    if (now->in_flight[GAL_STREAM_COMPUTE]) {
        sum->compute_seconds += seconds;
        return;
    }
    const uint32_t kept_by = compute_waits_for(now);
    if (kept_by == 0) {
        sum->serving_seconds += seconds;
        return;
    }
    sum->waiting_seconds += seconds;
    for (uint32_t s = GAL_STREAM_COMPUTE + 1; s < GAL_STREAM_COUNT; s++) {
        sum->exposed_seconds[s] += now->in_flight[s] && (kept_by >> s & 1u) != 0 ? seconds : 0.0;
    }
}

void gal_exposure_add_step(const gal_step_record *record, gal_exposure *sum)
{
    moment now = {.queues = record->queues, .span = record->span};
    double before_seconds = record->begin_seconds, at_seconds;
    uint32_t stream = 0;
    while (next_change(&now, &stream, &at_seconds)) {
        account(&now, at_seconds - before_seconds, sum);
        before_seconds = at_seconds;
        now.completed[stream] += now.in_flight[stream];
        now.in_flight[stream] = !now.in_flight[stream];
    }
    sum->step_count += 1.0;
}

static void add_scaled(const gal_exposure *part, double scale, gal_exposure *sum)
{
    sum->step_count += scale * part->step_count;
    sum->seconds += scale * part->seconds;
    sum->compute_seconds += scale * part->compute_seconds;
    sum->waiting_seconds += scale * part->waiting_seconds;
    sum->serving_seconds += scale * part->serving_seconds;
    for (uint32_t s = 0; s < GAL_STREAM_COUNT; s++) {
        sum->in_flight_seconds[s] += scale * part->in_flight_seconds[s];
        sum->exposed_seconds[s] += scale * part->exposed_seconds[s];
    }
}

void gal_exposure_add(const gal_exposure *part, gal_exposure *sum)
{
    add_scaled(part, 1.0, sum);
}

gal_exposure gal_exposure_mean(const gal_exposure *sum)
{
    gal_exposure mean = {.step_count = 0.0};
    if (sum->step_count > 0.0) {
        add_scaled(sum, 1.0 / sum->step_count, &mean);
    }
    return mean;
}

double gal_exposure_share(const gal_exposure *exposure, gal_stream stream)
{
    const double in_flight_seconds = exposure->in_flight_seconds[stream];
    return in_flight_seconds > 0.0 ? exposure->exposed_seconds[stream] / in_flight_seconds : 0.0;
}
