#include "costmodel/chain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "costmodel/alone.h"

enum { FORWARD_0, BACKWARD_0, FORWARD_1, SYNC, CALL_COUNT, MICROBATCHES = 2, NOT_SCALED = 255 };

static const gal_call calls[CALL_COUNT] = {
    [FORWARD_0] = {GAL_FRAGMENT_FORWARD, 0},
    [BACKWARD_0] = {GAL_FRAGMENT_BACKWARD, 0},
    [FORWARD_1] = {GAL_FRAGMENT_FORWARD, 1},
    [SYNC] = {GAL_FRAGMENT_BACKWARD_SYNC, 1},
};

/* Instructions of equal cost alone. */
typedef struct kind_of_cost {
    uint32_t instruction; /* one of them */
    uint8_t scaled_dim;   /* of its shape, with the samples; NOT_SCALED: none */
    bool scaled_bytes;
} kind_of_cost;

struct gal_chain {
    const gal_durations *durations;
    gal_program *program;
    gal_expansion expansion;
    gal_simulation_input input; /* slowdowns */
    uint32_t microbatch_samples;
    uint64_t grain_bytes; /* divides all buffers that grow with the samples */
    bool memory_known[GAL_CHAIN_MAX];
    gal_block_memory memory[GAL_CHAIN_MAX];
    uint16_t *kind_of; /* [instruction] */
    kind_of_cost *kind;
    gal_cost *cost; /* [kind], renewed */
    uint32_t kind_count;
};

/* ---- creation ---- */

/* The layout of the first strategy, reached from whole rows; a plan's own may order its samples otherwise. */
static void own_layout(gal_stage_spec *spec, gal_layout *out)
{
    const uint32_t count = spec->block_count;
    gal_layout_whole(spec->microbatch_samples, &spec->entry_layout);
    spec->block_count = 1;
    gal_layout_after(spec, out);
    spec->block_count = count;
}

static gal_code lower(const gal_chain_spec *chain, gal_program **program, gal_error *err)
{
    gal_block_spec block[GAL_CHAIN_MAX];
    const bool first = chain->kind[0] == GAL_BLOCK_EMBEDDING;
    const bool last = chain->kind[chain->block_count - 1] == GAL_BLOCK_HEAD;
    for (uint32_t i = 0; i < chain->block_count; i++) {
        block[i] = (gal_block_spec){chain->kind[i], first ? i : i + 1, chain->strategy[i]};
    }
    gal_stage_spec spec = {.model = chain->model,
                           .device_count = chain->query->device_count,
                           .stage = first ? 0 : 1,
                           .stage_count = 1 + (first ? 0u : 1u) + (last ? 0u : 1u),
                           .microbatch_samples = chain->query->microbatch_samples,
                           .microbatch_count = MICROBATCHES,
                           .schedule = GAL_SCHEDULE_1F1B,
                           .prefetch_depth = chain->query->prefetch_depth,
                           .block_count = chain->block_count,
                           .block = block};
    gal_layout entry;
    own_layout(&spec, &entry);
    if (!first) {
        spec.entry_layout = chain->entry != NULL ? *chain->entry : entry;
    }
    return gal_lower_spec(&spec, program, err);
}

/* The dimension of a kernel's shape that counts rows or samples; weights, optimizer and ZeRO kernels have none. */
static uint8_t scaled_dim(const gal_program *program, const gal_instruction *in)
{
    if (in->op == GAL_OP_GEMM) { /* of a weight gradient the rows are summed over */
        const gal_operand *c = &program->operand[in->first_operand + 2];
        const uint8_t class = program->buffer[c->buffer].class;
        return class == GAL_CLASS_GRADIENT || class == GAL_CLASS_BUCKET ? 2 : 0;
    }
    switch ((gal_op)in->op) {
    case GAL_OP_PERMUTE:
        return 1;
    case GAL_OP_ADD:
    case GAL_OP_FILL:
    case GAL_OP_NORM_START:
    case GAL_OP_SUM_SQUARES:
    case GAL_OP_ADAM:
        return NOT_SCALED;
    default:
        return 0;
    }
}

static bool same_kind(const gal_program *program, const gal_chain *chain, const kind_of_cost *a, const kind_of_cost *b)
{
    const gal_instruction *x = &chain->program->instruction[a->instruction];
    const gal_instruction *y = &program->instruction[b->instruction];
    return x->shape == y->shape && a->scaled_dim == b->scaled_dim && a->scaled_bytes == b->scaled_bytes &&
           (!gal_op_is_collective[x->op] || x->group == y->group);
}

/* Rows travel on the tensor stream and between stages; weights and gradients elsewhere. */
static void sort_kinds(gal_chain *chain)
{
    const gal_program *program = chain->program;
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        const gal_instruction *in = &program->instruction[i];
        const bool collective = gal_op_is_collective[in->op] != 0;
        const kind_of_cost kind = {.instruction = i,
                                   .scaled_dim = collective ? (uint8_t)NOT_SCALED : scaled_dim(program, in),
                                   .scaled_bytes = collective && in->stream != GAL_STREAM_GATHER &&
                                                   in->stream != GAL_STREAM_REDUCE};
        uint32_t at = 0;
        while (at < chain->kind_count && !same_kind(program, chain, &chain->kind[at], &kind)) {
            at++;
        }
        if (at == chain->kind_count) {
            chain->kind[chain->kind_count++] = kind;
        }
        chain->kind_of[i] = (uint16_t)at;
    }
}

static gal_code allocate(gal_chain *chain, gal_error *err)
{
    const size_t count = (size_t)chain->program->instruction_count + 1;
    chain->kind_of = malloc(count * sizeof *chain->kind_of);
    chain->kind = malloc(count * sizeof *chain->kind);
    chain->cost = calloc(count, sizeof *chain->cost);
    if (chain->kind_of == NULL || chain->kind == NULL || chain->cost == NULL || count > UINT16_MAX) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: price");
    }
    return GAL_OK;
}

/* Activities are known from the operators, seconds and levels come with measure. */
static void initial_costs(const gal_program *program, gal_cost *cost)
{
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        const bool collective = gal_op_is_collective[program->instruction[i].op] != 0;
        cost[i].activity = (uint8_t)(collective ? GAL_ACTIVITY_COMMUNICATION : GAL_ACTIVITY_COMPUTE);
    }
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static bool grows(const gal_buffer *buffer)
{
    return buffer->class == GAL_CLASS_SAVED || buffer->class == GAL_CLASS_WORK || buffer->class == GAL_CLASS_RELAYOUT;
}

static void read_grain(gal_chain *chain)
{
    for (uint32_t i = 0; i < chain->program->buffer_count; i++) {
        if (grows(&chain->program->buffer[i])) {
            chain->grain_bytes = common_divisor(chain->program->buffer[i].bytes, chain->grain_bytes);
        }
    }
}

gal_code gal_chain_create(const gal_chain_spec *spec, gal_chain **out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_chain *chain = calloc(1, sizeof *chain);
    if (chain == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: price");
    }
    chain->durations = spec->durations;
    chain->microbatch_samples = spec->query->microbatch_samples;
    gal_simulation_slowdowns(spec->durations, &chain->input);
    GAL_TRY(lower(spec, &chain->program, err));
    GAL_TRY(allocate(chain, err));
    sort_kinds(chain);
    read_grain(chain);
    initial_costs(chain->program, chain->cost);
    GAL_TRY(gal_expand(chain->program, calls, CALL_COUNT, chain->cost, (gal_expand_options){.alone = true},
                       &chain->expansion, err));
    *out = chain;
    chain = NULL;
cleanup:
    gal_chain_free(chain);
    return code;
}

void gal_chain_free(gal_chain *chain)
{
    if (chain != NULL) {
        gal_expansion_free(&chain->expansion);
        gal_program_free(chain->program);
        free(chain->kind_of);
        free(chain->kind);
        free(chain->cost);
        free(chain);
    }
}

/* ---- renewing ---- */

bool gal_chain_scales(const gal_chain *chain, uint32_t microbatch_samples)
{
    const uint64_t grain = chain->grain_bytes;
    return microbatch_samples == chain->microbatch_samples ||
           (grain % GAL_ALIGNMENT_BYTES == 0 &&
            grain * microbatch_samples % ((uint64_t)chain->microbatch_samples * GAL_ALIGNMENT_BYTES) == 0);
}

static void renew_costs(gal_chain *chain, uint32_t samples, uint32_t stage, uint32_t stage_count)
{
    const gal_program *program = chain->program;
    const gal_place_in_cluster place = {&program->atoms, program->device_count, stage, stage_count};
    const uint64_t was = chain->microbatch_samples;
    for (uint32_t i = 0; i < chain->kind_count; i++) {
        const kind_of_cost *kind = &chain->kind[i];
        gal_instruction in = program->instruction[kind->instruction];
        if ((in.group & GAL_GROUP_RELATION) != 0) {
            continue;
        }
        gal_shape shape = program->shape[in.shape];
        if (kind->scaled_dim != NOT_SCALED) {
            shape.dims[kind->scaled_dim] = (uint32_t)(shape.dims[kind->scaled_dim] * (uint64_t)samples / was);
        }
        in.bytes = kind->scaled_bytes ? in.bytes * samples / was : in.bytes;
        chain->cost[i] = gal_one_cost(chain->durations, &place, &in, &shape);
    }
}

static void renew_steps(gal_chain *chain)
{
    static const gal_fragment_kind called[] = {GAL_FRAGMENT_FORWARD, GAL_FRAGMENT_BACKWARD, GAL_FRAGMENT_BACKWARD_SYNC};
    const gal_program *program = chain->program;
    for (uint32_t i = 0; i < chain->expansion.step_count; i++) {
        chain->expansion.step[i].seconds = 0.0;
    }
    for (uint32_t f = 0; f < sizeof called / sizeof called[0]; f++) {
        const gal_fragment *fragment = &program->fragment[called[f]];
        for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
            if ((program->instruction[i].group & GAL_GROUP_RELATION) != 0) {
                continue; /* transfers, which are left out */
            }
            const gal_cost *cost = &chain->cost[chain->kind_of[i]];
            gal_step *step = &chain->expansion.step[chain->expansion.step_of[i]];
            if (step->activity == GAL_ACTIVITY_COMPUTE) {
                step->seconds += gal_kernel_in_company(chain->durations, called[f], cost->seconds);
            } else {
                step->seconds = cost->seconds;
                step->level = cost->level;
            }
        }
    }
}

static void read_times(const gal_alone_ends *at, uint32_t block_count, gal_chain_times *out)
{
    const double *call = at->call_seconds;
    out->forward_seconds = call[FORWARD_1] - call[BACKWARD_0];
    out->backward_seconds = call[BACKWARD_0] - call[FORWARD_0];
    out->sync_seconds = call[SYNC] - call[FORWARD_1] - out->backward_seconds;
    for (uint32_t i = 0; i < block_count; i++) {
        out->forward_end[i] = at->block_seconds[FORWARD_1][i] - call[BACKWARD_0];
        out->backward_end[i] = at->block_seconds[BACKWARD_0][i] - call[FORWARD_0];
        out->sync_end[i] = at->block_seconds[SYNC][i] - call[FORWARD_1];
    }
}

/* Sums of squares, then Adam with the gathers of the blocks before running beside it. */
static void read_update(const gal_chain *chain, gal_chain_times *out)
{
    const gal_program *program = chain->program;
    const gal_fragment *fragment = &program->fragment[GAL_FRAGMENT_UPDATE];
    double adam[GAL_CHAIN_MAX] = {0};
    double gather[GAL_CHAIN_MAX] = {0};
    memset(out->update_seconds, 0, sizeof out->update_seconds);
    for (uint32_t i = fragment->first; i < fragment->first + fragment->count; i++) {
        const gal_instruction *in = &program->instruction[i];
        const uint32_t block = program->buffer[program->operand[in->first_operand].buffer].block;
        const double seconds = chain->cost[chain->kind_of[i]].seconds;
        if (block >= program->block_count || (in->group & GAL_GROUP_RELATION) != 0) {
            continue;
        }
        if (in->stream == GAL_STREAM_GATHER) {
            gather[block] += seconds;
        } else {
            double *sum = in->op == GAL_OP_ADAM ? &adam[block] : &out->update_seconds[block];
            *sum += gal_kernel_in_company(chain->durations, GAL_FRAGMENT_UPDATE, seconds);
        }
    }
    for (uint32_t block = 0; block < program->block_count; block++) {
        out->update_seconds[block] += fmax(adam[block], gather[block]);
    }
}

void gal_chain_measure(gal_chain *chain, uint32_t microbatch_samples, uint32_t stage, uint32_t stage_count,
                       gal_chain_times *out)
{
    gal_alone_ends ends;
    renew_costs(chain, microbatch_samples, stage, stage_count);
    renew_steps(chain);
    gal_play_alone(&chain->expansion, &chain->input, &ends);
    read_times(&ends, chain->program->block_count, out);
    read_update(chain, out);
}

void gal_chain_memory(gal_chain *chain, uint32_t microbatch_samples, uint32_t block, gal_block_memory *out)
{
    if (!chain->memory_known[block]) {
        gal_block_memory_of(chain->program, block, &chain->memory[block]);
        chain->memory_known[block] = true;
    }
    *out = chain->memory[block];
    if (microbatch_samples != chain->microbatch_samples) {
        uint64_t *const grown[] = {&out->bytes.saved,    &out->bytes.input, &out->bytes.boundary,
                                   &out->bytes.relayout, &out->bytes.work,  &out->relayout_entry};
        for (uint32_t i = 0; i < sizeof grown / sizeof grown[0]; i++) {
            *grown[i] = *grown[i] / chain->microbatch_samples * microbatch_samples +
                        *grown[i] % chain->microbatch_samples * microbatch_samples / chain->microbatch_samples;
        }
    }
}
