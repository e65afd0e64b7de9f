/* galplan solve: a search problem in plain tables. */
#include "planner/cli/solve.h"

#include <stdio.h>

#include "planner/solve/solver.h"
#include "schemas/base/clock.h"
#include "schemas/base/options.h"
#include "schemas/document.h"

typedef struct solve_options {
    const char *path;
    uint32_t algorithm; /* GAL_SOLVER_COUNT: not given, the first */
    gal_solver_limits limits;
    bool compare, json, timing;
} solve_options;

/* One algorithm's answer. */
typedef struct run {
    const gal_solver *solver;
    gal_solution solution;
    double seconds;
} run;

typedef struct report {
    const solve_options *o;
    const gal_problem *problem;
    const gal_instance *instance;
    run runs[GAL_SOLVER_COUNT];
    uint32_t run_count;
    int64_t bound_ps;     /* the best that any run proved */
    gal_assignment least; /* where nothing fits: what needs least */
    int64_t least_bytes;
    bool least_is_exact;
} report;

static const char notes[] =
    "FILE is a problem document (\"-\" is stdin): seconds and bytes of each layer under each strategy, seconds "
    "between\n"
    "strategies, budget, stages, microbatches. A gap is against the best bound that was proven. What the tables mean:\n"
    "schemas/problem.schema.json.\n"
    "Exit: 0 an assignment was found; 1 none; 2 usage; 3 the document is wrong; 4 system.\n";

static bool parse(int argc, char **argv, solve_options *o, int *exit_code)
{
    const gal_option options[] = {
        gal_option_enum("algorithm", "who solves it (exact)", &o->algorithm, gal_solver_names, GAL_SOLVER_COUNT),
        gal_option_flag("compare", "run every algorithm: value, gap", &o->compare),
        gal_option_u64("label-limit", "N", "exact: labels kept in one round of a stage (4000000)",
                       &o->limits.label_limit, 1, UINT64_C(100000000)),
        gal_option_bytes("memory-unit", "SIZE", "galvatron-*: step of the memory table (the budget / 1024)",
                         &o->limits.memory_unit_bytes, 1, UINT64_C(1) << 50),
        gal_option_f64("time-limit", "SECONDS", "ilp: after which it says what it has and has proven (60)",
                       &o->limits.time_limit_seconds, 0.001, 1e6),
        gal_option_flag("json", "print one JSON object", &o->json),
        gal_option_flag("timing", "print the time of each algorithm", &o->timing),
    };
    const gal_command command = {.program = "galplan",
                                 .command = "solve",
                                 .summary = "Solve a search problem that is given in plain tables.",
                                 .positional = "FILE",
                                 .positional_min = 1,
                                 .positional_max = 1,
                                 .options = options,
                                 .option_count = sizeof options / sizeof options[0],
                                 .notes = notes};
    gal_arguments arguments;
    if (!gal_options_run(&command, argc, argv, &arguments, exit_code)) {
        return false;
    }
    o->path = arguments.positional[0];
    return true;
}

static double seconds_of(int64_t picoseconds)
{
    return (double)picoseconds / 1e12;
}

static double gap_of(const report *r, const run *done)
{
    const double bound = (double)r->bound_ps;
    return bound > 0.0 ? (double)(done->solution.best.value_ps - r->bound_ps) / bound : 0.0;
}

/* ---- text ---- */

static void print_runs_of(const report *r, const gal_assignment *a, uint32_t first, uint32_t end)
{
    for (uint32_t l = first; l < end;) {
        uint32_t next = l;
        while (next < end && a->strategy[next] == a->strategy[l]) {
            next++;
        }
        (void)printf("%s%u..%u %s", l == first ? "" : ", ", l, next - 1, r->problem->strategy[a->strategy[l]].name);
        l = next;
    }
    (void)printf("\n");
}

static void print_assignment(const report *r, const run *done)
{
    const gal_instance *g = r->instance;
    const gal_assignment *a = &done->solution.best;
    if (g->stage_count > 1) {
        double of_seconds;
        double of_bytes;
        gal_balance_degrees(g, a, &of_seconds, &of_bytes);
        (void)printf("  balance degrees (1 - max / sum): seconds %.4f, bytes %.4f, at best %.4f\n", of_seconds,
                     of_bytes, 1.0 - 1.0 / g->stage_count);
    }
    (void)printf("  stage  layers     seconds       bytes         strategies\n");
    for (uint32_t i = 0; i < g->stage_count; i++) {
        const gal_stage_cost cost =
            gal_instance_stage_cost(g, i, a->stage_first[i], a->stage_first[i + 1], a->strategy);
        (void)printf("  %5u  %3u..%-4u  %-12.9g  %-12lld  ", i, a->stage_first[i], a->stage_first[i + 1] - 1,
                     seconds_of(cost.seconds_ps), (long long)cost.peak_bytes);
        print_runs_of(r, a, a->stage_first[i], a->stage_first[i + 1]);
    }
}

static void print_run(const report *r, const run *done)
{
    const gal_solution *s = &done->solution;
    if (s->best.value_ps == GAL_NEVER) {
        (void)printf("%-15s  nothing found", done->solver->name);
    } else {
        (void)printf("%-15s  %.9g s, gap %.4f %%", done->solver->name, seconds_of(s->best.value_ps),
                     100.0 * gap_of(r, done));
    }
    if (r->o->timing) {
        (void)printf(", found in %.3f ms", done->seconds * 1e3);
    }
    (void)printf("\n");
}

static void print_text(const report *r)
{
    for (uint32_t i = 0; i < r->run_count; i++) {
        print_run(r, &r->runs[i]);
        if (r->runs[i].solution.best.value_ps != GAL_NEVER && !r->o->compare) {
            print_assignment(r, &r->runs[i]);
        }
    }
    if (r->bound_ps != GAL_NEVER) {
        (void)printf("proven: no assignment takes less than %.9g s\n", seconds_of(r->bound_ps));
    }
}

/* Which stage needs most where all is as small as it gets. */
static uint32_t binding_stage(const report *r, gal_stage_cost *cost)
{
    uint32_t binding = 0;
    const gal_assignment *a = &r->least;
    *cost = (gal_stage_cost){0};
    for (uint32_t i = 0; i < r->instance->stage_count; i++) {
        const gal_stage_cost here =
            gal_instance_stage_cost(r->instance, i, a->stage_first[i], a->stage_first[i + 1], a->strategy);
        if (here.peak_bytes > cost->peak_bytes) {
            *cost = here;
            binding = i;
        }
    }
    return binding;
}

static void explain_refusal(const report *r)
{
    gal_stage_cost cost;
    const uint32_t stage = binding_stage(r, &cost);
    (void)fprintf(stderr,
                  "galplan: nothing fits in %lld bytes: %s %lld, for stage %u (layers %u to %u) while layer %u runs "
                  "backward\n",
                  (long long)r->instance->budget_bytes,
                  r->least_is_exact ? "the least possible is" : "the least that was met is", (long long)r->least_bytes,
                  stage, r->least.stage_first[stage], r->least.stage_first[stage + 1] - 1, cost.peak_layer);
}

/* ---- JSON ---- */

static void put_stages(gal_json_writer *out, const report *r, const gal_assignment *a)
{
    gal_json_begin_array(out, "stages");
    for (uint32_t i = 0; i < r->instance->stage_count; i++) {
        const uint32_t end = a->stage_first[i + 1];
        const gal_stage_cost cost = gal_instance_stage_cost(r->instance, i, a->stage_first[i], end, a->strategy);
        gal_json_begin_object(out, NULL);
        gal_json_put_u64(out, "first_layer", a->stage_first[i]);
        gal_json_put_u64(out, "layer_count", end - a->stage_first[i]);
        gal_json_put_f64(out, "seconds", seconds_of(cost.seconds_ps));
        gal_json_put_u64(out, "peak_bytes", (uint64_t)cost.peak_bytes);
        gal_json_put_u64(out, "peak_layer", cost.peak_layer);
        gal_json_begin_array(out, "runs");
        for (uint32_t l = a->stage_first[i]; l < end;) {
            const uint32_t first = l;
            while (l < end && a->strategy[l] == a->strategy[first]) {
                l++;
            }
            gal_json_begin_object(out, NULL);
            gal_json_put_u64(out, "layer_count", l - first);
            gal_json_put_string(out, "strategy", r->problem->strategy[a->strategy[first]].name);
            gal_json_end_object(out);
        }
        gal_json_end_array(out);
        gal_json_end_object(out);
    }
    gal_json_end_array(out);
}

static void put_run(gal_json_writer *out, const report *r, const run *done)
{
    const gal_solution *s = &done->solution;
    const bool found = s->best.value_ps != GAL_NEVER;
    gal_json_begin_object(out, NULL);
    gal_json_put_string(out, "algorithm", done->solver->name);
    gal_json_put_bool(out, "found", found);
    if (found) {
        double of_seconds;
        double of_bytes;
        gal_balance_degrees(r->instance, &s->best, &of_seconds, &of_bytes);
        gal_json_put_f64(out, "objective_seconds", seconds_of(s->best.value_ps));
        gal_json_put_f64(out, "optimality_gap", gap_of(r, done));
        gal_json_put_f64(out, "seconds_balance_degree", of_seconds);
        gal_json_put_f64(out, "bytes_balance_degree", of_bytes);
        put_stages(out, r, &s->best);
    }
    if (r->o->timing) {
        gal_json_put_u64(out, "effort_count", s->effort_count);
        gal_json_put_f64(out, "solve_seconds", done->seconds);
    }
    gal_json_end_object(out);
}

static gal_code print_json(const report *r, gal_error *err)
{
    gal_json_writer *out = gal_json_writer_create();
    gal_json_begin_object(out, NULL);
    gal_json_put_string(out, "problem", r->problem->name);
    gal_json_put_bool(out, "feasible", r->least.strategy == NULL);
    if (r->bound_ps != GAL_NEVER) {
        gal_json_put_f64(out, "lower_bound_seconds", seconds_of(r->bound_ps));
    }
    if (r->least.strategy != NULL) {
        gal_stage_cost cost;
        const uint32_t stage = binding_stage(r, &cost);
        gal_json_put_u64(out, "least_bytes", (uint64_t)r->least_bytes);
        gal_json_put_bool(out, "least_bytes_is_exact", r->least_is_exact);
        gal_json_put_u64(out, "binding_stage", stage);
        gal_json_put_u64(out, "binding_layer", cost.peak_layer);
    }
    gal_json_begin_array(out, "runs");
    for (uint32_t i = 0; i < r->run_count; i++) {
        put_run(out, r, &r->runs[i]);
    }
    gal_json_end_array(out);
    gal_json_end_object(out);
    const gal_code code = gal_json_writer_save(out, "-", err);
    gal_json_writer_free(out);
    return code;
}

/* ---- the command ---- */

static gal_code solve_all(report *r, gal_error *err)
{
    for (uint32_t i = 0; i < GAL_SOLVER_COUNT; i++) {
        if (!r->o->compare && i != r->o->algorithm % GAL_SOLVER_COUNT) {
            continue;
        }
        run *next = &r->runs[r->run_count];
        const double begin = gal_now_seconds();
        const gal_code code = gal_solve(&gal_solvers[i], r->instance, &r->o->limits, &next->solution, err);
        if (code != GAL_OK) {
            return code;
        }
        next->solver = &gal_solvers[i];
        next->seconds = gal_now_seconds() - begin;
        r->run_count++;
        r->bound_ps = next->solution.bound_ps > r->bound_ps ? next->solution.bound_ps : r->bound_ps;
    }
    return GAL_OK;
}

static bool found_any(const report *r)
{
    for (uint32_t i = 0; i < r->run_count; i++) {
        if (r->runs[i].solution.best.value_ps != GAL_NEVER) {
            return true;
        }
    }
    return false;
}

static gal_code tell(report *r, gal_error *err)
{
    gal_code code = GAL_OK;
    const bool found = found_any(r);
    bool fits = found;
    if (!found) {
        GAL_TRY(gal_assignment_create(r->instance, &r->least, err));
        GAL_TRY(gal_solve_least_bytes(r->instance, r->o->limits.label_limit, &r->least, &r->least_bytes,
                                      &r->least_is_exact, err));
        fits = r->least.value_ps != GAL_NEVER;
        if (fits) {
            gal_assignment_free(&r->least);
            (void)fprintf(stderr, "galplan: nothing was found, though %lld bytes are enough\n",
                          (long long)r->least_bytes);
        } else {
            r->bound_ps = GAL_NEVER;
            explain_refusal(r);
        }
    }
    if (r->o->json) {
        GAL_TRY(print_json(r, err));
    } else if (found) {
        print_text(r);
    }
    code = found ? GAL_OK : GAL_NO;
cleanup:
    return code;
}

static gal_code run_solve(const solve_options *o, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_problem problem = {0};
    gal_instance *instance = NULL;
    report r = {.o = o, .problem = &problem};
    if (o->compare && o->algorithm != GAL_SOLVER_COUNT) {
        GAL_TRY(gal_fail(err, GAL_ERR_USAGE, "give either --algorithm or --compare"));
    }
    GAL_TRY(gal_problem_read(o->path, &problem, err));
    GAL_TRY(gal_instance_create(&problem, &instance, err));
    r.instance = instance;
    GAL_TRY(solve_all(&r, err));
    GAL_TRY(tell(&r, err));
cleanup:
    for (uint32_t i = 0; i < r.run_count; i++) {
        gal_solution_free(&r.runs[i].solution);
    }
    gal_assignment_free(&r.least);
    gal_instance_free(instance);
    gal_problem_free(&problem);
    return code;
}

int gal_cli_solve(int argc, char **argv)
{
    solve_options o = {.algorithm = GAL_SOLVER_COUNT, .limits = {.label_limit = 4000000, .time_limit_seconds = 60.0}};
    gal_error err = {0};
    int exit_code = 0;
    if (!parse(argc, argv, &o, &exit_code)) {
        return exit_code;
    }
    const gal_code code = run_solve(&o, &err);
    return gal_options_end("galplan", "solve", code, &err);
}
