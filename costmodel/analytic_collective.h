/* Seconds of a collective from the links that its group crosses: what stands where nothing was measured.
 *
 * Level i of the tree joins units of level i - 1 (devices, for level 0). The group has c_i members (units) at level i
 * (level_counts[i], 1 where it does not extend) and so below_i = c_0 ... c_(i-1) members in a unit; n = c_0 c_1 ... in
 * all. All groups of a mesh run the same collective at once, so a device has its own share of a link, w_i =
 * bytes_per_second x achievable_fraction; where the units of level i share their way out (`shared`), a group with
 * several members in a unit has all their shares: b_i = w_i below_i, else b_i = w_i. Of the levels crossed, b is the
 * least b_i. l_i is the latency of a level, h_i = n / below_i - n / below_(i+1) the hops of a ring that cross level i
 * and none above it (one more at the outermost, which closes the ring), and l = sum of h_i l_i / n the mean of a hop.
 *
 *   all_gather, reduce_scatter   ring: (n - 1) l + (n - 1) / n bytes / b
 *   all_reduce                   the faster of ring: 2 (n - 1) l + 2 (n - 1) / n bytes / b
 *                                and tree: 2 sum of ceil(log2 c_i) l_i + 2 bytes / b
 *   all_to_all                   (n - 1) l + the longest over the levels crossed of bytes (1 - below_i / n) / w_i
 *   rotate                       l_i + bytes / b, l_i of the outermost level: of a unit's members one goes out
 *   mirror                       l_i + bytes / 2 w_i of the outermost level: all members of a unit may go out
 *   send, receive                l_i + bytes / w_i of the level crossed
 *   one member, or no bytes      0
 *
 * On a device with multiprocessors each is a kernel too: launch_seconds more.
 *
 * Sources: bandwidth factors: nccl-tests, doc/PERFORMANCE.md. Latency of rings by hops within and between nodes: NCCL
 * 2.18, src/graph/tuning.cc, ncclTopoTuneModel. Tree: Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth
 * broadcast, reduction and scan": both trees together send each byte twice per device. Between two units each is the
 * root of one tree and the leaf of the other, and once would do; but all-reduces of 256 MiB over two nodes were
 * measured to take a ring's time (tests/accuracy/analytic.c: 24.82 ms for two devices in each node, ring 24.82,
 * once 16.55).
 *
 * op           a collective; receive counts as send
 * level_counts as gal_profile_collective.level_counts
 * bytes        as gal_instruction.bytes
 * Finite and >= 0. Cannot fail. */
#ifndef GAL_COSTMODEL_ANALYTIC_COLLECTIVE_H
#define GAL_COSTMODEL_ANALYTIC_COLLECTIVE_H

#include "schemas/cluster.h"
#include "schemas/operator.h"

double gal_collective_analytic_seconds(const gal_cluster *cluster, gal_op op,
                                       const uint32_t level_counts[GAL_LINK_LEVELS_MAX], uint64_t bytes);

#endif
