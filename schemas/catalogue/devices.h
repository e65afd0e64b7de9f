/* Kinds of devices: the figures of their data sheets, and the node that they usually stand in. This table is the one
 * place for both; clusters/SOURCES.md says where each figure is from. */
#ifndef GAL_SCHEMAS_CATALOGUE_DEVICES_H
#define GAL_SCHEMAS_CATALOGUE_DEVICES_H

#include <stddef.h>
#include <stdint.h>

#include "schemas/catalogue/links.h"
#include "schemas/cluster.h"

enum { GAL_DEVICE_WORDS_MAX = 5, GAL_PLAIN_BYTES = 64 };

typedef struct gal_catalogue_device {
    gal_device device;                       /* but what all devices have alike: gal_catalogue_device_figures */
    const char *words[GAL_DEVICE_WORDS_MAX]; /* plain names beside the kind's */
    uint32_t node_devices;                   /* in a usual node */
    /* Families and generations of gal_catalogue_links. */
    const char *node_family; /* what joins a usual node */
    uint32_t node_generation;
    const char *network_family;      /* between usual nodes; NULL: there is no usual network */
    double network_bytes_per_second; /* a device's part of it */
} gal_catalogue_device;

extern const gal_catalogue_device gal_catalogue_devices[];
extern const uint32_t gal_catalogue_device_count;

/* Append the plain form of a name to out: lower case letters and digits, "gb" behind a number as "g", sockets ("sxm5")
 * without their number, without makers and kinds of memory: "NVIDIA H100-SXM5-80GB" is "h100sxm80g". False if it does
 * not fit in GAL_PLAIN_BYTES. */
bool gal_device_plain(const char *name, char out[GAL_PLAIN_BYTES]);
/* The row of a plain name, or NULL. */
const gal_catalogue_device *gal_catalogue_device_find(const char *plain);
/* All figures of a row, as a cluster holds them. */
gal_device gal_catalogue_device_figures(const gal_catalogue_device *row);
/* The kinds with ", " between them; cut to capacity. */
void gal_catalogue_device_kinds(char *text, size_t capacity);
/* The kind whose name or word is nearest to a plain name, or NULL. */
const char *gal_catalogue_device_nearest(const char *plain);

#endif
