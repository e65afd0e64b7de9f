/* The price tables that a certificate is proved from: for planner/certificate.c alone.
 *
 * Of every kind of stage and every sort of block the strategies that may be had, with seconds and bytes as the
 * objective and the byte formula count them. */
#ifndef GAL_PLANNER_CERTIFICATE_TABLES_H
#define GAL_PLANNER_CERTIFICATE_TABLES_H

#include "planner/certificate.h"

enum { GAL_CERT_SORTS_MAX = 2 * GAL_TYPES_MAX + 2 }; /* with the carried tensor or without; the ends */

/* Blocks that have the same menus. */
typedef struct gal_cert_sort {
    gal_block_shape shape;
    bool first, last; /* of the chain */
} gal_cert_sort;

/* A strategy on a stage. */
typedef struct gal_cert_item {
    double seconds, bytes;                                       /* bytes: with those of every microbatch in flight */
    double turn_bytes;                                           /* of all that blocks use in turn */
    double first_seconds, last_seconds, first_bytes, last_bytes; /* more, at the ends of a stage; bytes: of several
                                                                  * blocks */
    uint32_t class;                                              /* of those whose rows lie alike */
} gal_cert_item;

typedef struct gal_cert_menu {
    uint32_t count; /* 0: the stage has no such blocks */
    gal_cert_item *item;
} gal_cert_menu;

/* Chains of equal pairs and ends: [begin, end) of the first. */
typedef struct gal_cert_chain {
    uint32_t begin, end;
} gal_cert_chain;

/* What chains take on stages of one kind. */
typedef struct gal_cert_table {
    gal_cert_menu *menu;                     /* [sort] */
    bool lined;                              /* the next five are filled: what is least if bytes are ignored */
    double *pair, *first, *last, *one, *any; /* [pair], [sort]; any: of a block anywhere */
    double *least;                           /* [chain] no less */
    uint8_t *proof;                          /* [chain] how that is known */
} gal_cert_table;

/* Stages whose tables are the same. */
typedef struct gal_cert_kind {
    uint32_t stage, place, in_flight; /* the first of them; gal_price_place, numbered; microbatches */
    double probe_seconds;             /* of a transfer to the next stage: links that are alike take equally long */
    gal_cert_table round, added;
} gal_cert_kind;

typedef struct gal_cert_tables {
    const gal_certificate_cell *cell;
    const gal_durations *durations;
    gal_price_cache *cache;
    gal_error *err;
    uint32_t devices, samples, blocks, stages;
    double common_seconds, limit_bytes;
    uint32_t sort_count, pair_count, class_count, place_count, kind_count, chain_count, strategy_count;
    gal_cert_sort *sort;
    uint32_t *sort_of, *pair_of, *pair_first; /* [block]; [pair] the later block of the first such pair */
    uint32_t *pairs;                          /* [block][pair] how many end there or before */
    uint32_t *chain_of;                       /* [begin][end] */
    gal_cert_chain *chain;
    gal_strategy *strategy;
    uint32_t *class, *stands;      /* [strategy]; [class] its first strategy */
    double *received_bytes;        /* [sort] at the entry of a stage: the least that rows of any class take */
    uint32_t *place, *kind_of;     /* [stage] */
    const gal_block_price **price; /* [place][sort][strategy]; NULL: not to be had */
    double *conversion;            /* [place][pair][class][class]; NaN: not asked for yet */
    gal_cert_kind *kind;
    void *owned[32];
    uint32_t owned_count;
} gal_cert_tables;

/* cell, durations and cache are referred to. The added tables are filled later. GAL_ERR_SYSTEM without memory; else as
 * gal_price_block. Freed also if it fails. */
gal_code gal_cert_tables_create(const gal_certificate_cell *cell, const gal_durations *durations,
                                gal_price_cache *cache, gal_cert_tables *out, gal_error *err);
void gal_cert_tables_free(gal_cert_tables *tables);

/* With the first stage's tail weighed so: at most 1. */
void gal_cert_tables_fill_added(gal_cert_tables *tables, gal_cert_kind *kind, double tail_weight);

/* Seconds of a round between two classes of rows; infinity: not allowed. A price that cannot be had is left in *code.
 */
double gal_cert_conversion(gal_cert_tables *tables, uint32_t place, uint32_t pair, uint32_t from, uint32_t to,
                           gal_code *code);

/* Of the pair in the blocks [begin, end). */
static inline uint32_t gal_cert_pairs(const gal_cert_tables *t, uint32_t begin, uint32_t end, uint32_t pair)
{
    return t->pairs[(size_t)(end - 1) * t->pair_count + pair] - t->pairs[(size_t)begin * t->pair_count + pair];
}

#endif
