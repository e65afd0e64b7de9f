/* galplan estimate. */
#ifndef GAL_PLANNER_CLI_ESTIMATE_H
#define GAL_PLANNER_CLI_ESTIMATE_H

int gal_cli_estimate(int argc, char **argv);

#endif
