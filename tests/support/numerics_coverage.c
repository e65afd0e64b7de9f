#include "tests/support/numerics_coverage.h"

#include <string.h>

/* What a strategy is made of; one strategy may have several. */
enum { DP, ZERO_1, ZERO_2, ZERO_3, TP, TP_SP, ULYSSES, RING, GRID, TRAIT_COUNT };
static const char *const trait_names[TRAIT_COUNT] = {"dp",    "zero1",   "zero2", "zero3", "tp",
                                                     "tp+sp", "ulysses", "ring",  "grid"};

/* Which of the axes DP, SDP and TP a strategy has, in any order: bits by gal_axis_kind, less the empty set. Strategies
 * with an axis of the positions have cells of their own: all pairs of these too would take thousands of plans. */
enum { MATRIX_KINDS = GAL_AXIS_TP + 1, COMBINATION_COUNT = (1 << MATRIX_KINDS) - 1 };

/* Ordered axes, innermost first, on 2, 4 and 8 devices: 3 + 9 + 21. */
enum { AXES_CELLS = 33, ZERO_STAGES = 4, PP_DEGREES = 4 };

enum {
    WITHIN_STAGE = 0,                                                /* [trait][trait of the next block] */
    ACROSS_STAGES = WITHIN_STAGE + TRAIT_COUNT * TRAIT_COUNT,        /* the same at a stage border */
    COMBINATIONS = ACROSS_STAGES + TRAIT_COUNT * TRAIT_COUNT,        /* [axes, unordered][those of the next block] */
    AXES = COMBINATIONS + COMBINATION_COUNT * COMBINATION_COUNT,     /* [axes, ordered] */
    ZERO = AXES + AXES_CELLS,                                        /* [stage][log2 P][schedule] */
    SWITCHES = ZERO + ZERO_STAGES * PP_DEGREES * GAL_SCHEDULE_COUNT, /* [tied][uneven][accumulation], P > 1 */
    DROPOUTS = SWITCHES + 8,                                         /* [dropout][recompute] */
    OTHERS = DROPOUTS + 4
};

#define OTHER_CELLS(X)                                                                                                 \
    X(SERIAL, "one rank")                                                                                              \
    X(TIED_ONE_STAGE, "tied, one stage")                                                                               \
    X(ADAM_CLIPPED, "adam, clipped")                                                                                   \
    X(ADAM_FREE, "adam, not clipped")                                                                                  \
    X(ADAMW_CLIPPED, "adamw, clipped")                                                                                 \
    X(ADAMW_FREE, "adamw, not clipped")                                                                                \
    X(PREFETCH_OFF, "zero3, prefetch off")                                                                             \
    X(PREFETCH_ON, "zero3, prefetch on")                                                                               \
    X(EMBEDDING_DROPOUT, "embedding dropout")                                                                          \
    X(ATTENTION_DROPOUT, "attention dropout")                                                                          \
    X(RESIDUAL_DROPOUT, "residual dropout")                                                                            \
    X(RECOMPUTE_ZERO_3, "recompute of a zero3 block")                                                                  \
    X(SELECTIVE, "selective recompute of attention")                                                                   \
    X(SELECTIVE_SP, "selective recompute of tp+sp attention")                                                          \
    X(SELECTIVE_ZERO_3, "selective recompute of zero3 attention")                                                      \
    X(SELECTIVE_DROPOUT, "selective recompute of attention with dropout")                                              \
    X(SELECTIVE_LLAMA, "selective recompute of llama's attention")                                                     \
    X(RECOMPUTE_SP, "recompute of a tp+sp block")                                                                      \
    X(TIED_ZERO, "tied table under zero, P > 1")                                                                       \
    X(TIED_TP, "tied table under tp, P > 1")                                                                           \
    X(PADDED_VOCABULARY, "padded vocabulary split by tp")                                                              \
    X(LLAMA_TP, "llama under tp")                                                                                      \
    X(LLAMA_SP, "llama under tp+sp")                                                                                   \
    X(LLAMA_ZERO_3, "llama under zero3")                                                                               \
    X(LLAMA_RECOMPUTE, "llama, recompute")                                                                             \
    X(LLAMA_DROPOUT, "llama, attention dropout")                                                                       \
    X(LLAMA_SHARED, "llama, shared keys and values under tp")                                                          \
    X(LLAMA_BIAS, "llama, biases of qkv under tp")                                                                     \
    X(LLAMA_TIED, "llama, tied, P > 1")                                                                                \
    X(BERT_TP, "bert under tp")                                                                                        \
    X(BERT_SP, "bert under tp+sp")                                                                                     \
    X(BERT_ZERO_3, "bert under zero3")                                                                                 \
    X(BERT_RECOMPUTE, "bert, recompute")                                                                               \
    X(BERT_SELECTIVE, "bert, selective recompute")                                                                     \
    X(BERT_DROPOUT, "bert, dropout of rows")                                                                           \
    X(BERT_PIPELINE, "bert, P > 1")                                                                                    \
    X(BERT_TIED, "bert, tied, P > 1")                                                                                  \
    X(BERT_HEAD_SP, "bert, head under tp+sp")                                                                          \
    X(VIT_TP, "vit under tp")                                                                                          \
    X(VIT_SP, "vit under tp+sp")                                                                                       \
    X(VIT_ZERO_3, "vit under zero3")                                                                                   \
    X(VIT_RECOMPUTE, "vit, recompute")                                                                                 \
    X(VIT_SELECTIVE, "vit, selective recompute")                                                                       \
    X(VIT_DROPOUT, "vit, dropout of rows")                                                                             \
    X(VIT_PIPELINE, "vit, P > 1")                                                                                      \
    X(VIT_EMBEDDING_SP, "vit, patches under tp+sp")                                                                    \
    X(VIT_HEAD_SP, "vit, head under tp+sp")                                                                            \
    X(T5_TP, "t5 under tp")                                                                                            \
    X(T5_SP, "t5 under tp+sp")                                                                                         \
    X(T5_ZERO_3, "t5 under zero3")                                                                                     \
    X(T5_RECOMPUTE, "t5, recompute of cross-attention")                                                                \
    X(T5_SELECTIVE, "t5, selective recompute of cross-attention")                                                      \
    X(T5_ATTENTION_DROPOUT, "t5, attention dropout")                                                                   \
    X(T5_TIED, "t5, tied, P > 2")                                                                                      \
    X(T5_UNTIED, "t5, untied, P > 1")                                                                                  \
    X(T5_CUT_ENCODER, "t5, a border inside the encoder: its bias on two stages")                                       \
    X(T5_CUT_BRIDGE, "t5, a border behind the bridge: the carried tensor sent")                                        \
    X(T5_CUT_DECODER, "t5, a border between cross-attentions: the carried tensor passed on")                           \
    X(T5_NO_READER, "t5, a stage that passes the carried tensor on unread")                                            \
    X(T5_CONVERTED, "t5, the carried tensor converted within a stage")                                                 \
    X(T5_CONVERTED_ENTRY, "t5, the carried tensor converted behind a border")                                          \
    X(T5_BIAS_LAYOUTS, "t5, blocks of other tp degrees that read one bias")                                            \
    X(T5_SPLIT, "t5, backward in two parts, P > 1")                                                                    \
    X(T5_CHUNKS, "t5, several chunks")                                                                                 \
    X(T5_CHUNKS_CARRIED, "t5, the carried tensor received by two chunks of a stage")                                   \
    X(T5_CHUNKS_TABLE, "t5, the token table on two chunks of a stage")                                                 \
    X(T5_SHORT_TARGET, "t5, targets shorter than the source")                                                          \
    X(T5_LONG_TARGET, "t5, targets longer than the source")                                                            \
    X(SWIN_TP, "swin under tp")                                                                                        \
    X(SWIN_SP, "swin under tp+sp")                                                                                     \
    X(SWIN_ZERO_3, "swin under zero3")                                                                                 \
    X(SWIN_RECOMPUTE, "swin, recompute")                                                                               \
    X(SWIN_SELECTIVE, "swin, selective recompute")                                                                     \
    X(SWIN_DROPOUT, "swin, dropout of rows")                                                                           \
    X(SWIN_PIPELINE, "swin, P > 1")                                                                                    \
    X(SWIN_ATTENTION_DROPOUT, "swin, attention dropout")                                                               \
    X(SWIN_SHIFTED_TP, "swin, shifted windows under tp")                                                               \
    X(SWIN_MERGE_TP, "swin, a merge under tp")                                                                         \
    X(SWIN_MERGE_SP, "swin, a merge under tp+sp")                                                                      \
    X(SWIN_MERGE_RECOMPUTE, "swin, recompute of a merge")                                                              \
    X(SWIN_MERGE_CONVERTED, "swin, rows converted behind a merge")                                                     \
    X(SWIN_CUT_MERGE, "swin, a border behind a merge")                                                                 \
    X(SWIN_CUT_BEFORE, "swin, a border in front of a merge")                                                           \
    X(SWIN_HEAD_SP, "swin, head under tp+sp")                                                                          \
    X(SWIN_SPLIT, "swin, backward in two parts")                                                                       \
    X(SWIN_INTERLEAVED, "swin, interleaved")                                                                           \
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
    X(REUSE_ANY, "gradients where their weights were")                                                                 \
    X(REUSE_ZERO, "gradients where their weights were, sharded")                                                       \
    X(REUSE_STAGES, "gradients where their weights were, P > 1")                                                       \
    X(ZIGZAG_ANY, "zig-zag attention")                                                                                 \
    X(ZIGZAG_OF_MORE, "zig-zag attention over 3 or more")                                                              \
    X(ZIGZAG_RECOMPUTE, "recompute of zig-zag attention")                                                              \
    X(ZIGZAG_SELECTIVE, "selective recompute of zig-zag attention")                                                    \
    X(ZIGZAG_DROPOUT, "zig-zag, attention dropout")                                                                    \
    X(ZIGZAG_SPLIT, "zig-zag attention, backward in two parts")                                                        \
    X(ZIGZAG_SHARED, "zig-zag, shared keys and values")                                                                \
    X(ZIGZAG_TP, "zig-zag beside tp, attention")                                                                       \
    X(RING_HEAD, "ring, a head of one row per sample")                                                                 \
    X(PADDED_CAUSAL, "padding, causal")                                                                                \
    X(PADDED_SAMPLES, "padding, samples split, several microbatches")                                                  \
    X(PADDED_TP, "padded attention under tp")                                                                          \
    X(PADDED_SP, "padded attention under tp+sp")                                                                       \
    X(PADDED_RECOMPUTE, "padded attention, recompute")                                                                 \
    X(PADDED_SELECTIVE, "padded attention, selective recompute")                                                       \
    X(PADDED_DROPOUT, "padded attention, attention dropout")                                                           \
    X(PADDED_SPLIT, "padded attention, backward in two parts")                                                         \
    X(PADDED_CROSS, "padded cross-attention, P > 1")                                                                   \
    X(GRID_DECODER, "decoder on a tp grid")                                                                            \
    X(GRID_LLAMA, "llama on a tp grid")                                                                                \
    X(GRID_BERT, "bert on a tp grid")                                                                                  \
    X(GRID_VIT, "vit on a tp grid")                                                                                    \
    X(GRID_TIED, "tied table on a tp grid")                                                                            \
    X(GRID_TIED_BERT, "bert, tied table on a tp grid: its head's bias")                                                \
    X(GRID_HEAD, "untied head on a tp grid")                                                                           \
    X(GRID_DEPTH, "2.5d")                                                                                              \
    X(GRID_ZERO_2, "a tp grid beside zero2")                                                                           \
    X(GRID_ZERO_3, "a tp grid beside zero3")                                                                           \
    X(GRID_RECOMPUTE, "recompute of a block on a tp grid")                                                             \
    X(GRID_DROPOUT, "dropout of rows on a tp grid")                                                                    \
    X(GRID_SPLIT, "backward in two parts on a tp grid")                                                                \
    X(CUBE_DECODER, "decoder on a tp cube")                                                                            \
    X(CUBE_LLAMA, "llama on a tp cube")                                                                                \
    X(CUBE_BERT, "bert on a tp cube")                                                                                  \
    X(CUBE_BERT_HEAD, "bert's head on a tp cube")                                                                      \
    X(CUBE_VIT, "vit on a tp cube")                                                                                    \
    X(CUBE_TIED, "tied table on a tp cube")                                                                            \
    X(CUBE_HEAD, "untied head on a tp cube")                                                                           \
    X(CUBE_GRID, "a tp cube beside a tp grid")                                                                         \
    X(CUBE_RECOMPUTE, "recompute of a block on a tp cube")                                                             \
    X(CUBE_DROPOUT, "dropout of rows on a tp cube")                                                                    \
    X(CUBE_SPLIT, "backward in two parts on a tp cube")                                                                \
    X(GRID_KEEP, "panels kept on a tp grid")                                                                           \
    X(CUBE_KEEP, "panels kept on a tp cube")                                                                           \
    X(KEEP_SPLIT, "panels kept, backward in two parts")                                                                \
    X(KEEP_SELECTIVE, "panels kept, selective recompute")                                                              \
    X(OFFLOAD_ALL, "a block's optimizer on the host")                                                                  \
    X(OFFLOAD_PART, "a part of a block's optimizer on the host")                                                       \
    X(OFFLOAD_DP, "optimizer on the host, dp")                                                                         \
    X(OFFLOAD_ZERO_1, "optimizer on the host, zero1")                                                                  \
    X(OFFLOAD_ZERO_2, "optimizer on the host, zero2")                                                                  \
    X(OFFLOAD_ZERO_3, "optimizer on the host, zero3")                                                                  \
    X(OFFLOAD_GRID, "optimizer on the host, a tp grid")                                                                \
    X(OFFLOAD_POSITIONS, "optimizer on the host, ulysses or ring")                                                     \
    X(OFFLOAD_TIED, "optimizer of a tied table on the host, P > 1")                                                    \
    X(OFFLOAD_SPLIT, "optimizer on the host, backward in two parts")                                                   \
    X(OFFLOAD_INTERLEAVED, "optimizer on the host, interleaved")                                                       \
    X(OFFLOAD_MICROBATCHES, "optimizer on the host, several microbatches")                                             \
    X(OFFLOAD_CLIPPED, "optimizer on the host, clipped")                                                               \
    X(OFFLOAD_WEIGHTS, "weights on the host")                                                                          \
    X(OFFLOAD_WEIGHTS_ZERO_3, "weights on the host, zero3")                                                            \
    X(OFFLOAD_WEIGHTS_GRID, "weights on the host, a tp grid")                                                          \
    X(OFFLOAD_WEIGHTS_TIED, "tied table on the host, P > 1")                                                           \
    X(OFFLOAD_WEIGHTS_RECOMPUTE, "weights on the host, recompute")

enum {
#define X(enumerator, name) enumerator,
    OTHER_CELLS(X)
#undef X
        OTHER_COUNT
};
static const char *const other_names[OTHER_COUNT] = {
#define X(enumerator, name) name,
    OTHER_CELLS(X)
#undef X
};
enum { CELL_COUNT = OTHERS + OTHER_COUNT };
_Static_assert(CELL_COUNT <= GAL_COVERAGE_CELLS_MAX, "cells");

/* ---- strategies ---- */

static void traits_of(const gal_strategy *s, bool trait[TRAIT_COUNT])
{
    memset(trait, false, TRAIT_COUNT * sizeof *trait);
    trait[DP] = gal_strategy_degree(s, GAL_AXIS_DP) > 1;
    trait[ZERO_1] = s->zero_stage == 1;
    trait[ZERO_2] = s->zero_stage == 2;
    trait[ZERO_3] = s->zero_stage == 3;
    trait[GRID] = s->tp_mode != GAL_TP_1D;
    trait[TP] = gal_strategy_degree(s, GAL_AXIS_TP) > 1 && !s->sequence_parallel && !trait[GRID];
    trait[TP_SP] = s->sequence_parallel;
    trait[ULYSSES] = gal_strategy_degree(s, GAL_AXIS_ULYSSES) > 1;
    trait[RING] = gal_strategy_degree(s, GAL_AXIS_RING) > 1;
}

/* Axes of the strategy as a set; 0: one device. */
static uint32_t combination_of(const gal_strategy *s)
{
    uint32_t set = 0;
    for (uint32_t i = 0; i < s->axis_count; i++) {
        set |= 1u << s->axis[i].kind;
    }
    return set;
}

typedef struct axes_table {
    uint32_t count;
    gal_strategy strategy[AXES_CELLS];
} axes_table;

static void list_axes(axes_table *table, gal_strategy *at, uint32_t left, uint32_t used)
{
    if (left == 1) {
        GAL_ASSERT(table->count < AXES_CELLS);
        table->strategy[table->count++] = *at;
        return;
    }
    for (uint32_t degree = left; degree >= 2; degree /= 2) {
        for (uint32_t kind = 0; kind < MATRIX_KINDS; kind++) {
            if ((used >> kind & 1u) == 0) {
                at->axis[at->axis_count++] = (gal_axis){(gal_axis_kind)kind, degree};
                list_axes(table, at, left / degree, used | 1u << kind);
                at->axis_count--;
            }
        }
    }
}

static void all_axes(axes_table *table)
{
    gal_strategy at;
    memset(table, 0, sizeof *table);
    for (uint32_t devices = 2; devices <= 8; devices *= 2) {
        memset(&at, 0, sizeof at);
        list_axes(table, &at, devices, 0);
    }
    GAL_ASSERT(table->count == AXES_CELLS);
}

static bool same_axes(const gal_strategy *a, const gal_strategy *b)
{
    bool same = a->axis_count == b->axis_count;
    for (uint32_t i = 0; same && i < a->axis_count; i++) {
        same = a->axis[i].kind == b->axis[i].kind && a->axis[i].degree == b->axis[i].degree;
    }
    return same;
}

/* ---- one plan ---- */

static void hit_selective(const gal_plan *plan, bool *hit)
{
    const gal_model *m = &plan->model;
    for (uint32_t b = 0; b < gal_model_block_count(m); b++) {
        const gal_strategy *s = gal_plan_block_strategy(plan, b);
        if (gal_model_block_kind(m, b) == GAL_BLOCK_ATTENTION && s->recompute == GAL_RECOMPUTE_SELECTIVE) {
            hit[OTHERS + SELECTIVE] = true;
            hit[OTHERS + SELECTIVE_SP] |= s->sequence_parallel;
            hit[OTHERS + SELECTIVE_ZERO_3] |= s->zero_stage == 3;
            hit[OTHERS + SELECTIVE_DROPOUT] |= m->attention_dropout > 0;
            hit[OTHERS + SELECTIVE_LLAMA] |= m->family == GAL_FAMILY_LLAMA;
        }
    }
}

static void hit_pairs(const gal_plan *plan, bool *hit)
{
    const uint32_t blocks = gal_model_block_count(&plan->model);
    uint32_t piece = 0;
    for (uint32_t b = 0; b + 1 < blocks; b++) {
        bool here[TRAIT_COUNT], next[TRAIT_COUNT];
        const uint32_t end = gal_plan_stage_first_block(plan, piece) + gal_plan_stage_block_count(plan, piece);
        const bool border = b + 1 == end;
        piece += border;
        const gal_strategy *s = gal_plan_block_strategy(plan, b);
        const gal_strategy *after = gal_plan_block_strategy(plan, b + 1);
        traits_of(s, here);
        traits_of(after, next);
        const bool in_matrix = gal_strategy_sequence_degree(s) == 1 && gal_strategy_sequence_degree(after) == 1;
        if (!border && s->axis_count > 0 && in_matrix) {
            hit[COMBINATIONS + (combination_of(s) - 1) * COMBINATION_COUNT + combination_of(after) - 1] = true;
        }
        for (uint32_t i = 0; i < TRAIT_COUNT * TRAIT_COUNT; i++) {
            const bool met = here[i / TRAIT_COUNT] && next[i % TRAIT_COUNT];
            hit[(border ? ACROSS_STAGES : WITHIN_STAGE) + i] |= met;
        }
    }
}

static void hit_strategies(const gal_plan *plan, bool *hit)
{
    axes_table axes;
    uint32_t log2_pp = 0;
    all_axes(&axes);
    while ((1u << log2_pp) < plan->stage_count) {
        log2_pp++;
    }
    const bool power_of_two = (1u << log2_pp) == plan->stage_count && log2_pp < PP_DEGREES;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        const gal_strategy *s = &plan->run[r].strategy;
        const bool redo = s->recompute == GAL_RECOMPUTE_FULL;
        for (uint32_t i = 0; i < AXES_CELLS; i++) {
            hit[AXES + i] |= same_axes(s, &axes.strategy[i]);
        }
        if (power_of_two) {
            hit[ZERO + (s->zero_stage * PP_DEGREES + log2_pp) * GAL_SCHEDULE_COUNT + plan->schedule] = true;
        }
        hit[OTHERS + PREFETCH_OFF] |= s->zero_stage == 3 && plan->prefetch_depth == 1;
        hit[OTHERS + PREFETCH_ON] |= s->zero_stage == 3 && plan->prefetch_depth == 2;
        hit[OTHERS + RECOMPUTE_ZERO_3] |= s->zero_stage == 3 && redo;
        hit[OTHERS + RECOMPUTE_SP] |= s->sequence_parallel && redo;
    }
}

static bool is_uneven(const gal_plan *plan)
{
    bool uneven = false;
    for (uint32_t s = 1; s < gal_plan_piece_count(plan); s++) {
        uneven |= gal_plan_stage_block_count(plan, s) != gal_plan_stage_block_count(plan, 0);
    }
    return uneven;
}

static void hit_model(const gal_plan *plan, bool *hit)
{
    const gal_model *m = &plan->model;
    const gal_strategy *table = gal_plan_block_strategy(plan, 0);
    const bool pipeline = plan->stage_count > 1;
    const bool dropout = m->embedding_dropout > 0 || m->attention_dropout > 0 || m->residual_dropout > 0;
    const bool clipped = m->optimizer.gradient_clip_norm > 0;
    const bool adam = m->optimizer.kind == GAL_OPTIMIZER_ADAM;
    bool redo = false;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        redo |= plan->run[r].strategy.recompute == GAL_RECOMPUTE_FULL;
    }
    if (pipeline) {
        hit[SWITCHES + (uint32_t)m->tied_embeddings * 4 + (uint32_t)is_uneven(plan) * 2 +
            (uint32_t)(plan->microbatch_count > 1)] = true;
    }
    hit[DROPOUTS + (uint32_t)dropout * 2 + (uint32_t)redo] = true;
    hit[OTHERS + SERIAL] = plan->cluster.device_count == 1;
    hit[OTHERS + TIED_ONE_STAGE] = m->tied_embeddings && !pipeline && plan->cluster.device_count > 1;
    hit[OTHERS + (adam ? ADAM_CLIPPED : ADAMW_CLIPPED)] |= clipped;
    hit[OTHERS + (adam ? ADAM_FREE : ADAMW_FREE)] |= !clipped;
    hit[OTHERS + EMBEDDING_DROPOUT] = m->embedding_dropout > 0;
    hit[OTHERS + ATTENTION_DROPOUT] = m->attention_dropout > 0;
    hit[OTHERS + RESIDUAL_DROPOUT] = m->residual_dropout > 0;
    hit[OTHERS + TIED_ZERO] = m->tied_embeddings && pipeline && table->zero_stage > 0;
    hit[OTHERS + TIED_TP] = m->tied_embeddings && pipeline && gal_strategy_degree(table, GAL_AXIS_TP) > 1;
    hit[OTHERS + PADDED_VOCABULARY] =
        gal_model_padded_vocabulary(m) > m->vocabulary && gal_strategy_degree(table, GAL_AXIS_TP) > 1;
}

static void hit_llama(const gal_plan *plan, bool *hit)
{
    const gal_model *m = &plan->model;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        const gal_strategy *s = &plan->run[r].strategy;
        const bool tp = gal_strategy_degree(s, GAL_AXIS_TP) > 1;
        hit[OTHERS + LLAMA_TP] |= tp && !s->sequence_parallel;
        hit[OTHERS + LLAMA_SP] |= s->sequence_parallel;
        hit[OTHERS + LLAMA_ZERO_3] |= s->zero_stage == 3;
        hit[OTHERS + LLAMA_RECOMPUTE] |= s->recompute == GAL_RECOMPUTE_FULL;
        hit[OTHERS + LLAMA_SHARED] |= tp && m->kv_head_count < m->head_count;
        hit[OTHERS + LLAMA_BIAS] |= tp && m->qkv_bias;
    }
    hit[OTHERS + LLAMA_DROPOUT] = m->attention_dropout > 0;
    hit[OTHERS + LLAMA_TIED] = m->tied_embeddings && plan->stage_count > 1;
}

static void hit_grids(const gal_plan *plan, bool *hit)
{
    const gal_model *m = &plan->model;
    const gal_strategy *head = gal_plan_block_strategy(plan, gal_model_block_count(m) - 1);
    bool any = false;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        const gal_strategy *s = &plan->run[r].strategy;
        const bool grid = s->tp_mode != GAL_TP_1D;
        any |= grid;
        hit[OTHERS + GRID_DEPTH] |= s->tp_mode == GAL_TP_2P5D;
        hit[OTHERS + GRID_ZERO_2] |= grid && s->zero_stage == 2;
        hit[OTHERS + GRID_ZERO_3] |= grid && s->zero_stage == 3;
        hit[OTHERS + GRID_RECOMPUTE] |= grid && s->recompute == GAL_RECOMPUTE_FULL;
    }
    hit[OTHERS + GRID_DECODER] = any && m->family == GAL_FAMILY_DECODER;
    hit[OTHERS + GRID_LLAMA] = any && m->family == GAL_FAMILY_LLAMA;
    hit[OTHERS + GRID_BERT] = any && m->family == GAL_FAMILY_BERT;
    hit[OTHERS + GRID_VIT] = any && m->family == GAL_FAMILY_VIT;
    hit[OTHERS + GRID_DROPOUT] = any && m->residual_dropout > 0;
    hit[OTHERS + GRID_SPLIT] = any && plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE;
    if (head->tp_mode != GAL_TP_1D) {
        hit[OTHERS + (m->tied_embeddings ? GRID_TIED : GRID_HEAD)] = true;
        hit[OTHERS + GRID_TIED_BERT] = m->tied_embeddings && m->family == GAL_FAMILY_BERT;
    }
}

static void hit_cubes(const gal_plan *plan, bool *hit)
{
    const gal_model *m = &plan->model;
    const gal_strategy *head = gal_plan_block_strategy(plan, gal_model_block_count(m) - 1);
    bool any = false, squares = false;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        const gal_strategy *s = &plan->run[r].strategy;
        any |= s->tp_mode == GAL_TP_3D;
        squares |= s->tp_mode == GAL_TP_2D || s->tp_mode == GAL_TP_2P5D;
        hit[OTHERS + CUBE_RECOMPUTE] |= s->tp_mode == GAL_TP_3D && s->recompute == GAL_RECOMPUTE_FULL;
        hit[OTHERS + GRID_KEEP] |= s->tp_mode != GAL_TP_3D && s->keep_panels;
        hit[OTHERS + CUBE_KEEP] |= s->tp_mode == GAL_TP_3D && s->keep_panels;
        hit[OTHERS + KEEP_SPLIT] |= s->keep_panels && plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE;
        hit[OTHERS + KEEP_SELECTIVE] |= s->keep_panels && s->recompute == GAL_RECOMPUTE_SELECTIVE;
    }
    hit[OTHERS + CUBE_DECODER] = any && m->family == GAL_FAMILY_DECODER;
    hit[OTHERS + CUBE_LLAMA] = any && m->family == GAL_FAMILY_LLAMA;
    hit[OTHERS + CUBE_BERT] = any && m->family == GAL_FAMILY_BERT;
    hit[OTHERS + CUBE_VIT] = any && m->family == GAL_FAMILY_VIT;
    hit[OTHERS + CUBE_GRID] = any && squares;
    hit[OTHERS + CUBE_DROPOUT] = any && m->residual_dropout > 0;
    hit[OTHERS + CUBE_SPLIT] = any && plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE;
    if (head->tp_mode == GAL_TP_3D) {
        hit[OTHERS + CUBE_BERT_HEAD] = m->family == GAL_FAMILY_BERT;
        hit[OTHERS + (m->tied_embeddings ? CUBE_TIED : CUBE_HEAD)] = true;
    }
}

static void hit_offload(const gal_plan *plan, bool *hit)
{
    const gal_model *m = &plan->model;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        const gal_strategy *s = &plan->run[r].strategy;
        if (s->offload_optimizer_percent == 0) {
            continue;
        }
        hit[OTHERS + (s->offload_optimizer_percent == 100 ? OFFLOAD_ALL : OFFLOAD_PART)] = true;
        hit[OTHERS + OFFLOAD_DP] |= gal_strategy_degree(s, GAL_AXIS_DP) > 1;
        if (s->zero_stage > 0) {
            hit[OTHERS + OFFLOAD_ZERO_1 + s->zero_stage - 1] = true;
        }
        hit[OTHERS + OFFLOAD_GRID] |= s->tp_mode != GAL_TP_1D;
        hit[OTHERS + OFFLOAD_POSITIONS] |= gal_strategy_sequence_degree(s) > 1;
        hit[OTHERS + OFFLOAD_WEIGHTS] |= s->offload_parameters;
        hit[OTHERS + OFFLOAD_WEIGHTS_ZERO_3] |= s->offload_parameters && s->zero_stage == 3;
        hit[OTHERS + OFFLOAD_WEIGHTS_GRID] |= s->offload_parameters && s->tp_mode != GAL_TP_1D;
        hit[OTHERS + OFFLOAD_WEIGHTS_RECOMPUTE] |= s->offload_parameters && s->recompute == GAL_RECOMPUTE_FULL;
        hit[OTHERS + OFFLOAD_SPLIT] |= plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE;
        hit[OTHERS + OFFLOAD_INTERLEAVED] |= plan->schedule == GAL_SCHEDULE_INTERLEAVED;
        hit[OTHERS + OFFLOAD_MICROBATCHES] |= plan->microbatch_count > 1;
        hit[OTHERS + OFFLOAD_CLIPPED] |= m->optimizer.gradient_clip_norm > 0;
    }
    hit[OTHERS + OFFLOAD_WEIGHTS_TIED] =
        m->tied_embeddings && plan->stage_count > 1 && gal_plan_block_strategy(plan, 0)->offload_parameters;
    hit[OTHERS + OFFLOAD_TIED] = m->tied_embeddings && plan->stage_count > 1 &&
                                 gal_plan_block_strategy(plan, 0)->offload_optimizer_percent == 100;
}

/* Cells of a family from `first` on: tp, tp+sp, zero3, recompute, selective, dropout, P > 1. */
static void hit_encoder(const gal_plan *plan, uint32_t first, bool *hit)
{
    for (uint32_t r = 0; r < plan->run_count; r++) {
        const gal_strategy *s = &plan->run[r].strategy;
        hit[first] |= gal_strategy_degree(s, GAL_AXIS_TP) > 1 && !s->sequence_parallel;
        hit[first + BERT_SP - BERT_TP] |= s->sequence_parallel;
        hit[first + BERT_ZERO_3 - BERT_TP] |= s->zero_stage == 3;
        hit[first + BERT_RECOMPUTE - BERT_TP] |= s->recompute == GAL_RECOMPUTE_FULL;
        hit[first + BERT_SELECTIVE - BERT_TP] |= s->recompute == GAL_RECOMPUTE_SELECTIVE;
    }
    hit[first + BERT_DROPOUT - BERT_TP] = plan->model.residual_dropout > 0;
    hit[first + BERT_PIPELINE - BERT_TP] = plan->stage_count > 1;
}

static void hit_t5_strategies(const gal_plan *plan, bool *hit)
{
    const gal_model *m = &plan->model;
    uint32_t tp_degree[2] = {0, 0}; /* of the latest self-attention of each stack */
    for (uint32_t b = 0; b < gal_model_block_count(m); b++) {
        gal_block_shape shape;
        const gal_strategy *s = gal_plan_block_strategy(plan, b);
        const uint32_t tp = gal_strategy_degree(s, GAL_AXIS_TP);
        gal_model_block(m, b, &shape);
        hit[OTHERS + T5_TP] |= tp > 1 && !s->sequence_parallel;
        hit[OTHERS + T5_SP] |= s->sequence_parallel;
        hit[OTHERS + T5_ZERO_3] |= s->zero_stage == 3;
        if (shape.kind == GAL_BLOCK_CROSS_ATTENTION) {
            hit[OTHERS + T5_RECOMPUTE] |= s->recompute == GAL_RECOMPUTE_FULL;
            hit[OTHERS + T5_SELECTIVE] |= s->recompute == GAL_RECOMPUTE_SELECTIVE;
        } else if (shape.kind == GAL_BLOCK_ATTENTION) {
            hit[OTHERS + T5_BIAS_LAYOUTS] |= tp_degree[shape.decodes] != 0 && tp_degree[shape.decodes] != tp;
            tp_degree[shape.decodes] = tp;
        }
    }
}

/* Where the carried tensor goes: piece by piece, with the strategy whose rows it has. */
static void hit_carried(const gal_plan *plan, bool *hit)
{
    const gal_model *m = &plan->model;
    const gal_strategy *rows = NULL;
    for (uint32_t piece = 0, b = 0; piece < gal_plan_piece_count(plan); piece++) {
        const uint32_t end = b + gal_plan_stage_block_count(plan, piece);
        gal_block_shape shape;
        bool reads = false, fresh = true;
        gal_model_block(m, b, &shape);
        const bool enters = shape.carried_in.positions > 0;
        hit[OTHERS + T5_CUT_ENCODER] |= b > 1 && !shape.decodes;
        for (; b < end; b++) {
            const gal_strategy *s = gal_plan_block_strategy(plan, b);
            gal_model_block(m, b, &shape);
            if (shape.kind == GAL_BLOCK_BRIDGE) {
                rows = s;
                fresh = false;
            } else if (shape.kind == GAL_BLOCK_CROSS_ATTENTION) {
                const bool converts = combination_of(s) != combination_of(rows) || !gal_strategy_same_shards(s, rows) ||
                                      s->sequence_parallel != rows->sequence_parallel;
                hit[OTHERS + (fresh ? T5_CONVERTED_ENTRY : T5_CONVERTED)] |= converts;
                reads = true;
                fresh = false;
                rows = s;
            }
        }
        const bool leaves = shape.carried_out.positions > 0;
        hit[OTHERS + T5_CUT_BRIDGE] |= leaves && !enters;
        hit[OTHERS + T5_CUT_DECODER] |= leaves && enters && reads;
        hit[OTHERS + T5_NO_READER] |= leaves && enters && !reads;
    }
}

/* What two chunks of a stage have both. */
static void hit_chunks(const gal_plan *plan, bool *hit)
{
    for (uint32_t stage = 0; stage < plan->stage_count; stage++) {
        uint32_t receive = 0, tables = 0;
        for (uint32_t piece = stage; piece < gal_plan_piece_count(plan); piece += plan->stage_count) {
            const uint32_t first = gal_plan_stage_first_block(plan, piece);
            bool table = false;
            for (uint32_t i = 0; i < gal_plan_stage_block_count(plan, piece); i++) {
                gal_block_shape shape;
                gal_model_block(&plan->model, first + i, &shape);
                receive += i == 0 && shape.carried_in.positions > 0;
                table = table || (shape.shared >> GAL_SHARED_TABLE & 1U) != 0;
            }
            tables += table;
        }
        hit[OTHERS + T5_CHUNKS_CARRIED] |= receive > 1;
        hit[OTHERS + T5_CHUNKS_TABLE] |= tables > 1;
    }
}

static void hit_t5(const gal_plan *plan, bool *hit)
{
    const gal_model *m = &plan->model;
    hit_t5_strategies(plan, hit);
    hit_carried(plan, hit);
    hit_chunks(plan, hit);
    hit[OTHERS + T5_SPLIT] = plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE && plan->stage_count > 1;
    hit[OTHERS + T5_CHUNKS] = gal_plan_chunk_count(plan) > 1;
    hit[OTHERS + T5_ATTENTION_DROPOUT] = m->attention_dropout > 0;
    hit[OTHERS + T5_TIED] = m->tied_embeddings && plan->stage_count > 2;
    hit[OTHERS + T5_UNTIED] = !m->tied_embeddings && plan->stage_count > 1;
    hit[OTHERS + T5_SHORT_TARGET] = m->decoder_sequence_length < m->sequence_length;
    hit[OTHERS + T5_LONG_TARGET] = m->decoder_sequence_length > m->sequence_length;
}

static bool begins_piece(const gal_plan *plan, uint32_t block)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < gal_plan_piece_count(plan) && first < block; i++) {
        first += gal_plan_stage_block_count(plan, i);
    }
    return first == block;
}

static void hit_swin(const gal_plan *plan, bool *hit)
{
    const gal_model *m = &plan->model;
    hit_encoder(plan, OTHERS + SWIN_TP, hit);
    for (uint32_t b = 1; b < gal_model_block_count(m); b++) {
        gal_block_shape shape;
        const gal_strategy *s = gal_plan_block_strategy(plan, b), *before = gal_plan_block_strategy(plan, b - 1);
        const bool tp = gal_strategy_degree(s, GAL_AXIS_TP) > 1, begins = begins_piece(plan, b);
        const bool behind = gal_model_block_kind(m, b - 1) == GAL_BLOCK_MERGE;
        gal_model_block(m, b, &shape);
        const bool merge = shape.kind == GAL_BLOCK_MERGE;
        hit[OTHERS + SWIN_SHIFTED_TP] |= shape.shift > 0 && tp;
        hit[OTHERS + SWIN_MERGE_TP] |= merge && tp && !s->sequence_parallel;
        hit[OTHERS + SWIN_MERGE_SP] |= merge && s->sequence_parallel;
        hit[OTHERS + SWIN_MERGE_RECOMPUTE] |= merge && s->recompute == GAL_RECOMPUTE_FULL;
        hit[OTHERS + SWIN_MERGE_CONVERTED] |= behind && combination_of(s) != combination_of(before);
        hit[OTHERS + SWIN_CUT_MERGE] |= behind && begins;
        hit[OTHERS + SWIN_CUT_BEFORE] |= merge && begins;
        hit[OTHERS + SWIN_HEAD_SP] |= shape.kind == GAL_BLOCK_HEAD && s->sequence_parallel;
    }
    hit[OTHERS + SWIN_ATTENTION_DROPOUT] = m->attention_dropout > 0;
    hit[OTHERS + SWIN_SPLIT] = plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE;
    hit[OTHERS + SWIN_INTERLEAVED] = plan->schedule == GAL_SCHEDULE_INTERLEAVED;
}

/* Attention to all positions reads lengths; in a causal model they are in the targets alone. */
static void hit_padding(const gal_plan *plan, bool *hit)
{
    const gal_model *m = &plan->model;
    const bool causal = m->family == GAL_FAMILY_DECODER || m->family == GAL_FAMILY_LLAMA;
    hit[OTHERS + PADDED_CAUSAL] = causal;
    hit[OTHERS + PADDED_CROSS] = m->family == GAL_FAMILY_T5 && plan->stage_count > 1;
    hit[OTHERS + PADDED_DROPOUT] = !causal && m->attention_dropout > 0;
    hit[OTHERS + PADDED_SPLIT] = !causal && plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE;
    for (uint32_t b = 0; b < gal_model_block_count(m); b++) {
        gal_block_shape shape;
        const gal_strategy *s = gal_plan_block_strategy(plan, b);
        const uint32_t tp = gal_strategy_degree(s, GAL_AXIS_TP);
        gal_model_block(m, b, &shape);
        hit[OTHERS + PADDED_SAMPLES] |= plan->microbatch_count > 1 && gal_plan_stage_devices(plan) > tp;
        if (!causal &&
            (shape.kind == GAL_BLOCK_CROSS_ATTENTION || (shape.kind == GAL_BLOCK_ATTENTION && !shape.decodes))) {
            hit[OTHERS + PADDED_TP] |= tp > 1 && !s->sequence_parallel;
            hit[OTHERS + PADDED_SP] |= s->sequence_parallel;
            hit[OTHERS + PADDED_RECOMPUTE] |= s->recompute == GAL_RECOMPUTE_FULL;
            hit[OTHERS + PADDED_SELECTIVE] |= s->recompute == GAL_RECOMPUTE_SELECTIVE;
        }
    }
}

static void hit_ulysses_axes(const gal_strategy *s, bool attends, bool *hit)
{
    const bool sdp = gal_strategy_degree(s, GAL_AXIS_SDP) > 1;
    hit[OTHERS + ULYSSES_SDP] |= sdp;
    hit[OTHERS + ULYSSES_ZERO_1] |= !sdp && s->zero_stage == 1;
    hit[OTHERS + ULYSSES_ZERO_2] |= !sdp && s->zero_stage == 2;
    hit[OTHERS + ULYSSES_ZERO_3] |= !sdp && s->zero_stage == 3;
    for (uint32_t i = 0, inside = 0; i < s->axis_count; i++) {
        const gal_axis_kind kind = s->axis[i].kind;
        inside |= kind == GAL_AXIS_ULYSSES;
        hit[OTHERS + (inside ? ULYSSES_IN_DP : ULYSSES_ROUND_DP)] |= kind == GAL_AXIS_DP;
        hit[OTHERS + (inside ? ULYSSES_IN_TP : ULYSSES_ROUND_TP)] |= kind == GAL_AXIS_TP && attends;
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
        hit[OTHERS + ULYSSES_RECOMPUTE] |= attends && s->recompute == GAL_RECOMPUTE_FULL;
        hit[OTHERS + ULYSSES_SELECTIVE] |= attends && s->recompute == GAL_RECOMPUTE_SELECTIVE;
        hit[OTHERS + ULYSSES_DROPOUT] |= attends && m->attention_dropout > 0;
        hit[OTHERS + ULYSSES_SPLIT] |= attends && plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE && plan->stage_count > 1;
        hit[OTHERS + ULYSSES_GPT] |= self && m->family == GAL_FAMILY_DECODER;
        hit[OTHERS + ULYSSES_SHARED] |= self && shape.kv_head_count < shape.head_count;
        hit[OTHERS + ULYSSES_BERT] |= self && m->family == GAL_FAMILY_BERT;
        hit[OTHERS + ULYSSES_VIT] |= b == 0 && m->family == GAL_FAMILY_VIT;
        hit[OTHERS + ULYSSES_VIT_HEAD] |= head && m->family == GAL_FAMILY_VIT;
        hit[OTHERS + ULYSSES_T5] |= self && m->family == GAL_FAMILY_T5;
        hit[OTHERS + ULYSSES_CROSS] |= attends && !self;
        hit[OTHERS + ULYSSES_SHIFTED] |= shape.shift > 0;
        hit[OTHERS + ULYSSES_MERGE] |= shape.kind == GAL_BLOCK_MERGE;
        hit[OTHERS + ULYSSES_SWIN_HEAD] |= head && m->family == GAL_FAMILY_SWIN;
        hit[OTHERS + ULYSSES_TIED] |= b == 0 && m->tied_embeddings && plan->stage_count > 1;
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
        hit[OTHERS + RING_ZERO] |= !sdp && s->zero_stage > 0;
        hit[OTHERS + RING_SDP] |= sdp;
        hit[OTHERS + RING_DP] |= gal_strategy_degree(s, GAL_AXIS_DP) > 1;
        hit[OTHERS + RING_IN_TP] |= attends && tp && s->axis[0].kind == GAL_AXIS_RING;
        hit[OTHERS + RING_ROUND_TP] |= attends && tp && s->axis[0].kind == GAL_AXIS_TP;
        hit[OTHERS + RING_OF_MORE] |= attends && degree > 2;
        hit[OTHERS + RING_RECOMPUTE] |= attends && s->recompute == GAL_RECOMPUTE_FULL;
        hit[OTHERS + RING_SELECTIVE] |= attends && s->recompute == GAL_RECOMPUTE_SELECTIVE;
        hit[OTHERS + RING_DROPOUT] |= attends && m->attention_dropout > 0;
        hit[OTHERS + RING_SPLIT] |= attends && plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE && plan->stage_count > 1;
        hit[OTHERS + RING_GPT] |= attends && m->family == GAL_FAMILY_DECODER;
        hit[OTHERS + RING_SHARED] |= attends && shape.kv_head_count < shape.head_count;
        hit[OTHERS + RING_BERT] |= attends && m->family == GAL_FAMILY_BERT;
        hit[OTHERS + RING_VIT] |= attends && m->family == GAL_FAMILY_VIT;
        hit[OTHERS + RING_HEAD] |= shape.kind == GAL_BLOCK_HEAD && images;
    }
}

static void hit_reuse(const gal_plan *plan, bool *hit)
{
    hit[OTHERS + REUSE_ANY] = plan->gradient_reuses_parameter;
    hit[OTHERS + REUSE_STAGES] = plan->gradient_reuses_parameter && plan->pp_degree > 1;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        hit[OTHERS + REUSE_ZERO] |= plan->gradient_reuses_parameter && gal_strategy_shards(&plan->run[r].strategy) > 1;
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
        hit[OTHERS + ZIGZAG_ANY] = true;
        hit[OTHERS + ZIGZAG_OF_MORE] |= degree > 2;
        hit[OTHERS + ZIGZAG_RECOMPUTE] |= s->recompute == GAL_RECOMPUTE_FULL;
        hit[OTHERS + ZIGZAG_SELECTIVE] |= s->recompute == GAL_RECOMPUTE_SELECTIVE;
        hit[OTHERS + ZIGZAG_DROPOUT] |= m->attention_dropout > 0;
        hit[OTHERS + ZIGZAG_SPLIT] |= plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE && plan->stage_count > 1;
        hit[OTHERS + ZIGZAG_SHARED] |= shape.kv_head_count < shape.head_count;
        hit[OTHERS + ZIGZAG_TP] |= gal_strategy_degree(s, GAL_AXIS_TP) > 1;
    }
}

static void hit_families(const gal_plan *plan, bool *hit)
{
    const gal_model *m = &plan->model;
    const gal_strategy *embedding = gal_plan_block_strategy(plan, 0);
    const gal_strategy *head = gal_plan_block_strategy(plan, gal_model_block_count(m) - 1);
    if (m->family == GAL_FAMILY_LLAMA) {
        hit_llama(plan, hit);
    } else if (m->family == GAL_FAMILY_BERT) {
        hit_encoder(plan, OTHERS + BERT_TP, hit);
        hit[OTHERS + BERT_TIED] = m->tied_embeddings && plan->stage_count > 1;
        hit[OTHERS + BERT_HEAD_SP] = head->sequence_parallel;
    } else if (m->family == GAL_FAMILY_VIT) {
        hit_encoder(plan, OTHERS + VIT_TP, hit);
        hit[OTHERS + VIT_EMBEDDING_SP] = embedding->sequence_parallel;
        hit[OTHERS + VIT_HEAD_SP] = head->sequence_parallel;
    } else if (m->family == GAL_FAMILY_T5) {
        hit_t5(plan, hit);
    } else if (m->family == GAL_FAMILY_SWIN) {
        hit_swin(plan, hit);
    }
}

void gal_coverage_of(const gal_plan *plan, bool hit[GAL_COVERAGE_CELLS_MAX])
{
    memset(hit, false, GAL_COVERAGE_CELLS_MAX * sizeof *hit);
    hit_pairs(plan, hit);
    hit_strategies(plan, hit);
    hit_model(plan, hit);
    hit_offload(plan, hit);
    hit_grids(plan, hit);
    hit_cubes(plan, hit);
    hit_selective(plan, hit);
    hit_ulysses(plan, hit);
    hit_zigzag(plan, hit);
    hit_reuse(plan, hit);
    hit_ring(plan, hit);
    hit_families(plan, hit);
    if (plan->model.padding) {
        hit_padding(plan, hit);
    }
}

/* ---- many plans ---- */

/* ZeRO needs two devices in a stage at least, so not P = 8 of 8 ranks; interleaving needs two stages at least and two
 * blocks on each, so not P = 8 of at most 8 blocks. All other cells can be met. */
static bool is_legal(uint32_t cell)
{
    if (cell < ZERO || cell >= SWITCHES) {
        return cell < CELL_COUNT;
    }
    const uint32_t zero_stage = (cell - ZERO) / GAL_SCHEDULE_COUNT / PP_DEGREES;
    const uint32_t log2_pp = (cell - ZERO) / GAL_SCHEDULE_COUNT % PP_DEGREES;
    const bool interleaved = (cell - ZERO) % GAL_SCHEDULE_COUNT == GAL_SCHEDULE_INTERLEAVED;
    return (zero_stage == 0 || log2_pp < 3) && (!interleaved || (log2_pp > 0 && log2_pp < 3));
}

static int legal_count(void)
{
    int count = 0;
    for (uint32_t c = 0; c < CELL_COUNT; c++) {
        count += is_legal(c);
    }
    return count;
}

void gal_coverage_add(gal_coverage *coverage, const bool hit[GAL_COVERAGE_CELLS_MAX])
{
    for (uint32_t c = 0; c < CELL_COUNT; c++) {
        coverage->met[c] += hit[c];
    }
}

uint32_t gal_coverage_gain(const gal_coverage *coverage, const bool hit[GAL_COVERAGE_CELLS_MAX])
{
    uint32_t gain = 0;
    for (uint32_t c = 0; c < CELL_COUNT; c++) {
        gain += hit[c] && coverage->met[c] < GAL_COVERAGE_PLANS;
    }
    return gain;
}

uint32_t gal_coverage_short(const gal_coverage *coverage)
{
    uint32_t count = 0;
    for (uint32_t c = 0; c < CELL_COUNT; c++) {
        count += is_legal(c) && coverage->met[c] < GAL_COVERAGE_PLANS;
    }
    return count;
}

static void print_traits(const gal_coverage *coverage, uint32_t first, const char *title, FILE *out)
{
    (void)fprintf(out, "%s\n%10s", title, "");
    for (uint32_t t = 0; t < TRAIT_COUNT; t++) {
        (void)fprintf(out, "%8s", trait_names[t]);
    }
    for (uint32_t i = 0; i < TRAIT_COUNT * TRAIT_COUNT; i++) {
        if (i % TRAIT_COUNT == 0) {
            (void)fprintf(out, "\n%10s", trait_names[i / TRAIT_COUNT]);
        }
        (void)fprintf(out, "%8u", coverage->met[first + i]);
    }
    (void)fprintf(out, "\n");
}

static void combination_name(uint32_t set, char name[16])
{
    size_t used = 0;
    for (uint32_t kind = 0; kind < MATRIX_KINDS; kind++) {
        if ((set >> kind & 1u) != 0) {
            used += (size_t)snprintf(name + used, 16 - used, "%s%s", used > 0 ? "+" : "", gal_axis_kind_names[kind]);
        }
    }
}

static void print_combinations(const gal_coverage *coverage, FILE *out)
{
    char name[16];
    (void)fprintf(out, "plans by axes in any order (row) and those of the next block, same stage\n%10s", "");
    for (uint32_t c = 0; c < COMBINATION_COUNT; c++) {
        combination_name(c + 1, name);
        (void)fprintf(out, "%11s", name);
    }
    for (uint32_t i = 0; i < COMBINATION_COUNT * COMBINATION_COUNT; i++) {
        if (i % COMBINATION_COUNT == 0) {
            combination_name(i / COMBINATION_COUNT + 1, name);
            (void)fprintf(out, "\n%10s", name);
        }
        (void)fprintf(out, "%11u", coverage->met[COMBINATIONS + i]);
    }
    (void)fprintf(out, "\n");
}

static void print_axes(const gal_coverage *coverage, FILE *out)
{
    axes_table axes;
    all_axes(&axes);
    (void)fprintf(out, "plans by order and degree of axes, innermost first");
    for (uint32_t i = 0; i < AXES_CELLS; i++) {
        char name[64] = "";
        size_t used = 0;
        for (uint32_t a = 0; a < axes.strategy[i].axis_count; a++) {
            const gal_axis *axis = &axes.strategy[i].axis[a];
            used += (size_t)snprintf(name + used, sizeof name - used, "%s%s%u", a > 0 ? "-" : "",
                                     gal_axis_kind_names[axis->kind], axis->degree);
        }
        (void)fprintf(out, "%s%16s%5u", i % 4 == 0 ? "\n" : "", name, coverage->met[AXES + i]);
    }
    (void)fprintf(out, "\n");
}

static void print_zero(const gal_coverage *coverage, FILE *out)
{
    (void)fprintf(out, "plans by zero stage, P and schedule\n%10s", "");
    for (uint32_t p = 0; p < PP_DEGREES * GAL_SCHEDULE_COUNT; p++) {
        char name[32];
        (void)snprintf(name, sizeof name, " P%u %.6s", 1u << p / GAL_SCHEDULE_COUNT,
                       gal_schedule_names[p % GAL_SCHEDULE_COUNT]);
        (void)fprintf(out, "%10s", name);
    }
    for (uint32_t i = 0; i < ZERO_STAGES * PP_DEGREES * GAL_SCHEDULE_COUNT; i++) {
        if (i % (PP_DEGREES * GAL_SCHEDULE_COUNT) == 0) {
            (void)fprintf(out, "\n%9s%u", "zero", i / (PP_DEGREES * GAL_SCHEDULE_COUNT));
        }
        if (is_legal(ZERO + i)) {
            (void)fprintf(out, "%10u", coverage->met[ZERO + i]);
        } else {
            (void)fprintf(out, "%10s", "-");
        }
    }
    (void)fprintf(out, "\n");
}

void gal_coverage_print(const gal_coverage *coverage, FILE *out)
{
    print_traits(coverage, WITHIN_STAGE, "plans by strategy (row) and that of the next block, same stage", out);
    print_traits(coverage, ACROSS_STAGES, "the same across a stage border", out);
    print_combinations(coverage, out);
    print_axes(coverage, out);
    print_zero(coverage, out);
    (void)fprintf(out, "plans with P > 1 by tied, uneven stages, accumulation\n");
    for (uint32_t i = 0; i < 8; i++) {
        (void)fprintf(out, "  %s, %s, %s: %u\n", i & 4u ? "tied" : "untied", i & 2u ? "uneven" : "even",
                      i & 1u ? "m > 1" : "m = 1", coverage->met[SWITCHES + i]);
    }
    (void)fprintf(out, "plans by dropout and recompute\n");
    for (uint32_t i = 0; i < 4; i++) {
        (void)fprintf(out, "  %s, %s: %u\n", i & 2u ? "dropout" : "no dropout", i & 1u ? "recompute" : "no recompute",
                      coverage->met[DROPOUTS + i]);
    }
    (void)fprintf(out, "plans with\n");
    for (uint32_t i = 0; i < OTHER_COUNT; i++) {
        (void)fprintf(out, "  %s: %u\n", other_names[i], coverage->met[OTHERS + i]);
    }
    (void)fprintf(out, "legal cells met by fewer than %d plans: %u of %d\n", GAL_COVERAGE_PLANS,
                  gal_coverage_short(coverage), legal_count());
}
