/* The ranks of a launch as the process that ran gal_launch sees them: who has ended first (mpirun's exit status says
 * how, not who), who has said an error first, and who keeps others waiting where MPI cannot tell (in its start and end,
 * in the making of groups). For launch.c.
 *
 * Ranks write to a pipe that they find by the environment (launch_rank.h). The watch holds a descriptor of each process
 * (pidfd_open) and waits for all of them, the pipe and mpirun at once. One watch at a time: the environment is the
 * process's. */
#ifndef GAL_RUNTIME_LAUNCH_LAUNCH_WATCH_H
#define GAL_RUNTIME_LAUNCH_LAUNCH_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "schemas/base/status.h"

#define GAL_NO_RANK UINT32_MAX

typedef struct gal_launch_watched gal_launch_watched;

typedef struct gal_launch_watch {
    int pipe[2], epoll;
    uint32_t rank_count;
    uint32_t first_ended;     /* rank; GAL_NO_RANK: not known */
    double ended_seconds;     /* when it did */
    bool dying;               /* a rank has ended at work: the others are to end too */
    gal_error said;           /* the first error that a rank has said; GAL_OK: none */
    gal_launch_watched *rank; /* [rank_count], owned */
} gal_launch_watch;

extern const gal_launch_watch gal_launch_watch_none; /* not open; may be closed */

/* Opens the pipe and names it in the environment, which the launcher inherits. GAL_ERR_SYSTEM. */
gal_code gal_launch_watch_open(gal_launch_watch *watch, uint32_t rank_count, gal_error *err);
/* GAL_OK when the launcher has ended, not yet waited for; at once where the kernel has no pidfd_open. GAL_ERR_DEVICE
 * while it still runs: a rank has been blocked for deadline_seconds (the error names the ranks that it waits for, and
 * what is known of them), in all of start_seconds no rank has started, or the launcher has not ended for
 * deadline_seconds after the first rank. Ranks that go on when one has ended at work are killed: the launcher would let
 * them wait for it for two seconds. */
gal_code gal_launch_watch_wait(gal_launch_watch *watch, pid_t launcher, double deadline_seconds, double start_seconds,
                               gal_error *err);
/* Takes what ranks have said since, their errors among it: for when all have ended. */
void gal_launch_watch_hear(gal_launch_watch *watch);
/* "rank 1, rank 3": those that have not started; a long list is cut. "": all have. */
void gal_launch_watch_list_late(const gal_launch_watch *watch, char *text, size_t capacity);
/* Whether all ranks have said that their work is done. */
bool gal_launch_watch_all_done(const gal_launch_watch *watch);
/* Kills the ranks that are known and have not ended; false if there is none. */
bool gal_launch_watch_kill(const gal_launch_watch *watch);
/* For when the launcher has ended: kills the ranks that it has left, those too that make themselves known meanwhile,
 * and returns when they have ended, or after some seconds (a process in the kernel's hands cannot end). */
void gal_launch_watch_end_ranks(gal_launch_watch *watch);
void gal_launch_watch_close(gal_launch_watch *watch);

#endif
