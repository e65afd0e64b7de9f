/* galplan import. */
#ifndef GAL_PLANNER_CLI_IMPORT_H
#define GAL_PLANNER_CLI_IMPORT_H

int gal_cli_import(int argc, char **argv);

#endif
