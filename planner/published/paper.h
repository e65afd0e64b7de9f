/* Rows of the tables of Galvatron-BMW as configurations: which strategies there are, what each may choose, and for
 * which models, clusters and memory the paper lists them (schemas/catalogue/reproductions). A row is answered by plans
 * that galrun carries out, at its prices: whole algorithms search (planner/search/named.h), a layout is simulated. */
#ifndef GAL_PLANNER_PUBLISHED_PAPER_H
#define GAL_PLANNER_PUBLISHED_PAPER_H

#include "planner/search/named.h"

enum {
    GAL_PAPER_STRATEGIES_MAX = 32,
    GAL_PAPER_TABLES_MAX = 16,
    GAL_PAPER_BUDGETS_MAX = 8,
    GAL_PAPER_LIST_BYTES = 256
};

#define GAL_PAPER_ALGORITHMS(X)                                                                                        \
    X(GAL_PAPER_LAYOUT, "layout", NULL) /* one strategy for all blocks, layers dealt evenly */                         \
    X(GAL_PAPER_BASE, "galvatron-base", gal_algorithm_galvatron_base)                                                  \
    X(GAL_PAPER_BMW, "galvatron-bmw", gal_algorithm_galvatron_bmw)                                                     \
    X(GAL_PAPER_MEMORY, "memory-balanced", gal_algorithm_galvatron_memory)                                             \
    X(GAL_PAPER_TIME, "time-balanced", gal_algorithm_galvatron_time)

typedef enum gal_paper_algorithm {
#define X(enumerator, name, function) enumerator,
    GAL_PAPER_ALGORITHMS(X)
#undef X
        GAL_PAPER_ALGORITHM_COUNT
} gal_paper_algorithm;

typedef struct gal_paper_strategy {
    char name[GAL_NAME_BYTES]; /* "DP+TP" */
    gal_paper_algorithm algorithm;
    gal_schedule schedule;
    char microbatches[GAL_NAME_BYTES];         /* the policy, as --microbatches says it: "max:16" */
    gal_u32_list microbatch_counts;            /* of the policy; those that divide a batch are tried */
    uint32_t tp_degree, pp_degree, zero_stage; /* of a layout; 0 of the first two: all devices */
    gal_space space;                           /* else */
    gal_u32_list pp_degrees;                   /* empty: all */
    char contains[GAL_PAPER_LIST_BYTES];       /* strategies before it whose plans it may take (paper_row.h) */
} gal_paper_strategy;

typedef struct gal_paper_table {
    char table[8]; /* "III" */
    char cluster[GAL_NAME_BYTES];
    gal_dtype dtype;
    uint32_t budget_count;
    uint64_t budget_bytes[GAL_PAPER_BUDGETS_MAX];
    char models[GAL_PAPER_LIST_BYTES], strategies[GAL_PAPER_LIST_BYTES]; /* names with "," between them */
} gal_paper_table;

typedef struct gal_paper {
    uint32_t strategy_count, table_count;
    gal_paper_strategy strategy[GAL_PAPER_STRATEGIES_MAX];
    gal_paper_table table[GAL_PAPER_TABLES_MAX];
    gal_u32_list batches;
} gal_paper;

/* The documents that ship. GAL_ERR_DOCUMENT. */
gal_code gal_paper_read(gal_paper *out, gal_error *err);
/* NULL: none of this name. */
const gal_paper_strategy *gal_paper_find(const gal_paper *paper, const char *name);
/* The next name of a list from *at on, into name; false at its end. */
bool gal_paper_next_name(const char **at, char name[GAL_NAME_BYTES]);
/* Whether a name is on a list; NULL lists all. */
bool gal_paper_lists(const char *list, const char *name);

/* The best of a strategy: most samples per second as simulated. */
typedef struct gal_paper_answer {
    bool feasible;
    double samples_per_second;
    gal_opinion opinion;                /* of an algorithm */
    gal_plan plan;                      /* owned */
    bool legal;                         /* there are plans, whether or not they fit */
    char refusal[GAL_ERROR_TEXT_BYTES]; /* a rule that others broke: why there are none, if there are none */
} gal_paper_answer;

/* request: model, durations, memory and batches. As gal_algorithm.search; freed by gal_plan_free of the plan. */
gal_code gal_paper_answer_of(const gal_search_request *request, const gal_paper_strategy *strategy,
                             gal_paper_answer *out, gal_error *err);

#endif
