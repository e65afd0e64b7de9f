/* The only file that knows GLPK, beside the one that loads it. It ends the process where it fails, unless its hook
 * jumps: everything that calls it runs under the hook, and what it had allocated goes with its environment. */
#include "planner/solve/ilp_glpk.h"

#include <glpk.h>
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>

#include "planner/solve/late_glpk.h"

/* ---- programs ---- */

void gal_lp_free(gal_lp *lp)
{
    free(lp->row);
    free(lp->column);
    free(lp->entry_row);
    free(lp->entry_column);
    free(lp->entry);
    *lp = (gal_lp){0};
}

void gal_lp_clear(gal_lp *lp)
{
    lp->row_count = lp->column_count = lp->entry_count = 0;
}

/* Room for one more behind `count`, which begins at 1. False without memory. */
static bool has_room(void **list, int count, int *capacity, size_t bytes)
{
    if (count + 2 > *capacity) {
        const int larger = *capacity == 0 ? 1024 : *capacity * 2;
        void *moved = realloc(*list, (size_t)larger * bytes);
        if (moved == NULL) {
            return false;
        }
        *list = moved;
        *capacity = larger;
    }
    return true;
}

int gal_lp_add_row(gal_lp *lp, double lower, double upper)
{
    void *list = lp->row;
    lp->no_memory = lp->no_memory || !has_room(&list, lp->row_count, &lp->row_capacity, sizeof *lp->row);
    lp->row = list;
    if (lp->no_memory) {
        return 0;
    }
    lp->row[++lp->row_count] = (gal_lp_row){lower, upper};
    return lp->row_count;
}

int gal_lp_add_column(gal_lp *lp, gal_lp_kind kind, double cost, double upper)
{
    void *list = lp->column;
    lp->no_memory = lp->no_memory || !has_room(&list, lp->column_count, &lp->column_capacity, sizeof *lp->column);
    lp->column = list;
    if (lp->no_memory) {
        return 0;
    }
    lp->column[++lp->column_count] = (gal_lp_column){kind, cost, upper};
    return lp->column_count;
}

void gal_lp_put(gal_lp *lp, int row, double entry)
{
    if (lp->no_memory || entry == 0.0) {
        return;
    }
    int capacity[3] = {lp->entry_capacity, lp->entry_capacity, lp->entry_capacity};
    void *rows = lp->entry_row;
    void *columns = lp->entry_column;
    void *entries = lp->entry;
    const bool good = has_room(&rows, lp->entry_count, &capacity[0], sizeof *lp->entry_row) &&
                      has_room(&columns, lp->entry_count, &capacity[1], sizeof *lp->entry_column) &&
                      has_room(&entries, lp->entry_count, &capacity[2], sizeof *lp->entry);
    lp->entry_row = rows;
    lp->entry_column = columns;
    lp->entry = entries;
    if (!good) {
        lp->no_memory = true;
        return;
    }
    lp->entry_capacity = capacity[0];
    lp->entry_count++;
    lp->entry_row[lp->entry_count] = row;
    lp->entry_column[lp->entry_count] = lp->column_count;
    lp->entry[lp->entry_count] = entry;
}

/* ---- GLPK's copy ---- */

static int bounds_of(double lower, double upper)
{
    if (lower == upper) {
        return GLP_FX;
    }
    if (isinf(lower)) {
        return isinf(upper) ? GLP_FR : GLP_UP;
    }
    return isinf(upper) ? GLP_LO : GLP_DB;
}

static glp_prob *copy_of(const gal_lp *lp)
{
    glp_prob *copy = glp_create_prob();
    if (lp->row_count > 0) {
        (void)glp_add_rows(copy, lp->row_count);
    }
    if (lp->column_count > 0) {
        (void)glp_add_cols(copy, lp->column_count);
    }
    for (int r = 1; r <= lp->row_count; r++) {
        const gal_lp_row *row = &lp->row[r];
        glp_set_row_bnds(copy, r, bounds_of(row->lower, row->upper), row->lower, row->upper);
    }
    for (int c = 1; c <= lp->column_count; c++) {
        const gal_lp_column *column = &lp->column[c];
        glp_set_col_bnds(copy, c, bounds_of(0.0, column->upper), 0.0, column->upper);
        glp_set_col_kind(copy, c, column->kind == GAL_LP_ANY ? GLP_CV : GLP_IV);
        glp_set_obj_coef(copy, c, column->cost);
    }
    glp_load_matrix(copy, lp->entry_count, lp->entry_row, lp->entry_column, lp->entry);
    return copy;
}

/* ---- under the hook ---- */

typedef struct job {
    const gal_lp *lp;
    const gal_lp_search *how; /* NULL: relax */
    double time_limit_seconds;
    gal_lp_end end;
    double objective;
    double *price, *value;
    gal_lp_found *found;
} job;

static int milliseconds(double seconds)
{
    return seconds < 1e-3 ? 1 : seconds > 2e6 ? 2000000000 : (int)(seconds * 1e3);
}

static gal_lp_end solve_relaxed(glp_prob *copy, double time_limit_seconds)
{
    glp_smcp how;
    glp_init_smcp(&how);
    how.msg_lev = GLP_MSG_OFF;
    how.tm_lim = milliseconds(time_limit_seconds);
    how.meth = GLP_DUALP;
    glp_scale_prob(copy, GLP_SF_AUTO);
    glp_adv_basis(copy, 0);
    if (glp_simplex(copy, &how) != 0) {
        return GAL_LP_LIMIT;
    }
    const int status = glp_get_status(copy);
    return status == GLP_OPT ? GAL_LP_OPTIMUM : status == GLP_NOFEAS ? GAL_LP_NOTHING : GAL_LP_LIMIT;
}

static void run_relaxed(job *j)
{
    glp_prob *copy = copy_of(j->lp);
    j->end = solve_relaxed(copy, j->time_limit_seconds);
    if (j->end == GAL_LP_OPTIMUM) {
        j->objective = glp_get_obj_val(copy);
        for (int r = 1; r <= j->lp->row_count; r++) {
            j->price[r] = glp_get_row_dual(copy, r);
        }
        for (int c = 1; j->value != NULL && c <= j->lp->column_count; c++) {
            j->value[c] = glp_get_col_prim(copy, c);
        }
    }
    glp_delete_prob(copy);
}

/* The column of the first kind in order that is farthest from whole; single ones are left to GLPK. */
static void choose_branch(glp_tree *tree, const gal_lp *lp)
{
    glp_prob *here = glp_ios_get_prob(tree);
    int best = 0;
    double farthest = 0.0;
    for (int c = 1; c <= lp->column_count; c++) {
        const gal_lp_kind kind = lp->column[c].kind;
        if (kind <= GAL_LP_WHOLE || (best != 0 && kind < lp->column[best].kind) || !glp_ios_can_branch(tree, c)) {
            continue;
        }
        const double value = glp_get_col_prim(here, c);
        const double away = fmin(value - floor(value), ceil(value) - value);
        if (best == 0 || kind > lp->column[best].kind || away > farthest) {
            best = c;
            farthest = away;
        }
    }
    if (best != 0) {
        glp_ios_branch_upon(tree, best, GLP_NO_BRNCH);
    }
}

static void on_event(glp_tree *tree, void *context)
{
    job *j = context;
    const int best = glp_ios_best_node(tree);
    switch (glp_ios_reason(tree)) {
    case GLP_ISELECT:
        j->found->branch_count++;
        if (best != 0 && glp_ios_node_bound(tree, best) > j->found->bound) {
            j->found->bound = glp_ios_node_bound(tree, best);
        }
        break;
    case GLP_IHEUR:
        if (j->how->known != NULL && glp_mip_status(glp_ios_get_prob(tree)) == GLP_UNDEF) {
            (void)glp_ios_heur_sol(tree, j->how->known);
        }
        break;
    case GLP_IBRANCH:
        choose_branch(tree, j->lp);
        break;
    default:
        break;
    }
}

static void run_search(job *j)
{
    gal_lp_found *found = j->found;
    glp_prob *copy = copy_of(j->lp);
    glp_iocp how;
    glp_init_iocp(&how);
    how.msg_lev = GLP_MSG_OFF;
    how.tm_lim = milliseconds(j->how->time_limit_seconds);
    how.cb_func = on_event;
    how.cb_info = j;
    *found = (gal_lp_found){.end = solve_relaxed(copy, j->how->time_limit_seconds), .bound = -INFINITY};
    if (found->end == GAL_LP_OPTIMUM) {
        found->bound = glp_get_obj_val(copy);
        const bool ended = glp_intopt(copy, &how) == 0;
        const int status = glp_mip_status(copy);
        found->has_values = status == GLP_OPT || status == GLP_FEAS;
        found->end = !ended ? GAL_LP_LIMIT : found->has_values ? GAL_LP_OPTIMUM : GAL_LP_NOTHING;
    }
    if (found->has_values) {
        found->objective = glp_mip_obj_val(copy);
        found->bound = found->end == GAL_LP_OPTIMUM ? found->objective : fmin(found->bound, found->objective);
        for (int c = 1; c <= j->lp->column_count; c++) {
            j->value[c] = glp_mip_col_val(copy, c);
        }
    }
    glp_delete_prob(copy);
}

static void on_failure(void *place)
{
    longjmp(*(jmp_buf *)place, 1);
}

static gal_code run(job *j, gal_error *err)
{
    volatile bool good = false;
    jmp_buf place;
    if (j->lp->no_memory) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory");
    }
    if (gal_glpk_load(err) != GAL_OK) {
        return GAL_ERR_SYSTEM;
    }
    glp_term_out(GLP_OFF);
    glp_error_hook(on_failure, &place);
    if (setjmp(place) == 0) {
        (j->how == NULL ? run_relaxed : run_search)(j);
        good = true;
    }
    glp_error_hook(NULL, NULL);
    (void)glp_free_env();
    return good ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "out of memory, or GLPK gave up");
}

gal_code gal_lp_relax(const gal_lp *lp, double time_limit_seconds, gal_lp_end *end, double *objective, double *value,
                      double *price, gal_error *err)
{
    job j = {.lp = lp, .time_limit_seconds = time_limit_seconds, .value = value, .price = price};
    const gal_code code = run(&j, err);
    if (code == GAL_OK) {
        *end = j.end;
        *objective = j.objective;
    }
    return code;
}

gal_code gal_lp_solve(const gal_lp *lp, const gal_lp_search *how, double *value, gal_lp_found *found, gal_error *err)
{
    job j = {.lp = lp, .how = how, .value = value, .found = found};
    return run(&j, err);
}
