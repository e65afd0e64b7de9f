/* galplan profile --calibrate. */
#ifndef GAL_PLANNER_CLI_CALIBRATE_H
#define GAL_PLANNER_CLI_CALIBRATE_H

/* With the command line of profile. */
int gal_cli_calibrate(int argc, char **argv);

#endif
