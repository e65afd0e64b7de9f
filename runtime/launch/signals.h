/* The signals that ask a program for an orderly end. Handlers have no other way to reach what they change, so the state
 * is the process's own. One request often arrives twice, at the process and at its group: a second one is one that
 * comes seconds after the first. */
#ifndef GAL_RUNTIME_LAUNCH_SIGNALS_H
#define GAL_RUNTIME_LAUNCH_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* From the first call on SIGTERM and SIGINT, and SIGUSR1, which gal_launch sends for them, ask for an orderly end: the
 * returned flag is then not 0. A second SIGTERM or SIGINT ends the process. */
const volatile sig_atomic_t *gal_stop_on_signals(void);

/* From here on SIGTERM and SIGINT go to the child instead: the first as SIGUSR1, a second as it is. 0: there is no
 * child, they go nowhere. */
void gal_signals_forward(pid_t child);
/* Whether a signal that asks for an end has come. */
bool gal_signals_came(void);
/* In a child: SIGTERM and SIGINT end it, as they do by default. */
void gal_signals_restore(void);

#endif
