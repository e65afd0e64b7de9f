/* Typing rules of the update: complete gradients, the norm, and Adam over the right ranges. */
#include "runtime/program/verify/verify_typer.h"

/* The unit whose buffer this is, by the field that `of` says. */
typedef enum unit_buffer {
    UNIT_WEIGHT,
    UNIT_FIRST,
    UNIT_SECOND,
    UNIT_GRADIENT,
    UNIT_MASTER,
    UNIT_HOST_WEIGHT,
    UNIT_HOST_GRADIENT
} unit_buffer;

static uint32_t buffer_of(const gal_unit *unit, unit_buffer which)
{
    const uint32_t buffers[] = {unit->weight, unit->first_moment, unit->second_moment, unit->gradient,
                                unit->master, unit->host_weight,  unit->host_gradient};
    return buffers[which];
}

static bool find_unit(gal_typer *t, uint32_t buffer, unit_buffer which, uint32_t *out)
{
    for (uint32_t u = 0; u < t->program->unit_count; u++) {
        if (buffer_of(&t->program->unit[u], which) == buffer) {
            *out = u;
            return true;
        }
    }
    return gal_type_broken(t, "an operand that belongs to no unit");
}

/* The range of a unit that an operand means: its view of a whole, or what the buffer holds. */
static bool range_of(gal_typer *t, uint32_t k, const gal_typed *value, uint64_t elements, gal_group *out)
{
    const gal_operand *o = &t->operand[k];
    uint64_t bytes = elements * gal_type_item_bytes(t, k);
    if (!gal_type_holds(t, o->offset_bytes == 0 && o->bytes == bytes, "reads another range than its shape says")) {
        return false;
    }
    *out = o->view == GAL_GROUP_NONE ? value->range : o->view;
    if (o->view == GAL_GROUP_NONE) {
        return gal_type_holds(t, !value->in_place, "reads all of a unit of which only a range is right");
    }
    return gal_type_holds(t, o->view_stride_bytes == bytes, "a view that is no range of ZeRO") &&
           gal_type_holds(t, value->range == (value->in_place ? o->view : GAL_GROUP_NONE), "a view over other devices");
}

uint64_t gal_type_buffer_bytes(const gal_typer *t, uint32_t k)
{
    const gal_operand *o = &t->operand[k];
    return o->view == GAL_GROUP_NONE ? o->bytes : o->bytes * gal_type_size_of(t, o->view);
}

bool gal_type_get_gradient(gal_typer *t, uint32_t k, uint64_t elements, gal_typed *out, gal_group *range)
{
    const char *rule = gal_store_gradient(&t->now->store, t->operand[k].buffer, gal_type_buffer_bytes(t, k), out);
    return gal_type_holds(t, rule == NULL, rule) && range_of(t, k, out, elements, range);
}

bool gal_type_expect_tensors(gal_typer *t, const gal_typed *gradient, uint32_t unit)
{
    uint32_t next = t->now->first_parameter[unit];
    uint64_t next_row = 0; /* of tensors whose gradient was one matrix; 0: that begins, or there is none */
    bool same = true;
    for (uint32_t i = 0; same && i < gradient->piece_count; i++) {
        const gal_piece *piece = &t->now->store.piece[gradient->first_piece + i];
        uint32_t first;
        const uint64_t item = piece->bytes / (piece->m * piece->n);
        const uint32_t count =
            gal_type_joined(t, unit, piece->offset_bytes / item, piece->m * piece->n, piece->n, &first);
        gal_group by_rows = GAL_GROUP_NONE;
        gal_group by_columns = GAL_GROUP_NONE;
        if (count > 0) {
            const gal_parameter *p = &t->program->parameter[first];
            gal_type_split_of(t, p, gal_type_local_elements(t, p), piece->n, &by_rows, &by_columns);
        }
        same = count > 0 && first == next && piece->split_m == by_rows && piece->split_n == by_columns;
        same = same && piece->first_row == next_row;
        next_row += piece->row_count > 0 ? piece->m : 0;
        next_row = next_row == piece->row_count ? 0 : next_row;
        next += count;
    }
    same = same && next_row == 0 && next == t->now->first_parameter[unit + 1];
    return gal_type_holds(t, same, "the gradient is not made of the unit's tensors");
}

gal_group gal_type_devices_of_pieces(const gal_typer *t, const gal_typed *gradient)
{
    gal_group all = GAL_GROUP_NONE;
    for (uint32_t i = 0; i < gradient->piece_count; i++) {
        const gal_piece *piece = &t->now->store.piece[gradient->first_piece + i];
        all |= piece->split_m | piece->split_n;
    }
    return all;
}

static void type_norm_start(gal_typer *t)
{
    uint32_t out = t->in->operand_count - 1u;
    gal_typed loss;
    if (out > 0) {
        if (!gal_type_get_kind(t, 0, GAL_VALUE_LOSS, &loss) ||
            !gal_type_holds(t, t->shape->dims[0] * gal_type_size_of(t, loss.partial) == t->program->device_count,
                            "its replicas are not the devices that hold the same loss")) {
            return;
        }
    }
    gal_type_put(t, out, &(gal_typed){.kind = GAL_VALUE_NORM, .partial = GAL_PARTIAL_WORLD});
}

static void type_sum_squares(gal_typer *t)
{
    gal_typed gradient;
    gal_typed norm;
    gal_group range;
    uint32_t unit = 0;
    if (!find_unit(t, t->operand[0].buffer, UNIT_GRADIENT, &unit) ||
        !gal_type_get_gradient(t, 0, t->shape->dims[0], &gradient, &range) ||
        !gal_type_holds(t, gradient.partial == GAL_GROUP_NONE, "reads a gradient that is still a partial sum") ||
        !gal_type_get_kind(t, 1, GAL_VALUE_NORM, &norm) ||
        !gal_type_holds(t, norm.partial == GAL_PARTIAL_WORLD, "adds to a norm that is already summed")) {
        return;
    }
    const gal_shared shared = gal_shared_of_group(t->program->unit[unit].copies);
    uint64_t copies = shared != GAL_SHARED_COUNT ? gal_stage_set_count(&t->program->holders[shared]) : 1;
    uint64_t replicas =
        t->program->device_count / gal_type_size_of(t, range | gal_type_devices_of_pieces(t, &gradient)) * copies;
    if (gal_type_holds(t, t->shape->dims[1] == replicas,
                       "its replicas are not the devices that hold the same gradient") &&
        gal_type_holds(t, t->now->norm_count[unit] == 0, "a gradient enters the norm twice")) {
        t->now->norm_count[unit]++;
    }
}

/* A moment, or the master weights. */
static bool get_kept(gal_typer *t, uint32_t k, uint32_t unit, unit_buffer which, gal_group range)
{
    gal_typed moment;
    return gal_type_holds(t, t->operand[k].buffer == buffer_of(&t->program->unit[unit], which),
                          "a moment of another unit") &&
           gal_type_get_kind(t, k, GAL_VALUE_MOMENT, &moment) &&
           gal_type_holds(t, moment.range == range && gal_type_expect_elements(t, k), "a moment of another range") &&
           gal_type_holds(t, t->operand[k].access == GAL_UPDATE, "a moment that is not kept");
}

/* The operands of an update behind weights and gradient, from `first` on: moments, norm, masters. */
static bool get_states(gal_typer *t, uint32_t first, uint32_t unit, gal_group range)
{
    gal_typed norm;
    return get_kept(t, first, unit, UNIT_FIRST, range) && get_kept(t, first + 1, unit, UNIT_SECOND, range) &&
           (t->in->operand_count <= first + 3 || get_kept(t, first + 3, unit, UNIT_MASTER, range)) &&
           gal_type_get_kind(t, first + 2, GAL_VALUE_NORM, &norm) &&
           gal_type_holds(t, norm.partial == GAL_GROUP_NONE, "reads a norm that is not yet summed") &&
           gal_type_holds(t, t->shape->dims[1] == t->program->unit[unit].decay_elements, "decays other elements") &&
           gal_type_holds(t, t->now->update_count[unit] == 0, "updates a unit twice");
}

/* What Adam reads beside the weights, on either side: all of one unit and of one range. */
static bool holds_for_adam(gal_typer *t, uint32_t unit, unit_buffer gradients, gal_group weight_range, gal_group *range)
{
    gal_typed gradient;
    return gal_type_holds(t, t->operand[1].buffer == buffer_of(&t->program->unit[unit], gradients),
                          "the gradient of another unit") &&
           gal_type_get_gradient(t, 1, t->shape->dims[0], &gradient, range) &&
           gal_type_holds(t, gradient.partial == GAL_GROUP_NONE, "reads a gradient that is still a partial sum") &&
           gal_type_holds(t, *range == weight_range && *range == t->in->group,
                          "weights and gradients of different ranges") &&
           get_states(t, 2, unit, *range) && gal_type_expect_tensors(t, &gradient, unit);
}

/* The own range of a unit's weights on the device, to be written. */
static gal_stretch *own_weights(gal_typer *t, uint32_t k, gal_group *range)
{
    gal_stretch *weight = gal_store_exact(&t->now->store, t->operand[k].buffer, 0, gal_type_buffer_bytes(t, k));
    const bool right =
        gal_type_holds(t, weight != NULL && weight->value.kind == GAL_VALUE_WEIGHT, "updates no weights") &&
        range_of(t, k, &weight->value, t->shape->dims[0], range);
    return right ? weight : NULL;
}

static void type_adam(gal_typer *t)
{
    uint32_t unit = 0;
    gal_group range;
    gal_group weight_range;
    if (!find_unit(t, t->operand[0].buffer, UNIT_WEIGHT, &unit)) {
        return;
    }
    gal_stretch *weight = own_weights(t, 0, &weight_range);
    if (weight == NULL || !holds_for_adam(t, unit, UNIT_GRADIENT, weight_range, &range)) {
        return;
    }
    t->now->update_count[unit]++;
    weight->value.in_place = t->operand[0].view != GAL_GROUP_NONE;
    weight->value.range = range;
}

/* A gradient that is summed, to where the weights of its unit were. */
static void type_keep_gradient(gal_typer *t)
{
    uint32_t unit = 0;
    gal_typed gradient;
    gal_group range;
    if (!find_unit(t, t->operand[1].buffer, UNIT_GRADIENT, &unit) ||
        !gal_type_holds(t, t->program->unit[unit].reuses, "a unit that has a gradient of its own") ||
        !gal_type_get_gradient(t, 0, t->shape->dims[0], &gradient, &range) ||
        !gal_type_holds(t, (gradient.partial & ~GAL_PARTIAL_TIED) == GAL_GROUP_NONE,
                        "keeps a gradient that is still a partial sum") ||
        !gal_type_holds(t, range == t->program->unit[unit].zero_group, "keeps another range than its unit's") ||
        !gal_type_expect_tensors(t, &gradient, unit)) {
        return;
    }
    gradient.in_place = t->operand[1].view != GAL_GROUP_NONE;
    gradient.range = range;
    gal_store_put(&t->now->store, t->operand[1].buffer, 0, gal_type_buffer_bytes(t, 1), &gradient);
}

/* The gradient becomes the weights. */
static void type_adam_in_place(gal_typer *t)
{
    uint32_t unit = 0;
    gal_typed gradient;
    gal_group range;
    if (find_unit(t, t->operand[0].buffer, UNIT_WEIGHT, &unit) &&
        gal_type_holds(t, t->program->unit[unit].reuses, "a unit that has a gradient of its own") &&
        gal_type_get_gradient(t, 0, t->shape->dims[0], &gradient, &range) &&
        gal_type_holds(t, gradient.kind == GAL_VALUE_GRADIENT, "updates by what is no gradient") &&
        gal_type_holds(t, gradient.partial == GAL_GROUP_NONE, "reads a gradient that is still a partial sum") &&
        gal_type_holds(t, range == t->in->group, "weights and gradients of different ranges") &&
        get_states(t, 1, unit, range) && gal_type_expect_tensors(t, &gradient, unit)) {
        t->now->update_count[unit]++;
        const gal_typed weight = {
            .kind = GAL_VALUE_WEIGHT, .unit = unit, .range = range, .in_place = t->operand[0].view != GAL_GROUP_NONE};
        gal_store_put(&t->now->store, t->operand[0].buffer, 0, gal_type_buffer_bytes(t, 0), &weight);
    }
}

static void type_host_adam(gal_typer *t)
{
    uint32_t unit = 0;
    gal_typed weight;
    gal_group range;
    if (find_unit(t, t->operand[0].buffer, UNIT_HOST_WEIGHT, &unit) && gal_type_expect_elements(t, 0) &&
        gal_type_get_kind(t, 0, gal_unit_is_fetched(&t->program->unit[unit]) ? GAL_VALUE_WEIGHT : GAL_VALUE_MOMENT,
                          &weight) &&
        gal_type_holds(t, t->operand[0].access == GAL_UPDATE, "weights that are not kept") &&
        holds_for_adam(t, unit, UNIT_HOST_GRADIENT, weight.range, &range)) {
        t->now->update_count[unit] = gal_unit_is_fetched(&t->program->unit[unit]) ? GAL_TYPE_HOST_UPDATES : 1;
    }
}

/* Whether it takes what forward keeps to the host, or brings it back. */
static bool moves_kept(const gal_typer *t)
{
    const uint32_t host = t->in->op == GAL_OP_COPY_OUT ? 1 : 0;
    const uint8_t class = t->program->buffer[t->operand[host].buffer].class;
    return class == GAL_CLASS_HOST_SAVED || class == GAL_CLASS_STORED_SAVED;
}

void gal_type_move(gal_typer *t)
{
    const gal_operand *to = &t->operand[1];
    gal_typed value;
    if (gal_type_expect_elements(t, 0) && gal_type_expect_elements(t, 1) &&
        gal_type_holds(t, gal_type_find(t, 0, &value), "reads what no instruction wrote as a whole") &&
        gal_type_holds(t, to->view == GAL_GROUP_NONE && to->access == GAL_WRITE, "an output in a place that is none")) {
        gal_store_put(&t->now->store, to->buffer, to->offset_bytes, to->offset_bytes + to->bytes, &value);
    }
}

/* A unit's complete gradient, or the norm. */
static void type_copy_out(gal_typer *t)
{
    uint32_t unit = 0;
    gal_typed value;
    if (moves_kept(t)) {
        gal_type_move(t);
        return;
    }
    if (!gal_type_expect_elements(t, 1)) {
        return;
    }
    if (t->operand[1].buffer == t->program->host_norm_buffer) {
        if (gal_type_get_kind(t, 0, GAL_VALUE_NORM, &value) && gal_type_expect_elements(t, 0)) {
            gal_type_put(t, 1, &value);
        }
        return;
    }
    if (!find_unit(t, t->operand[0].buffer, UNIT_GRADIENT, &unit) ||
        !gal_type_holds(t, t->operand[1].buffer == t->program->unit[unit].host_gradient,
                        "the gradient of another unit") ||
        !gal_type_get_gradient(t, 0, t->shape->dims[0], &value, &value.range)) {
        return;
    }
    value.in_place = false;
    gal_type_put(t, 1, &value);
}

/* Weights to where they are used. */
static void type_fetch(gal_typer *t)
{
    uint32_t unit = 0;
    gal_typed source;
    if (find_unit(t, t->operand[0].buffer, UNIT_WEIGHT, &unit) && gal_type_expect_elements(t, 0) &&
        gal_type_expect_elements(t, 1) && gal_type_get_kind(t, 0, GAL_VALUE_WEIGHT, &source)) {
        gal_type_put(t, 1, &source);
    }
}

static void type_copy_in(gal_typer *t)
{
    uint32_t unit = 0;
    gal_typed source;
    gal_group range;
    if (moves_kept(t)) {
        gal_type_move(t);
        return;
    }
    if (t->program->buffer[t->operand[0].buffer].class == GAL_CLASS_STORED) {
        gal_type_fetch_part(t);
        return;
    }
    if (t->program->buffer[t->operand[1].buffer].class == GAL_CLASS_GATHERED) {
        type_fetch(t);
        return;
    }
    if (!find_unit(t, t->operand[0].buffer, UNIT_HOST_WEIGHT, &unit) || !gal_type_expect_elements(t, 0) ||
        !gal_type_get_kind(t, 0, GAL_VALUE_MOMENT, &source) ||
        !gal_type_holds(t, t->operand[1].buffer == t->program->unit[unit].weight, "the weights of another unit") ||
        !gal_type_holds(t, t->operand[1].access == GAL_WRITE, "adds to weights") ||
        !gal_type_holds(t, t->now->update_count[unit] + 1 == GAL_TYPE_HOST_UPDATES,
                        "brings weights that are not new, or brings them twice")) {
        return;
    }
    gal_stretch *weight = own_weights(t, 1, &range);
    if (weight == NULL || !gal_type_holds(t, range == source.range, "weights of another range")) {
        return;
    }
    t->now->update_count[unit]++;
    weight->value.in_place = t->operand[1].view != GAL_GROUP_NONE;
    weight->value.range = range;
}

const gal_typing_rule gal_type_update_rules[GAL_OP_COUNT] = {
    [GAL_OP_NORM_START] = {type_norm_start, 1, 2},
    [GAL_OP_SUM_SQUARES] = {type_sum_squares, 2, 2},
    [GAL_OP_ADAM] = {type_adam, 5, 6},
    [GAL_OP_KEEP_GRADIENT] = {type_keep_gradient, 2, 2},
    [GAL_OP_ADAM_IN_PLACE] = {type_adam_in_place, 5, 5},
    [GAL_OP_HOST_ADAM] = {type_host_adam, 5, 6},
    [GAL_OP_COPY_OUT] = {type_copy_out, 2, 2},
    [GAL_OP_COPY_IN] = {type_copy_in, 2, 2},
};
