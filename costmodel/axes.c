#include "costmodel/axes.h"

#include <string.h>

static gal_group group_of(const gal_mesh *mesh, uint32_t axis)
{
    const gal_group groups[GAL_MESH_AXES] = {mesh->dp, mesh->sdp, mesh->tp, mesh->sequence | mesh->column,
                                             mesh->output};
    return groups[axis];
}

uint32_t gal_axis_sets_of(const gal_strategy *strategy)
{
    const bool last_but_one = strategy->tp_mode != GAL_TP_1D || gal_strategy_sequence_degree(strategy) > 1;
    return strategy->tp_mode == GAL_TP_3D ? GAL_AXIS_SETS : last_but_one ? GAL_AXIS_SETS / 2 : GAL_AXIS_SETS / 4;
}

uint32_t gal_axis_set_of(const gal_mesh *mesh, gal_group group)
{
    uint32_t set = 0;
    for (uint32_t i = 0; i < GAL_MESH_AXES; i++) {
        const gal_group axis = group_of(mesh, i);
        if (axis != GAL_GROUP_NONE && (group & axis) == axis) {
            set |= 1U << i;
            group &= ~axis;
        }
    }
    GAL_ASSERT(group == GAL_GROUP_NONE);
    return set;
}

void gal_axis_levels_of(const gal_cluster *cluster, const gal_strategy *strategy, uint32_t device_count, uint32_t stage,
                        uint32_t stage_count, gal_axis_levels *out)
{
    gal_atoms atoms;
    gal_atoms_of(device_count, &atoms);
    const gal_mesh mesh = gal_mesh_of(&atoms, strategy);
    const gal_place_in_cluster place = {&atoms, device_count, stage, stage_count};
    const uint32_t sets = gal_axis_sets_of(strategy);
    memset(out, 0, sizeof *out);
    for (uint32_t set = 0; set < sets; set++) {
        gal_group group = GAL_GROUP_NONE;
        for (uint32_t i = 0; i < GAL_MESH_AXES; i++) {
            group |= (set >> i & 1U) != 0 ? group_of(&mesh, i) : GAL_GROUP_NONE;
        }
        gal_group_level_counts(cluster, &place, group, out->counts[set]);
    }
}

bool gal_axes_are_regular(const gal_cluster *cluster, const gal_atoms *atoms, uint32_t device_count)
{
    bool regular = true;
    for (uint32_t i = 0; i < cluster->level_count && regular; i++) {
        const uint32_t span = cluster->level[i].span_devices;
        regular = device_count % span == 0 || span % device_count == 0;
        for (uint32_t a = 0; a < atoms->count && regular; a++) {
            const uint32_t end = atoms->stride[a] * atoms->radix[a];
            regular = atoms->radix[a] == atoms->radix[0] && (span % end == 0 || atoms->stride[a] % span == 0);
        }
    }
    return regular;
}
