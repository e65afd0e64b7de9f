#include "runtime/program/atoms.h"

#include <string.h>

void gal_atoms_of(uint32_t device_count, gal_atoms *out)
{
    memset(out, 0, sizeof *out);
    uint32_t stride = 1;
    uint32_t rest = device_count;
    for (uint32_t prime = 2; rest > 1;) {
        if (rest % prime != 0) {
            prime = prime * prime > rest ? rest : prime + 1;
            continue;
        }
        GAL_ASSERT(out->count < GAL_ATOMS_MAX);
        out->radix[out->count] = prime;
        out->stride[out->count] = stride;
        out->count++;
        stride *= prime;
        rest /= prime;
    }
}

uint32_t gal_group_size(const gal_atoms *atoms, gal_group group)
{
    uint32_t size = 1;
    for (uint32_t a = 0; a < atoms->count; a++) {
        size *= gal_group_has(group, a) ? atoms->radix[a] : 1;
    }
    return size;
}

uint32_t gal_group_index(const gal_atoms *atoms, gal_group group, uint32_t device)
{
    uint32_t index = 0;
    uint32_t stride = 1;
    for (uint32_t a = 0; a < atoms->count; a++) {
        if (gal_group_has(group, a)) {
            index += device / atoms->stride[a] % atoms->radix[a] * stride;
            stride *= atoms->radix[a];
        }
    }
    return index;
}

uint32_t gal_group_members(const gal_atoms *atoms, gal_group group, uint32_t device, uint32_t *members)
{
    uint32_t base = device;
    for (uint32_t a = 0; a < atoms->count; a++) {
        if (gal_group_has(group, a)) {
            base -= device / atoms->stride[a] % atoms->radix[a] * atoms->stride[a];
        }
    }
    uint32_t size = gal_group_size(atoms, group);
    for (uint32_t i = 0; i < size; i++) {
        uint32_t rest = i;
        members[i] = base;
        for (uint32_t a = 0; a < atoms->count; a++) {
            if (gal_group_has(group, a)) {
                members[i] += rest % atoms->radix[a] * atoms->stride[a];
                rest /= atoms->radix[a];
            }
        }
    }
    return size;
}

/* The next atoms, whose radices multiply to degree. */
static gal_group take_atoms(const gal_atoms *atoms, uint32_t degree, uint32_t *next)
{
    gal_group group = 0;
    while (degree > 1) {
        GAL_ASSERT(*next < atoms->count && degree % atoms->radix[*next] == 0);
        degree /= atoms->radix[*next];
        group |= UINT32_C(1) << (*next)++;
    }
    return group;
}

gal_mesh gal_mesh_of(const gal_atoms *atoms, const gal_strategy *strategy)
{
    gal_mesh mesh = {.dp = GAL_GROUP_NONE};
    const bool cube = strategy->tp_mode == GAL_TP_3D;
    const uint32_t side = gal_strategy_grid_side(strategy);
    uint32_t next = 0;
    for (uint32_t i = 0; i < strategy->axis_count; i++) {
        const gal_axis *axis = &strategy->axis[i];
        switch (axis->kind) {
        case GAL_AXIS_DP:
            mesh.dp |= take_atoms(atoms, axis->degree, &next);
            break;
        case GAL_AXIS_SDP:
            mesh.sdp |= take_atoms(atoms, axis->degree, &next);
            break;
        case GAL_AXIS_ULYSSES:
        case GAL_AXIS_RING:
        case GAL_AXIS_ZIGZAG:
            mesh.sequence = take_atoms(atoms, axis->degree, &next);
            break;
        case GAL_AXIS_TP:
        default:
            *(strategy->keep_weights ? &mesh.sdp : &mesh.column) |= take_atoms(atoms, cube ? side : 1, &next);
            mesh.tp = take_atoms(atoms, gal_strategy_feature_parts(strategy), &next);
            *(cube ? &mesh.output : &mesh.column) |= take_atoms(atoms, side, &next);
            mesh.dp |= take_atoms(atoms, strategy->tp_mode == GAL_TP_2P5D ? strategy->tp_depth : 1, &next);
            break;
        }
    }
    GAL_ASSERT(next == atoms->count);
    return mesh;
}

gal_group gal_mesh_samples(const gal_mesh *mesh)
{
    return mesh->dp | mesh->sdp | mesh->column | (mesh->output != GAL_GROUP_NONE ? mesh->tp : GAL_GROUP_NONE);
}

gal_group gal_mesh_positions(const gal_mesh *mesh, const gal_strategy *strategy)
{
    return mesh->sequence | (strategy->sequence_parallel ? mesh->tp : GAL_GROUP_NONE);
}

gal_group gal_mesh_features(const gal_mesh *mesh)
{
    return mesh->output != GAL_GROUP_NONE ? mesh->output : mesh->column != GAL_GROUP_NONE ? mesh->tp : GAL_GROUP_NONE;
}
