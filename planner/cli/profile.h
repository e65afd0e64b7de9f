#ifndef GAL_PLANNER_CLI_PROFILE_H
#define GAL_PLANNER_CLI_PROFILE_H

/* The command `galplan profile`: becomes galplan-profile, which lies beside this program and needs MPI, OpenBLAS and
 * hwloc where galplan does not. argv[0] is the command's name. Returns the exit code only if that fails. */
int gal_cli_profile(int argc, char **argv);

#endif
