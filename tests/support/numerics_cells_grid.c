/* What tensor parallelism on squares and cubes brings. */
#include "tests/support/numerics_cells.h"

#define CELLS(X)                                                                                                       \
    X(GRID_DECODER, "decoder on a tp grid")                                                                            \
    X(GRID_LLAMA, "llama on a tp grid")                                                                                \
    X(GRID_BERT, "bert on a tp grid")                                                                                  \
    X(GRID_VIT, "vit on a tp grid")                                                                                    \
    X(GRID_T5, "t5 on a tp grid")                                                                                      \
    X(GRID_CROSS, "cross-attention on a tp grid, carried rows of another layout")                                      \
    X(GRID_SWIN, "swin on a tp grid")                                                                                  \
    X(GRID_MERGE, "a merge on a tp grid")                                                                              \
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
    X(CUBE_T5, "t5 on a tp cube")                                                                                      \
    X(CUBE_SWIN, "swin on a tp cube")                                                                                  \
    X(CUBE_MERGE, "a merge on a tp cube")                                                                              \
    X(CUBE_TIED, "tied table on a tp cube")                                                                            \
    X(CUBE_HEAD, "untied head on a tp cube")                                                                           \
    X(CUBE_GRID, "a tp cube beside a tp grid")                                                                         \
    X(CUBE_RECOMPUTE, "recompute of a block on a tp cube")                                                             \
    X(CUBE_DROPOUT, "dropout of rows on a tp cube")                                                                    \
    X(CUBE_SPLIT, "backward in two parts on a tp cube")                                                                \
    X(GRID_KEEP, "panels kept on a tp grid")                                                                           \
    X(CUBE_KEEP, "panels kept on a tp cube")                                                                           \
    X(CUBE_WEIGHTS, "weights kept on a tp cube, gradients scattered in every microbatch")                              \
    X(CUBE_WEIGHTS_LATE, "weights kept on a tp cube, gradients scattered once")                                        \
    X(CUBE_WEIGHTS_TABLE, "a token table on a tp cube whose weights are kept")                                         \
    X(CUBE_BOTH, "inputs and weights kept on a tp cube")                                                               \
    X(STEPPED, "a tp grid in steps")                                                                                   \
    X(STEPPED_TABLE, "a token table on a tp grid in steps")                                                            \
    X(STEPPED_DEPTH, "2.5d in steps")                                                                                  \
    X(STEPPED_ZERO, "a tp grid in steps beside zero")                                                                  \
    X(STEPPED_ZERO3, "a tp grid in steps beside zero-3")                                                               \
    X(STEPPED_FETCHED, "a tp grid in steps, weights from the host")                                                    \
    X(STEPPED_SPLIT, "a tp grid in steps, backward in two parts")                                                      \
    X(KEEP_SPLIT, "panels kept, backward in two parts")                                                                \
    X(KEEP_SELECTIVE, "panels kept, selective recompute")

GAL_CELLS(CELLS);

static void hit_grids(const gal_plan *plan, bool *hit)
{
    const gal_model *m = &plan->model;
    const gal_strategy *head = gal_plan_block_strategy(plan, gal_model_block_count(m) - 1);
    bool any = false;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        const gal_strategy *s = &plan->run[r].strategy;
        const bool grid = s->tp_mode != GAL_TP_1D;
        any |= grid;
        hit[GRID_DEPTH] |= s->tp_mode == GAL_TP_2P5D;
        hit[GRID_ZERO_2] |= grid && s->zero_stage == 2 && !s->keep_weights;
        hit[GRID_ZERO_3] |= grid && s->zero_stage == 3;
        hit[GRID_RECOMPUTE] |= grid && s->recompute == GAL_RECOMPUTE_FULL;
    }
    hit[GRID_DECODER] = any && m->family == GAL_FAMILY_DECODER;
    hit[GRID_LLAMA] = any && m->family == GAL_FAMILY_LLAMA;
    hit[GRID_BERT] = any && m->family == GAL_FAMILY_BERT;
    hit[GRID_VIT] = any && m->family == GAL_FAMILY_VIT;
    hit[GRID_T5] = any && m->family == GAL_FAMILY_T5;
    hit[GRID_SWIN] = any && m->family == GAL_FAMILY_SWIN;
    hit[GRID_DROPOUT] = any && m->residual_dropout > 0;
    hit[GRID_SPLIT] = any && plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE;
    if (head->tp_mode != GAL_TP_1D) {
        hit[(m->tied_embeddings ? GRID_TIED : GRID_HEAD)] = true;
        hit[GRID_TIED_BERT] = m->tied_embeddings && m->family == GAL_FAMILY_BERT;
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
        hit[CUBE_RECOMPUTE] |= s->tp_mode == GAL_TP_3D && s->recompute == GAL_RECOMPUTE_FULL;
        hit[GRID_KEEP] |= s->tp_mode != GAL_TP_3D && s->keep_panels;
        hit[CUBE_KEEP] |= s->tp_mode == GAL_TP_3D && s->keep_panels;
        hit[CUBE_WEIGHTS] |= s->keep_weights && s->zero_stage == 2 && plan->microbatch_count > 1;
        hit[CUBE_WEIGHTS_LATE] |= s->keep_weights && s->zero_stage == 1 && plan->microbatch_count > 1;
        hit[CUBE_BOTH] |= s->keep_weights && s->keep_panels;
        hit[STEPPED] |= s->stepped;
        hit[STEPPED_DEPTH] |= s->stepped && s->tp_mode == GAL_TP_2P5D;
        hit[STEPPED_ZERO] |= s->stepped && s->zero_stage > 0;
        hit[STEPPED_ZERO3] |= s->stepped && s->zero_stage == 3;
        hit[STEPPED_FETCHED] |= s->stepped && s->offload_parameters_percent > 0;
        hit[STEPPED_SPLIT] |= s->stepped && plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE;
        hit[KEEP_SPLIT] |= s->keep_panels && plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE;
        hit[KEEP_SELECTIVE] |= s->keep_panels && s->recompute == GAL_RECOMPUTE_SELECTIVE;
    }
    hit[CUBE_DECODER] = any && m->family == GAL_FAMILY_DECODER;
    hit[CUBE_LLAMA] = any && m->family == GAL_FAMILY_LLAMA;
    hit[CUBE_BERT] = any && m->family == GAL_FAMILY_BERT;
    hit[CUBE_VIT] = any && m->family == GAL_FAMILY_VIT;
    hit[CUBE_T5] = any && m->family == GAL_FAMILY_T5;
    hit[CUBE_SWIN] = any && m->family == GAL_FAMILY_SWIN;
    hit[CUBE_GRID] = any && squares;
    hit[CUBE_DROPOUT] = any && m->residual_dropout > 0;
    hit[CUBE_SPLIT] = any && plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE;
    hit[CUBE_WEIGHTS_TABLE] = head->keep_weights && m->tied_embeddings;
    hit[STEPPED_TABLE] = head->stepped && m->tied_embeddings;
    if (head->tp_mode == GAL_TP_3D) {
        hit[CUBE_BERT_HEAD] = m->family == GAL_FAMILY_BERT;
        hit[(m->tied_embeddings ? CUBE_TIED : CUBE_HEAD)] = true;
    }
}

/* Blocks that not every family has. */
static void hit_blocks(const gal_plan *plan, bool *hit)
{
    const gal_model *m = &plan->model;
    for (uint32_t b = 1; b < gal_model_block_count(m); b++) {
        const gal_strategy *s = gal_plan_block_strategy(plan, b), *before = gal_plan_block_strategy(plan, b - 1);
        const gal_block_kind kind = gal_model_block_kind(m, b);
        if (s->tp_mode != GAL_TP_1D && kind == GAL_BLOCK_MERGE) {
            hit[s->tp_mode == GAL_TP_3D ? CUBE_MERGE : GRID_MERGE] = true;
        }
        hit[GRID_CROSS] |=
            s->tp_mode != GAL_TP_1D && kind == GAL_BLOCK_CROSS_ATTENTION && !gal_strategy_same_shards(s, before);
    }
}

static void hit_modes(const gal_plan *plan, bool *hit)
{
    hit_grids(plan, hit);
    hit_cubes(plan, hit);
    hit_blocks(plan, hit);
}

const gal_coverage_cells gal_cells_of_grid = {CELL_COUNT, names, hit_modes};
