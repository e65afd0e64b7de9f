#ifndef GAL_PLANNER_CLI_CATALOGUE_H
#define GAL_PLANNER_CLI_CATALOGUE_H

/* The commands `galplan models` and `galplan clusters`; argv[0] is their name. Return the exit code. */
int gal_cli_models(int argc, char **argv);
int gal_cli_clusters(int argc, char **argv);

#endif
