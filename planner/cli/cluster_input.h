/* The --cluster of the commands: a file, a name, or words, with a note on what words were taken for. */
#ifndef GAL_PLANNER_CLI_CLUSTER_INPUT_H
#define GAL_PLANNER_CLI_CLUSTER_INPUT_H

#include "schemas/cluster.h"

/* As gal_cluster_read; words are answered by gal_cli_cluster_note. */
gal_code gal_cli_cluster_read(const char *path, gal_cluster *out, gal_error *err);
/* A line on stderr: the devices, every link and its rate, and what a device gets of a shared network. */
void gal_cli_cluster_note(const char *words, const gal_cluster *cluster);

#endif
