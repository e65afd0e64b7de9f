/* What of a stage stands before its first instruction: chunks, conversions, blocks, parameters and ports. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/program/halves.h"
#include "runtime/program/lower/lower_stage.h"

typedef gal_lower_stage stage;
typedef gal_lower_chunk chunk;
typedef gal_lower_conversion conversion;

static bool is_first(const stage *s, const chunk *c)
{
    return s->b.spec->stage == 0 && c->number == 0;
}

static bool is_last(const stage *s, const chunk *c)
{
    return s->b.spec->stage + 1 == s->b.spec->stage_count && c->number + 1 == s->chunk_count;
}

/* The steps into a block's layout. An embedding makes its rows itself: every layout is free there. */
static uint32_t enter_block(const gal_atoms *atoms, const gal_block_spec *block, const gal_layout *from,
                            gal_layout_step *steps, gal_layout *to)
{
    const uint32_t count = gal_layout_enter(from, atoms, block->strategy, steps, to);
    return block->shape.in.positions == 0 ? 0 : count;
}

void gal_layouts_after(const gal_stage_spec *spec, gal_flow_layouts *out)
{
    gal_atoms atoms;
    gal_layout_step steps[GAL_LAYOUT_STEPS_MAX];
    gal_flow_layouts now = {spec->entry_layout, spec->carried_layout};
    gal_atoms_of(spec->device_count, &atoms);
    for (uint32_t i = 0; i < spec->block_count; i++) {
        const gal_block_spec *block = &spec->block[i];
        const gal_layout before = now.rows;
        enter_block(&atoms, block, &before, steps, &now.rows);
        if (block->shape.kind == GAL_BLOCK_BRIDGE || block->shape.kind == GAL_BLOCK_CROSS_ATTENTION) {
            now.carried = now.rows; /* made or converted there */
        }
    }
    *out = now;
}

/* ---- set-up: blocks, parameters, ports ---- */

static bool piece_holds(const gal_stage_spec *spec, uint32_t piece, gal_shared shared)
{
    for (uint32_t i = spec->first_block[piece]; i < spec->first_block[piece + 1]; i++) {
        gal_block_shape shape;
        gal_model_block(spec->model, i, &shape);
        if ((shape.shared >> shared & 1U) != 0) {
            return true;
        }
    }
    return false;
}

/* A set is not cleared as a whole: most have one range of the room for many. */
static void add_range(gal_stage_set *set, uint32_t first, uint32_t end)
{
    set->range[set->range_count].first = first;
    set->range[set->range_count++].end = end;
}

/* The stages with a block that holds the tensor. GAL_ERR_DOCUMENT: they lie in more ranges than a set has. */
static gal_code find_holders(const gal_stage_spec *spec, gal_shared shared, gal_stage_set *out, gal_error *err)
{
    const uint32_t pieces = spec->stage_count * (spec->chunk_count == 0 ? 1 : spec->chunk_count);
    out->range_count = 0;
    for (uint32_t s = 0; s < spec->stage_count; s++) {
        bool holds = false;
        for (uint32_t piece = s; piece < pieces && !holds; piece += spec->stage_count) {
            holds = piece_holds(spec, piece, shared);
        }
        if (!holds) {
            continue;
        }
        if (out->range_count > 0 && out->range[out->range_count - 1].end == s) {
            out->range[out->range_count - 1].end++;
        } else {
            if (out->range_count == GAL_STAGE_RANGES_MAX) {
                return gal_fail(err, GAL_ERR_DOCUMENT,
                                "stage %u: stages with and without a shared tensor take turns more than %d times: cut "
                                "the pipeline so that neighbouring stages hold it",
                                s, GAL_STAGE_RANGES_MAX);
            }
            add_range(out, s, s + 1);
        }
    }
    return GAL_OK;
}

static gal_code describe_holders(const gal_stage_spec *spec, gal_stage_set holders[GAL_SHARED_COUNT], gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t last = spec->stage_count - 1;
    for (uint32_t shared = 0; shared < GAL_SHARED_COUNT && code == GAL_OK; shared++) {
        gal_stage_set *set = &holders[shared];
        set->range_count = 0;
        if (spec->first_block != NULL) {
            code = find_holders(spec, (gal_shared)shared, set, err);
        } else if (shared == GAL_SHARED_TABLE && last > 0) {
            add_range(set, 0, 1);
            add_range(set, last, last + 1);
        } else {
            add_range(set, 0, last + 1);
        }
    }
    return code;
}

static gal_code allocate(stage *s, const gal_stage_spec *spec)
{
    s->b.spec = spec;
    s->b.program = spec->recycled != NULL ? spec->recycled : calloc(1, sizeof *s->b.program);
    s->block = spec->block_count <= GAL_LOWER_FEW ? s->few_blocks : malloc(spec->block_count * sizeof *s->block);
    s->convert =
        spec->block_count <= GAL_LOWER_FEW ? s->few_conversions : calloc(spec->block_count, sizeof *s->convert);
    s->chunk_count = spec->chunk_count == 0 ? 1 : spec->chunk_count;
    s->chunk = s->chunk_count == 1 ? &s->one_chunk : calloc(s->chunk_count, sizeof *s->chunk);
    s->b.out_of_memory = s->b.program == NULL || s->block == NULL || s->convert == NULL || s->chunk == NULL;
    if (spec->recycled != NULL) {
        gal_program_empty(spec->recycled);
    }
    s->b.boundary[0] = s->b.boundary[1] = s->b.scratch = GAL_NO_BUFFER;
    s->b.boundary_second[0] = s->b.boundary_second[1] = GAL_NO_BUFFER;
    s->b.rows[0] = s->b.rows[1] = GAL_NO_BUFFER;
    for (uint32_t i = 0; i < GAL_STORED_RING; i++) {
        for (uint32_t k = 0; k < GAL_STORED_KINDS; k++) {
            s->b.stored[i][k] = GAL_NO_BUFFER;
        }
    }
    s->b.staged[0] = s->b.staged[1] = s->b.staged_x[0] = s->b.staged_x[1] = GAL_NO_BUFFER;
    memset(s->b.passing, 0xFF, sizeof s->b.passing); /* GAL_NO_BUFFER */
    return s->b.out_of_memory ? GAL_ERR_SYSTEM : GAL_OK;
}

static gal_code describe(stage *s, gal_error *err)
{
    const gal_stage_spec *spec = s->b.spec;
    gal_program *p = s->b.program;
    p->stage = spec->stage;
    p->stage_count = spec->stage_count;
    p->device_count = spec->device_count;
    p->microbatch_samples = spec->microbatch_samples;
    p->microbatch_count = spec->microbatch_count;
    p->dtype = spec->model->compute_dtype;
    p->padding = spec->model->padding;
    p->chunk_count = s->chunk_count;
    p->split = s->b.split = gal_schedule_splits(spec->schedule);
    p->block_count = spec->block_count;
    p->first_block = spec->block[0].block;
    gal_atoms_of(spec->device_count, &p->atoms);
    p->host_norm_buffer = GAL_NO_BUFFER;
    return describe_holders(spec, p->holders, err);
}

gal_schedule_place gal_lower_stage_place(const stage *s)
{
    const gal_stage_spec *spec = s->b.spec;
    return (gal_schedule_place){spec->schedule, spec->stage, spec->stage_count, s->chunk_count, spec->microbatch_count};
}

static void keep_steps(stage *s, conversion *out, const gal_layout_step *steps, uint32_t count)
{
    if (count == 0) {
        return;
    }
    out->step = malloc(count * sizeof *steps);
    if (out->step == NULL) {
        s->b.out_of_memory = true;
        return;
    }
    memcpy(out->step, steps, count * sizeof *steps);
    out->count = count;
}

/* Whether the rows that enter or leave the chunk are those of its end block as they are: prices are of chains inside
 * longer ones. */
static bool ends_halved(const stage *s, uint32_t block)
{
    return s->b.spec->own_entry && s->block[block].halved;
}

/* The rows as the first block of all wants them. */
static gal_layout own_entry(const stage *s)
{
    const gal_stage_spec *spec = s->b.spec;
    const gal_atoms *atoms = &s->b.program->atoms;
    gal_layout own;
    gal_layout_of_strategy(spec->microbatch_samples, atoms, spec->block[0].strategy, &own);
    return own;
}

static void cut_chunks(stage *s)
{
    const gal_stage_spec *spec = s->b.spec;
    uint32_t first = 0;
    for (uint32_t i = 0; i < s->chunk_count; i++) {
        const gal_chunk_spec *given = spec->chunk_count == 0 ? NULL : &spec->chunk[i];
        chunk *c = &s->chunk[i];
        c->number = i;
        c->first = first;
        c->end = first + (given == NULL ? spec->block_count : given->block_count);
        c->x_in = c->y_out = c->dy_in = c->dx_out = GAL_NO_BUFFER;
        c->entry_layout = given == NULL ? spec->entry_layout : given->entry_layout;
        c->carried_layout = given == NULL ? &spec->carried_layout : &given->carried_layout;
        gal_carried_begin(&c->carried, c->first, c->end);
        first = c->end;
    }
    GAL_ASSERT(first == spec->block_count);
    if (spec->own_entry) {
        s->chunk[0].entry_layout = own_entry(s);
        s->chunk[0].carried_layout = &s->chunk[0].entry_layout;
    }
}

static void make_blocks(stage *s, chunk *c)
{
    gal_layout_step steps[GAL_LAYOUT_STEPS_MAX + 2];
    const gal_stage_spec *spec = s->b.spec;
    gal_layout now = c->entry_layout;
    for (uint32_t i = c->first; i < c->end; i++) {
        gal_layout next;
        const uint32_t count = enter_block(&s->b.program->atoms, &spec->block[i], &now, steps, &next);
        s->b.block = i;
        gal_emit_init(&s->b, i, &next, i > 0 ? &s->block[i - 1] : NULL, &s->block[i]);
        const bool from_halved = i > c->first ? s->block[i - 1].halved : ends_halved(s, i);
        keep_steps(s, &s->convert[i], steps,
                   gal_halves_add_steps(from_halved, s->block[i].halved, &now, &next, steps, count));
        gal_zero_units(&s->b, &s->block[i], &s->holders);
        if (!gal_carried_add_block(&c->carried, &s->b.program->atoms, i, &spec->block[i].shape, &next,
                                   c->carried_layout)) {
            s->b.out_of_memory = true;
            return;
        }
        now = next;
    }
    gal_zero_close_units(&s->b, &s->holders);
    c->exit_layout = now;
    const bool joins = s->block[c->end - 1].halved && !is_last(s, c) && !ends_halved(s, c->end - 1);
    keep_steps(s, &c->exit, steps, gal_halves_add_steps(joins, false, &now, &now, steps, 0));
}

uint32_t gal_lower_port(stage *s, gal_class class, uint32_t block, const char *name, const gal_layout *layout,
                        gal_flow rows)
{
    return gal_builder_buffer(&s->b, class, block, name, gal_layout_bytes(&s->b, layout, rows));
}

bool gal_lower_has_head(const stage *s)
{
    return s->block[s->b.spec->block_count - 1].graph.head;
}

static void make_results(stage *s)
{
    gal_program *p = s->b.program;
    p->loss_buffer =
        gal_lower_has_head(s) ? gal_builder_buffer(&s->b, GAL_CLASS_STATE, GAL_NO_BUFFER, "loss", 16) : GAL_NO_BUFFER;
    p->norm_buffer = gal_builder_buffer(&s->b, GAL_CLASS_STATE, GAL_NO_BUFFER, "norm", 16);
}

bool gal_lower_keeps_dx(const stage *s, uint32_t i)
{
    return s->b.split && gal_emit_weight_reads_dy(&s->b, &s->block[i - 1]);
}

static void make_ports(stage *s, chunk *c)
{
    const gal_flow entry = s->block[c->first].shape.in, exit = s->block[c->end - 1].shape.out;
    s->b.chunk = c->number;
    if (!is_first(s, c)) {
        c->x_in = gal_lower_port(s, GAL_CLASS_X_IN, GAL_NO_BUFFER, "x_in", &c->entry_layout, entry);
        c->dx_out = gal_lower_port(s, GAL_CLASS_DX_OUT, GAL_NO_BUFFER, "dx_out", &c->entry_layout, entry);
    }
    if (!is_last(s, c)) {
        c->y_out = gal_lower_port(s, GAL_CLASS_Y_OUT, GAL_NO_BUFFER, "y_out", &c->exit_layout, exit);
        c->dy_in = gal_lower_port(s, GAL_CLASS_DY_IN, GAL_NO_BUFFER, "dy_in", &c->exit_layout, exit);
    }
    for (uint32_t i = c->first; i < c->end; i++) {
        gal_block_emit *e = &s->block[i];
        if (e->graph.x != GAL_NO_VALUE) {
            bool received = i == c->first && s->convert[i].count == 0;
            const uint32_t staged = e->puts_x_away ? gal_activations_input(&s->b, e) : GAL_NO_BUFFER;
            e->x = received         ? c->x_in
                   : e->puts_x_away ? staged
                                    : gal_lower_port(s, GAL_CLASS_SAVED, i, "x", &e->layout, e->shape.in);
        }
        if (i > c->first && !gal_lower_keeps_dx(s, i) && s->b.boundary[i & 1u] == GAL_NO_BUFFER) {
            s->b.boundary[i & 1u] = gal_builder_buffer(&s->b, GAL_CLASS_BOUNDARY, GAL_NO_BUFFER, "boundary", 0);
        }
    }
    gal_carried_make_ports(&s->b, &c->carried, s->block);
}

uint32_t gal_lower_relayout_buffer(stage *s, uint32_t block, const gal_layout *layout, gal_flow rows,
                                   uint64_t *next_offset)
{
    uint32_t buffer = gal_lower_port(s, GAL_CLASS_RELAYOUT, block, "relayout", layout, rows);
    if (!s->b.out_of_memory) {
        s->b.program->buffer[buffer].offset = *next_offset;
    }
    *next_offset += gal_align(gal_layout_bytes(&s->b, layout, rows));
    return buffer;
}

gal_code gal_lower_stage_create(const gal_stage_spec *spec, stage *out, gal_error *err)
{
    memset(out, 0, offsetof(stage, few_blocks));
    gal_code code = allocate(out, spec);
    code = code == GAL_OK ? describe(out, err) : code;
    if (code != GAL_OK) {
        return code;
    }
    cut_chunks(out);
    for (uint32_t c = 0; c < out->chunk_count; c++) {
        make_blocks(out, &out->chunk[c]);
    }
    make_results(out);
    for (uint32_t c = 0; c < out->chunk_count; c++) {
        make_ports(out, &out->chunk[c]);
    }
    return GAL_OK;
}

void gal_lower_stage_free(stage *s)
{
    const uint32_t block_count = s->b.spec->block_count;
    free(s->b.shape_slot);
    for (uint32_t i = 0; s->chunk != NULL && i < s->chunk_count; i++) {
        gal_carried_free(&s->chunk[i].carried);
        free(s->chunk[i].exit.step);
    }
    for (uint32_t i = 0; s->convert != NULL && i < block_count; i++) {
        free(s->convert[i].step);
    }
    if (block_count > GAL_LOWER_FEW) {
        free(s->convert);
        free(s->block);
    }
    if (s->chunk_count > 1) {
        free(s->chunk);
    }
    gal_program_free(s->b.program);
}
