/* A rank and who launched it. A launcher speaks through the environment, so these functions read it: for command lines.
 *
 * The process that ran gal_launch hears of each of its ranks by a pipe: which process it is, when it is inside a call
 * that only other ranks can end (gal_mpi_set_deadline), and its error. It holds the deadline of these calls. Under a
 * foreign launcher the rank holds it itself, by a timer. */
#ifndef GAL_RUNTIME_LAUNCH_LAUNCH_RANK_H
#define GAL_RUNTIME_LAUNCH_LAUNCH_RANK_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/comm/comm.h"

/* True in a process that mpirun, or srun with PMI or PMIx, has started. */
bool gal_launched(void);
/* The rank the launcher gave, before MPI is initialised; 0 if none did. */
uint32_t gal_launched_rank(void);
/* True if what this process writes on stderr ends on a terminal, also through gal_launch. */
bool gal_launched_terminal(void);

/* A rank that gal_launch started says which process it is; else nothing happens. */
void gal_launch_register(void);

/* Hands an error to the process that ran gal_launch, which is to print it if it is the first. False if there is none,
 * or it does not take it. */
bool gal_launch_say(const gal_error *err);

/* Tells the process that ran gal_launch that this rank's work is done and saved: if the launcher is ended by a signal
 * from then on, nothing is lost. */
void gal_launch_done(void);

/* Under a foreign launcher a rank that is blocked for longer than deadline_seconds says so in one line that begins with
 * "program: error: ", and ends with GAL_ERR_DEVICE. Rank r waits 2 (r + 1) seconds more (10 at most): a roll call comes
 * first, then the lowest rank, and the launcher ends the others when one has ended. Uses SIGALRM, and the signals of
 * gal_stop_on_signals. */
void gal_launch_deadline(const char *program, double deadline_seconds);
/* For gal_mpi_set_deadline. Without a deadline nothing happens. */
void gal_launch_blocked(const gal_comm_wait *wait);
void gal_launch_unblocked(void);

#endif
