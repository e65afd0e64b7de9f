/* Starting ranks on this machine. For command lines. */
#ifndef GAL_RUNTIME_LAUNCH_LAUNCH_H
#define GAL_RUNTIME_LAUNCH_LAUNCH_H

#include <stdint.h>

#include "schemas/base/status.h"

typedef struct gal_launch_options {
    uint32_t rank_count;
    uint32_t thread_count;   /* of each rank */
    double deadline_seconds; /* that a rank may be blocked for others */
    char *const *arguments;  /* arguments[0] aside, NULL at the end */
} gal_launch_options;

/* Runs this very program again as ranks under mpirun, and waits for the end. SIGTERM and SIGINT reach the ranks as
 * SIGUSR1, since mpirun kills on the former; another one three seconds later goes to mpirun itself. *exit_code is what
 * the ranks ended with. The first error that a rank has said (gal_launch_say) is returned, whatever came after it. Else
 * GAL_ERR_SYSTEM: mpirun cannot be started. GAL_ERR_DEVICE: a signal ended it or a rank, which is named; or ranks did
 * not come to the start or the end of MPI, or to the making of a group (launch_watch.h), and all were ended for it. */
gal_code gal_launch(const gal_launch_options *options, int *exit_code, gal_error *err);

#endif
