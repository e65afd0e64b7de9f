#include "costmodel/chain.h"

#include <math.h>
#include <stdlib.h>

#include "costmodel/together.h"

enum { FORWARD_0, BACKWARD_0, FORWARD_1, SYNC, MICROBATCHES = 2 };

const gal_call gal_chain_calls[GAL_CHAIN_CALLS] = {
    [FORWARD_0] = {GAL_FRAGMENT_FORWARD, 0},
    [BACKWARD_0] = {GAL_FRAGMENT_BACKWARD, 0},
    [FORWARD_1] = {GAL_FRAGMENT_FORWARD, 1},
    [SYNC] = {GAL_FRAGMENT_BACKWARD_SYNC, 1},
};
const gal_call gal_chain_sync_calls[GAL_CHAIN_SYNC_CALLS] = {
    {GAL_FRAGMENT_FORWARD, 1},
    {GAL_FRAGMENT_BACKWARD_SYNC, 1},
};

static bool touches_carried(const gal_block_spec *block)
{
    return block->shape.kind == GAL_BLOCK_BRIDGE || block->shape.kind == GAL_BLOCK_CROSS_ATTENTION;
}

void gal_chain_carry_on(gal_block_spec *block, uint32_t block_count)
{
    bool touched = false;
    for (uint32_t i = 0; i < block_count; i++) {
        touched = touched || touches_carried(&block[i]);
    }
    for (uint32_t i = 0; i < block_count; i++) {
        gal_block_shape *shape = &block[i].shape;
        if (!touched) {
            shape->carried_in = shape->carried_out = (gal_flow){0, 0};
        } else if (shape->carried_in.positions > 0) {
            shape->carried_out = shape->carried_in;
        }
    }
}

void gal_chain_stage(const gal_chain_spec *spec, gal_lowered lowered, gal_block_spec *block, gal_stage_spec *out)
{
    const gal_price_query *query = spec->query;
    for (uint32_t i = 0; i < spec->block_count; i++) {
        block[i].strategy = spec->strategy[i];
        gal_model_type(spec->model, spec->type[i], &block[i].shape);
    }
    gal_chain_carry_on(block, spec->block_count);
    const bool first = block[0].shape.in.positions == 0;
    const bool last = block[spec->block_count - 1].shape.out.positions == 0;
    for (uint32_t i = 0; i < spec->block_count; i++) {
        block[i].block = first ? i : i + 1;
    }
    *out = (gal_stage_spec){.model = spec->model,
                            .device_count = query->device_count,
                            .stage = first ? 0 : 1,
                            .stage_count = 1 + (first ? 0u : 1u) + (last ? 0u : 1u),
                            .microbatch_samples = query->microbatch_samples,
                            .microbatch_count = MICROBATCHES,
                            .schedule = GAL_SCHEDULE_1F1B,
                            .prefetch_depth = query->prefetch_depth,
                            .block_count = spec->block_count,
                            .block = block,
                            .own_entry = spec->entry == NULL, /* a plan may order its samples otherwise */
                            .chunks_apart = true,
                            .lowered = lowered};
    if (spec->entry != NULL) {
        out->entry_layout = *spec->entry;
        out->carried_layout = spec->carried != NULL ? *spec->carried : *spec->entry;
    }
}

void gal_chain_read(const gal_alone_ends *ends, uint32_t block_count, gal_chain_times *out)
{
    const double *call = ends->call_seconds;
    out->forward_seconds = call[FORWARD_1] - call[BACKWARD_0];
    out->first_forward_seconds = call[FORWARD_0];
    out->backward_seconds = call[BACKWARD_0] - call[FORWARD_0];
    out->sync_seconds = call[SYNC] - call[FORWARD_1] - out->backward_seconds;
    out->left_seconds = fmax(ends->reduce_seconds[BACKWARD_0] - call[BACKWARD_0], 0.0);
    out->late_seconds = fmin(fmax(ends->compute_seconds[SYNC] - call[FORWARD_1] - out->backward_seconds, 0.0),
                             fmax(out->left_seconds - out->forward_seconds, 0.0));
    for (uint32_t i = 0; i < block_count; i++) {
        out->forward_end[i] = ends->block_seconds[FORWARD_1][i] - call[BACKWARD_0];
        out->backward_end[i] = ends->block_seconds[BACKWARD_0][i] - call[FORWARD_0];
    }
}

double gal_chain_sync_seconds(const gal_alone_ends *ends)
{
    return ends->call_seconds[1] - ends->call_seconds[0];
}

uint32_t gal_units_of_shared(const gal_program *program, gal_shared shared)
{
    uint32_t units = 0;
    for (uint32_t u = 0; u < program->unit_count; u++) {
        units |= (uint32_t)(program->unit[u].copies == gal_group_of_shared(shared)) << u;
    }
    return units;
}

/* Whether a weight or gradient, here or on the host, a moment or a master is of one of these units. */
static bool is_of_units(const gal_program *program, uint32_t buffer, uint32_t units)
{
    for (; units != 0; units &= units - 1) {
        const gal_unit *unit = &program->unit[__builtin_ctz(units)];
        if (unit->weight == buffer || unit->gradient == buffer || unit->host_weight == buffer ||
            unit->host_gradient == buffer || unit->first_moment == buffer || unit->second_moment == buffer ||
            unit->master == buffer) {
            return true;
        }
    }
    return false;
}

/* Of what begins when the norm is known: Adam, the host's included, and what it moves; else a sum of squares. */
static bool follows_norm(const gal_instruction *in)
{
    return in->stream != GAL_STREAM_COMPUTE || in->op == GAL_OP_ADAM || in->op == GAL_OP_ADAM_IN_PLACE;
}

double gal_update_seconds(const gal_program *program, const gal_cost *cost, const gal_company_factors *factors,
                          uint32_t block, uint32_t left_out)
{
    const gal_fragment *fragment = &program->fragment[GAL_FRAGMENT_UPDATE];
    double squares = 0.0;
    gal_stream_work behind = {.unstored_seconds = 0.0};
    for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
        const gal_instruction *in = &program->instruction[i];
        /* the other comes from a ring of all units, or may come */
        const uint32_t of_unit = in->op == GAL_OP_STORAGE_WRITE || in->op == GAL_OP_HOST_ADAM_PART ? 1 : 0;
        const uint32_t buffer = program->operand[in->first_operand + of_unit].buffer;
        const bool counts = (in->group & GAL_GROUP_RELATION) == 0 && program->buffer[buffer].block == block &&
                            !is_of_units(program, buffer, left_out);
        if (counts) {
            double *sum = !follows_norm(in)            ? &squares
                          : in->op == GAL_OP_HOST_ADAM ? &behind.unstored_seconds
                                                       : &behind.seconds[in->stream];
            *sum += cost[i].seconds;
            behind.activity[in->stream] = cost[i].activity;
        }
    }
    return squares + gal_together_seconds(&behind, factors);
}

/* What a chain's costs come from. */
typedef struct costs {
    const gal_durations *durations;
    const gal_program *program;
    gal_place_in_cluster place;
    gal_known_kernels *known; /* or NULL */
    double *shape_seconds;    /* [shape]: negative: not known yet */
} costs;

static double shape_seconds(const costs *c, uint32_t number)
{
    const gal_shape *shape = &c->program->shape[number];
    double *seconds = &c->shape_seconds[number];
    if (*seconds < 0.0) {
        *seconds = c->known != NULL ? gal_known_kernel_seconds(c->known, c->durations, shape)
                                    : gal_kernel_seconds(c->durations, shape, NULL);
    }
    return *seconds;
}

/* Costs in company of a step's fragments; what goes between stages belongs to no block and stays 0. Where a group lies
 * is looked up once for collectives that follow each other. */
static void fill_costs(const costs *c, gal_cost *cost)
{
    uint32_t level_counts[GAL_LINK_LEVELS_MAX] = {0};
    gal_group group = GAL_GROUP_NONE;
    for (uint32_t f = 0; f <= GAL_FRAGMENT_UPDATE; f++) {
        const gal_fragment *fragment = &c->program->fragment[f];
        for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
            const gal_instruction *in = &c->program->instruction[i];
            if ((in->group & GAL_GROUP_RELATION) != 0) {
                cost[i] = (gal_cost){.activity = GAL_ACTIVITY_COMMUNICATION};
            } else if (gal_op_is_collective[in->op]) {
                if (in->group != group || group == GAL_GROUP_NONE) {
                    group = in->group;
                    gal_group_level_counts(gal_durations_cluster(c->durations), &c->place, group, level_counts);
                }
                cost[i] = gal_collective_cost(c->durations, (gal_op)in->op, level_counts, in->bytes);
            } else {
                cost[i] = gal_kernel_cost(
                    c->durations, (gal_op)in->op,
                    gal_kernel_in_company(c->durations, c->program, f, in, shape_seconds(c, in->shape)));
            }
        }
    }
}

gal_cost *gal_chain_costs(const gal_chain_spec *spec, const gal_program *program, gal_known_kernels *known)
{
    const gal_price_query *query = spec->query;
    const size_t count = (size_t)program->instruction_count + 1;
    gal_cost *cost = malloc(count * sizeof *cost + program->shape_count * sizeof(double));
    if (cost != NULL) {
        const costs c = {.durations = spec->durations,
                         .program = program,
                         .place = {&program->atoms, program->device_count, query->stage, query->stage_count},
                         .known = known,
                         .shape_seconds = (double *)(cost + count)};
        for (uint32_t i = 0; i < program->shape_count; i++) {
            c.shape_seconds[i] = -1.0;
        }
        fill_costs(&c, cost);
    }
    return cost;
}
