/* A communicator whose ranks each have a link of a set bandwidth, for measurements: what a step takes over a link that
 * this machine does not have, and whether it was predicted. Nothing is throttled: requests go through the communicator
 * inside, and are held back until the link would have brought them,
 *     begin = max(when the last member started it, when this rank's link is free)      end = begin + bytes / bandwidth
 * with the bytes that a rank sends by the bandwidth-optimal algorithm: 2 (n-1)/n of an all-reduce, n-1 shares of a
 * gather, a scatter or an exchange, all of a transfer. Waiting takes no core. The link is as slow as was asked as long
 * as the communicator inside is faster. Members tell each other when they start, by their clocks: so all ranks are of
 * one host. */
#ifndef GAL_RUNTIME_COMM_SLOW_LINK_H
#define GAL_RUNTIME_COMM_SLOW_LINK_H

#include "runtime/comm/comm.h"

/* Takes over inner, which is freed on errors too: a table of requests on the host, not queued. channels: those that it
 * was made with. bytes_per_second > 0. GAL_ERR_SYSTEM without memory. */
gal_code gal_comm_slow_create(gal_comm *inner, double bytes_per_second, const gal_channel_spec *channels,
                              uint32_t channel_count, gal_comm **out, gal_error *err);

#endif
