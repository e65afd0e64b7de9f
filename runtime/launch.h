/* Starting ranks on this machine, and finding out whether somebody has. For command lines: a launcher speaks through
 * the environment, so these functions read it. */
#ifndef GAL_RUNTIME_LAUNCH_H
#define GAL_RUNTIME_LAUNCH_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "schemas/base/status.h"

/* True in a process that mpirun, or srun with PMI or PMIx, has started. */
bool gal_launched(void);
/* The rank the launcher gave, before MPI is initialised; 0 if none did. */
uint32_t gal_launched_rank(void);
/* From the first call on SIGTERM and SIGINT, and SIGUSR1, which gal_launch sends for them, ask for an orderly end: the
 * returned flag, the process's own, is then not 0. A SIGTERM or SIGINT seconds after the first ends the process. */
const volatile sig_atomic_t *gal_stop_on_signals(void);
/* A rank that gal_launch started says which process it is, so that its end can be named; else nothing happens. */
void gal_launch_register(void);
/* True if what this process writes on stderr ends on a terminal, also through gal_launch. */
bool gal_launched_terminal(void);

/* Runs this very program again as rank_count ranks under mpirun, with the given arguments (arguments[0] aside, NULL
 * at the end) and thread_count threads each, and waits for the end. SIGTERM and SIGINT reach the ranks as SIGUSR1,
 * since mpirun kills on the former; another one three seconds later goes to mpirun itself. *exit_code is what the
 * ranks ended with; they have said why. GAL_ERR_SYSTEM: mpirun cannot be started; GAL_ERR_DEVICE: a signal ended it
 * or a rank, which is named. */
gal_code gal_launch(uint32_t rank_count, uint32_t thread_count, char *const *arguments, int *exit_code, gal_error *err);

#endif
