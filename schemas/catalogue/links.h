/* Kinds of links with the rates of their data sheets, and how to say them. Sources: clusters/SOURCES.md, "Links". */
#ifndef GAL_SCHEMAS_CATALOGUE_LINKS_H
#define GAL_SCHEMAS_CATALOGUE_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/model.h"

typedef struct gal_catalogue_link {
    const char *family;      /* "nvlink" */
    uint32_t generation;     /* 4: the link is called "nvlink-4"; 0: the family has no generations */
    bool joins_nodes;        /* a network; else a link inside a node */
    double latency_seconds;  /* of one step of a ring */
    double bytes_per_second; /* per device and direction; 0: a network, whose rate must be said */
    double achievable_fraction;
} gal_catalogue_link;

/* Generations of a family stand together, the oldest first. */
extern const gal_catalogue_link gal_catalogue_links[];
extern const uint32_t gal_catalogue_link_count;

/* Words that stand for a family, in lower case: "ib" for infiniband; every family is a word for itself. */
typedef struct gal_link_word {
    const char *word, *family;
} gal_link_word;

extern const gal_link_word gal_link_words[];
extern const uint32_t gal_link_word_count;

/* The row, or NULL: the family has no such generation. */
const gal_catalogue_link *gal_catalogue_link_find(const char *family, uint32_t generation);
/* "nvlink-4", "ethernet". */
void gal_catalogue_link_name(const gal_catalogue_link *link, char name[GAL_NAME_BYTES]);

#endif
