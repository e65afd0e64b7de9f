/* A line on a terminal while a search runs: how far it is. */
#ifndef GAL_PLANNER_CLI_SEARCHING_H
#define GAL_PLANNER_CLI_SEARCHING_H

#include <pthread.h>
#include <stdbool.h>

#include "planner/search/joint_search.h"

typedef struct gal_searching {
    bool quiet; /* show nothing */
    bool running, done;
    gal_search_progress now;
    double begin_seconds; /* of the search */
    pthread_t thread;
    pthread_mutex_t mutex; /* over done and now */
    pthread_cond_t wake;
} gal_searching;

/* Of a zeroed struct, with quiet set or not. From half a second on, "searching: 4 of 28 cells closed, best 30.1
 * samples/s, 12 s" on stderr, written over twice a second, also while a cell is being priced and the search has nothing
 * to tell. Nothing if stderr is no terminal. */
void gal_searching_begin(gal_searching *searching);
/* For gal_search_request: searching is the context. */
void gal_searching_tell(void *searching, const gal_search_progress *now);
/* Takes the line away. Returns the seconds since begin. */
double gal_searching_end(gal_searching *searching);

#endif
