/* What prices are kept in: a table from keys to results of any kind, and what a query's key is. For costmodel alone. */
#ifndef GAL_COSTMODEL_PRICE_CACHE_H
#define GAL_COSTMODEL_PRICE_CACHE_H

#include <pthread.h>

#include "costmodel/chain_queues.h"
#include "costmodel/crossing.h"
#include "costmodel/price.h"
#include "costmodel/structure.h"
#include "costmodel/word_keys.h"
#include "schemas/base/workers.h"

enum { GAL_PRICE_KEY_WORDS = 8 };

typedef struct gal_price_key {
    uint64_t word[GAL_PRICE_KEY_WORDS];
} gal_price_key;

typedef enum gal_price_kind {
    GAL_PRICE_BLOCK,   /* const gal_block_price *: of the very query */
    GAL_PRICE_LIKE,    /* gal_block_price: of all orders of the axes and stages whose groups lie alike */
    GAL_PRICE_FLOOR,   /* gal_block_price: likewise, what it is at least */
    GAL_PRICE_CHARGED, /* gal_block_price: of the very query, in a charged cache */
    GAL_PRICE_PAIR,    /* gal_pair_price */
    GAL_PRICE_CARRIED, /* gal_pair_price */
    GAL_PRICE_LONE,    /* gal_kept_lone: of all orders, stages and samples; some of their samples alone */
    GAL_PRICE_AXES,    /* gal_kept_axes: of these axes in this order, whatever block they split */
    GAL_PRICE_LEVELS,  /* uint16_t: number of the level counts that are its key */
    GAL_PRICE_END,     /* gal_price_end: of the very query */
    GAL_PRICE_MEMORY   /* gal_block_memory: of all orders and stages */
} gal_price_kind;

typedef struct gal_kept_lone {
    gal_lone lone;
    gal_structure *structure; /* of the chain that it is priced by; NULL: not made yet */
} gal_kept_lone;

typedef struct gal_kept_axes {
    gal_axis_levels levels;
    uint16_t id[GAL_AXIS_SETS]; /* equal for equal levels.counts */
} gal_kept_axes;

/* A block beside a conversion. */
typedef struct gal_price_end {
    const gal_block_price *price;
    const gal_lone *lone; /* of the query's samples */
    const gal_kept_axes *axes;
} gal_price_end;

typedef struct gal_price_slot {
    uint32_t hash;
    struct gal_price_entry *entry; /* NULL: free */
} gal_price_slot;

struct gal_price_cache {
    const gal_model *model;
    const gal_durations *durations;
    gal_structures *structures;
    gal_chain_queues *queues;
    gal_crossings *crossings;
    gal_word_keys alike;    /* gal_pair_price: of all conversions between blocks of two prices whose costs are equal */
    gal_block_shape *shape; /* [type] */
    uint32_t *like;         /* [type] by which its blocks are kept (costmodel/alike.h) */
    uint32_t type_first, type_behind_first, type_before_last; /* of the chain's ends */
    uint32_t *type_before_merge;                              /* [type] of the block before the first of a merge's */
    uint32_t slot_count, entry_count;
    uint32_t level_count;         /* numbers of level counts */
    gal_price_slot *slot;         /* open addressing */
    struct gal_price_page *pages; /* that entries lie in */
    struct gal_price_cache *of;   /* charged: the prices without, of which only blocks' are kept here; else NULL */
    gal_price_charge charge;
    uint32_t part_count; /* 0: blocks are kept here; else by these, which have no parts (costmodel/price_parts.c) */
    struct gal_price_cache **part;
    gal_workers *workers;
    bool at_once;           /* tasks run that ask for prices of any part, ... */
    _Atomic uint32_t turn;  /* ... of all parts each in another order */
    pthread_mutex_t *mutex; /* over all that is kept here; NULL: of a cache that one thread asks */
};

void gal_price_parts_free(gal_price_cache *cache); /* of a cache that has none too */
/* What is kept under a key where the blocks of a strategy are, in any order of its axes; or NULL. */
void *gal_price_find_at_home(gal_price_cache *cache, const gal_strategy *strategy, const gal_price_key *key);

/* gal_price_block and gal_price_block_floor of what is kept by this very cache, whose mutex the caller holds; for
 * gal_price_pair and gal_price_carried likewise (price.c, price_pair.c). */
gal_code gal_price_block_here(gal_price_cache *cache, const gal_price_query *asked, const gal_block_price **out,
                              gal_error *err);
gal_code gal_price_floor_here(gal_price_cache *cache, const gal_price_query *asked, const gal_block_price **out,
                              gal_error *err);
gal_code gal_price_conversion_here(gal_price_cache *cache, gal_price_kind kind, const gal_price_query *from,
                                   uint32_t to_type, const gal_strategy *to_strategy, const gal_pair_price **out,
                                   gal_error *err);

/* A query's key, of what results of the kind depend on; words 3, 4 and 6 are zero, and without chunks the upper half of
 * 5, for more of it. Where a stage lies counts only if it does not lie as all others do. */
void gal_price_key_of(const gal_price_cache *cache, gal_price_kind kind, const gal_price_query *query,
                      gal_price_key *out);
/* A strategy's axes in their order, and the rest of it with a type, in a word each. */
uint64_t gal_price_key_axes(const gal_strategy *strategy);
uint64_t gal_price_key_any_order(const gal_strategy *strategy); /* the same for all orders */
uint64_t gal_price_key_flags(const gal_strategy *strategy, uint32_t type);
uint32_t gal_price_key_grid(const gal_strategy *strategy); /* of its TP axis: 0 in mode 1d */

/* price_charged.c: what gal_price_block keeps in a charged cache; of its `of`, without it. */
gal_code gal_price_block_charged(const gal_price_cache *cache, const gal_price_query *query, gal_block_price *out,
                                 gal_error *err);

/* price_kept.c: the query's block alone, where its axes lie. The cache's. Errors as gal_price_block. */
gal_code gal_price_kept_lone(gal_price_cache *cache, const gal_price_query *query, gal_kept_lone **out, gal_error *err);
gal_code gal_price_kept_axes(gal_price_cache *cache, const gal_price_query *query, const gal_kept_axes **out,
                             gal_error *err);

/* A block for the query's samples: the kept one, or else one lowered for this call into *temporary, to be freed by the
 * caller. */
gal_code gal_price_fit_samples(gal_price_cache *cache, const gal_price_query *query, const gal_kept_lone *kept,
                               const gal_lone **lone, gal_lone *temporary, gal_error *err);
/* The query that a price of the block is kept by; *strategy is this query's. */
gal_price_query gal_price_kept_query(const gal_price_cache *cache, const gal_price_query *asked,
                                     gal_strategy *strategy);
/* Whether in forward no kernel runs beside a collective of tensor or sequence parallelism. What a cross-attention reads
 * is exchanged beside what it asks. */
bool gal_price_waits_for_tensor(const gal_price_cache *cache, const gal_price_query *query);

/* What is kept under a key, or NULL. */
void *gal_price_find(const gal_price_cache *cache, const gal_price_key *key);
/* Keeps a copy, which *out (may be NULL) points to from now on. GAL_ERR_SYSTEM without memory. */
gal_code gal_price_keep(gal_price_cache *cache, const gal_price_key *key, const void *result, size_t bytes, void **out,
                        gal_error *err);

#endif
