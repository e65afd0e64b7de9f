/* A cell's layers: each stage is a raw problem (planner/solve) for three sums of its layers; the whole plan takes of
 * each stage that one of the answers with which a step is shortest. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/galvatron/galvatron_cell.h"
#include "planner/solve/solver.h"

enum {
    /* What a stage is solved for: sums of (plain share, synced share). */
    FOR_PLAIN,  /* plain */
    FOR_STEP,   /* ((m - 1) plain + synced) / m */
    FOR_SYNCED, /* synced */
    SUM_COUNT
};

typedef struct stage_answer {
    double plain, synced; /* of its layers */
    uint32_t *strategy;   /* [layer_count of the model]; those of the stage are set */
} stage_answer;

typedef struct solving {
    const gal_galvatron_case *c;
    uint64_t limit_mebibytes;
    stage_answer *answer; /* (stage, sum) */
    double *bound;        /* (stage, sum): no layers that fit have a lower one */
    double *plain, *synced;
    uint32_t *pick;       /* (stage): sum */
    uint32_t solved_sums; /* that every stage has answers for, the first ones */
} solving;

static double weight_of(const gal_galvatron_case *c, uint32_t sum, gal_galvatron_seconds seconds)
{
    const double m = c->cell->job.microbatch_count;
    return sum == FOR_PLAIN    ? seconds.plain
           : sum == FOR_SYNCED ? seconds.synced
                               : ((m - 1.0) * seconds.plain + seconds.synced) / m;
}

/* ---- a stage as a raw problem ---- */

static bool allocate_problem(gal_problem *p)
{
    const size_t n = p->strategy_count;
    p->strategy = calloc(n, sizeof *p->strategy);
    p->transition_seconds = calloc(n * n, sizeof *p->transition_seconds);
    p->kind = calloc(p->kind_count, sizeof *p->kind);
    p->cost = calloc(p->kind_count * n, sizeof *p->cost);
    p->run = calloc(p->kind_count, sizeof *p->run);
    return p->strategy != NULL && p->transition_seconds != NULL && p->kind != NULL && p->cost != NULL && p->run != NULL;
}

/* One run per layer type; bytes are all states. */
static gal_code make_problem(const solving *s, uint32_t stage, uint32_t sum, gal_problem *out, gal_error *err)
{
    const gal_galvatron_case *c = s->c;
    const size_t n = GAL_GALVATRON_STRATEGIES_MAX;
    *out = (gal_problem){.schedule = GAL_SCHEDULE_GPIPE,
                         .stage_count = 1,
                         .microbatch_count = 1,
                         .budget_bytes = (s->limit_mebibytes - c->outside_mebibytes[stage]) << 20,
                         .strategy_count = c->strategy_count,
                         .transition_count = 1,
                         .kind_count = c->profile->layer_type_count};
    if (!allocate_problem(out)) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    for (uint32_t t = 0; t < out->kind_count; t++) {
        const uint64_t *mebibytes = &c->mebibytes[((size_t)stage * out->kind_count + t) * n];
        for (uint32_t i = 0; i < out->strategy_count; i++) {
            out->cost[(size_t)t * out->strategy_count + i] = (gal_problem_cost){
                .seconds = weight_of(c, sum, c->seconds[t * n + i]), .state_bytes = mebibytes[i] << 20};
        }
    }
    for (uint32_t l = c->stage_first[stage]; l < c->stage_first[stage + 1]; l++) {
        const uint32_t type = gal_galvatron_layer_type_of(c->profile, l);
        if (out->run_count == 0 || out->run[out->run_count - 1].kind_index != type) {
            out->run[out->run_count++].kind_index = type;
        }
        out->run[out->run_count - 1].layer_count++;
    }
    return GAL_OK;
}

static int order(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Layers of one type are alike: their strategies in rising order, so that a plan has few runs. */
static void take_answer(const solving *s, const gal_problem *p, uint32_t stage, const uint32_t *strategy,
                        stage_answer *out)
{
    const gal_galvatron_case *c = s->c;
    uint32_t layer = c->stage_first[stage];
    memcpy(out->strategy + layer, strategy, (c->stage_first[stage + 1] - layer) * sizeof *strategy);
    *out = (stage_answer){.strategy = out->strategy};
    for (uint32_t r = 0; r < p->run_count; r++) {
        qsort(out->strategy + layer, p->run[r].layer_count, sizeof *strategy, order);
        for (uint32_t i = 0; i < p->run[r].layer_count; i++, layer++) {
            const gal_galvatron_seconds seconds =
                c->seconds[(size_t)p->run[r].kind_index * GAL_GALVATRON_STRATEGIES_MAX + out->strategy[layer]];
            out->plain += seconds.plain;
            out->synced += seconds.synced;
        }
    }
}

static gal_code solve_stage(solving *s, uint32_t stage, uint32_t sum, bool *fits, gal_error *err)
{
    static const gal_solver_limits limits = {.label_limit = 4000000};
    const uint32_t layer_count = s->c->stage_first[stage + 1] - s->c->stage_first[stage];
    gal_code code = GAL_OK;
    gal_problem problem = {0};
    gal_instance *instance = NULL;
    gal_solution solution = {0};
    *fits = s->limit_mebibytes > s->c->outside_mebibytes[stage];
    if (!*fits) {
        return GAL_OK;
    }
    GAL_TRY(make_problem(s, stage, sum, &problem, err));
    GAL_TRY(gal_instance_create(&problem, &instance, err));
    GAL_TRY(gal_solve(&gal_solvers[GAL_SOLVER_EXACT], instance, &limits, &solution, err));
    *fits = solution.best.value_ps != GAL_NEVER;
    if (*fits) {
        /* Each layer was rounded to a picosecond. */
        s->bound[stage * SUM_COUNT + sum] = fmax(0.0, (double)(solution.bound_ps - layer_count) * 1e-12);
        take_answer(s, &problem, stage, solution.best.strategy, &s->answer[stage * SUM_COUNT + sum]);
    }
cleanup:
    gal_solution_free(&solution);
    gal_instance_free(instance);
    gal_problem_free(&problem);
    return code;
}

/* ---- the whole plan ---- */

static double step_seconds(const solving *s)
{
    const gal_galvatron_job *job = &s->c->cell->job;
    for (uint32_t i = 0; i < job->pp_degree; i++) {
        const stage_answer *answer = &s->answer[i * SUM_COUNT + s->pick[i]];
        s->plain[i] = answer->plain + s->c->outside_seconds[i];
        s->synced[i] = answer->synced;
    }
    return gal_galvatron_pipeline_seconds(job->pp_degree, job->microbatch_count, s->plain, s->synced);
}

/* From all stages alike on, one stage after the other takes what is best for the step, until none gains. */
static double best_picks(const solving *s, uint32_t *best)
{
    const uint32_t stages = s->c->cell->job.pp_degree;
    double least = INFINITY;
    for (uint32_t begin = 0; begin < s->solved_sums; begin++) {
        bool gains = true;
        for (uint32_t i = 0; i < stages; i++) {
            s->pick[i] = begin;
        }
        double here = step_seconds(s);
        while (gains) {
            gains = false;
            for (uint32_t i = 0; i < stages; i++) {
                for (uint32_t sum = 0, was = s->pick[i]; sum < s->solved_sums; sum++) {
                    s->pick[i] = sum;
                    const double there = step_seconds(s);
                    if (there < here) {
                        here = there;
                        was = sum;
                        gains = true;
                    }
                    s->pick[i] = was;
                }
            }
        }
        if (here < least) {
            least = here;
            memcpy(best, s->pick, stages * sizeof *best);
        }
    }
    return least;
}

/* planner/galvatron/galvatron_search.h says why. */
static double bound_of(const solving *s)
{
    const gal_galvatron_job *job = &s->c->cell->job;
    const uint32_t last = job->pp_degree - 1;
    const double m = job->microbatch_count;
    for (uint32_t i = 0; i <= last; i++) {
        s->plain[i] = s->bound[i * SUM_COUNT + FOR_PLAIN] + s->c->outside_seconds[i];
        s->synced[i] = 0.0;
    }
    const double first_step = m * s->bound[FOR_STEP] + (m - 1.0) * s->c->outside_seconds[0];
    const double last_step = m * s->bound[last * SUM_COUNT + FOR_STEP] + (m - 1.0) * s->c->outside_seconds[last];
    return fmax(gal_galvatron_pipeline_seconds(job->pp_degree, job->microbatch_count, s->plain, s->synced),
                fmax(first_step, last_step));
}

static bool allocate(solving *s)
{
    const size_t stages = s->c->cell->job.pp_degree;
    s->answer = calloc(stages * SUM_COUNT, sizeof *s->answer);
    s->bound = calloc(stages * SUM_COUNT, sizeof *s->bound);
    s->plain = calloc(stages, sizeof *s->plain);
    s->synced = calloc(stages, sizeof *s->synced);
    s->pick = calloc(2 * stages, sizeof *s->pick);
    bool all = s->answer != NULL && s->bound != NULL && s->plain != NULL && s->synced != NULL && s->pick != NULL;
    for (size_t i = 0; all && i < stages * SUM_COUNT; i++) {
        s->answer[i].strategy = calloc(s->c->layer_count, sizeof *s->answer[i].strategy);
        all = s->answer[i].strategy != NULL;
    }
    return all;
}

static void release(solving *s)
{
    for (size_t i = 0; s->answer != NULL && i < (size_t)s->c->cell->job.pp_degree * SUM_COUNT; i++) {
        free(s->answer[i].strategy);
    }
    free(s->answer);
    free(s->bound);
    free(s->plain);
    free(s->synced);
    free(s->pick);
}

static gal_code solve_stages(solving *s, uint32_t sum, bool *fits, gal_error *err)
{
    gal_code code = GAL_OK;
    *fits = true;
    for (uint32_t i = 0; i < s->c->cell->job.pp_degree && *fits; i++) {
        GAL_TRY(solve_stage(s, i, sum, fits, err));
    }
    s->solved_sums = sum + 1;
cleanup:
    return code;
}

gal_code gal_galvatron_case_solve(const gal_galvatron_case *c, uint64_t limit_mebibytes, double enough_seconds,
                                  gal_galvatron_answer *out, gal_error *err)
{
    const uint32_t stages = c->cell->job.pp_degree;
    gal_code code = GAL_OK;
    bool fits = true;
    solving s = {.c = c, .limit_mebibytes = limit_mebibytes};
    out->seconds = out->bound = INFINITY;
    if (!allocate(&s)) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    uint32_t *best = s.pick + stages;
    /* What is solved for later can only help where what was solved for before leaves a gap. */
    for (uint32_t sum = 0; sum < SUM_COUNT && (sum == 0 || out->bound < fmin(out->seconds, enough_seconds)); sum++) {
        GAL_TRY(solve_stages(&s, sum, &fits, err));
        if (!fits) {
            out->bound = INFINITY;
            goto cleanup;
        }
        out->seconds = best_picks(&s, best);
        out->bound = bound_of(&s);
    }
    for (uint32_t i = 0; i < stages; i++) {
        const uint32_t first = c->stage_first[i];
        memcpy(out->strategy + first, s.answer[i * SUM_COUNT + best[i]].strategy + first,
               (c->stage_first[i + 1] - first) * sizeof *out->strategy);
    }
cleanup:
    release(&s);
    return code;
}
