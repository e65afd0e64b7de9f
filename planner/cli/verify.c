/* galplan verify: everything that can be said about a plan without running it. */
#include "planner/cli/verify.h"

#include <stdio.h>
#include <stdlib.h>

#include "runtime/program/verify.h"
#include "schemas/base/options.h"

enum { CHECKS_MAX = 8 };

typedef struct outcome {
    const char *name, *proved;
    gal_code code;
    gal_error err;
} outcome;

typedef struct report {
    uint32_t count;
    outcome check[CHECKS_MAX];
} report;

static outcome *add(report *r, const char *name, const char *proved)
{
    outcome *out = &r->check[r->count++];
    *out = (outcome){name, proved, GAL_OK, {GAL_OK, ""}};
    return out;
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

static gal_code verify_plan(const char *path, gal_plan *plan, report *r, gal_error *err)
{
    add(r, "document", "well formed, and legal for its model and cluster");
    gal_code code = gal_plan_read(path, plan, err);
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
    for (uint32_t i = 0; i < r->count; i++) {
        const outcome *at = &r->check[i];
        printf("%-9s %s: %s\n", at->name, at->code == GAL_OK ? "ok" : "REFUSED",
               at->code == GAL_OK ? at->proved : at->err.text);
    }
}

static gal_code print_json(const report *r, gal_error *err)
{
    gal_json_writer *json = gal_json_writer_create();
    gal_json_begin_object(json, NULL);
    gal_json_put_bool(json, "ok", worst_of(r) == GAL_OK);
    gal_json_begin_array(json, "checks");
    for (uint32_t i = 0; i < r->count; i++) {
        gal_json_begin_object(json, NULL);
        gal_json_put_string(json, "check", r->check[i].name);
        gal_json_put_bool(json, "ok", r->check[i].code == GAL_OK);
        if (r->check[i].code != GAL_OK) {
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
    const gal_option options[] = {gal_option_flag("json", "print one JSON object", &as_json)};
    const gal_command command = {
        .program = "galplan",
        .command = "verify",
        .summary = "Lower all stages of a plan and prove their programs, one line per check.",
        .positional = "PLAN",
        .positional_min = 1,
        .positional_max = 1,
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .notes = "Exit: 0 proved; 1 refused, the line says where; 2 usage; 3 the document is wrong; 4 system.\n"};
    gal_arguments arguments;
    int exit_code = 0;
    if (!gal_options_run(&command, argc, argv, &arguments, &exit_code)) {
        return exit_code;
    }
    gal_plan plan = {0};
    gal_error err = {0};
    report r = {0};
    gal_code code = verify_plan(arguments.positional[0], &plan, &r, &err);
    if (code == GAL_OK && as_json) {
        code = print_json(&r, &err);
    } else if (code == GAL_OK) {
        print_text(&r);
    }
    gal_plan_free(&plan);
    return gal_options_end("galplan", "verify", code == GAL_OK ? worst_of(&r) : code, &err);
}
