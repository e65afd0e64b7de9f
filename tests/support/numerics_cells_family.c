/* What the other families have of their own: llama, bert, vit and swin. */
#include "tests/support/numerics_cells.h"

#define CELLS(X)                                                                                                       \
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
    X(SWIN_INTERLEAVED, "swin, interleaved")

GAL_CELLS(CELLS);

static void hit_llama(const gal_plan *plan, bool *hit)
{
    const gal_model *m = &plan->model;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        const gal_strategy *s = &plan->run[r].strategy;
        const bool tp = gal_strategy_degree(s, GAL_AXIS_TP) > 1;
        hit[LLAMA_TP] |= tp && !s->sequence_parallel;
        hit[LLAMA_SP] |= s->sequence_parallel;
        hit[LLAMA_ZERO_3] |= s->zero_stage == 3;
        hit[LLAMA_RECOMPUTE] |= s->recompute == GAL_RECOMPUTE_FULL;
        hit[LLAMA_SHARED] |= tp && m->kv_head_count < m->head_count;
        hit[LLAMA_BIAS] |= tp && m->qkv_bias;
    }
    hit[LLAMA_DROPOUT] = m->attention_dropout > 0;
    hit[LLAMA_TIED] = m->tied_embeddings && plan->stage_count > 1;
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
    hit_encoder(plan, SWIN_TP, hit);
    for (uint32_t b = 1; b < gal_model_block_count(m); b++) {
        gal_block_shape shape;
        const gal_strategy *s = gal_plan_block_strategy(plan, b), *before = gal_plan_block_strategy(plan, b - 1);
        const bool tp = gal_strategy_degree(s, GAL_AXIS_TP) > 1, begins = begins_piece(plan, b);
        const bool behind = gal_model_block_kind(m, b - 1) == GAL_BLOCK_MERGE;
        gal_model_block(m, b, &shape);
        const bool merge = shape.kind == GAL_BLOCK_MERGE;
        hit[SWIN_SHIFTED_TP] |= shape.shift > 0 && tp;
        hit[SWIN_MERGE_TP] |= merge && tp && !s->sequence_parallel;
        hit[SWIN_MERGE_SP] |= merge && s->sequence_parallel;
        hit[SWIN_MERGE_RECOMPUTE] |= merge && s->recompute == GAL_RECOMPUTE_FULL;
        hit[SWIN_MERGE_CONVERTED] |= behind && gal_cells_axes_of(s) != gal_cells_axes_of(before);
        hit[SWIN_CUT_MERGE] |= behind && begins;
        hit[SWIN_CUT_BEFORE] |= merge && begins;
        hit[SWIN_HEAD_SP] |= shape.kind == GAL_BLOCK_HEAD && s->sequence_parallel;
    }
    hit[SWIN_ATTENTION_DROPOUT] = m->attention_dropout > 0;
    hit[SWIN_SPLIT] = plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE;
    hit[SWIN_INTERLEAVED] = plan->schedule == GAL_SCHEDULE_INTERLEAVED;
}

static void hit_families(const gal_plan *plan, bool *hit)
{
    const gal_model *m = &plan->model;
    const gal_strategy *embedding = gal_plan_block_strategy(plan, 0);
    const gal_strategy *head = gal_plan_block_strategy(plan, gal_model_block_count(m) - 1);
    if (m->family == GAL_FAMILY_LLAMA) {
        hit_llama(plan, hit);
    } else if (m->family == GAL_FAMILY_BERT) {
        hit_encoder(plan, BERT_TP, hit);
        hit[BERT_TIED] = m->tied_embeddings && plan->stage_count > 1;
        hit[BERT_HEAD_SP] = head->sequence_parallel;
    } else if (m->family == GAL_FAMILY_VIT) {
        hit_encoder(plan, VIT_TP, hit);
        hit[VIT_EMBEDDING_SP] = embedding->sequence_parallel;
        hit[VIT_HEAD_SP] = head->sequence_parallel;
    } else if (m->family == GAL_FAMILY_SWIN) {
        hit_swin(plan, hit);
    }
}

const gal_coverage_cells gal_cells_of_family = {CELL_COUNT, names, hit_families};
