/* What a layer may choose in one stage: its strategies without those that another one replaces at no loss. */
#ifndef GAL_PLANNER_SOLVE_MENU_H
#define GAL_PLANNER_SOLVE_MENU_H

#include "planner/solve/instance.h"

typedef struct gal_choice {
    int64_t seconds_ps;
    int64_t held_bytes;     /* before its forward runs and after: states, and the forward of all microbatches but one */
    int64_t kept_bytes;     /* held_bytes + forward of one microbatch */
    int64_t backward_bytes; /* on top, while its backward runs */
    uint32_t strategy;
} gal_choice;

/* By kind, whether it is first and last in the stage, and class: choice[start[slot]] .. choice[start[slot + 1]]. */
typedef struct gal_menu {
    const gal_instance *instance;
    uint32_t stage;
    bool first_differs, last_differs; /* from layers inside the stage */
    uint32_t *start;                  /* (kind, first, last, class), and the end */
    gal_choice *choice;
} gal_menu;

gal_code gal_menu_create(const gal_instance *instance, uint32_t stage, gal_menu **out, gal_error *err);
void gal_menu_free(gal_menu *options);

/* Where the classes of a layer begin in start. */
static inline size_t gal_menu_slot(const gal_menu *o, uint32_t kind, bool is_first, bool is_last)
{
    const size_t variant =
        (size_t)kind * 4 + (size_t)(is_first && o->first_differs) * 2 + (size_t)(is_last && o->last_differs);
    return variant * o->instance->class_count;
}

#endif
