/* galplan simulate: plays a plan's programs against a profile, or against the analytic rates of its cluster. */
#include "planner/cli/simulate.h"

#include <stdio.h>
#include <stdlib.h>

#include "costmodel/objective.h"
#include "costmodel/simulate.h"
#include "planner/answers/figure_text.h"
#include "planner/cli/assumed.h"
#include "planner/cli/galvatron.h"
#include "planner/cli/memory_line.h"
#include "planner/cli/next.h"
#include "planner/cli/search_print.h"
#include "planner/cli/step_said.h"
#include "planner/cli/threads_of.h"
#include "schemas/base/options.h"

typedef struct run {
    gal_plan plan;
    gal_profile profile;
    gal_durations *durations;
    gal_program **program; /* [stage_count] */
    gal_simulation simulation;
    gal_prediction interval;
    double objective_seconds; /* of a model that has prices */
    double tokens;            /* of --tokens; 0: not given */
    bool profiled;
} run;

static void release(run *r)
{
    gal_simulation_free(&r->simulation);
    for (uint32_t s = 0; r->program != NULL && s < r->plan.stage_count; s++) {
        gal_program_free(r->program[s]);
    }
    free(r->program);
    gal_durations_free(r->durations);
    gal_profile_free(&r->profile);
    gal_plan_free(&r->plan);
}

static gal_code load(run *r, const char *plan_path, const char *profile_path, uint32_t threads, gal_error *err)
{
    gal_code code = gal_plan_read(plan_path, &r->plan, err);
    if (code == GAL_OK && threads > 0 && profile_path == NULL) {
        return gal_fail(err, GAL_ERR_USAGE, "--threads needs the --profile whose rates it is about");
    }
    if (code != GAL_OK || profile_path == NULL) {
        return code == GAL_OK ? gal_durations_create_analytic(&r->plan.cluster, &r->durations, err) : code;
    }
    code = gal_profile_read(profile_path, &r->profile, err);
    code = code == GAL_OK ? gal_cli_threads_of(&r->profile, threads, err) : code;
    if (code != GAL_OK) {
        return code;
    }
    const uint32_t devices = r->plan.pp_degree * gal_plan_stage_devices(&r->plan);
    if (r->profile.cluster.device_count < devices) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "%s: /cluster/device_count: must be >= the plan's %u devices, got %u",
                        profile_path, devices, r->profile.cluster.device_count);
    }
    r->profiled = true;
    return gal_durations_create_at(&r->profile, r->plan.communication_ctas, &r->durations, err);
}

static gal_code play(run *r, bool timeline, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_price_cache *cache = NULL;
    r->program = calloc(r->plan.stage_count, sizeof *r->program);
    if (r->program == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to simulate");
    }
    GAL_TRY(gal_lower_plan(&r->plan, r->program, err));
    GAL_TRY(gal_simulate(r->program, r->plan.stage_count, r->durations, timeline, &r->simulation, err));
    const uint64_t fixed = r->profiled ? gal_durations_fixed_bytes(r->durations) : r->plan.fixed_bytes;
    GAL_TRY(gal_programs_interval(r->program, r->plan.stage_count, r->durations, r->simulation.iteration_seconds, fixed,
                                  &r->interval, err));
    GAL_TRY(gal_price_cache_create(&r->plan.model, r->durations, &cache, err));
    GAL_TRY(gal_plan_objective(cache, r->durations, &r->plan, &r->objective_seconds, err));
cleanup:
    gal_price_cache_free(cache);
    return code;
}

static gal_code save_trace(const run *r, const char *path, gal_error *err)
{
    gal_json_writer *out = gal_json_writer_create();
    gal_simulation_write_trace(&r->simulation, r->program, out);
    const gal_code code = gal_json_writer_save(out, path, err);
    gal_json_writer_free(out);
    return code;
}

static uint64_t fixed_bytes(const run *r)
{
    return r->profiled ? gal_durations_fixed_bytes(r->durations) : r->plan.fixed_bytes;
}

static uint64_t stage_bytes(const run *r, uint32_t stage)
{
    return r->program[stage]->arena_bytes + fixed_bytes(r);
}

/* The cluster whose devices play the plan. */
static uint64_t memory_bytes(const run *r)
{
    return gal_durations_cluster(r->durations)->device.memory_bytes;
}

static void print_memory(const run *r)
{
    gal_memory_kinds kinds;
    char line[GAL_MEMORY_LINE_BYTES];
    (void)gal_memory_kinds_fullest(r->program, r->plan.stage_count, fixed_bytes(r), &kinds);
    gal_memory_line(&kinds, memory_bytes(r), line);
    printf("  memory %s\n", line);
}

static void put_memory(const run *r, gal_json_writer *out)
{
    gal_memory_kinds kinds;
    const uint32_t stage = gal_memory_kinds_fullest(r->program, r->plan.stage_count, fixed_bytes(r), &kinds);
    gal_memory_put(out, &kinds, stage, memory_bytes(r));
}

static double share(const run *r, double seconds)
{
    return seconds / r->simulation.iteration_seconds;
}

static double transfer_seconds(const gal_stage_simulation *stage)
{
    double seconds = 0.0;
    for (uint32_t stream = GAL_STREAM_SEND_FORWARD; stream <= GAL_STREAM_RECEIVE_BACKWARD; stream++) {
        seconds += stage->busy_seconds[stream];
    }
    return seconds;
}

/* Every fact is the plan's, which says them all. */
static gal_assumed assumed_of(const run *r)
{
    const gal_origin plan = GAL_ORIGIN_PLAN;
    return (gal_assumed){.model = &r->plan.model,
                         .device = &gal_durations_cluster(r->durations)->device,
                         .origins = {plan, plan, plan, plan, r->plan.model.compute_dtype},
                         .batches = {1, {r->plan.global_batch_samples}}};
}

/* The figures of the plan as simulated. */
static gal_step_said step_of(const run *r)
{
    uint64_t most = 0;
    for (uint32_t s = 0; s < r->plan.stage_count; s++) {
        most = stage_bytes(r, s) > most ? stage_bytes(r, s) : most;
    }
    return (gal_step_said){.plan = &r->plan,
                           .seconds = r->simulation.iteration_seconds,
                           .bytes = most,
                           .tokens = r->tokens,
                           .tf32 = r->profile.gpu.tf32,
                           .measured = gal_durations_have_measurements(r->durations)};
}

static void print_figures(const run *r)
{
    const gal_step_said step = step_of(r);
    const gal_assumed assumed = assumed_of(r);
    gal_assumed_print(stdout, &assumed);
    printf("simulated: ");
    gal_step_print(stdout, &step);
    gal_step_print_interval(stdout, &step, &r->interval);
    printf("  durations: %s", r->profiled ? "profile" : "analytic, from the plan's cluster");
    if (r->plan.communication_ctas > 0 && r->profile.gpu.by_ctas_count > 0) {
        printf(", a collective taking %u thread blocks of a GPU", r->plan.communication_ctas);
    }
    printf("\n  objective %.6g s (sum of prices), %+.2f %% of the simulation\n", r->objective_seconds,
           100.0 * (r->objective_seconds / r->simulation.iteration_seconds - 1.0));
    print_memory(r);
    gal_step_print_notes(stdout, &step);
}

/* Shares of the step in which each stream is busy; the bubble is what compute is idle, for whatever reason. */
static void print_table(const run *r)
{
    char memory[GAL_FIGURE_TEXT_BYTES];
    printf("\nstage  blocks  compute   tensor   gather   reduce      p2p   bubble     memory\n");
    for (uint32_t s = 0; s < r->plan.stage_count; s++) {
        const gal_stage_simulation *stage = &r->simulation.stage[s];
        const double *busy = stage->busy_seconds;
        printf("%5u  %6u  %6.1f %%  %5.1f %%  %5.1f %%  %5.1f %%  %5.1f %%  %5.1f %%  %9s\n", s,
               r->program[s]->block_count, 100.0 * share(r, busy[GAL_STREAM_COMPUTE]),
               100.0 * share(r, busy[GAL_STREAM_TENSOR]), 100.0 * share(r, busy[GAL_STREAM_GATHER]),
               100.0 * share(r, busy[GAL_STREAM_REDUCE]), 100.0 * share(r, transfer_seconds(stage)),
               100.0 * (1.0 - share(r, busy[GAL_STREAM_COMPUTE])), gal_memory_text(stage_bytes(r, s), memory));
    }
}

static void put_stage(const run *r, uint32_t stage, gal_json_writer *out)
{
    const double *busy = r->simulation.stage[stage].busy_seconds;
    gal_json_begin_object(out, NULL);
    gal_json_put_u64(out, "block_count", r->program[stage]->block_count);
    gal_json_put_u64(out, "bytes", stage_bytes(r, stage));
    gal_json_put_u64(out, "arena_bytes", r->program[stage]->arena_bytes);
    const bool offloads = r->program[stage]->host_bytes > 0, stores = r->program[stage]->storage_bytes > 0;
    if (offloads) {
        gal_json_put_u64(out, "host_bytes", r->program[stage]->host_bytes);
    }
    if (stores) {
        gal_json_put_u64(out, "storage_bytes", r->program[stage]->storage_bytes);
    }
    gal_json_put_f64(out, "bubble_share", 1.0 - share(r, busy[GAL_STREAM_COMPUTE]));
    gal_json_begin_object(out, "busy_seconds");
    const uint32_t streams = stores ? GAL_STREAM_COUNT : offloads ? GAL_STREAM_STORAGE_IN : GAL_STREAM_HOST_OUT;
    for (uint32_t stream = 0; stream < streams; stream++) {
        gal_json_put_f64(out, gal_stream_names[stream], busy[stream]);
    }
    gal_json_end_object(out);
    gal_json_end_object(out);
}

static gal_code print_json(const run *r, gal_error *err)
{
    const gal_step_said step = step_of(r);
    gal_json_writer *out = gal_json_writer_create();
    const gal_assumed assumed = assumed_of(r);
    gal_json_begin_object(out, NULL);
    gal_assumed_put(out, &assumed);
    gal_json_put_string(out, "durations", r->profiled ? "profile" : "analytic");
    gal_json_put_f64(out, "simulated_seconds", r->simulation.iteration_seconds);
    gal_search_put_interval(out, &r->interval);
    gal_json_put_f64(out, "objective_seconds", r->objective_seconds);
    gal_step_put(out, &step);
    put_memory(r, out);
    gal_json_begin_array(out, "stages");
    for (uint32_t s = 0; s < r->plan.stage_count; s++) {
        put_stage(r, s, out);
    }
    gal_json_end_array(out);
    gal_json_end_object(out);
    const gal_code code = gal_json_writer_save(out, "-", err);
    gal_json_writer_free(out);
    return code;
}

static const char notes[] =
    "bubble is what of the step the compute stream is idle, for whatever reason; the other columns\n"
    "are shares in which a stream is busy. memory is of the fullest device: optimizer are moments and masters,\n"
    "activations what is kept from forward to backward, workspace temporaries, gathered weights and buckets,\n"
    "fixed what the profile measured beside the program. --prices galvatron prices a plan or a galvatron_plan by the\n"
    "formulas that Hetu-Galvatron published, on a galvatron_profile.\n";

typedef enum price_source { PRICES_GALRUN, PRICES_GALVATRON, PRICES_COUNT } price_source;
static const char *const price_names[PRICES_COUNT] = {"galrun", "galvatron"};

static gal_code price_galvatron(const char *plan_path, const char *profile_path, bool others, bool json, gal_error *err)
{
    if (profile_path == NULL || others) {
        return gal_fail(err, GAL_ERR_USAGE,
                        "--prices galvatron needs --profile with a galvatron_profile, and has no --trace and --tokens");
    }
    return gal_cli_price_galvatron(plan_path, profile_path, json, err);
}

int gal_cli_simulate(int argc, char **argv)
{
    const char *profile_path = NULL;
    const char *trace_path = NULL, *tokens = NULL;
    uint32_t prices = PRICES_GALRUN, threads = 0;
    bool json = false;
    const gal_option options[] = {
        gal_option_string("profile", "FILE", "measured durations; without it the plan's cluster gives analytic ones",
                          &profile_path),
        gal_option_u32("threads", "N", GAL_CLI_THREADS_HELP, &threads, 1, GAL_PROFILE_THREADS_MAX),
        gal_option_enum("prices", "whose prices (galrun)", &prices, price_names, PRICES_COUNT),
        gal_option_string("trace", "FILE", "write the time line for chrome://tracing or Perfetto", &trace_path),
        gal_option_string("tokens", "N", "length of a training, as 300B or 1T: says how many days it takes", &tokens),
        gal_option_flag("json", "print one JSON object", &json),
    };
    const gal_command command = {.program = "galplan",
                                 .command = "simulate",
                                 .summary = "Play a plan against a profile: seconds, bytes, time line.",
                                 .positional = "PLAN",
                                 .positional_min = 1,
                                 .positional_max = 1,
                                 .options = options,
                                 .option_count = sizeof options / sizeof options[0],
                                 .notes = notes};
    gal_arguments arguments;
    int exit_code = GAL_OK;
    if (!gal_options_run(&command, argc, argv, &arguments, &exit_code)) {
        return exit_code;
    }
    gal_error err = {0};
    run r = {0};
    gal_code code = GAL_OK;
    if (tokens != NULL) {
        GAL_TRY(gal_training_read_tokens(tokens, &r.tokens, &err));
    }
    if (prices == PRICES_GALVATRON) {
        code = price_galvatron(arguments.positional[0], profile_path, trace_path != NULL || tokens != NULL, json, &err);
        goto cleanup;
    }
    GAL_TRY(load(&r, arguments.positional[0], profile_path, threads, &err));
    GAL_TRY(play(&r, trace_path != NULL, &err));
    if (trace_path != NULL) {
        GAL_TRY(save_trace(&r, trace_path, &err));
    }
    if (json) {
        GAL_TRY(print_json(&r, &err));
    } else {
        print_figures(&r);
        print_table(&r);
        gal_next_of_simulation(stdout, &r.plan, arguments.positional[0], profile_path, trace_path);
    }
cleanup:
    release(&r);
    return gal_options_end("galplan", "simulate", code, &err);
}
