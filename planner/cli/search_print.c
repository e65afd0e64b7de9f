#include "planner/cli/search_print.h"

static double gap_of(const gal_search_result *result)
{
    return result->finalist[0].objective_seconds / result->lower_bound_seconds - 1.0;
}

void gal_search_print_plan(FILE *out, const gal_plan *plan)
{
    char name[GAL_STRATEGY_NAME_BYTES];
    fprintf(out, "\n  stage  devices  blocks  strategy                     bytes per device\n");
    for (uint32_t p = 0; p < gal_plan_piece_count(plan); p++) {
        uint32_t first = gal_plan_stage_first_block(plan, p);
        for (uint32_t r = 0; r < plan->stage[p].run_count; r++) {
            const gal_plan_run *run = &plan->run[plan->stage[p].first_run + r];
            fprintf(out, "  %5u  %7u  %2u..%-3u ", p % plan->stage_count, gal_plan_stage_devices(plan), first,
                    first + run->block_count - 1);
            gal_strategy_name(&run->strategy, name);
            if (r == 0) {
                fprintf(out, "%-24s  %12.1f MiB", name, (double)plan->stage[p].predicted_bytes / 1048576.0);
                if (plan->stage[p].predicted_host_bytes > 0) {
                    fprintf(out, " + %.1f MiB of its host", (double)plan->stage[p].predicted_host_bytes / 1048576.0);
                }
                if (plan->stage[p].predicted_storage_bytes > 0) {
                    fprintf(out, " + %.1f MiB of storage", (double)plan->stage[p].predicted_storage_bytes / 1048576.0);
                }
                fputc('\n', out);
            } else {
                fprintf(out, "%s\n", name);
            }
            first += run->block_count;
        }
    }
}

/* See planner/cell/uniform.h. */
static bool among_uniform(const gal_plan *plan)
{
    return plan->schedule == GAL_SCHEDULE_INTERLEAVED || plan->schedule == GAL_SCHEDULE_ZERO_BUBBLE;
}

static void print_proof(FILE *out, const gal_search_result *result)
{
    const gal_finalist *f = &result->finalist[0];
    fprintf(out, "  simulated %.6f s, objective %.6f s, %s %.6f s (gap %.3f %%)\n", f->simulated_seconds,
            f->objective_seconds, among_uniform(&f->plan) ? "bound of uniform plans" : "proven bound",
            result->lower_bound_seconds, 100.0 * gap_of(result));
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

static double mebibytes(double bytes)
{
    return bytes / 1048576.0;
}

/* Of what galrun takes. */
static void print_interval(FILE *out, const gal_finalist *f)
{
    const gal_prediction *in = &f->interval;
    fprintf(out, "  90 %%: %.6f to %.6f s, %.2f to %.2f samples/s, %.1f to %.1f MiB on the fullest device\n",
            in->low_seconds, in->high_seconds, f->global_batch_samples / in->high_seconds,
            f->global_batch_samples / in->low_seconds, mebibytes(in->low_bytes), mebibytes(in->high_bytes));
}

/* A named algorithm proves nothing. */
static void print_opinion(FILE *out, const gal_algorithm *algorithm, const gal_algorithm_answer *answer)
{
    const gal_finalist *f = &answer->search.finalist[0];
    fprintf(out, "  simulated %.6f s, objective %.6f s; %s itself expects %.6f s\n", f->simulated_seconds,
            f->objective_seconds, algorithm->name, answer->opinion.seconds);
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
    gal_prediction in;
    gal_pricing_interval(&f->plan, &in);
    fprintf(out, "  by %s%s: %.6f s, %.1f MiB on the fullest device; none of the space that galrun has is faster\n",
            pricing->framework.name, pricing->constants.row_count > 0 ? " with fitted constants" : "",
            f->objective_seconds, (double)pricing->bytes / 1048576.0);
    fprintf(out, "  90 %%: %.6f to %.6f s, %.1f to %.1f MiB\n", in.low_seconds, in.high_seconds,
            mebibytes(in.low_bytes), mebibytes(in.high_bytes));
    fprintf(out, "  carried out by galrun: simulated %.6f s, bytes as below%s\n", f->simulated_seconds,
            f->peak_bytes > f->plan.certificate.memory_bytes ? ", which are more than the limit" : "");
}

static void print_risk(FILE *out, const gal_plan *plan)
{
    const gal_risk *risk = &plan->risk;
    fprintf(out, "  all at quantile %g of what seconds may be; %s %.6f s; chance to run out of memory %.2g\n",
            risk->quantile, plan->pricing.present ? "by galrun as predicted" : "simulated as predicted",
            plan->simulated_seconds, risk->memory_chance);
}

void gal_search_print(FILE *out, const gal_algorithm *algorithm, const gal_algorithm_answer *answer, uint32_t top)
{
    const bool proves = algorithm == &gal_algorithms[GAL_ALGORITHM_EXACT];
    const gal_search_result *result = &answer->search;
    const gal_finalist *f = &result->finalist[0];
    fprintf(out, "%s plan: %.2f samples/s\n", proves ? "fastest" : algorithm->name, gal_finalist_rate(f));
    fprintf(out, "  batch %u in %u microbatches, pp_degree %u, %s", f->global_batch_samples, f->microbatch_count,
            f->pp_degree, gal_schedule_names[f->plan.schedule]);
    if (f->plan.schedule == GAL_SCHEDULE_INTERLEAVED) {
        fprintf(out, ", %u chunks of each stage", f->plan.chunk_count);
    }
    fputc('\n', out);
    if (f->plan.pricing.present) {
        print_pricing(out, f);
    } else if (proves) {
        print_proof(out, result);
    } else {
        print_opinion(out, algorithm, answer);
    }
    print_interval(out, f);
    if (f->plan.risk.present) {
        print_risk(out, &f->plan);
    }
    gal_search_print_plan(out, &f->plan);
    if (top > 1) {
        fprintf(out, "\n  batch  microbatches  pp  samples/s  simulated s      90 %% from           to  objective s  "
                     "peak MiB\n");
    }
    for (uint32_t i = 0; top > 1 && i < top && i < result->finalist_count; i++) {
        f = &result->finalist[i];
        fprintf(out, "  %5u  %12u  %2u  %9.2f  %11.6f  %11.6f  %11.6f  %11.6f  %8.1f\n", f->global_batch_samples,
                f->microbatch_count, f->pp_degree, gal_finalist_rate(f), f->simulated_seconds, f->interval.low_seconds,
                f->interval.high_seconds, f->objective_seconds, (double)f->peak_bytes / 1048576.0);
    }
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

void gal_search_put_strategies(gal_json_writer *out, const gal_plan *plan)
{
    char name[GAL_STRATEGY_NAME_BYTES];
    gal_json_begin_array(out, "strategies");
    for (uint32_t p = 0; p < gal_plan_piece_count(plan); p++) {
        for (uint32_t r = 0; r < plan->stage[p].run_count; r++) {
            const gal_plan_run *run = &plan->run[plan->stage[p].first_run + r];
            gal_json_begin_object(out, NULL);
            gal_json_put_u64(out, "stage", p % plan->stage_count);
            gal_json_put_u64(out, "block_count", run->block_count);
            gal_json_put_string(out, "strategy", gal_strategy_name(&run->strategy, name));
            gal_json_end_object(out);
        }
    }
    gal_json_end_array(out);
    gal_json_begin_array(out, "stage_block_counts");
    for (uint32_t p = 0; p < gal_plan_piece_count(plan); p++) {
        gal_json_put_u64(out, NULL, gal_plan_stage_block_count(plan, p));
    }
    gal_json_end_array(out);
}

gal_code gal_search_print_json(const gal_algorithm *algorithm, const gal_algorithm_answer *answer,
                               const gal_search_said *said, gal_error *err)
{
    const bool proves = algorithm == &gal_algorithms[GAL_ALGORITHM_EXACT];
    const gal_search_result *result = &answer->search;
    gal_json_writer *out = gal_json_writer_create();
    gal_json_begin_object(out, NULL);
    gal_assumed_put(out, said->assumed);
    if (!proves) {
        gal_json_put_string(out, "algorithm", algorithm->name);
    }
    gal_json_put_bool(out, "feasible", result->feasible);
    if (result->feasible) {
        const gal_finalist *f = &result->finalist[0];
        gal_json_put_f64(out, "samples_per_second", gal_finalist_rate(f));
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
        gal_search_put_strategies(out, &f->plan);
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
    gal_code code = gal_json_writer_save(out, "-", err);
    gal_json_writer_free(out);
    return code;
}
