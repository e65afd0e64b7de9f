/* galplan reproduce galvatron: what Hetu-Galvatron's space, prices and rules give, solved exactly. */
#include "planner/cli/reproduce.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "costmodel/interval.h"
#include "planner/cli/reproduce_colossal.h"
#include "planner/cli/reproduce_oases.h"
#include "planner/cli/reproduce_paper.h"
#include "planner/galvatron/galvatron_search.h"
#include "planner/space/ranges.h"
#include "schemas/base/clock.h"
#include "schemas/base/json.h"
#include "schemas/limits.h"

typedef struct reproduce_options {
    const char *profile, *batch, *microbatches, *output;
    uint64_t memory_bytes;
    uint32_t devices, degree_max, schedule, data_parallel, rules;
    bool json, timing;
    gal_paper_options paper; /* memory, batch and json stand above */
} reproduce_options;

static const char notes[] =
    "PROFILE is a galvatron_profile (galplan import). The space, the prices and the bytes are those of "
    "Hetu-Galvatron;\n"
    "of a limit above 20 GiB a fifth stays free, and samples that do not divide are not priced, as it does. With\n"
    "--rules even the whole limit counts, and every replica gets equally many samples. The bound holds for all plans\n"
    "of the space. The plan is a galvatron_plan: see 'galplan simulate --prices galvatron' and 'galplan export'.\n"
    "--table answers rows of the paper's Tables II to VI: what each strategy may choose (--space, --schedule, "
    "algorithm,\n"
    "microbatches) and the rows' models, clusters and budgets are documents that ship\n"
    "(schemas/catalogue/reproductions); seconds and bytes are galrun's, by data sheets, samples per second as\n"
    "simulated, of the best of the listed batches, with their 90 % interval. A strategy may take the plan of one that "
    "it\n"
    "contains, and says so; beside the number of microbatches stands the policy. (tests/accuracy/galvatron_tables.csv\n"
    "has the same rows as the paper's frameworks would run them.) --figure 4 shows balance degrees and Eq. 7, 5 how "
    "long searches\n"
    "take here, 6 the plans A, B and C, 7 (galvatron MEASURED.csv, columns plan, profile, seconds: make accuracy-host\n"
    "writes one) how far off steps are with the profile's slowdowns and without.\n"
    "Exit: 0 a plan was found; 1 none fits; 2 usage; 3 the document is wrong; 4 system.\n"
    "'galplan reproduce colossal --help' and 'galplan reproduce oases --help' tell of two other papers' tables.\n"
    "\nExamples:\n"
    "  galplan reproduce galvatron llama.json --memory 36GiB --batch 16 -o strategy.json\n"
    "  galplan reproduce galvatron --table II --model bert-huge-32 --memory 8GiB\n";

static bool parse(int argc, char **argv, reproduce_options *o, int *exit_code)
{
    const gal_option options[] = {
        gal_option_bytes("memory", "SIZE", "limit per device (of a table: all its budgets)", &o->memory_bytes,
                         UINT64_C(1) << 20, UINT64_C(1) << 50),
        gal_option_string("batch", "LIST", "global batch in samples: 16,32 or 8:64 or 8:64:8", &o->batch),
        gal_option_string("table", "NAME", "II, III, IV, V or VI of the paper", &o->paper.table),
        gal_option_u32("figure", "N", "4, 5, 6 or 7 of the paper", &o->paper.figure, 1, 99),
        gal_option_string("cluster", "NAME", "of a table: its rows of this cluster (all)", &o->paper.cluster),
        gal_option_string("model", "LIST", "of a table: its rows of these models (all)", &o->paper.model),
        gal_option_string("strategy", "LIST", "of a table: its rows of these strategies (all)", &o->paper.strategies),
        gal_option_string("microbatches", "LIST", "microbatch counts; without it all divisors of the batch",
                          &o->microbatches),
        gal_option_u32("devices", "N", "devices (those of the profile)", &o->devices, 1, GAL_DEVICES_MAX),
        gal_option_u32("max-degree", "N", "of every split and of the pipeline (8)", &o->degree_max, 1, GAL_DEVICES_MAX),
        gal_option_enum("schedule", "of the microbatches (1f1b)", &o->schedule, gal_schedule_names,
                        GAL_SCHEDULE_1F1B + 1),
        gal_option_enum("data-parallel", "replicas without zero3 (zero2)", &o->data_parallel,
                        gal_galvatron_data_parallel_names, GAL_GALVATRON_DATA_PARALLEL_COUNT),
        gal_option_enum("rules", "what divides, and how much of the limit counts (galvatron)", &o->rules,
                        gal_galvatron_rules_names, GAL_GALVATRON_RULES_COUNT),
        gal_option_flag("json", "print one JSON object", &o->json),
        gal_option_flag("timing", "print the time of the search itself", &o->timing),
        gal_option_short('o', gal_option_string("output", "FILE", "write the plan", &o->output)),
    };
    const gal_command command = {
        .program = "galplan",
        .command = "reproduce",
        .summary = "Search as Hetu-Galvatron does, on its own profile, exactly; or rows of Galvatron-BMW's paper.",
        .positional = "galvatron [PROFILE]",
        .positional_min = 1,
        .positional_max = 2,
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .notes = notes};
    gal_arguments arguments;
    gal_error err = {0};
    if (!gal_options_run(&command, argc, argv, &arguments, exit_code)) {
        return false;
    }
    if (strcmp(arguments.positional[0], "galvatron") != 0) {
        (void)gal_fail(&err, GAL_ERR_USAGE, "there are 'galvatron', 'colossal' and 'oases' to reproduce, not '%s'",
                       arguments.positional[0]);
        *exit_code = gal_options_end("galplan", "reproduce", GAL_ERR_USAGE, &err);
        return false;
    }
    o->profile = arguments.positional_count > 1 ? arguments.positional[1] : NULL;
    return true;
}

static double mebibytes(uint64_t bytes)
{
    return (double)bytes / 1048576.0;
}

/* ---- output ---- */

/* "tp4-dp2.z3-ckpt": as its own logs say, the split first. */
static void print_strategy(FILE *out, const gal_galvatron_plan *plan, const gal_galvatron_strategy *s)
{
    const uint32_t replicas = plan->device_count / plan->pp_degree / s->degree;
    const char *join = "";
    if (s->degree > 1) {
        (void)fprintf(out, "%s%u", s->ulysses ? "ulysses" : "tp", s->degree);
        join = "-";
    }
    if (replicas > 1) {
        (void)fprintf(out, "%sdp%u%s", join, replicas,
                      s->zero3                                     ? ".zero3"
                      : plan->data_parallel == GAL_GALVATRON_ZERO2 ? ".zero2"
                                                                   : "");
    }
    (void)fprintf(out, "%s%s", s->degree == 1 && replicas == 1 ? "serial" : "", s->recompute ? "-ckpt" : "");
}

/* The runs of a stage, which may begin inside one. */
static void print_stage(FILE *out, const gal_galvatron_found *found, uint32_t stage, uint32_t first)
{
    const gal_galvatron_plan *plan = &found->plan;
    const uint32_t end = first + plan->stage_layer_count[stage];
    (void)fprintf(out, "  %5u  %6u  %9.0f MiB  ", stage, plan->stage_layer_count[stage],
                  mebibytes(found->stage_bytes[stage]));
    for (uint32_t l = first; l < end;) {
        const gal_galvatron_strategy *here = gal_galvatron_plan_strategy(plan, l);
        uint32_t count = 0;
        while (l + count < end && gal_galvatron_strategy_equal(gal_galvatron_plan_strategy(plan, l + count), here)) {
            count++;
        }
        (void)fprintf(out, "%s%u x ", l == first ? "" : ", ", count);
        print_strategy(out, plan, here);
        l += count;
    }
    (void)fputc('\n', out);
}

static void print_text(FILE *out, const reproduce_options *o, const gal_galvatron_found *found)
{
    const gal_galvatron_plan *plan = &found->plan;
    uint32_t first = 0;
    (void)fprintf(out, "fastest plan: %.9g samples/s by galvatron's prices\n", found->samples_per_second);
    (void)fprintf(out, "  batch %u in %u microbatches, pp_degree %u, %s\n", plan->global_batch_samples,
                  plan->microbatch_count, plan->pp_degree, gal_schedule_names[plan->schedule]);
    (void)fprintf(out, "  %.9g s a step; no plan gives more than %.9g samples/s (gap %.4f %%)\n",
                  found->iteration_seconds, found->samples_per_second_bound,
                  100.0 * (found->samples_per_second_bound / found->samples_per_second - 1.0));
    (void)fprintf(out, "  90 %%: %.6g to %.6g s, if its profile strays as measurements here do\n",
                  found->iteration_seconds * exp(-GAL_INTERVAL_MEASURED),
                  found->iteration_seconds * exp(GAL_INTERVAL_MEASURED));
    (void)fprintf(out, "  limit %.0f MiB, of which %.0f MiB count\n", mebibytes(o->memory_bytes),
                  mebibytes(found->used_limit_bytes));
    (void)fprintf(out, "  embedding and head: ");
    print_strategy(out, plan, &plan->outside);
    (void)fprintf(out, "\n\n  stage  layers          bytes  strategies\n");
    for (uint32_t i = 0; i < plan->pp_degree; i++) {
        print_stage(out, found, i, first);
        first += plan->stage_layer_count[i];
    }
}

static gal_code print_json(const gal_galvatron_found *found, bool timing, double seconds, gal_error *err)
{
    gal_json_writer *out = gal_json_writer_create();
    gal_json_begin_object(out, NULL);
    gal_json_put_bool(out, "feasible", found->feasible);
    if (found->feasible) {
        gal_json_put_f64(out, "samples_per_second", found->samples_per_second);
        gal_json_put_f64(out, "iteration_seconds", found->iteration_seconds);
        gal_json_put_f64(out, "low_seconds", found->iteration_seconds * exp(-GAL_INTERVAL_MEASURED));
        gal_json_put_f64(out, "high_seconds", found->iteration_seconds * exp(GAL_INTERVAL_MEASURED));
        gal_json_put_f64(out, "samples_per_second_bound", found->samples_per_second_bound);
        gal_json_put_u64(out, "global_batch_samples", found->plan.global_batch_samples);
        gal_json_put_u64(out, "microbatch_count", found->plan.microbatch_count);
        gal_json_put_u64(out, "pp_degree", found->plan.pp_degree);
        gal_json_begin_array(out, "stage_bytes");
        for (uint32_t i = 0; i < found->plan.pp_degree; i++) {
            gal_json_put_u64(out, NULL, found->stage_bytes[i]);
        }
        gal_json_end_array(out);
    }
    gal_json_put_u64(out, "used_limit_bytes", found->used_limit_bytes);
    gal_json_put_u64(out, "least_limit_bytes", found->least_limit_bytes);
    gal_json_put_u64(out, "cell_count", found->cell_count);
    gal_json_put_u64(out, "solved_count", found->solved_count);
    if (timing) {
        gal_json_put_f64(out, "search_seconds", seconds);
    }
    gal_json_end_object(out);
    const gal_code code = gal_json_writer_save(out, "-", err);
    gal_json_writer_free(out);
    return code;
}

static void explain_refusal(const reproduce_options *o, const gal_galvatron_found *found)
{
    if (found->least_limit_bytes == 0) {
        (void)fprintf(stderr, "galplan: no plan: no strategy has a price for these batches and microbatches\n");
    } else {
        (void)fprintf(stderr, "galplan: no plan fits: of %.0f MiB %.0f MiB count, and the least limit is %.0f MiB\n",
                      mebibytes(o->memory_bytes), mebibytes(found->used_limit_bytes),
                      mebibytes(found->least_limit_bytes));
    }
}

static gal_code report(const reproduce_options *o, const gal_galvatron_found *found, double seconds, gal_error *err)
{
    const bool plan_on_stdout = o->output != NULL && strcmp(o->output, "-") == 0;
    gal_code code = GAL_OK;
    if (found->left_out[0] != '\0') {
        (void)fprintf(stderr, "galplan: note: strategies without a price are left out (%s)\n", found->left_out);
    }
    if (!found->feasible) {
        explain_refusal(o, found);
    }
    if (found->feasible && o->output != NULL) {
        GAL_TRY(gal_galvatron_plan_write(o->output, &found->plan, err));
    }
    if (o->json) {
        GAL_TRY(print_json(found, o->timing, seconds, err));
    } else if (found->feasible) {
        FILE *out = plan_on_stdout ? stderr : stdout;
        print_text(out, o, found);
        if (o->timing) {
            (void)fprintf(out, "\nsearched %u cells, solved %u in %.1f ms\n", found->cell_count, found->solved_count,
                          seconds * 1e3);
        }
    }
    code = found->feasible ? GAL_OK : GAL_NO;
cleanup:
    return code;
}

/* ---- the command ---- */

static gal_code check_usage(const reproduce_options *o, gal_error *err)
{
    const gal_paper_options *p = &o->paper;
    const bool rows = p->cluster != NULL || p->model != NULL || p->strategies != NULL;
    const bool paper = p->table != NULL || p->figure != 0;
    if (!paper && o->profile == NULL) {
        return gal_fail(err, GAL_ERR_USAGE, "give a PROFILE, --table or --figure");
    }
    if (!paper && (o->memory_bytes == 0 || o->batch == NULL)) {
        return gal_fail(err, GAL_ERR_USAGE, "a PROFILE needs --memory and --batch");
    }
    if (p->figure == 7 && o->profile == NULL) {
        return gal_fail(err, GAL_ERR_USAGE, "--figure 7 needs a CSV file with columns plan, profile and seconds");
    }
    if (paper && ((o->profile != NULL && p->figure != 7) || (p->table != NULL && p->figure != 0))) {
        return gal_fail(err, GAL_ERR_USAGE, "give one of PROFILE, --table and --figure");
    }
    if (rows && p->table == NULL) {
        return gal_fail(err, GAL_ERR_USAGE, "--cluster, --model and --strategy go with --table");
    }
    return GAL_OK;
}

static gal_code run_paper(const reproduce_options *o, gal_error *err)
{
    gal_paper_options paper = o->paper;
    paper.memory_bytes = o->memory_bytes;
    paper.batch = o->batch;
    paper.json = o->json;
    paper.measured = o->profile;
    return paper.table != NULL ? gal_cli_reproduce_table(&paper, err) : gal_cli_reproduce_figure(&paper, err);
}

static gal_code run(const reproduce_options *o, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_galvatron_profile profile = {0};
    gal_galvatron_tables *tables = NULL;
    gal_galvatron_found found = {0};
    gal_galvatron_request request = {.limit_bytes = o->memory_bytes,
                                     .degree_max = o->degree_max,
                                     .schedule = (gal_schedule)o->schedule,
                                     .data_parallel = (gal_galvatron_data_parallel)o->data_parallel,
                                     .rules = (gal_galvatron_rules)o->rules};
    if (o->json && o->output != NULL && strcmp(o->output, "-") == 0) {
        GAL_TRY(gal_fail(err, GAL_ERR_USAGE, "--json and --output - both write to stdout"));
    }
    GAL_TRY(gal_parse_batches("batch", o->batch, &request.batches, err));
    if (o->microbatches != NULL) {
        GAL_TRY(gal_parse_microbatches("microbatches", o->microbatches, &request.microbatch_counts, err));
    }
    GAL_TRY(gal_galvatron_profile_read(o->profile, &profile, err));
    GAL_TRY(gal_galvatron_tables_create(&profile, &tables, err));
    request.tables = tables;
    request.device_count = o->devices != 0 ? o->devices : profile.device_count;
    const double begin = gal_now_seconds();
    GAL_TRY(gal_galvatron_search_plans(&request, &found, err));
    GAL_TRY(report(o, &found, gal_now_seconds() - begin, err));
cleanup:
    gal_galvatron_found_free(&found);
    gal_galvatron_tables_free(tables);
    gal_galvatron_profile_free(&profile);
    return code;
}

/* Those that have options of their own. */
static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} others[] = {{"colossal", gal_cli_reproduce_colossal}, {"oases", gal_cli_reproduce_oases}};

int gal_cli_reproduce(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof others / sizeof others[0]; i++) {
        if (strcmp(argv[1], others[i].name) == 0) {
            return others[i].run(argc - 1, argv + 1);
        }
    }
    reproduce_options o = {.degree_max = 8,
                           .schedule = GAL_SCHEDULE_1F1B,
                           .data_parallel = GAL_GALVATRON_ZERO2,
                           .rules = GAL_GALVATRON_RULES_THEIRS};
    gal_error err = {0};
    int exit_code = 0;
    if (!parse(argc, argv, &o, &exit_code)) {
        return exit_code;
    }
    gal_code code = check_usage(&o, &err);
    if (code == GAL_OK) {
        code = o.profile == NULL || o.paper.figure != 0 ? run_paper(&o, &err) : run(&o, &err);
    }
    return gal_options_end("galplan", "reproduce", code, &err);
}
