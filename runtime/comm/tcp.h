/* Control over TCP, for ranks that an orchestrator has started without MPI (RANK, WORLD_SIZE, MASTER_ADDR,
 * MASTER_PORT): a comm with the helpers and no requests, which is what NCCL needs beside it (nccl.h).
 *
 * Rank 0 listens, the others connect; it stays the middle of a star. Whoever connects says a protocol, the run's cookie
 * and its rank first (40 bytes); a stranger is dropped at the first byte that is wrong, or after some seconds of
 * silence, and keeps nobody waiting. Sizes are checked before anything is read into memory. Messages are not secret and
 * not signed: the network between the ranks is trusted, as NCCL and MPI trust it.
 *
 * A rank that ends closes its connection, so rank 0 knows at once; it then says the cause and ends all. The roll call
 * of comm.h works as under MPI: who waits too long says so to rank 0, who speaks. */
#ifndef GAL_RUNTIME_COMM_TCP_H
#define GAL_RUNTIME_COMM_TCP_H

#include "runtime/comm/comm.h"

enum { GAL_TCP_COOKIE_BYTES = 16, GAL_TCP_NAME_BYTES = 256 };

typedef struct gal_tcp_place {
    uint32_t rank, world_size;
    char address[GAL_TCP_NAME_BYTES]; /* of rank 0: a name or a number, IPv4 or IPv6 */
    uint16_t port;
    uint8_t cookie[GAL_TCP_COOKIE_BYTES]; /* the same on all ranks of a run, another in another run */
} gal_tcp_place;

/* The place that the environment gives: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, all of them or none (*found is
 * false). The cookie is of TORCHELASTIC_RUN_ID or SLURM_JOB_ID, where there is one. For command lines. GAL_ERR_USAGE:
 * some are missing, or not what they should be. */
gal_code gal_tcp_place_read(gal_tcp_place *out, bool *found, gal_error *err);
/* The cookie of a text; no text: zeros. */
void gal_tcp_cookie(const char *text, uint8_t cookie[GAL_TCP_COOKIE_BYTES]);

/* Returns when all ranks are there. tell is for the one line of a rank that ends all (gal_mpi_roll_call_enable).
 * GAL_ERR_SYSTEM: rank 0 cannot listen (the port is in use). GAL_ERR_DEVICE: ranks have not come within
 * deadline_seconds, named; or rank 0 refuses this one, and says why. */
gal_code gal_comm_tcp_create(const gal_tcp_place *place, double deadline_seconds, void (*tell)(const char *text),
                             gal_comm **out, gal_error *err);

#endif
