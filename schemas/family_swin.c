/* Swin for image classification: levels of attention and FFN on a grid of patches; attention sees windows, of every
 * second layer shifted by half a window; between levels 2 x 2 neighbours become one position of twice the features. The
 * head classifies by the mean of all positions. What divides is a rule, never padded: every grid by its window and, but
 * the last, by two. Stochastic depth (drop_path_rate) is not applied.
 * Source: Z. Liu et al., "Swin Transformer: hierarchical vision Transformer using shifted windows", arXiv 2103.14030,
 * section 3; that a window is never larger than the grid, which is then not shifted, is the authors' code. */
#include "schemas/model_family.h"

/* ---- levels ---- */

static uint32_t side_of(const gal_model *model, uint32_t level)
{
    return model->image_size / model->patch_size >> level;
}

static uint32_t window_of(const gal_model *model, uint32_t level)
{
    const uint32_t side = side_of(model, level);
    return side < model->window_size ? side : model->window_size;
}

static uint32_t shift_of(const gal_model *model, uint32_t level)
{
    return side_of(model, level) > model->window_size ? model->window_size / 2 : 0;
}

static gal_flow flow_of(const gal_model *model, uint32_t level)
{
    const uint32_t side = side_of(model, level);
    return (gal_flow){side * side, model->hidden << level};
}

/* Every second layer of a level has another program than the first. */
static bool has_shifted(const gal_model *model, uint32_t level)
{
    return model->level_layer_count[level] > 1 && shift_of(model, level) > 0;
}

/* ---- the document ---- */

static void read_levels(const gal_json_cursor *at, const char *key, uint32_t max, uint32_t *count,
                        uint32_t out[GAL_LEVELS_MAX])
{
    const gal_json_cursor array = gal_json_array(at, key, 1, GAL_LEVELS_MAX, count);
    for (uint32_t i = 0; i < *count; i++) {
        out[i] = (uint32_t)gal_json_element_u64(&array, i, 1, max);
    }
}

void gal_family_read_levels(const gal_json_cursor *at, const char *layers, const char *heads, gal_model *out)
{
    uint32_t count = 0;
    read_levels(at, layers, GAL_LAYERS_MAX, &out->level_count, out->level_layer_count);
    read_levels(at, heads, GAL_HIDDEN_MAX, &count, out->level_head_count);
    if (count != out->level_count) {
        gal_json_error(at, "%s and %s must have as many entries, one for each level", layers, heads);
    }
}

static void read(const gal_json_cursor *at, gal_model *out)
{
    gal_family_read_images(at, out);
    gal_family_read_levels(at, "level_layer_counts", "level_head_counts", out);
    out->window_size = gal_json_u32(at, "window_size", 1, GAL_WINDOW_SIZE_MAX);
    out->norm_epsilon = gal_json_f64(at, "layer_norm_epsilon", GAL_POSITIVE_MIN, 1.0);
    out->attention_dropout = gal_json_f64(at, "attention_dropout", 0.0, GAL_JSON_BELOW_ONE);
    out->residual_dropout = gal_json_f64(at, "residual_dropout", 0.0, GAL_JSON_BELOW_ONE);
}

static void write_levels(gal_json_writer *out, const char *key, uint32_t count, const uint32_t *values)
{
    gal_json_begin_array(out, key);
    for (uint32_t i = 0; i < count; i++) {
        gal_json_put_u64(out, NULL, values[i]);
    }
    gal_json_end_array(out);
}

static void write(gal_json_writer *out, const gal_model *model)
{
    gal_family_write_images(out, model);
    write_levels(out, "level_layer_counts", model->level_count, model->level_layer_count);
    write_levels(out, "level_head_counts", model->level_count, model->level_head_count);
    gal_json_put_u64(out, "window_size", model->window_size);
    gal_json_put_f64(out, "layer_norm_epsilon", model->norm_epsilon);
    gal_json_put_f64(out, "attention_dropout", model->attention_dropout);
    gal_json_put_f64(out, "residual_dropout", model->residual_dropout);
}

/* One level's grid and heads; false if it has broken a rule, which is reported. */
static bool check_level(const gal_json_cursor *at, const gal_model *model, uint32_t level)
{
    const uint32_t side = side_of(model, level), hidden = model->hidden << level;
    const bool last = level + 1 == model->level_count;
    if (side == 0 || (side > model->window_size && side % model->window_size != 0)) {
        gal_json_error(at, "window_size %u must divide the %u by %u positions of level %u: windows are not padded",
                       model->window_size, side, side, level);
        return false;
    }
    if (!last && side % 2 != 0) {
        gal_json_error(at, "the %u by %u positions of level %u must be even to merge 2 by 2: they are not padded", side,
                       side, level);
        return false;
    }
    if (hidden % model->level_head_count[level] != 0) {
        gal_json_error(at, "the %u heads of level %u must divide its hidden size %u", model->level_head_count[level],
                       level, hidden);
        return false;
    }
    return true;
}

/* What the members that all models have say again. */
static void check_first_level(const gal_json_cursor *at, const gal_model *model, const gal_model_keys *keys)
{
    const uint32_t side = side_of(model, 0);
    uint64_t layers = 0;
    for (uint32_t level = 0; level < model->level_count; level++) {
        layers += model->level_layer_count[level];
    }
    if (model->sequence_length != (uint64_t)side * side) {
        gal_json_error(at, "sequence_length must be the %llu patches, got %u", (unsigned long long)side * side,
                       model->sequence_length);
    } else if (model->layer_count != layers) {
        gal_json_error(at, "layer_count must be the %llu layers of all levels, got %u", (unsigned long long)layers,
                       model->layer_count);
    } else if (model->head_count != model->level_head_count[0]) {
        gal_json_member_error(at, keys->head_count, "must be the first level's %u", model->level_head_count[0]);
    }
}

static void check(const gal_json_cursor *at, const gal_model *model, const gal_model_keys *keys)
{
    if (!gal_family_check_images(at, model) || model->level_count == 0 || model->window_size == 0) {
        return;
    }
    const uint32_t last = model->level_count - 1;
    if ((uint64_t)model->hidden << last > GAL_HIDDEN_MAX || (uint64_t)model->ffn_hidden << last > GAL_FFN_HIDDEN_MAX) {
        gal_json_error(at, "hidden %u and ffn_hidden %u double %u times: the last level's must be at most %d and %d",
                       model->hidden, model->ffn_hidden, last, GAL_HIDDEN_MAX, GAL_FFN_HIDDEN_MAX);
        return;
    }
    check_first_level(at, model, keys);
    for (uint32_t level = 0; level < model->level_count; level++) {
        if (model->level_head_count[level] == 0 || !check_level(at, model, level)) {
            return;
        }
    }
}

/* ---- sizes ---- */

static uint64_t parameter_count(const gal_model *model)
{
    const uint64_t first = model->hidden, last = first << (model->level_count - 1);
    uint64_t count = first * gal_model_patch_features(model) + first + 2 * first;
    for (uint32_t level = 0; level < model->level_count; level++) {
        const uint64_t hidden = first << level, ffn = (uint64_t)model->ffn_hidden << level, norm = 2 * hidden;
        const uint64_t offsets = 2 * (uint64_t)window_of(model, level) - 1;
        const uint64_t attention =
            norm + 4 * (hidden * hidden + hidden) + offsets * offsets * model->level_head_count[level];
        const uint64_t feed_forward = norm + hidden * ffn + ffn + ffn * hidden + hidden;
        const uint64_t merge = level + 1 < model->level_count ? 8 * hidden + 8 * hidden * hidden : 0;
        count += model->level_layer_count[level] * (attention + feed_forward) + merge;
    }
    return count + 2 * last + last * model->vocabulary + model->vocabulary;
}

/* ---- the chain ---- */

static uint32_t block_count(const gal_model *model)
{
    return 2 * model->layer_count + model->level_count + 1;
}

static uint32_t types_of_level(const gal_model *model, uint32_t level)
{
    return 2U + has_shifted(model, level) + (level + 1 < model->level_count);
}

static uint32_t type_count(const gal_model *model)
{
    uint32_t count = 2;
    for (uint32_t level = 0; level < model->level_count; level++) {
        count += types_of_level(model, level);
    }
    return count;
}

/* In the order of their first blocks: of a level attention, FFN, shifted attention if there is any, merge. */
static uint32_t first_of_type(const gal_model *model, uint32_t type)
{
    uint32_t block = 1, left = type - 1;
    if (type == 0 || type + 1 == type_count(model)) {
        return type == 0 ? 0 : block_count(model) - 1;
    }
    for (uint32_t level = 0;; level++) {
        const uint32_t types = types_of_level(model, level);
        const bool merges = level + 1 < model->level_count;
        if (left < types) {
            return block + (merges && left + 1 == types ? 2 * model->level_layer_count[level] : left);
        }
        left -= types;
        block += 2 * model->level_layer_count[level] + merges;
    }
}

static void block_of_level(const gal_model *model, uint32_t level, uint32_t index, uint32_t first_type,
                           gal_block_shape *out)
{
    const gal_flow flow = flow_of(model, level);
    const bool merge = index == 2 * model->level_layer_count[level], attends = index % 2 == 0;
    const bool shifted = attends && index / 2 % 2 == 1 && has_shifted(model, level);
    *out = (gal_block_shape){.kind = merge     ? GAL_BLOCK_MERGE
                                     : attends ? GAL_BLOCK_ATTENTION
                                               : GAL_BLOCK_FFN,
                             .type = first_type + (merge     ? types_of_level(model, level) - 1
                                                   : shifted ? 2
                                                             : index % 2),
                             .layer = merge ? level : index / 2,
                             .in = flow,
                             .out = merge ? flow_of(model, level + 1) : flow,
                             .shift = shifted && !merge ? shift_of(model, level) : 0};
}

static void block(const gal_model *model, uint32_t index, gal_block_shape *out)
{
    const bool first = index == 0, last = index + 1 == block_count(model);
    uint32_t level = 0, type = 1, left = index - 1;
    for (uint32_t blocks = 2 * model->level_layer_count[0] + 1;
         !first && level + 1 < model->level_count && left >= blocks; blocks = 2 * model->level_layer_count[level] + 1) {
        left -= blocks;
        type += types_of_level(model, level++);
    }
    if (first || last) {
        const gal_flow rows = flow_of(model, level), none = {0, 0};
        *out = (gal_block_shape){.kind = first ? GAL_BLOCK_EMBEDDING : GAL_BLOCK_HEAD,
                                 .type = first ? 0 : type_count(model) - 1,
                                 .in = first ? none : rows,
                                 .out = first ? rows : none};
    } else {
        block_of_level(model, level, left, type, out);
    }
    const gal_flow rows = flow_of(model, level);
    out->positions = rows.positions;
    out->level = level;
    out->head_count = out->kv_head_count = model->level_head_count[level];
    out->head_dim = rows.features / out->head_count;
    out->ffn_hidden = model->ffn_hidden << level;
    out->side = side_of(model, level);
    out->window = out->kind == GAL_BLOCK_ATTENTION ? window_of(model, level) : 0;
}

static uint32_t loss_positions(uint32_t positions)
{
    (void)positions;
    return 1;
}

const gal_model_family gal_family_swin = {.read = read,
                                          .write = write,
                                          .check = check,
                                          .parameter_count = parameter_count,
                                          .block_count = block_count,
                                          .block = block,
                                          .type_count = type_count,
                                          .first_of_type = first_of_type,
                                          .loss_positions = loss_positions};
