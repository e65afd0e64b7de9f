/* galplan reproduce galvatron --table, --figure: what Galvatron-BMW's paper shows, on its clusters as data sheets have
 * them and at galrun's prices. */
#ifndef GAL_PLANNER_CLI_REPRODUCE_PAPER_H
#define GAL_PLANNER_CLI_REPRODUCE_PAPER_H

#include "schemas/base/options.h"
#include "schemas/base/status.h"

typedef struct gal_paper_options {
    const char *table;                                /* "II" to "VI"; NULL: a figure */
    uint32_t figure;                                  /* 4, 5 or 6; 0: a table */
    const char *cluster, *model, *strategies, *batch; /* of those of the table, NULL: all */
    uint64_t memory_bytes;                            /* 0: all budgets of the table */
    bool json;
} gal_paper_options;

/* GAL_ERR_USAGE if there is no such row; else as the searches. */
gal_code gal_cli_reproduce_table(const gal_paper_options *options, gal_error *err);
gal_code gal_cli_reproduce_figure(const gal_paper_options *options, gal_error *err);

#endif
