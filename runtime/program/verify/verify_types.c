/* Types of values: a rule per operator, over every fragment of every stage once (and backward once as the first, once
 * as the last microbatch).
 *
 * Proves, from the semantics of the operators and the initial split of the weights alone: which devices' values have
 * still to be summed (rows contracted over the atoms that own them, features over the atoms that split them, copies of
 * a shared tensor over the stages that hold it), and that exactly these sums are taken, once each, before anything that
 * is not linear reads them; which rows and features each device holds, through gathers, scatters, exchanges, strided
 * copies and sends; that gathers run over devices that differ and slices over devices that agree; that every unit's
 * gradient is complete, is that of the unit's tensors, enters the norm once with the right number of replicas, and
 * updates the right range of the weights, which are whole again afterwards; that every operator reads elements of the
 * types that it reads, and in programs of 16 bits updates the masters, of which the weights are. Does not prove: that a
 * kernel is given the activation that the model means among equals in rows and features; nor anything about time
 * (clocks, queues). The sets of gal_unit.sync_group are not read. */
#include "runtime/program/verify/verify.h"
#include "runtime/program/verify/verify_internal.h"
#include "runtime/program/verify/verify_typer.h"

#include <stdlib.h>
#include <string.h>

static const gal_typing_rule *rule_of(uint8_t op)
{
    static const gal_typing_rule *const tables[] = {
        gal_type_kernel_rules,     gal_type_grid_rules, gal_type_attention_rules, gal_type_update_rules,
        gal_type_collective_rules, gal_type_ring_rules, gal_type_storage_rules};
    for (size_t i = 0; op < GAL_OP_COUNT && i < sizeof tables / sizeof tables[0]; i++) {
        if (tables[i][op].apply != NULL) {
            return &tables[i][op];
        }
    }
    return NULL;
}

/* Whether some keys may not be seen for their samples' lengths. */
static bool reads_lengths(const gal_typer *t, bool causal)
{
    return t->program->padding && !causal;
}

static uint32_t operands_needed(const gal_typer *t, const gal_typing_rule *rule)
{
    const uint32_t *d = t->shape->dims;
    switch (t->in->op) {
    case GAL_OP_ALL_GATHER:
    case GAL_OP_REDUCE_SCATTER:
        return d[1] != 0 ? 1 : 2;
    case GAL_OP_GEMM:
        return (d[3] & GAL_GEMM_BIAS) != 0 ? 4 : 3;
    case GAL_OP_LAYER_NORM_BACKWARD:
        return d[2] != 0 ? 8 : 7;
    case GAL_OP_RMS_NORM_BACKWARD:
        return d[2] != 0 ? 7 : 6;
    case GAL_OP_NORM_BY_SUMS:
        return d[3] != 0 ? 6 : 5;
    case GAL_OP_NORM_SUMS_BACKWARD:
        return d[2] != 0 ? 7 : 6;
    case GAL_OP_NORM_BY_SUMS_BACKWARD:
        return d[4] != 0 ? 7 : 6;
    case GAL_OP_POSITION:
    case GAL_OP_POSITION_BACKWARD:
        return d[4] != 0 || d[5] != 0 ? 4 : 3;
    case GAL_OP_RESIDUAL:
        return d[3] != 0 ? 4 : 3;
    case GAL_OP_ATTENTION:
    case GAL_OP_ATTENTION_BACKWARD:
        return reads_lengths(t, (d[5] & GAL_ATTENTION_CAUSAL) != 0) ? rule->most : rule->least;
    case GAL_OP_RELATIVE_ATTENTION:
    case GAL_OP_RELATIVE_ATTENTION_BACKWARD:
        return reads_lengths(t, d[4] != 0) ? rule->most : rule->least;
    case GAL_OP_CROSS_ATTENTION:
    case GAL_OP_CROSS_ATTENTION_BACKWARD:
        return reads_lengths(t, false) ? rule->most : rule->least;
    case GAL_OP_NORM_START:
        return t->in->operand_count == rule->least ? rule->least : rule->most;
    case GAL_OP_ADAM:
    case GAL_OP_HOST_ADAM:
    case GAL_OP_HOST_ADAM_PART:
        return gal_dtype_is_narrow(t->shape->dtype) ? 6 : 5;
    default:
        return t->in->operand_count < rule->least ? rule->least : rule->most;
    }
}

/* Where an operator reads and writes: the device's kernels and messages see its own memory, the host's Adam the host's;
 * copies go from one to the other, and between the host's and storage. */
static gal_medium medium_of(uint8_t op, bool writes)
{
    switch (op) {
    case GAL_OP_HOST_ADAM:
    case GAL_OP_HOST_ADAM_PART:
        return GAL_MEDIUM_HOST;
    case GAL_OP_COPY_OUT:
        return writes ? GAL_MEDIUM_HOST : GAL_MEDIUM_DEVICE;
    case GAL_OP_COPY_IN:
        return writes ? GAL_MEDIUM_DEVICE : GAL_MEDIUM_HOST;
    case GAL_OP_STORAGE_READ:
        return writes ? GAL_MEDIUM_HOST : GAL_MEDIUM_STORAGE;
    case GAL_OP_STORAGE_WRITE:
        return writes ? GAL_MEDIUM_STORAGE : GAL_MEDIUM_HOST;
    default:
        return GAL_MEDIUM_DEVICE;
    }
}

static bool reaches_its_medium(const gal_typer *t)
{
    bool reaches = true;
    for (uint32_t k = 0; k < t->in->operand_count; k++) {
        const gal_class class = (gal_class)t->program->buffer[t->operand[k].buffer].class;
        reaches = reaches && gal_class_medium(class) == medium_of(t->in->op, t->operand[k].access != GAL_READ);
    }
    return reaches;
}

static void apply_rule(gal_typer *t)
{
    const gal_typing_rule *rule = rule_of(t->in->op);
    if (rule == NULL || t->shape->op != (gal_op)t->in->op) {
        gal_type_broken(t, "an unknown operator");
        return;
    }
    uint32_t needed = operands_needed(t, rule);
    if (gal_type_holds(t, t->in->operand_count == needed, "another number of operands") &&
        gal_type_holds(t, reaches_its_medium(t), "an operand in the other memory") && gal_type_reads_dtypes(t)) {
        rule->apply(t);
        gal_type_note_dtypes(t);
    }
}

static gal_code run_fragment(gal_typer *t, uint32_t stage, uint32_t fragment, bool first, gal_error *err)
{
    t->now = &t->stage[stage];
    t->program = t->now->program;
    t->first = first;
    t->chunk = gal_fragment_chunk(fragment);
    t->evaluates = gal_fragment_kind_of(fragment) == GAL_FRAGMENT_EVALUATE;
    t->rule = NULL;
    const gal_program *p = t->program;
    for (uint32_t i = 0; i < p->fragment[fragment].count; i++) {
        t->in = &p->instruction[p->fragment[fragment].first + i];
        t->shape = &p->shape[t->in->shape];
        t->operand = &p->operand[t->in->first_operand];
        apply_rule(t);
        if (t->now->store.out_of_memory) {
            return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
        }
        if (t->rule != NULL) {
            return gal_refuse(err, p, fragment, i, "%s", t->rule);
        }
    }
    return GAL_OK;
}

/* A gradient of a tensor with copies is a part of the sum over their stages, once the last backward is done; one that
 * was taken to the host before then too. */
static void mark_tied(gal_typer *t, uint32_t stage)
{
    const gal_program *p = t->stage[stage].program;
    gal_store *store = &t->stage[stage].store;
    for (uint32_t u = 0; u < p->unit_count; u++) {
        const uint32_t gradients[] = {p->unit[u].gradient, p->unit[u].host_gradient};
        for (uint32_t g = 0; p->unit[u].copies != GAL_GROUP_NONE && g < 2; g++) {
            for (uint32_t i = gradients[g] == GAL_NO_BUFFER ? 0 : store->head[gradients[g]]; i != 0;
                 i = store->stretch[i].next) {
                store->stretch[i].value.partial |= GAL_PARTIAL_TIED;
            }
        }
    }
}

static gal_code refuse_unit(const gal_program *p, uint32_t unit, const char *rule, gal_error *err)
{
    return gal_fail(err, GAL_NO, "stage %u, update, unit %s of block %u: %s", p->stage, p->unit[unit].name,
                    p->unit[unit].block, rule);
}

static gal_group held_range(const gal_program *p, const gal_unit *unit, uint32_t buffer, gal_dtype dtype)
{
    bool whole = p->buffer[buffer].bytes == unit->elements * gal_dtype_bytes(dtype);
    return whole ? GAL_GROUP_NONE : unit->zero_group;
}

/* After the update every unit has entered the norm, was updated, and its weights are as they were before the step. */
static gal_code check_units(const gal_type_stage *s, gal_error *err)
{
    const gal_program *p = s->program;
    for (uint32_t u = 0; u < p->unit_count; u++) {
        const gal_typed *weight = &s->store.stretch[s->store.head[p->unit[u].weight]].value;
        if (s->norm_count[u] != 1) {
            return refuse_unit(p, u, "its gradient is not in the norm", err);
        }
        if (s->update_count[u] != (p->unit[u].host_weight == GAL_NO_BUFFER ? 1 : GAL_TYPE_HOST_UPDATES)) {
            return refuse_unit(p, u, "is not updated", err);
        }
        if (gal_unit_is_stored(p, &p->unit[u]) && !gal_type_is_stored(s, u)) {
            return refuse_unit(p, u, "its moments, masters or weights are not written to storage", err);
        }
        if (weight->in_place || weight->range != held_range(p, &p->unit[u], p->unit[u].weight, p->dtype)) {
            return refuse_unit(p, u, "its weights are not gathered after the update", err);
        }
    }
    return GAL_OK;
}

/* A step and an evaluation read every tensor; what a GEMM reads forward, another reads transposed in backward. So a
 * gather that was left out shows even if the ring still holds a tensor of the same size. */
static gal_code check_uses(const gal_type_stage *s, gal_error *err)
{
    const gal_program *p = s->program;
    for (uint32_t i = 0; i < p->parameter_count; i++) {
        uint32_t uses = s->uses[i];
        uint32_t needed = GAL_USE_STEP | GAL_USE_EVALUATION;
        if ((uses & (GAL_USE_EVALUATION_PLAIN | GAL_USE_EVALUATION_TRANSPOSED)) != 0) {
            needed |= GAL_USE_STEP_PLAIN | GAL_USE_STEP_TRANSPOSED;
        }
        if ((uses & needed) != needed) {
            return gal_fail(err, GAL_NO, "stage %u, unit %s of block %u: tensor %s is not read where it must be",
                            p->stage, p->unit[p->parameter[i].unit].name, p->unit[p->parameter[i].unit].block,
                            p->parameter[i].name);
        }
    }
    return GAL_OK;
}

/* A tensor of a stage, by its public name. */
typedef struct named_copy {
    const char *name;
    uint32_t stage, unit;
} named_copy;

static int compare_copies(const void *a, const void *b)
{
    const named_copy *left = a, *right = b;
    const int order = strcmp(left->name, right->name);
    return order != 0 ? order : (left->stage > right->stage) - (left->stage < right->stage);
}

/* Whether the units of `count` stages that hold one tensor say that they are copies, and of just these stages. */
static bool are_marked(const gal_typer *t, const named_copy *copy, uint32_t count)
{
    const gal_group group = t->stage[copy->stage].program->unit[copy->unit].copies;
    const gal_shared shared = gal_shared_of_group(group);
    if (count == 1 || shared == GAL_SHARED_COUNT) {
        return count == 1 && group == GAL_GROUP_NONE;
    }
    for (uint32_t i = 0; i < count; i++) {
        const gal_program *p = t->stage[copy[i].stage].program;
        bool same = p->unit[copy[i].unit].copies == group && gal_stage_set_count(&p->holders[shared]) == count;
        for (uint32_t j = 0; same && j < count; j++) {
            same = copy[j].stage == copy[i].stage ? i == j : gal_stage_set_has(&p->holders[shared], copy[j].stage);
        }
        if (!same) {
            return false;
        }
    }
    return true;
}

static gal_code check_copies(const gal_typer *t, gal_error *err)
{
    gal_code code = GAL_OK;
    uint32_t total = 0, count = 0;
    for (uint32_t s = 0; s < t->stage_count; s++) {
        total += t->stage[s].program->parameter_count;
    }
    named_copy *copy = malloc(((size_t)total + 1) * sizeof *copy);
    if (copy == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    for (uint32_t s = 0, at = 0; s < t->stage_count; s++) {
        for (uint32_t i = 0; i < t->stage[s].program->parameter_count; i++) {
            const gal_parameter *p = &t->stage[s].program->parameter[i];
            copy[at++] = (named_copy){p->name, s, p->unit};
        }
    }
    qsort(copy, total, sizeof *copy, compare_copies);
    for (uint32_t first = 0; code == GAL_OK && first < total; first += count) {
        for (count = 1; first + count < total && strcmp(copy[first].name, copy[first + count].name) == 0; count++) {
        }
        if (!are_marked(t, &copy[first], count)) {
            code = refuse_unit(t->stage[copy[first].stage].program, copy[first].unit,
                               "a tensor on several stages must be tied over just these", err);
        }
    }
    free(copy);
    return code;
}

static uint32_t blocks_end(const gal_program *p)
{
    uint32_t end = 0;
    for (uint32_t i = 0; i < p->instruction_count; i++) {
        end = p->instruction[i].block >= end ? p->instruction[i].block + 1 : end;
    }
    return end;
}

static bool init_stage(gal_type_stage *s, const gal_program *p)
{
    s->program = p;
    s->panels = calloc((size_t)blocks_end(p) + 1, sizeof *s->panels);
    s->reader = calloc((size_t)blocks_end(p) + 1, sizeof *s->reader);
    s->first_parameter = calloc((size_t)p->unit_count + 2, sizeof *s->first_parameter);
    s->norm_count = calloc((size_t)p->unit_count + 1, 1);
    s->update_count = calloc((size_t)p->unit_count + 1, 1);
    s->uses = calloc((size_t)p->parameter_count + 1, 1);
    s->owner = calloc((size_t)p->parameter_count + 1, sizeof *s->owner);
    s->stored = calloc((size_t)p->unit_count + 1, sizeof *s->stored);
    if (s->stored == NULL || s->owner == NULL || !gal_store_init(&s->store, p) || s->first_parameter == NULL ||
        s->norm_count == NULL || s->update_count == NULL || s->uses == NULL || s->panels == NULL || s->reader == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < p->parameter_count; i++) {
        s->first_parameter[p->parameter[i].unit + 1]++;
    }
    for (uint32_t u = 0; u < p->unit_count; u++) {
        s->first_parameter[u + 1] += s->first_parameter[u];
        const gal_unit *unit = &p->unit[u];
        uint32_t buffers[GAL_UNIT_KEPT_MAX];
        const uint32_t count = gal_unit_kept(unit, buffers);
        for (uint32_t k = 0; k < count; k++) {
            const bool rounded = k == 0 || buffers[k] == unit->host_weight;
            const gal_dtype dtype = rounded ? p->dtype : gal_dtype_wide(p->dtype);
            gal_typed value = {.kind = k == 0 ? GAL_VALUE_WEIGHT : GAL_VALUE_MOMENT,
                               .dtype = (uint8_t)dtype,
                               .unit = u,
                               .range = held_range(p, unit, buffers[k], dtype)};
            gal_store_put(&s->store, buffers[k], 0, p->buffer[buffers[k]].bytes, &value);
        }
    }
    return true;
}

/* Piece after piece of the chain. */
static gal_code run_down(gal_typer *t, gal_fragment_kind kind, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t pieces = t->stage_count * t->stage[0].program->chunk_count;
    for (uint32_t i = 0; code == GAL_OK && i < pieces; i++) {
        code = run_fragment(t, i % t->stage_count, gal_fragment_number(kind, i / t->stage_count), true, err);
    }
    return code;
}

static gal_code run_up(gal_typer *t, gal_fragment_kind kind, bool first, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t pieces = t->stage_count * t->stage[0].program->chunk_count;
    for (uint32_t i = pieces; code == GAL_OK && i-- > 0;) {
        code = run_fragment(t, i % t->stage_count, gal_fragment_number(kind, i / t->stage_count), first, err);
    }
    return code;
}

static gal_code check_all(gal_typer *t, gal_error *err)
{
    gal_code code = GAL_OK;
    uint32_t stages = t->stage_count;
    bool several = t->stage[0].program->microbatch_count > 1;
    GAL_TRY(check_copies(t, err));
    GAL_TRY(run_down(t, GAL_FRAGMENT_FORWARD, err));
    const bool split = t->stage[0].program->split;
    if (several) {
        GAL_TRY(run_up(t, GAL_FRAGMENT_BACKWARD, true, err));
        GAL_TRY(run_up(t, GAL_FRAGMENT_WEIGHT, true, err));
    }
    GAL_TRY(run_up(t, split ? GAL_FRAGMENT_BACKWARD : GAL_FRAGMENT_BACKWARD_SYNC, !several, err));
    GAL_TRY(run_up(t, GAL_FRAGMENT_WEIGHT_SYNC, !several, err));
    for (uint32_t s = 0; s < stages; s++) {
        mark_tied(t, s);
        GAL_TRY(run_fragment(t, s, GAL_FRAGMENT_UPDATE, true, err));
        GAL_TRY(check_units(&t->stage[s], err));
    }
    GAL_TRY(run_down(t, GAL_FRAGMENT_EVALUATE, err));
    for (uint32_t s = 0; s < stages; s++) {
        GAL_TRY(run_fragment(t, s, GAL_FRAGMENT_EVALUATE_END, true, err));
        GAL_TRY(check_uses(&t->stage[s], err));
    }
cleanup:
    return code;
}

gal_code gal_verify_types(gal_program *const *programs, uint32_t stage_count, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_typer t;
    memset(&t, 0, sizeof t);
    t.stage_count = stage_count;
    t.stage = calloc(stage_count, sizeof *t.stage);
    if (t.stage == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    for (uint32_t s = 0; code == GAL_OK && s < stage_count; s++) {
        if (!init_stage(&t.stage[s], programs[s])) {
            code = gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
        }
    }
    code = code == GAL_OK ? check_all(&t, err) : code;
    for (uint32_t s = 0; s < stage_count; s++) {
        gal_store_free(&t.stage[s].store);
        free(t.stage[s].first_parameter);
        free(t.stage[s].norm_count);
        free(t.stage[s].update_count);
        free(t.stage[s].uses);
        free(t.stage[s].owner);
        free(t.stage[s].stored);
        free(t.stage[s].panels);
        free(t.stage[s].reader);
    }
    free(t.stage);
    free(t.rows);
    return code;
}
