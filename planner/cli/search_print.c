#include "planner/cli/search_print.h"

#include <math.h>

#include "planner/answers/figure_text.h"
#include "planner/cli/plan_table.h"
#include "planner/cli/step_said.h"

static double gap_of(const gal_search_result *result)
{
    return result->finalist[0].objective_seconds / result->lower_bound_seconds - 1.0;
}

/* See planner/cell/uniform.h. */
static bool among_uniform(const gal_plan *plan)
{
    return plan->schedule == GAL_SCHEDULE_INTERLEAVED || plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE;
}

/* The simulation is the plan's figure; where the objective strays from it, so does the proof. */
static const double stray_worth_saying = 0.02;

static double stray_of(const gal_finalist *f)
{
    return f->simulated_seconds / f->objective_seconds - 1.0;
}

static bool strays(const gal_finalist *f)
{
    return fabs(stray_of(f)) > stray_worth_saying;
}

/* The end of a line: how much slower the plan is simulated than its objective says, where that is worth saying. */
static void print_stray(FILE *out, const gal_finalist *f)
{
    if (strays(f)) {
        fprintf(out, "; the simulation is %.1f %% %s", 100.0 * fabs(stray_of(f)),
                stray_of(f) > 0.0 ? "slower" : "faster");
    }
    fputc('\n', out);
}

/* Objective, bound and gap; where the simulation strays, what the proof is worth. */
static void print_gap(FILE *out, const gal_search_result *result)
{
    const gal_finalist *f = &result->finalist[0];
    const bool bounded = result->lower_bound_seconds > 0.0, stray = strays(f);
    fprintf(out, "  objective %.6g s", f->objective_seconds);
    if (bounded) {
        fprintf(out, ", %s %.6g s%sgap %.3f %% is proven%s",
                among_uniform(&f->plan) ? "bound of uniform plans" : "bound", result->lower_bound_seconds,
                stray ? "\n  " : ": ", 100.0 * gap_of(result), stray ? " of the objective" : "");
    }
    print_stray(out, f);
}

static void print_proof(FILE *out, const gal_search_result *result)
{
    const gal_finalist *f = &result->finalist[0];
    print_gap(out, result);
    fprintf(out, "  %u of %u cells solved, ", result->solved_cell_count, result->cell_count);
    if (result->unproven_cell_count > 0) {
        fprintf(out, "in %u a faster plan is not ruled out (--gap, --label-limit)", result->unproven_cell_count);
    } else if (among_uniform(&f->plan)) {
        fprintf(out, "each by its fastest uniform plan: one strategy, even pieces");
    } else {
        fprintf(out, "no cell has a faster plan");
    }
    fprintf(out, "\n");
}

/* A named algorithm proves nothing. */
static void print_opinion(FILE *out, const gal_algorithm *algorithm, const gal_algorithm_answer *answer)
{
    const gal_finalist *f = &answer->search.finalist[0];
    fprintf(out, "  objective %.6g s, %s itself expects %.6g s", f->objective_seconds, algorithm->name,
            answer->opinion.seconds);
    print_stray(out, f);
    if (answer->opinion.bound_seconds > 0.0) {
        fprintf(out, "  by these prices no plan of their space takes less than %.6f s (gap %.4f %%)\n",
                answer->opinion.bound_seconds, 100.0 * (answer->opinion.seconds / answer->opinion.bound_seconds - 1.0));
    }
    if (f->pp_degree > 1 && answer->opinion.seconds_balance_degree > 0.0) {
        fprintf(out, "  balance degrees (1 - max / sum) by its own model: seconds %.4f, bytes %.4f, at best %.4f\n",
                answer->opinion.seconds_balance_degree, answer->opinion.bytes_balance_degree, 1.0 - 1.0 / f->pp_degree);
    }
    if (answer->misfit_cell_count > 0) {
        fprintf(out, "  in %u of %u cells its plan fits by its own count of bytes alone and is left out\n",
                answer->misfit_cell_count, answer->search.cell_count);
    }
    if (answer->search.unproven_cell_count > 0) {
        fprintf(out, "  in %u of %u cells it did not finish (too large, or --time-limit)\n",
                answer->search.unproven_cell_count, answer->search.cell_count);
    }
}

/* By whom, and what galrun makes of it. */
static void print_pricing(FILE *out, const gal_finalist *f)
{
    const gal_pricing *pricing = &f->plan.pricing;
    char seconds[GAL_FIGURE_TEXT_BYTES], memory[GAL_FIGURE_TEXT_BYTES];
    fprintf(out, "  by %s%s; none of the space that galrun has is faster\n", pricing->framework.name,
            pricing->constants.row_count > 0 ? " with fitted constants" : "");
    fprintf(out, "  carried out by galrun: step %s s, memory %s%s\n", gal_figure_text(f->simulated_seconds, seconds),
            gal_memory_text(f->peak_bytes, memory),
            f->peak_bytes > f->plan.certificate.memory_bytes ? ", which is more than the limit" : "");
}

static void print_risk(FILE *out, const gal_plan *plan)
{
    const gal_risk *risk = &plan->risk;
    fprintf(out, "  all at quantile %g of what seconds may be; %s %.6f s; chance to run out of memory %.2g\n",
            risk->quantile, plan->pricing.present ? "by galrun as predicted" : "simulated as predicted",
            plan->simulated_seconds, risk->memory_chance);
}

/* The plan's own figures: by the framework that priced it, else as simulated. */
static gal_step_said step_of(const gal_finalist *f, const gal_search_said *said)
{
    const gal_pricing *pricing = &f->plan.pricing;
    gal_step_said step = {.plan = &f->plan,
                          .seconds = f->simulated_seconds,
                          .bytes = f->peak_bytes,
                          .tokens = said->tokens,
                          .tf32 = said->tf32,
                          .measured = said->measured};
    if (pricing->present) {
        step.seconds = f->objective_seconds;
        step.bytes = pricing->bytes;
        step.tf32 = pricing->framework.tf32;
        step.measured = pricing->constants.row_count > 0;
    }
    return step;
}

static void print_numbers(FILE *out, const gal_finalist *f)
{
    fprintf(out, "  batch %u in %u microbatch%s, pp %u, %s", f->global_batch_samples, f->microbatch_count,
            f->microbatch_count == 1 ? "" : "es", f->pp_degree, gal_schedule_names[f->plan.schedule]);
    if (f->plan.schedule == GAL_SCHEDULE_INTERLEAVED) {
        fprintf(out, ", %u pieces of each stage", f->plan.chunk_count);
    }
    fputc('\n', out);
}

static void print_range(FILE *out, const gal_finalist *f, const gal_step_said *step)
{
    gal_prediction in = f->interval;
    if (f->plan.pricing.present) {
        gal_pricing_interval(&f->plan, &in);
    }
    gal_step_print_interval(out, step, &in);
}

/* The finalists, best first. */
static void print_top(FILE *out, const gal_search_result *result, const gal_search_said *said, uint32_t top)
{
    char rate[GAL_FIGURE_TEXT_BYTES], memory[GAL_FIGURE_TEXT_BYTES];
    fprintf(out,
            "\n  batch  microbatches  pp     step s  90 %% from         to  %s/s each  MFU %%  objective    memory\n",
            gal_model_token_noun(&result->finalist[0].plan.model));
    for (uint32_t i = 0; i < top && i < result->finalist_count; i++) {
        const gal_finalist *f = &result->finalist[i];
        const gal_step_said step = step_of(f, said);
        gal_figures figures;
        gal_step_said_figures(&step, &figures);
        fprintf(out, "  %5u  %12u  %2u  %9.4g  %9.4g  %9.4g  %13s  %5.1f  %9.4g  %8s\n", f->global_batch_samples,
                f->microbatch_count, f->pp_degree, f->simulated_seconds, f->interval.low_seconds,
                f->interval.high_seconds, gal_figure_text(figures.tokens_per_second_per_device, rate),
                100.0 * figures.mfu, f->objective_seconds, gal_memory_text(f->peak_bytes, memory));
    }
}

gal_code gal_search_print(FILE *out, const gal_algorithm *algorithm, const gal_algorithm_answer *answer,
                          const gal_search_said *said, uint32_t top, gal_error *err)
{
    const bool proves = algorithm == &gal_algorithms[GAL_ALGORITHM_EXACT];
    const gal_finalist *f = &answer->search.finalist[0];
    const gal_step_said step = step_of(f, said);
    fprintf(out, "%s plan: ", proves ? "fastest" : algorithm->name);
    gal_step_print(out, &step);
    print_numbers(out, f);
    if (f->plan.pricing.present) {
        print_pricing(out, f);
    } else if (proves) {
        print_proof(out, &answer->search);
    } else {
        print_opinion(out, algorithm, answer);
    }
    print_range(out, f, &step);
    if (f->plan.risk.present) {
        print_risk(out, &f->plan);
    }
    gal_step_print_notes(out, &step);
    if (top > 1) {
        print_top(out, &answer->search, said, top);
    }
    return gal_plan_table_print(out, &f->plan, err);
}

void gal_search_put_interval(gal_json_writer *out, const gal_prediction *in)
{
    gal_json_put_f64(out, "low_seconds", in->low_seconds);
    gal_json_put_f64(out, "high_seconds", in->high_seconds);
    gal_json_put_u64(out, "low_bytes", (uint64_t)in->low_bytes);
    gal_json_put_u64(out, "high_bytes", (uint64_t)in->high_bytes);
}

static void put_prices(gal_json_writer *out, const gal_plan *plan)
{
    if (plan->pricing.present) {
        gal_json_put_string(out, "framework", plan->pricing.framework.name);
        gal_json_put_u64(out, "framework_bytes", plan->pricing.bytes);
        gal_prediction in;
        gal_pricing_interval(plan, &in);
        gal_json_begin_object(out, "framework_interval");
        gal_search_put_interval(out, &in);
        gal_json_end_object(out);
    }
    if (plan->risk.present) {
        gal_json_put_f64(out, "quantile", plan->risk.quantile);
        gal_json_put_f64(out, "predicted_seconds", plan->simulated_seconds);
        gal_json_put_f64(out, "memory_chance", plan->risk.memory_chance);
    }
}

gal_code gal_search_print_json(const gal_algorithm *algorithm, const gal_algorithm_answer *answer,
                               const gal_search_said *said, gal_error *err)
{
    const bool proves = algorithm == &gal_algorithms[GAL_ALGORITHM_EXACT];
    const gal_search_result *result = &answer->search;
    gal_code code = GAL_OK;
    gal_json_writer *out = gal_json_writer_create();
    gal_json_begin_object(out, NULL);
    gal_assumed_put(out, said->assumed);
    if (!proves) {
        gal_json_put_string(out, "algorithm", algorithm->name);
    }
    gal_json_put_bool(out, "feasible", result->feasible);
    if (result->feasible) {
        const gal_finalist *f = &result->finalist[0];
        const gal_step_said step = step_of(f, said);
        gal_step_put(out, &step);
        gal_json_put_f64(out, "objective_seconds", f->objective_seconds);
        gal_json_put_f64(out, "simulated_seconds", f->simulated_seconds);
        if (proves) {
            gal_json_put_f64(out, "lower_bound_seconds", result->lower_bound_seconds);
            gal_json_put_bool(out, "uniform_plans_only", among_uniform(&f->plan));
            if (result->lower_bound_seconds > 0.0) {
                gal_json_put_f64(out, "optimality_gap", gap_of(result));
            }
        } else {
            gal_json_put_f64(out, "own_seconds", answer->opinion.seconds);
            if (answer->opinion.bound_seconds > 0.0) {
                gal_json_put_f64(out, "own_bound_seconds", answer->opinion.bound_seconds);
            }
            gal_json_put_f64(out, "seconds_balance_degree", answer->opinion.seconds_balance_degree);
            gal_json_put_f64(out, "bytes_balance_degree", answer->opinion.bytes_balance_degree);
        }
        gal_json_put_u64(out, "global_batch_samples", f->global_batch_samples);
        gal_json_put_u64(out, "microbatch_count", f->microbatch_count);
        gal_json_put_u64(out, "pp_degree", f->pp_degree);
        gal_json_put_u64(out, "peak_bytes", f->peak_bytes);
        gal_search_put_interval(out, &f->interval);
        put_prices(out, &f->plan);
        GAL_TRY(gal_plan_table_put(out, &f->plan, err));
        gal_ctas_put(out, said->ctas);
    } else if (said->none != NULL) {
        gal_no_plan_put(said->none, out);
    } else {
        gal_json_put_u64(out, "least_bytes", result->least_bytes);
    }
    gal_json_put_u64(out, "cell_count", result->cell_count);
    if (proves) {
        gal_json_put_u64(out, "solved_cell_count", result->solved_cell_count);
    }
    gal_json_put_u64(out, "unproven_cell_count", result->unproven_cell_count);
    if (!proves) {
        gal_json_put_u64(out, "misfit_cell_count", answer->misfit_cell_count);
    }
    if (said->seconds >= 0.0) {
        gal_json_put_u64(out, "label_count", result->label_count);
        gal_json_put_f64(out, "search_seconds", said->seconds);
    }
    gal_json_end_object(out);
    GAL_TRY(gal_json_writer_save(out, "-", err));
cleanup:
    gal_json_writer_free(out);
    return code;
}
