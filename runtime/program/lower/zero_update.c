/* The update fragment: the norm of all gradients, then Adam where a unit's moments are. */
#include "runtime/program/lower/zero.h"

static void start_norm(gal_builder *b, uint32_t loss_replicas)
{
    gal_program *p = b->program;
    bool has_loss = p->loss_buffer != GAL_NO_BUFFER;
    gal_shape shape = {.op = GAL_OP_NORM_START, .dtype = GAL_FP64, .dims = {loss_replicas}};
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, "loss", &shape);
    if (has_loss) {
        gal_builder_operand(b, p->loss_buffer, GAL_READ);
    }
    gal_builder_operand(b, p->norm_buffer, GAL_WRITE);
}

static void reduce_norm(gal_builder *b)
{
    gal_instruction *i = gal_emit_collective(b, GAL_OP_ALL_REDUCE, GAL_STREAM_REDUCE, "norm", GAL_FP64, GAL_GROUP_WORLD,
                                             2, GAL_REDUCE_SUM);
    i->bytes = 2 * gal_dtype_bytes(GAL_FP64);
    gal_builder_operand(b, b->program->norm_buffer, GAL_UPDATE);
}

/* Adam where the unit's moments are. */
static void update_range(gal_builder *b, uint32_t unit, gal_storage_cursor *stored)
{
    const gal_unit at = b->program->unit[unit], *u = &at;
    const gal_operand weight =
        gal_zero_own_range(u, u->weight, u->zero_stage < 3, gal_dtype_bytes(b->program->dtype), GAL_UPDATE);
    if (u->host_weight != GAL_NO_BUFFER) {
        if (gal_unit_is_stored(b->program, u)) {
            gal_storage_update(b, unit, stored);
        } else {
            gal_host_update(b, u);
        }
        gal_host_bring(b, u, &weight);
        return;
    }
    gal_shape shape = {.op = u->reuses ? GAL_OP_ADAM_IN_PLACE : GAL_OP_ADAM,
                       .dtype = b->program->dtype,
                       .dims = {gal_builder_dim(b, u->shard_elements), gal_builder_dim(b, u->decay_elements)}};
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, "adam", &shape)->group = u->zero_group;
    const gal_operand gradient = gal_zero_own_gradient(b, u, GAL_READ);
    gal_builder_operand_at(b, &weight);
    if (!u->reuses) {
        gal_builder_operand_at(b, &gradient);
    }
    gal_builder_operand(b, u->first_moment, GAL_UPDATE);
    gal_builder_operand(b, u->second_moment, GAL_UPDATE);
    gal_builder_operand(b, b->program->norm_buffer, GAL_READ);
    if (u->master != GAL_NO_BUFFER) {
        gal_builder_operand(b, u->master, GAL_UPDATE);
    }
}

static void update_unit(gal_builder *b, uint32_t unit, gal_storage_cursor *stored)
{
    update_range(b, unit, stored);
    const gal_unit at = b->program->unit[unit], *u = &at;
    if (u->zero_stage == 1 || u->zero_stage == 2) {
        gal_emit_collective(b, GAL_OP_ALL_GATHER, GAL_STREAM_GATHER, "gather w", b->program->dtype, u->zero_group,
                            u->shard_elements, 1);
        gal_builder_operand(b, u->weight, GAL_UPDATE);
    }
}

static void reduce_copies(gal_builder *b, gal_group copies)
{
    const gal_program *p = b->program;
    for (uint32_t i = 0; i < p->unit_count; i++) {
        const gal_unit u = p->unit[i];
        if (u.copies == copies) {
            gal_emit_collective(b, GAL_OP_ALL_REDUCE, GAL_STREAM_REDUCE, "reduce tied dw", gal_dtype_wide(p->dtype),
                                copies, u.shard_elements, GAL_REDUCE_SUM);
            gal_operand range = gal_zero_own_gradient(b, &u, GAL_UPDATE);
            gal_builder_operand_at(b, &range);
            if (u.host_gradient != GAL_NO_BUFFER) {
                range.access = GAL_READ;
                gal_host_take_gradient(b, &u, &range);
            }
        }
    }
}

void gal_zero_update(gal_builder *b, uint32_t loss_replicas)
{
    gal_program *p = b->program;
    gal_storage_cursor stored = {0};
    for (uint32_t i = 0; i < GAL_STORED_RING; i++) { /* these wait for nothing of this step */
        gal_storage_read_ahead(b, &stored);
    }
    /* Copies on several stages. In update, not in backward: there the reduction would wait for a stream that waits for
     * it. In one order everywhere, whatever the order of the units. */
    for (uint32_t shared = 0; shared < GAL_SHARED_COUNT; shared++) {
        reduce_copies(b, gal_group_of_shared((gal_shared)shared));
    }
    start_norm(b, loss_replicas);
    for (uint32_t i = 0; i < p->unit_count; i++) {
        const gal_unit u = p->unit[i];
        gal_shape shape = {.op = GAL_OP_SUM_SQUARES,
                           .dtype = u.reuses ? p->dtype : gal_dtype_wide(p->dtype),
                           .dims = {gal_builder_dim(b, u.shard_elements), u.replicas}};
        gal_builder_instruction(b, GAL_STREAM_COMPUTE, "square dw", &shape);
        gal_operand range = gal_zero_own_gradient(b, &u, GAL_READ);
        gal_builder_operand_at(b, &range);
        gal_builder_operand(b, p->norm_buffer, GAL_UPDATE);
    }
    reduce_norm(b);
    gal_host_take_norm(b);
    for (uint32_t i = 0; i < p->unit_count; i++) {
        update_unit(b, i, &stored);
    }
}

void gal_zero_report(gal_builder *b, uint32_t loss_replicas)
{
    start_norm(b, loss_replicas);
    reduce_norm(b);
}
