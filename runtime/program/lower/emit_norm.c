/* Norms of rows whose features are split (schemas/operator.h, norm_sums and its like), and the parts of panels. The
 * devices of a row exchange two numbers per row of an activation: moments forward, gathered, sums backward. */
#include "runtime/program/lower/emit_nodes.h"

static gal_panel panel_of(gal_operand whole, uint32_t count)
{
    whole.bytes /= count;
    return (gal_panel){whole, whole.bytes};
}

gal_linear_panels gal_emit_panels(gal_builder *b, const gal_block_emit *e, const gal_node *n, uint32_t x, uint32_t y,
                                  const gal_operand *weight)
{
    const uint32_t in = n->in_panel > 0 ? n->in_panel : 1, out = n->out_panel > 0 ? n->out_panel : 1;
    gal_linear_panels panels = {.count = in > out ? in : out};
    panels.in = panel_of(gal_emit_whole(b, e, x, n->in[0]), in);
    panels.out = panel_of(gal_emit_whole(b, e, y, n->out[0]), out);
    panels.weight = panel_of(*weight, panels.count);
    panels.in.stride_bytes = in > 1 ? panels.in.stride_bytes : 0;
    panels.out.stride_bytes = out > 1 ? panels.out.stride_bytes : 0;
    return panels;
}

void gal_emit_part(gal_builder *b, const gal_panel *panel, uint32_t t, gal_access access)
{
    gal_operand part = panel->first;
    part.offset_bytes += t * panel->stride_bytes;
    part.access = (uint8_t)access;
    gal_builder_operand_at(b, &part);
}

/* Two wide numbers per row, of every part. */
static gal_operand sums_of(gal_builder *b, const gal_block_emit *e, const gal_node *n, const char *name, uint32_t parts)
{
    const uint64_t bytes =
        2 * (uint64_t)gal_emit_rows(e, n->in[0]) * parts * gal_dtype_bytes(gal_dtype_wide(b->program->dtype));
    return (gal_operand){.buffer = gal_emit_work(b, e, name, bytes), .bytes = bytes};
}

static void operand(gal_builder *b, gal_operand at, gal_access access)
{
    at.access = (uint8_t)access;
    gal_builder_operand_at(b, &at);
}

static gal_shape shape_of(const gal_builder *b, const gal_block_emit *e, const gal_node *n, gal_op op)
{
    return (gal_shape){
        .op = op, .dtype = b->program->dtype, .dims = {gal_emit_rows(e, n->in[0]), e->graph.value[n->in[0]].features}};
}

void gal_emit_norm_parts(gal_builder *b, gal_block_emit *e, const gal_node *n, uint32_t x, const gal_operand *vectors,
                         uint32_t y, uint32_t stats)
{
    const uint32_t parts = e->graph.feature_parts;
    const bool centred = n->bias != GAL_NO_VALUE;
    const gal_operand own = sums_of(b, e, n, "moments", 1), all = sums_of(b, e, n, "all moments", parts);
    gal_shape shape = shape_of(b, e, n, GAL_OP_NORM_SUMS);
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, "moments", &shape);
    gal_emit_read(b, e, x, n->in[0]);
    operand(b, own, GAL_WRITE);
    gal_emit_collective(b, GAL_OP_ALL_GATHER, GAL_STREAM_TENSOR, "gather moments", gal_dtype_wide(b->program->dtype),
                        e->layout.feature_group, 2 * (uint64_t)shape.dims[0], 0);
    operand(b, own, GAL_READ);
    operand(b, all, GAL_WRITE);
    shape.op = GAL_OP_NORM_BY_SUMS;
    shape.dims[2] = parts;
    shape.dims[3] = centred;
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->name, &shape);
    gal_emit_read(b, e, x, n->in[0]);
    operand(b, vectors[0], GAL_READ);
    operand(b, all, GAL_READ);
    gal_emit_access(b, e, y, n->out[0], GAL_WRITE);
    gal_emit_access(b, e, stats, n->out[1], GAL_WRITE);
    if (centred) {
        operand(b, vectors[1], GAL_READ);
    }
}

static void sum_backward(gal_builder *b, gal_block_emit *e, const gal_node *n, uint32_t x, uint32_t stats,
                         const gal_operand *gain, const gal_operand *gradients, const gal_operand *sums)
{
    const bool centred = n->bias != GAL_NO_VALUE;
    gal_shape shape = shape_of(b, e, n, GAL_OP_NORM_SUMS_BACKWARD);
    shape.dims[2] = centred;
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, "sums", &shape);
    gal_emit_read(b, e, e->gradient[n->out[0]], n->out[0]);
    gal_emit_read(b, e, x, n->in[0]);
    operand(b, *gain, GAL_READ);
    gal_emit_read(b, e, stats, n->out[1]);
    operand(b, *sums, GAL_WRITE);
    gal_builder_operand_at(b, &gradients[0]);
    if (centred) {
        gal_builder_operand_at(b, &gradients[1]);
    }
    gal_emit_collective(b, GAL_OP_ALL_REDUCE, GAL_STREAM_TENSOR, "reduce sums", gal_dtype_wide(b->program->dtype),
                        e->layout.feature_group, 2 * (uint64_t)shape.dims[0], GAL_REDUCE_SUM);
    operand(b, *sums, GAL_UPDATE);
    gal_zero_gradient_done(b, e, n->weight);
    if (centred) {
        gal_zero_gradient_done(b, e, n->bias);
    }
}

void gal_emit_norm_parts_backward(gal_builder *b, gal_block_emit *e, const gal_node *n, uint32_t x, uint32_t stats,
                                  const gal_operand *gain, const gal_operand *gradients, uint32_t addend, uint32_t dx)
{
    const gal_operand sums = sums_of(b, e, n, "sums", 1);
    sum_backward(b, e, n, x, stats, gain, gradients, &sums);
    gal_shape shape = shape_of(b, e, n, GAL_OP_NORM_BY_SUMS_BACKWARD);
    shape.dims[2] = e->graph.feature_parts;
    shape.dims[3] = n->bias != GAL_NO_VALUE;
    shape.dims[4] = addend != GAL_NO_BUFFER;
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, n->backward_name, &shape);
    gal_emit_read(b, e, e->gradient[n->out[0]], n->out[0]);
    gal_emit_read(b, e, x, n->in[0]);
    operand(b, *gain, GAL_READ);
    gal_emit_read(b, e, stats, n->out[1]);
    operand(b, sums, GAL_READ);
    gal_emit_access(b, e, dx, n->in[0], GAL_WRITE);
    if (addend != GAL_NO_BUFFER) {
        gal_emit_read(b, e, addend, n->in[0]);
    }
}
