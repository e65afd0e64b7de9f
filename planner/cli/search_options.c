#include "planner/cli/search_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/answers/training.h"
#include "planner/cli/assumed.h"
#include "planner/cli/threads_of.h"
#include "planner/search/risk.h"
#include "planner/space/ranges.h"
#include "planner/space/words.h"
#include "schemas/base/nearest.h"
#include "schemas/limits.h"

static const char *const planner_names[GAL_PLANNER_COUNT] = {"blocks", "layers"};
static const char *const rank_names[GAL_RANK_COUNT] = {"objective", "simulation"};

#define X(meaning, words) GAL_WORDS_HELP_LINE(meaning, words)
#define WORDS                                                                                                          \
    "Words of other frameworks, in --space (pp is in every space: --pp chooses its degrees):\n" GAL_SPACE_WORDS(       \
        X) "in --schedule:\n" GAL_SCHEDULE_WORDS(X)
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
    "--pareto searches again below the memory of each plan found until none fits; of one with * a faster plan\n"
    "is not ruled out.\n"
    "Where no plan fits: the least memory that would do, what fills it, and changes with which one fits, each\n"
    "searched. Devices are tried as divisors of a node, then whole nodes up to 1024 or four times the cluster's.\n"
    "--space ...,offload: of every block half or all of the optimizer, of weights and of activations may be in the\n"
    "host's memory, within a limit (--host-memory), with --storage-memory any share of moments and half or all of\n"
    "activations on storage (galrun --storage), with --storage-masters masters of 16 bits, with --storage-parameters\n"
    "half or all of weights too: chosen with the rest of each strategy; what may be lost is in the gap.\n"
    "Interleaved and zero-bubble plans are searched among uniform ones: one strategy for all blocks, even pieces.\n"
    "Exit: 0 a plan was found; 1 no plan fits; 2 usage; 3 a document is wrong; 4 system.\n";
static const char appendix[] = WORDS
    "\nExamples:\n"
    "  galplan search --model gpt2-small --cluster h100-8 --devices 2 --batch 8:32 --memory 8GiB -o plan.json\n"
    "  galplan search --model gpt2-small --cluster h100-8 --devices 4 --batch 32 --pp 1,2 --microbatches max:4 --top "
    "5\n";
#undef WORDS
#undef X

bool gal_search_options_parse(int argc, char **argv, gal_search_options *o, int *exit_code)
{
    *o = (gal_search_options){.arithmetic = GAL_MODEL_OPTIONS_NONE,
                              .schedule = "1f1b",
                              .prices_text = "galrun",
                              .prefetch_depth = 2,
                              .pareto_step_bytes = 1,
                              .gap_percent = -1.0,
                              .label_limit = 20000,
                              .algorithm = GAL_ALGORITHM_COUNT,
                              .time_limit_seconds = 10.0};
    const gal_option options[] = {
        gal_option_required(gal_option_string(
            "model", "M", "model document, Hugging Face config.json or its folder, or catalogue name", &o->model)),
        gal_option_enum("dtype", GAL_CLI_DTYPE_HELP, &o->arithmetic.dtype, gal_dtype_names, GAL_COMPUTE_DTYPE_COUNT),
        gal_option_u32("sequence", "N", GAL_CLI_SEQUENCE_HELP, &o->arithmetic.sequence_length, 1,
                       GAL_SEQUENCE_LENGTH_MAX),
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
                        &o->rank, rank_names, GAL_RANK_COUNT),
        gal_option_hidden(
            gal_option_enum("planner", "who carries out exact", &o->planner, planner_names, GAL_PLANNER_COUNT)),
        gal_option_flag("compare", "run every algorithm: plan, value, gap, time", &o->compare),
        gal_option_flag("pareto", "the front: every memory limit at which the plan changes, downwards", &o->pareto),
        gal_option_bytes("pareto-step", "SIZE", "of the front: how far apart limits are at least (1)",
                         &o->pareto_step_bytes, 1, UINT64_C(1) << 50),
        gal_option_f64("time-limit", "SECONDS",
                       "ilp: of one solve, then it takes what it has; of all changes tried where no plan fits (10)",
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
        gal_option_string("tokens", "N", "length of a training, as 300B or 1T: says how many days it takes",
                          &o->tokens_text),
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
                                 .notes = notes,
                                 .appendix = appendix};
    gal_arguments arguments;
    return gal_options_run(&command, argc, argv, &arguments, exit_code);
}

static gal_code parse_chunks(const char *digits, gal_search_request *request, gal_error *err)
{
    const size_t count = strspn(digits, "0123456789");
    const unsigned long chunks = count > 0 && count < 9 && digits[count] == '\0' ? strtoul(digits, NULL, 10) : 0;
    if (chunks < 2 || chunks > GAL_PLAN_CHUNKS_MAX) {
        return gal_fail(err, GAL_ERR_USAGE,
                        "--schedule: interleaved needs its pieces per stage, 2 to %u, as interleaved:2; got '%s'",
                        GAL_PLAN_CHUNKS_MAX, digits);
    }
    request->chunk_count = (uint32_t)chunks;
    return GAL_OK;
}

/* A name, or a word of others for it; behind the one of interleaved stand a colon and a number. */
static gal_code parse_schedule(const char *text, gal_search_request *request, gal_error *err)
{
    static const char *const names[GAL_SCHEDULE_COUNT] = {[GAL_SCHEDULE_GPIPE] = "gpipe",
                                                          [GAL_SCHEDULE_1F1B] = "1f1b",
                                                          [GAL_SCHEDULE_INTERLEAVED] = "interleaved",
                                                          [GAL_SCHEDULE_ZERO_BUBBLE] = "zero-bubble"};
    char word[GAL_WORD_BYTES], known[256];
    const char *colon = strchr(text, ':');
    const size_t length = colon == NULL ? strlen(text) : (size_t)(colon - text);
    (void)snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word), text);
    const uint32_t found = gal_words_find(GAL_VOCABULARY_SCHEDULE, word, names, GAL_SCHEDULE_COUNT);
    const bool interleaved = found == GAL_SCHEDULE_INTERLEAVED;
    if (found == GAL_SCHEDULE_COUNT || (colon != NULL && !interleaved)) {
        gal_words_suggest(GAL_VOCABULARY_SCHEDULE, word, names, GAL_SCHEDULE_COUNT, known, sizeof known);
        return gal_fail(err, GAL_ERR_USAGE, "--schedule: unknown schedule '%s'; %s (as interleaved:V)", text, known);
    }
    request->schedule = (gal_schedule)found;
    return interleaved ? parse_chunks(colon == NULL ? "" : colon + 1, request, err) : GAL_OK;
}

/* Where prices are another's. */
static gal_code prices_rules(const gal_search_options *o, gal_error *err)
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

gal_code gal_search_options_rules(gal_search_options *o, gal_search_request *request, gal_error *err)
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
    if (o->tokens_text != NULL && (o->compare || o->pareto)) {
        return gal_fail(err, GAL_ERR_USAGE, "--tokens is for one plan: it goes without --compare and --pareto");
    }
    if (o->tokens_text != NULL) {
        code = gal_training_read_tokens(o->tokens_text, &o->tokens, err);
        if (code != GAL_OK) {
            return code;
        }
    }
    if (o->compare && (o->algorithm != GAL_ALGORITHM_COUNT || o->output != NULL || o->top > 1)) {
        return gal_fail(err, GAL_ERR_USAGE, "--compare goes without --algorithm, --output and --top");
    }
    if (o->pareto && (o->compare || o->algorithm % GAL_ALGORITHM_COUNT != GAL_ALGORITHM_EXACT)) {
        return gal_fail(err, GAL_ERR_USAGE, "--pareto goes with --algorithm exact, and without --compare");
    }
    if (o->rank == GAL_RANK_SIMULATION &&
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

double gal_search_options_gap(const gal_search_options *o)
{
    const double percent = o->pareto || o->compare ? 0.0 : 0.5;
    return (o->gap_percent >= 0.0 ? o->gap_percent : percent) / 100.0;
}
