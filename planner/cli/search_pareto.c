#include "planner/cli/search_pareto.h"

#include <stdio.h>

#include "planner/cli/search_print.h"

static double gap_of(const gal_pareto_point *p)
{
    return p->finalist.objective_seconds / p->lower_bound_seconds - 1.0;
}

void gal_pareto_print(FILE *out, const gal_pareto *pareto, uint32_t most)
{
    uint32_t unproven = 0;
    fprintf(out, "      peak MiB  samples/s  simulated s      90 %% from           to  objective s   gap %%  batch  "
                 "microbatches  pp\n");
    for (uint32_t i = 0; i < pareto->point_count; i++) {
        const gal_pareto_point *p = &pareto->point[i];
        const gal_finalist *f = &p->finalist;
        fprintf(out, "  %12.3f  %9.2f  %11.6f  %11.6f  %11.6f  %11.6f  %6.3f  %5u  %12u  %2u%s\n",
                (double)f->peak_bytes / 1048576.0, gal_finalist_rate(f), f->simulated_seconds, f->interval.low_seconds,
                f->interval.high_seconds, f->objective_seconds, 100.0 * gap_of(p), f->global_batch_samples,
                f->microbatch_count, f->pp_degree, p->proven ? "" : "  not proven");
        unproven += !p->proven;
    }
    if (unproven > 0) {
        fprintf(out, "of %u of them a faster chain is not ruled out (--label-limit)\n", unproven);
    }
    if (pareto->complete) {
        fprintf(out, "no plan fits in less than %llu bytes%s\n", (unsigned long long)pareto->none.least_bytes,
                pareto->none.least_bound_bytes < pareto->none.least_bytes ? ", as far as is known" : "");
    } else {
        fprintf(out, "the first %u (--top); more need less memory\n", most);
    }
}

static void put_point(gal_json_writer *out, const gal_pareto_point *p,
                      void (*put_plan)(gal_json_writer *out, const gal_plan *plan))
{
    const gal_finalist *f = &p->finalist;
    gal_json_begin_object(out, NULL);
    gal_json_put_u64(out, "peak_bytes", f->peak_bytes);
    gal_json_put_u64(out, "limit_bytes", p->limit_bytes);
    gal_json_put_f64(out, "samples_per_second", gal_finalist_rate(f));
    gal_json_put_f64(out, "simulated_seconds", f->simulated_seconds);
    gal_search_put_interval(out, &f->interval);
    gal_json_put_f64(out, "objective_seconds", f->objective_seconds);
    gal_json_put_f64(out, "lower_bound_seconds", p->lower_bound_seconds);
    gal_json_put_f64(out, "optimality_gap", gap_of(p));
    gal_json_put_bool(out, "proven", p->proven);
    gal_json_put_u64(out, "global_batch_samples", f->global_batch_samples);
    gal_json_put_u64(out, "microbatch_count", f->microbatch_count);
    gal_json_put_u64(out, "pp_degree", f->pp_degree);
    put_plan(out, &f->plan);
    gal_json_end_object(out);
}

gal_code gal_pareto_print_json(const gal_pareto *pareto, const gal_assumed *assumed,
                               void (*put_plan)(gal_json_writer *out, const gal_plan *plan), double seconds,
                               gal_error *err)
{
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
        put_point(out, &pareto->point[i], put_plan);
    }
    gal_json_end_array(out);
    if (seconds >= 0.0) {
        gal_json_put_f64(out, "search_seconds", seconds);
    }
    gal_json_end_object(out);
    const gal_code code = gal_json_writer_save(out, "-", err);
    gal_json_writer_free(out);
    return code;
}
