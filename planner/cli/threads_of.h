/* The threads that galrun will give each rank. */
#ifndef GAL_PLANNER_CLI_THREADS_OF_H
#define GAL_PLANNER_CLI_THREADS_OF_H

#include "schemas/profile.h"

#define GAL_CLI_THREADS_HELP "threads per rank that galrun --threads will give (those of the profile)"

/* The profile as for so many; 0: as it is. On GPUs Adam on the host then takes what it was measured to take by so many.
 * GAL_ERR_USAGE: the profile has no such rates, or its own kernels ran on the host by another number. */
gal_code gal_cli_threads_of(gal_profile *profile, uint32_t threads, gal_error *err);

#endif
