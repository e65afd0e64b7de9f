/* A line on a terminal while work runs that does not say how far it is. */
#ifndef GAL_PLANNER_CLI_WAITING_H
#define GAL_PLANNER_CLI_WAITING_H

#include <pthread.h>
#include <stdbool.h>

typedef struct gal_waiting {
    bool running, done;
    const char *what;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
} gal_waiting;

/* From half a second on, "what, 12 s" on stderr; nothing if that is no terminal. */
void gal_waiting_begin(gal_waiting *waiting, const char *what);
/* Takes the line away. Also after a begin that showed nothing. */
void gal_waiting_end(gal_waiting *waiting);

#endif
