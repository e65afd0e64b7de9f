/* galplan export. */
#ifndef GAL_PLANNER_CLI_EXPORT_H
#define GAL_PLANNER_CLI_EXPORT_H

int gal_cli_export(int argc, char **argv);

#endif
