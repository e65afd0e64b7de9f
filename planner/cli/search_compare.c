/* The algorithms side by side. Times are measured, so --json has them only with --timing: else its bytes are the same
 * in every run. */
#include "planner/cli/search_compare.h"

#include <math.h>
#include <stdio.h>

#include "planner/cell/finalist.h"
#include "planner/cli/search_print.h"

typedef struct row {
    const gal_algorithm *algorithm;
    gal_algorithm_answer answer;
    double seconds;
} row;

/* Seconds of a sample of the fastest plan that exact does not rule out. */
static double bound_per_sample(const gal_search_result *exact)
{
    double bound = HUGE_VAL;
    for (uint32_t i = 0; i < exact->finalist_count; i++) {
        const gal_finalist *f = &exact->finalist[i];
        bound = fmin(bound, f->bound_seconds / f->global_batch_samples);
    }
    return bound;
}

static double gap_of(double objective_seconds, uint32_t batch, double bound)
{
    return objective_seconds / batch / bound - 1.0;
}

/* ---- text ---- */

static void print_row(const row *r, double bound)
{
    const gal_algorithm_answer *a = &r->answer;
    printf("%-15s", r->algorithm->name);
    if (a->search.feasible) {
        const gal_finalist *f = &a->search.finalist[0];
        printf("  %5u  %12u  %2u  %11.6f  %8.3f  %11.6f  %11.6f  %11.6f  %9.2f  %9.1f  yes ", f->global_batch_samples,
               f->microbatch_count, f->pp_degree, f->objective_seconds,
               100.0 * gap_of(f->objective_seconds, f->global_batch_samples, bound), f->simulated_seconds,
               f->interval.low_seconds, f->interval.high_seconds, gal_finalist_rate(f),
               (double)f->peak_bytes / 1048576.0);
    } else if (a->misfit_cell_count > 0) {
        const gal_misfit *m = &a->misfit;
        printf("  %5u  %12u  %2u  %11.6f  %8s  %11s  %11s  %11s  %9s  %9.1f  no  ", m->numbers.global_batch_samples,
               m->numbers.microbatch_count, m->numbers.pp_degree, m->objective_seconds, "-", "-", "-", "-", "-",
               (double)m->bytes / 1048576.0);
    } else {
        printf("  %5s  %12s  %2s  %11s  %8s  %11s  %11s  %11s  %9s  %9s  -   ", "-", "-", "-", "-", "-", "-", "-", "-",
               "-", "-");
    }
    printf("  %10.1f\n", r->seconds * 1e3);
}

static void print_notes(const row *rows)
{
    for (uint32_t i = 0; i < GAL_ALGORITHM_COUNT; i++) {
        const gal_algorithm_answer *a = &rows[i].answer;
        if (a->misfit_cell_count > 0) {
            printf("%s: in %u of %u cells its plan fits by its own count of bytes alone\n", rows[i].algorithm->name,
                   a->misfit_cell_count, a->search.cell_count);
        }
        if (a->search.unproven_cell_count > 0) {
            printf("%s: in %u of %u cells %s\n", rows[i].algorithm->name, a->search.unproven_cell_count,
                   a->search.cell_count,
                   i == GAL_ALGORITHM_EXACT ? "a faster chain than the one found is not ruled out (--label-limit)"
                                            : "it did not finish (too large, or --time-limit)");
        }
    }
}

static void print_text(const row *rows, double bound)
{
    printf("algorithm        batch  microbatches  pp  objective s     gap %%  simulated s    90 %% from           to  "
           "samples/s   peak MiB  fits  "
           "searched ms\n");
    for (uint32_t i = 0; i < GAL_ALGORITHM_COUNT; i++) {
        print_row(&rows[i], bound);
    }
    print_notes(rows);
}

/* ---- JSON ---- */

static void put_numbers(gal_json_writer *out, uint32_t batch, uint32_t microbatches, uint32_t pp_degree)
{
    gal_json_put_u64(out, "global_batch_samples", batch);
    gal_json_put_u64(out, "microbatch_count", microbatches);
    gal_json_put_u64(out, "pp_degree", pp_degree);
}

static void put_row(gal_json_writer *out, const row *r, double bound, bool timing)
{
    const gal_algorithm_answer *a = &r->answer;
    gal_json_begin_object(out, NULL);
    gal_json_put_string(out, "algorithm", r->algorithm->name);
    gal_json_put_bool(out, "feasible", a->search.feasible);
    if (a->search.feasible) {
        const gal_finalist *f = &a->search.finalist[0];
        put_numbers(out, f->global_batch_samples, f->microbatch_count, f->pp_degree);
        gal_json_put_f64(out, "samples_per_second", gal_finalist_rate(f));
        gal_json_put_f64(out, "objective_seconds", f->objective_seconds);
        gal_json_put_f64(out, "own_seconds", a->opinion.seconds);
        gal_json_put_f64(out, "simulated_seconds", f->simulated_seconds);
        gal_search_put_interval(out, &f->interval);
        gal_json_put_f64(out, "optimality_gap", gap_of(f->objective_seconds, f->global_batch_samples, bound));
        gal_json_put_u64(out, "peak_bytes", f->peak_bytes);
    }
    if (a->misfit_cell_count > 0) {
        const gal_misfit *m = &a->misfit;
        gal_json_begin_object(out, "misfit");
        put_numbers(out, m->numbers.global_batch_samples, m->numbers.microbatch_count, m->numbers.pp_degree);
        gal_json_put_f64(out, "objective_seconds", m->objective_seconds);
        gal_json_put_f64(out, "own_seconds", m->own_seconds);
        gal_json_put_u64(out, "bytes", m->bytes);
        gal_json_end_object(out);
    }
    gal_json_put_u64(out, "cell_count", a->search.cell_count);
    gal_json_put_u64(out, "misfit_cell_count", a->misfit_cell_count);
    gal_json_put_u64(out, "unproven_cell_count", a->search.unproven_cell_count);
    if (timing) {
        gal_json_put_f64(out, "search_seconds", r->seconds);
    }
    gal_json_end_object(out);
}

static gal_code print_json(const row *rows, const gal_assumed *assumed, double bound, bool timing, gal_error *err)
{
    gal_json_writer *out = gal_json_writer_create();
    gal_json_begin_object(out, NULL);
    gal_assumed_put(out, assumed);
    gal_json_put_f64(out, "lower_bound_seconds_per_sample", bound);
    gal_json_begin_array(out, "algorithms");
    for (uint32_t i = 0; i < GAL_ALGORITHM_COUNT; i++) {
        put_row(out, &rows[i], bound, timing);
    }
    gal_json_end_array(out);
    gal_json_end_object(out);
    const gal_code code = gal_json_writer_save(out, "-", err);
    gal_json_writer_free(out);
    return code;
}

/* ---- the rows ---- */

static gal_code fill_rows(const gal_search_request *request, const gal_solver_limits *limits, gal_searching *searching,
                          row *rows, gal_error *err)
{
    for (uint32_t i = 0; i < GAL_ALGORITHM_COUNT; i++) {
        rows[i].algorithm = &gal_algorithms[i];
        gal_searching_begin(searching);
        const gal_code code = rows[i].algorithm->search(request, limits, &rows[i].answer, err);
        rows[i].seconds = gal_searching_end(searching);
        *searching = (gal_searching){.quiet = searching->quiet};
        if (code != GAL_OK) {
            return code;
        }
        const gal_code known = gal_finalists_interval(request->durations, &rows[i].answer.search, 1, err);
        if (known != GAL_OK) {
            return known;
        }
        if (i == GAL_ALGORITHM_EXACT && !rows[i].answer.search.feasible) {
            return GAL_NO;
        }
    }
    return GAL_OK;
}

gal_code gal_cli_search_compare(const gal_search_request *request, const gal_solver_limits *limits,
                                const gal_assumed *assumed, bool json, bool timing, gal_searching *searching,
                                gal_error *err)
{
    gal_code code = GAL_OK;
    row rows[GAL_ALGORITHM_COUNT] = {{0}};
    code = fill_rows(request, limits, searching, rows, err);
    if (code == GAL_NO) {
        fprintf(stderr, "galplan: exact finds no plan, so there is nothing to compare\n");
        goto cleanup;
    }
    GAL_TRY(code);
    const double bound = bound_per_sample(&rows[GAL_ALGORITHM_EXACT].answer.search);
    if (json) {
        GAL_TRY(print_json(rows, assumed, bound, timing, err));
    } else {
        gal_assumed_print(stdout, assumed);
        print_text(rows, bound);
    }
cleanup:
    for (uint32_t i = 0; i < GAL_ALGORITHM_COUNT; i++) {
        gal_algorithm_answer_free(&rows[i].answer);
    }
    return code;
}
