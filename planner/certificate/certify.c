#include "planner/certificate/certify.h"

#include <math.h>
#include <stdlib.h>

#include "planner/cell/cell_list.h"
#include "runtime/program/schedule.h"

/* On a cell, beyond its cheap bounds: about 20 ms. */
static const uint64_t work_limit = 10000000;
enum { PASSES = 10 };
static const double rounding = 1e-9;

typedef struct batch {
    const gal_search_request *request;
    const gal_certificate_sources *from;
    gal_certificate_way way;
    gal_certify_cell *cell;
    uint32_t count;
} batch;

static void list_cells(const batch *b, gal_certificate *out)
{
    for (uint32_t i = 0; i < b->count; i++) {
        gal_u32_list_add_once(&out->microbatch_counts, b->cell[i].numbers.microbatch_count);
        gal_u32_list_add_once(&out->pp_degrees, b->cell[i].numbers.pp_degree);
    }
}

/* A cell that is proved, at the same time as others: what one shows does not spare the others. */
typedef struct proof {
    const batch *b;
    gal_certify_cell *c;
    double good, bound;
    gal_certificate_proof own;
} proof;

/* What can be proved again of a cell, up to the bound; what is good is not raised by means that take longer than the
 * search. */
static gal_code prove_cell(void *context, uint32_t index, gal_error *err)
{
    proof *p = (proof *)context + index;
    const gal_certificate_sources *from = p->b->from;
    const gal_cell_spec spec = gal_search_cell_spec(p->b->request, &p->c->numbers, from->cache);
    const gal_certificate_cell cell = {.model = spec.model,
                                       .space = spec.space,
                                       .schedule = spec.schedule,
                                       .prefetch_depth = spec.prefetch_depth,
                                       .device_count = spec.device_count,
                                       .global_batch_samples = spec.global_batch_samples,
                                       .microbatch_count = spec.microbatch_count,
                                       .pp_degree = spec.pp_degree,
                                       .work_limit = work_limit,
                                       .arena_limit_bytes = spec.arena_limit_bytes,
                                       .way = p->b->way};
    return gal_certificate_bound(from, &cell, p->bound, fmin(p->good, p->bound), &p->own, err);
}

static gal_code prove_cells(proof *all, uint32_t count, double *bound, gal_error *err)
{
    const gal_code code = gal_price_at_once(all[0].b->from->cache, count, prove_cell, all, err);
    for (uint32_t i = 0; code == GAL_OK && i < count; i++) {
        const bool stood = all[i].good >= all[i].bound && all[i].own.seconds >= all[i].bound;
        all[i].c->plain_seconds = all[i].own.plain ? all[i].bound : 0.0;
        all[i].c->stood_seconds = stood ? all[i].bound : 0.0;
        *bound = fmin(*bound, all[i].own.seconds);
    }
    return code;
}

/* Those that may lower the bound first, so that no more is asked of the others. */
static int least_first(const void *x, const void *y)
{
    const gal_certify_cell *a = x;
    const gal_certify_cell *b = y;
    if (a->bound_seconds != b->bound_seconds) {
        return a->bound_seconds < b->bound_seconds ? -1 : 1;
    }
    if (a->numbers.microbatch_count != b->numbers.microbatch_count) {
        return a->numbers.microbatch_count < b->numbers.microbatch_count ? -1 : 1;
    }
    return a->numbers.pp_degree < b->numbers.pp_degree ? -1 : a->numbers.pp_degree > b->numbers.pp_degree;
}

static bool is_proved(const gal_certify_cell *c, double bound)
{
    return bound == c->stood_seconds || bound == c->plain_seconds || bound < c->plain_seconds * (1.0 - rounding);
}

/* The first cell alone. */
static gal_code prove_batch(const batch *b, double good, double *bound, gal_error *err)
{
    gal_code code = GAL_OK;
    proof all[GAL_CELLS_AT_ONCE];
    const uint32_t most = gal_search_cells_at_once(b->request);
    uint32_t next = 0;
    while (code == GAL_OK && *bound > 0.0 && next < b->count) {
        const uint32_t wanted = next == 0 ? 1 : most;
        uint32_t count = 0;
        for (; next < b->count && count < wanted; next++) {
            if (!is_proved(&b->cell[next], *bound)) {
                all[count++] = (proof){.b = b, .c = &b->cell[next], .good = good, .bound = *bound};
            }
        }
        code = count > 0 ? prove_cells(all, count, bound, err) : GAL_OK;
    }
    return code;
}

/* Uniform plans are not bounded by what anybody can repeat. */
static bool is_bounded(const gal_search_request *r)
{
    return r->schedule != GAL_SCHEDULE_INTERLEAVED && !gal_schedule_splits(r->schedule);
}

/* Where the search leaves a gap no more is asked for than what is good: a bound that some cell does not reach has to be
 * proved again. A cell that was proved up to a bound that fell later may be proved a little less up to that one: so the
 * bound itself is asked for, as galplan verify will, until it stands. One that still falls is not claimed. */
gal_code gal_certify(const gal_search_request *request, const gal_certificate_sources *from, gal_certificate_way way,
                     gal_certify_cell *cell, uint32_t count, double *searched_seconds, gal_plan *plan, gal_error *err)
{
    gal_code code = GAL_OK;
    batch b = {.request = request, .from = from, .way = way, .cell = cell, .count = count};
    const double wanted = fmin(plan->objective_seconds / (1.0 + request->gap), *searched_seconds);
    const double good = fmax(*searched_seconds * (1.0 - request->gap / 10.0), wanted);
    const bool is_exact = *searched_seconds >= plan->objective_seconds * (1.0 - rounding);
    double bound = !is_bounded(request) ? 0.0 : is_exact ? *searched_seconds : good;
    double claim = HUGE_VAL;
    gal_certificate *out = &plan->certificate;
    *out = (gal_certificate){.present = true,
                             .memory_bytes =
                                 request->memory_bytes == 0 ? plan->cluster.device.memory_bytes : request->memory_bytes,
                             .space = request->space};
    list_cells(&b, out);
    qsort(cell, count, sizeof *cell, least_first);
    GAL_TRY(prove_batch(&b, good, &bound, err));
    for (uint32_t pass = 0; pass < PASSES && bound < claim; pass++) {
        claim = bound;
        GAL_TRY(prove_batch(&b, claim, &bound, err));
    }
    plan->lower_bound_seconds = bound < claim ? 0.0 : bound;
    if (plan->lower_bound_seconds > 0.0 && plan->lower_bound_seconds >= good) { /* which anybody can prove again */
        *searched_seconds = plan->lower_bound_seconds;
    }
    out->searched_bound_seconds = *searched_seconds > plan->lower_bound_seconds ? *searched_seconds : 0.0;
cleanup:
    return code;
}
