/* Which rank of a launch ends first: mpirun's exit status says how, not who. For launch.c.
 *
 * A rank writes its number and process to a pipe of the process that ran gal_launch, found by the environment; that
 * process holds a descriptor of each (pidfd_open) and waits for all of them and mpirun at once. */
#ifndef GAL_RUNTIME_LAUNCH_WATCH_H
#define GAL_RUNTIME_LAUNCH_WATCH_H

#include <stdint.h>
#include <sys/types.h>

#include "schemas/base/status.h"

#define GAL_NO_RANK UINT32_MAX

typedef struct gal_launch_watch {
    int pipe[2];
    uint32_t rank_count;
    uint32_t first_ended; /* rank; GAL_NO_RANK: not known */
} gal_launch_watch;

/* Opens the pipe and names it in the environment, which the launcher inherits. GAL_ERR_SYSTEM. */
gal_code gal_launch_watch_open(gal_launch_watch *watch, uint32_t rank_count, gal_error *err);
/* Returns when the launcher has ended, not yet waited for; at once where the kernel has no pidfd_open. */
gal_code gal_launch_watch_wait(gal_launch_watch *watch, pid_t launcher, gal_error *err);
void gal_launch_watch_close(gal_launch_watch *watch);

#endif
