#include "planner/space/orders.h"

#include <stdlib.h>
#include <string.h>

#include "costmodel/axes.h"
#include "runtime/program/atoms.h"

static gal_code no_memory(gal_error *err)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}

/* ---- levels ---- */

/* Of those below that of `end` devices. */
static uint32_t level_of(const gal_cluster *cluster, uint32_t end)
{
    uint32_t level = 0;
    while (level + 1 < cluster->level_count && cluster->level[level].span_devices < end) {
        level++;
    }
    return level;
}

/* ---- runs ---- */

/* Neighbours in the list with equal axes, and how these lie. */
typedef struct run {
    uint32_t begin, end;
    uint8_t atoms[GAL_AXIS_KIND_COUNT][GAL_LINK_LEVELS_MAX]; /* of each axis at each level */
    uint8_t kind[GAL_AXES_MAX];                              /* of the axes, innermost first */
} run;

static void lay_out(const gal_cluster *cluster, const gal_atoms *atoms, const gal_strategy *strategy, run *out)
{
    uint32_t end = 1;
    uint32_t atom = 0;
    for (uint32_t i = 0; i < strategy->axis_count; i++) {
        const gal_axis *axis = &strategy->axis[i];
        for (end *= axis->degree; atom < atoms->count && atoms->stride[atom] < end; atom++) {
            out->atoms[axis->kind][level_of(cluster, atoms->stride[atom] * atoms->radix[atom])]++;
        }
        out->kind[i] = (uint8_t)axis->kind;
    }
}

static bool axes_equal(const gal_strategy *a, const gal_strategy *b)
{
    bool equal = a->axis_count == b->axis_count;
    for (uint32_t i = 0; i < a->axis_count && equal; i++) {
        equal = a->axis[i].kind == b->axis[i].kind && a->axis[i].degree == b->axis[i].degree;
    }
    return equal;
}

/* Returns how many; out has room for as many as there are strategies. */
static uint32_t list_runs(const gal_cluster *cluster, const gal_atoms *atoms, const gal_strategy *strategy,
                          uint32_t count, run *out)
{
    uint32_t runs = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (i == 0 || !axes_equal(&strategy[i - 1], &strategy[i])) {
            out[runs] = (run){.begin = i};
            lay_out(cluster, atoms, &strategy[i], &out[runs++]);
        }
        out[runs - 1].end = i + 1;
    }
    return runs;
}

/* Those that lie alike together, of them the first one first. */
static int compare_runs(const void *x, const void *y)
{
    const run *a = x;
    const run *b = y;
    const int atoms = memcmp(a->atoms, b->atoms, sizeof a->atoms);
    return atoms != 0 ? atoms : memcmp(a->kind, b->kind, sizeof a->kind);
}

static gal_strategy with_axes_of(const gal_strategy *strategy, const gal_strategy *axes)
{
    gal_strategy out = *strategy;
    out.axis_count = axes->axis_count;
    memcpy(out.axis, axes->axis, sizeof out.axis);
    return out;
}

/* Equal axes are listed with the same variants, so a strategy's place in its run is its first one's. */
static void number_run(const gal_strategy *strategy, const run *own, const run *first, uint32_t *out)
{
    for (uint32_t i = own->begin; i < own->end; i++) {
        const uint32_t like = first->begin + (i - own->begin);
        const bool here = like < first->end;
        const gal_strategy wanted = with_axes_of(&strategy[i], &strategy[first->begin]);
        out[i] = here && gal_strategy_equal(&wanted, &strategy[like]) ? like : i;
    }
}

gal_code gal_orders_number(const gal_cluster *cluster, uint32_t device_count, const gal_strategy *strategy,
                           uint32_t count, uint32_t *first, gal_error *err)
{
    gal_atoms atoms;
    gal_atoms_of(device_count, &atoms);
    for (uint32_t i = 0; i < count; i++) {
        first[i] = i;
    }
    if (count == 0 || !gal_axes_are_regular(cluster, &atoms, device_count)) {
        return GAL_OK;
    }
    run *runs = malloc(count * sizeof *runs);
    if (runs == NULL) {
        return no_memory(err);
    }
    const uint32_t run_count = list_runs(cluster, &atoms, strategy, count, runs);
    qsort(runs, run_count, sizeof *runs, compare_runs);
    for (uint32_t i = 0, begin = 0; i < run_count; i++) {
        begin = memcmp(runs[begin].atoms, runs[i].atoms, sizeof runs[i].atoms) == 0 ? begin : i;
        number_run(strategy, &runs[i], &runs[begin], first);
    }
    free(runs);
    return GAL_OK;
}
