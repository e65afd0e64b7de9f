/* The functions of GLPK that we call, from a library that is loaded when the first integer program is solved: with the
 * six that it brings it takes 0.7 ms of processor time to load (median of 80 starts, 2026-11-22), where a whole search
 * on 8 devices takes 13, and none but `ilp` calls it. */
#include "planner/solve/late_glpk.h"

#include <dlfcn.h>
#include <glpk.h>
#include <stdbool.h>
#include <string.h>

/* X(result, name, parameters, arguments): functions with a result, and those without. */
#define FUNCTIONS(X)                                                                                                   \
    X(glp_prob *, glp_create_prob, (void), ())                                                                         \
    X(int, glp_add_rows, (glp_prob * p, int count), (p, count))                                                        \
    X(int, glp_add_cols, (glp_prob * p, int count), (p, count))                                                        \
    X(int, glp_simplex, (glp_prob * p, const glp_smcp *how), (p, how))                                                 \
    X(int, glp_get_status, (glp_prob * p), (p))                                                                        \
    X(double, glp_get_obj_val, (glp_prob * p), (p))                                                                    \
    X(double, glp_get_row_dual, (glp_prob * p, int row), (p, row))                                                     \
    X(double, glp_get_col_prim, (glp_prob * p, int column), (p, column))                                               \
    X(int, glp_intopt, (glp_prob * p, const glp_iocp *how), (p, how))                                                  \
    X(int, glp_mip_status, (glp_prob * p), (p))                                                                        \
    X(double, glp_mip_obj_val, (glp_prob * p), (p))                                                                    \
    X(double, glp_mip_col_val, (glp_prob * p, int column), (p, column))                                                \
    X(int, glp_ios_reason, (glp_tree * tree), (tree))                                                                  \
    X(glp_prob *, glp_ios_get_prob, (glp_tree * tree), (tree))                                                         \
    X(double, glp_ios_node_bound, (glp_tree * tree, int node), (tree, node))                                           \
    X(int, glp_ios_best_node, (glp_tree * tree), (tree))                                                               \
    X(int, glp_ios_can_branch, (glp_tree * tree, int column), (tree, column))                                          \
    X(int, glp_ios_heur_sol, (glp_tree * tree, const double value[]), (tree, value))                                   \
    X(int, glp_free_env, (void), ())                                                                                   \
    X(int, glp_term_out, (int flag), (flag))
#define PROCEDURES(X)                                                                                                  \
    X(void, glp_set_row_bnds, (glp_prob * p, int row, int type, double lower, double upper),                           \
      (p, row, type, lower, upper))                                                                                    \
    X(void, glp_set_col_bnds, (glp_prob * p, int column, int type, double lower, double upper),                        \
      (p, column, type, lower, upper))                                                                                 \
    X(void, glp_set_col_kind, (glp_prob * p, int column, int kind), (p, column, kind))                                 \
    X(void, glp_set_obj_coef, (glp_prob * p, int column, double cost), (p, column, cost))                              \
    X(void, glp_load_matrix, (glp_prob * p, int count, const int row[], const int column[], const double entry[]),     \
      (p, count, row, column, entry))                                                                                  \
    X(void, glp_delete_prob, (glp_prob * p), (p))                                                                      \
    X(void, glp_scale_prob, (glp_prob * p, int flags), (p, flags))                                                     \
    X(void, glp_adv_basis, (glp_prob * p, int flags), (p, flags))                                                      \
    X(void, glp_init_smcp, (glp_smcp * how), (how))                                                                    \
    X(void, glp_init_iocp, (glp_iocp * how), (how))                                                                    \
    X(void, glp_ios_branch_upon, (glp_tree * tree, int column, int branch), (tree, column, branch))                    \
    X(void, glp_error_hook, (void (*hook)(void *context), void *context), (hook, context))

/* The library's own functions. */
static struct {
    bool loaded;
#define X(result, name, parameters, arguments) __typeof__(name) *name##_there;
    FUNCTIONS(X)
    PROCEDURES(X)
#undef X
} glpk;

#define X(result, name, parameters, arguments)                                                                         \
    result name parameters                                                                                             \
    {                                                                                                                  \
        return glpk.name##_there arguments;                                                                            \
    }
FUNCTIONS(X)
#undef X

#define X(result, name, parameters, arguments)                                                                         \
    result name parameters                                                                                             \
    {                                                                                                                  \
        glpk.name##_there arguments;                                                                                   \
    }
PROCEDURES(X)
#undef X

/* False: it is not there. */
static bool find(void *library, const char *name, void *function, size_t bytes)
{
    void *address = dlsym(library, name);
    memcpy(function, &address, bytes);
    return address != NULL;
}

/* Returns the name of a function that is not there; NULL: all are. */
static const char *find_all(void *library)
{
#define X(result, name, parameters, arguments)                                                                         \
    if (!find(library, #name, &glpk.name##_there, sizeof glpk.name##_there)) {                                         \
        return #name;                                                                                                  \
    }
    FUNCTIONS(X)
    PROCEDURES(X)
#undef X
    return NULL;
}

gal_code gal_glpk_load(gal_error *err)
{
    static const char *const names[] = {"libglpk.so.40" /* GLPK 4.61 to 5.0 */, "libglpk.so"};
    void *library = NULL;
    if (glpk.loaded) {
        return GAL_OK;
    }
    for (size_t i = 0; library == NULL && i < sizeof names / sizeof names[0]; i++) {
        library = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
    }
    if (library == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "GLPK cannot be loaded: %s", dlerror());
    }
    const char *lacks = find_all(library);
    if (lacks != NULL) {
        (void)dlclose(library);
        return gal_fail(err, GAL_ERR_SYSTEM, "GLPK has no %s", lacks);
    }
    glpk.loaded = true; /* until the process ends */
    return GAL_OK;
}
