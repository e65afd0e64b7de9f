/* The space of one block: Galvatron's decision tree (Galvatron-BMW section III-B) over the axes DP, SDP and TP in any
 * order, each at most once, with ZeRO stages, Megatron sequence parallelism and recompute, selective or full. */
#ifndef GAL_PLANNER_STRATEGY_SPACE_H
#define GAL_PLANNER_STRATEGY_SPACE_H

#include "schemas/plan.h"

enum { GAL_SPACE_MAX = 2048 };

typedef struct gal_space {
    bool axis[GAL_AXIS_KIND_COUNT];
    bool zero_stage[4]; /* [1..3] */
    bool sequence_parallel;
    bool recompute, selective; /* full; of attention alone */
} gal_space;

/* Everything allowed. */
void gal_space_all(gal_space *out);

/* Parses a list such as "dp,sdp,tp,sp,recompute,selective,zero1,zero2,zero3"; what is named is allowed, sdp without a
 * zeroN allows all three. GAL_ERR_USAGE names the unknown word and the known ones. */
gal_code gal_space_parse(const char *text, gal_space *out, gal_error *err);

/* The strategies for D devices in a fixed order, legal or not for a kind of block (gal_strategy_rule_broken says).
 * Strategies that differ in recompute alone follow each other, the one without first. Writes at most GAL_SPACE_MAX,
 * returns how many. */
uint32_t gal_space_strategies(const gal_space *space, uint32_t device_count, gal_strategy *out);

#endif
