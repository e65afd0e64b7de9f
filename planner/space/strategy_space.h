/* The space of one block: Galvatron's decision tree (Galvatron-BMW section III-B) over the axes DP, SDP, TP and Ulysses
 * in any order, each at most once, with ZeRO stages, Megatron sequence parallelism and recompute, selective or full.
 * ZeRO goes with SDP, with Ulysses alone or without; Megatron's chunks not with Ulysses.
 *
 * Its pipeline is the root of every tree: stages are rows of neighbouring devices, equally many, in every plan. What
 * the paper's three takeaways forbid beyond that is applied or not, each by itself:
 *     1  a stage is whole islands, or lies in one (an island: the devices of the innermost link)
 *     2  devices are halved and halved again: every degree is a power of two
 *     3  no DP beside SDP
 * Counted as the paper counts, strategies of all trees together (one tree for each pipeline degree 1, 2, 4, 8 of 8
 * devices), order of axes told apart: 34 over DP, SDP with ZeRO-3 and TP, 22 with takeaway 3; twice as many with
 * recompute. Grids of TP devices (Colossal-AI section III-A) are further rows, each legal where its side divides what
 * it cuts. The 4 of its "DP+PP" are counted so; for the 4 of its "DP+TP" (section VII-C) the order is not told apart
 * and there is no pipeline: degrees 1, 2, 4, 8 of TP. */
#ifndef GAL_PLANNER_SPACE_STRATEGY_SPACE_H
#define GAL_PLANNER_SPACE_STRATEGY_SPACE_H

#include "costmodel/floor.h"
#include "schemas/base/options.h"
#include "schemas/plan.h"

enum { GAL_SPACE_MAX = 1048576, GAL_SPACE_OFFLOADS = 12 /* what of a block may be in the host's memory, ways */ };

/* Everything allowed but Ulysses, rings and grids of TP, which have to be asked for; no takeaway applied. The words are
 * those that gal_space_parse takes for it. */
#define GAL_SPACE_ALL_WORDS "dp,sdp,zero1,zero2,zero3,tp,sp,recompute,selective"
void gal_space_all(gal_space *out);

/* Parses a list such as
 * "dp,sdp,tp,2d,2.5d,3d,keep,stepped,sp,ulysses,ring,zigzag,recompute,selective,zero1,zero2,zero3,overlap,bucket,chunk,offload";
 * what is named is allowed, sdp without a zeroN allows all three. Words of other frameworks are understood
 * (words.h); pp is known and changes nothing, because pipelines are in every space. Takeaways are left as they are.
 * GAL_ERR_USAGE names the unknown word, the nearest and the known ones. */
gal_code gal_space_parse(const char *text, gal_space *out, gal_error *err);

/* The strategies for D devices in a fixed order, legal or not for a kind of block (gal_strategy_rule_broken says).
 * Strategies that differ in recompute alone follow each other, the one without first. Writes at most GAL_SPACE_MAX,
 * returns how many; out NULL: how many there are (more than GAL_SPACE_MAX: gal_search does not take such a space). With
 * space->overlap on those that can overlap stand once more behind those without, in the same order. A chunk is of the
 * largest size here, which stands for all: planner/search/chunk_search.h. */
uint32_t gal_space_strategies(const gal_space *space, uint32_t device_count, gal_strategy *out);
/* Entries for them, at least one. */
uint32_t gal_space_room(const gal_space *space, uint32_t device_count);

/* Those of gal_space_strategies that have these very axes, in the same order: of the same bounds. */
uint32_t gal_space_variants(const gal_space *space, const gal_strategy *axes, gal_strategy *out);

/* The kind of overlap that a strategy can have, none where it can have none. Full recompute overlaps as fine, the
 * others as in_pass: in_pass and cross_pass with full recompute do what fine does and more. */
gal_overlap gal_space_overlap_of(const gal_strategy *strategy);

/* The splits of a block that the space allows on D devices: without data parallelism, which is left open. Returns how
 * many; out may be NULL. */
uint32_t gal_space_splits(const gal_space *space, uint32_t device_count, gal_split_kind *out);

/* Those of the pipeline degrees asked for (none: all), up to `most`, that divide the cluster's devices and that
 * takeaways 1 and 2 allow. */
gal_u32_list gal_space_pp_degrees(const gal_space *space, const gal_cluster *cluster, const gal_u32_list *asked,
                                  uint32_t most);

/* What both allow; takeaways that either applies. */
void gal_space_meet(const gal_space *a, const gal_space *b, gal_space *out);

#endif
