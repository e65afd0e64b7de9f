/* Instructions of a layout conversion. */
#include "runtime/program/layout.h"
#include "runtime/program/lower/emit.h"

static uint64_t elements_of(const gal_builder *b, const gal_layout *layout, gal_flow rows)
{
    return (uint64_t)(rows.positions / gal_group_size(&b->program->atoms, layout->sequence_group)) *
           gal_layout_local_samples(layout) *
           (rows.features / gal_group_size(&b->program->atoms, layout->feature_group));
}

uint64_t gal_layout_bytes(const gal_builder *b, const gal_layout *layout, gal_flow rows)
{
    return elements_of(b, layout, rows) * gal_dtype_bytes(b->program->dtype);
}

typedef struct mover {
    gal_builder *b;
    gal_flow rows; /* per sample */
    gal_class class;
    uint64_t offset; /* its next free byte */
} mover;

static uint32_t temporary(mover *m, uint64_t bytes)
{
    uint32_t buffer = gal_builder_buffer(m->b, m->class, m->b->block, "relayout", bytes);
    if (!m->b->out_of_memory) {
        m->b->program->buffer[buffer].offset = m->offset;
        m->offset += gal_align(bytes);
    }
    return buffer;
}

/* Features of what is copied as a row: of parts of rows the smaller ones. */
static uint32_t row_features(const mover *m, const gal_layout_step *step)
{
    const gal_atoms *atoms = &m->b->program->atoms;
    return m->rows.features / gal_group_size(atoms, step->from.feature_group | step->to.feature_group);
}

static const char *name_of(const gal_layout_step *step)
{
    return step->kind == GAL_STEP_HALVE   ? "halve"
           : step->kind == GAL_STEP_JOIN  ? "join"
           : step->kind == GAL_STEP_SLICE ? "slice"
                                          : "permute";
}

static void permute(mover *m, const gal_permutation *how, const gal_layout_step *step, uint32_t source,
                    uint64_t source_bytes, uint32_t target, uint64_t target_bytes)
{
    gal_builder *b = m->b;
    gal_shape shape = {.op = GAL_OP_PERMUTE, .dtype = b->program->dtype, .dims = {row_features(m, step)}};
    for (uint32_t i = 0; i < GAL_PERMUTE_DIMS; i++) {
        shape.dims[1 + i] = how->count[i];
        shape.dims[1 + GAL_PERMUTE_DIMS + i] = how->stride[i];
    }
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, name_of(step), &shape);
    uint64_t row_bytes = shape.dims[0] * gal_dtype_bytes(b->program->dtype);
    gal_operand from = {.buffer = source, .access = GAL_READ, .bytes = source_bytes};
    if (how->view_stride > 0) { /* the last byte that the strides reach, from this device's first row */
        uint64_t span = 1;
        for (uint32_t i = 0; i < GAL_PERMUTE_DIMS; i++) {
            span += (uint64_t)(how->count[i] - 1) * how->stride[i];
        }
        from.view = step->group;
        from.view_stride_bytes = how->view_stride * row_bytes;
        from.bytes = span * row_bytes;
    }
    gal_builder_operand_at(b, &from);
    gal_operand to = {.buffer = target, .access = GAL_WRITE, .bytes = target_bytes};
    gal_builder_operand_at(b, &to);
}

static void collective(mover *m, gal_op op, const gal_layout_step *step, uint32_t source, uint32_t target)
{
    gal_builder *b = m->b;
    uint64_t divide = op == GAL_OP_ALL_TO_ALL ? gal_group_size(&b->program->atoms, step->group) : 1;
    gal_emit_collective(b, op, GAL_STREAM_TENSOR, op == GAL_OP_ALL_TO_ALL ? "exchange" : "gather x", b->program->dtype,
                        step->group, elements_of(b, &step->from, m->rows) / divide, 0);
    gal_operand from = {.buffer = source, .access = GAL_READ, .bytes = gal_layout_bytes(b, &step->from, m->rows)};
    gal_operand to = {.buffer = target, .access = GAL_WRITE, .bytes = gal_layout_bytes(b, &step->to, m->rows)};
    gal_builder_operand_at(b, &from);
    gal_builder_operand_at(b, &to);
}

static void emit_step(mover *m, const gal_layout_step *step, uint32_t source, uint32_t target)
{
    gal_builder *b = m->b;
    gal_permutation how;
    uint64_t source_bytes = gal_layout_bytes(b, &step->from, m->rows);
    uint64_t target_bytes = gal_layout_bytes(b, &step->to, m->rows);
    bool sequence = step->from.sequence_group != step->to.sequence_group;
    if (step->kind == GAL_STEP_GATHER && sequence) {
        collective(m, GAL_OP_ALL_GATHER, step, source, target);
        return;
    }
    bool fits = gal_step_permutation(step, &b->program->atoms, m->rows.positions, &how);
    GAL_ASSERT(fits);
    if (step->kind == GAL_STEP_SLICE || step->kind == GAL_STEP_HALVE || step->kind == GAL_STEP_JOIN) {
        permute(m, &how, step, source, source_bytes, target, target_bytes);
        return;
    }
    gal_op op = step->kind == GAL_STEP_GATHER ? GAL_OP_ALL_GATHER : GAL_OP_ALL_TO_ALL;
    bool pack = op == GAL_OP_ALL_TO_ALL && step->from.sequence_group != 0;
    if (how.identity) {
        collective(m, op, step, source, target);
    } else if (pack) {
        uint32_t packed = temporary(m, source_bytes);
        permute(m, &how, step, source, source_bytes, packed, source_bytes);
        collective(m, op, step, packed, target);
    } else {
        uint32_t received = temporary(m, target_bytes);
        collective(m, op, step, source, received);
        permute(m, &how, step, received, target_bytes, target, target_bytes);
    }
}

void gal_emit_steps(gal_builder *b, gal_class between, const gal_layout_step *steps, uint32_t step_count, bool inverse,
                    gal_flow rows, uint32_t source, uint32_t target, uint64_t first_offset)
{
    mover m = {b, rows, between, first_offset};
    for (uint32_t i = 0; i < step_count; i++) {
        gal_layout_step step = inverse ? gal_layout_step_inverse(&steps[step_count - 1 - i]) : steps[i];
        bool last = i + 1 == step_count;
        uint32_t next = last ? target : temporary(&m, gal_layout_bytes(b, &step.to, rows));
        emit_step(&m, &step, source, next);
        source = next;
    }
}
