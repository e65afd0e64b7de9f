/* galplan profile --calibrate. */
#ifndef GAL_PLANNER_CLI_CALIBRATE_H
#define GAL_PLANNER_CLI_CALIBRATE_H

#include "planner/layouts/csv.h"

/* With the command line of profile. */
int gal_cli_calibrate(int argc, char **argv);

/* On stderr, where a table's last line has no end. */
void gal_cli_note_cut(const gal_csv *csv);

#endif
