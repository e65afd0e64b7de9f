#include "planner/bound/outlook.h"

#include <stdlib.h>
#include <string.h>

/* Weights of the open stage and of what is closed, by the open stage. */
typedef struct open_stage {
    double round, tail, later, update, byte; /* later: of the tails that its backward hides */
    double slowest, exposed, closed_update;  /* left for closed stages */
    double constant;
} open_stage;

struct gal_view {
    open_stage stage[GAL_STAGES_MAX];
    double *to_go;
};

static void fill_stages(const gal_dual *dual, gal_view *view)
{
    const gal_cell *cell = dual->cell;
    const gal_weights *w = &dual->weights;
    const gal_round_counts rounds = cell->rounds;
    double slowest = 0.0;
    double exposed = 0.0;
    double update = 0.0;
    double room = 0.0; /* of the later stages, at its price */
    for (uint32_t p = cell->spec.pp_degree; p-- > 0;) {
        open_stage *s = &view->stage[p];
        s->later = exposed;
        slowest += w->slowest[p];
        exposed += w->exposed[p];
        update += w->update[p];
        s->round = gal_rounds_of_stage(&rounds, p) + rounds.slowest * w->slowest[p];
        s->tail = w->exposed[p];
        s->update = w->update[p];
        s->byte = w->per_byte[p];
        s->slowest = rounds.slowest * gal_at_least_zero(1.0 - slowest);
        s->exposed = gal_at_least_zero(1.0 - exposed);
        s->closed_update = gal_at_least_zero(1.0 - update);
        s->constant = cell->common_seconds - room - w->per_byte[p] * (double)cell->spec.arena_limit_bytes;
        room += w->per_byte[p] * (double)((int64_t)cell->spec.arena_limit_bytes - gal_shared_sum(&dual->least[p]));
    }
}

/* Other weights of max g; the price of a byte keeps its relation to a second of its stage. */
static void set_slowest(gal_dual *dual, const gal_weights *base, const double *slowest)
{
    const gal_round_counts rounds = dual->cell->rounds;
    dual->weights = *base;
    for (uint32_t p = 0; p < dual->cell->spec.pp_degree; p++) {
        dual->weights.slowest[p] = slowest[p];
        const double each = gal_rounds_of_stage(&rounds, p);
        dual->weights.per_byte[p] *= (each + rounds.slowest * slowest[p]) / (each + rounds.slowest * base->slowest[p]);
    }
}

static gal_code add_view(gal_dual *dual, gal_outlook *outlook, gal_error *err)
{
    const gal_cell *cell = dual->cell;
    const size_t nodes = (size_t)cell->block_count * cell->spec.pp_degree * cell->strategy_count;
    gal_view *view = &outlook->view[outlook->view_count];
    view->to_go = malloc((nodes + 1) * sizeof *view->to_go);
    if (view->to_go == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    outlook->view_count++;
    memcpy(view->to_go, dual->to_go, nodes * sizeof *view->to_go);
    fill_stages(dual, view);
    return GAL_OK;
}

static gal_code add_weighted(gal_dual *dual, const gal_weights *base, const double *slowest, gal_outlook *outlook,
                             gal_error *err)
{
    set_slowest(dual, base, slowest);
    gal_dual_weigh(dual);
    gal_dual_solve(dual);
    return add_view(dual, outlook, err);
}

static gal_code add_views(gal_dual *dual, const gal_weights *base, gal_outlook *outlook, gal_error *err)
{
    const uint32_t stages = dual->cell->spec.pp_degree;
    double slowest[GAL_STAGES_MAX];
    gal_code code = GAL_OK;
    memset(slowest, 0, sizeof slowest);
    code = add_weighted(dual, base, slowest, outlook, err); /* all on what is known of the slowest */
    for (uint32_t p = 0; code == GAL_OK && p < stages; p++) {
        memset(slowest, 0, sizeof slowest);
        slowest[p] = 1.0;
        code = add_weighted(dual, base, slowest, outlook, err);
    }
    for (uint32_t first = 1; code == GAL_OK && first + 1 < stages; first++) {
        double sum = 0.0;
        memset(slowest, 0, sizeof slowest);
        for (uint32_t p = first; p < stages; p++) {
            sum += base->slowest[p];
        }
        for (uint32_t p = first; p < stages; p++) {
            slowest[p] = sum > 0.0 ? base->slowest[p] / sum : 1.0 / (stages - first);
        }
        code = add_weighted(dual, base, slowest, outlook, err);
    }
    return code;
}

gal_code gal_outlook_create(gal_dual *dual, gal_outlook *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t stages = dual->cell->spec.pp_degree;
    const gal_weights base = dual->weights;
    gal_outlook outlook = {.cell = dual->cell, .dual = dual};
    outlook.view = calloc(2 * (size_t)stages + 2, sizeof *outlook.view);
    if (outlook.view == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
    }
    GAL_TRY(add_view(dual, &outlook, err));
    if (stages > 1 && dual->cell->spec.microbatch_count > 1) {
        code = add_views(dual, &base, &outlook, err);
        dual->weights = base;
        gal_dual_weigh(dual);
        gal_dual_solve(dual);
        GAL_TRY(code);
    }
    *out = outlook;
    outlook = (gal_outlook){0};
cleanup:
    gal_outlook_free(&outlook);
    return code;
}

void gal_outlook_free(gal_outlook *outlook)
{
    for (uint32_t i = 0; i < outlook->view_count; i++) {
        free(outlook->view[i].to_go);
    }
    free(outlook->view);
    *outlook = (gal_outlook){0};
}

/* Whether a bound reaches `seconds` where no completion has a faster slowest stage. */
static bool view_reaches(const gal_outlook *outlook, uint32_t stage, size_t node, const gal_path *path, double slowest,
                         double seconds)
{
    for (uint32_t i = 0; i < outlook->view_count; i++) {
        const open_stage *w = &outlook->view[i].stage[stage];
        const double closed =
            path->additive + w->slowest * slowest + w->exposed * path->exposed + w->closed_update * path->update;
        const double open = w->round * path->stage_round + w->tail * (path->stage_tail - path->drained) -
                            w->later * (path->drained + path->stage_backward) + w->update * path->stage_update +
                            w->byte * (double)gal_path_bytes(path);
        if (closed + open + w->constant + outlook->view[i].to_go[node] >= seconds) {
            return true;
        }
    }
    return false;
}

bool gal_outlook_reaches(const gal_outlook *outlook, uint32_t block, uint32_t stage, uint32_t strategy,
                         const gal_path *path, double seconds)
{
    const gal_dual *dual = outlook->dual;
    const size_t node = gal_dual_node(outlook->cell, block, stage, strategy);
    if (view_reaches(outlook, stage, node, path, path->slowest, seconds)) {
        return true;
    }
    if (dual->bottleneck == NULL) {
        return false;
    }
    const double slowest = gal_bottleneck_of(dual->bottleneck, dual, block, stage, path);
    return slowest > path->slowest && view_reaches(outlook, stage, node, path, slowest, seconds);
}
