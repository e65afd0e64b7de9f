#include "planner/cli/search_pareto.h"

#include <stdio.h>

#include "planner/answers/figure_text.h"
#include "planner/cli/plan_table.h"
#include "planner/cli/search_print.h"
#include "planner/cli/step_said.h"

static double gap_of(const gal_pareto_point *p)
{
    return p->finalist.objective_seconds / p->lower_bound_seconds - 1.0;
}

static gal_step_said step_of(const gal_finalist *f, bool tf32)
{
    return (gal_step_said){.plan = &f->plan, .seconds = f->simulated_seconds, .bytes = f->peak_bytes, .tf32 = tf32};
}

static void print_points(FILE *out, const gal_pareto *pareto, bool tf32)
{
    char rate[GAL_FIGURE_TEXT_BYTES];
    fprintf(out, "  memory GB  %s/s each  MFU %%     step s  90 %% from         to   gap %%  batch  microbatches  pp\n",
            gal_model_token_noun(&pareto->point[0].finalist.plan.model));
    for (uint32_t i = 0; i < pareto->point_count; i++) {
        const gal_pareto_point *p = &pareto->point[i];
        const gal_finalist *f = &p->finalist;
        const gal_step_said step = step_of(f, tf32);
        gal_figures figures;
        gal_step_said_figures(&step, &figures);
        fprintf(out, "  %9.4g  %13s  %5.1f  %9.4g  %9.4g  %9.4g  %6.3f  %5u  %12u  %2u%s\n",
                (double)f->peak_bytes * 1e-9, gal_figure_text(figures.tokens_per_second_per_device, rate),
                100.0 * figures.mfu, f->simulated_seconds, f->interval.low_seconds, f->interval.high_seconds,
                100.0 * gap_of(p), f->global_batch_samples, f->microbatch_count, f->pp_degree, p->proven ? "" : " *");
    }
}

gal_code gal_pareto_print(FILE *out, const gal_pareto *pareto, bool tf32, uint32_t most, gal_error *err)
{
    uint32_t unproven = 0;
    print_points(out, pareto, tf32);
    for (uint32_t i = 0; i < pareto->point_count; i++) {
        unproven += !pareto->point[i].proven;
    }
    if (unproven > 0) {
        fprintf(out, "* of %u of them a faster plan is not ruled out (--label-limit)\n", unproven);
    }
    if (pareto->complete) {
        fprintf(out, "no plan fits in less than %llu bytes%s\n", (unsigned long long)pareto->none.least_bytes,
                pareto->none.least_bound_bytes < pareto->none.least_bytes ? ", as far as is known" : "");
    } else {
        fprintf(out, "the first %u (--top); more need less memory\n", most);
    }
    fprintf(out, "\nthe fastest of them:");
    return gal_plan_table_print(out, &pareto->point[0].finalist.plan, err);
}

static gal_code put_point(gal_json_writer *out, const gal_pareto_point *p, bool tf32, gal_error *err)
{
    const gal_finalist *f = &p->finalist;
    const gal_step_said step = step_of(f, tf32);
    gal_json_begin_object(out, NULL);
    gal_json_put_u64(out, "peak_bytes", f->peak_bytes);
    gal_json_put_u64(out, "limit_bytes", p->limit_bytes);
    gal_step_put(out, &step);
    gal_json_put_f64(out, "simulated_seconds", f->simulated_seconds);
    gal_search_put_interval(out, &f->interval);
    gal_json_put_f64(out, "objective_seconds", f->objective_seconds);
    gal_json_put_f64(out, "lower_bound_seconds", p->lower_bound_seconds);
    gal_json_put_f64(out, "optimality_gap", gap_of(p));
    gal_json_put_bool(out, "proven", p->proven);
    gal_json_put_u64(out, "global_batch_samples", f->global_batch_samples);
    gal_json_put_u64(out, "microbatch_count", f->microbatch_count);
    gal_json_put_u64(out, "pp_degree", f->pp_degree);
    const gal_code code = gal_plan_table_put(out, &f->plan, err);
    gal_json_end_object(out);
    return code;
}

gal_code gal_pareto_print_json(const gal_pareto *pareto, const gal_assumed *assumed, bool tf32, double seconds,
                               gal_error *err)
{
    gal_code code = GAL_OK;
    gal_json_writer *out = gal_json_writer_create();
    gal_json_begin_object(out, NULL);
    gal_assumed_put(out, assumed);
    gal_json_put_bool(out, "feasible", true);
    gal_json_put_bool(out, "complete", pareto->complete);
    if (pareto->complete) {
        gal_json_put_u64(out, "least_bytes", pareto->none.least_bytes);
        gal_json_put_bool(out, "least_bytes_is_exact", pareto->none.least_bound_bytes == pareto->none.least_bytes);
    }
    gal_json_begin_array(out, "points");
    for (uint32_t i = 0; i < pareto->point_count; i++) {
        GAL_TRY(put_point(out, &pareto->point[i], tf32, err));
    }
    gal_json_end_array(out);
    if (seconds >= 0.0) {
        gal_json_put_f64(out, "search_seconds", seconds);
    }
    gal_json_end_object(out);
    GAL_TRY(gal_json_writer_save(out, "-", err));
cleanup:
    gal_json_writer_free(out);
    return code;
}
