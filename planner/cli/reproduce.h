/* galplan reproduce. */
#ifndef GAL_PLANNER_CLI_REPRODUCE_H
#define GAL_PLANNER_CLI_REPRODUCE_H

int gal_cli_reproduce(int argc, char **argv);

#endif
