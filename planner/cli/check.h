#ifndef GAL_PLANNER_CLI_CHECK_H
#define GAL_PLANNER_CLI_CHECK_H

/* The command `galplan check`; argv[0] is its name. Returns the exit code. */
int gal_cli_check(int argc, char **argv);

#endif
