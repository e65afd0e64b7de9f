/* galplan lower: the program of a stage as text. */
#ifndef GAL_PLANNER_CLI_LOWER_H
#define GAL_PLANNER_CLI_LOWER_H

/* argv[0] is "lower". Returns the exit code: 0; 2 usage; 3 the document is wrong; 4 system. */
int gal_cli_lower(int argc, char **argv);

#endif
