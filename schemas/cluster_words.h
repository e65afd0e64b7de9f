/* Clusters in words: "8xh100", "2x4 rtx3090, pcie-4, ethernet 10Gbit".
 *
 *     [NODES x] DEVICES x DEVICE [, MEMORY] [, LINK [RATE]] [, NETWORK [RATE]]
 *
 * DEVICE   a kind of the catalogue (catalogue/devices.h) or a word for it; makers may be named, letter case and hyphens
 *          are free: "h100", "H100 SXM", "NVIDIA A100-SXM4-80GB"
 * NODES    left out: as many usual nodes of the device as DEVICES fill, or a part of one
 * MEMORY   bytes of a device that may be used, if less than all: "40GB"
 * LINK     what joins the devices of a node, with a rate per device and direction ("nvlink", "pcie-4", "nvlink
 * 200GB/s"); left out: that of the usual node NETWORK  what joins nodes, with the rate of a node, which its devices
 * share ("ethernet 10Gbit", "infiniband-400g", "ib 8x400Gbit"), or with "/gpu" of a device ("ib 400Gbit/gpu"); left
 * out: that of the usual node, if any RATE     Gbit, Gbit/s, Gbps, Gb/s or g are 10^9 bits a second, GB/s is 10^9 bytes
 * a second; M and T likewise. A link inside a node takes bytes only. Commas may be left out, as may the blank behind
 * "x"; "=" and ":" are blanks; a rate may stand before its network. */
#ifndef GAL_SCHEMAS_CLUSTER_WORDS_H
#define GAL_SCHEMAS_CLUSTER_WORDS_H

#include "schemas/catalogue/devices.h"
#include "schemas/cluster.h"

/* What the words say; members that they leave out are zero. */
typedef struct gal_cluster_words {
    uint32_t node_count;   /* 0: left out */
    uint32_t device_count; /* of a node; with node_count 0 of the cluster */
    const gal_catalogue_device *device;
    uint64_t memory_bytes;
    const gal_catalogue_link *link, *network;
    double link_bytes_per_second;
    double network_bytes_per_second; /* of a node, or of a device */
    bool network_per_device;
} gal_cluster_words;

/* Whether a text is meant as words: it begins with a number of devices, or is a device without one. */
bool gal_cluster_is_words(const char *text);
/* GAL_ERR_USAGE with the word that is wrong, and what may stand there. */
gal_code gal_cluster_words_read(const char *text, gal_cluster_words *out, gal_error *err);
/* The cluster that a text says. name: its name; NULL: the words for it, with nothing left out (without the links where
 * that is longer than a name). GAL_ERR_USAGE also if the numbers make no cluster. */
gal_code gal_cluster_from_words(const char *text, const char *name, gal_cluster *out, gal_error *err);

enum { GAL_CLUSTER_SAID_BYTES = 512 };

/* One line on any cluster: its devices, and of each link who is joined at which rate; of a shared network the rate of a
 * node, and what a device gets of it. */
void gal_cluster_say(const gal_cluster *cluster, char text[GAL_CLUSTER_SAID_BYTES]);

#endif
