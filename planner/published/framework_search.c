#include "planner/published/framework_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "costmodel/interval.h"
#include "planner/cell/finalist.h"
#include "planner/layouts/layout_plan.h"

static const double rounding = 1e-9; /* of what is compared: sums in another order */

/* Whose prices, for what, within what. */
typedef struct question {
    const gal_framework *framework;
    gal_constants constants;
    double seconds_factor, bytes_factor; /* at the quantile */
    gal_layout_row row;                  /* its layout: the one being asked for */
    const gal_space *space;
    uint64_t memory_bytes;
} question;

typedef struct winner {
    gal_layout_row row;
    double seconds, bytes; /* at the quantile; as predicted */
    double least_bytes;    /* of any layout, at the quantile */
    uint32_t cell_count;
    double refused_per_sample; /* seconds: the fastest that galrun has no plan of */
    char refusal[GAL_ERROR_TEXT_BYTES];
} winner;

static double per_sample(const winner *best)
{
    return best->seconds / best->row.layout.global_batch_samples;
}

static question ask(const gal_pricing *pricing, const gal_model *model, const gal_cluster *cluster, double quantile)
{
    question q = {.framework = &pricing->framework, .row = {.model = *model, .cluster = cluster}};
    const double spread = pricing->framework.bytes_spread;
    gal_constants_default(cluster, &pricing->framework, &q.constants);
    if (pricing->constants.row_count > 0) {
        gal_constants_apply(&pricing->constants, &q.constants);
    }
    q.seconds_factor = gal_interval_quantile(q.constants.seconds_low_factor, q.constants.seconds_high_factor, quantile);
    q.bytes_factor = gal_interval_quantile(exp(-spread), exp(spread), quantile);
    return q;
}

/* At the quantile seconds; bytes as predicted. */
static gal_framework_estimate price(const question *q)
{
    gal_framework_estimate out;
    gal_framework_price(q->framework, q->row.cluster, &q->constants, &q->row.model, &q->row.layout, &out);
    out.seconds *= q->seconds_factor;
    return out;
}

static bool fits(const question *q, double bytes)
{
    return bytes * q->bytes_factor <= (double)q->memory_bytes;
}

/* One layout that divides. */
static void consider(const question *q, winner *best)
{
    const gal_framework_estimate at = price(q);
    const double seconds = at.seconds / q->row.layout.global_batch_samples;
    best->least_bytes = fmin(best->least_bytes, at.bytes * q->bytes_factor);
    if (!fits(q, at.bytes) || !(seconds < per_sample(best))) {
        return;
    }
    gal_plan plan = {0};
    gal_error why = {0};
    if (gal_layout_plan(&q->row, &plan, &why) != GAL_OK) {
        if (seconds < best->refused_per_sample) {
            best->refused_per_sample = seconds;
            memcpy(best->refusal, why.text, sizeof best->refusal);
        }
    } else {
        best->row = q->row;
        best->seconds = at.seconds;
        best->bytes = at.bytes;
    }
    gal_plan_free(&plan);
}

static bool allowed(const gal_space *space, const gal_uniform_layout *layout)
{
    const bool tensor = layout->tp_degree == 1 || space->axis[GAL_AXIS_TP];
    const bool data = layout->dp_degree == 1 ? layout->zero_stage == 0
                                             : (layout->zero_stage == 0 ? space->axis[GAL_AXIS_DP]
                                                                        : space->axis[GAL_AXIS_SDP] &&
                                                                              space->zero_stage[layout->zero_stage]);
    const bool sequence = !layout->sequence_parallel || (layout->tp_degree > 1 && space->sequence_parallel);
    const bool again[GAL_RECOMPUTE_COUNT] = {[GAL_RECOMPUTE_NONE] = true,
                                             [GAL_RECOMPUTE_SELECTIVE] = space->selective,
                                             [GAL_RECOMPUTE_FULL] = space->recompute};
    return tensor && data && sequence && again[layout->recompute];
}

/* All ways to split a stage of so many devices; the layout has its schedule and its numbers, but for degrees. */
static void consider_cell(question *q, uint32_t stage_devices, uint32_t pass_samples, winner *best)
{
    gal_uniform_layout *layout = &q->row.layout;
    gal_error refused = {0};
    bool divides = false;
    for (layout->tp_degree = 1; layout->tp_degree <= stage_devices; layout->tp_degree++) {
        layout->dp_degree = stage_devices / layout->tp_degree;
        layout->microbatch_samples = pass_samples / layout->dp_degree;
        if (stage_devices % layout->tp_degree != 0 || pass_samples % layout->dp_degree != 0 ||
            gal_uniform_layout_check(layout, &q->row.model, &refused) != GAL_OK) {
            continue;
        }
        divides = true;
        for (uint32_t i = 0; i < 4 * 2 * GAL_RECOMPUTE_COUNT; i++) {
            layout->zero_stage = i / (2 * GAL_RECOMPUTE_COUNT);
            layout->sequence_parallel = i / GAL_RECOMPUTE_COUNT % 2 == 1;
            layout->recompute = (gal_recompute)(i % GAL_RECOMPUTE_COUNT);
            if (allowed(q->space, layout)) {
                consider(q, best);
            }
        }
    }
    best->cell_count += divides;
}

static void consider_numbers(question *q, const gal_cell_numbers *numbers, winner *best)
{
    const uint32_t devices = q->row.cluster->device_count;
    if (devices % numbers->pp_degree == 0 && numbers->global_batch_samples % numbers->microbatch_count == 0) {
        q->row.layout.pp_degree = numbers->pp_degree;
        q->row.layout.global_batch_samples = numbers->global_batch_samples;
        consider_cell(q, devices / numbers->pp_degree, numbers->global_batch_samples / numbers->microbatch_count, best);
    }
}

static winner nobody(void)
{
    return (winner){.seconds = HUGE_VAL,
                    .least_bytes = HUGE_VAL,
                    .refused_per_sample = HUGE_VAL,
                    .row = {.layout = {.global_batch_samples = 1}}};
}

/* ---- the search ---- */

static gal_code check_request(const gal_search_request *r, gal_error *err)
{
    const gal_space *space = &r->space;
    bool beyond = space->axis[GAL_AXIS_ULYSSES] || space->axis[GAL_AXIS_RING];
    for (uint32_t i = 0; i < GAL_TP_MODE_COUNT; i++) {
        beyond = beyond || (i != GAL_TP_1D && space->tp_grid[i]);
    }
    if (beyond || space->takeaway[1] || space->takeaway[2] || space->takeaway[3]) {
        return gal_fail(err, GAL_ERR_USAGE,
                        "--prices framework:NAME knows dp, sdp, zero1 to zero3, tp, sp, recompute and selective");
    }
    if (r->schedule == GAL_SCHEDULE_ZERO_BUBBLE) {
        return gal_fail(err, GAL_ERR_USAGE, "--schedule: --prices framework:NAME knows no zero-bubble");
    }
    return GAL_OK;
}

/* The plan of the winner, with what it says of itself. */
static gal_code write_plan(const gal_search_request *request, const gal_pricing *pricing, const winner *best,
                           const gal_cell_numbers *numbers, uint32_t count, uint64_t memory_bytes, gal_plan *out,
                           gal_error *err)
{
    const gal_code code = gal_layout_plan(&best->row, out, err);
    if (code != GAL_OK) {
        return code;
    }
    memcpy(out->profile_hash, request->profile_hash, strlen(request->profile_hash) + 1);
    out->prefetch_depth = request->prefetch_depth;
    out->fixed_bytes = gal_durations_fixed_bytes(request->durations);
    out->objective_seconds = out->lower_bound_seconds = best->seconds;
    out->pricing = *pricing;
    out->pricing.bytes = (uint64_t)ceil(best->bytes);
    out->certificate = (gal_certificate){
        .present = true, .objective = GAL_OBJECTIVE_FRAMEWORK, .memory_bytes = memory_bytes, .space = request->space};
    for (uint32_t i = 0; i < count; i++) {
        if (numbers[i].global_batch_samples == out->global_batch_samples) {
            gal_u32_list_add_once(&out->certificate.microbatch_counts, numbers[i].microbatch_count);
            gal_u32_list_add_once(&out->certificate.pp_degrees, numbers[i].pp_degree);
        }
    }
    return GAL_OK;
}

static gal_code add_finalist(const gal_search_request *request, gal_plan *plan, gal_search_result *result,
                             gal_error *err)
{
    const gal_cell_spec none = {.global_batch_samples = plan->global_batch_samples,
                                .microbatch_count = plan->microbatch_count,
                                .pp_degree = plan->pp_degree};
    gal_finalist *f = gal_finalist_add(request, &none, result);
    if (f == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    f->plan = *plan;
    memset(plan, 0, sizeof *plan);
    f->objective_seconds = f->bound_seconds = f->plan.objective_seconds;
    result->lower_bound_seconds = f->bound_seconds;
    result->feasible = true;
    return gal_finalist_predict(request, f, err);
}

gal_code gal_search_by_framework(const gal_search_request *request, const gal_pricing *pricing, double quantile,
                                 gal_algorithm_answer *out, char refusal[GAL_ERROR_TEXT_BYTES], gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_cluster *cluster = gal_durations_cluster(request->durations);
    question q = ask(pricing, request->model, cluster, quantile);
    gal_cell_numbers *numbers = NULL;
    uint32_t count = 0;
    winner best = nobody();
    gal_plan plan = {0};
    gal_algorithm_answer answer = {0};
    refusal[0] = '\0';
    q.space = &request->space;
    q.memory_bytes = request->memory_bytes != 0 ? request->memory_bytes : cluster->device.memory_bytes;
    q.row.layout.schedule = request->schedule;
    q.row.layout.chunk_count = request->chunk_count > 1 ? request->chunk_count : 1;
    GAL_TRY(check_request(request, err));
    GAL_TRY(gal_search_cells(request, &numbers, &count, err));
    for (uint32_t i = 0; i < count; i++) {
        consider_numbers(&q, &numbers[i], &best);
    }
    answer.search.cell_count = answer.search.solved_cell_count = best.cell_count;
    if (best.seconds < HUGE_VAL) {
        GAL_TRY(write_plan(request, pricing, &best, numbers, count, q.memory_bytes, &plan, err));
        GAL_TRY(add_finalist(request, &plan, &answer.search, err));
        answer.opinion.seconds = answer.opinion.bound_seconds = best.seconds;
    } else {
        answer.search.least_bytes = best.least_bytes < HUGE_VAL ? (uint64_t)ceil(best.least_bytes) : 0;
        memcpy(answer.search.refusal, best.refusal, sizeof answer.search.refusal);
    }
    if (best.refused_per_sample < per_sample(&best)) {
        memcpy(refusal, best.refusal, sizeof best.refusal);
    }
    *out = answer;
    answer = (gal_algorithm_answer){0};
cleanup:
    gal_algorithm_answer_free(&answer);
    gal_plan_free(&plan);
    free(numbers);
    return code;
}

/* ---- what a plan claims ---- */

static double quantile_of(const gal_plan *plan)
{
    return plan->risk.present ? plan->risk.quantile : 0.5;
}

static question question_of(const gal_plan *plan)
{
    question q = ask(&plan->pricing, &plan->model, &plan->cluster, quantile_of(plan));
    q.space = &plan->certificate.space;
    q.memory_bytes = plan->certificate.memory_bytes;
    q.row.layout.schedule = plan->schedule;
    q.row.layout.chunk_count = gal_plan_chunk_count(plan);
    return q;
}

/* The layout that a plan of one strategy has, if it is one. */
static void set_layout(const gal_plan *plan, gal_uniform_layout *layout)
{
    const gal_strategy *strategy = &plan->run[0].strategy;
    layout->tp_degree = gal_strategy_degree(strategy, GAL_AXIS_TP);
    layout->dp_degree = gal_plan_stage_devices(plan) / layout->tp_degree;
    layout->pp_degree = plan->pp_degree;
    layout->zero_stage = strategy->zero_stage;
    layout->sequence_parallel = strategy->sequence_parallel;
    layout->recompute = strategy->recompute;
    layout->global_batch_samples = plan->global_batch_samples;
    layout->microbatch_samples = gal_plan_microbatch_samples(plan) / layout->dp_degree;
}

static bool same_blocks(const gal_plan *a, const gal_plan *b)
{
    bool same = gal_plan_piece_count(a) == gal_plan_piece_count(b);
    for (uint32_t p = 0; same && p < gal_plan_piece_count(a); p++) {
        same = gal_plan_stage_block_count(a, p) == gal_plan_stage_block_count(b, p);
    }
    for (uint32_t r = 0; same && r < a->run_count; r++) {
        same = gal_strategy_equal(&a->run[r].strategy, &b->run[0].strategy);
    }
    return same;
}

static bool lists(const gal_u32_list *list, uint32_t value)
{
    bool found = false;
    for (uint32_t i = 0; i < list->count; i++) {
        found = found || list->value[i] == value;
    }
    return found;
}

/* The plan is that of a layout, one of those that its bound is of. */
static gal_code check_layout(const gal_plan *plan, const question *q, gal_error *err)
{
    const gal_uniform_layout *layout = &q->row.layout;
    gal_error why = {0};
    gal_plan of_layout = {0};
    bool same = layout->microbatch_samples > 0 && gal_uniform_layout_check(layout, &plan->model, &why) == GAL_OK &&
                gal_layout_plan(&q->row, &of_layout, &why) == GAL_OK && same_blocks(plan, &of_layout) &&
                of_layout.microbatch_count == plan->microbatch_count;
    gal_plan_free(&of_layout);
    if (!same) {
        return gal_fail(err, GAL_NO, "pricing: the plan has not one strategy for all blocks, layers dealt evenly");
    }
    if (!allowed(q->space, layout) || !lists(&plan->certificate.microbatch_counts, plan->microbatch_count) ||
        !lists(&plan->certificate.pp_degrees, plan->pp_degree)) {
        return gal_fail(err, GAL_NO, "certificate: the plan is not among those that it names");
    }
    return GAL_OK;
}

static bool differs(double a, double b)
{
    return !(fabs(a - b) <= rounding * fmax(fabs(a), fabs(b)));
}

gal_code gal_framework_check_plan(const gal_plan *plan, gal_error *err)
{
    question q = question_of(plan);
    set_layout(plan, &q.row.layout);
    const gal_code code = check_layout(plan, &q, err);
    if (code != GAL_OK) {
        return code;
    }
    const gal_framework_estimate at = price(&q);
    if (differs(at.seconds, plan->objective_seconds)) {
        return gal_fail(err, GAL_NO, "pricing: the plan claims %.9g s, by %s it takes %.9g s", plan->objective_seconds,
                        q.framework->name, at.seconds);
    }
    if (differs(ceil(at.bytes), (double)plan->pricing.bytes)) {
        return gal_fail(err, GAL_NO, "pricing: the plan claims %llu bytes, by %s it takes %.0f",
                        (unsigned long long)plan->pricing.bytes, q.framework->name, at.bytes);
    }
    if (!fits(&q, at.bytes * (1.0 - rounding))) {
        return gal_fail(err, GAL_NO, "pricing: %.0f bytes are more than the %llu that there are",
                        at.bytes * q.bytes_factor, (unsigned long long)q.memory_bytes);
    }
    return GAL_OK;
}

gal_code gal_framework_check_bound(const gal_plan *plan, gal_error *err)
{
    const gal_certificate *c = &plan->certificate;
    question q = question_of(plan);
    winner best = nobody();
    for (uint32_t m = 0; m < c->microbatch_counts.count; m++) {
        for (uint32_t p = 0; p < c->pp_degrees.count; p++) {
            const gal_cell_numbers numbers = {plan->global_batch_samples, c->microbatch_counts.value[m],
                                              c->pp_degrees.value[p]};
            consider_numbers(&q, &numbers, &best);
        }
    }
    if (plan->lower_bound_seconds > best.seconds * (1.0 + rounding) ||
        plan->lower_bound_seconds > plan->objective_seconds * (1.0 + rounding)) {
        return gal_fail(err, GAL_NO, "bound: the plan claims %.9g s, a layout takes %.9g s", plan->lower_bound_seconds,
                        best.seconds);
    }
    return GAL_OK;
}
