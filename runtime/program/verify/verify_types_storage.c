/* Typing rules of moments, masters and weights on storage: every part is read, updated once and in order, and written
 * back where it was; and weights are whole where they are used. And of what forward keeps there: it is what it was. */
#include "runtime/program/verify/verify_typer.h"

enum { WEIGHTS, GRADIENT, FIRST_MOMENT, SECOND_MOMENT, NORM, MASTER };

static bool find_in_file(const gal_typer *t, uint32_t buffer, uint32_t *unit, uint8_t *kind)
{
    for (uint32_t u = 0; u < t->program->unit_count; u++) {
        uint32_t buffers[GAL_STORED_KINDS];
        gal_unit_in_file(t->program, &t->program->unit[u], buffers);
        for (uint32_t k = 0; k < GAL_STORED_KINDS; k++) {
            if (buffers[k] == buffer) {
                *unit = u;
                *kind = (uint8_t)k;
                return true;
            }
        }
    }
    return false;
}

/* The part of a moment, master or weights that an operand in a file means. */
static bool part_in_file(gal_typer *t, uint32_t k, gal_typed *out)
{
    const gal_operand *o = &t->operand[k];
    const uint64_t item = gal_type_item_bytes(t, k);
    const gal_stretch *whole = gal_store_around(&t->now->store, o->buffer, o->offset_bytes, o->offset_bytes + o->bytes);
    uint32_t unit = 0;
    uint8_t moment = 0;
    if (!gal_type_holds(t, find_in_file(t, o->buffer, &unit, &moment), "an operand that belongs to no unit") ||
        !gal_type_holds(t,
                        whole != NULL &&
                            whole->value.kind == (moment == GAL_STORED_WEIGHT ? GAL_VALUE_WEIGHT : GAL_VALUE_MOMENT),
                        "a file without a moment or weights") ||
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

/* Whether it moves what forward keeps. */
static bool moves_kept(const gal_typer *t, uint32_t file)
{
    return t->program->buffer[t->operand[file].buffer].class == GAL_CLASS_STORAGE_SAVED;
}

static void type_storage_read(gal_typer *t)
{
    gal_typed part;
    if (moves_kept(t, 0)) {
        gal_type_move(t);
        return;
    }
    if (part_in_file(t, 0, &part) && gal_type_expect_elements(t, 1)) {
        gal_type_put(t, 1, &part);
    }
}

static void type_storage_write(gal_typer *t)
{
    gal_typed part, value;
    if (moves_kept(t, 1)) {
        gal_type_move(t);
        return;
    }
    if (!part_in_file(t, 1, &part) || !gal_type_expect_elements(t, 0) ||
        !gal_type_get_kind(t, 0, GAL_VALUE_STORED, &value) ||
        !gal_type_holds(t, value.unit == part.unit && value.moment == part.moment, "writes what is of another unit") ||
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

static uint32_t unit_of_host_gradient(const gal_typer *t, uint32_t buffer)
{
    uint32_t unit = 0;
    while (unit < t->program->unit_count && t->program->unit[unit].host_gradient != buffer) {
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

/* What was read from the file: of this part, and not yet updated. */
static bool get_stored(gal_typer *t, uint32_t k, uint8_t kind, uint32_t unit, gal_group range)
{
    gal_typed value;
    return gal_type_get_kind(t, k, GAL_VALUE_STORED, &value) && gal_type_expect_elements(t, k) &&
           gal_type_holds(t, value.unit == unit && value.moment == kind, "what is of another unit") &&
           gal_type_holds(t,
                          value.first_element == t->shape->dims[3] && value.element_count == t->shape->dims[0] &&
                              value.range == range,
                          "what is of another part") &&
           gal_type_holds(t, !value.updated, "updates a part twice") &&
           gal_type_holds(t, t->operand[k].access == GAL_UPDATE, "what is read and not kept");
}

/* In the file, in the host's memory, or there is none. */
static bool get_master(gal_typer *t, const gal_unit *unit, uint32_t index, gal_group range)
{
    gal_typed master;
    uint32_t in_file[GAL_STORED_KINDS];
    gal_unit_in_file(t->program, unit, in_file);
    if (in_file[GAL_STORED_MASTER] != GAL_NO_BUFFER) {
        return gal_type_holds(t, t->in->operand_count > MASTER, "updates without the master") &&
               get_stored(t, MASTER, GAL_STORED_MASTER, index, range);
    }
    return t->in->operand_count <= MASTER || get_kept(t, MASTER, unit->master, GAL_VALUE_MOMENT, &master);
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

/* In the host's memory; or of the file's a part that was read. */
static bool get_weights(gal_typer *t, const gal_unit *unit, uint32_t index, gal_group *range)
{
    if (!gal_unit_stores_weights(t->program, unit)) {
        gal_typed weight;
        const gal_value_kind kind = gal_unit_is_fetched(unit) ? GAL_VALUE_WEIGHT : GAL_VALUE_MOMENT;
        const bool kept = get_kept(t, WEIGHTS, unit->host_weight, kind, &weight);
        *range = kept ? weight.range : GAL_GROUP_NONE;
        return kept;
    }
    const gal_stretch *file = gal_store_around(&t->now->store, unit->weight, 0, 1);
    if (!gal_type_holds(t, file != NULL && file->value.kind == GAL_VALUE_WEIGHT, "no weights")) {
        return false;
    }
    *range = file->value.range;
    return get_stored(t, WEIGHTS, GAL_STORED_WEIGHT, index, *range);
}

/* What the update of a part reads. */
static bool holds_for_part(gal_typer *t, const gal_unit *unit, uint32_t index, gal_group *range)
{
    gal_typed norm;
    return get_weights(t, unit, index, range) && get_gradient(t, unit, index, *range) &&
           get_stored(t, FIRST_MOMENT, 0, index, *range) && get_stored(t, SECOND_MOMENT, 1, index, *range) &&
           gal_type_get_kind(t, NORM, GAL_VALUE_NORM, &norm) &&
           gal_type_holds(t, norm.partial == GAL_GROUP_NONE, "reads a norm that is not yet summed") &&
           get_master(t, unit, index, *range) &&
           gal_type_holds(t, t->shape->dims[1] == unit->decay_elements, "decays other elements") &&
           gal_type_holds(t, t->shape->dims[2] == unit->shard_elements, "a part of another shard") &&
           gal_type_holds(t, t->now->stored[index].updated == t->shape->dims[3],
                          "updates parts twice, or not in their order");
}

static void type_host_adam_part(gal_typer *t)
{
    gal_group range = GAL_GROUP_NONE;
    const uint32_t index = unit_of_host_gradient(t, t->operand[GRADIENT].buffer);
    if (!gal_type_holds(t, index < t->program->unit_count, "an operand that belongs to no unit")) {
        return;
    }
    const gal_unit *unit = &t->program->unit[index];
    if (!holds_for_part(t, unit, index, &range)) {
        return;
    }
    for (uint32_t k = 0; k < t->in->operand_count; k++) {
        const gal_operand *o = &t->operand[k];
        gal_stretch *at = gal_store_exact(&t->now->store, o->buffer, o->offset_bytes, o->offset_bytes + o->bytes);
        if (at != NULL && at->value.kind == GAL_VALUE_STORED) {
            at->value.updated = true;
        }
    }
    t->now->stored[index].updated += t->shape->dims[0];
    if (t->now->stored[index].updated == unit->shard_elements) {
        t->now->update_count[index] = gal_unit_is_fetched(unit) ? GAL_TYPE_HOST_UPDATES : 1;
    }
}

/* Where all parts of a unit's weights lie one behind the other, as a part of it was put there now, they are these. */
static void join_weights(gal_typer *t, uint32_t k, const gal_typed *part)
{
    gal_store *store = &t->now->store;
    const uint32_t buffer = t->operand[k].buffer;
    const uint64_t bytes = t->program->unit[part->unit].shard_elements * gal_type_item_bytes(t, k);
    const gal_typed weight = {.kind = GAL_VALUE_WEIGHT, .unit = part->unit, .range = part->range};
    const gal_stretch *s = NULL;
    uint64_t end = 0;
    uint32_t at = 0;
    while ((s = gal_store_next(store, buffer, 0, bytes, &at)) != NULL) {
        if (s->value.kind != GAL_VALUE_STORED || s->value.unit != part->unit || s->value.moment != part->moment ||
            s->begin != end || s->end > bytes) {
            return;
        }
        end = s->end;
    }
    if (end == bytes) {
        gal_store_put(store, buffer, 0, bytes, &weight);
    }
}

void gal_type_fetch_part(gal_typer *t)
{
    const gal_operand *to = &t->operand[1];
    gal_typed part;
    if (gal_type_get_kind(t, 0, GAL_VALUE_STORED, &part) &&
        gal_type_holds(t, part.moment == GAL_STORED_WEIGHT && !part.updated, "fetches what are no weights") &&
        gal_type_expect_elements(t, 0) && gal_type_expect_elements(t, 1) &&
        gal_type_holds(t, part.element_count == t->shape->dims[0], "fetches another part than was read") &&
        gal_type_holds(t, to->offset_bytes == part.first_element * gal_type_item_bytes(t, 1),
                       "fetches a part to the place of another") &&
        gal_type_put(t, 1, &part)) {
        join_weights(t, 1, &part);
    }
}

bool gal_type_is_stored(const gal_type_stage *stage, uint32_t unit)
{
    const gal_unit *at = &stage->program->unit[unit];
    uint32_t in_file[GAL_STORED_KINDS];
    gal_unit_in_file(stage->program, at, in_file);
    bool written = true;
    for (uint32_t k = 0; k < GAL_STORED_KINDS; k++) {
        written = written && (in_file[k] == GAL_NO_BUFFER || stage->stored[unit].written[k] == at->shard_elements);
    }
    return written;
}

const gal_typing_rule gal_type_storage_rules[GAL_OP_COUNT] = {
    [GAL_OP_HOST_ADAM_PART] = {type_host_adam_part, 5, 6},
    [GAL_OP_STORAGE_READ] = {type_storage_read, 2, 2},
    [GAL_OP_STORAGE_WRITE] = {type_storage_write, 2, 2},
};
