/* Who slows whom on ranks that are processors. There the first thread runs kernels and copies, one after the other;
 * messages and transfers of storage move on when a thread of the rank tests them, beside kernels the second one, which
 * takes part of the core's time: all sides are slowed, and this is what is measured, with a loop that does what the
 * engine does. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/measure.h"
#include "runtime/device/storage.h"
#include "runtime/engine/courier.h"
#include "schemas/base/clock.h"
#include "schemas/plan.h"

enum { ROUNDS = 9, ROUND_MAX = 100 };
static const double round_seconds = 0.02; /* of what goes on behind, were it alone */

/* Units of the first thread, and what goes on behind them one after the other (runtime/engine/courier.h). */
typedef struct together {
    gal_front *front;
    const gal_back *back;
    double back_alone_seconds;
    uint64_t back_count;
    double front_seconds, front_alone_seconds, back_seconds; /* of all of a round */
    uint32_t left;                                           /* that are still to complete */
    bool met;                                                /* the ranks have, by one that does not count */
    double start_seconds;
    gal_code code;
    gal_error err;
} together;

static gal_code start_next(together *t, gal_error *err)
{
    t->start_seconds = gal_now_seconds();
    return t->back->start(t->back->run, err);
}

/* If it is complete the next one is started. */
static gal_code test_one(together *t, bool *moved, gal_error *err)
{
    gal_code code = GAL_OK;
    bool done = false;
    GAL_TRY(t->back->test(t->back->run, &done, err));
    if (done) {
        *moved = true;
        t->back_count += t->met;
        t->back_seconds += t->met ? gal_now_seconds() - t->start_seconds : 0.0;
        t->left -= t->met;
        t->met = true;
        GAL_TRY(t->left > 0 ? start_next(t, err) : GAL_OK);
    }
cleanup:
    return code;
}

static gal_courier_found look(void *context, double *due_seconds)
{
    together *t = context;
    bool moved = false;
    if (t->left > 0 && t->code == GAL_OK) {
        t->code = test_one(t, &moved, &t->err);
    }
    if (t->left == 0 || t->code != GAL_OK) {
        return GAL_COURIER_NOTHING;
    }
    *due_seconds = t->back->due != NULL ? t->back->due(t->back->run) : 0.0;
    return moved ? GAL_COURIER_MOVED : GAL_COURIER_WAITS;
}

/* One in front that is tested itself: both in turn, by the first thread. */
static gal_code poll_both(together *t, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_back *front = t->front->polled;
    bool done = false, moved = false;
    GAL_TRY(front->start(front->run, err));
    while (!done) {
        GAL_TRY(front->test(front->run, &done, err));
        GAL_TRY(t->left > 0 ? test_one(t, &moved, err) : GAL_OK);
        if (!done && t->back->rest != NULL) {
            t->back->rest(t->back->run);
        }
    }
cleanup:
    return code;
}

static gal_code run_unit(together *t, gal_courier *courier, gal_error *err)
{
    if (t->front->polled != NULL) {
        return poll_both(t, err);
    }
    gal_courier_leave(courier, true);
    gal_code code = t->front->run(t->front->context, 1, err);
    gal_courier_return(courier);
    if (code == GAL_OK && t->code != GAL_OK) {
        *err = t->err;
        code = t->code;
    }
    return code;
}

/* `count` behind, units one after the other until all are complete. One more in front of them: ranks come from
 * different units, and what one waits for the other is not what its units cost a message. */
static gal_code run_beside(together *t, uint32_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_courier *courier = NULL;
    bool moved = false;
    gal_front *front = t->front;
    t->left = count;
    t->met = false;
    t->code = GAL_OK;
    GAL_TRY(gal_courier_create(look, t, &courier, err));
    GAL_TRY(start_next(t, err));
    while (t->left > 0) {
        const double alone_seconds = front->alone_seconds[front->next++ % front->count];
        const double begin_seconds = gal_now_seconds();
        GAL_TRY(run_unit(t, courier, err));
        t->front_seconds += gal_now_seconds() - begin_seconds;
        t->front_alone_seconds += alone_seconds;
        GAL_TRY(t->left > 0 ? test_one(t, &moved, err) : GAL_OK);
    }
cleanup:
    gal_courier_free(courier);
    return code;
}

gal_code gal_front_time(gal_bench *bench, gal_front *front, gal_error *err)
{
    gal_code code = GAL_OK;
    double seconds[GAL_SEQUENCE_MAX][ROUNDS];
    GAL_ASSERT(front->count <= GAL_SEQUENCE_MAX);
    GAL_TRY(gal_bench_barrier(bench, err));
    GAL_TRY(front->run(front->context, front->count, err));
    for (uint32_t r = 0; r < ROUNDS; r++) {
        for (uint32_t i = 0; i < front->count; i++) {
            const double begin_seconds = gal_now_seconds();
            GAL_TRY(front->run(front->context, 1, err));
            seconds[i][r] = gal_now_seconds() - begin_seconds;
        }
    }
    for (uint32_t i = 0; i < front->count; i++) {
        front->alone_seconds[i] = gal_quartile(seconds[i], ROUNDS, 2);
    }
    front->next = 0;
cleanup:
    return code;
}

gal_code gal_measure_together(gal_bench *bench, gal_front *front, const gal_back *back, double back_alone_seconds,
                              double factors[2], gal_error *err)
{
    gal_code code = GAL_OK;
    double of_front[ROUNDS], of_back[ROUNDS];
    const uint32_t count = (uint32_t)ceil(fmin(round_seconds / back_alone_seconds, ROUND_MAX));
    for (uint32_t r = 0; r < ROUNDS; r++) {
        together t = {.front = front, .back = back};
        GAL_TRY(gal_bench_barrier(bench, err));
        GAL_TRY(back->start != NULL ? run_beside(&t, count, err) : GAL_OK);
        of_front[r] = t.front_alone_seconds > 0.0 ? t.front_seconds / t.front_alone_seconds : 1.0;
        of_back[r] = t.back_count > 0 ? t.back_seconds / ((double)t.back_count * back_alone_seconds) : 1.0;
    }
    factors[0] = gal_quartile(of_front, ROUNDS, 2);
    factors[1] = gal_quartile(of_back, ROUNDS, 2);
    GAL_TRY(gal_world_maximum(&bench->world, factors, 2, err));
    GAL_TRY(gal_bench_tick(bench, err));
cleanup:
    return code;
}

/* ---- collectives ---- */

static gal_code start_collective(void *context, gal_error *err)
{
    gal_collective_run *run = context;
    return gal_collective_start(run, &run->handle, err);
}

static gal_code test_collective(void *context, bool *done, gal_error *err)
{
    gal_collective_run *run = context;
    return gal_collective_test(run, run->handle, done, err);
}

static double due_of_collective(void *context)
{
    gal_collective_run *run = context;
    return run->comm->ops->due != NULL ? run->comm->ops->due(run->comm) : 0.0;
}

static void rest_of_collective(void *context)
{
    gal_collective_run *run = context;
    gal_comm_give_way(run->comm, run->patience.begin_seconds);
}

gal_back gal_back_of_collective(gal_collective_run *run)
{
    return run->takes_part ? (gal_back){start_collective, test_collective, due_of_collective, rest_of_collective, run}
                           : (gal_back){.run = run};
}

/* ---- copies ---- */

/* Out and in again, of one size. */
typedef struct copies {
    gal_host_copy way[2];
    uint32_t next;
} copies;

static gal_code repeat_copies(void *context, uint32_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    copies *c = context;
    for (uint32_t i = 0; i < count; i++) {
        GAL_TRY(gal_host_copy_repeat(&c->way[c->next++ % 2], 1, err));
    }
cleanup:
    return code;
}

static void prepare_copies(const gal_pools *pools, copies *out)
{
    const uint64_t area = pools->settings.bytes;
    const uint64_t bytes = area < GAL_BESIDE_BYTES ? area : GAL_BESIDE_BYTES;
    *out = (copies){.way = {{.kernel = pools->ops->kernel[GAL_OP_COPY_OUT],
                             .target = pools->written.base,
                             .source = pools->normal.base,
                             .bytes = bytes,
                             .area_bytes = area},
                            {.kernel = pools->ops->kernel[GAL_OP_COPY_IN],
                             .target = pools->written.base,
                             .source = pools->positive.base,
                             .bytes = bytes,
                             .area_bytes = area}}};
}

/* What runs in turn on the first thread, as much of the copies as of the kernels. */
typedef struct in_turn {
    gal_sequence *kernels;
    copies *copies;
    uint32_t copy_count; /* for each time through the kernels */
} in_turn;

static gal_code repeat_in_turn(void *context, uint32_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    const in_turn *both = context;
    for (uint32_t i = 0; i < count; i++) {
        GAL_TRY(gal_sequence_repeat(both->kernels, 1, err));
        GAL_TRY(repeat_copies(both->copies, both->copy_count, err));
    }
cleanup:
    return code;
}

/* The thread runs one after the other: each takes half of it, and loses what the other drives out of the caches. */
static gal_code kernels_beside_copies(gal_bench *bench, gal_sequence *kernels, copies *c, double copy_seconds,
                                      double *factor, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_timing alone, both;
    in_turn turn = {kernels, c, 1};
    GAL_TRY(gal_bench_time(bench, gal_sequence_repeat, kernels, &alone, err));
    turn.copy_count = (uint32_t)fmax(1.0, rint(alone.seconds / copy_seconds));
    GAL_TRY(gal_bench_time(bench, repeat_in_turn, &turn, &both, err));
    *factor = fmax(1.0, 2.0 * both.seconds / (alone.seconds + turn.copy_count * copy_seconds));
cleanup:
    return code;
}

gal_code gal_measure_host_copies(gal_bench *bench, const gal_overlap_settings *o, gal_sequence *kernels,
                                 double slowdown[GAL_ACTIVITY_COUNT][GAL_ACTIVITY_COUNT], gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_candidate_collective *chosen[GAL_OVERLAP_COLLECTIVES];
    const uint32_t count = gal_overlap_collectives(o, chosen);
    copies c;
    gal_timing way[2], both, alone;
    prepare_copies(o->pools, &c);
    for (int i = 0; i < 2; i++) {
        GAL_TRY(gal_bench_time(bench, gal_host_copy_repeat, &c.way[i], &way[i], err));
    }
    GAL_TRY(gal_bench_time(bench, repeat_copies, &c, &both, err)); /* of one, of either way */
    const double apart = 0.5 * (way[0].seconds + way[1].seconds);
    slowdown[GAL_ACTIVITY_COPY][GAL_ACTIVITY_COPY] = fmax(1.0, 2.0 * both.seconds / apart);
    if (kernels->count > 0) {
        double factor = 1.0;
        GAL_TRY(kernels_beside_copies(bench, kernels, &c, both.seconds, &factor, err));
        slowdown[GAL_ACTIVITY_COMPUTE][GAL_ACTIVITY_COPY] = slowdown[GAL_ACTIVITY_COPY][GAL_ACTIVITY_COMPUTE] = factor;
    }
    if (count > 0) { /* the one that takes most of the time comes first */
        double factors[2] = {1.0, 1.0};
        gal_collective_run collective;
        gal_front front = {.run = repeat_copies, .context = &c, .count = 2};
        gal_collective_prepare(chosen[0], o->links, o->pools, false, &collective);
        const gal_back back = gal_back_of_collective(&collective);
        GAL_TRY(gal_bench_time(bench, gal_collective_repeat, &collective, &alone, err));
        GAL_TRY(gal_front_time(bench, &front, err));
        GAL_TRY(gal_measure_together(bench, &front, &back, alone.seconds, factors, err));
        slowdown[GAL_ACTIVITY_COPY][GAL_ACTIVITY_COMMUNICATION] = fmax(1.0, factors[0]);
        slowdown[GAL_ACTIVITY_COMMUNICATION][GAL_ACTIVITY_COPY] = fmax(1.0, factors[1]);
    }
cleanup:
    return code;
}

/* ---- storage ---- */

/* Transfers one behind the other, read and written in turn: parts as a plan's by default, each of many pieces that are
 * under way together, so that what a look comes late for is little of it. Either way goes through all places: what no
 * write has reached is read without the device. */
typedef struct transfers {
    gal_storage *storage;
    char *memory;
    uint32_t next;
} transfers;

enum { TRANSFER_BYTES = GAL_STORAGE_PART_BYTES, PLACES = 4 };

static gal_storage_direction direction_of(const transfers *t)
{
    return t->next % 2 == 0 ? GAL_STORAGE_READ : GAL_STORAGE_WRITE;
}

static gal_code start_transfer(void *context, gal_error *err)
{
    transfers *t = context;
    t->next++;
    return gal_storage_start(t->storage, direction_of(t), (uint64_t)(t->next / 2 % PLACES) * TRANSFER_BYTES, t->memory,
                             TRANSFER_BYTES, err);
}

static gal_code test_transfer(void *context, bool *done, gal_error *err)
{
    const transfers *t = context;
    return gal_storage_test(t->storage, direction_of(t), done, err);
}

static gal_code repeat_transfers(void *context, uint32_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    for (uint32_t i = 0; i < count; i++) {
        bool done = false;
        GAL_TRY(start_transfer(context, err));
        while (!done) {
            GAL_TRY(test_transfer(context, &done, err));
        }
    }
cleanup:
    return code;
}

static gal_code open_transfers(const char *directory, transfers *out, gal_error *err)
{
    void *memory = NULL;
    if (posix_memalign(&memory, GAL_STORAGE_BLOCK_BYTES, TRANSFER_BYTES) != 0) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: storage");
    }
    out->memory = memory;
    memset(memory, 1, TRANSFER_BYTES);
    gal_code code =
        gal_storage_open(directory, (uint64_t)PLACES * TRANSFER_BYTES, GAL_STORAGE_DEFAULT, &out->storage, err);
    return code == GAL_OK ? repeat_transfers(out, 2 * PLACES, err) : code; /* what was never written has other rates */
}

static gal_code beside_storage(gal_bench *bench, gal_front *front, const gal_back *back, double alone_seconds,
                               gal_activity activity, double slowdown[GAL_ACTIVITY_COUNT][GAL_ACTIVITY_COUNT],
                               gal_error *err)
{
    double factors[2] = {1.0, 1.0};
    const gal_code code = gal_measure_together(bench, front, back, alone_seconds, factors, err);
    slowdown[activity][GAL_ACTIVITY_STORAGE] = fmax(1.0, factors[0]);
    slowdown[GAL_ACTIVITY_STORAGE][activity] = fmax(1.0, factors[1]);
    return code;
}

static gal_code run_kernel(void *context, uint32_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_sequence *s = context;
    for (uint32_t i = 0; i < count; i++, s->next++) {
        GAL_TRY(gal_operator_repeat(&s->run[s->next % s->count], 1, err));
    }
cleanup:
    return code;
}

gal_front gal_front_of_kernels(gal_sequence *kernels)
{
    kernels->next = 0;
    return (gal_front){.run = run_kernel, .context = kernels, .count = kernels->count};
}

static gal_code measure_storage(gal_bench *bench, const gal_overlap_settings *o, transfers *t,
                                double slowdown[GAL_ACTIVITY_COUNT][GAL_ACTIVITY_COUNT], gal_error *err)
{
    gal_code code = GAL_OK;
    gal_timing alone, message;
    copies c;
    gal_sequence kernels = {.count = 0};
    const gal_candidate_collective *chosen[GAL_OVERLAP_COLLECTIVES];
    const gal_back back = {.start = start_transfer, .test = test_transfer, .run = t};
    gal_front copying = {.run = repeat_copies, .context = &c, .count = 2};
    prepare_copies(o->pools, &c);
    GAL_TRY(gal_bench_time(bench, repeat_transfers, t, &alone, err));
    GAL_TRY(gal_front_time(bench, &copying, err));
    GAL_TRY(beside_storage(bench, &copying, &back, alone.seconds, GAL_ACTIVITY_COPY, slowdown, err));
    code = gal_sequence_choose(o, &kernels, err);
    GAL_TRY(gal_world_agree(&bench->world, code, err));
    if (kernels.count > 0) {
        gal_front front = gal_front_of_kernels(&kernels);
        GAL_TRY(gal_front_time(bench, &front, err));
        GAL_TRY(beside_storage(bench, &front, &back, alone.seconds, GAL_ACTIVITY_COMPUTE, slowdown, err));
    }
    if (gal_overlap_collectives(o, chosen) > 0) {
        gal_collective_run collective;
        double factors[2] = {1.0, 1.0};
        gal_front front = {.polled = &back, .count = 1, .alone_seconds = {alone.seconds}};
        gal_collective_prepare(chosen[0], o->links, o->pools, false, &collective);
        const gal_back messages = gal_back_of_collective(&collective); /* behind: as many on all ranks */
        GAL_TRY(gal_bench_time(bench, gal_collective_repeat, &collective, &message, err));
        GAL_TRY(gal_measure_together(bench, &front, &messages, message.seconds, factors, err));
        slowdown[GAL_ACTIVITY_STORAGE][GAL_ACTIVITY_COMMUNICATION] = fmax(1.0, factors[0]);
        slowdown[GAL_ACTIVITY_COMMUNICATION][GAL_ACTIVITY_STORAGE] = fmax(1.0, factors[1]);
    }
cleanup:
    return code;
}

gal_code gal_measure_storage_slowdowns(gal_bench *bench, const gal_overlap_settings *o, const char *directory,
                                       double slowdown[GAL_ACTIVITY_COUNT][GAL_ACTIVITY_COUNT], gal_error *err)
{
    transfers t = {.next = 0};
    gal_code code = open_transfers(directory, &t, err);
    GAL_TRY(gal_world_agree(&bench->world, code, err));
    GAL_TRY(measure_storage(bench, o, &t, slowdown, err));
cleanup:
    gal_storage_close(t.storage);
    free(t.memory);
    return code;
}
