#ifndef GAL_PLANNER_CLI_DOCTOR_H
#define GAL_PLANNER_CLI_DOCTOR_H

/* The command `galplan doctor`; argv[0] is its name. Returns the exit code: 0 if planning works. */
int gal_cli_doctor(int argc, char **argv);

#endif
