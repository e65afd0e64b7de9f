/* What prices need besides blocks: queries of plans, rows, transfers, and what of the update no block owns. */
#include "costmodel/price.h"

gal_price_query gal_price_query_of(const gal_plan *plan, uint32_t stage, uint32_t block)
{
    return (gal_price_query){.type = gal_model_block_type(&plan->model, block),
                             .strategy = gal_plan_block_strategy(plan, block),
                             .device_count = gal_plan_stage_devices(plan),
                             .stage = stage,
                             .stage_count = plan->stage_count,
                             .microbatch_samples = gal_plan_microbatch_samples(plan),
                             .prefetch_depth = plan->prefetch_depth};
}

gal_price_rows gal_price_rows_of(const gal_strategy *strategy, const gal_atoms *atoms)
{
    const gal_mesh mesh = gal_mesh_of(atoms, strategy);
    return (gal_price_rows){gal_mesh_samples(&mesh), gal_mesh_positions(&mesh, strategy), gal_mesh_features(&mesh)};
}

bool gal_price_rows_alike(const gal_strategy *a, const gal_strategy *b, uint32_t device_count)
{
    gal_atoms atoms;
    gal_atoms_of(device_count, &atoms);
    const gal_price_rows x = gal_price_rows_of(a, &atoms), y = gal_price_rows_of(b, &atoms);
    return gal_price_rows_equal(&x, &y);
}

uint32_t gal_price_place(const gal_durations *durations, uint32_t device_count, uint32_t stage)
{
    const gal_cluster *cluster = gal_durations_cluster(durations);
    const uint64_t begin = (uint64_t)stage * device_count;
    for (uint32_t i = 0; i < cluster->level_count; i++) {
        const uint32_t span = cluster->level[i].span_devices;
        if (device_count % span != 0 && begin / span != (begin + device_count - 1) / span) {
            return stage + 1;
        }
    }
    return 0;
}

uint64_t gal_price_rows_bytes(const gal_model *model, const gal_strategy *strategy, uint32_t microbatch_samples,
                              gal_flow rows)
{
    const uint32_t tp_chunks = strategy->sequence_parallel ? gal_strategy_degree(strategy, GAL_AXIS_TP) : 1;
    const uint32_t chunks = tp_chunks * gal_strategy_sequence_degree(strategy);
    const uint32_t parts = gal_strategy_grid_side(strategy);
    return gal_align((uint64_t)(microbatch_samples / gal_strategy_sample_parts(strategy)) * (rows.positions / chunks) *
                     (rows.features / parts) * gal_dtype_bytes(model->compute_dtype));
}

gal_price_transfer gal_price_transfer_of(const gal_durations *durations, uint32_t device_count, uint32_t stage,
                                         uint32_t stage_count, uint64_t bytes)
{
    gal_atoms atoms;
    uint32_t level_counts[GAL_LINK_LEVELS_MAX];
    gal_atoms_of(device_count, &atoms);
    const gal_place_in_cluster place = {&atoms, device_count, stage, stage_count};
    gal_group_level_counts(gal_durations_cluster(durations), &place, GAL_GROUP_NEXT, level_counts);
    const double beside = gal_durations_slowdown(durations, GAL_ACTIVITY_COMMUNICATION, GAL_ACTIVITY_COMPUTE);
    const gal_cost cost = gal_collective_cost(durations, GAL_OP_SEND, level_counts, bytes);
    return (gal_price_transfer){.seconds = 0.5 * (1.0 + beside) * cost.seconds, .level = cost.level};
}

double gal_price_transfer_behind(const gal_durations *durations, const gal_price_transfer *transfer,
                                 const double link_share[GAL_LINK_LEVELS_MAX])
{
    const double beside = gal_durations_slowdown(durations, GAL_ACTIVITY_COMMUNICATION, GAL_ACTIVITY_COMMUNICATION);
    return transfer->seconds * (1.0 + 0.5 * link_share[transfer->level] * (beside - 1.0));
}

static double reduce_copies(const gal_durations *durations, uint32_t device_count, uint32_t stage_count,
                            gal_group copies, uint64_t bytes)
{
    gal_atoms atoms;
    uint32_t level_counts[GAL_LINK_LEVELS_MAX];
    gal_atoms_of(device_count, &atoms);
    const gal_place_in_cluster place = {&atoms, device_count, 0, stage_count};
    gal_group_level_counts(gal_durations_cluster(durations), &place, copies, level_counts);
    return gal_collective_seconds(durations, GAL_OP_ALL_REDUCE, level_counts, bytes, NULL);
}

double gal_price_common_update(const gal_model *model, const gal_durations *durations, uint32_t device_count,
                               uint32_t stage_count)
{
    const uint64_t bias_bytes = (uint64_t)model->relative_bucket_count * model->head_count *
                                gal_dtype_bytes(gal_dtype_wide(model->compute_dtype)); /* whole on every device */
    double seconds = reduce_copies(durations, device_count, stage_count, GAL_GROUP_WORLD, 16);
    if (bias_bytes > 0 && stage_count > 1) {
        seconds += reduce_copies(durations, device_count, stage_count, GAL_GROUP_ENCODER_BIAS, bias_bytes) +
                   reduce_copies(durations, device_count, stage_count, GAL_GROUP_DECODER_BIAS, bias_bytes);
    }
    return seconds;
}

double gal_price_table_update(const gal_model *model, const gal_durations *durations, const gal_strategy *strategy,
                              uint32_t device_count, uint32_t stage_count)
{
    const uint64_t elements = (uint64_t)gal_model_padded_vocabulary(model) * model->hidden;
    const uint32_t side = gal_strategy_grid_side(strategy); /* of a grid: rows and columns, of a cube a third time */
    const bool cube = strategy->tp_mode == GAL_TP_3D && !strategy->keep_weights; /* else the shares are of zero_stage */
    const uint32_t shards =
        gal_strategy_feature_parts(strategy) * side * (cube ? side : 1) * gal_strategy_shards(strategy);
    return reduce_copies(durations, device_count, stage_count, GAL_GROUP_TIED,
                         elements / shards * gal_dtype_bytes(gal_dtype_wide(model->compute_dtype)));
}
