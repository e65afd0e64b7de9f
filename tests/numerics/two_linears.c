/* How much memory two linear layers take by mode of tensor parallelism, measured (the range test of Colossal-AI,
 * section IV-B2, Figure 12); run by test_two_linears.sh.
 *
 *     mpirun -np 8 two_linears        rows "mode batch hidden planned-bytes measured-bytes" of rank 0
 *
 * The layers are those of an FFN block whose inner width is its outer one: with its norm, activation and residual sum,
 * forward and backward of one batch, a sample a position. Its program is that of a stage in the middle of a pipeline,
 * whose transfers are made kernels that fill with zeros what was to be received. No optimizer step is done, as in the
 * paper: moments are planned for, and not counted. Measured are the pages of the arena that were touched. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "planner/published/colossal_range.h"
#include "runtime/channels.h"
#include "runtime/comm/comm.h"
#include "runtime/device/device.h"
#include "runtime/engine/engine.h"
#include "schemas/plan_check.h"

enum { RANKS = 8 };

typedef struct layers {
    gal_program *program;
    gal_channels channels;
    gal_comm *comm;
    gal_engine *engine;
} layers;

static void must(gal_code code, const gal_error *err)
{
    if (code != GAL_OK) {
        (void)fprintf(stderr, "two_linears: %s\n", err->text);
        exit((int)code);
    }
}

static void make_model(uint32_t hidden, gal_model *out)
{
    gal_model_defaults(out);
    out->layer_count = 1;
    out->hidden = out->ffn_hidden = hidden;
    out->head_count = RANKS;
    out->sequence_length = 1;
    out->vocabulary = out->vocabulary_multiple = RANKS;
    out->compute_dtype = GAL_FP32;
}

/* Transfers write what they would read or write. */
static void cut_off(gal_program *p)
{
    for (uint32_t i = 0; i < p->instruction_count; i++) {
        gal_instruction *in = &p->instruction[i];
        if (in->op == GAL_OP_SEND || in->op == GAL_OP_RECEIVE) {
            const uint32_t elements = p->shape[in->shape].dims[0];
            p->shape[in->shape] = (gal_shape){.op = GAL_OP_FILL, .dtype = p->dtype, .dims = {elements}};
            p->operand[in->first_operand].access = GAL_WRITE;
            in->op = GAL_OP_FILL;
            in->stream = GAL_STREAM_COMPUTE;
            in->group = GAL_GROUP_NONE;
            in->bytes = 0;
        }
    }
    p->stage = 0;
    p->stage_count = 1;
}

static gal_program *lower(const gal_model *model, const gal_strategy *strategy, uint32_t batch, uint32_t devices)
{
    gal_error err = {GAL_OK, ""};
    gal_program *p = NULL;
    gal_block_spec block = {.block = 2, .strategy = strategy};
    gal_model_block(model, block.block, &block.shape);
    GAL_ASSERT(block.shape.kind == GAL_BLOCK_FFN);
    const char *rule = gal_strategy_block_rule_broken(model, &block.shape, strategy, devices, batch);
    if (rule != NULL) {
        must(gal_fail(&err, GAL_ERR_USAGE, "%s", rule), &err);
    }
    gal_stage_spec spec;
    gal_colossal_range_stage(model, devices, batch, &block, &spec);
    spec.lowered = GAL_LOWERED_LISTS;
    must(gal_lower_spec(&spec, &p, &err), &err);
    cut_off(p);
    must(gal_program_derive(p, &err), &err);
    gal_place(p, p);
    p->call = calloc(2, sizeof *p->call);
    GAL_ASSERT(p->call != NULL);
    p->call[0].fragment = (uint16_t)gal_fragment_number(GAL_FRAGMENT_FORWARD, 0);
    p->call[1].fragment = (uint16_t)gal_fragment_number(GAL_FRAGMENT_BACKWARD_SYNC, 0);
    p->call_count = 2;
    return p;
}

/* Weights that are read and never written would be the kernel's page of zeros. */
static void touch_weights(const gal_program *p, char *base)
{
    for (uint32_t u = 0; u < p->unit_count; u++) {
        const gal_buffer *weight = &p->buffer[p->unit[u].weight];
        memset(base + p->arena[weight->arena].offset + weight->offset, 0x3c, weight->bytes); /* 0.0115 each */
    }
}

static uint64_t resident_bytes(const gal_memory *memory)
{
    FILE *file = fopen("/proc/self/smaps", "r");
    char line[512];
    bool inside = false;
    uint64_t bytes = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        uintptr_t begin = 0, end = 0;
        uint64_t kib = 0;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2) {
            inside = begin >= (uintptr_t)memory->mapping && end <= (uintptr_t)memory->mapping + memory->mapping_bytes;
        } else if (inside && sscanf(line, "Rss: %" SCNu64, &kib) == 1) {
            bytes += kib * 1024;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return bytes;
}

static void measure(const gal_strategy *strategy, uint32_t batch, uint32_t hidden)
{
    gal_error err = {GAL_OK, ""};
    gal_model model;
    layers l = {0};
    gal_step_result result;
    char name[GAL_STRATEGY_NAME_BYTES];
    const uint32_t device = gal_mpi_rank();
    make_model(hidden, &model);
    l.program = lower(&model, strategy, batch, RANKS);
    must(gal_channels_of(l.program, device, &l.channels, &err), &err);
    must(gal_comm_mpi_create(RANKS, l.channels.spec, l.channels.count, &l.comm, &err), &err);
    const gal_engine_options options = {.device = &gal_device_host,
                                        .ops = &gal_ops_host_fp32,
                                        .comm = l.comm,
                                        .deadline_seconds = 60.0,
                                        .choice = {.deterministic = true}};
    must(gal_engine_create(l.program, &model, device, &l.channels, &options, &l.engine, &err), &err);
    const gal_memory *memory = gal_engine_memory(l.engine);
    if (madvise(memory->mapping, memory->mapping_bytes, MADV_NOHUGEPAGE) != 0) {
        (void)fprintf(stderr, "two_linears: huge pages are not turned off\n");
    }
    touch_weights(l.program, memory->base);
    const gal_step_settings settings = {.learning_rate = 1e-3};
    must(gal_engine_step(l.engine, &settings, &result, &err), &err);
    if (device == 0) {
        (void)printf("%s %u %u %" PRIu64 " %" PRIu64 "\n", gal_strategy_name(strategy, name), batch, hidden,
                     gal_colossal_range_bytes(l.program), resident_bytes(memory));
        (void)fflush(stdout);
    }
    gal_engine_free(l.engine);
    gal_comm_free(l.comm);
    gal_channels_free(&l.channels);
    gal_program_free(l.program);
}

int main(int argc, char **argv)
{
    static const gal_strategy modes[] = {
        {.axis_count = 1, .axis = {{GAL_AXIS_TP, RANKS}}},
        {.axis_count = 1, .axis = {{GAL_AXIS_TP, RANKS}}, .tp_mode = GAL_TP_2P5D, .tp_depth = 2},
        {.axis_count = 1, .axis = {{GAL_AXIS_TP, RANKS}}, .tp_mode = GAL_TP_3D}};
    static const struct {
        uint32_t batch, hidden;
    } sizes[] = {{512, 512}, {1024, 512}, {2048, 512}, {4096, 512}, {4096, 256}, {4096, 1024}, {512, 2048}};
    gal_error err = {GAL_OK, ""};
    must(gal_mpi_init(&argc, &argv, &err), &err);
    if (gal_mpi_world_size() != RANKS) {
        must(gal_fail(&err, GAL_ERR_USAGE, "needs %d ranks", RANKS), &err);
    }
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++) {
            measure(&modes[m], sizes[s].batch, sizes[s].hidden);
        }
    }
    gal_mpi_finalize();
    return 0;
}
