#ifndef GAL_PLANNER_CLI_PROFILE_H
#define GAL_PLANNER_CLI_PROFILE_H

/* The command `galplan profile`; argv[0] is its name. With --analytic it is done here; else the program galplan-profile
 * beside this one takes over, so that galplan needs no MPI (as git starts its commands). Returns the exit code. */
int gal_cli_profile(int argc, char **argv);

#endif
