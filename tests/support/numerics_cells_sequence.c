/* What the axes of the positions bring: ulysses, rings and their zig-zag order. */
#include "tests/support/numerics_cells.h"

#define CELLS(X)                                                                                                       \
    X(ULYSSES_ZERO_1, "ulysses, zero1 along it alone")                                                                 \
    X(ULYSSES_ZERO_2, "ulysses, zero2 along it alone")                                                                 \
    X(ULYSSES_ZERO_3, "ulysses, zero3 along it alone")                                                                 \
    X(ULYSSES_SDP, "ulysses beside sdp")                                                                               \
    X(ULYSSES_IN_DP, "ulysses inside dp")                                                                              \
    X(ULYSSES_ROUND_DP, "ulysses round dp")                                                                            \
    X(ULYSSES_IN_TP, "ulysses inside tp, attention")                                                                   \
    X(ULYSSES_ROUND_TP, "ulysses round tp, attention")                                                                 \
    X(ULYSSES_RECOMPUTE, "recompute of ulysses attention")                                                             \
    X(ULYSSES_SELECTIVE, "selective recompute of ulysses attention")                                                   \
    X(ULYSSES_DROPOUT, "ulysses, attention dropout")                                                                   \
    X(ULYSSES_SPLIT, "ulysses attention, backward in two parts")                                                       \
    X(ULYSSES_GPT, "ulysses, gpt's attention")                                                                         \
    X(ULYSSES_SHARED, "ulysses, shared keys and values")                                                               \
    X(ULYSSES_BERT, "ulysses, bert's attention")                                                                       \
    X(ULYSSES_VIT, "ulysses, vit's embedding")                                                                         \
    X(ULYSSES_VIT_HEAD, "ulysses, vit's head")                                                                         \
    X(ULYSSES_T5, "ulysses, t5's self-attention")                                                                      \
    X(ULYSSES_CROSS, "ulysses, cross-attention")                                                                       \
    X(ULYSSES_SHIFTED, "ulysses, shifted windows")                                                                     \
    X(ULYSSES_MERGE, "ulysses, a merge")                                                                               \
    X(ULYSSES_SWIN_HEAD, "ulysses, swin's head")                                                                       \
    X(ULYSSES_TIED, "ulysses, tied table, P > 1")                                                                      \
    X(RING_ZERO, "ring, zero along it alone")                                                                          \
    X(RING_SDP, "ring beside sdp")                                                                                     \
    X(RING_IN_TP, "ring inside tp, attention")                                                                         \
    X(RING_ROUND_TP, "ring round tp, attention")                                                                       \
    X(RING_DP, "ring beside dp")                                                                                       \
    X(RING_OF_MORE, "ring attention over 3 or more")                                                                   \
    X(RING_RECOMPUTE, "recompute of ring attention")                                                                   \
    X(RING_SELECTIVE, "selective recompute of ring attention")                                                         \
    X(RING_DROPOUT, "ring, attention dropout")                                                                         \
    X(RING_SPLIT, "ring attention, backward in two parts")                                                             \
    X(RING_GPT, "ring, gpt's attention")                                                                               \
    X(RING_SHARED, "ring, shared keys and values")                                                                     \
    X(RING_BERT, "ring, bert's attention")                                                                             \
    X(RING_VIT, "ring, vit's attention")                                                                               \
    X(ZIGZAG_ANY, "zig-zag attention")                                                                                 \
    X(ZIGZAG_OF_MORE, "zig-zag attention over 3 or more")                                                              \
    X(ZIGZAG_RECOMPUTE, "recompute of zig-zag attention")                                                              \
    X(ZIGZAG_SELECTIVE, "selective recompute of zig-zag attention")                                                    \
    X(ZIGZAG_DROPOUT, "zig-zag, attention dropout")                                                                    \
    X(ZIGZAG_SPLIT, "zig-zag attention, backward in two parts")                                                        \
    X(ZIGZAG_SHARED, "zig-zag, shared keys and values")                                                                \
    X(ZIGZAG_TP, "zig-zag beside tp, attention")                                                                       \
    X(RING_HEAD, "ring, a head of one row per sample")

GAL_CELLS(CELLS);

static void hit_ulysses_axes(const gal_strategy *s, bool attends, bool *hit)
{
    const bool sdp = gal_strategy_degree(s, GAL_AXIS_SDP) > 1;
    hit[ULYSSES_SDP] |= sdp;
    hit[ULYSSES_ZERO_1] |= !sdp && s->zero_stage == 1;
    hit[ULYSSES_ZERO_2] |= !sdp && s->zero_stage == 2;
    hit[ULYSSES_ZERO_3] |= !sdp && s->zero_stage == 3;
    for (uint32_t i = 0, inside = 0; i < s->axis_count; i++) {
        const gal_axis_kind kind = s->axis[i].kind;
        inside |= kind == GAL_AXIS_ULYSSES;
        hit[(inside ? ULYSSES_IN_DP : ULYSSES_ROUND_DP)] |= kind == GAL_AXIS_DP;
        hit[(inside ? ULYSSES_IN_TP : ULYSSES_ROUND_TP)] |= kind == GAL_AXIS_TP && attends;
    }
}

static void hit_ulysses(const gal_plan *plan, bool *hit)
{
    const gal_model *m = &plan->model;
    for (uint32_t b = 0; b < gal_model_block_count(m); b++) {
        gal_block_shape shape;
        const gal_strategy *s = gal_plan_block_strategy(plan, b);
        gal_model_block(m, b, &shape);
        if (gal_strategy_degree(s, GAL_AXIS_ULYSSES) == 1) {
            continue;
        }
        const bool self = shape.kind == GAL_BLOCK_ATTENTION, head = shape.kind == GAL_BLOCK_HEAD;
        const bool attends = self || shape.kind == GAL_BLOCK_CROSS_ATTENTION;
        hit_ulysses_axes(s, attends, hit);
        hit[ULYSSES_RECOMPUTE] |= attends && s->recompute == GAL_RECOMPUTE_FULL;
        hit[ULYSSES_SELECTIVE] |= attends && s->recompute == GAL_RECOMPUTE_SELECTIVE;
        hit[ULYSSES_DROPOUT] |= attends && m->attention_dropout > 0;
        hit[ULYSSES_SPLIT] |= attends && plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE && plan->stage_count > 1;
        hit[ULYSSES_GPT] |= self && m->family == GAL_FAMILY_DECODER;
        hit[ULYSSES_SHARED] |= self && shape.kv_head_count < shape.head_count;
        hit[ULYSSES_BERT] |= self && m->family == GAL_FAMILY_BERT;
        hit[ULYSSES_VIT] |= b == 0 && m->family == GAL_FAMILY_VIT;
        hit[ULYSSES_VIT_HEAD] |= head && m->family == GAL_FAMILY_VIT;
        hit[ULYSSES_T5] |= self && m->family == GAL_FAMILY_T5;
        hit[ULYSSES_CROSS] |= attends && !self;
        hit[ULYSSES_SHIFTED] |= shape.shift > 0;
        hit[ULYSSES_MERGE] |= shape.kind == GAL_BLOCK_MERGE;
        hit[ULYSSES_SWIN_HEAD] |= head && m->family == GAL_FAMILY_SWIN;
        hit[ULYSSES_TIED] |= b == 0 && m->tied_embeddings && plan->stage_count > 1;
    }
}

static void hit_ring(const gal_plan *plan, bool *hit)
{
    const gal_model *m = &plan->model;
    for (uint32_t b = 0; b < gal_model_block_count(m); b++) {
        gal_block_shape shape;
        const gal_strategy *s = gal_plan_block_strategy(plan, b);
        const uint32_t degree = gal_strategy_degree(s, GAL_AXIS_RING);
        gal_model_block(m, b, &shape);
        if (degree == 1) {
            continue;
        }
        const bool attends = shape.kind == GAL_BLOCK_ATTENTION, images = gal_model_sees_images(m);
        const bool tp = gal_strategy_degree(s, GAL_AXIS_TP) > 1, sdp = gal_strategy_degree(s, GAL_AXIS_SDP) > 1;
        hit[RING_ZERO] |= !sdp && s->zero_stage > 0;
        hit[RING_SDP] |= sdp;
        hit[RING_DP] |= gal_strategy_degree(s, GAL_AXIS_DP) > 1;
        hit[RING_IN_TP] |= attends && tp && s->axis[0].kind == GAL_AXIS_RING;
        hit[RING_ROUND_TP] |= attends && tp && s->axis[0].kind == GAL_AXIS_TP;
        hit[RING_OF_MORE] |= attends && degree > 2;
        hit[RING_RECOMPUTE] |= attends && s->recompute == GAL_RECOMPUTE_FULL;
        hit[RING_SELECTIVE] |= attends && s->recompute == GAL_RECOMPUTE_SELECTIVE;
        hit[RING_DROPOUT] |= attends && m->attention_dropout > 0;
        hit[RING_SPLIT] |= attends && plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE && plan->stage_count > 1;
        hit[RING_GPT] |= attends && m->family == GAL_FAMILY_DECODER;
        hit[RING_SHARED] |= attends && shape.kv_head_count < shape.head_count;
        hit[RING_BERT] |= attends && m->family == GAL_FAMILY_BERT;
        hit[RING_VIT] |= attends && m->family == GAL_FAMILY_VIT;
        hit[RING_HEAD] |= shape.kind == GAL_BLOCK_HEAD && images;
    }
}

static void hit_zigzag(const gal_plan *plan, bool *hit)
{
    const gal_model *m = &plan->model;
    for (uint32_t b = 0; b < gal_model_block_count(m); b++) {
        gal_block_shape shape;
        const gal_strategy *s = gal_plan_block_strategy(plan, b);
        const uint32_t degree = gal_strategy_degree(s, GAL_AXIS_ZIGZAG);
        gal_model_block(m, b, &shape);
        if (degree == 1 || shape.kind != GAL_BLOCK_ATTENTION) {
            continue;
        }
        hit[ZIGZAG_ANY] = true;
        hit[ZIGZAG_OF_MORE] |= degree > 2;
        hit[ZIGZAG_RECOMPUTE] |= s->recompute == GAL_RECOMPUTE_FULL;
        hit[ZIGZAG_SELECTIVE] |= s->recompute == GAL_RECOMPUTE_SELECTIVE;
        hit[ZIGZAG_DROPOUT] |= m->attention_dropout > 0;
        hit[ZIGZAG_SPLIT] |= plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE && plan->stage_count > 1;
        hit[ZIGZAG_SHARED] |= shape.kv_head_count < shape.head_count;
        hit[ZIGZAG_TP] |= gal_strategy_degree(s, GAL_AXIS_TP) > 1;
    }
}

static void hit_sequence(const gal_plan *plan, bool *hit)
{
    hit_ulysses(plan, hit);
    hit_ring(plan, hit);
    hit_zigzag(plan, hit);
}

const gal_coverage_cells gal_cells_of_sequence = {CELL_COUNT, names, hit_sequence};
