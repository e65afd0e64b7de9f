/* Typing rules of moments on storage: every part is read, updated once and in order, and written back where it was. */
#include "runtime/program/verify/verify_typer.h"

enum { WEIGHTS, GRADIENT, FIRST_MOMENT, SECOND_MOMENT, NORM, MASTER };

static bool find_moment(const gal_typer *t, uint32_t buffer, uint32_t *unit, uint8_t *moment)
{
    for (uint32_t u = 0; u < t->program->unit_count; u++) {
        const gal_unit *at = &t->program->unit[u];
        if (at->first_moment == buffer || at->second_moment == buffer) {
            *unit = u;
            *moment = at->second_moment == buffer;
            return true;
        }
    }
    return false;
}

/* The part of a moment that an operand in a file means. */
static bool part_in_file(gal_typer *t, uint32_t k, gal_typed *out)
{
    const gal_operand *o = &t->operand[k];
    const uint64_t item = gal_type_item_bytes(t, k);
    const gal_stretch *whole = gal_store_around(&t->now->store, o->buffer, o->offset_bytes, o->offset_bytes + o->bytes);
    uint32_t unit = 0;
    uint8_t moment = 0;
    if (!gal_type_holds(t, find_moment(t, o->buffer, &unit, &moment), "an operand that belongs to no unit") ||
        !gal_type_holds(t, whole != NULL && whole->value.kind == GAL_VALUE_MOMENT, "a file without a moment") ||
        !gal_type_holds(t, o->offset_bytes % GAL_STORAGE_BLOCK_BYTES == 0, "a part that begins within a block") ||
        !gal_type_expect_elements(t, k)) {
        return false;
    }
    *out = (gal_typed){.kind = GAL_VALUE_STORED,
                       .unit = unit,
                       .moment = moment,
                       .range = whole->value.range,
                       .first_element = o->offset_bytes / item,
                       .element_count = o->bytes / item};
    return true;
}

static void type_storage_read(gal_typer *t)
{
    gal_typed part;
    if (part_in_file(t, 0, &part) && gal_type_expect_elements(t, 1)) {
        gal_type_put(t, 1, &part);
    }
}

static void type_storage_write(gal_typer *t)
{
    gal_typed part, value;
    if (!part_in_file(t, 1, &part) || !gal_type_expect_elements(t, 0) ||
        !gal_type_get_kind(t, 0, GAL_VALUE_STORED, &value) ||
        !gal_type_holds(t, value.unit == part.unit && value.moment == part.moment,
                        "writes the moment of another unit") ||
        !gal_type_holds(t,
                        value.first_element == part.first_element && value.element_count == part.element_count &&
                            value.range == part.range,
                        "writes a part to the place of another") ||
        !gal_type_holds(t, value.updated, "writes what is not updated") ||
        !gal_type_holds(t, t->operand[1].access == GAL_WRITE, "an output in a place that is none")) {
        return;
    }
    uint64_t *written = &t->now->stored[part.unit].written[part.moment];
    if (gal_type_holds(t, *written == part.first_element, "writes parts twice, or not in their order")) {
        *written += part.element_count;
    }
}

static uint32_t unit_of_host_weight(const gal_typer *t, uint32_t buffer)
{
    uint32_t unit = 0;
    while (unit < t->program->unit_count && t->program->unit[unit].host_weight != buffer) {
        unit++;
    }
    return unit;
}

/* The elements [first, + elements) of a shard in the host's memory. */
static bool means_part(gal_typer *t, uint32_t k)
{
    const gal_operand *o = &t->operand[k];
    return gal_type_expect_elements(t, k) &&
           gal_type_holds(t,
                          o->view == GAL_GROUP_NONE && o->offset_bytes == t->shape->dims[3] * gal_type_item_bytes(t, k),
                          "an operand of another part");
}

/* Of a shard in the host's memory, in operand k: what it is. */
static bool get_kept(gal_typer *t, uint32_t k, uint32_t buffer, gal_value_kind kind, gal_typed *out)
{
    const gal_operand *o = &t->operand[k];
    const gal_stretch *at = gal_store_around(&t->now->store, o->buffer, o->offset_bytes, o->offset_bytes + o->bytes);
    if (!gal_type_holds(t, o->buffer == buffer, "an operand of another unit") || !means_part(t, k) ||
        !gal_type_holds(t, at != NULL && at->value.kind == kind, "no weights, or no masters") ||
        !gal_type_holds(t, o->access == GAL_UPDATE, "what is not kept")) {
        return false;
    }
    *out = at->value;
    return true;
}

static bool get_moment(gal_typer *t, uint32_t k, uint32_t unit, gal_group range)
{
    gal_typed value;
    return gal_type_get_kind(t, k, GAL_VALUE_STORED, &value) && gal_type_expect_elements(t, k) &&
           gal_type_holds(t, value.unit == unit && value.moment == k - FIRST_MOMENT, "a moment of another unit") &&
           gal_type_holds(t,
                          value.first_element == t->shape->dims[3] && value.element_count == t->shape->dims[0] &&
                              value.range == range,
                          "a moment of another part") &&
           gal_type_holds(t, !value.updated, "updates a part twice") &&
           gal_type_holds(t, t->operand[k].access == GAL_UPDATE, "a moment that is not kept");
}

static bool get_gradient(gal_typer *t, const gal_unit *unit, uint32_t index, gal_group range)
{
    gal_typed gradient;
    const uint64_t bytes = unit->shard_elements * gal_type_item_bytes(t, GRADIENT);
    if (!gal_type_holds(t, t->operand[GRADIENT].buffer == unit->host_gradient, "the gradient of another unit") ||
        !means_part(t, GRADIENT)) {
        return false;
    }
    const char *rule = gal_store_gradient(&t->now->store, unit->host_gradient, bytes, &gradient);
    return gal_type_holds(t, rule == NULL, rule) &&
           gal_type_holds(t, gradient.partial == GAL_GROUP_NONE, "reads a gradient that is still a partial sum") &&
           gal_type_holds(t, !gradient.in_place && gradient.range == range && range == t->in->group,
                          "weights and gradients of different ranges") &&
           gal_type_expect_tensors(t, &gradient, index);
}

static bool holds_for_part(gal_typer *t, const gal_unit *unit, uint32_t index)
{
    gal_typed weight, norm, master;
    const gal_value_kind kind = gal_unit_is_fetched(unit) ? GAL_VALUE_WEIGHT : GAL_VALUE_MOMENT;
    return get_kept(t, WEIGHTS, unit->host_weight, kind, &weight) && get_gradient(t, unit, index, weight.range) &&
           get_moment(t, FIRST_MOMENT, index, weight.range) && get_moment(t, SECOND_MOMENT, index, weight.range) &&
           gal_type_get_kind(t, NORM, GAL_VALUE_NORM, &norm) &&
           gal_type_holds(t, norm.partial == GAL_GROUP_NONE, "reads a norm that is not yet summed") &&
           (t->in->operand_count <= MASTER || get_kept(t, MASTER, unit->master, GAL_VALUE_MOMENT, &master)) &&
           gal_type_holds(t, t->shape->dims[1] == unit->decay_elements, "decays other elements") &&
           gal_type_holds(t, t->shape->dims[2] == unit->shard_elements, "a part of another shard") &&
           gal_type_holds(t, t->now->stored[index].updated == t->shape->dims[3],
                          "updates parts twice, or not in their order");
}

static void type_host_adam_part(gal_typer *t)
{
    const uint32_t index = unit_of_host_weight(t, t->operand[WEIGHTS].buffer);
    if (!gal_type_holds(t, index < t->program->unit_count, "an operand that belongs to no unit")) {
        return;
    }
    const gal_unit *unit = &t->program->unit[index];
    if (!holds_for_part(t, unit, index)) {
        return;
    }
    for (uint32_t k = FIRST_MOMENT; k <= SECOND_MOMENT; k++) {
        const gal_operand *o = &t->operand[k];
        gal_store_exact(&t->now->store, o->buffer, o->offset_bytes, o->offset_bytes + o->bytes)->value.updated = true;
    }
    t->now->stored[index].updated += t->shape->dims[0];
    if (t->now->stored[index].updated == unit->shard_elements) {
        t->now->update_count[index] = gal_unit_is_fetched(unit) ? GAL_TYPE_HOST_UPDATES : 1;
    }
}

bool gal_type_is_stored(const gal_type_stage *stage, uint32_t unit)
{
    const uint64_t elements = stage->program->unit[unit].shard_elements;
    return stage->stored[unit].written[0] == elements && stage->stored[unit].written[1] == elements;
}

const gal_typing_rule gal_type_storage_rules[GAL_OP_COUNT] = {
    [GAL_OP_HOST_ADAM_PART] = {type_host_adam_part, 5, 6},
    [GAL_OP_STORAGE_READ] = {type_storage_read, 2, 2},
    [GAL_OP_STORAGE_WRITE] = {type_storage_write, 2, 2},
};
