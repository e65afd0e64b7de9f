#include "planner/kinds/meshes.h"

#include <stdlib.h>
#include <string.h>

#include "costmodel/price.h"

/* Innermost first. A strategy has one axis of the positions at most. */
static const gal_axis_kind canonical[] = {GAL_AXIS_TP,     GAL_AXIS_ULYSSES, GAL_AXIS_RING,
                                          GAL_AXIS_ZIGZAG, GAL_AXIS_SDP,     GAL_AXIS_DP};
enum { CANONICAL_COUNT = sizeof canonical / sizeof canonical[0] };

typedef struct listing {
    const gal_space *space;
    gal_strategy *out; /* NULL: counted alone */
    uint32_t count;
} listing;

static bool has_axis(const gal_space *space, gal_axis_kind kind)
{
    const bool grids = space->tp_grid[GAL_TP_2D] || space->tp_grid[GAL_TP_2P5D] || space->tp_grid[GAL_TP_3D];
    return space->axis[kind] || (kind == GAL_AXIS_TP && grids);
}

static bool takeaways_allow(const gal_space *space, const gal_strategy *axes, gal_axis_kind kind, uint32_t degree)
{
    const bool power_of_two = (degree & (degree - 1)) == 0;
    const bool mixes_data = kind == GAL_AXIS_DP && gal_strategy_degree(axes, GAL_AXIS_SDP) > 1;
    return (!space->takeaway[2] || power_of_two) && (!space->takeaway[3] || !mixes_data);
}

/* All degrees of the axes from number `at` on that multiply to what is left. */
static void grow(listing *l, gal_strategy *axes, uint32_t at, uint32_t devices_left)
{
    if (devices_left == 1) {
        l->count += gal_space_variants(l->space, axes, l->out == NULL ? NULL : l->out + l->count);
        return;
    }
    if (at == CANONICAL_COUNT) {
        return;
    }
    const gal_axis_kind kind = canonical[at];
    grow(l, axes, at + 1, devices_left);
    const bool positions_twice = gal_axis_splits_positions(kind) && gal_strategy_sequence_degree(axes) > 1;
    for (uint32_t degree = 2; has_axis(l->space, kind) && !positions_twice && degree <= devices_left; degree++) {
        if (devices_left % degree == 0 && takeaways_allow(l->space, axes, kind, degree)) {
            axes->axis[axes->axis_count++] = (gal_axis){kind, degree};
            grow(l, axes, at + 1, devices_left / degree);
            axes->axis_count--;
            axes->axis[axes->axis_count] = (gal_axis){0};
        }
    }
}

static uint32_t list(const gal_space *space, uint32_t device_count, gal_strategy *out)
{
    listing l = {space, out, 0};
    gal_strategy axes;
    memset(&axes, 0, sizeof axes);
    grow(&l, &axes, 0, device_count);
    return l.count;
}

/* Numbers rows in the order in which they are met. */
static void number_rows(gal_meshes *meshes, uint32_t device_count, gal_price_rows *met)
{
    gal_atoms atoms;
    gal_atoms_of(device_count, &atoms);
    for (uint32_t s = 0; s < meshes->strategy_count; s++) {
        const gal_price_rows rows = gal_price_rows_of(&meshes->strategy[s], &atoms);
        uint32_t number = 0;
        while (number < meshes->rows_count && !gal_price_rows_equal(&met[number], &rows)) {
            number++;
        }
        met[number] = rows;
        meshes->rows_count += number == meshes->rows_count;
        meshes->rows_of[s] = number;
    }
}

gal_code gal_meshes_create(const gal_space *space, uint32_t device_count, gal_meshes *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_meshes meshes = {.strategy_count = list(space, device_count, NULL)};
    const size_t room = (size_t)meshes.strategy_count + 1;
    gal_price_rows *met = calloc(room, sizeof *met);
    meshes.strategy = calloc(room, sizeof *meshes.strategy);
    meshes.rows_of = calloc(room, sizeof *meshes.rows_of);
    if (met == NULL || meshes.strategy == NULL || meshes.rows_of == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    (void)list(space, device_count, meshes.strategy);
    number_rows(&meshes, device_count, met);
    *out = meshes;
    memset(&meshes, 0, sizeof meshes);
cleanup:
    gal_meshes_free(&meshes);
    free(met);
    return code;
}

void gal_meshes_free(gal_meshes *meshes)
{
    free(meshes->strategy);
    free(meshes->rows_of);
    memset(meshes, 0, sizeof *meshes);
}
