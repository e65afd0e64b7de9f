/* galplan solve (planner/cli/solve.c). */
#ifndef GAL_PLANNER_CLI_SOLVE_H
#define GAL_PLANNER_CLI_SOLVE_H

int gal_cli_solve(int argc, char **argv);

#endif
