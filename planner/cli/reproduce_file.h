/* The commands 'galplan reproduce PAPER [FIGURE]' that write lines to a file or to stdout. */
#ifndef GAL_PLANNER_CLI_REPRODUCE_FILE_H
#define GAL_PLANNER_CLI_REPRODUCE_FILE_H

#include <stdio.h>

#include "schemas/base/status.h"

typedef struct gal_reproduce_command {
    const char *name;            /* "reproduce PAPER" */
    const char *summary, *notes; /* of --help */
    /* figure: as given, else NULL: all. Writes a header and its lines. */
    gal_code (*write)(const char *figure, FILE *out, gal_error *err);
} gal_reproduce_command;

/* The exit code. */
int gal_cli_reproduce_file(const gal_reproduce_command *of, int argc, char **argv);

#endif
