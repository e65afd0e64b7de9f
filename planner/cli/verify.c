/* galplan verify: everything that can be said about a plan without running it. */
#include "planner/cli/verify.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "costmodel/simulate.h"
#include "planner/certificate/claims.h"
#include "planner/cli/search_print.h"
#include "planner/cli/step_said.h"
#include "planner/cli/threads_of.h"
#include "planner/published/framework_search.h"
#include "planner/search/risk.h"
#include "runtime/program/verify/verify.h"
#include "schemas/base/options.h"

enum { CHECKS_MAX = 8 };

typedef struct outcome {
    const char *name;
    char proved[GAL_ERROR_TEXT_BYTES]; /* or why there was nothing to prove */
    bool skipped;
    gal_code code;
    gal_error err;
} outcome;

typedef struct report {
    uint32_t count;
    outcome check[CHECKS_MAX];
    gal_step_said step; /* once prices are proved; seconds 0: they are not */
    gal_prediction interval;
} report;

typedef struct inputs {
    const char *plan, *profile;
    uint32_t threads;
    bool no_bound;
} inputs;

static outcome *add(report *r, const char *name, const char *proved)
{
    outcome *out = &r->check[r->count++];
    *out = (outcome){.name = name};
    (void)snprintf(out->proved, sizeof out->proved, "%s", proved);
    return out;
}

__attribute__((format(printf, 2, 3))) static void skip(outcome *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(out->proved, sizeof out->proved, format, arguments);
    va_end(arguments);
    out->skipped = true;
}

/* What the plan says each stage needs, where it says so, is what the programs take. */
static gal_code check_bytes(const gal_plan *plan, gal_program *const *programs, gal_error *err)
{
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        uint64_t needed = programs[s]->arena_bytes + plan->fixed_bytes;
        uint64_t predicted = plan->stage[s].predicted_bytes;
        if (predicted != 0 && predicted != needed) {
            return gal_fail(err, GAL_NO, "stage %u: the plan predicts %llu bytes per device, its program takes %llu", s,
                            (unsigned long long)predicted, (unsigned long long)needed);
        }
        const uint64_t on_host = plan->stage[s].predicted_host_bytes;
        if (on_host != 0 && on_host != programs[s]->host_bytes) {
            return gal_fail(err, GAL_NO,
                            "stage %u: the plan predicts %llu bytes in the host's memory, its program takes %llu", s,
                            (unsigned long long)on_host, (unsigned long long)programs[s]->host_bytes);
        }
        const uint64_t stored = plan->stage[s].predicted_storage_bytes;
        if (stored != 0 && stored != programs[s]->storage_bytes) {
            return gal_fail(err, GAL_NO, "stage %u: the plan predicts %llu bytes on storage, its program takes %llu", s,
                            (unsigned long long)stored, (unsigned long long)programs[s]->storage_bytes);
        }
    }
    return GAL_OK;
}

static void check_programs(const gal_plan *plan, gal_program *const *programs, report *r)
{
    static const struct {
        const char *name, *proved;
        gal_code (*check)(gal_program *const *, uint32_t, gal_error *);
    } checks[] = {
        {"schedule", "every microbatch forward, then backward, once and in order; the update last",
         gal_verify_schedule},
        {"types", "every sum taken once over the right devices; rows and features where they are read",
         gal_verify_types},
        {"queues", "no deadlock, partners agree, however streams may share queues", gal_verify_queues},
        {"clocks", "no race, no reuse of live bytes, nothing read before it is written", gal_verify_clocks},
    };
    bool well_formed = true; /* the later checks rely on the schedule's form */
    for (size_t i = 0; i < sizeof checks / sizeof checks[0] && well_formed; i++) {
        outcome *out = add(r, checks[i].name, checks[i].proved);
        out->code = checks[i].check(programs, plan->stage_count, &out->err);
        well_formed = i > 0 || out->code == GAL_OK;
    }
    outcome *out = add(r, "bytes", "the programs take the bytes that the plan predicts, where it predicts them");
    out->code = check_bytes(plan, programs, &out->err);
}

/* ---- what the certificate claims ---- */

/* As documents. */
static gal_code same_cluster(const gal_cluster *a, const gal_cluster *b, bool *same, gal_error *err)
{
    const gal_cluster *cluster[2] = {a, b};
    gal_json_writer *out[2] = {gal_json_writer_create(), gal_json_writer_create()};
    const char *text[2] = {"", ""};
    size_t bytes = 0;
    gal_code code = GAL_OK;
    for (uint32_t i = 0; i < 2 && code == GAL_OK; i++) {
        gal_json_begin_object(out[i], NULL);
        gal_cluster_write_at(out[i], cluster[i]);
        gal_json_end_object(out[i]);
        code = gal_json_writer_text(out[i], &text[i], &bytes, err);
    }
    *same = code == GAL_OK && strcmp(text[0], text[1]) == 0;
    gal_json_writer_free(out[0]);
    gal_json_writer_free(out[1]);
    return code;
}

/* Of the profile that the plan was made by; without one of the plan's cluster. GAL_NO if it is another. */
/* tf32: whether the profile was measured so. */
static gal_code create_durations(const inputs *in, const gal_plan *plan, gal_durations **out, bool *tf32,
                                 gal_error *err)
{
    gal_code code = GAL_OK;
    gal_profile profile = {0};
    bool same = false;
    if (in->profile == NULL) {
        return gal_durations_create_analytic(&plan->cluster, out, err);
    }
    GAL_TRY(gal_profile_read(in->profile, &profile, err));
    GAL_TRY(gal_cli_threads_of(&profile, in->threads, err));
    GAL_TRY(same_cluster(&plan->cluster, &profile.cluster, &same, err));
    if (strcmp(profile.hash, plan->profile_hash) != 0 || !same) {
        GAL_TRY(gal_fail(err, GAL_NO, "profile: the plan was made by %s%s, %s is %s%s",
                         plan->profile_hash[0] == '\0' ? "none" : "the one of hash ", plan->profile_hash, in->profile,
                         profile.hash, strcmp(profile.hash, plan->profile_hash) == 0 ? " of another cluster" : ""));
    }
    GAL_TRY(gal_durations_create_at(&profile, plan->communication_ctas, out, err));
    *tf32 = profile.gpu.tf32;
cleanup:
    gal_profile_free(&profile);
    return code;
}

static gal_code check_simulation(const gal_plan *plan, gal_program *const *programs, const gal_durations *durations,
                                 double claimed, gal_error *err)
{
    gal_simulation simulation = {0};
    gal_code code = gal_simulate(programs, plan->stage_count, durations, false, &simulation, err);
    const double seconds = simulation.iteration_seconds;
    if (code == GAL_OK && !(fabs(seconds - claimed) <= 1e-9 * seconds)) {
        code = gal_fail(err, GAL_NO, "simulated: the plan claims %.9g s, its programs take %.9g s", claimed, seconds);
    }
    gal_simulation_free(&simulation);
    return code;
}

/* in: of the same programs and durations. */
static gal_code check_interval(const gal_plan *plan, const gal_prediction *in, gal_error *err)
{
    const double low = plan->simulated_low_seconds, high = plan->simulated_high_seconds;
    const bool claimed = high > 0.0;
    return !claimed || (fabs(low - in->low_seconds) <= 1e-9 * in->low_seconds &&
                        fabs(high - in->high_seconds) <= 1e-9 * in->high_seconds)
               ? GAL_OK
               : gal_fail(err, GAL_NO, "interval: the plan claims %.9g to %.9g s, its programs take %.9g to %.9g s",
                          low, high, in->low_seconds, in->high_seconds);
}

/* Durations are at the quantile from here on. */
static gal_code check_risk(const gal_plan *plan, gal_program *const *programs, gal_durations *durations, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_TRY(check_simulation(plan, programs, durations, plan->simulated_seconds, err));
    GAL_TRY(gal_risk_check(plan, err));
    gal_durations_set_quantile(durations, plan->risk.quantile);
cleanup:
    return code;
}

/* The figures of a plan whose prices are proved: by its framework, or as simulated. */
static void say_step(const gal_plan *plan, bool measured, bool tf32, const gal_prediction *in, report *r)
{
    const gal_pricing *pricing = &plan->pricing;
    uint64_t most = 0;
    for (uint32_t p = 0; p < gal_plan_piece_count(plan); p++) {
        most = plan->stage[p].predicted_bytes > most ? plan->stage[p].predicted_bytes : most;
    }
    r->interval = *in;
    r->step = (gal_step_said){
        .plan = plan, .seconds = plan->simulated_seconds, .bytes = most, .tf32 = tf32, .measured = measured};
    if (pricing->present) {
        r->step.seconds = plan->objective_seconds;
        r->step.bytes = pricing->bytes;
        r->step.tf32 = pricing->framework.tf32;
        r->step.measured = pricing->constants.row_count > 0;
    }
}

/* By the plan's own framework; what galrun would take by the durations. */
static void check_pricing(const gal_plan *plan, gal_program *const *programs, const gal_durations *durations, report *r)
{
    outcome *prices = add(r, "prices", "");
    gal_prediction in, own; /* the framework's; galrun's */
    (void)snprintf(prices->proved, sizeof prices->proved, "seconds and bytes are those of %s; it fits",
                   plan->pricing.framework.name);
    gal_pricing_interval(plan, &in);
    prices->code = gal_programs_interval(programs, plan->stage_count, durations, plan->simulated_seconds,
                                         plan->fixed_bytes, &own, &prices->err);
    prices->code = prices->code == GAL_OK ? gal_framework_check_plan(plan, &prices->err) : prices->code;
    prices->code = prices->code == GAL_OK
                       ? check_simulation(plan, programs, durations, plan->simulated_seconds, &prices->err)
                       : prices->code;
    prices->code = prices->code == GAL_OK ? check_interval(plan, &own, &prices->err) : prices->code;
    prices->code = prices->code == GAL_OK && plan->risk.present ? gal_risk_check(plan, &prices->err) : prices->code;
    if (prices->code == GAL_OK && plan->risk.present &&
        !(fabs(plan->risk.quantile_seconds - plan->objective_seconds) <= 1e-9 * plan->objective_seconds)) {
        prices->code = gal_fail(&prices->err, GAL_NO, "risk: the plan claims %.9g s at its quantile, and %.9g s",
                                plan->risk.quantile_seconds, plan->objective_seconds);
    }
    if (prices->code == GAL_OK) {
        outcome *bound = add(r, "bound", "");
        say_step(plan, false, false, &in, r);
        (void)snprintf(bound->proved, sizeof bound->proved,
                       "no layout of the space that galrun has is faster than %.9g s, by %s", plan->lower_bound_seconds,
                       plan->pricing.framework.name);
        bound->code = gal_framework_check_bound(plan, &bound->err);
    }
}

static void check_claims(const gal_plan *plan, gal_program *const *programs, gal_durations *durations, bool tf32,
                         report *r)
{
    gal_price_cache *cache = NULL;
    outcome *prices = add(r, "prices", "objective, simulated seconds and bytes are those of the plan; it fits");
    double simulated = plan->simulated_seconds;
    gal_prediction in;
    prices->code =
        gal_programs_interval(programs, plan->stage_count, durations, simulated, plan->fixed_bytes, &in, &prices->err);
    if (prices->code == GAL_OK && plan->risk.present) {
        prices->code = check_risk(plan, programs, durations, &prices->err);
        simulated = plan->risk.quantile_seconds;
    }
    prices->code =
        prices->code != GAL_OK ? prices->code : gal_price_cache_create(&plan->model, durations, &cache, &prices->err);
    prices->code = prices->code == GAL_OK ? gal_claims_check_plan(cache, durations, plan, &prices->err) : prices->code;
    prices->code =
        prices->code == GAL_OK ? check_simulation(plan, programs, durations, simulated, &prices->err) : prices->code;
    prices->code = prices->code == GAL_OK ? check_interval(plan, &in, &prices->err) : prices->code;
    if (prices->code == GAL_OK) {
        outcome *bound = add(r, "bound", "");
        const double searched = plan->certificate.searched_bound_seconds;
        say_step(plan, gal_durations_have_measurements(durations), tf32, &in, r);
        (void)snprintf(bound->proved, sizeof bound->proved, "no plan of the space is faster than %.9g s (gap %.3f %%)",
                       plan->lower_bound_seconds, 100.0 * (plan->objective_seconds / plan->lower_bound_seconds - 1.0));
        bound->code = gal_claims_check_bound(cache, durations, plan, &bound->err);
        if (bound->code == GAL_OK && plan->lower_bound_seconds == 0.0) {
            skip(bound, "none claimed; the search closed %.9g s%s, not re-derived", searched,
                 plan->schedule == GAL_SCHEDULE_INTERLEAVED || plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE
                     ? " among uniform plans"
                     : "");
        } else if (bound->code == GAL_OK && searched > 0.0) {
            const size_t used = strlen(bound->proved);
            (void)snprintf(bound->proved + used, sizeof bound->proved - used,
                           "; the search closed %.9g s, not re-derived", searched);
        }
    }
    gal_price_cache_free(cache);
}

static void check_certificate(const inputs *in, const gal_plan *plan, gal_program *const *programs, report *r)
{
    gal_durations *durations = NULL;
    gal_error err = {0};
    gal_code code = GAL_OK;
    if (!plan->certificate.present) {
        skip(add(r, "bound", ""), "the plan has no certificate");
    } else if (plan->profile_hash[0] != '\0' && in->profile == NULL) {
        skip(add(r, "bound", ""), "needs --profile, the one of hash %s", plan->profile_hash);
    } else {
        bool tf32 = false;
        code = create_durations(in, plan, &durations, &tf32, &err);
        if (code == GAL_OK && plan->pricing.present) {
            check_pricing(plan, programs, durations, r);
        } else if (code == GAL_OK) {
            check_claims(plan, programs, durations, tf32, r);
        } else {
            outcome *out = add(r, "prices", "");
            out->code = code;
            out->err = err;
        }
    }
    gal_durations_free(durations);
}

static gal_code verify_plan(const inputs *in, gal_plan *plan, report *r, gal_error *err)
{
    add(r, "document", "well formed, and legal for its model and cluster");
    gal_code code = gal_plan_read(in->plan, plan, err);
    if (code != GAL_OK) {
        return code;
    }
    gal_program **programs = calloc(plan->stage_count, sizeof *programs);
    if (programs == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory for %u stages", plan->stage_count);
    }
    code = gal_lower_plan(plan, programs, err);
    if (code == GAL_OK) {
        check_programs(plan, programs, r);
    }
    if (code == GAL_OK && !in->no_bound) {
        check_certificate(in, plan, programs, r);
    }
    for (uint32_t s = 0; code == GAL_OK && s < plan->stage_count; s++) {
        gal_program_free(programs[s]);
    }
    free(programs);
    return code;
}

static gal_code worst_of(const report *r)
{
    gal_code worst = GAL_OK;
    for (uint32_t i = 0; i < r->count; i++) {
        worst = r->check[i].code > worst ? r->check[i].code : worst;
    }
    return worst;
}

static void print_text(const report *r)
{
    if (r->step.seconds > 0.0) {
        printf("plan: ");
        gal_step_print(stdout, &r->step);
        gal_step_print_interval(stdout, &r->step, &r->interval);
    }
    for (uint32_t i = 0; i < r->count; i++) {
        const outcome *at = &r->check[i];
        printf("%-9s %s: %s\n", at->name,
               at->skipped          ? "none"
               : at->code == GAL_OK ? "ok"
                                    : "REFUSED",
               at->code == GAL_OK ? at->proved : at->err.text);
    }
}

static gal_code print_json(const report *r, gal_error *err)
{
    gal_json_writer *json = gal_json_writer_create();
    gal_json_begin_object(json, NULL);
    gal_json_put_bool(json, "ok", worst_of(r) == GAL_OK);
    if (r->step.seconds > 0.0) {
        gal_json_put_f64(json, "step_seconds", r->step.seconds);
        gal_json_put_u64(json, "peak_bytes", r->step.bytes);
        gal_search_put_interval(json, &r->interval);
        gal_step_put(json, &r->step);
    }
    gal_json_begin_array(json, "checks");
    for (uint32_t i = 0; i < r->count; i++) {
        gal_json_begin_object(json, NULL);
        gal_json_put_string(json, "check", r->check[i].name);
        gal_json_put_bool(json, "ok", r->check[i].code == GAL_OK);
        if (r->check[i].skipped) {
            gal_json_put_string(json, "skipped", r->check[i].proved);
        } else if (r->check[i].code == GAL_OK) {
            gal_json_put_string(json, "proved", r->check[i].proved);
        } else {
            gal_json_put_string(json, "error", r->check[i].err.text);
        }
        gal_json_end_object(json);
    }
    gal_json_end_array(json);
    gal_json_end_object(json);
    gal_code code = gal_json_writer_save(json, "-", err);
    gal_json_writer_free(json);
    return code;
}

int gal_cli_verify(int argc, char **argv)
{
    bool as_json = false;
    inputs in = {0};
    const gal_option options[] = {
        gal_option_string("profile", "P", "the profile that the plan was made by, for its prices and its bound",
                          &in.profile),
        gal_option_u32("threads", "N", GAL_CLI_THREADS_HELP, &in.threads, 1, GAL_PROFILE_THREADS_MAX),
        gal_option_flag("no-bound", "leave out prices and bound", &in.no_bound),
        gal_option_flag("json", "print one JSON object", &as_json)};
    const gal_command command = {
        .program = "galplan",
        .command = "verify",
        .summary = "Prove a plan's programs, its prices, and that no plan of its space is faster, one line per check.",
        .positional = "PLAN",
        .positional_min = 1,
        .positional_max = 1,
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .notes =
            "The bound is proved again for every microbatch count and pipeline degree that the plan's certificate "
            "names: by\nwhat kernels alone take, or else by prices. A plan without one, or made by a profile that is "
            "not given, is not\nrefused for it.\nExit: 0 proved; 1 refused, the line says where; 2 usage; 3 the "
            "document is wrong; 4 system.\n"};
    gal_arguments arguments;
    int exit_code = 0;
    if (!gal_options_run(&command, argc, argv, &arguments, &exit_code)) {
        return exit_code;
    }
    gal_plan plan = {0};
    gal_error err = {0};
    report r = {0};
    in.plan = arguments.positional[0];
    gal_code code = in.threads > 0 && in.profile == NULL
                        ? gal_fail(&err, GAL_ERR_USAGE, "--threads needs the --profile whose rates it is about")
                        : verify_plan(&in, &plan, &r, &err);
    if (code == GAL_OK && as_json) {
        code = print_json(&r, &err);
    } else if (code == GAL_OK) {
        print_text(&r);
    }
    gal_plan_free(&plan);
    return gal_options_end("galplan", "verify", code == GAL_OK ? worst_of(&r) : code, &err);
}
