/* galplan reproduce oases. */
#ifndef GAL_PLANNER_CLI_REPRODUCE_OASES_H
#define GAL_PLANNER_CLI_REPRODUCE_OASES_H

int gal_cli_reproduce_oases(int argc, char **argv);

#endif
