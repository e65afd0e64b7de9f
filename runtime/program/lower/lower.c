/* Lowering of a stage: the blocks of every chunk chained through their ports, then waits, placement and schedule. */
#include <stdlib.h>

#include "runtime/program/lower/lower_stage.h"

typedef gal_lower_stage stage;
typedef gal_lower_chunk chunk;
typedef gal_lower_conversion conversion;

static void begin_fragment(stage *s, uint32_t number)
{
    s->b.program->fragment[number].first = s->b.program->instruction_count;
    gal_zero_begin_fragment(&s->b);
    s->b.passing_next = 0;
}

static void end_fragment(stage *s, uint32_t number)
{
    gal_fragment *fragment = &s->b.program->fragment[number];
    fragment->count = s->b.program->instruction_count - fragment->first;
}

static void transfer(stage *s, gal_op op, gal_stream stream, const char *name, gal_group to, uint32_t buffer)
{
    if (buffer == GAL_NO_BUFFER || s->b.out_of_memory) {
        return;
    }
    uint64_t elements = s->b.program->buffer[buffer].bytes / gal_dtype_bytes(s->b.program->dtype);
    gal_emit_collective(&s->b, op, stream, name, s->b.program->dtype, to, elements, 0);
    gal_builder_operand(&s->b, buffer, op == GAL_OP_SEND ? GAL_READ : GAL_WRITE);
}

/* The carried tensor to the next stage and its gradient to the previous one, when block i is done; UINT32_MAX: when
 * they are received. */
static void send_carried(stage *s, const gal_carried *c, uint32_t i)
{
    if (c->sent && gal_carried_ready(c) == i) {
        transfer(s, GAL_OP_SEND, GAL_STREAM_SEND_FORWARD, "send carried", GAL_GROUP_NEXT, gal_carried_sent(c));
    }
}

static void send_dcarried(stage *s, const gal_carried *c, uint32_t i)
{
    if (c->received && gal_carried_gradient_ready(c) == i) {
        transfer(s, GAL_OP_SEND, GAL_STREAM_SEND_BACKWARD, "send dcarried", GAL_GROUP_PREVIOUS,
                 gal_carried_sent_gradient(c));
    }
}

/* Where the blocks begin that are halved and follow each other without a conversion: they are issued together. */
typedef struct begun {
    uint32_t instruction, segment;
} begun;

/* To the block in front of it. */
static bool is_linked(const stage *s, const chunk *c, uint32_t i)
{
    return i > c->first && s->block[i].halved && s->block[i - 1].halved && s->convert[i].count == 0;
}

static void lower_forward(stage *s, const chunk *c)
{
    gal_builder *b = &s->b;
    const uint32_t fragment = gal_fragment_number(GAL_FRAGMENT_FORWARD, c->number);
    uint32_t source = c->x_in; /* what enters the next conversion, and the free bytes behind it */
    uint64_t offset = 0;
    begun region = {0};
    b->block = c->first;
    begin_fragment(s, fragment);
    transfer(s, GAL_OP_RECEIVE, GAL_STREAM_RECEIVE_FORWARD, "receive carried", GAL_GROUP_PREVIOUS,
             gal_carried_received(&c->carried));
    transfer(s, GAL_OP_RECEIVE, GAL_STREAM_RECEIVE_FORWARD, "receive x", GAL_GROUP_PREVIOUS, c->x_in);
    send_carried(s, &c->carried, UINT32_MAX);
    for (uint32_t i = c->first; i < c->end && !b->out_of_memory; i++) {
        gal_block_emit *e = &s->block[i];
        b->block = i;
        gal_emit_steps(b, GAL_CLASS_RELAYOUT, s->convert[i].step, s->convert[i].count, false, e->shape.in, source, e->x,
                       offset);
        gal_carried_before_forward(b, &c->carried, e);
        if (e->graph.head) {
            continue; /* its forward runs in the backward fragment: logits never live between fragments */
        }
        const conversion *behind = i + 1 == c->end ? &c->exit : &s->convert[i + 1];
        if (behind->count > 0) {
            offset = 0;
            e->y = source =
                gal_lower_relayout_buffer(s, i + 1 == c->end ? i : i + 1, &e->layout, e->shape.out, &offset);
        } else {
            e->y = i + 1 == c->end ? c->y_out : s->block[i + 1].x;
        }
        if (!is_linked(s, c, i)) {
            region = (begun){b->program->instruction_count, b->program->segment_count};
        }
        gal_emit_begin_segment(b, e, fragment);
        gal_emit_forward_all(b, e);
        gal_builder_end_segment(b);
        gal_activations_put_away(b, e);
        if (e->halved && (i + 1 == c->end || !is_linked(s, c, i + 1))) {
            gal_overlap_order(b, region.instruction, region.segment);
        }
        send_carried(s, &c->carried, i);
    }
    gal_emit_steps(b, GAL_CLASS_RELAYOUT, c->exit.step, c->exit.count, false, s->block[c->end - 1].shape.out, source,
                   c->y_out, offset);
    transfer(s, GAL_OP_SEND, GAL_STREAM_SEND_FORWARD, "send y", GAL_GROUP_NEXT, c->y_out);
    end_fragment(s, fragment);
}

/* Where the dx of block i goes, rows of the block below. */
static uint32_t dx_target(stage *s, const chunk *c, uint32_t i)
{
    gal_builder *b = &s->b;
    if (i == c->first) {
        return c->dx_out;
    }
    const gal_layout *below = &s->block[i - 1].layout;
    if (gal_lower_keeps_dx(s, i)) {
        return gal_lower_port(s, GAL_CLASS_KEPT, i - 1, "dy", below, s->block[i].shape.in);
    }
    /* a ring: as large as its largest use */
    gal_builder_grow_buffer(b, b->boundary[i & 1u],
                            gal_layout_bytes(b, below, s->block[i].shape.in) / (is_linked(s, c, i) ? 2 : 1));
    return b->boundary[i & 1u];
}

/* Whether the backward of blocks i and i - 1 is issued together. */
static bool is_linked_backward(const stage *s, const chunk *c, uint32_t i)
{
    return is_linked(s, c, i) && !gal_emit_passes_apart(&s->block[i]) && !gal_emit_passes_apart(&s->block[i - 1]);
}

static void lower_backward(stage *s, chunk *c)
{
    gal_builder *b = &s->b;
    const uint32_t fragment =
        gal_fragment_number(b->split ? GAL_FRAGMENT_BACKWARD : GAL_FRAGMENT_BACKWARD_SYNC, c->number);
    const gal_block_emit *last = &s->block[c->end - 1];
    begun region = {0};
    uint64_t taken = 0; /* of the relayout class, by what the last block reads */
    uint32_t dy = c->dy_in;
    b->block = c->end - 1;
    begin_fragment(s, fragment);
    gal_carried_begin_backward(&c->carried);
    transfer(s, GAL_OP_RECEIVE, GAL_STREAM_RECEIVE_BACKWARD, "receive dcarried", GAL_GROUP_NEXT,
             gal_carried_received_gradient(&c->carried));
    transfer(s, GAL_OP_RECEIVE, GAL_STREAM_RECEIVE_BACKWARD, "receive dy", GAL_GROUP_NEXT, c->dy_in);
    send_dcarried(s, &c->carried, UINT32_MAX);
    if (c->exit.count > 0) {
        dy = gal_lower_relayout_buffer(s, c->end - 1, &last->layout, last->shape.out, &taken);
        gal_emit_steps(b, GAL_CLASS_RELAYOUT, c->exit.step, c->exit.count, true, last->shape.out, c->dy_in, dy, taken);
    }
    for (uint32_t i = c->end; i-- > c->first && !b->out_of_memory;) {
        gal_block_emit *e = &s->block[i];
        const uint32_t target = dx_target(s, c, i);
        uint64_t offset = taken;
        b->block = i;
        gal_emit_set_dy(b, e, i + 1 < c->end && is_linked(s, c, i + 1), dy);
        gal_emit_set_dx(b, e, is_linked(s, c, i),
                        s->convert[i].count == 0 ? target
                                                 : gal_lower_relayout_buffer(s, i, &e->layout, e->shape.in, &offset));
        gal_activations_fetch(b, e);
        gal_carried_before_backward(&c->carried, e);
        if (i + 1 == c->end || !is_linked_backward(s, c, i + 1)) {
            region = (begun){b->program->instruction_count, b->program->segment_count};
        }
        gal_emit_begin_segment(b, e, fragment);
        gal_emit_backward_all(b, e);
        gal_builder_end_segment(b);
        if (e->halved && !gal_emit_passes_apart(e) && !is_linked_backward(s, c, i)) {
            gal_overlap_order(b, region.instruction, region.segment);
        }
        gal_carried_after_backward(b, &c->carried, e);
        send_dcarried(s, &c->carried, i);
        gal_emit_steps(b, GAL_CLASS_RELAYOUT, s->convert[i].step, s->convert[i].count, true, e->shape.in, e->dx, target,
                       offset);
        taken = s->convert[i].count > 0 ? 0 : taken;
        dy = target;
    }
    transfer(s, GAL_OP_SEND, GAL_STREAM_SEND_BACKWARD, "send dx", GAL_GROUP_PREVIOUS, c->dx_out);
    end_fragment(s, fragment);
}

static void lower_weights(stage *s, const chunk *c)
{
    gal_builder *b = &s->b;
    const uint32_t fragment = gal_fragment_number(GAL_FRAGMENT_WEIGHT_SYNC, c->number);
    begin_fragment(s, fragment);
    b->rows_next = 0;
    for (uint32_t i = c->end; i-- > c->first && !b->out_of_memory;) {
        b->block = i;
        gal_builder_begin_segment(b, fragment);
        gal_emit_backward_weight(b, &s->block[i]);
        gal_builder_end_segment(b);
    }
    end_fragment(s, fragment);
}

/* Of forward what an evaluation leaves out: nobody asks for it again. */
static bool is_put_away(const gal_instruction *in)
{
    return in->op == GAL_OP_COPY_OUT || in->op == GAL_OP_STORAGE_WRITE;
}

/* The same instructions again, over the same operands. */
static void copy_fragment(stage *s, uint32_t from, bool evaluates, bool with_last)
{
    gal_builder *b = &s->b;
    gal_program *p = b->program;
    gal_fragment source = p->fragment[from];
    for (uint32_t i = 0; i < source.count && !b->out_of_memory; i++) {
        const gal_instruction *in = &p->instruction[source.first + i];
        if ((!with_last && in->only_last) || (evaluates && is_put_away(in))) {
            continue;
        }
        if (!gal_grow(&p->instruction, &p->room.instruction, p->instruction_count, sizeof *p->instruction)) {
            b->out_of_memory = true;
            return;
        }
        p->instruction[p->instruction_count++] = p->instruction[source.first + i];
    }
}

static void lower_evaluation(stage *s, uint32_t loss_replicas)
{
    gal_builder *b = &s->b;
    if (b->spec->lowered != GAL_LOWERED_WHOLE && !gal_lower_has_head(s)) {
        return;
    }
    for (uint32_t c = 0; c < s->chunk_count; c++) {
        const uint32_t fragment = gal_fragment_number(GAL_FRAGMENT_EVALUATE, c);
        begin_fragment(s, fragment);
        copy_fragment(s, gal_fragment_number(GAL_FRAGMENT_FORWARD, c), true, true);
        if (s->block[s->chunk[c].end - 1].graph.head) {
            b->block = s->chunk[c].end - 1;
            b->chunk = c;
            gal_builder_begin_segment(b, fragment);
            gal_emit_head_evaluation(b, &s->block[b->block]);
            gal_builder_end_segment(b);
        }
        end_fragment(s, fragment);
    }
    begin_fragment(s, GAL_FRAGMENT_EVALUATE_END);
    gal_zero_report(b, loss_replicas);
    end_fragment(s, GAL_FRAGMENT_EVALUATE_END);
}

/* Devices that have the same loss: those that split its vocabulary, and where it is of one row per sample those that
 * split its positions. */
static uint32_t loss_replicas_of(const gal_graph *g)
{
    const gal_node *loss = &g->node[g->node_count - 1];
    const bool single = g->head && g->value[loss->in[0]].single;
    return g->tp_degree * (single ? g->sequence_degree : 1);
}

static void lower_fragments(stage *s)
{
    gal_builder *b = &s->b;
    const gal_block_emit *last = &s->block[b->spec->block_count - 1];
    const uint32_t loss_replicas = loss_replicas_of(&last->graph);
    for (uint32_t c = 0; c < s->chunk_count; c++) {
        b->chunk = c;
        lower_forward(s, &s->chunk[c]);
        lower_backward(s, &s->chunk[c]);
        if (b->split) {
            lower_weights(s, &s->chunk[c]);
        }
        if (b->spec->lowered != GAL_LOWERED_SIZES && b->spec->lowered != GAL_LOWERED_PASSES_ONCE) {
            const uint32_t plain = gal_fragment_number(b->split ? GAL_FRAGMENT_WEIGHT : GAL_FRAGMENT_BACKWARD, c);
            begin_fragment(s, plain);
            copy_fragment(s, plain + GAL_FRAGMENT_BACKWARD_SYNC - GAL_FRAGMENT_BACKWARD, false, false);
            end_fragment(s, plain);
        }
    }
    if (b->spec->lowered >= GAL_LOWERED_PASSES) {
        return;
    }
    begin_fragment(s, GAL_FRAGMENT_UPDATE);
    gal_zero_update(b, loss_replicas);
    end_fragment(s, GAL_FRAGMENT_UPDATE);
    lower_evaluation(s, loss_replicas);
}

static void count_items(stage *s)
{
    gal_program *p = s->b.program;
    const gal_schedule_place place = gal_lower_stage_place(s);
    uint32_t in_flight[GAL_CHUNKS_MAX];
    uint32_t m = p->microbatch_count;
    uint32_t two = m < 2 ? m : 2;
    const uint32_t kept = gal_schedule_kept(&place);
    p->in_flight = gal_schedule_in_flight(&place, in_flight);
    for (uint32_t c = 0; c < GAL_CLASS_COUNT; c++) {
        p->arena[c].count = 1;
    }
    for (uint32_t c = 0; c < s->chunk_count; c++) {
        const uint32_t ahead = in_flight[c] + 1 < m ? in_flight[c] + 1 : m;
        const uint32_t first = s->chunk[c].first; /* backward reads what is received, if that is the block's input */
        const bool received = s->convert[first].count == 0 && !s->block[first].puts_x_away;
        const bool dy_kept = p->split && gal_emit_weight_reads_dy(&s->b, &s->block[s->chunk[c].end - 1]);
        p->arena[gal_arena_number(GAL_CLASS_SAVED, c)].count = in_flight[c];
        p->arena[gal_arena_number(GAL_CLASS_HOST_SAVED, c)].count = in_flight[c];
        p->arena[gal_arena_number(GAL_CLASS_STORAGE_SAVED, c)].count = in_flight[c];
        p->arena[gal_arena_number(GAL_CLASS_X_IN, c)].count = received ? ahead : two;
        p->arena[gal_arena_number(GAL_CLASS_CARRIED, c)].count = ahead;
        p->arena[gal_arena_number(GAL_CLASS_Y_OUT, c)].count = two;
        p->arena[gal_arena_number(GAL_CLASS_KEPT, c)].count = kept > 0 ? kept : 1;
        p->arena[gal_arena_number(GAL_CLASS_DY_IN, c)].count = !dy_kept ? two : kept + 1 < m ? kept + 1 : m;
        p->arena[gal_arena_number(GAL_CLASS_DX_OUT, c)].count = two;
    }
}

static gal_code make_calls(stage *s)
{
    gal_program *p = s->b.program;
    gal_schedule_walk walk = {.at = gal_lower_stage_place(s)};
    const uint32_t units = s->chunk_count * p->microbatch_count;
    p->call = calloc((size_t)gal_schedule_call_count(&walk.at) + 1, sizeof *p->call);
    p->evaluate_call = calloc((size_t)units + 1, sizeof *p->evaluate_call);
    if (p->call == NULL || p->evaluate_call == NULL) {
        return GAL_ERR_SYSTEM;
    }
    while (gal_schedule_next(&walk, &p->call[p->call_count])) {
        p->call_count++;
    }
    p->call[p->call_count++] = (gal_call){GAL_FRAGMENT_UPDATE, 0};
    for (uint32_t i = 0; i < units; i++) {
        p->evaluate_call[i] = gal_schedule_forward(&walk.at, i, GAL_FRAGMENT_EVALUATE);
    }
    p->evaluate_call[units] = (gal_call){GAL_FRAGMENT_EVALUATE_END, 0};
    p->evaluate_call_count = units + 1;
    return GAL_OK;
}

/* What follows from the lists. */
static gal_code finish(stage *s, gal_error *err)
{
    const gal_code code = gal_program_derive(s->b.program, err);
    if (code != GAL_OK) {
        return code;
    }
    gal_place(s->b.program, s->b.program);
    return make_calls(s);
}

gal_code gal_lower_spec(const gal_stage_spec *spec, gal_program **out, gal_error *err)
{
    gal_code code = GAL_OK;
    stage s;
    GAL_TRY(gal_lower_stage_create(spec, &s, err));
    lower_fragments(&s);
    count_items(&s);
    code = s.b.out_of_memory ? GAL_ERR_SYSTEM : GAL_OK;
    GAL_TRY(code);
    if (s.b.too_large) {
        GAL_TRY(gal_fail(err, GAL_ERR_DOCUMENT,
                         "stage %u: a tensor has more than 4294967295 elements on one device: use more microbatches, "
                         "more tensor parallelism or sharding",
                         spec->stage));
    }
    if (spec->lowered < GAL_LOWERED_LISTS) {
        GAL_TRY(finish(&s, err));
    }
    *out = s.b.program;
    s.b.program = NULL;
cleanup:
    if (code == GAL_ERR_SYSTEM) {
        gal_fail(err, code, "not enough memory to lower stage %u", spec->stage);
    }
    gal_lower_stage_free(&s);
    return code;
}
