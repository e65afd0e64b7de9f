/* galplan reproduce colossal. */
#ifndef GAL_PLANNER_CLI_REPRODUCE_COLOSSAL_H
#define GAL_PLANNER_CLI_REPRODUCE_COLOSSAL_H

int gal_cli_reproduce_colossal(int argc, char **argv);

#endif
