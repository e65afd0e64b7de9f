/* galplan search: the fastest plan that fits. */
#include "planner/cli/search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/cell/finalist.h"
#include "planner/cli/search_compare.h"
#include "planner/cli/search_counts.h"
#include "planner/cli/search_ctas.h"
#include "planner/cli/search_none.h"
#include "planner/cli/search_pareto.h"
#include "planner/cli/search_prices.h"
#include "planner/cli/search_print.h"
#include "planner/cli/searching.h"
#include "planner/cli/threads_of.h"
#include "planner/published/framework_search.h"
#include "planner/search/risk.h"
#include "planner/space/ranges.h"

enum { SOLVER_LABELS = 4000000 };
enum { RANK_OBJECTIVE, RANK_SIMULATION, RANK_COUNT };
static const char *const rank_names[RANK_COUNT] = {"objective", "simulation"};

typedef struct search_options {
    const char *model, *profile, *cluster, *batch, *microbatches, *space, *schedule, *output, *communication_ctas;
    const char *prices_text, *constants;
    uint64_t memory_bytes, host_memory_bytes, storage_bytes, pareto_step_bytes;
    gal_u32_list pp_degrees, takeaways;
    uint32_t devices, thread_count, job_count, prefetch_depth, top, label_limit;
    uint32_t algorithm; /* GAL_ALGORITHM_COUNT: not given, the first */
    gal_search_prices prices;
    gal_pricing pricing; /* with a framework's prices */
    uint32_t rank;
    double risk; /* quantile; 0: not given */
    double time_limit_seconds;
    double gap_percent; /* below 0: not given */
    bool compare, pareto, json, counts, timing, quiet, storage_masters, storage_parameters;
    gal_ctas ctas; /* of communication_ctas */
} search_options;

static const char notes[] =
    "--batch takes a list 8,16,24 or a range: A:B doubles, A:B:STEP adds, A:B:xF multiplies. Without it the model's\n"
    "own batch is used. --microbatches takes a list or max:N (1, 2, 4 ... N); without it all powers of two that\n"
    "divide the batch are tried. The plan goes to --output; '-' is stdout, and the table then goes to stderr.\n"
    "--takeaways: with 1 a stage is whole islands (of the innermost link) or lies in one, with 2 all degrees are "
    "powers\n"
    "of two, with 3 no block has dp beside sdp.\n"
    "--algorithm: a named one plans as its paper says, on tables made of the same prices, with its own count of "
    "seconds\n"
    "and bytes, in its own part of the space; its plan is then priced, sized and simulated as any other. "
    "galvatron-base\n"
    "and galvatron-bmw: Algorithms 1 and 2 of Galvatron-BMW; oases: its equations 3 to 6; ilp: Galvatron-BMW's "
    "equations\n"
    "2 to 5 in GLPK. --compare runs all; a gap is against what exact proves for a sample of any plan.\n"
    "--prices: galvatron searches Hetu-Galvatron's space, but Ulysses, by the formulas that it published, on its own\n"
    "--profile (a galvatron_profile), for the --cluster that the plan is to run on; it knows --devices, --memory, "
    "--batch,\n"
    "--microbatches and --schedule. oases: the degrees of Oases by its equations 3 and 4, exactly or by --algorithm "
    "ilp.\n"
    "framework:NAME (a document, or one that ships, as of galplan estimate): the fastest layout, one strategy for all\n"
    "blocks, that fits by that framework's formulas and bytes, with --constants by what was fitted of them. The plan "
    "says\n"
    "whose prices it is by; what galrun itself would take is said beside them.\n"
    "--risk Q minimises the quantile Q of the step's seconds, from the spread of each measured duration and the "
    "intervals of\n"
    "galplan estimate, all durations off in the same direction; and a device runs out of memory with a chance of at "
    "most\n"
    "1 - Q: bytes of programs are exact, what the profile measured beside them (by a framework: all) is not.\n"
    "Samples per second are by the objective, which the search minimises and its bound is proved for; more memory "
    "never\n"
    "makes them less. --rank simulation also simulates plans within as much of the best as the two differ, and takes\n"
    "the one that simulates fastest.\n"
    "--counts: of the cell of the best plan; schedules that are searched among uniform plans count as 1f1b.\n"
    "--communication-ctas auto searches for each count that the profile measured, and takes the count of the fastest "
    "plan.\n"
    "--pareto searches again below the memory of each plan found until none fits; 'not proven' as without it.\n"
    "Where no plan fits, the least memory and the least devices that would do are said, by bytes alone; devices:\n"
    "divisors of a node, then whole nodes up to 1024 or four times the cluster's.\n"
    "--space ...,offload: of every block half or all of the optimizer, of weights and of activations may be in the\n"
    "host's memory, within a limit (--host-memory), with --storage-memory any share of moments and half or all of\n"
    "activations on storage (galrun --storage), with --storage-masters masters of 16 bits, with --storage-parameters\n"
    "half or all of weights too: chosen with the rest of each strategy; what may be lost is in the gap.\n"
    "Interleaved and zero-bubble plans are searched among uniform ones: one strategy for all blocks, even pieces.\n"
    "Exit: 0 a plan was found; 1 no plan fits; 2 usage; 3 a document is wrong; 4 system.\n"
    "\nExamples:\n"
    "  galplan search --model gpt2-small --cluster h100-8 --devices 2 --batch 8:32 --memory 8GiB -o plan.json\n"
    "  galplan search --model gpt2-small --cluster h100-8 --devices 4 --batch 32 --pp 1,2 --microbatches max:4 --top "
    "5\n";

static bool parse(int argc, char **argv, search_options *o, int *exit_code)
{
    const gal_option options[] = {
        gal_option_required(
            gal_option_string("model", "M", "model document, Hugging Face config.json or catalogue name", &o->model)),
        gal_option_string("profile", "P", "profile of the cluster (brings the cluster)", &o->profile),
        gal_option_u32("threads", "N", GAL_CLI_THREADS_HELP, &o->thread_count, 1, GAL_PROFILE_THREADS_MAX),
        gal_option_string("cluster", "C", "cluster document or catalogue name: analytic durations", &o->cluster),
        gal_option_u32("devices", "N", "use the first N devices of the cluster (all)", &o->devices, 1, 1u << 20),
        gal_option_bytes("memory", "SIZE", "memory per device, in place of the cluster's (16GiB)", &o->memory_bytes, 1,
                         UINT64_C(1) << 50),
        gal_option_bytes("host-memory", "SIZE", "of the host per device, with --space ...,offload (the cluster's)",
                         &o->host_memory_bytes, 1, UINT64_C(1) << 50),
        gal_option_bytes("storage-memory", "SIZE", "of storage per device, with --space ...,offload (the cluster's)",
                         &o->storage_bytes, 1, UINT64_C(1) << 50),
        gal_option_flag("storage-masters", "masters of 16 bits may be on storage too, where their moments are",
                        &o->storage_masters),
        gal_option_flag("storage-parameters", "weights that are on the host may be on storage too, likewise",
                        &o->storage_parameters),
        gal_option_string("batch", "LIST", "global batch in samples", &o->batch),
        gal_option_string("microbatches", "LIST", "microbatch counts", &o->microbatches),
        gal_option_u32_list("pp", "LIST", "pipeline degrees; without it all divisors of the devices", &o->pp_degrees, 1,
                            GAL_STAGES_MAX),
        gal_option_string("space", "AXES",
                          "of dp,sdp,zero1,zero2,zero3,tp,sp,recompute,selective (without it these) and "
                          "ulysses,ring,zigzag,2d,2.5d,3d,keep,stepped,overlap,bucket,chunk,offload",
                          &o->space),
        gal_option_u32_list("takeaways", "LIST", "of 1,2,3: those of Galvatron-BMW that cut the space further (none)",
                            &o->takeaways, 1, 3),
        gal_option_string("schedule", "NAME",
                          "gpipe, 1f1b, interleaved:V (V pieces on every stage) or zero-bubble (1f1b)", &o->schedule),
        gal_option_enum("algorithm", "who searches (exact)", &o->algorithm, gal_algorithm_names, GAL_ALGORITHM_COUNT),
        gal_option_string("prices", "WHOSE", "formulas: galrun, galvatron, oases or framework:NAME (galrun)",
                          &o->prices_text),
        gal_option_string("constants", "FILE", "of framework:NAME: what was fitted", &o->constants),
        gal_option_f64("risk", "Q", "minimise this quantile of the step's seconds, 0.5 to 0.999 (as predicted)",
                       &o->risk, GAL_RISK_MIN, GAL_RISK_MAX),
        gal_option_enum("rank", "which plan is the fastest: by what was searched, or of good ones the best simulated",
                        &o->rank, rank_names, RANK_COUNT),
        gal_option_flag("compare", "run every algorithm: plan, value, gap, time", &o->compare),
        gal_option_flag("pareto", "the front: every memory limit at which the plan changes, downwards", &o->pareto),
        gal_option_bytes("pareto-step", "SIZE", "of the front: how far apart limits are at least (1)",
                         &o->pareto_step_bytes, 1, UINT64_C(1) << 50),
        gal_option_f64("time-limit", "SECONDS", "ilp: of one solve, after which it takes what it has (10)",
                       &o->time_limit_seconds, 0.001, 1e6),
        gal_option_u32("prefetch", "DEPTH", "ring of gathered ZeRO-3 weights: 1 or 2 buffers (2)", &o->prefetch_depth,
                       1, 2),
        gal_option_string("communication-ctas", "N",
                          "thread blocks of a GPU that a collective takes, or auto (NCCL's choice)",
                          &o->communication_ctas),
        gal_option_u32("top", "K", "list the best K cells (1), or the first K points of the front (all)", &o->top, 1,
                       1000),
        gal_option_f64("gap", "PERCENT",
                       "be content if no plan is faster by more than this (0.5; 0 with --pareto, --compare)",
                       &o->gap_percent, 0.0, 50.0),
        gal_option_u32("label-limit", "N", "labels kept at one block, and work in proportion (20000)", &o->label_limit,
                       1, 100000000),
        gal_option_short(
            'j', gal_option_u32("jobs", "N", "cores to search on (all)", &o->job_count, 1, GAL_SEARCH_THREADS_MAX)),
        gal_option_flag("json", "print one JSON object", &o->json),
        gal_option_flag("counts", "print how many strategies each rule of pruning leaves", &o->counts),
        gal_option_flag("timing", "print the time of the search itself", &o->timing),
        gal_option_short('q', gal_option_flag("quiet", "no progress on a terminal", &o->quiet)),
        gal_option_short('o', gal_option_string("output", "FILE", "write the plan", &o->output)),
    };
    const gal_command command = {.program = "galplan",
                                 .command = "search",
                                 .summary = "Find the fastest plan that fits in memory.",
                                 .options = options,
                                 .option_count = sizeof options / sizeof options[0],
                                 .notes = notes};
    gal_arguments arguments;
    return gal_options_run(&command, argc, argv, &arguments, exit_code);
}

static gal_code parse_schedule(const char *text, gal_search_request *request, gal_error *err)
{
    static const char interleaved[] = "interleaved:";
    const size_t length = sizeof interleaved - 1;
    uint32_t i = 0;
    if (strncmp(text, interleaved, length) == 0) {
        const char *digits = text + length;
        const size_t count = strspn(digits, "0123456789");
        const unsigned long chunks = count > 0 && count < 9 && digits[count] == '\0' ? strtoul(digits, NULL, 10) : 0;
        if (chunks < 2 || chunks > GAL_PLAN_CHUNKS_MAX) {
            return gal_fail(err, GAL_ERR_USAGE, "--schedule: interleaved:V needs V from 2 to %u, got '%s'",
                            GAL_PLAN_CHUNKS_MAX, digits);
        }
        request->schedule = GAL_SCHEDULE_INTERLEAVED;
        request->chunk_count = (uint32_t)chunks;
        return GAL_OK;
    }
    static const char *const names[GAL_SCHEDULE_COUNT] = {[GAL_SCHEDULE_GPIPE] = "gpipe",
                                                          [GAL_SCHEDULE_1F1B] = "1f1b",
                                                          [GAL_SCHEDULE_INTERLEAVED] = interleaved,
                                                          [GAL_SCHEDULE_ZERO_BUBBLE] = "zero-bubble"};
    while (i < GAL_SCHEDULE_COUNT && strcmp(text, names[i]) != 0) {
        i++;
    }
    if (i == GAL_SCHEDULE_COUNT) {
        return gal_fail(err, GAL_ERR_USAGE,
                        "--schedule: must be one of gpipe, 1f1b, interleaved:V, zero-bubble, got '%s'", text);
    }
    request->schedule = (gal_schedule)i;
    return GAL_OK;
}

/* Where prices are another's. */
static gal_code prices_rules(const search_options *o, gal_error *err)
{
    const bool galvatron = o->prices == GAL_SEARCH_PRICES_GALVATRON;
    if (o->prices != GAL_SEARCH_PRICES_GALRUN && (o->compare || o->pareto)) {
        return gal_fail(err, GAL_ERR_USAGE, "--compare and --pareto go with --prices galrun");
    }
    if (o->prices == GAL_SEARCH_PRICES_FRAMEWORK && (o->takeaways.count > 0 || o->top > 0)) {
        return gal_fail(err, GAL_ERR_USAGE, "--prices framework:NAME has no --takeaways and --top");
    }
    if (o->risk > 0.0 && (galvatron || o->compare || o->pareto || o->ctas.is_auto)) {
        return gal_fail(err, GAL_ERR_USAGE,
                        "--risk goes without --compare, --pareto, --prices galvatron and --communication-ctas auto");
    }
    if (galvatron && (o->profile == NULL || o->cluster == NULL)) {
        return gal_fail(err, GAL_ERR_USAGE,
                        "--prices galvatron needs --profile, a galvatron_profile, and --cluster, where its plan is to "
                        "run");
    }
    if (galvatron && (o->space != NULL || o->takeaways.count > 0 || o->pp_degrees.count > 0 || o->top > 0)) {
        return gal_fail(err, GAL_ERR_USAGE, "--prices galvatron has no --space, --takeaways, --pp and --top");
    }
    if (!galvatron && (o->profile == NULL) == (o->cluster == NULL)) {
        return gal_fail(err, GAL_ERR_USAGE, "give either --profile or --cluster");
    }
    return GAL_OK;
}

static gal_code usage_rules(search_options *o, gal_search_request *request, gal_error *err)
{
    gal_code code = gal_search_prices_parse(o->prices_text, o->constants, &o->prices, &o->pricing, err);
    code = code == GAL_OK ? gal_ctas_parse(o->communication_ctas, &o->ctas, err) : code;
    code = code == GAL_OK ? prices_rules(o, err) : code;
    if (code != GAL_OK) {
        return code;
    }
    if (o->ctas.is_auto && (o->compare || o->pareto || o->prices == GAL_SEARCH_PRICES_GALVATRON)) {
        return gal_fail(err, GAL_ERR_USAGE,
                        "--communication-ctas auto goes without --compare, --pareto and --prices galvatron");
    }
    if (o->json && o->output != NULL && strcmp(o->output, "-") == 0) {
        return gal_fail(err, GAL_ERR_USAGE, "--json and --output - both write to stdout");
    }
    if (o->devices != 0 && o->cluster == NULL) {
        return gal_fail(err, GAL_ERR_USAGE,
                        "--devices goes with --cluster: a profile holds for the devices it measured");
    }
    if (o->compare && (o->algorithm != GAL_ALGORITHM_COUNT || o->output != NULL || o->top > 1)) {
        return gal_fail(err, GAL_ERR_USAGE, "--compare goes without --algorithm, --output and --top");
    }
    if (o->pareto && (o->compare || o->algorithm % GAL_ALGORITHM_COUNT != GAL_ALGORITHM_EXACT)) {
        return gal_fail(err, GAL_ERR_USAGE, "--pareto goes with --algorithm exact, and without --compare");
    }
    if (o->rank == RANK_SIMULATION &&
        (o->compare || o->pareto || o->algorithm % GAL_ALGORITHM_COUNT != GAL_ALGORITHM_EXACT)) {
        return gal_fail(err, GAL_ERR_USAGE,
                        "--rank simulation goes with --algorithm exact, and without --compare and --pareto");
    }
    if (o->counts &&
        (o->json || o->compare || o->pareto || o->algorithm % GAL_ALGORITHM_COUNT != GAL_ALGORITHM_EXACT)) {
        return gal_fail(err, GAL_ERR_USAGE,
                        "--counts goes with --algorithm exact, and without --json, --compare and --pareto");
    }
    if (o->batch != NULL) {
        code = gal_parse_batches("batch", o->batch, &request->batches, err);
    }
    if (code == GAL_OK && o->microbatches != NULL) {
        code = gal_parse_microbatches("microbatches", o->microbatches, &request->microbatch_counts, err);
    }
    if (code == GAL_OK && o->space != NULL) {
        code = gal_space_parse(o->space, &request->space, err);
    }
    if (code == GAL_OK && request->space.overlap &&
        (o->algorithm % GAL_ALGORITHM_COUNT != GAL_ALGORITHM_EXACT || o->prices != GAL_SEARCH_PRICES_GALRUN)) {
        return gal_fail(err, GAL_ERR_USAGE, "--space overlap goes with --algorithm exact and --prices galrun");
    }
    if (code == GAL_OK && request->space.chunk &&
        (o->algorithm % GAL_ALGORITHM_COUNT != GAL_ALGORITHM_EXACT || o->prices != GAL_SEARCH_PRICES_GALRUN ||
         o->pareto)) {
        return gal_fail(err, GAL_ERR_USAGE,
                        "--space chunk goes with --algorithm exact and --prices galrun, without --pareto");
    }
    const char *limit = o->host_memory_bytes > 0 ? "host-memory"
                        : o->storage_bytes > 0   ? "storage-memory"
                        : o->storage_masters     ? "storage-masters"
                        : o->storage_parameters  ? "storage-parameters"
                                                 : NULL;
    if (code == GAL_OK && limit != NULL && (!request->space.offload || o->compare || o->pareto)) {
        return gal_fail(err, GAL_ERR_USAGE, "--%s goes with --space ...,offload, and without --compare and --pareto",
                        limit);
    }
    for (uint32_t i = 0; i < o->takeaways.count; i++) {
        request->space.takeaway[o->takeaways.value[i]] = true;
    }
    code = code == GAL_OK ? parse_schedule(o->schedule, request, err) : code;
    return code == GAL_OK && request->space.overlap && request->schedule == GAL_SCHEDULE_ZERO_BUBBLE
               ? gal_fail(err, GAL_ERR_USAGE, "--space overlap goes without --schedule zero-bubble")
               : code;
}

/* The pipeline degrees that are left, where a takeaway leaves some out. */
static gal_code apply_takeaways(gal_search_request *request, gal_error *err)
{
    const gal_cluster *cluster = gal_durations_cluster(request->durations);
    if (!request->space.takeaway[1] && !request->space.takeaway[2]) {
        return GAL_OK;
    }
    const uint32_t blocks = gal_model_block_count(request->model);
    request->pp_degrees = gal_space_pp_degrees(&request->space, cluster, &request->pp_degrees,
                                               blocks < GAL_STAGES_MAX ? blocks : GAL_STAGES_MAX);
    return request->pp_degrees.count > 0 ? GAL_OK
                                         : gal_fail(err, GAL_ERR_USAGE, "--takeaways: no degree of --pp is left");
}

static gal_code shrink_cluster(gal_cluster *cluster, uint32_t devices, gal_error *err)
{
    if (devices > cluster->device_count) {
        return gal_fail(err, GAL_ERR_USAGE, "--devices: must be at most the cluster's %u, got %u",
                        cluster->device_count, devices);
    }
    gal_cluster_resize(cluster, devices);
    return GAL_OK;
}

/* whole: the cluster before --devices. *profile: the caller's to free; zeroed if durations are of a cluster. */
static gal_code read_durations(const search_options *o, gal_profile *profile, gal_durations **durations,
                               gal_cluster *whole, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_cluster cluster;
    if (o->prices != GAL_SEARCH_PRICES_GALVATRON && o->profile != NULL) {
        GAL_TRY(gal_profile_read(o->profile, profile, err));
        GAL_TRY(gal_cli_threads_of(profile, o->thread_count, err));
        if (profile->gpu.tf32) {
            (void)fprintf(stderr, "galplan: note: %s was measured with --tf32: train its plans by galrun --tf32\n",
                          o->profile);
        }
        *whole = profile->cluster;
        GAL_TRY(gal_durations_create_at(profile, o->ctas.ctas, durations, err));
    } else if (o->thread_count > 0) {
        GAL_TRY(gal_fail(err, GAL_ERR_USAGE, "--threads needs the --profile whose rates it is about"));
    } else {
        GAL_TRY(gal_cluster_read(o->cluster, &cluster, err));
        *whole = cluster;
        if (o->devices != 0) {
            GAL_TRY(shrink_cluster(&cluster, o->devices, err));
        }
        GAL_TRY(gal_durations_create_analytic(&cluster, durations, err));
    }
cleanup:
    return code;
}

/* ---- risk ---- */

/* Searches at the quantile, and notes it. The request's durations are as predicted, before and after. */
static gal_code search_at_risk(const search_options *o, const gal_algorithm *algorithm, const gal_profile *profile,
                               const gal_search_request *request, const gal_solver_limits *limits,
                               gal_algorithm_answer *answer, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_durations *at = NULL;
    gal_search_request risky = *request;
    const gal_cluster *cluster = gal_durations_cluster(request->durations);
    const uint64_t limit = request->memory_bytes != 0 ? request->memory_bytes : cluster->device.memory_bytes;
    const uint64_t left = gal_risk_memory_bytes(limit, gal_durations_fixed_bytes(request->durations), o->risk);
    GAL_TRY(o->profile != NULL ? gal_durations_create_at(profile, o->ctas.ctas, &at, err)
                               : gal_durations_create_analytic(cluster, &at, err));
    gal_durations_set_quantile(at, o->risk);
    risky.durations = at;
    risky.memory_bytes = left > 0 ? left : 1;
    GAL_TRY(algorithm->search(&risky, limits, answer, err));
    GAL_TRY(gal_risk_note(request, o->risk, limit, &answer->search, err));
cleanup:
    gal_durations_free(at);
    return code;
}

static gal_code search_framework(const search_options *o, const gal_search_request *request,
                                 gal_algorithm_answer *answer, gal_error *err)
{
    char refusal[GAL_ERROR_TEXT_BYTES];
    const uint64_t own = gal_durations_cluster(request->durations)->device.memory_bytes;
    gal_code code = gal_search_by_framework(request, &o->pricing, o->risk > 0.0 ? o->risk : 0.5, answer, refusal, err);
    if (code == GAL_OK && refusal[0] != '\0') {
        (void)fprintf(stderr, "galplan: note: a layout that %s takes for faster is left out (%s)\n",
                      o->pricing.framework.name, refusal);
    }
    if (code == GAL_OK && o->risk > 0.0) {
        code = gal_risk_note(request, o->risk, request->memory_bytes != 0 ? request->memory_bytes : own,
                             &answer->search, err);
    }
    return code;
}

/* ---- reports ---- */

static gal_code report_none(const search_options *o, const gal_search_request *request, const gal_cluster *whole,
                            const gal_algorithm *algorithm, const gal_algorithm_answer *answer, double seconds,
                            gal_error *err)
{
    const bool proves = algorithm == &gal_algorithms[GAL_ALGORITHM_EXACT];
    const uint64_t own = gal_durations_cluster(request->durations)->device.memory_bytes;
    gal_no_plan none = {.request = request, .result = &answer->search, .whole = whole, .pp_degrees = o->pp_degrees};
    gal_code code = GAL_OK;
    if (proves) {
        GAL_TRY(gal_no_plan_find(&none, err));
        gal_no_plan_print(&none);
    } else {
        gal_no_plan_print_named(algorithm, &answer->search, o->memory_bytes != 0 ? o->memory_bytes : own);
    }
    if (o->json) {
        const gal_search_said said = {&o->ctas, proves ? &none : NULL, o->timing ? seconds : -1.0};
        GAL_TRY(gal_search_print_json(algorithm, answer, &said, err));
    }
    code = GAL_NO;
cleanup:
    return code;
}

static gal_code report(const search_options *o, const gal_algorithm *algorithm, const gal_algorithm_answer *answer,
                       bool ctas_priced, double seconds, gal_error *err)
{
    const gal_search_result *result = &answer->search;
    gal_code code = GAL_OK;
    bool plan_on_stdout = o->output != NULL && strcmp(o->output, "-") == 0;
    if (o->output != NULL) {
        GAL_TRY(gal_plan_write(o->output, &result->finalist[0].plan, err));
    }
    if (o->json) {
        const gal_search_said said = {&o->ctas, NULL, o->timing ? seconds : -1.0};
        GAL_TRY(gal_search_print_json(algorithm, answer, &said, err));
    } else {
        FILE *out = plan_on_stdout ? stderr : stdout;
        gal_search_print(out, algorithm, answer, o->top);
        gal_ctas_print(out, &o->ctas, ctas_priced);
        if (o->timing) {
            fprintf(out, "\nsearched %u cells", result->cell_count);
            if (result->label_count > 0) {
                fprintf(out, ", %llu labels", (unsigned long long)result->label_count);
            }
            fprintf(out, " in %.1f ms\n", seconds * 1e3);
        }
    }
cleanup:
    return code;
}

/* The fastest plan is the one written. */
static gal_code report_front(const search_options *o, const gal_pareto *pareto, double seconds, gal_error *err)
{
    const bool plan_on_stdout = o->output != NULL && strcmp(o->output, "-") == 0;
    FILE *out = plan_on_stdout ? stderr : stdout;
    gal_code code = GAL_OK;
    if (o->output != NULL) {
        GAL_TRY(gal_plan_write(o->output, &pareto->point[0].finalist.plan, err));
    }
    if (o->json) {
        GAL_TRY(gal_pareto_print_json(pareto, gal_search_put_strategies, o->timing ? seconds : -1.0, err));
    } else {
        gal_pareto_print(out, pareto, o->top);
        if (o->timing) {
            fprintf(out, "\nsearched in %.1f ms\n", seconds * 1e3);
        }
    }
cleanup:
    return code;
}

static gal_code run_front(const search_options *o, const gal_search_request *request, const gal_cluster *whole,
                          gal_searching *searching, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_pareto pareto = {0};
    gal_algorithm_answer none = {0};
    double seconds = 0.0;
    gal_searching_begin(searching);
    code = gal_pareto_find(request, o->top, o->pareto_step_bytes, &pareto, err);
    seconds = gal_searching_end(searching);
    GAL_TRY(code);
    for (uint32_t i = 0; i < pareto.point_count; i++) {
        GAL_TRY(gal_finalist_interval(request->durations, &pareto.point[i].finalist, err));
    }
    if (pareto.point_count > 0) {
        pareto.point[0].finalist.plan.communication_ctas = o->ctas.ctas;
        GAL_TRY(report_front(o, &pareto, seconds, err));
    } else {
        none.search = pareto.none; /* lent */
        GAL_TRY(report_none(o, request, whole, &gal_algorithms[GAL_ALGORITHM_EXACT], &none, seconds, err));
    }
cleanup:
    gal_pareto_free(&pareto);
    return code;
}

/* What compares plans, or lists them, goes to the end. */
static double gap_of_options(const search_options *o)
{
    const double percent = o->pareto || o->compare ? 0.0 : 0.5;
    return (o->gap_percent >= 0.0 ? o->gap_percent : percent) / 100.0;
}

/* A space that does not fit must not be cut off in silence. */
static gal_code space_rule(const gal_search_request *request, gal_error *err)
{
    const uint32_t devices = gal_durations_cluster(request->durations)->device_count;
    const uint32_t count = gal_space_strategies(&request->space, devices, NULL);
    return count <= GAL_SPACE_MAX
               ? GAL_OK
               : gal_fail(err, GAL_ERR_USAGE, "--space: %u strategies of %u devices are more than %d: leave axes out",
                          count, devices, GAL_SPACE_MAX);
}

static gal_code run(search_options *o, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_model model;
    gal_durations *durations = NULL;
    gal_algorithm_answer answer = {0};
    const gal_algorithm *algorithm = NULL;
    const gal_solver_limits limits = {.label_limit = SOLVER_LABELS, .time_limit_seconds = o->time_limit_seconds};
    gal_searching searching = {.quiet = o->quiet};
    double seconds = 0.0;
    gal_profile profile = {.hash = ""};
    gal_cluster whole;
    gal_search_request request = {.model = &model,
                                  .profile_hash = profile.hash,
                                  .memory_bytes = o->memory_bytes,
                                  .host_memory_bytes = o->host_memory_bytes,
                                  .storage_bytes = o->storage_bytes,
                                  .storage_masters = o->storage_masters,
                                  .storage_parameters = o->storage_parameters,
                                  .pp_degrees = o->pp_degrees,
                                  .prefetch_depth = o->prefetch_depth,
                                  .thread_count = o->job_count,
                                  .label_limit = o->label_limit,
                                  .gap = gap_of_options(o),
                                  .finalist_count = o->pareto ? 1 : o->top,
                                  .ranks_by_simulation = o->rank == RANK_SIMULATION,
                                  .tell = gal_searching_tell,
                                  .tell_context = &searching};
    gal_space_all(&request.space);
    GAL_TRY(usage_rules(o, &request, err));
    GAL_TRY(gal_search_prices_algorithm(o->prices, o->algorithm, &algorithm, err));
    GAL_TRY(gal_model_read(o->model, &model, err));
    GAL_TRY(read_durations(o, &profile, &durations, &whole, err));
    request.durations = durations;
    GAL_TRY(apply_takeaways(&request, err));
    GAL_TRY(space_rule(&request, err));
    if (o->compare) {
        GAL_TRY(gal_cli_search_compare(&request, &limits, o->json, o->timing, &searching, err));
        goto cleanup;
    }
    if (o->pareto) {
        GAL_TRY(run_front(o, &request, &whole, &searching, err));
        goto cleanup;
    }
    gal_searching_begin(&searching);
    if (o->prices == GAL_SEARCH_PRICES_FRAMEWORK) {
        code = search_framework(o, &request, &answer, err);
    } else if (o->risk > 0.0) {
        code = search_at_risk(o, algorithm, &profile, &request, &limits, &answer, err);
    } else if (o->prices == GAL_SEARCH_PRICES_GALVATRON) {
        code = gal_search_prices_galvatron(&request, o->profile, &answer, err);
    } else if (o->ctas.is_auto) {
        code = gal_ctas_search(&profile, algorithm, &request, &limits, &o->ctas, &durations, &answer, err);
    } else {
        code = algorithm->search(&request, &limits, &answer, err);
    }
    seconds = gal_searching_end(&searching);
    GAL_TRY(code);
    gal_ctas_mark(&o->ctas, &answer.search);
    GAL_TRY(gal_finalists_interval(durations, &answer.search, o->top > 1 ? o->top : 1, err));
    GAL_TRY(answer.search.feasible ? report(o, algorithm, &answer, profile.gpu.by_ctas_count > 0, seconds, err)
                                   : report_none(o, &request, &whole, algorithm, &answer, seconds, err));
    if (o->counts) {
        GAL_TRY(gal_search_print_counts(o->output != NULL && strcmp(o->output, "-") == 0 ? stderr : stdout, &request,
                                        &answer.search.finalist[0], err));
    }
cleanup:
    gal_algorithm_answer_free(&answer);
    gal_durations_free(durations);
    gal_profile_free(&profile);
    return code;
}

int gal_cli_search(int argc, char **argv)
{
    search_options o = {.schedule = "1f1b",
                        .prices_text = "galrun",
                        .prefetch_depth = 2,
                        .pareto_step_bytes = 1,
                        .gap_percent = -1.0,
                        .label_limit = 20000,
                        .algorithm = GAL_ALGORITHM_COUNT,
                        .time_limit_seconds = 10.0};
    gal_error err = {0};
    int exit_code = 0;
    if (!parse(argc, argv, &o, &exit_code)) {
        return exit_code;
    }
    const gal_code code = run(&o, &err);
    return gal_options_end("galplan", "search", code, &err);
}
