/* The roll call: which ranks still live, when one has waited too long.
 *
 * Every rank that waits past its deadline tells all others so, in one message to each that says what it waits for, and
 * a rank that hears it while it waits itself does the same at once. Who has said nothing when the time is up is
 * stopped, dead or busy. The messages are buffered by MPI (eager), so sending to a rank that does not receive does
 * not block. They go over MPI_COMM_WORLD, on which nothing else of ours is a plain message: so ranks find each other
 * whatever communicator they wait on, and the state is the process's, as MPI_COMM_WORLD is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/comm/mpi_internal.h"
#include "schemas/base/clock.h"

enum {
    TAG_NOTICE = 1,
    WAITS_MAX = 4,
    RANKS_MAX = 16,
    TEXT_BYTES = 256,
    LIST_BYTES = 128,
    ABORT_SECONDS = 10,
    WOKEN_SECONDS = 3,
    POLL_MICROSECONDS = 10000
};

typedef struct notice_wait {
    uint32_t own;        /* no rank is needed */
    uint32_t rank_count; /* RANKS_MAX at most: of a larger group the first */
    uint32_t rank[RANKS_MAX];
    char text[TEXT_BYTES];
} notice_wait;

typedef struct notice {
    uint32_t code; /* GAL_OK: this rank waits; else it has failed with text as its error */
    uint32_t wait_count;
    notice_wait wait[WAITS_MAX];
    char text[GAL_ERROR_TEXT_BYTES];
} notice;

static struct {
    void (*tell)(const gal_error *err);
    uint32_t rank, world_size;
    notice mine, *of; /* [world_size] */
    bool *present;    /* [world_size] */
    MPI_Request *sent;
} roll;

gal_code gal_mpi_roll_call_enable(void (*tell)(const gal_error *err), gal_error *err)
{
    roll.rank = gal_mpi_rank();
    roll.world_size = gal_mpi_world_size();
    roll.of = calloc(roll.world_size, sizeof *roll.of);
    roll.present = calloc(roll.world_size, sizeof *roll.present);
    roll.sent = calloc(roll.world_size, sizeof *roll.sent);
    if (roll.of == NULL || roll.present == NULL || roll.sent == NULL) {
        gal_mpi_roll_call_disable();
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: roll call");
    }
    roll.tell = tell;
    return GAL_OK;
}

void gal_mpi_roll_call_disable(void)
{
    free(roll.of);
    free(roll.present);
    free(roll.sent);
    memset(&roll, 0, sizeof roll);
}

void gal_mpi_roll_call_blame(const gal_error *err)
{
    roll.mine.code = err->code;
    memcpy(roll.mine.text, err->text, sizeof roll.mine.text);
}

double gal_roll_call_seconds(double deadline_seconds)
{
    return deadline_seconds < 8.0 ? 0.25 * deadline_seconds : 2.0;
}

bool gal_mpi_roll_called(void)
{
    int waiting = 0;
    if (roll.tell == NULL) {
        return false;
    }
    return MPI_Iprobe(MPI_ANY_SOURCE, TAG_NOTICE, MPI_COMM_WORLD, &waiting, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
           waiting != 0;
}

/* ---- messages ---- */

static void send_notices(const gal_comm_wait *waits, uint32_t wait_count)
{
    roll.mine.wait_count = wait_count < WAITS_MAX ? wait_count : WAITS_MAX;
    for (uint32_t w = 0; w < roll.mine.wait_count; w++) {
        notice_wait *to = &roll.mine.wait[w];
        to->own = waits[w].own;
        to->rank_count = waits[w].rank_count < RANKS_MAX ? waits[w].rank_count : RANKS_MAX;
        if (to->rank_count > 0) {
            memcpy(to->rank, waits[w].ranks, to->rank_count * sizeof *to->rank);
        }
        (void)snprintf(to->text, sizeof to->text, "%s", waits[w].text);
    }
    roll.of[roll.rank] = roll.mine;
    roll.present[roll.rank] = true;
    for (uint32_t r = 0; r < roll.world_size; r++) {
        if (r != roll.rank) {
            (void)MPI_Isend(&roll.mine, (int)sizeof roll.mine, MPI_BYTE, (int)r, TAG_NOTICE, MPI_COMM_WORLD,
                            &roll.sent[r]);
        }
    }
}

/* Until all are there, or the time is up. One that has failed waits too: another may have failed beside it, and only
 * who has heard all knows which of them is to speak. */
static void receive_notices(double seconds)
{
    const double begin_seconds = gal_now_seconds(), end_seconds = begin_seconds + seconds;
    uint32_t missing = roll.world_size - 1;
    while (missing > 0 && gal_now_seconds() < end_seconds) {
        int waiting = 0;
        MPI_Status status;
        if (MPI_Iprobe(MPI_ANY_SOURCE, TAG_NOTICE, MPI_COMM_WORLD, &waiting, &status) != MPI_SUCCESS || !waiting) {
            gal_comm_give_way(NULL, begin_seconds);
            continue;
        }
        notice *from = &roll.of[status.MPI_SOURCE];
        if (MPI_Recv(from, (int)sizeof *from, MPI_BYTE, status.MPI_SOURCE, TAG_NOTICE, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE) == MPI_SUCCESS) {
            roll.present[status.MPI_SOURCE] = true;
            missing--;
        }
    }
}

/* ---- verdict ---- */

/* The lowest rank that is present (or absent), or world_size. */
static uint32_t lowest(bool present)
{
    uint32_t r = 0;
    while (r < roll.world_size && roll.present[r] != present) {
        r++;
    }
    return r;
}

static uint32_t lowest_failed(void)
{
    uint32_t r = 0;
    while (r < roll.world_size && !(roll.present[r] && roll.of[r].code != GAL_OK)) {
        r++;
    }
    return r;
}

/* What is waited for, and who waits: the lowest rank that waits for `missing` itself. If nobody does, or none is
 * missing, the lowest that waits for no rank at all, as the others wait for that one; or just the lowest. */
static const notice_wait *wait_on(uint32_t missing, uint32_t *waiter)
{
    for (uint32_t r = 0; r < roll.world_size; r++) {
        for (uint32_t w = 0; roll.present[r] && w < roll.of[r].wait_count; w++) {
            const notice_wait *wait = &roll.of[r].wait[w];
            for (uint32_t i = 0; i < wait->rank_count; i++) {
                if (wait->rank[i] == missing) {
                    *waiter = r;
                    return wait;
                }
            }
        }
    }
    for (uint32_t r = 0; r < roll.world_size; r++) {
        for (uint32_t w = 0; roll.present[r] && w < roll.of[r].wait_count; w++) {
            if (roll.of[r].wait[w].own != 0) {
                *waiter = r;
                return &roll.of[r].wait[w];
            }
        }
    }
    *waiter = lowest(true);
    return &roll.of[*waiter].wait[0];
}

/* "rank 2", "ranks 2, 3"; a long list is cut. */
static void list_missing(char *text, size_t capacity)
{
    uint32_t count = 0;
    size_t used = 0;
    for (uint32_t r = 0; r < roll.world_size; r++) {
        if (!roll.present[r] && used + 16 < capacity) {
            used += (size_t)snprintf(text + used, capacity - used, "%s%u", count++ == 0 ? "" : ", ", r);
        }
    }
}

static gal_code verdict(double deadline_seconds, gal_error *err)
{
    const uint32_t failed = lowest_failed(), missing = lowest(false);
    uint32_t waiter = 0;
    if (failed < roll.world_size) {
        return gal_fail(err, (gal_code)roll.of[failed].code, "rank %u: %.1000s", failed, roll.of[failed].text);
    }
    const notice_wait *wait = wait_on(missing, &waiter);
    if (missing == roll.world_size) {
        return gal_fail(err, GAL_ERR_DEVICE, "no progress for %g s, though all ranks answer: rank %u waits in %s",
                        deadline_seconds, waiter, wait->text);
    }
    char list[LIST_BYTES] = "";
    list_missing(list, sizeof list);
    const bool several = strchr(list, ',') != NULL;
    return gal_fail(err, GAL_ERR_DEVICE, "rank%s %s %s not answered for %g s: rank %u waits in %s", several ? "s" : "",
                    list, several ? "have" : "has", deadline_seconds, waiter, wait->text);
}

/* Whatever signals come. */
static void stay(double seconds)
{
    const double end_seconds = gal_now_seconds() + seconds;
    while (gal_now_seconds() < end_seconds) {
        usleep(POLL_MICROSECONDS);
    }
}

/* A rank that was stopped is woken by the launcher when the others have ended the run, finds all their notices, and
 * would say that nobody is missing: so the end is first given the time to reach it. */
void gal_mpi_roll_call(const gal_comm_wait *waits, uint32_t wait_count, double deadline_seconds)
{
    gal_error err = {0};
    if (roll.tell == NULL) {
        return;
    }
    send_notices(waits, wait_count);
    receive_notices(gal_roll_call_seconds(deadline_seconds));
    const gal_code code = verdict(deadline_seconds, &err);
    const uint32_t failed = lowest_failed();
    if (roll.rank != (failed < roll.world_size ? failed : lowest(true))) {
        stay(ABORT_SECONDS); /* the one that speaks ends all before this is over */
        _Exit((int)code);
    }
    if (lowest(false) == roll.world_size && failed == roll.world_size) {
        stay(WOKEN_SECONDS);
    }
    roll.tell(&err);
    MPI_Abort(MPI_COMM_WORLD, (int)code);
    _Exit((int)code);
}
