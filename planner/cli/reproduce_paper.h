/* galplan reproduce galvatron --table, --figure: what Galvatron-BMW's paper shows, on its clusters as data sheets have
 * them and at galrun's prices. */
#ifndef GAL_PLANNER_CLI_REPRODUCE_PAPER_H
#define GAL_PLANNER_CLI_REPRODUCE_PAPER_H

#include "schemas/base/options.h"
#include "schemas/base/status.h"

typedef struct gal_paper_options {
    const char *table;                                /* "II" to "VI"; NULL: a figure */
    uint32_t figure;                                  /* 4 to 7; 0: a table */
    const char *measured;                             /* of Figure 7: a CSV file */
    const char *cluster, *model, *strategies, *batch; /* of those of the table, NULL: all */
    uint64_t memory_bytes;                            /* 0: all budgets of the table */
    bool json;
} gal_paper_options;

/* GAL_ERR_USAGE if there is no such row; else as the searches. */
gal_code gal_cli_reproduce_table(const gal_paper_options *options, gal_error *err);
/* Figure 7 on measurements of one's own. path: columns plan and profile (files), seconds (of a step, measured).
 * GAL_ERR_USAGE, GAL_ERR_DOCUMENT or GAL_ERR_SYSTEM. */
gal_code gal_cli_reproduce_slowdown(const char *path, gal_error *err);
gal_code gal_cli_reproduce_figure(const gal_paper_options *options, gal_error *err);

#endif
