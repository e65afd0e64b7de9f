/* The price tables that a certificate is proved from: for planner/certificate/certificate.c alone.
 *
 * Of every kind of stage and every type of block the strategies that may be had, with seconds and bytes as the
 * objective and the byte formula count them (costmodel/objective.h, costmodel/memory.h). */
#ifndef GAL_PLANNER_CERTIFICATE_CERTIFICATE_PRICES_H
#define GAL_PLANNER_CERTIFICATE_CERTIFICATE_PRICES_H

#include "costmodel/objective.h"
#include "planner/certificate/certificate.h"
#include "planner/space/block_types.h"
#include "schemas/base/heap.h"

/* What of a stage: its round; what it adds to the sum over stages, of one stage alone all its seconds. */
typedef enum gal_cert_table { GAL_CERT_ROUND, GAL_CERT_ADDED, GAL_CERT_TABLES } gal_cert_table;

/* Where in its stage a block is: what begins and ends a stage adds to it. */
typedef enum gal_cert_position {
    GAL_CERT_INSIDE,
    GAL_CERT_FIRST,
    GAL_CERT_LAST,
    GAL_CERT_ALONE,
    GAL_CERT_POSITIONS
} gal_cert_position;

/* A strategy of a block on a stage. */
typedef struct gal_cert_item {
    double seconds[GAL_CERT_POSITIONS];
    double bytes[GAL_CERT_POSITIONS]; /* with those of every microbatch in flight */
    double turn_bytes;                /* of all that blocks use in turn: a stage has the largest of each */
    uint32_t class;                   /* of those whose rows lie alike */
} gal_cert_item;

typedef struct gal_cert_menu {
    uint32_t count; /* 0: the stage has no such blocks */
    gal_cert_item *item;
} gal_cert_menu;

/* What blocks take under strategies of theirs. */
typedef struct gal_cert_choice {
    double cost, seconds, bytes;
} gal_cert_choice;

/* Of a choice, where what it costs is not asked. */
typedef struct gal_cert_label {
    double seconds, bytes;
} gal_cert_label;

/* Blocks of one stage. */
typedef struct gal_cert_chain {
    uint32_t begin, end;
} gal_cert_chain;

/* Labels that no other beats, by rising bytes. */
typedef struct gal_cert_list {
    uint32_t count;
    gal_cert_label *label; /* has room for two lists */
} gal_cert_list;

/* Stages whose tables are the same. */
typedef struct gal_cert_kind {
    uint32_t stage, place, in_flight; /* the first of them; gal_price_place, numbered; microbatches */
    double probe_seconds;             /* of a transfer to the next stage: links that are alike take equally long */
} gal_cert_kind;

/* Of one table. */
typedef struct gal_cert_menus {
    const gal_cert_kind *kind;
    gal_cert_table table;
    gal_cert_menu *of; /* [type]: but for what another item of its class beats */
    uint32_t turn_count;
    double *turn;        /* their turn_bytes, ascending */
    double *least;       /* [type] seconds anywhere, bytes ignored */
    double ends_seconds; /* what beginning and ending a stage add at least: 0 or less */
} gal_cert_menus;

/* Menus that were opened before; how many items and turns there is room for. */
typedef struct gal_cert_kept {
    bool known;
    double tail_weight;
    uint32_t changed_count; /* then */
    gal_cert_menus menus;
    size_t item_count, turn_count;
} gal_cert_kept;

/* What a strategy's items are made of, on every kind of stage of a place: no item falls as any of it rises. */
typedef struct gal_cert_row {
    double pass_seconds, enter_seconds, leave_seconds, tail_seconds; /* pass: forward and backward */
    double sync_seconds[2], update_seconds[2], held_bytes[2];        /* [pays for the token table]; held: once */
    double saved_bytes, input_bytes, turn_bytes;
    uint64_t boundary_bytes;
    double link_share[GAL_LINK_LEVELS_MAX];
    uint32_t class, strategy; /* strategy: the first it is of */
    bool stages_input;        /* what was received goes on to the host */
    bool repeats;             /* the price of one before it, of another class */
} gal_cert_row;

/* Of a type on stages of a place. */
typedef struct gal_cert_rows {
    bool priced, known; /* its strategies have prices; rows are made of them */
    uint32_t count;
    gal_cert_row *row;
} gal_cert_rows;

/* A split of a block by itself, with its share of the states where they may be sharded. */
typedef struct gal_cert_kernels {
    bool legal;
    bool opened; /* of floors: more is known of its strategies */
    gal_block_floor floor;
} gal_cert_kernels;

/* What seconds and bytes are from: kernels of splits alone (costmodel/floor.h), which no plan is faster than, whatever
 * its prices; in one stage, where no turn of a block that is not priced can gain, of what is cheapest by kernels what
 * prices are at least (gal_price_block_floor), then of what is cheapest by that prices; prices. */
typedef enum gal_cert_source { GAL_CERT_KERNELS, GAL_CERT_FLOORS, GAL_CERT_PRICED, GAL_CERT_SOURCES } gal_cert_source;

enum { GAL_CERT_LABELS = 1024, GAL_CERT_NOTES = 32 };

/* Where floors did not prove enough: the best price per byte of such items. */
typedef struct gal_cert_note_of {
    double tail_weight, price, top;
} gal_cert_note_of;

typedef struct gal_cert_notes {
    uint32_t count;
    gal_cert_note_of of[GAL_CERT_NOTES];
} gal_cert_notes;

/* Of ends of chains the last that has most blocks before it in common, and how many. */
typedef struct gal_cert_like {
    uint32_t end, common;
} gal_cert_like;

typedef struct gal_cert_prices {
    const gal_certificate_cell *cell;
    const gal_certificate_sources *from;
    gal_heap heap; /* all arrays; its code is what failed first */
    gal_block_types types;
    uint32_t devices, samples, blocks, stages;
    double common_seconds; /* of what no block owns */
    gal_round_counts rounds;
    uint32_t strategy_count, class_count, place_count, kind_count;
    gal_strategy *strategy;    /* by prices */
    uint32_t *part;            /* [strategy] of the prices */
    uint32_t *class, *stands;  /* [strategy]; [class] its first strategy */
    double *received_bytes;    /* [type] at the entry of a stage: the least that rows of any class take */
    uint32_t *place, *kind_of; /* [stage] */
    gal_cert_kind *kind;
    gal_cert_like *like;                  /* [end] of chains */
    gal_cert_menus menus;                 /* opened last: of the room, or as they were kept */
    gal_cert_menus room;                  /* for all items of all types */
    gal_cert_kept *kept;                  /* [kind][table][any class] */
    uint32_t priced_count, changed_count; /* how often some more were priced; some more became known */
    const gal_block_price **price;        /* [place][type][strategy]; NULL: not to be had */
    bool *exact;                          /* [type][strategy] of floors: a price is in its place */
    gal_cert_notes notes;                 /* but of prices */
    gal_cert_rows *rows;                  /* [place][type]: gal_cert_rows_of */
    gal_cert_source source;
    uint32_t split_count;
    gal_split_kind *split;     /* [split_count]; but of prices alone */
    uint32_t *split_of;        /* [strategy] of floors; the count: of none */
    gal_cert_kernels *kernels; /* [type][split] */
    double *conversion;        /* [place][pair][class][class]; NaN: not asked for yet */
    uint64_t asked_count;      /* of them that were asked for */
} gal_cert_prices;

/* cell and from are referred to. Of kernels and floors nothing converts.
 * GAL_ERR_SYSTEM without memory; else as gal_price_block. Freed also if it fails. */
gal_code gal_cert_prices_create(const gal_certificate_cell *cell, const gal_certificate_sources *from,
                                gal_cert_source source, gal_cert_prices *out, gal_error *err);
/* Of floors: of what is cheapest by kernels at what was noted since, it becomes known what it takes at least; where
 * that is known, what is cheapest gets its price, and notes are dropped. False: it has, or it failed (heap.code). */
bool gal_cert_floors_more(gal_cert_prices *prices);
bool gal_cert_prices_more(gal_cert_prices *prices);
/* At the best price per byte of items up to `top`; shown: there enough was proved. */
void gal_cert_note(gal_cert_prices *prices, bool shown, double tail_weight, double price, double top);
/* Of a strategy, which is legal for the type; NULL where it is not to be had. GAL_ERR_SYSTEM: as gal_price_block. */
gal_code gal_cert_price_strategy(gal_cert_prices *prices, uint32_t stage, uint32_t type, uint32_t strategy, bool floor,
                                 gal_error *err);
void gal_cert_prices_free(gal_cert_prices *prices);

/* Whether blocks may take the strategy, as far as none is asked; then whether one of the type may: it is legal, and not
 * the same program as another that the space has. */
bool gal_cert_may_take(const gal_cert_prices *prices, const gal_strategy *strategy, uint32_t devices, uint32_t samples);
bool gal_cert_may_take_for(const gal_cert_prices *prices, uint32_t type, const gal_strategy *strategy,
                           uint32_t samples);
/* Fills kernels. GAL_ERR_SYSTEM without memory. */
gal_code gal_cert_price_kernels(gal_cert_prices *prices);

/* Of a type that is priced, in the order of strategies: of those of one price and class the first. Without memory it
 * has none: heap.code. */
const gal_cert_rows *gal_cert_rows_of(gal_cert_prices *prices, uint32_t place, uint32_t type);

/* What the price says in a row; NULL: it takes for ever. */
void gal_cert_row_price(const gal_cert_prices *prices, const gal_block_price *price, gal_cert_row *row);
gal_cert_item gal_cert_item_of(const gal_cert_prices *prices, const gal_cert_kind *kind, uint32_t type,
                               const gal_cert_row *row, gal_cert_table table, double tail_weight);
gal_cert_item gal_cert_kernel_item(const gal_cert_prices *prices, const gal_cert_kind *kind, uint32_t type,
                                   uint32_t split, gal_cert_table table);
/* A split of which no more is known. */
bool gal_cert_is_closed(const gal_cert_prices *prices, uint32_t type, uint32_t split);

/* fmin, inlined; a where b is no number. */
static inline double gal_cert_lesser(double a, double b)
{
    return b < a ? b : a;
}

/* Fills like, once. */
void gal_cert_number_likes(gal_cert_prices *prices);

/* far[begin]: no chain from there that ends behind it takes less than `most`, where a block takes at least least[type],
 * infinity: the stage cannot have it, and ends, no more than 0, take ends_seconds.
 * sum  room for a block more than there are */
void gal_cert_reach(const gal_cert_prices *prices, const double *least, double ends_seconds, double most, double *sum,
                    uint32_t *far);

/* Fills menus of the kind's table; the first stage's tail is weighed: at most 1. any_class: what converts rows is not
 * asked, so all items are of class 0, and few are not beaten by another. */
void gal_cert_menus_open(gal_cert_prices *prices, uint32_t kind, gal_cert_table table, double tail_weight,
                         bool any_class);
/* Room for menus, once it is known how many items there may be; heap.code says whether. */
void gal_cert_menus_create(gal_cert_prices *prices);
/* What gal_cert_menus_open opens, found anew, into room for all items. */
void gal_cert_menus_fill(gal_cert_prices *prices, const gal_cert_kind *kind, gal_cert_table table, double tail_weight,
                         bool any_class, gal_cert_menus *out);

static inline gal_cert_choice gal_cert_joined(const gal_cert_choice *a, const gal_cert_choice *b)
{
    return (gal_cert_choice){a->cost + b->cost, a->seconds + b->seconds, a->bytes + b->bytes};
}

/* Of two the cheaper one, of equal ones the smaller. */
static inline gal_cert_choice gal_cert_cheaper(gal_cert_choice a, gal_cert_choice b)
{
    return b.cost < a.cost || (b.cost == a.cost && b.bytes < a.bytes) ? b : a;
}

/* Into a list what no other beats of its own and of another's with more seconds and bytes, as long as they then cost no
 * more than `most`: seconds, and bytes at the price. Where there are more than GAL_CERT_LABELS, the least of two
 * neighbours stands for both. spare: whose labels it takes, and leaves its own for. */
void gal_cert_merge(gal_cert_list *into, const gal_cert_list *from, const gal_cert_choice *more, double price,
                    double most, gal_cert_list *spare);

/* Empty lists. NULL: heap.code says why. */
gal_cert_list *gal_cert_lists_take(gal_heap *heap, size_t count);
/* What the cheapest of a list costs at the price; infinity: it is empty. */
double gal_cert_list_least(const gal_cert_list *list, double price);
/* Seconds of the fastest that has at most so many bytes; infinity: none has. */
double gal_cert_list_fastest(const gal_cert_list *list, double limit_bytes);

/* Of an item at a cost of `rate` per second, 1 or 0, and `price` per byte. */
static inline gal_cert_choice gal_cert_choice_of(const gal_cert_item *item, gal_cert_position at, double rate,
                                                 double price)
{
    return (gal_cert_choice){rate * item->seconds[at] + price * item->bytes[at], item->seconds[at], item->bytes[at]};
}

/* The cheapest item of the type's menu that takes up to `top` bytes in turn, of several the smallest; if there is none
 * its cost is infinity. rate and price as of gal_cert_choice_of. */
gal_cert_choice gal_cert_cheapest(const gal_cert_prices *prices, uint32_t type, gal_cert_position at, double rate,
                                  double price, double top);
/* Of one class, where no rows are converted: every block of the chain takes what is cheapest there. rest and on,
 * [block] as the chain has them (NULL: not asked for): from the block to the end, the first one as if it were inside;
 * cost of what comes behind it. */
gal_cert_choice gal_cert_chain_of_cheapest(const gal_cert_prices *prices, const gal_cert_chain *chain, double rate,
                                           double price, double top, gal_cert_choice *rest, double *on);
/* What gal_cert_cheapest finds of all types, positions and classes, classes beyond the count taken together:
 * best[position][type][class]. */
void gal_cert_menus_price(const gal_cert_prices *prices, double rate, double price, double top, uint32_t class_count,
                          gal_cert_choice *best);

/* What the cheapest chain of the blocks [begin, end) costs at most: as one of a single class does, and rounding.
 * before[block]: what its blocks before it cost at least, wherever their rows lie. */
double gal_cert_menus_limit(const gal_cert_prices *prices, uint32_t class_count, const gal_cert_choice *best,
                            uint32_t begin, uint32_t end, double *before);

/* Seconds of the conversion of a pair's rows between two classes on the menus' kind of stage; infinity: not allowed. A
 * price that cannot be had is left in the heap's code. */
double gal_cert_conversion(gal_cert_prices *prices, uint32_t pair, uint32_t from, uint32_t to);
/* It was asked for before: of this place, whatever the kind. */
bool gal_cert_conversion_is_known(const gal_cert_prices *prices, uint32_t pair, uint32_t from, uint32_t to);

#endif
