/* Where groups lie in the tree of links. */
#include "costmodel/duration.h"

#include <string.h>

/* Members of an aligned group within `span` consecutive devices of its stage, or 0 if an atom straddles a border. */
static uint32_t members_within(const gal_atoms *atoms, gal_group group, uint32_t span)
{
    uint32_t members = 1;
    for (uint32_t a = 0; a < atoms->count; a++) {
        if (!gal_group_has(group, a)) {
            continue;
        }
        const uint64_t end = (uint64_t)atoms->stride[a] * atoms->radix[a];
        if (end <= span && span % end == 0) {
            members *= atoms->radix[a];
        } else if (atoms->stride[a] % span != 0) {
            return 0;
        }
    }
    return members;
}

/* Whether every unit of the level holds a stage's devices alike: it divides the stage, or a stage lies inside one. */
static bool level_is_aligned(const gal_place_in_cluster *place, uint32_t span)
{
    const uint64_t begin = (uint64_t)place->stage * place->device_count;
    return place->device_count % span == 0 || begin / span == (begin + place->device_count - 1) / span;
}

/* Distinct units of `span` devices that the group of `device` touches, of members sorted into `member`. */
static uint32_t units_of(const uint32_t *member, uint32_t count, uint64_t begin, uint32_t span)
{
    uint32_t units = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool seen = false;
        for (uint32_t j = 0; j < i && !seen; j++) {
            seen = (begin + member[j]) / span == (begin + member[i]) / span;
        }
        units += !seen;
    }
    return units;
}

enum { ENUMERATED_MAX = 4096 };

/* Groups that lie differently in different places: the one that touches most units, outermost level first. Level i
 * counts ceil(units of level i-1 / units of level i). */
static void count_by_members(const gal_cluster *cluster, const gal_place_in_cluster *place, gal_group group,
                             uint32_t level_counts[GAL_LINK_LEVELS_MAX])
{
    const uint64_t begin = (uint64_t)place->stage * place->device_count;
    uint32_t member[ENUMERATED_MAX];
    uint32_t most[GAL_LINK_LEVELS_MAX] = {0};
    GAL_ASSERT(gal_group_size(place->atoms, group) <= ENUMERATED_MAX);
    for (uint32_t device = 0; device < place->device_count; device++) {
        if (gal_group_index(place->atoms, group, device) != 0) {
            continue;
        }
        const uint32_t count = gal_group_members(place->atoms, group, device, member);
        for (uint32_t level = 0; level < cluster->level_count; level++) {
            const uint32_t units = units_of(member, count, begin, cluster->level[level].span_devices);
            most[level] = units > most[level] ? units : most[level];
        }
    }
    uint32_t below = gal_group_size(place->atoms, group);
    for (uint32_t level = 0; level < cluster->level_count; level++) {
        level_counts[level] = (below + most[level] - 1) / most[level];
        below = most[level];
    }
}

static void count_atoms(const gal_cluster *cluster, const gal_place_in_cluster *place, gal_group group,
                        uint32_t level_counts[GAL_LINK_LEVELS_MAX])
{
    uint32_t below = 1;
    for (uint32_t level = 0; level < cluster->level_count; level++) {
        const uint32_t span = cluster->level[level].span_devices;
        const uint32_t members = span >= place->device_count && level_is_aligned(place, span)
                                     ? gal_group_size(place->atoms, group)
                                     : members_within(place->atoms, group, span);
        if (members == 0 || !level_is_aligned(place, span)) {
            count_by_members(cluster, place, group, level_counts);
            return;
        }
        level_counts[level] = members / below;
        below = members;
    }
}

/* The ranks [first, first + count) as one group. */
static void count_range(const gal_cluster *cluster, uint64_t count, uint32_t level_counts[GAL_LINK_LEVELS_MAX])
{
    uint64_t below = count;
    for (uint32_t level = 0; level < cluster->level_count; level++) {
        const uint64_t span = cluster->level[level].span_devices;
        const uint64_t units = (count + span - 1) / span;
        level_counts[level] = (uint32_t)((below + units - 1) / units);
        below = units;
    }
}

/* Pairs (first + d, second + d) of all d < D: the level that the widest pair crosses. A border of the level lies
 * between some pair unless one unit holds all of both stages. */
static void count_pair(const gal_cluster *cluster, uint32_t device_count, uint32_t first_stage, uint32_t second_stage,
                       uint32_t level_counts[GAL_LINK_LEVELS_MAX])
{
    const uint64_t begin = (uint64_t)first_stage * device_count;
    const uint64_t end = ((uint64_t)second_stage + 1) * device_count - 1;
    uint32_t level = 0;
    while (level + 1 < cluster->level_count &&
           begin / cluster->level[level].span_devices != end / cluster->level[level].span_devices) {
        level++;
    }
    level_counts[level] = 2;
}

/* A stage and the next one; of interleaved stages the first follows the last. */
static void count_neighbours(const gal_cluster *cluster, const gal_place_in_cluster *place, uint32_t stage,
                             uint32_t level_counts[GAL_LINK_LEVELS_MAX])
{
    const uint32_t next = (stage + 1) % place->stage_count;
    count_pair(cluster, place->device_count, next < stage ? next : stage, next < stage ? stage : next, level_counts);
}

void gal_group_level_counts(const gal_cluster *cluster, const gal_place_in_cluster *place, gal_group group,
                            uint32_t level_counts[GAL_LINK_LEVELS_MAX])
{
    for (uint32_t level = 0; level < GAL_LINK_LEVELS_MAX; level++) {
        level_counts[level] = 1;
    }
    const uint32_t last = place->stage_count - 1;
    switch (group) {
    case GAL_GROUP_NONE:
        return;
    case GAL_GROUP_NEXT:
        count_neighbours(cluster, place, place->stage, level_counts);
        return;
    case GAL_GROUP_PREVIOUS:
        count_neighbours(cluster, place, (place->stage + last) % place->stage_count, level_counts);
        return;
    case GAL_GROUP_TIED: /* of more stages than two the ends are the farthest apart */
    case GAL_GROUP_ENCODER_BIAS:
    case GAL_GROUP_DECODER_BIAS:
        count_pair(cluster, place->device_count, 0, last, level_counts);
        return;
    case GAL_GROUP_WORLD:
        count_range(cluster, (uint64_t)place->stage_count * place->device_count, level_counts);
        return;
    default:
        count_atoms(cluster, place, group, level_counts);
    }
}
