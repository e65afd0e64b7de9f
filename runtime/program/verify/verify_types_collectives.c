/* Typing rules of collectives, sends and receives. */
#include "runtime/program/verify/verify_typer.h"

static gal_group partial_bits(gal_group group)
{
    if ((group & GAL_GROUP_RELATION) == 0) {
        return group;
    }
    return gal_shared_of_group(group) != GAL_SHARED_COUNT ? GAL_PARTIAL_TIED
           : group == GAL_GROUP_WORLD                     ? GAL_PARTIAL_WORLD
                                                          : GAL_GROUP_NONE;
}

static bool take_off(gal_typer *t, gal_group *partial, gal_group bits)
{
    if (!gal_type_holds(t, bits != GAL_GROUP_NONE && (bits & ~*partial) == 0,
                        "sums over devices whose values are no parts")) {
        return false;
    }
    *partial &= ~bits;
    return true;
}

/* All stages that hold a copy must sum the same thing; whoever comes later compares with the first. */
static bool meet_other_copies(gal_typer *t, const gal_typed *gradient)
{
    const gal_shared shared = gal_shared_of_group(t->in->group);
    const gal_type_stage *other = t->stage;
    t->now->tied[shared] = *gradient;
    t->now->has_tied[shared] = true;
    while (!other->has_tied[shared]) {
        other++;
    }
    return gal_type_holds(t, gal_type_same_pieces(&t->now->store, gradient, &other->store, &other->tied[shared]),
                          "the copies of the tied table have different forms");
}

/* The gradient is of a unit whose copies are on the stages of the group. */
static bool is_of_copies(gal_typer *t)
{
    for (uint32_t u = 0; u < t->program->unit_count; u++) {
        if (t->program->unit[u].gradient == t->operand[0].buffer) {
            return gal_type_holds(t, t->program->unit[u].copies == t->in->group,
                                  "sums over stages that hold no copies of it");
        }
    }
    return gal_type_broken(t, "sums over stages what is no gradient");
}

static void reduce_gradient(gal_typer *t, gal_group bits)
{
    gal_typed value;
    gal_group range;
    if (!gal_type_get_gradient(t, 0, t->shape->dims[0], &value, &range) ||
        (bits == GAL_PARTIAL_TIED && (!is_of_copies(t) || !meet_other_copies(t, &value))) ||
        !take_off(t, &value.partial, bits)) {
        return;
    }
    gal_store_put(&t->now->store, t->operand[0].buffer, 0, gal_type_buffer_bytes(t, 0), &value);
}

static void type_all_reduce(gal_typer *t)
{
    const gal_operand *o = &t->operand[0];
    gal_group bits = partial_bits(t->in->group);
    gal_stretch *at = gal_store_exact(&t->now->store, o->buffer, o->offset_bytes, o->offset_bytes + o->bytes);
    bool is_maximum = t->shape->dims[1] == GAL_REDUCE_MAX;
    if (!gal_type_expect_elements(t, 0) || !gal_type_holds(t, o->access == GAL_UPDATE, "must update its operand")) {
        return;
    }
    if (!gal_type_holds(t, at == NULL || (at->value.chunks == 0 && at->value.terms_left == 0),
                        "sums parts of a panel")) {
        return;
    }
    if (at == NULL || at->value.kind == GAL_VALUE_GRADIENT || at->value.kind == GAL_VALUE_PIECE) {
        if (gal_type_holds(t, !is_maximum, "takes the maximum of a sum")) {
            reduce_gradient(t, bits);
        }
    } else if (at->value.kind == GAL_VALUE_ROWS || at->value.kind == GAL_VALUE_NORM) {
        if (!gal_type_expect_order(t, &at->value)) {
            return;
        }
        if (is_maximum) {
            take_off(t, &at->value.max_partial, bits);
        } else if (gal_type_holds(t, at->value.max_partial == GAL_GROUP_NONE, "sums maxima")) {
            take_off(t, &at->value.partial, bits);
        }
    } else {
        gal_type_broken(t, "sums values that are no parts");
    }
}

/* Elements of one member's chunk, given the chunk and the whole. */
static bool expect_chunks(gal_typer *t, uint64_t chunk_bytes, uint64_t whole_bytes)
{
    return gal_type_holds(t, t->shape->dims[0] * gal_type_item_bytes(t, 0) == chunk_bytes,
                          "its shape has another size") &&
           gal_type_holds(t, chunk_bytes * gal_type_size_of(t, t->in->group) == whole_bytes,
                          "the chunks are not the whole");
}

/* Parts of the features one behind another. */
static void gather_features(gal_typer *t, gal_typed value)
{
    const gal_operand *o = &t->operand[1];
    value.split = GAL_GROUP_NONE;
    value.chunks = value.chunk = gal_type_size_of(t, t->in->group);
    if (gal_type_holds(t, o->view == GAL_GROUP_NONE && o->access == GAL_WRITE, "an output in a place that is none") &&
        gal_type_holds(t, (value.partial | value.max_partial) == GAL_GROUP_NONE, "reads a sum that is still partial")) {
        gal_store_put(&t->now->store, o->buffer, o->offset_bytes, o->offset_bytes + o->bytes, &value);
    }
}

/* Tensors of a unit, each cut over these devices. */
static bool are_cut(const gal_typer *t, uint32_t unit, uint64_t first_element, uint64_t element_count)
{
    const uint64_t end = first_element + element_count;
    uint64_t covered = first_element;
    for (uint32_t i = t->now->first_parameter[unit]; i < t->now->first_parameter[unit + 1]; i++) {
        const gal_parameter *p = &t->program->parameter[i];
        if (p->offset_elements == covered && covered < end) {
            covered += gal_type_local_elements(t, p);
            if (!gal_type_cuts_last(p->outer_group, t->in->group) &&
                !gal_type_cuts_last(p->split_group, t->in->group) &&
                !gal_type_cuts_last(p->inner_group, t->in->group)) {
                return false;
            }
        }
    }
    return covered == end;
}

/* A panel of weights, of a part of a unit. False: the operand is none. */
static bool gather_weights(gal_typer *t)
{
    const gal_operand *from = &t->operand[0], *to = &t->operand[1];
    const uint64_t item = gal_type_item_bytes(t, 0);
    const gal_stretch *at =
        gal_store_around(&t->now->store, from->buffer, from->offset_bytes, from->offset_bytes + from->bytes);
    if (t->in->operand_count < 2 || at == NULL || at->value.kind != GAL_VALUE_WEIGHT || at->value.in_place ||
        at->value.range != GAL_GROUP_NONE || at->value.chunks > 0) {
        return false;
    }
    const uint32_t members = gal_type_size_of(t, t->in->group);
    const gal_typed panel = {.kind = GAL_VALUE_WEIGHT,
                             .unit = at->value.unit,
                             .split = t->in->group,
                             .chunks = members,
                             .chunk = members,
                             .first_element = (from->offset_bytes - at->begin) / item,
                             .element_count = from->bytes / item};
    if (expect_chunks(t, from->bytes, to->bytes) &&
        gal_type_holds(t,
                       from->view == GAL_GROUP_NONE && are_cut(t, panel.unit, panel.first_element, panel.element_count),
                       "gathers what is not cut over these devices") &&
        gal_type_holds(t, to->view == GAL_GROUP_NONE && to->access == GAL_WRITE, "an output in a place that is none")) {
        gal_store_put(&t->now->store, to->buffer, to->offset_bytes, to->offset_bytes + to->bytes, &panel);
        t->now->panels[t->in->block] |= t->in->group;
    }
    return true;
}

static void gather_rows(gal_typer *t, gal_typed value)
{
    gal_rows to;
    if (value.split != GAL_GROUP_NONE && value.split == t->in->group) {
        gather_features(t, value);
        return;
    }
    const char *rule = gal_rows_gather(&t->rows[value.rows], &t->program->atoms, t->in->group, &to);
    if (gal_type_holds(t, rule == NULL, rule)) {
        value.rows = gal_type_intern(t, &to);
        gal_type_put_rows(t, 1, value, value.features);
    }
}

static void type_all_gather(gal_typer *t)
{
    gal_typed value;
    bool in_place = t->shape->dims[1] != 0;
    uint64_t whole = t->operand[in_place ? 0 : 1].bytes;
    uint64_t chunk = in_place ? whole / gal_type_size_of(t, t->in->group) : t->operand[0].bytes;
    if (!in_place && gather_weights(t)) {
        return;
    }
    if (!gal_type_get(t, 0, &value) || !expect_chunks(t, chunk, whole)) {
        return;
    }
    if (value.kind == GAL_VALUE_ROWS && !in_place) {
        gather_rows(t, value);
        return;
    }
    if (!gal_type_holds(t, value.kind == GAL_VALUE_WEIGHT && value.in_place == in_place && value.range == t->in->group,
                        "gathers what is not cut over these devices")) {
        return;
    }
    const gal_operand *o = &t->operand[in_place ? 0 : 1];
    value.in_place = false;
    value.range = GAL_GROUP_NONE;
    gal_store_put(&t->now->store, o->buffer, o->offset_bytes, o->offset_bytes + o->bytes, &value);
}

/* ---- one part of a panel at a time: what the root of a group has goes to all, or what all have is summed to it ----
 */

static bool expect_root(gal_typer *t)
{
    return gal_type_holds(t, t->shape->dims[1] < gal_type_size_of(t, t->in->group), "its root is no member") &&
           gal_type_expect_elements(t, 0) &&
           gal_type_holds(t, t->operand[0].bytes == t->operand[1].bytes, "moves to a place of another size");
}

static void put_whole(gal_typer *t, const gal_typed *value)
{
    const gal_operand *to = &t->operand[1];
    gal_store_put(&t->now->store, to->buffer, to->offset_bytes, to->offset_bytes + to->bytes, value);
}

/* Weights, or features, that are cut over the group: part `root` of their panel. */
static void type_broadcast(gal_typer *t)
{
    const gal_operand *from = &t->operand[0], *to = &t->operand[1];
    const gal_stretch *at =
        gal_store_around(&t->now->store, from->buffer, from->offset_bytes, from->offset_bytes + from->bytes);
    const bool weights = at != NULL && at->value.kind == GAL_VALUE_WEIGHT;
    gal_typed value;
    if (!expect_root(t) || (!weights && !gal_type_get_kind(t, 0, GAL_VALUE_ROWS, &value)) ||
        !gal_type_holds(t, to->view == GAL_GROUP_NONE && to->access == GAL_WRITE,
                        "an output in a place that is none")) {
        return;
    }
    if (weights) {
        const uint64_t item = gal_type_item_bytes(t, 0);
        value = (gal_typed){.kind = GAL_VALUE_WEIGHT,
                            .unit = at->value.unit,
                            .split = t->in->group,
                            .first_element = (from->offset_bytes - at->begin) / item,
                            .element_count = from->bytes / item};
        if (!gal_type_holds(t, !at->value.in_place && at->value.range == GAL_GROUP_NONE && at->value.chunks == 0,
                            "reads weights that are not gathered") ||
            !gal_type_holds(
                t, from->view == GAL_GROUP_NONE && are_cut(t, value.unit, value.first_element, value.element_count),
                "spreads what is not cut over these devices")) {
            return;
        }
        t->now->panels[t->in->block] |= t->in->group;
    } else {
        if (!gal_type_holds(t, value.split == t->in->group && value.split != GAL_GROUP_NONE,
                            "spreads what is not cut over these devices") ||
            !gal_type_holds(t, (value.partial | value.max_partial) == GAL_GROUP_NONE,
                            "reads a sum that is still partial")) {
            return;
        }
        value.split = GAL_GROUP_NONE;
    }
    value.chunks = gal_type_size_of(t, t->in->group);
    value.chunk = t->shape->dims[1];
    put_whole(t, &value);
}

/* The target is that of the members before the root too, in order; when the last one has its part all have. */
static bool follows(gal_typer *t, const gal_typed *sum)
{
    const gal_operand *to = &t->operand[1];
    const gal_stretch *at = gal_store_exact(&t->now->store, to->buffer, to->offset_bytes, to->offset_bytes + to->bytes);
    const uint32_t root = t->shape->dims[1];
    if (!gal_type_holds(t, to->view == GAL_GROUP_NONE && to->access == (root == 0 ? GAL_WRITE : GAL_UPDATE),
                        "an output in a place that is none")) {
        return false;
    }
    return root == 0 ||
           gal_type_holds(t,
                          at != NULL && at->value.kind == sum->kind && at->value.terms_left == sum->terms_left + 1 &&
                              at->value.chunks == 0 && at->value.rows == sum->rows && at->value.split == sum->split &&
                              at->value.features == sum->features && at->value.partial == sum->partial &&
                              at->value.m == sum->m && at->value.n == sum->n && at->value.split_m == sum->split_m &&
                              at->value.split_n == sum->split_n,
                          "sums the parts of a panel out of order");
}

static void type_reduce(gal_typer *t)
{
    gal_typed sum;
    if (!expect_root(t) || !gal_type_get_part(t, 0, &sum) ||
        !gal_type_holds(t, sum.kind == GAL_VALUE_ROWS || sum.kind == GAL_VALUE_PIECE,
                        "sums values that are no parts") ||
        !gal_type_holds(t, sum.chunks == gal_type_size_of(t, t->in->group) && sum.chunk == t->shape->dims[1],
                        "sums another part than its root's") ||
        !gal_type_holds(t, sum.terms_left == 0, "reads a sum of which terms are missing") ||
        !gal_type_holds(t, ((sum.split | sum.split_m | sum.split_n) & t->in->group) == 0,
                        "cuts what is split over the same devices") ||
        !take_off(t, &sum.partial, t->in->group)) {
        return;
    }
    *(sum.kind == GAL_VALUE_ROWS ? &sum.split : sum.chunk_rows ? &sum.split_m : &sum.split_n) |= t->in->group;
    sum.terms_left = sum.chunks - 1 - sum.chunk;
    sum.chunks = sum.chunk = 0;
    sum.chunk_rows = false;
    if (follows(t, &sum)) {
        put_whole(t, &sum);
    }
}

/* Of a panel each device has the sum of its part. */
static void scatter_features(gal_typer *t, gal_typed value)
{
    if (gal_type_holds(t, value.chunk == value.chunks && value.chunks == gal_type_size_of(t, t->in->group),
                       "scatters another number of parts") &&
        take_off(t, &value.partial, t->in->group)) {
        value.chunks = value.chunk = 0;
        value.split = t->in->group;
        gal_type_put_rows(t, 1, value, value.features);
    }
}

/* The gradient of one tensor. */
static void scatter_piece(gal_typer *t, gal_typed piece)
{
    const gal_operand *to = &t->operand[1];
    if (gal_type_holds(t, piece.chunk == piece.chunks && piece.chunks == gal_type_size_of(t, t->in->group),
                       "scatters another number of parts") &&
        gal_type_holds(t, ((piece.split_m | piece.split_n) & t->in->group) == 0,
                       "cuts what is split over the same devices") &&
        take_off(t, &piece.partial, t->in->group)) {
        *(piece.chunk_rows ? &piece.split_m : &piece.split_n) |= t->in->group;
        piece.chunks = piece.chunk = 0;
        piece.chunk_rows = false;
        if (gal_type_holds(t, to->view == GAL_GROUP_NONE && to->access == GAL_WRITE,
                           "an output in a place that is none")) {
            gal_store_put(&t->now->store, to->buffer, to->offset_bytes, to->offset_bytes + to->bytes, &piece);
        }
    }
}

/* Rows of a gradient that was written as one matrix: those of one tensor, each device's chunk of them to it. */
static void scatter_matrix(gal_typer *t, const gal_stretch *at)
{
    const gal_operand *from = &t->operand[0], *to = &t->operand[1];
    gal_typed piece = at->value;
    const uint64_t row_bytes = piece.n * gal_type_item_bytes(t, 0), members = gal_type_size_of(t, t->in->group);
    const gal_group cut = piece.split_m | t->in->group;
    if (gal_type_holds(t, (from->offset_bytes - at->begin) % row_bytes == 0 && from->bytes % (members * row_bytes) == 0,
                       "the rows do not divide by the group") &&
        gal_type_holds(t,
                       ((piece.split_m | piece.split_n) & t->in->group) == 0 && gal_type_cuts_last(cut, t->in->group),
                       "cuts what is split over the same devices") &&
        take_off(t, &piece.partial, t->in->group) &&
        gal_type_holds(t, to->view == GAL_GROUP_NONE && to->access == GAL_WRITE, "an output in a place that is none")) {
        piece.split_m = cut;
        const uint64_t rows = from->bytes / row_bytes;
        piece.first_row = (from->offset_bytes - at->begin) / row_bytes / members;
        piece.row_count = rows < piece.m ? piece.m / members : 0;
        piece.m = rows / members;
        gal_store_put(&t->now->store, to->buffer, to->offset_bytes, to->offset_bytes + to->bytes, &piece);
    }
}

/* Whether this block has gathered weights over these devices, rather than that ZeRO cuts its units over them. */
static bool scatters_panels(const gal_typer *t)
{
    return t->in->group != GAL_GROUP_NONE && (t->in->group & ~t->now->panels[t->in->block]) == 0;
}

static void scatter_rows(gal_typer *t, gal_typed value)
{
    gal_rows to;
    if (value.chunks > 0) {
        scatter_features(t, value);
        return;
    }
    const char *rule = gal_rows_scatter(&t->rows[value.rows], &t->program->atoms, t->in->group, &to);
    if (gal_type_holds(t, rule == NULL, rule) && take_off(t, &value.partial, t->in->group)) {
        value.rows = gal_type_intern(t, &to);
        gal_type_put_rows(t, 1, value, value.features);
    }
}

static void type_reduce_scatter(gal_typer *t)
{
    bool in_place = t->shape->dims[1] != 0;
    const gal_operand *from = &t->operand[0];
    const gal_operand *to = &t->operand[in_place ? 0 : 1];
    uint64_t chunk = in_place ? from->bytes / gal_type_size_of(t, t->in->group) : to->bytes;
    gal_typed value;
    if (!expect_chunks(t, chunk, from->bytes)) {
        return;
    }
    gal_stretch *at =
        gal_store_exact(&t->now->store, from->buffer, from->offset_bytes, from->offset_bytes + from->bytes);
    if (at != NULL && at->value.kind == GAL_VALUE_ROWS && !in_place) {
        if (gal_type_expect_order(t, &at->value)) {
            scatter_rows(t, at->value);
        }
        return;
    }
    if (at != NULL && at->value.kind == GAL_VALUE_PIECE && at->value.chunks > 0 && !in_place) {
        scatter_piece(t, at->value);
        return;
    }
    at = gal_store_around(&t->now->store, from->buffer, from->offset_bytes, from->offset_bytes + from->bytes);
    if (at != NULL && at->value.kind == GAL_VALUE_PIECE && at->value.chunks == 0 && !in_place && scatters_panels(t)) {
        scatter_matrix(t, at);
        return;
    }
    const char *rule = gal_store_gradient(&t->now->store, from->buffer, from->bytes, &value);
    if (gal_type_holds(t, rule == NULL, rule) &&
        gal_type_holds(t, from->offset_bytes == 0, "scatters a part of a gradient") &&
        gal_type_holds(t, value.range == GAL_GROUP_NONE, "scatters a gradient that is cut already") &&
        gal_type_holds(t, (gal_type_devices_of_pieces(t, &value) & t->in->group) == 0,
                       "cuts what is split over the same devices") &&
        take_off(t, &value.partial, t->in->group)) {
        value.range = t->in->group;
        value.in_place = in_place;
        gal_store_put(&t->now->store, to->buffer, to->offset_bytes, to->offset_bytes + to->bytes, &value);
    }
}

/* Of a panel of parts of the features, everybody's rows of the own part; or of rows with the own part of the features,
 * a chunk of the rows with all parts, as a panel. */
static const char *exchange_panel(const gal_typer *t, gal_typed *value, gal_rows *to)
{
    const gal_group group = t->in->group;
    const uint32_t members = gal_type_size_of(t, group);
    if ((value->partial | value->max_partial | value->dealt | value->within) != GAL_GROUP_NONE) {
        return "exchanges parts of what is not whole";
    }
    if (value->chunks > 0) {
        if (value->chunk != value->chunks || value->chunks != members || value->split != GAL_GROUP_NONE) {
            return "exchanges another number of parts";
        }
        value->chunks = value->chunk = 0;
        value->split = group;
        return gal_rows_gather(&t->rows[value->rows], &t->program->atoms, group, to);
    }
    value->chunks = value->chunk = members;
    value->split = GAL_GROUP_NONE;
    return gal_rows_scatter(&t->rows[value->rows], &t->program->atoms, group, to);
}

/* Rows for other rows; where features are dealt out, a chunk of the rows of all members' features for all rows of one
 * member's, or the reverse. */
static const char *exchange_rows(const gal_typer *t, gal_typed *value, gal_rows *to)
{
    const gal_group group = t->in->group;
    const gal_rows *from = &t->rows[value->rows];
    if (value->ring != GAL_GROUP_NONE) {
        return "reads what is still passing round, or summed of some steps alone";
    }
    if (value->chunks > 0 || (value->split == group && group != GAL_GROUP_NONE)) {
        return exchange_panel(t, value, to);
    }
    if (value->dealt == group && value->within == GAL_GROUP_NONE) {
        value->dealt = GAL_GROUP_NONE;
        value->within = group;
        value->features /= gal_type_size_of(t, group);
        return gal_rows_gather(from, &t->program->atoms, group, to);
    }
    if (value->dealt == GAL_GROUP_NONE && value->within == group) {
        value->dealt = group;
        value->within = GAL_GROUP_NONE;
        value->features *= gal_type_size_of(t, group);
        return gal_rows_scatter(from, &t->program->atoms, group, to);
    }
    if ((value->dealt | value->within) != GAL_GROUP_NONE) {
        return "its features are dealt out over other devices";
    }
    return gal_rows_exchange(from, &t->program->atoms, group, to);
}

static void put_exchanged(gal_typer *t, gal_typed value)
{
    const gal_operand *to = &t->operand[1];
    if (value.chunks == 0) {
        gal_type_put_rows(t, 1, value, value.features);
    } else if (gal_type_holds(t,
                              to->view == GAL_GROUP_NONE && to->access == GAL_WRITE && to->bytes == t->operand[0].bytes,
                              "an output in a place that is none")) {
        gal_store_put(&t->now->store, to->buffer, to->offset_bytes, to->offset_bytes + to->bytes, &value);
    }
}

static void type_all_to_all(gal_typer *t)
{
    const gal_operand *o = &t->operand[0];
    const gal_stretch *at = gal_store_exact(&t->now->store, o->buffer, o->offset_bytes, o->offset_bytes + o->bytes);
    gal_rows to;
    if (!gal_type_holds(t, o->view == GAL_GROUP_NONE && at != NULL && at->value.kind == GAL_VALUE_ROWS,
                        "exchanges what are no rows") ||
        !gal_type_holds(t, t->in->group != GAL_GROUP_NONE, "exchanges among none") ||
        !expect_chunks(t, o->bytes / gal_type_size_of(t, t->in->group), o->bytes)) {
        return;
    }
    gal_typed value = at->value;
    const char *rule = exchange_rows(t, &value, &to);
    if (gal_type_holds(t, rule == NULL, rule)) {
        value.rows = gal_type_intern(t, &to);
        put_exchanged(t, value);
    }
}

static void type_send(gal_typer *t)
{
    uint32_t direction = t->in->group == GAL_GROUP_NEXT;
    gal_typed value;
    gal_type_mail *mail = &t->now->sent[direction];
    if (gal_type_get_kind(t, 0, GAL_VALUE_ROWS, &value) && gal_type_expect_elements(t, 0) &&
        gal_type_holds(t, value.partial == GAL_GROUP_NONE && value.max_partial == GAL_GROUP_NONE,
                       "sends a sum that is still partial") &&
        gal_type_holds(t, mail->count < GAL_TYPE_SENT_MAX, "sends more than the partner takes")) {
        mail->value[mail->count] = value;
        mail->bytes[mail->count++] = t->operand[0].bytes;
    }
}

static void type_receive(gal_typer *t)
{
    bool from_next = t->in->group == GAL_GROUP_NEXT;
    const uint32_t own = (uint32_t)(t->now - t->stage);
    const uint32_t piece = t->chunk * t->stage_count + own, pieces = t->stage_count * t->program->chunk_count;
    if (!gal_type_holds(t, from_next ? piece + 1 < pieces : piece > 0, "the partner stage does not exist")) {
        return;
    }
    gal_type_stage *partner = &t->stage[(own + (from_next ? 1 : t->stage_count - 1)) % t->stage_count];
    gal_type_mail *mail = &partner->sent[from_next ? 0 : 1];
    if (gal_type_holds(t, mail->count > 0, "receives what was not sent") &&
        gal_type_holds(t, mail->bytes[0] == t->operand[0].bytes, "receives another size than was sent") &&
        gal_type_holds(t, mail->value[0].dtype == gal_operand_dtype(t->shape, 0),
                       "receives another type than was sent")) {
        const gal_typed value = mail->value[0];
        mail->count--;
        for (uint32_t i = 0; i < mail->count; i++) {
            mail->value[i] = mail->value[i + 1];
            mail->bytes[i] = mail->bytes[i + 1];
        }
        gal_type_put_rows(t, 0, value, value.features);
    }
}

const gal_typing_rule gal_type_collective_rules[GAL_OP_COUNT] = {
    [GAL_OP_ALL_REDUCE] = {type_all_reduce, 1, 1},
    [GAL_OP_ALL_GATHER] = {type_all_gather, 1, 2},
    [GAL_OP_REDUCE_SCATTER] = {type_reduce_scatter, 1, 2},
    [GAL_OP_ALL_TO_ALL] = {type_all_to_all, 2, 2},
    [GAL_OP_BROADCAST] = {type_broadcast, 2, 2},
    [GAL_OP_REDUCE] = {type_reduce, 2, 2},
    [GAL_OP_SEND] = {type_send, 1, 1},
    [GAL_OP_RECEIVE] = {type_receive, 1, 1},
};
