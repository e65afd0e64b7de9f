/* galplan-profile: measures what plans are made of, on this machine's cores or GPUs. `galplan profile` starts it. */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/candidates.h"
#include "profiler/fabric.h"
#include "profiler/gpu.h"
#include "profiler/profile.h"
#include "runtime/backend.h"
#include "runtime/device/binding.h"
#include "runtime/engine/rank_program.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/launch_rank.h"
#include "runtime/launch/signals.h"
#include "runtime/ops/host/blas.h"
#include "schemas/base/options.h"
#include "schemas/base/progress.h"
#include "schemas/limits.h"
#include "schemas/model_choice.h"

enum { MODELS_MAX = 16, LINE_BYTES = 256 };
enum { DEVICE_HOST, DEVICE_CUDA, DEVICE_COUNT };
enum { COMM_DEFAULT, COMM_MPI, COMM_NCCL, COMM_COUNT };

/* Each stream of a rank has pinned memory for some of the largest message. */
static const uint64_t staged_bytes_max = UINT64_C(64) << 20;
static const double default_budget_seconds = 60.0, default_timeout_seconds = 120.0;

typedef struct settings {
    const char *model_path[MODELS_MAX], *output_path, *analytic, *storage_directory;
    uint32_t model_count, rank_count, thread_count, device, comm;
    gal_model_options arithmetic;
    gal_u32_list batch, microbatches;
    double budget_seconds, timeout_seconds;
    uint64_t memory_bytes, slow_link_bytes; /* the link's a second */
    bool quiet, tf32;
} settings;

/* ---- command line ---- */

static const char notes[] =
    "Further models may follow: one profile then serves plans of all of them. What the budget leaves out has no "
    "entry;\n"
    "readers of the profile fit it to what was measured. Nothing else should run on the machine meanwhile.\n"
    "On GPUs (--device cuda) a rank takes one of them, and copies to the host, Adam there, who slows whom by how many "
    "thread\n"
    "blocks communication takes, and what context, libraries and communicators hold are measured too; one rank "
    "measures "
    "a\n"
    "stand-in for communication. A profile measured with --tf32 says so, and so does the search that reads it: its "
    "plans\n"
    "are for galrun --tf32, those of other profiles for galrun without.\n"
    "'galplan profile --analytic CLUSTER -o profile.json' writes what the figures of a cluster document say\n"
    "('galplan profile --analytic CLUSTER --help').\n"
    "'galplan profile --calibrate FILE.csv --prices framework:NAME' fits constants of a cluster to measured "
    "iterations\n"
    "('galplan profile --calibrate FILE.csv --help').\n";

static const char *const device_names[DEVICE_COUNT] = {[DEVICE_HOST] = "host", [DEVICE_CUDA] = "cuda"};
static const char *const comm_names[COMM_COUNT] = {
    [COMM_DEFAULT] = "default", [COMM_MPI] = "mpi", [COMM_NCCL] = "nccl"};

static bool parse(int argc, char **argv, settings *s, int *exit_code)
{
    char version[GAL_TEXT_BYTES];
    const gal_option options[] = {
        gal_option_required(
            gal_option_string("model", "MODEL", "the model document whose programs are measured", &s->model_path[0])),
        gal_option_enum("dtype", "arithmetic of the models (their documents'; else bf16, on the host fp32)",
                        &s->arithmetic.dtype, gal_dtype_names, GAL_COMPUTE_DTYPE_COUNT),
        gal_option_u32("sequence", "N", "positions of a sample, of texts (the documents'); t5: of the source",
                       &s->arithmetic.sequence_length, 1, GAL_SEQUENCE_LENGTH_MAX),
        gal_option_string("analytic", "CLUSTER", "measure nothing: another command line, see below", &s->analytic),
        gal_option_u32("np", "N", "start N ranks on this machine (default 1)", &s->rank_count, 1, 4096),
        gal_option_u32("threads", "N", "threads per rank, as by galrun --threads (default 1)", &s->thread_count, 1,
                       GAL_PROFILE_THREADS_MAX),
        gal_option_enum("device", "what is measured: the host's cores (default), or one GPU per rank", &s->device,
                        device_names, DEVICE_COUNT),
        gal_option_enum("comm", "how ranks on GPUs communicate (default: NCCL; by MPI several can share a GPU)",
                        &s->comm, comm_names, COMM_COUNT),
        gal_option_flag("tf32", "on GPUs: products of fp32 may round their factors to 10 bits, as by galrun --tf32",
                        &s->tf32),
        gal_option_u32_list("batch", "B,...", "samples per step (default: the model's own)", &s->batch, 1,
                            GAL_BATCH_SAMPLES_MAX),
        gal_option_u32_list("microbatches", "m,...", "microbatches per step (default 1,2,4,8)", &s->microbatches, 1,
                            GAL_BATCH_SAMPLES_MAX),
        gal_option_f64("budget-seconds", "S", "measure for about S seconds (default 60)", &s->budget_seconds, 1.0, 1e6),
        gal_option_bytes("memory", "BYTES", "of a rank (default: the device's, divided by its ranks)", &s->memory_bytes,
                         1, GAL_BYTES_MAX),
        gal_option_string("storage", "DIR", "measure the storage of a directory too: what galrun --storage would have",
                          &s->storage_directory),
        gal_option_bytes("slow-link", "BYTES",
                         "CPU ranks communicate as over links of so many bytes a second, as by galrun --slow-link",
                         &s->slow_link_bytes, 1, GAL_BYTES_MAX),
        gal_option_short(
            'o', gal_option_required(gal_option_string("output", "FILE", "the profile to write", &s->output_path))),
        gal_option_f64("timeout", "S", "end all ranks when one has waited S seconds for another (default 120)",
                       &s->timeout_seconds, 1.0, 1e6),
        gal_option_short('q', gal_option_flag("quiet", "no progress and no summary", &s->quiet)),
    };
    gal_rank_version("galplan-profile", gal_blas_description(), version, sizeof version);
    const gal_command command = {.program = "galplan",
                                 .version = version,
                                 .command = "profile",
                                 .summary = "Measure this machine for plans of a model.",
                                 .positional = "[MODEL...]",
                                 .positional_max = MODELS_MAX - 1,
                                 .options = options,
                                 .option_count = sizeof options / sizeof options[0],
                                 .notes = notes};
    gal_arguments arguments;
    if (!gal_rank_options_run(&command, argc, argv, &arguments, exit_code)) {
        return false;
    }
    if (s->analytic != NULL) { /* galplan does that itself */
        gal_error err = {0};
        *exit_code = gal_options_end("galplan", "profile",
                                     gal_fail(&err, GAL_ERR_USAGE, "--analytic is for 'galplan profile' alone"), &err);
        return false;
    }
    for (uint32_t i = 0; i < arguments.positional_count; i++) {
        s->model_path[i + 1] = arguments.positional[i];
    }
    s->model_count = 1 + arguments.positional_count;
    return true;
}

/* Bits 1 << gal_dtype. */
static uint32_t device_dtypes(const settings *s)
{
    uint32_t bits = 0;
    for (uint32_t dtype = 0; dtype < GAL_COMPUTE_DTYPE_COUNT; dtype++) {
        const bool has = s->device == DEVICE_CUDA || gal_backend_host.ops((gal_dtype)dtype) != NULL;
        bits |= has ? 1U << dtype : 0;
    }
    return bits;
}

/* tells: whether a dtype that the device lacks, and the one taken in its place, are said. */
static gal_code read_models(const settings *s, bool tells, gal_model *model, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_model_origins origins;
    for (uint32_t i = 0; i < s->model_count; i++) {
        GAL_TRY(gal_model_choose(s->model_path[i], &s->arithmetic, device_dtypes(s), &model[i], &origins, err));
        if (tells && model[i].compute_dtype != origins.preferred_dtype) {
            (void)fprintf(stderr, "galplan: note: %s is measured in %s: the %s does not compute in %s\n", model[i].name,
                          gal_dtype_names[model[i].compute_dtype], device_names[s->device],
                          gal_dtype_names[origins.preferred_dtype]);
        }
        if (model[i].compute_dtype != model[0].compute_dtype) {
            return gal_fail(err, GAL_ERR_USAGE, "%s is in %s, %s in %s: profile them apart", s->model_path[i],
                            gal_dtype_names[model[i].compute_dtype], s->model_path[0],
                            gal_dtype_names[model[0].compute_dtype]);
        }
    }
cleanup:
    return code;
}

/* "--model m.json --np 4", cut where it does not fit. */
static void join_arguments(int argc, char *const *argv, char *text, size_t capacity)
{
    size_t used = (size_t)snprintf(text, capacity, "galplan profile");
    for (int i = 1; i < argc && used < capacity; i++) {
        used += (size_t)snprintf(text + used, capacity - used, " %s", argv[i]);
    }
}

/* ---- progress ---- */

static void show(void *context, const char *what, uint32_t done, uint32_t count, double elapsed_seconds)
{
    gal_progress_show(context, what, done, count, elapsed_seconds);
}

/* ---- runs ---- */

/* Rates, and who slows whom. */
static void print_host(FILE *out, const gal_profile *profile)
{
    const gal_profile_host *host = &profile->host;
    const double *of_copies = profile->slowdown[GAL_ACTIVITY_COPY];
    (void)fprintf(out, "Adam on the host, G elements/s of a rank by threads:");
    for (uint32_t i = 0; i < host->adam_count; i++) {
        (void)fprintf(out, "%s %u: %.3f", i == 0 ? "" : ",", host->adam[i].threads,
                      host->adam[i].elements_per_second * 1e-9);
    }
    (void)fprintf(out, "\n");
    for (uint32_t i = 0; i < host->node_count; i++) {
        const gal_profile_node *node = &host->node[i];
        (void)fprintf(out, "NUMA node %u: %.1f us, %.2f GB/s to the device, %.1f us, %.2f GB/s from it\n", node->node,
                      node->to_device.latency_seconds * 1e6, node->to_device.bytes_per_second * 1e-9,
                      node->from_device.latency_seconds * 1e6, node->from_device.bytes_per_second * 1e-9);
    }
    (void)fprintf(out,
                  "a copy between the two takes %.1f times as long beside kernels, %.1f beside messages, %.1f beside a "
                  "copy the other way; beside copies kernels take %.1f and messages %.1f times as long\n",
                  of_copies[GAL_ACTIVITY_COMPUTE], of_copies[GAL_ACTIVITY_COMMUNICATION], of_copies[GAL_ACTIVITY_COPY],
                  profile->slowdown[GAL_ACTIVITY_COMPUTE][GAL_ACTIVITY_COPY],
                  profile->slowdown[GAL_ACTIVITY_COMMUNICATION][GAL_ACTIVITY_COPY]);
}

static void print_summary(const settings *s, const gal_profile *profile, const gal_profile_report *report)
{
    FILE *out = strcmp(s->output_path, "-") == 0 ? stderr : stdout;
    (void)fprintf(out,
                  "%s: %u of %u kernels and %u of %u collectives measured (%.1f %% of the expected time), the others "
                  "left to fits; %u blocks; %.1f s\n",
                  s->output_path, report->operators_measured, report->operator_count, report->collectives_measured,
                  report->collective_count, 100.0 * report->measured_share, profile->block_count,
                  report->elapsed_seconds);
    const gal_device *device = &profile->cluster.device;
    char narrow[LINE_BYTES] = "";
    if (device->bf16_flops_per_second > 0.0) {
        (void)snprintf(narrow, sizeof narrow, ", %.1f bf16, %.1f fp16", device->bf16_flops_per_second * 1e-9,
                       device->fp16_flops_per_second * 1e-9);
    }
    const gal_link_level *link = &profile->cluster.level[0];
    (void)fprintf(out, "%u x %s: %.1f GFLOP/s fp32, %.1f fp64%s, %.1f GB/s memory; %s: %.1f us, %.2f GB/s\n",
                  profile->rank_count, device->kind, device->fp32_flops_per_second * 1e-9,
                  device->fp64_flops_per_second * 1e-9, narrow, device->memory_bytes_per_second * 1e-9, link->name,
                  link->latency_seconds * 1e6, link->bytes_per_second * 1e-9);
    if (profile->has_gpu) {
        const gal_profile_gpu *gpu = &profile->gpu;
        (void)fprintf(out, "%s; clock %.0f of %.0f MHz; fixed %.2f GB, of it the context %.2f\n", profile->processor,
                      gpu->clock_hertz * 1e-6, gpu->clock_hertz_max * 1e-6, (double)profile->fixed_bytes * 1e-9,
                      (double)gpu->context_bytes * 1e-9);
    }
    print_host(out, profile);
    if (out == stdout) {
        (void)fprintf(out, "next: galplan search --model %s --profile %s -o plan.json\n", s->model_path[0],
                      s->output_path);
    }
}

static void tell(const char *text)
{
    (void)fprintf(stderr, "galplan: error: %s\n", text);
}

/* What a rank measures on. */
typedef struct target {
    const gal_backend *backend;
    bool is_gpu;
    gal_gpu gpu;
    gal_nvml nvml;
    gal_fabric fabric;
} target;

static gal_code open_gpu(const settings *s, target *out, gal_error *err)
{
    gal_code code = GAL_OK;
    uint32_t local_rank = 0, local_count = 1;
    char text[LINE_BYTES], why[GAL_FABRIC_TEXT_BYTES] = "";
    (void)gal_binding_place(&local_rank, &local_count);
    GAL_TRY(gal_backend_cuda_open(s->comm == COMM_MPI ? GAL_CUDA_MPI : GAL_CUDA_NCCL, local_rank, &out->backend, text,
                                  sizeof text, err));
    GAL_TRY(gal_gpu_read(&out->gpu, err));
    const bool known = gal_nvml_open(&out->nvml, why, sizeof why);
    gal_fabric_read(known ? &out->nvml : NULL, out->gpu.bus_id, why, &out->fabric);
    out->is_gpu = true;
cleanup:
    return code;
}

static gal_code open_target(const settings *s, const gal_model *model, target *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_dtype dtype = model->compute_dtype;
    if (s->device == DEVICE_CUDA) {
        GAL_TRY(open_gpu(s, out, err));
    } else {
        out->backend = &gal_backend_host;
    }
    if (out->backend->ops(dtype) == NULL) {
        return gal_fail(err, GAL_ERR_USAGE, "%s computes in %s, which this device does not", s->model_path[0],
                        gal_dtype_names[dtype]);
    }
cleanup:
    return code;
}

static double clock_of(void *context)
{
    const target *t = context;
    return gal_nvml_clock_hertz(t->nvml.library != NULL ? &t->nvml : NULL, &t->fabric);
}

static gal_code measure(const settings *s, const char *command, const gal_world *world, gal_error *err)
{
    gal_code code = GAL_OK;
    target on = {.backend = NULL};
    gal_profile profile = {0};
    gal_profile_report report;
    gal_model *model = calloc(s->model_count, sizeof *model);
    gal_progress shown = {.terminal = !s->quiet && gal_launched_terminal()};
    static const uint32_t default_microbatches[] = {1, 2, 4, 8};
    openblas_set_num_threads((int)s->thread_count);
    code = model != NULL ? read_models(s, false, model, err) : gal_fail(err, GAL_ERR_SYSTEM, "out of memory: models");
    if (code == GAL_OK) {
        code = open_target(s, &model[0], &on, err);
    }
    GAL_TRY(gal_world_agree(world, code, err));
    const gal_profile_settings what = {
        .backend = on.backend,
        .gpu = on.is_gpu ? &on.gpu : NULL,
        .fabric = on.is_gpu ? &on.fabric : NULL,
        .clock_hertz = on.is_gpu ? clock_of : NULL,
        .clock_context = &on,
        .tell = tell,
        .thread_count = s->thread_count,
        .tf32 = s->tf32,
        .message_bytes_max = on.is_gpu && s->comm == COMM_MPI ? staged_bytes_max : 0,
        .model = model,
        .model_count = s->model_count,
        .batch = s->batch.value,
        .batch_count = s->batch.count,
        .microbatches = s->microbatches.count > 0 ? s->microbatches.value : default_microbatches,
        .microbatches_count = s->microbatches.count > 0
                                  ? s->microbatches.count
                                  : (uint32_t)(sizeof default_microbatches / sizeof default_microbatches[0]),
        .budget_seconds = s->budget_seconds,
        .memory_bytes = s->memory_bytes,
        .slow_bytes_per_second = (double)s->slow_link_bytes,
        .storage_directory = s->storage_directory,
        .blas = gal_blas_description(),
        .command = command,
        .stop = gal_stop_on_signals(),
        .progress = show,
        .progress_context = &shown,
    };
    code = gal_profile_measure(&what, world, &profile, &report, err);
    if (gal_world_rank(world) == 0) {
        gal_progress_end(&shown);
    }
    GAL_TRY(code);
    code = gal_world_rank(world) == 0 ? gal_profile_write(s->output_path, &profile, err) : GAL_OK;
    GAL_TRY(gal_world_agree(world, code, err));
    if (gal_world_rank(world) == 0 && !s->quiet) {
        print_summary(s, &profile, &report);
    }
cleanup:
    gal_profile_free(&profile);
    gal_nvml_close(&on.nvml);
    free(model);
    return code;
}

/* As galrun does by default: what is measured is what will run. */
static void bind_rank(void)
{
    char text[GAL_TEXT_BYTES];
    uint32_t local_rank, local_count;
    if (gal_binding_place(&local_rank, &local_count)) {
        gal_binding_apply(local_rank, local_count, text, sizeof text);
    }
}

static gal_code measure_launched(const settings *s, const char *command, int *argc, char ***argv, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_world world = {.deadline_seconds = s->timeout_seconds};
    GAL_TRY(gal_rank_start("galplan", s->timeout_seconds, argc, argv, err));
    if (gal_mpi_world_size() > 1) {
        GAL_TRY(gal_comm_mpi_create(0, NULL, 0, &world.comm, err));
    }
    bind_rank();
    GAL_TRY(measure(s, command, &world, err));
cleanup:
    if (code != GAL_OK) { /* before the others can leave: mpirun ends all when one exits with an error */
        gal_rank_print_error("galplan", err);
    }
    if (world.comm != NULL) {
        gal_comm_free(world.comm);
    }
    gal_rank_end();
    return code;
}

/* The documents are read here too, so that what is wrong with them is said once and at once. */
static gal_code run(const settings *s, const char *command, int argc, char **argv, char *const *given, int *exit_code,
                    gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_world alone = {.deadline_seconds = s->timeout_seconds};
    gal_model *model = calloc(s->model_count, sizeof *model);
    if (gal_launched()) {
        *exit_code = (int)measure_launched(s, command, &argc, &argv, err);
        goto cleanup;
    }
    code =
        model != NULL ? read_models(s, !s->quiet, model, err) : gal_fail(err, GAL_ERR_SYSTEM, "out of memory: models");
    GAL_TRY(code);
    if (s->device == DEVICE_HOST && s->comm == COMM_NCCL) {
        code = gal_fail(err, GAL_ERR_USAGE, "--comm nccl needs --device cuda: on the host ranks communicate by MPI");
        goto cleanup;
    }
    if (s->tf32 && (s->device == DEVICE_HOST || model[0].compute_dtype != GAL_FP32)) {
        code = gal_fail(err, GAL_ERR_USAGE, "--tf32 is for products of fp32 and needs --device cuda");
        goto cleanup;
    }
    if (s->device == DEVICE_CUDA) {
        GAL_TRY(gal_backend_cuda_probe(err)); /* once, and not by every rank */
    }
    if (s->rank_count > 1) {
        const gal_launch_options options = {.rank_count = s->rank_count,
                                            .thread_count = s->thread_count,
                                            .deadline_seconds = s->timeout_seconds,
                                            .arguments = given};
        GAL_TRY(gal_launch(&options, exit_code, err));
    } else {
        GAL_TRY(measure(s, command, &alone, err));
    }
cleanup:
    free(model);
    return code;
}

int main(int argc, char **argv)
{
    int exit_code = GAL_OK;
    gal_error err = {0};
    char command[GAL_TEXT_BYTES];
    settings s = {.arithmetic = GAL_MODEL_OPTIONS_NONE,
                  .budget_seconds = default_budget_seconds,
                  .timeout_seconds = default_timeout_seconds,
                  .rank_count = 1,
                  .thread_count = 1};
    gal_blas_choose_kernels(argv);
    (void)gal_stop_on_signals();
    gal_launch_register();
    char **given = gal_copy_arguments(argc, argv);
    if (given == NULL) {
        (void)fputs("galplan: error: out of memory\n", stderr);
        return GAL_ERR_SYSTEM;
    }
    join_arguments(argc, argv, command, sizeof command);
    if (parse(argc, argv, &s, &exit_code)) {
        const gal_code code = run(&s, command, argc, argv, given, &exit_code, &err);
        if (code != GAL_OK) {
            gal_rank_print_error("galplan", &err);
            exit_code = (int)code;
        }
    }
    free(given);
    return exit_code;
}
