#include "costmodel/analytic_collective.h"

/* What a group meets on its way through the tree; the names are those of the header. */
typedef struct crossing {
    double members;                                 /* n */
    double inverse_rate;                            /* 1 / b */
    double lap_seconds;                             /* n l: once around the ring */
    double tree_seconds;                            /* down one tree: sum of ceil(log2 c_i) l_i */
    double exchange_byte_seconds;                   /* all_to_all, per byte */
    double last_latency_seconds, last_inverse_rate; /* of the outermost level crossed, for one device */
} crossing;

static double inverse_share(const gal_link_level *level)
{
    return 1.0 / (level->bytes_per_second * (level->achievable_fraction > 0.0 ? level->achievable_fraction : 1.0));
}

static uint32_t ceil_log2(uint32_t count)
{
    uint32_t bits = 0;
    while (bits < 32 && UINT64_C(1) << bits < count) {
        bits++;
    }
    return bits;
}

static double greater(double a, double b)
{
    return a > b ? a : b;
}

static crossing cross(const gal_cluster *cluster, const uint32_t *level_counts)
{
    crossing c = {.members = 1.0};
    for (uint32_t i = 0; i < cluster->level_count; i++) {
        c.members *= (double)level_counts[i];
    }
    double below = 1.0;
    for (uint32_t i = 0; i < cluster->level_count; i++) {
        const gal_link_level *level = &cluster->level[i];
        const double above = below * (double)level_counts[i];
        if (level_counts[i] > 1) {
            const double inverse = inverse_share(level);
            const double units_above = above < c.members ? c.members / above : 0.0;
            c.inverse_rate = greater(c.inverse_rate, level->shared ? inverse / below : inverse);
            c.lap_seconds += (c.members / below - units_above) * level->latency_seconds;
            c.tree_seconds += (double)ceil_log2(level_counts[i]) * level->latency_seconds;
            c.exchange_byte_seconds = greater(c.exchange_byte_seconds, (1.0 - below / c.members) * inverse);
            c.last_latency_seconds = level->latency_seconds;
            c.last_inverse_rate = inverse;
        }
        below = above;
    }
    return c;
}

double gal_collective_analytic_seconds(const gal_cluster *cluster, gal_op op,
                                       const uint32_t level_counts[GAL_LINK_LEVELS_MAX], uint64_t bytes)
{
    const crossing c = cross(cluster, level_counts);
    if (c.members <= 1.0 || bytes == 0) {
        return 0.0;
    }
    const double launch = cluster->device.multiprocessor_count > 0 ? cluster->device.launch_seconds : 0.0;
    const double most = (c.members - 1.0) / c.members, count = (double)bytes;
    const double ring = most * (c.lap_seconds + count * c.inverse_rate);
    switch (op) {
    case GAL_OP_ALL_REDUCE: {
        const double tree = c.tree_seconds + count * c.inverse_rate;
        return launch + 2.0 * (tree < ring ? tree : ring);
    }
    case GAL_OP_ALL_TO_ALL:
        return launch + most * c.lap_seconds + count * c.exchange_byte_seconds;
    case GAL_OP_BROADCAST: /* a pipeline along the members: no part stays at home */
    case GAL_OP_REDUCE:
        return launch + most * c.lap_seconds + count * c.inverse_rate;
    case GAL_OP_ROTATE: /* every member sends and receives: the hop over the outermost links is the longest */
        return launch + c.last_latency_seconds + count * c.inverse_rate;
    case GAL_OP_MIRROR: /* of the buffer a half travels */
        return launch + c.last_latency_seconds + count / 2.0 * c.last_inverse_rate;
    case GAL_OP_SEND:
    case GAL_OP_RECEIVE:
        return launch + c.last_latency_seconds + count * c.last_inverse_rate;
    default:
        return launch + ring;
    }
}
