/* Rows of a 3d grid turned back where two products do not do it: of device (i, j, k) rows (i, k) and features j become
 * rows (i, j) and features k, or the reverse. j gathers, so that all of it is on every device; k exchanges the parts
 * of what was gathered for those of what k has; and of these a device takes the part that j says. The same three steps
 * lead there and back: what is gathered are features one way, and rows the other. */
#include "runtime/program/lower/emit_nodes.h"

static void move_part(gal_builder *b, const gal_operand *parts, gal_group view, uint64_t rows, uint64_t features,
                      const gal_operand *to)
{
    const gal_shape shape = {.op = GAL_OP_PERMUTE,
                             .dtype = b->program->dtype,
                             .dims = {(uint32_t)features, 1, 1, 1, 1, (uint32_t)rows, 0, 0, 0, 0, 1}};
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, "turn", &shape);
    gal_operand own = *parts;
    own.access = GAL_READ;
    own.bytes = to->bytes;
    own.view = view;
    own.view_stride_bytes = to->bytes;
    gal_builder_operand_at(b, &own);
    gal_builder_operand_at(b, to);
}

void gal_emit_turn_rows(gal_builder *b, gal_block_emit *e, uint32_t from, uint8_t source, uint32_t to, uint8_t target)
{
    const gal_dtype dtype = b->program->dtype;
    const uint64_t rows = gal_emit_rows(e, source), features = e->graph.value[source].features;
    const uint64_t bytes = gal_emit_bytes(b, e, source);
    const uint64_t all_bytes = bytes * gal_group_size(&b->program->atoms, e->mesh.tp);
    gal_operand gathered = {
        .buffer = gal_emit_work(b, e, "gathered", all_bytes), .access = GAL_WRITE, .bytes = all_bytes};
    gal_operand exchanged = {
        .buffer = gal_emit_work(b, e, "exchanged", all_bytes), .access = GAL_WRITE, .bytes = all_bytes};
    GAL_ASSERT(bytes == gal_emit_bytes(b, e, target));
    gal_emit_collective(b, GAL_OP_ALL_GATHER, GAL_STREAM_TENSOR, "gather turned", dtype, e->mesh.tp, rows * features,
                        0);
    gal_emit_read(b, e, from, source);
    gal_builder_operand_at(b, &gathered);
    gal_emit_collective(b, GAL_OP_ALL_TO_ALL, GAL_STREAM_TENSOR, "exchange turned", dtype, e->mesh.output,
                        rows * features, 0);
    gathered.access = GAL_READ;
    gal_builder_operand_at(b, &gathered);
    gal_builder_operand_at(b, &exchanged);
    gal_operand own = gal_emit_whole(b, e, to, target);
    own.access = GAL_WRITE;
    move_part(b, &exchanged, e->mesh.tp, rows, features, &own);
}
