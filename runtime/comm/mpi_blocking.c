/* MPI calls that block until other ranks come, and who holds their deadline. There is no form of them that could be
 * tested and given up: MPI 3 makes groups of some ranks by a blocking call only. */
#include "runtime/comm/mpi_internal.h"

static struct {
    double deadline_seconds;
    void (*blocked)(const gal_comm_wait *wait);
    void (*unblocked)(void);
} limit = {.deadline_seconds = 60.0};

void gal_mpi_set_deadline(double deadline_seconds, void (*blocked)(const gal_comm_wait *wait), void (*unblocked)(void))
{
    limit.deadline_seconds = deadline_seconds;
    limit.blocked = blocked;
    limit.unblocked = unblocked;
}

double gal_mpi_deadline_seconds(void)
{
    return limit.deadline_seconds;
}

void gal_mpi_blocked(const char *text, const uint32_t *ranks, uint32_t rank_count)
{
    if (limit.blocked != NULL) {
        limit.blocked(&(gal_comm_wait){.text = text, .ranks = ranks, .rank_count = rank_count});
    }
}

void gal_mpi_unblocked(void)
{
    if (limit.unblocked != NULL) {
        limit.unblocked();
    }
}
