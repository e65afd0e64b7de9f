/* A communicator whose requests are complete some time after they are: up to 0.2 ms, and now and then 2 ms, by a seed.
 * So streams meet in other orders each time. */
#ifndef GAL_TESTS_SUPPORT_DELAYED_COMM_H
#define GAL_TESTS_SUPPORT_DELAYED_COMM_H

#include "runtime/comm/comm.h"

/* Takes over inner, of requests that are tested. Memory fails by assertion. */
gal_comm *gal_delayed_comm_create(gal_comm *inner, uint64_t seed);

#endif
