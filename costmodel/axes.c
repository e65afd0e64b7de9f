#include "costmodel/axes.h"

static gal_group group_of(const gal_mesh *mesh, gal_axis_kind kind)
{
    return kind == GAL_AXIS_DP ? mesh->dp : kind == GAL_AXIS_SDP ? mesh->sdp : mesh->tp;
}

uint32_t gal_axis_set_of(const gal_mesh *mesh, gal_group group)
{
    uint32_t set = 0;
    for (uint32_t kind = 0; kind < GAL_AXIS_KIND_COUNT; kind++) {
        const gal_group axis = group_of(mesh, (gal_axis_kind)kind);
        if (axis != GAL_GROUP_NONE && (group & axis) == axis) {
            set |= 1U << kind;
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
    for (uint32_t set = 0; set < GAL_AXIS_SETS; set++) {
        gal_group group = GAL_GROUP_NONE;
        for (uint32_t kind = 0; kind < GAL_AXIS_KIND_COUNT; kind++) {
            group |= (set >> kind & 1U) != 0 ? group_of(&mesh, (gal_axis_kind)kind) : GAL_GROUP_NONE;
        }
        gal_group_level_counts(cluster, &place, group, out->counts[set]);
    }
}
