/* GLPK when it is called. For ilp_glpk.c alone. */
#ifndef GAL_PLANNER_SOLVE_LATE_GLPK_H
#define GAL_PLANNER_SOLVE_LATE_GLPK_H

#include "schemas/base/status.h"

/* Loads the library, unless it is there; before any function of it is called. GAL_ERR_SYSTEM if it cannot be loaded, or
 * lacks a function that we call. */
gal_code gal_glpk_load(gal_error *err);

#endif
