/* The watchdog: one thread per comm, asleep but for a look every 100 ms.
 *
 * Errors of the library reach all ranks of a group, but as "remote error" on those that only lost a peer: these wait a
 * moment, so that the rank with the cause speaks first and the launcher ends the others. A deadline that passes on all
 * ranks at once is told by the lowest one for the same reason. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/comm/nccl_internal.h"
#include "schemas/base/clock.h"

enum { LOOK_NANOSECONDS = 100 * 1000 * 1000, SECOND_NANOSECONDS = 1000 * 1000 * 1000, ABORT_SECONDS = 10 };
enum { LIST_BYTES = 1024 };
static const double effect_seconds = 2.0, stagger_seconds = 1.0, stagger_seconds_max = 10.0;

void gal_nccl_note(gal_nccl_state *state, const gal_nccl_group *group, const gal_comm_request *request)
{
    const uint32_t index = (uint32_t)(group - state->group);
    pthread_mutex_lock(&state->lock);
    state->record[state->record_count++ % GAL_NCCL_RECORDS] = (gal_nccl_record){
        .group = index,
        .number = ++state->group[index].issued,
        .op = request->op,
        .dtype = request->dtype,
        .elements = request->elements,
    };
    pthread_mutex_unlock(&state->lock);
}

void gal_nccl_watch(gal_comm *comm, double deadline_seconds)
{
    gal_nccl_state *state = comm->state;
    const double spare_seconds = stagger_seconds * (comm->rank + 1);
    pthread_mutex_lock(&state->lock);
    state->watch_deadline_seconds = deadline_seconds;
    state->watch_end_seconds = deadline_seconds > 0.0
                                   ? gal_now_seconds() + deadline_seconds +
                                         (spare_seconds < stagger_seconds_max ? spare_seconds : stagger_seconds_max)
                                   : 0.0;
    pthread_mutex_unlock(&state->lock);
}

void gal_nccl_abort_all(gal_nccl_state *state)
{
    if (state->has_lock) {
        pthread_mutex_lock(&state->lock);
    }
    if (!state->aborted) {
        state->aborted = true;
        (void)ncclGroupStart();
        for (uint32_t g = state->group_count; g-- > 0;) {
            if (state->group[g].comm != NULL) {
                (void)ncclCommAbort(state->group[g].comm);
            }
        }
        (void)ncclGroupEnd();
    }
    if (state->has_lock) {
        pthread_mutex_unlock(&state->lock);
    }
}

/* ---- what is told ---- */

/* 1st, 2nd, 3rd, 4th, 11th, 21st. */
static const char *ordinal_ending(uint64_t number)
{
    static const char *const endings[] = {"th", "st", "nd", "rd"};
    const uint64_t last = number % 10;
    return number / 10 % 10 == 1 || last > 3 ? "th" : endings[last];
}

/* The group's latest request, or NULL if the ring has none. */
static const gal_nccl_record *latest(const gal_nccl_state *state, uint32_t group)
{
    const uint64_t kept = state->record_count < GAL_NCCL_RECORDS ? state->record_count : GAL_NCCL_RECORDS;
    for (uint64_t back = 1; back <= kept; back++) {
        const gal_nccl_record *record = &state->record[(state->record_count - back) % GAL_NCCL_RECORDS];
        if (record->group == group) {
            return record;
        }
    }
    return NULL;
}

static size_t put_latest(const gal_nccl_state *state, uint32_t group, char *text, size_t capacity)
{
    const gal_nccl_record *record = latest(state, group);
    int used = 0;
    if (record == NULL) {
        used = snprintf(text, capacity, "%s: nothing of late", state->group[group].place);
    } else {
        used = snprintf(text, capacity, "%s: %s of %llu %s, the %llu%s", state->group[group].place,
                        gal_op_names[record->op], (unsigned long long)record->elements, gal_dtype_names[record->dtype],
                        (unsigned long long)record->number, ordinal_ending(record->number));
    }
    return (size_t)used < capacity ? (size_t)used : capacity - 1;
}

static void describe_error(const gal_nccl_state *state, uint32_t group, ncclResult_t result, char *text,
                           size_t capacity)
{
    char last[LIST_BYTES / 4];
    const char *library = ncclGetLastError(state->group[group].comm);
    (void)put_latest(state, group, last, sizeof last);
    (void)snprintf(text, capacity, "rank %u: NCCL: %s%s%.300s%s; last put on %s", state->control->rank,
                   ncclGetErrorString(result), library != NULL && library[0] != '\0' ? " (" : "",
                   library != NULL ? library : "", library != NULL && library[0] != '\0' ? ")" : "", last);
}

static void describe_deadline(const gal_nccl_state *state, char *text, size_t capacity)
{
    size_t used = (size_t)snprintf(text, capacity, "rank %u: no progress of a step for %g s; last put on",
                                   state->control->rank, state->watch_deadline_seconds);
    bool first = true;
    for (uint32_t g = 1; g < state->group_count && used + GAL_NCCL_PLACE_BYTES < capacity; g++) {
        if (state->group[g].issued > 0) {
            used += (size_t)snprintf(text + used, capacity - used, "%s ", first ? "" : ";");
            used += put_latest(state, g, text + used, capacity - used);
            first = false;
        }
    }
}

/* ---- the thread ---- */

/* Aborting may itself wait for a device that does not answer. */
static void *end_late(void *unused)
{
    (void)unused;
    sleep(ABORT_SECONDS);
    _Exit(GAL_ERR_DEVICE);
}

static void end_all(gal_nccl_state *state, const char *text)
{
    pthread_t late;
    if (state->options.tell != NULL) {
        state->options.tell(text);
    }
    (void)pthread_create(&late, NULL, end_late, NULL);
    gal_nccl_abort_all(state);
    _Exit(GAL_ERR_DEVICE);
}

/* True with a text if something is wrong. Under the lock. */
static bool look(const gal_nccl_state *state, double *wait_seconds, char *text, size_t capacity)
{
    for (uint32_t g = 0; g < state->group_count; g++) {
        ncclResult_t result = ncclSuccess;
        if (state->group[g].comm == NULL) {
            continue;
        }
        const ncclResult_t called = ncclCommGetAsyncError(state->group[g].comm, &result);
        result = called != ncclSuccess ? called : result;
        if (result != ncclSuccess && result != ncclInProgress) {
            *wait_seconds = result == ncclRemoteError ? effect_seconds : 0.0;
            describe_error(state, g, result, text, capacity);
            return true;
        }
    }
    if (state->watch_end_seconds > 0.0 && gal_now_seconds() > state->watch_end_seconds) {
        *wait_seconds = 0.0;
        describe_deadline(state, text, capacity);
        return true;
    }
    return false;
}

static void sleep_until_next_look(gal_nccl_state *state)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_NANOSECONDS;
    until.tv_sec += until.tv_nsec / SECOND_NANOSECONDS;
    until.tv_nsec %= SECOND_NANOSECONDS;
    (void)pthread_cond_timedwait(&state->wake, &state->lock, &until);
}

static void *watchdog(void *argument)
{
    gal_nccl_state *state = argument;
    char text[LIST_BYTES] = "";
    double wait_seconds = 0.0;
    bool wrong = false;
    pthread_mutex_lock(&state->lock);
    while (!state->ending && !state->aborted && !wrong) {
        sleep_until_next_look(state);
        wrong = !state->ending && !state->aborted && look(state, &wait_seconds, text, sizeof text);
    }
    pthread_mutex_unlock(&state->lock);
    if (wrong) {
        usleep((useconds_t)(wait_seconds * 1e6));
        end_all(state, text);
    }
    return NULL;
}

gal_code gal_nccl_watchdog_start(gal_comm *comm, gal_error *err)
{
    gal_nccl_state *state = comm->state;
    pthread_condattr_t forward;
    pthread_condattr_init(&forward);
    pthread_condattr_setclock(&forward, CLOCK_MONOTONIC);
    state->has_lock = pthread_mutex_init(&state->lock, NULL) == 0;
    state->has_wake = pthread_cond_init(&state->wake, &forward) == 0;
    pthread_condattr_destroy(&forward);
    state->has_watchdog =
        state->has_lock && state->has_wake && pthread_create(&state->watchdog, NULL, watchdog, state) == 0;
    return state->has_watchdog ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "cannot start the watchdog's thread");
}

void gal_nccl_watchdog_stop(gal_nccl_state *state)
{
    if (!state->has_watchdog) {
        return;
    }
    pthread_mutex_lock(&state->lock);
    state->ending = true;
    pthread_cond_signal(&state->wake);
    pthread_mutex_unlock(&state->lock);
    pthread_join(state->watchdog, NULL);
    state->has_watchdog = false;
}
