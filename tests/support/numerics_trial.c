#include "tests/support/numerics_trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/staged.h"
#include "tests/support/delayed_comm.h"

uint32_t gal_trial_world(const gal_plan *plan)
{
    return plan->stage_count * gal_plan_stage_devices(plan);
}

/* Host kernels in fp64: sums of at most some thousand terms in another order are off by 1e-13 of the largest;
 * conversions between plans add nothing to that, whereas anything forgotten or doubled shows in the first digits. */
const gal_trial_on gal_trial_on_host = {.name = "host",
                                        .device = &gal_device_host,
                                        .ops = &gal_ops_host_fp64,
                                        .relative_bound = 1e-10,
                                        .same_memory = true,
                                        .one_adam = true};

static gal_code create_comm(const gal_plan *plan, uint64_t seed, gal_trial *trial, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_comm *mpi = NULL;
    const uint32_t world = gal_trial_world(plan);
    const gal_staged_options options = {.queue = trial->on->device->queue,
                                        .channel = trial->channels.spec,
                                        .channel_count = trial->channels.count,
                                        .program = trial->program};
    if (world == 1) {
        return GAL_OK;
    }
    GAL_TRY(gal_comm_mpi_create(world, trial->channels.spec, trial->channels.count, &mpi, err));
    if (mpi != NULL && trial->on->device->queue != NULL) {
        GAL_TRY(gal_comm_staged_create(mpi, &options, &trial->comm, err));
    } else if (mpi != NULL && trial->on->delays) {
        trial->comm = gal_delayed_comm_create(mpi, 64 * seed + trial->rank);
    } else {
        trial->comm = mpi;
    }
cleanup:
    return code;
}

const char *gal_trial_storage(void)
{
    return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

static gal_code create_engine(gal_trial *trial, const gal_token_source *tokens, gal_error *err)
{
    const gal_engine_options options = {
        .device = trial->on->device,
        .ops = trial->on->ops,
        .host_ops = trial->on->host_ops,
        .wide_ops = trial->on->wide_ops,
        .graphs = trial->on->graphs,
        .storage_directory = gal_trial_storage(),
        .storage_way = trial->plan->storage_part_bytes == 0 ? GAL_STORAGE_THREADS : GAL_STORAGE_DEFAULT,
        .comm = trial->comm,
        .tokens = tokens != NULL ? *tokens : gal_trial_tokens(trial->plan),
        .deadline_seconds = 60.0,
        .poison = true,
        .choice = {.deterministic = true},
    };
    trial->copy = malloc(trial->program->arena_bytes);
    trial->value = malloc(trial->program->arena_bytes / gal_dtype_bytes(trial->on->ops->dtype) * sizeof(double));
    GAL_ASSERT(trial->copy != NULL && trial->value != NULL);
    return gal_engine_create(trial->program, &trial->plan->model, trial->device, &trial->channels, &options,
                             &trial->engine, err);
}

gal_code gal_trial_create(const gal_plan *plan, uint64_t seed, const gal_token_source *tokens, gal_trial *out,
                          gal_error *err)
{
    return gal_trial_create_on(&gal_trial_on_host, plan, seed, tokens, out, err);
}

gal_code gal_trial_create_on(const gal_trial_on *on, const gal_plan *plan, uint64_t seed,
                             const gal_token_source *tokens, gal_trial *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t world = gal_trial_world(plan);
    const uint32_t devices = gal_plan_stage_devices(plan);
    memset(out, 0, sizeof *out);
    out->plan = plan;
    out->on = on;
    out->rank = world == 1 ? 0 : gal_mpi_rank();
    out->device = out->rank % devices;
    if (out->rank >= world) {
        return create_comm(plan, seed, out, err);
    }
    GAL_TRY(gal_lower(plan, out->rank / devices, &out->program, err));
    GAL_TRY(gal_channels_of(out->program, out->device, &out->channels, err));
    GAL_TRY(create_comm(plan, seed, out, err));
    GAL_TRY(create_engine(out, tokens, err));
    gal_weights_initialize(out->program, &plan->model, out->device, seed, on->device, gal_engine_memory(out->engine));
cleanup:
    return code;
}

void gal_trial_free(gal_trial *trial)
{
    gal_engine_free(trial->engine);
    if (trial->comm != NULL) {
        gal_comm_free(trial->comm);
    }
    gal_channels_free(&trial->channels);
    gal_program_free(trial->program);
    free(trial->copy);
    free(trial->value);
    memset(trial, 0, sizeof *trial);
}

void gal_trial_serial_plan(const gal_plan *plan, gal_plan *out)
{
    *out = *plan;
    out->cluster.device_count = 1;
    out->cluster.level_count = 1;
    out->cluster.level[0].span_devices = 1;
    out->pp_degree = out->stage_count = out->run_count = 1;
    out->microbatch_count = 1;
    out->schedule = GAL_SCHEDULE_GPIPE;
    out->chunk_count = 1;
    out->prefetch_depth = 1;
    out->stage = calloc(1, sizeof *out->stage);
    out->run = calloc(1, sizeof *out->run);
    GAL_ASSERT(out->stage != NULL && out->run != NULL);
    out->stage[0].run_count = 1;
    out->run[0].block_count = gal_model_block_count(&plan->model);
}

/* ---- the reference ---- */

void gal_tensor_table_of(const gal_program *program, gal_tensor_table *out)
{
    uint64_t elements[GAL_TRIAL_TENSORS_MAX] = {0};
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < program->parameter_count; i++) {
        const gal_parameter *p = &program->parameter[i];
        GAL_ASSERT(p->tensor < GAL_TRIAL_TENSORS_MAX);
        elements[p->tensor] = p->outer * p->split_used * p->inner;
        memcpy(out->name[p->tensor], p->name, sizeof out->name[0]);
        out->count = p->tensor >= out->count ? p->tensor + 1 : out->count;
    }
    for (uint32_t t = 0; t < out->count; t++) {
        out->offset[t + 1] = out->offset[t] + elements[t];
    }
}

void gal_reference_create(const gal_plan *serial, gal_reference *out)
{
    gal_program *program = NULL;
    memset(out, 0, sizeof *out);
    GAL_ASSERT(gal_lower(serial, 0, &program, NULL) == GAL_OK);
    gal_tensor_table_of(program, &out->table);
    gal_program_free(program);
    out->gradient = calloc(out->table.offset[out->table.count], sizeof *out->gradient);
    out->weight = calloc(out->table.offset[out->table.count], sizeof *out->weight);
    GAL_ASSERT(out->gradient != NULL && out->weight != NULL);
}

void gal_reference_free(gal_reference *reference)
{
    free(reference->gradient);
    free(reference->weight);
    memset(reference, 0, sizeof *reference);
}

gal_code gal_reference_run(const gal_plan *serial, uint64_t seed, double learning_rate, gal_reference *out,
                           gal_error *err)
{
    gal_code code = GAL_OK;
    gal_trial trial;
    GAL_TRY(gal_trial_create(serial, seed, NULL, &trial, err));
    for (uint64_t step = 0; step < GAL_TRIAL_STEPS; step++) {
        const gal_step_settings settings = {step, seed, learning_rate};
        gal_step_result result;
        GAL_TRY(gal_engine_step(trial.engine, &settings, &result, err));
        out->loss[step] = result.loss;
        out->norm[step] = result.gradient_norm;
        if (step == 0) {
            gal_trial_read(&trial, GAL_STATE_GRADIENT, &out->table, out->gradient);
        }
    }
    gal_trial_read(&trial, GAL_STATE_WEIGHT, &out->table, out->weight);
    GAL_TRY(gal_engine_evaluate(trial.engine, 0, &out->evaluation, NULL, err));
cleanup:
    gal_trial_free(&trial);
    return code;
}

/* ---- what a rank holds ---- */

/* Of a dimension: entries on a device, and the number of its entry `local` among all. */
static uint64_t entries(const gal_program *program, uint64_t whole, gal_group group)
{
    return whole / gal_group_size(&program->atoms, group);
}

static uint64_t global_entry(const gal_program *program, uint64_t whole, gal_group group, uint32_t device,
                             uint64_t local)
{
    return gal_group_index(&program->atoms, group, device) * entries(program, whole, group) + local;
}

bool gal_unit_element(const gal_program *program, uint32_t unit, uint32_t device, uint64_t element,
                      const gal_parameter **parameter, uint64_t *global_index)
{
    *parameter = NULL;
    for (uint32_t i = 0; i < program->parameter_count; i++) {
        const gal_parameter *p = &program->parameter[i];
        const uint64_t rows = entries(program, p->split, p->split_group);
        const uint64_t columns = entries(program, p->inner, p->inner_group);
        const uint64_t count = entries(program, p->outer, p->outer_group) * rows * columns;
        const uint64_t local = element - p->offset_elements;
        if (p->unit != unit || element < p->offset_elements || local >= count) {
            continue;
        }
        const uint64_t outer = global_entry(program, p->outer, p->outer_group, device, local / columns / rows);
        const uint64_t row = global_entry(program, p->split, p->split_group, device, local / columns % rows);
        const uint64_t column = global_entry(program, p->inner, p->inner_group, device, local % columns);
        if (row < p->split_used) {
            *parameter = p;
            *global_index = (outer * p->split_used + row) * p->inner + column;
        }
        break;
    }
    return *parameter != NULL;
}

static uint32_t buffer_of(const gal_unit *unit, gal_state_part part)
{
    GAL_ASSERT(part == GAL_STATE_WEIGHT || part == GAL_STATE_GRADIENT);
    return part == GAL_STATE_WEIGHT ? unit->weight : unit->gradient;
}

/* The numbers of a buffer. */
static const double *values_of(const gal_trial *trial, const gal_buffer *buffer)
{
    const gal_dtype dtype = trial->on->ops->dtype;
    const uint64_t offset = trial->program->arena[buffer->class].offset + buffer->offset;
    trial->on->device->read(gal_engine_memory(trial->engine), offset, trial->copy, buffer->bytes);
    for (uint64_t i = 0; i < buffer->bytes / gal_dtype_bytes(dtype); i++) {
        trial->value[i] = dtype == GAL_FP64 ? ((const double *)(const void *)trial->copy)[i]
                                            : (double)((const float *)(const void *)trial->copy)[i];
    }
    return trial->value;
}

gal_unit_values gal_trial_unit_values(const gal_trial *trial, uint32_t unit, gal_state_part part)
{
    const gal_program *program = trial->program;
    const gal_unit *u = &program->unit[unit];
    const gal_buffer *buffer = &program->buffer[buffer_of(u, part)];
    const double *whole = values_of(trial, buffer);
    const uint64_t shard = u->elements / gal_group_size(&program->atoms, u->zero_group);
    const uint64_t first = shard * gal_group_index(&program->atoms, u->zero_group, trial->device);
    const bool all = u->zero_stage == 0 || (part == GAL_STATE_WEIGHT && u->zero_stage < 3);
    if (all) {
        return (gal_unit_values){0, u->elements, whole};
    }
    /* ZeRO-1 keeps the gradient whole, but only its own range is synchronised. */
    const bool range_of_whole = part == GAL_STATE_GRADIENT && u->zero_stage == 1;
    return (gal_unit_values){first, shard, range_of_whole ? whole + first : whole};
}

void gal_trial_read(const gal_trial *trial, gal_state_part part, const gal_tensor_table *table, double *out)
{
    for (uint32_t u = 0; u < trial->program->unit_count; u++) {
        const gal_unit_values held = gal_trial_unit_values(trial, u, part);
        for (uint64_t i = 0; i < held.count; i++) {
            const gal_parameter *parameter = NULL;
            uint64_t index = 0;
            if (gal_unit_element(trial->program, u, trial->device, held.first + i, &parameter, &index)) {
                out[table->offset[parameter->tensor] + index] = held.value[i];
            }
        }
    }
}

static double largest(const double *value, uint64_t count)
{
    double out = 0.0;
    for (uint64_t i = 0; i < count; i++) {
        out = fmax(out, fabs(value[i]));
    }
    return out;
}

bool gal_trial_has_no_gradient(const char *name)
{
    static const char end[] = "key.bias";
    const size_t length = strlen(name);
    return length >= sizeof end && strcmp(name + length + 1 - sizeof end, end) == 0;
}

static void allowances(const gal_tensor_table *table, const double *expected, double relative, double absolute,
                       double *allowed)
{
    const double model = largest(expected, table->offset[table->count]);
    for (uint32_t t = 0; t < table->count; t++) {
        const double own = largest(expected + table->offset[t], table->offset[t + 1] - table->offset[t]);
        const double share = gal_trial_has_no_gradient(table->name[t]) ? 1.0 : 1e-6;
        allowed[t] = relative * fmax(own, share * model) + absolute;
    }
}

double gal_trial_compare(const gal_trial *trial, gal_state_part part, const gal_tensor_table *table,
                         const double *expected, double relative, double absolute, uint32_t *held, char *text,
                         size_t capacity)
{
    double allowed[GAL_TRIAL_TENSORS_MAX];
    double worst = 0.0;
    allowances(table, expected, relative, absolute, allowed);
    for (uint32_t u = 0; u < trial->program->unit_count; u++) {
        const gal_unit_values here = gal_trial_unit_values(trial, u, part);
        for (uint64_t i = 0; i < here.count; i++) {
            const gal_parameter *p = NULL;
            uint64_t index = 0;
            const bool used = gal_unit_element(trial->program, u, trial->device, here.first + i, &p, &index);
            const uint64_t at = used ? table->offset[p->tensor] + index : 0;
            const double want = used ? expected[at] : 0.0;
            const double error = fabs(here.value[i] - want);
            double ratio = used ? error / allowed[p->tensor] : (error > 0.0 ? INFINITY : 0.0);
            ratio = isfinite(here.value[i]) ? ratio : INFINITY;
            if (used && held != NULL) {
                held[at]++;
            }
            if (ratio > worst) {
                worst = ratio;
                (void)snprintf(text, capacity, "%s %s[%llu] is %.17g, expected %.17g: %.2g times the allowed error",
                               part == GAL_STATE_WEIGHT ? "weight" : "gradient", used ? p->name : "padding",
                               (unsigned long long)index, here.value[i], want, ratio);
            }
        }
    }
    return worst;
}
