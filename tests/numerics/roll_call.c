/* The roll call under mpirun: roll_call MODE RANK. What it tells goes to stderr as "told: text"; rank RANK is the odd
 * one.
 *
 *     none       a barrier that all come to: exit 0
 *     missing    RANK sleeps, the others are in a barrier for 1 s
 *     heard      as missing, but only the lowest other rank has a deadline of 1 s, the others of 60
 *     members    RANK sleeps; the others wait for one rank each: the next one
 *     failed     RANK has failed alone with GAL_ERR_DOCUMENT, the others are in a barrier for 60 s
 *     several    as failed, of RANK and all above it
 *     stuck      all wait for what nobody does
 *     own        RANK waits for something of its own, the others for it
 *     silent     as missing, without a roll call: every other rank gets an error of its own, and prints it */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/comm/comm.h"

/* members_seconds: every rank has to be heard for the verdict, and a quarter of it is left for that. */
static const double short_seconds = 1.0, members_seconds = 6.0, long_seconds = 60.0;

static void tell(const gal_error *err)
{
    (void)fprintf(stderr, "told: %s\n", err->text);
    sleep(1); /* that another may speak too before all are ended */
}

static gal_code barrier(gal_comm *comm, double deadline_seconds)
{
    gal_error err = {0};
    const gal_code code = gal_comm_barrier(comm, deadline_seconds, &err);
    if (code != GAL_OK) {
        (void)fprintf(stderr, "rank %u: %s\n", comm->rank, err.text);
    }
    return code;
}

static void wait_for_next(gal_comm *comm)
{
    const uint32_t next = (comm->rank + 1) % comm->world_size;
    char text[32];
    (void)snprintf(text, sizeof text, "the wait of rank %u", comm->rank);
    comm->ops->roll_call(comm, &(gal_comm_wait){.text = text, .ranks = &next, .rank_count = 1}, 1, members_seconds);
}

static gal_code run(gal_comm *comm, const char *mode, uint32_t odd)
{
    const bool several = strcmp(mode, "several") == 0, failed = several || strcmp(mode, "failed") == 0;
    const bool is_odd = (comm->rank == odd && strcmp(mode, "none") != 0) || (several && comm->rank > odd);
    gal_error err = {0};
    if (strcmp(mode, "stuck") == 0) {
        comm->ops->roll_call(comm, &(gal_comm_wait){.text = "nothing"}, 1, short_seconds);
    } else if (strcmp(mode, "own") == 0) {
        const gal_comm_wait disk = {.text = "its disk", .own = true};
        const gal_comm_wait peer = {.text = "a peer", .ranks = &odd, .rank_count = 1};
        comm->ops->roll_call(comm, is_odd ? &disk : &peer, 1, short_seconds);
    } else if (failed && is_odd) {
        (void)gal_fail(&err, GAL_ERR_DOCUMENT, "the odd one's own error");
        gal_mpi_roll_call_blame(&err);
        comm->ops->roll_call(comm, &(gal_comm_wait){.text = "its failure"}, 1, short_seconds);
    } else if (is_odd) {
        sleep((unsigned)long_seconds);
    } else if (strcmp(mode, "members") == 0) {
        wait_for_next(comm);
    } else if (failed || (strcmp(mode, "heard") == 0 && comm->rank > (odd == 0 ? 1U : 0U))) {
        (void)gal_comm_barrier(comm, long_seconds, NULL);
    }
    return barrier(comm, short_seconds);
}

int main(int argc, char **argv)
{
    gal_error err = {0};
    gal_comm *comm = NULL;
    const char *mode = argc > 2 ? argv[1] : "none";
    const uint32_t odd = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    gal_code code = GAL_OK;
    GAL_TRY(gal_mpi_init(&argc, &argv, &err));
    if (strcmp(mode, "silent") != 0) {
        GAL_TRY(gal_mpi_roll_call_enable(tell, &err));
    }
    GAL_TRY(gal_comm_mpi_create(0, NULL, 0, &comm, &err));
    GAL_TRY(run(comm, mode, odd));
    gal_comm_free(comm);
    gal_mpi_roll_call_disable();
    gal_mpi_finalize();
    return GAL_OK;
cleanup:
    if (strcmp(mode, "silent") == 0) { /* the launcher ends the others with the first: they have a word first */
        sleep(2);
    }
    _exit((int)code);
}
