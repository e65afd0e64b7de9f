/* What a chain of blocks takes at least on a stage: by prices per byte, or block by whole block. For
 * planner/certificate.c alone, which says how. */
#ifndef GAL_PLANNER_CERTIFICATE_CHAIN_H
#define GAL_PLANNER_CERTIFICATE_CHAIN_H

#include "planner/certificate_tables.h"

/* How the least of a chain is known: bytes ignored, priced, block by whole block. */
typedef enum gal_cert_proof { GAL_CERT_UNKNOWN, GAL_CERT_FREE, GAL_CERT_PRICED, GAL_CERT_WHOLE } gal_cert_proof;

typedef struct gal_cert_choice {
    double cost, seconds, bytes;
} gal_cert_choice;

/* Room to work in. */
typedef struct gal_cert_chains {
    gal_cert_tables *t;
    gal_code code;                                      /* of a conversion */
    gal_cert_choice *best, *least, *first, *last, *one; /* [sort][class]; [sort] at the price at hand */
    double *turn;                                       /* the turn_bytes of all items */
    gal_cert_item *end_item;                            /* of both ends of a stage */
    gal_cert_choice *sum;                               /* choices of whole blocks; NULL until they are needed */
} gal_cert_chains;

/* tables are referred to. GAL_ERR_SYSTEM without memory. */
gal_code gal_cert_chains_create(gal_cert_tables *tables, gal_cert_chains *out);
void gal_cert_chains_free(gal_cert_chains *chains); /* accepts a zeroed one */

/* Seconds, known at least so well; infinity: it does not fit. Infallible but for chains->code. */
double gal_cert_chain_least(gal_cert_chains *chains, const gal_cert_kind *kind, gal_cert_table *table, uint32_t chain,
                            gal_cert_proof enough);
/* The table's free lines (lined), of a kind's stages. */
void gal_cert_chain_line(gal_cert_chains *chains, const gal_cert_kind *kind, gal_cert_table *table);
/* Knows a chain of several blocks better, up to the cutoff: whole, once the cutoff is not reached or nothing was
 * gained. GAL_ERR_SYSTEM without memory. */
gal_code gal_cert_chain_tighten(gal_cert_chains *chains, gal_cert_table *table, uint32_t chain, double cutoff_seconds);

#endif
