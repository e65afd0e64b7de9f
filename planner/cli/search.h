#ifndef GAL_PLANNER_CLI_SEARCH_H
#define GAL_PLANNER_CLI_SEARCH_H

/* The command `galplan search`; argv[0] is its name. Returns the exit code. */
int gal_cli_search(int argc, char **argv);

#endif
