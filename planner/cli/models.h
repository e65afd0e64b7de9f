#ifndef GAL_PLANNER_CLI_MODELS_H
#define GAL_PLANNER_CLI_MODELS_H

/* The command `galplan models`; argv[0] is its name. Returns the exit code. */
int gal_cli_models(int argc, char **argv);

#endif
