/* The backward of a block in two parts: see emit.h. */
#include "runtime/program/lower/emit_nodes.h"

bool gal_emit_weight_reads_dy(const gal_builder *b, const gal_block_emit *e)
{
    if (e->graph.head || e->graph.carried_out != GAL_NO_VALUE) { /* no weight part; it has no linear */
        return false;
    }
    const gal_node *last = &e->graph.node[gal_graph_producer(&e->graph, e->graph.y)];
    if (e->graph.x == GAL_NO_VALUE || last->kind != GAL_NODE_RESIDUAL) {
        return true;
    }
    const uint8_t branch = gal_graph_producer(&e->graph, last->in[1]);
    return gal_emit_model(b)->residual_dropout <= 0 &&
           (last->bias != GAL_NO_VALUE || e->graph.node[branch].kind != GAL_NODE_SCATTER_SEQUENCE);
}

static void keep(gal_builder *b, uint32_t buffer)
{
    gal_buffer *at = &b->program->buffer[buffer];
    if (at->class == GAL_CLASS_WORK) {
        at->class = GAL_CLASS_KEPT;
        at->arena = (uint16_t)gal_arena_number(GAL_CLASS_KEPT, b->chunk);
    }
}

static void keep_for_weights(gal_builder *b, gal_block_emit *e)
{
    for (uint32_t i = 0; i < e->graph.node_count && !b->out_of_memory; i++) {
        const gal_node *n = &e->graph.node[i];
        if (n->kind == GAL_NODE_LINEAR) {
            keep(b, e->backward[gal_emit_weight_source(e, n)]);
            keep(b, e->gradient[n->out[0]]);
        } else if (n->kind == GAL_NODE_RESIDUAL && n->bias != GAL_NO_VALUE) {
            keep(b, e->gradient[n->in[1]]);
        }
    }
}

static void emit_whole(gal_builder *b, gal_block_emit *e)
{
    b->split = false;
    gal_emit_backward(b, e);
    b->split = true;
}

void gal_emit_backward_input(gal_builder *b, gal_block_emit *e)
{
    b->sync_later = true;
    if (e->graph.head) {
        emit_whole(b, e);
    } else if (e->graph.x != GAL_NO_VALUE) {
        gal_emit_backward(b, e);
        keep_for_weights(b, e);
    }
    b->sync_later = false;
}

/* The input of a linear that is gathered from chunks, again. Into a ring: in work a gather that runs ahead could meet
 * what an earlier block still reads. */
static void gather_again(gal_builder *b, gal_block_emit *e, uint8_t value)
{
    const uint32_t turn = b->rows_next;
    if (b->rows[turn] == GAL_NO_BUFFER) {
        b->rows[turn] = gal_builder_buffer(b, GAL_CLASS_GATHERED, GAL_NO_BUFFER, "rows", 0);
    }
    gal_builder_grow_buffer(b, b->rows[turn], gal_emit_bytes(b, e, value));
    b->rows_next = 1 - turn;
    e->backward[value] = b->rows[turn];
    gal_emit_node(b, e, gal_emit_again(e), gal_graph_producer(&e->graph, value));
}

static void issue_weights(gal_builder *b, gal_block_emit *e)
{
    uint8_t gathered = GAL_NO_VALUE;
    for (uint32_t i = e->graph.node_count; i-- > 0;) {
        const gal_node *n = &e->graph.node[i];
        if (n->kind == GAL_NODE_RESIDUAL && n->bias != GAL_NO_VALUE) {
            gal_emit_bias_gradient(b, e, n->bias, e->gradient[n->in[1]], n->in[1], n->weight_gradient_name);
        }
        if (n->kind == GAL_NODE_LINEAR) {
            if (gal_emit_weight_source(e, n) != n->in[0] && gathered != n->in[0]) {
                gather_again(b, e, n->in[0]);
                gathered = n->in[0];
            }
            e->pending = (uint8_t)i;
            gal_emit_pending(b, e);
        }
    }
}

void gal_emit_backward_weight(gal_builder *b, gal_block_emit *e)
{
    if (e->graph.x == GAL_NO_VALUE) {
        emit_whole(b, e);
    } else if (!e->graph.head) {
        issue_weights(b, e);
    }
    gal_zero_synchronise(b, e);
}
