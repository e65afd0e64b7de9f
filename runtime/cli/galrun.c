/* galrun: trains by a plan, on this machine or under a launcher. */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cli/report.h"
#include "runtime/comm/tcp.h"
#include "runtime/device/binding.h"
#include "runtime/engine/rank_program.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/launch_rank.h"
#include "runtime/launch/signals.h"
#include "runtime/ops/host/blas.h"
#include "runtime/train/session.h"
#include "runtime/train/train.h"
#include "schemas/base/options.h"
#include "schemas/base/version.h"
#include "schemas/limits.h"

enum { BIND_CORES, BIND_NONE, BIND_COUNT };
enum { DEVICE_HOST, DEVICE_CUDA, DEVICE_COUNT };
enum { COMM_DEFAULT, COMM_MPI, COMM_NCCL, COMM_NCCL_REGISTERED, COMM_COUNT };
enum { DEFAULT_STEPS = 100, DEFAULT_KEEP = 3, SEED_MAX_BITS = 53, NUMBER_BYTES = 32, LINE_BYTES = 512 };

static const double default_timeout_seconds = 60.0, default_pace_seconds = 30.0;

/* What ranks must have in common. */
static const char version[] = "galrun " GAL_VERSION;

enum { ON_NAN_STOP, ON_NAN_SKIP, ON_NAN_COUNT };
static const char *const on_nan_names[ON_NAN_COUNT] = {"stop", "skip"};

typedef struct settings {
    const char *plan_path;
    const char *data_path, *validation_path, *labels_path, *validation_labels_path, *save_directory, *resume,
        *weights_path, *export_path, *log_path, *tensorboard_path, *every, *trace_path, *storage_directory;
    gal_pace pace;                            /* what *every says */
    uint64_t slow_link_bytes;                 /* a second */
    uint64_t memory_bytes, host_memory_bytes; /* 0: no limit */
    uint64_t step_count, evaluate_every, evaluate_batches, seed, save_every;
    uint32_t rank_count, keep, thread_count, verbose_count, bind, on_nan, device, comm, storage_way;
    double timeout_seconds;
    gal_tcp_place place; /* of a rank that an orchestrator has started without MPI */
    bool placed;         /* it has */
    bool quiet, dry_run, no_overlap, graphs, deterministic, tf32, overwrite, text;
} settings;

/* ---- command line ---- */

static const char notes[] =
    "A plan for one device runs at once; for more, --np starts the ranks on this machine, or a launcher does:\n"
    "  mpirun -n 4 galrun plan.json --data FILE       srun -n 4 galrun plan.json --data FILE\n"
    "On GPUs with NCCL an orchestrator needs no MPI: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say who each rank "
    "is\n"
    "(LOCAL_RANK and LOCAL_WORLD_SIZE, which GPU it takes).\n"
    "SIGTERM (or Ctrl-C) ends the run after the present step, saves if --save is given, and exits 0. Under mpirun\n"
    "itself send it SIGUSR1, which it passes on; on SIGTERM mpirun kills the ranks.\n";

static const char *const device_names[DEVICE_COUNT] = {[DEVICE_HOST] = "host", [DEVICE_CUDA] = "cuda"};
static const char *const comm_names[COMM_COUNT] = {
    [COMM_DEFAULT] = "default", [COMM_MPI] = "mpi", [COMM_NCCL] = "nccl", [COMM_NCCL_REGISTERED] = "nccl-registered"};
static const char *const bind_names[BIND_COUNT] = {[BIND_CORES] = "cores", [BIND_NONE] = "none"};

static bool parse(int argc, char **argv, settings *s, int *exit_code)
{
    char said_version[LINE_BYTES];
    const gal_option options[] = {
        gal_option_required(gal_option_string(
            "data", "FILE",
            "text in UTF-8 (its bytes; lines, if the model pads), tokens (.bin of llm.c; .bin and .idx of Megatron, or "
            "their name without an ending), images (.npy)",
            &s->data_path)),
        gal_option_flag("text", "take the bytes of --data as tokens, also where they are no UTF-8", &s->text),
        gal_option_string("labels", "FILE", "of images: their labels (.npy of whole numbers)", &s->labels_path),
        gal_option_string("validation-labels", "FILE", "of the images of --validation", &s->validation_labels_path),
        gal_option_string("validation", "FILE", "validate on this file (default: the last tenth of the data)",
                          &s->validation_path),
        gal_option_u64("steps", "N", "end when N optimizer steps are done (default: warm-up and decay, or 100)",
                       &s->step_count, 0, 99999999),
        gal_option_u32("np", "N", "start N ranks on this machine", &s->rank_count, 1, 4096),
        gal_option_u32("threads", "N", "threads per rank (default 1)", &s->thread_count, 1, 1024),
        gal_option_enum("device", "what computes: the host's cores (default), or one GPU per rank", &s->device,
                        device_names, DEVICE_COUNT),
        gal_option_enum("comm", "how ranks on GPUs communicate (default: NCCL; by MPI several can share a GPU)",
                        &s->comm, comm_names, COMM_COUNT),
        gal_option_flag("graphs", "launch kernels of a GPU in runs that were captured in the first steps", &s->graphs),
        gal_option_flag("deterministic", "on a GPU: the same bits in every run (the host's always are)",
                        &s->deterministic),
        gal_option_flag("tf32", "on a GPU: products of fp32 may round their factors to 10 bits (default: none does)",
                        &s->tf32),
        gal_option_enum("bind", "ranks of a host to cores of their own, if there are enough and nobody bound them",
                        &s->bind, bind_names, BIND_COUNT),
        gal_option_u64("seed", "N", "of initial weights, data order and dropout (default 1)", &s->seed, 0,
                       UINT64_C(1) << SEED_MAX_BITS),
        gal_option_u64("evaluate-every", "N", "validate every N steps (default: at the end)", &s->evaluate_every, 1,
                       99999999),
        gal_option_u64("evaluate-batches", "N", "batches per validation (default: all, at most 20)",
                       &s->evaluate_batches, 1, 99999999),
        gal_option_string("save", "DIR", "write checkpoints to DIR, one at the end", &s->save_directory),
        gal_option_flag("overwrite",
                        "DIR may hold checkpoints of earlier runs: they stay, or give way to the same step's",
                        &s->overwrite),
        gal_option_u64("save-every", "N", "and every N steps", &s->save_every, 1, 99999999),
        gal_option_u32("keep", "K", "keep the K newest checkpoints, 0 all (default 3)", &s->keep, 0, 1000000),
        gal_option_string("weights", "PATH",
                          "start from weights: a safetensors file, an index of several, or a folder with either",
                          &s->weights_path),
        gal_option_string("export", "FILE", "write the weights at the end as a safetensors file", &s->export_path),
        gal_option_string("resume", "PATH",
                          "go on from a checkpoint; 'latest': the newest in --save, or anew if it has none",
                          &s->resume),
        gal_option_enum("on-nan", "when loss or gradient is not finite: stop (default), or skip the step", &s->on_nan,
                        on_nan_names, ON_NAN_COUNT),
        gal_option_flag("dry-run", "print what would be run, and run nothing", &s->dry_run),
        gal_option_string("every", "PACE",
                          "a line so often: 30s (the default but on a terminal, where one line is rewritten), 5m; 100: "
                          "steps",
                          &s->every),
        gal_option_string("log", "FILE", "write figures of every step: JSON lines, or CSV if FILE ends in .csv",
                          &s->log_path),
        gal_option_string("tensorboard", "DIR", "write them as events for TensorBoard, a new file in DIR for each run",
                          &s->tensorboard_path),
        gal_option_string("trace", "FILE", "write the last step's time line for chrome://tracing or Perfetto",
                          &s->trace_path),
        gal_option_flag("no-overlap", "compute or communicate, never both, for comparison; the result is the same",
                        &s->no_overlap),
        gal_option_bytes("memory", "SIZE", "of a device: a plan that takes more is refused before it starts",
                         &s->memory_bytes, 1, GAL_BYTES_MAX),
        gal_option_bytes("host-memory", "SIZE", "likewise of what a rank has in the host's memory beside a device's",
                         &s->host_memory_bytes, 1, GAL_BYTES_MAX),
        gal_option_string("storage", "DIR",
                          "where what a plan has on storage goes: a file of each rank, without a name",
                          &s->storage_directory),
        gal_option_enum("storage-io", "how it is read and written: default (io_uring, else threads), io_uring, threads",
                        &s->storage_way, gal_storage_way_names, GAL_STORAGE_WAY_COUNT),
        gal_option_bytes("slow-link", "BYTES", "CPU ranks communicate as over links of so many bytes a second",
                         &s->slow_link_bytes, 1, GAL_BYTES_MAX),
        gal_option_f64("timeout", "S", "end all ranks when one has waited S seconds for another (default 60)",
                       &s->timeout_seconds, 1.0, 1e6),
        gal_option_short('q', gal_option_flag("quiet", "warnings and errors only", &s->quiet)),
        gal_option_short('v', gal_option_count("verbose", "say more; -vv still more", &s->verbose_count)),
    };
    gal_rank_version("galrun", gal_blas_description(), said_version, sizeof said_version);
    const gal_command command = {
        .program = "galrun",
        .version = said_version,
        .summary = "Train by a plan.",
        .positional = "PLAN",
        .positional_min = 1,
        .positional_max = 1,
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .notes = notes,
    };
    gal_arguments arguments;
    if (!gal_rank_options_run(&command, argc, argv, &arguments, exit_code)) {
        return false;
    }
    s->plan_path = arguments.positional[0];
    return true;
}

/* Shares that come to no unit and no value keep nothing there. */
static gal_code check_storage(const settings *s, const gal_plan *plan, gal_error *err)
{
    gal_code code = GAL_OK;
    const bool may = !s->dry_run && s->storage_directory == NULL && gal_plan_stores(plan);
    for (uint32_t stage = 0; may && stage < plan->stage_count && code == GAL_OK; stage++) {
        gal_program *program = NULL;
        code = gal_lower(plan, stage, &program, err);
        if (code == GAL_OK && program->storage_bytes > 0) {
            code = gal_fail(err, GAL_ERR_USAGE, "%s has a part of what it keeps on storage: say where, --storage DIR",
                            s->plan_path);
        }
        gal_program_free(program);
    }
    return code;
}

static gal_code check_settings(const settings *s, const gal_plan *plan, gal_error *err)
{
    const uint32_t ranks = gal_plan_rank_count(plan);
    if (s->resume != NULL && strcmp(s->resume, "latest") == 0 && s->save_directory == NULL) {
        return gal_fail(err, GAL_ERR_USAGE, "--resume latest needs --save DIR, where it looks");
    }
    if (s->resume != NULL && s->weights_path != NULL) {
        return gal_fail(err, GAL_ERR_USAGE, "--weights and --resume both say where to start: give one of them");
    }
    if (s->overwrite && s->save_directory == NULL) {
        return gal_fail(err, GAL_ERR_USAGE, "--overwrite needs --save DIR");
    }
    if (s->save_every > 0 && s->save_directory == NULL) {
        return gal_fail(err, GAL_ERR_USAGE, "--save-every needs --save DIR");
    }
    if (!s->dry_run && !gal_launched() && !s->placed && s->rank_count != ranks && (s->rank_count != 0 || ranks != 1)) {
        char given[NUMBER_BYTES] = "";
        if (s->rank_count != 0) {
            snprintf(given, sizeof given, ", --np says %u", s->rank_count);
        }
        return gal_fail(err, GAL_ERR_USAGE, "%s is for %u ranks%s: type --np %u, or start it by mpirun -n %u",
                        s->plan_path, ranks, given, ranks, ranks);
    }
    if (s->device == DEVICE_HOST && (s->comm == COMM_NCCL || s->comm == COMM_NCCL_REGISTERED)) {
        return gal_fail(err, GAL_ERR_USAGE, "--comm %s needs --device cuda: on the host ranks communicate by MPI",
                        comm_names[s->comm]);
    }
    if (s->device == DEVICE_HOST && s->graphs) {
        return gal_fail(err, GAL_ERR_USAGE, "--graphs needs --device cuda");
    }
    if (s->device == DEVICE_HOST && s->tf32) {
        return gal_fail(err, GAL_ERR_USAGE, "--tf32 needs --device cuda");
    }
    if (s->device == DEVICE_CUDA && s->slow_link_bytes > 0) {
        return gal_fail(err, GAL_ERR_USAGE, "--slow-link is for CPU ranks");
    }
    if (s->tf32 && plan->model.compute_dtype != GAL_FP32) {
        return gal_fail(err, GAL_ERR_USAGE, "--tf32 is for products of fp32: the plan's model computes in %s",
                        gal_dtype_names[plan->model.compute_dtype]);
    }
    if (s->graphs && s->comm == COMM_MPI && ranks > 1) {
        return gal_fail(err, GAL_ERR_USAGE, "--graphs needs NCCL where ranks communicate: leave out --comm mpi");
    }
    if (s->graphs && s->trace_path != NULL) {
        return gal_fail(err, GAL_ERR_USAGE,
                        "--trace takes the times of single kernels, which --graphs launches in runs");
    }
    if (s->rank_count > 1 && strcmp(s->plan_path, "-") == 0) {
        return gal_fail(err, GAL_ERR_USAGE, "with --np the plan must be a file: every rank reads it");
    }
    return GAL_OK;
}

static void tell(const char *text)
{
    fprintf(stderr, "galrun: error: %s\n", text);
}

static gal_train_options train_options(const settings *s, const gal_plan *plan, const gal_log *log)
{
    const gal_optimizer *optimizer = &plan->model.optimizer;
    gal_train_options options = {
        .data_path = s->data_path,
        .validation_path = s->validation_path,
        .labels_path = s->labels_path,
        .validation_labels_path = s->validation_labels_path,
        .data_as_bytes = s->text,
        .step_count = s->step_count,
        .evaluate_every = s->evaluate_every,
        .evaluate_batches = s->evaluate_batches,
        .seed = s->seed,
        .seed_given = s->seed != UINT64_MAX,
        .save_directory = s->save_directory,
        .save_every = s->save_every,
        .keep = s->keep,
        .skip_not_finite = s->on_nan == ON_NAN_SKIP,
        .resume_path = s->resume != NULL && strcmp(s->resume, "latest") == 0 ? s->save_directory : s->resume,
        .resume_if_any = s->resume != NULL && strcmp(s->resume, "latest") == 0,
        .overwrite = s->overwrite,
        .weights_path = s->weights_path,
        .export_path = s->export_path,
        .log_path = s->log_path,
        .tensorboard_path = s->tensorboard_path,
        .trace_path = s->trace_path,
        .limits = {s->memory_bytes, s->host_memory_bytes},
        .storage_directory = s->storage_directory,
        .storage_way = (gal_storage_way)s->storage_way,
        .slow_bytes_per_second = (double)s->slow_link_bytes,
        .order = s->no_overlap ? GAL_ORDER_LIST : GAL_ORDER_STREAMS,
        .deadline_seconds = s->timeout_seconds,
        .rewrites = gal_launched_terminal() && s->every == NULL,
        .pace = s->pace,
        .log = log,
        .stop = gal_stop_on_signals(),
        .deterministic = s->deterministic,
        .tf32 = s->tf32,
        .graphs = s->graphs,
        .tell = tell,
    };
    if (!options.seed_given) {
        options.seed = 1;
    }
    if (s->step_count == UINT64_MAX) {
        options.step_count =
            optimizer->decay_steps == 0 ? DEFAULT_STEPS : (uint64_t)optimizer->warmup_steps + optimizer->decay_steps;
    }
    return options;
}

/* ---- runs ---- */

/* Before memory is touched, which settles the NUMA node it is on. */
static void bind_rank(const settings *s, const gal_log *log)
{
    char text[LINE_BYTES];
    uint32_t local_rank, local_count;
    if (s->bind == BIND_NONE || !gal_binding_place(&local_rank, &local_count)) {
        return;
    }
    gal_binding_apply(local_rank, local_count, text, sizeof text);
    if (log->level >= GAL_LOG_DETAIL) { /* of every rank, where a log speaks for rank 0 */
        fprintf(stderr, "[rank %d] %s\n", (int)log->rank, text);
    }
}

/* *out NULL: the host. All ranks get the same code. */
static gal_code open_backend(const settings *s, const gal_world *world, const gal_log *log, const gal_backend **out,
                             gal_error *err)
{
    gal_code code = GAL_OK;
    static const gal_cuda_comm comms[COMM_COUNT] = {[COMM_DEFAULT] = GAL_CUDA_NCCL,
                                                    [COMM_MPI] = GAL_CUDA_MPI,
                                                    [COMM_NCCL] = GAL_CUDA_NCCL,
                                                    [COMM_NCCL_REGISTERED] = GAL_CUDA_NCCL_REGISTERED};
    uint32_t local_rank = 0, local_count = 1;
    char text[LINE_BYTES] = "";
    *out = NULL;
    if (s->device == DEVICE_HOST) {
        return GAL_OK;
    }
    (void)gal_binding_place(&local_rank, &local_count);
    code = gal_backend_cuda_open(comms[s->comm], local_rank, out, text, sizeof text, err);
    GAL_TRY(gal_world_agree(world, code, err));
    gal_log_line(log, GAL_LOG_INFO, "%s, communication by %s", text, s->comm == COMM_MPI ? "MPI" : "NCCL");
cleanup:
    return code;
}

static gal_code train(const gal_plan *plan, const settings *s, const gal_world *world, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_train_summary summary = {0};
    const bool alone = gal_world_size(world) == 1;
    const gal_log log = {.level = gal_log_level_of(s->quiet, s->verbose_count),
                         .rank = alone ? GAL_LOG_NO_RANK : (int32_t)gal_world_rank(world)};
    gal_train_options options = train_options(s, plan, &log);
    bind_rank(s, &log);
    GAL_TRY(open_backend(s, world, &log, &options.backend, err));
    openblas_set_num_threads((int)s->thread_count);
    gal_log_line(&log, GAL_LOG_DETAIL, "%s, %u threads per rank", gal_blas_description(), s->thread_count);
    gal_report_start(plan, &options);
    GAL_TRY(gal_train(plan, world, &options, &summary, err));
    if (gal_world_rank(world) == 0) {
        gal_report_communication(&summary, &log);
        gal_report_device(&summary, &log);
        gal_report_summary(plan, &summary, s->save_directory, stdout);
    }
cleanup:
    gal_train_summary_free(&summary);
    return code;
}

/* Without a communicator: a plan for one device that nobody launched. */
static gal_code train_alone(const gal_plan *plan, const settings *s, gal_error *err)
{
    const gal_world world = {.deadline_seconds = s->timeout_seconds};
    return train(plan, s, &world, err);
}

/* Prints its error itself. */
static gal_code train_launched(const gal_plan *plan, const settings *s, int *argc, char ***argv, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t ranks = gal_plan_rank_count(plan);
    gal_world world = {.deadline_seconds = s->timeout_seconds};
    GAL_TRY(gal_rank_start("galrun", s->timeout_seconds, argc, argv, err));
    if (gal_mpi_world_size() != ranks) {
        code = gal_fail(err, GAL_ERR_USAGE, "%s is for %u ranks, this run has %u: type mpirun -n %u galrun ...",
                        s->plan_path, ranks, gal_mpi_world_size(), ranks);
        goto cleanup;
    }
    GAL_TRY(gal_comm_mpi_create(0, NULL, 0, &world.comm, err));
    GAL_TRY(gal_world_same(&world, version, err));
    GAL_TRY(train(plan, s, &world, err));
    gal_launch_done();
cleanup:
    if (code != GAL_OK) { /* before the others can leave: mpirun ends all when one exits with an error */
        gal_rank_print_error("galrun", err);
    }
    if (world.comm != NULL) {
        gal_comm_free(world.comm);
    }
    gal_rank_end();
    return code;
}

/* As train_launched, with control over TCP: NCCL carries the rest. Prints its error itself; once, if all ranks have it.
 */
static gal_code train_placed(const gal_plan *plan, const settings *s, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t ranks = gal_plan_rank_count(plan);
    gal_world world = {.deadline_seconds = s->timeout_seconds};
    bool shared = true;
    if (s->place.world_size != ranks) {
        code = gal_fail(err, GAL_ERR_USAGE, "%s is for %u ranks, the environment's WORLD_SIZE is %u", s->plan_path,
                        ranks, s->place.world_size);
        goto cleanup;
    }
    shared = false;
    GAL_TRY(gal_comm_tcp_create(&s->place, s->timeout_seconds, tell, &world.comm, err));
    shared = true;
    GAL_TRY(gal_world_same(&world, version, err));
    GAL_TRY(train(plan, s, &world, err));
cleanup:
    if (code != GAL_OK && (s->place.rank == 0 || !shared)) {
        tell(err->text);
    }
    gal_comm_free(world.comm);
    return code;
}

/* The ranks get the same arguments: under a launcher --np means nothing. */
static gal_code launch(const settings *s, char *const *argv, int *exit_code, gal_error *err)
{
    const gal_launch_options options = {.rank_count = s->rank_count,
                                        .thread_count = s->thread_count,
                                        .deadline_seconds = s->timeout_seconds,
                                        .arguments = argv};
    return gal_launch(&options, exit_code, err);
}

/* On the host requests need MPI, and --np starts ranks itself: then the environment's RANK means nothing. */
static bool may_be_placed(const settings *s)
{
    return s->device == DEVICE_CUDA && s->comm != COMM_MPI && s->rank_count == 0 && !gal_launched();
}

static gal_code run(settings *s, int argc, char **argv, char *const *given, int *exit_code, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_plan plan = {0};
    if (s->every != NULL) {
        GAL_TRY(gal_pace_read("--every", s->every, &s->pace, err));
    }
    GAL_TRY(gal_plan_read(s->plan_path, &plan, err));
    if (may_be_placed(s)) {
        GAL_TRY(gal_tcp_place_read(&s->place, &s->placed, err));
    }
    GAL_TRY(check_settings(s, &plan, err));
    GAL_TRY(check_storage(s, &plan, err));
    if (s->device == DEVICE_CUDA && !s->dry_run && !gal_launched() && !s->placed) {
        GAL_TRY(gal_backend_cuda_probe(err)); /* once, and not by every rank */
    }
    if (s->dry_run) {
        const gal_train_options options = train_options(s, &plan, NULL);
        code =
            gal_launched_rank() == 0 && s->place.rank == 0 ? gal_report_dry_run(&plan, &options, stdout, err) : GAL_OK;
    } else if (gal_launched()) {
        *exit_code = (int)train_launched(&plan, s, &argc, &argv, err);
    } else if (s->placed) {
        *exit_code = (int)train_placed(&plan, s, err);
    } else if (s->rank_count > 1) {
        code = launch(s, given, exit_code, err);
    } else {
        code = train_alone(&plan, s, err);
    }
cleanup:
    gal_plan_free(&plan);
    return code;
}

int main(int argc, char **argv)
{
    int exit_code = GAL_OK;
    gal_error err = {0};
    settings s = {.step_count = UINT64_MAX, .seed = UINT64_MAX, .keep = DEFAULT_KEEP, .thread_count = 1};
    s.timeout_seconds = default_timeout_seconds;
    s.pace.seconds = default_pace_seconds;
    gal_blas_choose_kernels(argv);
    (void)gal_stop_on_signals();
    gal_launch_register();
    char **given = gal_copy_arguments(argc, argv);
    if (given == NULL) {
        fputs("galrun: error: out of memory\n", stderr);
        return GAL_ERR_SYSTEM;
    }
    if (!parse(argc, argv, &s, &exit_code)) {
        free(given);
        return exit_code;
    }
    const gal_code code = run(&s, argc, argv, given, &exit_code, &err);
    free(given);
    if (code != GAL_OK) {
        gal_rank_print_error("galrun", &err);
        return (int)code;
    }
    return exit_code;
}
