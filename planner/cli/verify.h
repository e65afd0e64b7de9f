/* galplan verify: the document and the programs of a plan, checked. */
#ifndef GAL_PLANNER_CLI_VERIFY_H
#define GAL_PLANNER_CLI_VERIFY_H

/* argv[0] is "verify". Returns the exit code: 0 proved; 1 refused; 2 usage; 3 the document is wrong; 4 system. */
int gal_cli_verify(int argc, char **argv);

#endif
