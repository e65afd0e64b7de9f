/* What t5 has of its own: cross-attention, the carried tensor, two stacks. */
#include "tests/support/numerics_cells.h"

#define CELLS(X)                                                                                                       \
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
    X(T5_LONG_TARGET, "t5, targets longer than the source")

GAL_CELLS(CELLS);

static void hit_t5_strategies(const gal_plan *plan, bool *hit)
{
    const gal_model *m = &plan->model;
    uint32_t tp_degree[2] = {0, 0}; /* of the latest self-attention of each stack */
    for (uint32_t b = 0; b < gal_model_block_count(m); b++) {
        gal_block_shape shape;
        const gal_strategy *s = gal_plan_block_strategy(plan, b);
        const uint32_t tp = gal_strategy_degree(s, GAL_AXIS_TP);
        gal_model_block(m, b, &shape);
        hit[T5_TP] |= tp > 1 && !s->sequence_parallel;
        hit[T5_SP] |= s->sequence_parallel;
        hit[T5_ZERO_3] |= s->zero_stage == 3;
        if (shape.kind == GAL_BLOCK_CROSS_ATTENTION) {
            hit[T5_RECOMPUTE] |= s->recompute == GAL_RECOMPUTE_FULL;
            hit[T5_SELECTIVE] |= s->recompute == GAL_RECOMPUTE_SELECTIVE;
        } else if (shape.kind == GAL_BLOCK_ATTENTION) {
            hit[T5_BIAS_LAYOUTS] |= tp_degree[shape.decodes] != 0 && tp_degree[shape.decodes] != tp;
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
        hit[T5_CUT_ENCODER] |= b > 1 && !shape.decodes;
        for (; b < end; b++) {
            const gal_strategy *s = gal_plan_block_strategy(plan, b);
            gal_model_block(m, b, &shape);
            if (shape.kind == GAL_BLOCK_BRIDGE) {
                rows = s;
                fresh = false;
            } else if (shape.kind == GAL_BLOCK_CROSS_ATTENTION) {
                const bool converts = gal_cells_axes_of(s) != gal_cells_axes_of(rows) ||
                                      !gal_strategy_same_shards(s, rows) ||
                                      s->sequence_parallel != rows->sequence_parallel;
                hit[(fresh ? T5_CONVERTED_ENTRY : T5_CONVERTED)] |= converts;
                reads = true;
                fresh = false;
                rows = s;
            }
        }
        const bool leaves = shape.carried_out.positions > 0;
        hit[T5_CUT_BRIDGE] |= leaves && !enters;
        hit[T5_CUT_DECODER] |= leaves && enters && reads;
        hit[T5_NO_READER] |= leaves && enters && !reads;
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
        hit[T5_CHUNKS_CARRIED] |= receive > 1;
        hit[T5_CHUNKS_TABLE] |= tables > 1;
    }
}

static void hit_t5(const gal_plan *plan, bool *hit)
{
    const gal_model *m = &plan->model;
    if (m->family != GAL_FAMILY_T5) {
        return;
    }
    hit_t5_strategies(plan, hit);
    hit_carried(plan, hit);
    hit_chunks(plan, hit);
    hit[T5_SPLIT] = plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE && plan->stage_count > 1;
    hit[T5_CHUNKS] = gal_plan_chunk_count(plan) > 1;
    hit[T5_ATTENTION_DROPOUT] = m->attention_dropout > 0;
    hit[T5_TIED] = m->tied_embeddings && plan->stage_count > 2;
    hit[T5_UNTIED] = !m->tied_embeddings && plan->stage_count > 1;
    hit[T5_SHORT_TARGET] = m->decoder_sequence_length < m->sequence_length;
    hit[T5_LONG_TARGET] = m->decoder_sequence_length > m->sequence_length;
}

const gal_coverage_cells gal_cells_of_t5 = {CELL_COUNT, names, hit_t5};
