/* What a step is made of: optimizer, dropout, recompute, padding, where gradients lie. */
#include "tests/support/numerics_cells.h"

#define CELLS(X)                                                                                                       \
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
    X(REPEAT_TP, "all of forward again, under tp")                                                                     \
    X(REPEAT_SP, "all of forward again, under tp+sp")                                                                  \
    X(REPEAT_GRID, "all of forward again, on a tp grid")                                                               \
    X(REPEAT_ZERO_3, "all of forward again, zero3")                                                                    \
    X(REPEAT_SEQUENCE, "all of forward again, ulysses or ring")                                                        \
    X(REPEAT_DROPOUT, "all of forward again, residual dropout")                                                        \
    X(REPEAT_SPLIT, "all of forward again, backward in two parts")                                                     \
    X(REPEAT_CROSS, "all of forward again, cross-attention")                                                           \
    X(TIED_ZERO, "tied table under zero, P > 1")                                                                       \
    X(TIED_TP, "tied table under tp, P > 1")                                                                           \
    X(PADDED_VOCABULARY, "padded vocabulary split by tp")                                                              \
    X(REUSE_ANY, "gradients where their weights were")                                                                 \
    X(REUSE_ZERO, "gradients where their weights were, sharded")                                                       \
    X(REUSE_STAGES, "gradients where their weights were, P > 1")                                                       \
    X(PADDED_CAUSAL, "padding, causal")                                                                                \
    X(PADDED_SAMPLES, "padding, samples split, several microbatches")                                                  \
    X(PADDED_TP, "padded attention under tp")                                                                          \
    X(PADDED_SP, "padded attention under tp+sp")                                                                       \
    X(PADDED_RECOMPUTE, "padded attention, recompute")                                                                 \
    X(PADDED_SELECTIVE, "padded attention, selective recompute")                                                       \
    X(PADDED_DROPOUT, "padded attention, attention dropout")                                                           \
    X(PADDED_SPLIT, "padded attention, backward in two parts")                                                         \
    X(PADDED_CROSS, "padded cross-attention, P > 1")

GAL_CELLS(CELLS);

static void hit_selective(const gal_plan *plan, bool *hit)
{
    const gal_model *m = &plan->model;
    for (uint32_t b = 0; b < gal_model_block_count(m); b++) {
        const gal_strategy *s = gal_plan_block_strategy(plan, b);
        if (gal_model_block_kind(m, b) == GAL_BLOCK_ATTENTION && s->recompute == GAL_RECOMPUTE_SELECTIVE) {
            hit[SELECTIVE] = true;
            hit[SELECTIVE_SP] |= s->sequence_parallel;
            hit[SELECTIVE_ZERO_3] |= s->zero_stage == 3;
            hit[SELECTIVE_DROPOUT] |= m->attention_dropout > 0;
            hit[SELECTIVE_LLAMA] |= m->family == GAL_FAMILY_LLAMA;
        }
    }
}

/* Of blocks that have a forward to repeat. */
static void hit_repeat(const gal_plan *plan, bool *hit)
{
    for (uint32_t b = 0; b < gal_model_block_count(&plan->model); b++) {
        const gal_strategy *s = gal_plan_block_strategy(plan, b);
        const gal_block_kind kind = gal_model_block_kind(&plan->model, b);
        const bool layer = kind == GAL_BLOCK_ATTENTION || kind == GAL_BLOCK_CROSS_ATTENTION || kind == GAL_BLOCK_FFN;
        if (s->recompute != GAL_RECOMPUTE_REPEAT || !layer) {
            continue;
        }
        const bool plain = gal_strategy_degree(s, GAL_AXIS_TP) > 1 && s->tp_mode == GAL_TP_1D;
        hit[REPEAT_TP] |= plain && !s->sequence_parallel;
        hit[REPEAT_SP] |= s->sequence_parallel;
        hit[REPEAT_GRID] |= s->tp_mode != GAL_TP_1D;
        hit[REPEAT_ZERO_3] |= s->zero_stage == 3;
        hit[REPEAT_SEQUENCE] |= gal_strategy_sequence_degree(s) > 1;
        hit[REPEAT_DROPOUT] |= plan->model.residual_dropout > 0;
        hit[REPEAT_SPLIT] |= plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE;
        hit[REPEAT_CROSS] |= kind == GAL_BLOCK_CROSS_ATTENTION;
    }
}

static void hit_zero_3(const gal_plan *plan, bool *hit)
{
    for (uint32_t r = 0; r < plan->run_count; r++) {
        const gal_strategy *s = &plan->run[r].strategy;
        const bool redo = s->recompute == GAL_RECOMPUTE_FULL;
        hit[PREFETCH_OFF] |= s->zero_stage == 3 && plan->prefetch_depth == 1;
        hit[PREFETCH_ON] |= s->zero_stage == 3 && plan->prefetch_depth == 2;
        hit[RECOMPUTE_ZERO_3] |= s->zero_stage == 3 && redo;
        hit[RECOMPUTE_SP] |= s->sequence_parallel && redo;
    }
}

static void hit_model(const gal_plan *plan, bool *hit)
{
    const gal_model *m = &plan->model;
    const gal_strategy *table = gal_plan_block_strategy(plan, 0);
    const bool pipeline = plan->stage_count > 1;
    const bool clipped = m->optimizer.gradient_clip_norm > 0;
    const bool adam = m->optimizer.kind == GAL_OPTIMIZER_ADAM;
    hit[SERIAL] = plan->cluster.device_count == 1;
    hit[TIED_ONE_STAGE] = m->tied_embeddings && !pipeline && plan->cluster.device_count > 1;
    hit[(adam ? ADAM_CLIPPED : ADAMW_CLIPPED)] |= clipped;
    hit[(adam ? ADAM_FREE : ADAMW_FREE)] |= !clipped;
    hit[EMBEDDING_DROPOUT] = m->embedding_dropout > 0;
    hit[ATTENTION_DROPOUT] = m->attention_dropout > 0;
    hit[RESIDUAL_DROPOUT] = m->residual_dropout > 0;
    hit[TIED_ZERO] = m->tied_embeddings && pipeline && table->zero_stage > 0;
    hit[TIED_TP] = m->tied_embeddings && pipeline && gal_strategy_degree(table, GAL_AXIS_TP) > 1;
    hit[PADDED_VOCABULARY] =
        gal_model_padded_vocabulary(m) > m->vocabulary && gal_strategy_degree(table, GAL_AXIS_TP) > 1;
}

/* Attention to all positions reads lengths; in a causal model they are in the targets alone. */
static void hit_padding(const gal_plan *plan, bool *hit)
{
    const gal_model *m = &plan->model;
    const bool causal = m->family == GAL_FAMILY_DECODER || m->family == GAL_FAMILY_LLAMA;
    hit[PADDED_CAUSAL] = causal;
    hit[PADDED_CROSS] = m->family == GAL_FAMILY_T5 && plan->stage_count > 1;
    hit[PADDED_DROPOUT] = !causal && m->attention_dropout > 0;
    hit[PADDED_SPLIT] = !causal && plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE;
    for (uint32_t b = 0; b < gal_model_block_count(m); b++) {
        gal_block_shape shape;
        const gal_strategy *s = gal_plan_block_strategy(plan, b);
        const uint32_t tp = gal_strategy_degree(s, GAL_AXIS_TP);
        gal_model_block(m, b, &shape);
        hit[PADDED_SAMPLES] |= plan->microbatch_count > 1 && gal_plan_stage_devices(plan) > tp;
        if (!causal &&
            (shape.kind == GAL_BLOCK_CROSS_ATTENTION || (shape.kind == GAL_BLOCK_ATTENTION && !shape.decodes))) {
            hit[PADDED_TP] |= tp > 1 && !s->sequence_parallel;
            hit[PADDED_SP] |= s->sequence_parallel;
            hit[PADDED_RECOMPUTE] |= s->recompute == GAL_RECOMPUTE_FULL;
            hit[PADDED_SELECTIVE] |= s->recompute == GAL_RECOMPUTE_SELECTIVE;
        }
    }
}

static void hit_reuse(const gal_plan *plan, bool *hit)
{
    hit[REUSE_ANY] = plan->gradient_reuses_parameter;
    hit[REUSE_STAGES] = plan->gradient_reuses_parameter && plan->pp_degree > 1;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        hit[REUSE_ZERO] |= plan->gradient_reuses_parameter && gal_strategy_shards(&plan->run[r].strategy) > 1;
    }
}

static void hit_step(const gal_plan *plan, bool *hit)
{
    hit_zero_3(plan, hit);
    hit_model(plan, hit);
    hit_selective(plan, hit);
    hit_repeat(plan, hit);
    hit_reuse(plan, hit);
    if (plan->model.padding) {
        hit_padding(plan, hit);
    }
}

const gal_coverage_cells gal_cells_of_step = {CELL_COUNT, names, hit_step};
