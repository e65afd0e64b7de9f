#ifndef GAL_PLANNER_CLI_SIMULATE_H
#define GAL_PLANNER_CLI_SIMULATE_H

/* The command `galplan simulate`; argv[0] is its name. Returns the exit code. */
int gal_cli_simulate(int argc, char **argv);

#endif
