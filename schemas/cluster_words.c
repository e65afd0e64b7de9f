#include "schemas/cluster_words.h"

#include <stdio.h>
#include <string.h>

#include "schemas/limits.h"

/* ---- from words to a cluster ---- */

/* Devices without nodes fill usual nodes, or are a part of one. */
static gal_code settle_nodes(gal_cluster_words *w, gal_error *err)
{
    const char *kind = w->device->device.kind;
    const uint32_t usual = w->device->node_devices, count = w->device_count;
    if (w->node_count == 0 && count <= GAL_DEVICES_MAX) {
        if (count > usual && count % usual != 0) {
            return gal_fail(err, GAL_ERR_USAGE,
                            "%u devices are no whole nodes of %u %s: say how they stand, NODES x DEVICES, as in "
                            "'2x%u %s'",
                            count, usual, kind, (count + 1) / 2, kind);
        }
        w->node_count = count > usual ? count / usual : 1;
        w->device_count = count > usual ? usual : count;
    }
    if (w->node_count == 0 || w->device_count == 0 || (uint64_t)w->node_count * w->device_count > GAL_DEVICES_MAX) {
        return gal_fail(err, GAL_ERR_USAGE, "a cluster has 1 to %d devices", GAL_DEVICES_MAX);
    }
    return GAL_OK;
}

static gal_code settle_link(gal_cluster_words *w, gal_error *err)
{
    if (w->link != NULL && w->device_count == 1) {
        return gal_fail(err, GAL_ERR_USAGE, "a node has one device here: there is nothing for %s to join",
                        w->link->family);
    }
    if (w->link == NULL) {
        w->link = gal_catalogue_link_find(w->device->node_family, w->device->node_generation);
    }
    if (w->link_bytes_per_second == 0.0) {
        w->link_bytes_per_second = w->link->bytes_per_second;
    }
    return GAL_OK;
}

/* Afterwards network_bytes_per_second is of a node. */
static gal_code settle_network(gal_cluster_words *w, gal_error *err)
{
    const gal_catalogue_device *device = w->device;
    const bool is_usual = device->network_family != NULL &&
                          (w->network == NULL || strcmp(w->network->family, device->network_family) == 0);
    if (w->node_count == 1) {
        return w->network == NULL ? GAL_OK
                                  : gal_fail(err, GAL_ERR_USAGE,
                                             "there is one node: nothing for %s to join, for 2 nodes "
                                             "say '2x%u %s'",
                                             w->network->family, w->device_count, device->device.kind);
    }
    if (w->network_bytes_per_second == 0.0) {
        if (!is_usual) {
            const char *family = w->network == NULL ? "ethernet" : w->network->family;
            return gal_fail(err, GAL_ERR_USAGE,
                            "nodes of %s have no usual network%s: say its rate in Gbit per node, as in '%s 10Gbit'",
                            device->device.kind, w->network == NULL ? "" : " of this kind", family);
        }
        w->network = gal_catalogue_link_find(device->network_family, 0);
        w->network_bytes_per_second = device->network_bytes_per_second;
        w->network_per_device = true;
    }
    w->network_bytes_per_second *= w->network_per_device ? w->device_count : 1.0;
    w->network_per_device = false;
    return GAL_OK;
}

static gal_code check_rates(const gal_cluster_words *w, gal_error *err)
{
    return w->link_bytes_per_second > GAL_RATE_MAX || w->network_bytes_per_second > GAL_RATE_MAX
               ? gal_fail(err, GAL_ERR_USAGE, "the rate of a link is at most %g GB/s", 1e-9 * GAL_RATE_MAX)
               : GAL_OK;
}

static void add_level(gal_cluster *out, const gal_catalogue_link *link, uint32_t span, double bytes_per_second)
{
    gal_link_level *level = &out->level[out->level_count++];
    gal_catalogue_link_name(link, level->name);
    level->span_devices = span;
    level->latency_seconds = link->latency_seconds;
    level->bytes_per_second = bytes_per_second;
    level->achievable_fraction = link->achievable_fraction;
}

/* The rate of a node is its devices' when all send at once; fewer have the whole. */
static void add_network(gal_cluster *out, const gal_cluster_words *w)
{
    add_level(out, w->network, out->device_count, w->network_bytes_per_second / w->device_count);
    gal_link_level *level = &out->level[out->level_count - 1];
    (void)snprintf(level->name, sizeof level->name, "%s-%gg", w->network->family, 8e-9 * w->network_bytes_per_second);
    level->shared = w->device_count > 1;
}

/* With its links, unless that is longer than a name may be. */
static void name_cluster(const gal_cluster_words *w, gal_cluster *out)
{
    char short_name[GAL_NAME_BYTES + 32], whole[4 * GAL_NAME_BYTES], link_rate[32] = "", memory[32] = "",
                                                                     of_node[16] = "x";
    if (w->node_count > 1) {
        (void)snprintf(of_node, sizeof of_node, "x%u", w->device_count);
    }
    if (w->link_bytes_per_second != w->link->bytes_per_second) {
        (void)snprintf(link_rate, sizeof link_rate, " %gGB/s", 1e-9 * w->link_bytes_per_second);
    }
    if (w->memory_bytes > 0) {
        (void)snprintf(memory, sizeof memory, ", %gGB", 1e-9 * (double)w->memory_bytes);
    }
    (void)snprintf(short_name, sizeof short_name, "%u%s %s%s", w->node_count > 1 ? w->node_count : w->device_count,
                   of_node, out->device.kind, memory);
    int used = snprintf(whole, sizeof whole, "%s", short_name);
    for (uint32_t l = 0; l < out->level_count && out->device_count > 1; l++) {
        used += snprintf(whole + used, sizeof whole - (size_t)used, ", %s%s", out->level[l].name,
                         l == 0 && w->device_count > 1 ? link_rate : "");
    }
    const char *name = strlen(whole) < sizeof out->name ? whole : short_name;
    (void)snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, name);
}

gal_code gal_cluster_from_words(const char *text, const char *name, gal_cluster *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_cluster_words words;
    gal_cluster cluster = {0};
    GAL_TRY(gal_cluster_words_read(text, &words, err));
    GAL_TRY(settle_nodes(&words, err));
    GAL_TRY(settle_link(&words, err));
    GAL_TRY(settle_network(&words, err));
    GAL_TRY(check_rates(&words, err));
    cluster.device_count = words.node_count * words.device_count;
    cluster.device = gal_catalogue_device_figures(words.device);
    if (words.memory_bytes > 0) {
        cluster.device.memory_bytes = words.memory_bytes;
    }
    if (words.device_count > 1 || words.node_count == 1) {
        add_level(&cluster, words.link, words.device_count, words.link_bytes_per_second);
    }
    if (words.node_count > 1) {
        add_network(&cluster, &words);
    }
    if (name != NULL) {
        (void)snprintf(cluster.name, sizeof cluster.name, "%s", name);
    } else {
        name_cluster(&words, &cluster);
    }
    *out = cluster;
cleanup:
    return code;
}

/* ---- in a line ---- */

void gal_cluster_say(const gal_cluster *cluster, char text[GAL_CLUSTER_SAID_BYTES])
{
    int used = snprintf(text, GAL_CLUSTER_SAID_BYTES, "%u x %s of %.4g GB", cluster->device_count, cluster->device.kind,
                        1e-9 * (double)cluster->device.memory_bytes);
    uint32_t below = 1;
    for (uint32_t l = 0; l < cluster->level_count && used < GAL_CLUSTER_SAID_BYTES; l++) {
        const gal_link_level *level = &cluster->level[l];
        const double gigabytes = 1e-9 * level->bytes_per_second;
        char *end = text + used;
        const size_t left = (size_t)(GAL_CLUSTER_SAID_BYTES - used);
        used += level->shared
                    ? snprintf(end, left, "; %u by %s, %.4g GB/s a node shared by its %u devices: %.4g GB/s each",
                               level->span_devices, level->name, gigabytes * below, below, gigabytes)
                    : snprintf(end, left, "; %u by %s, %.4g GB/s each", level->span_devices, level->name, gigabytes);
        below = level->span_devices;
    }
}
