/* What the programs that run as ranks (galrun, galplan-profile) have in common around their work: one voice on the
 * command line and for errors, and a deadline on whatever a rank waits for. For command lines. */
#ifndef GAL_RUNTIME_ENGINE_RANK_PROGRAM_H
#define GAL_RUNTIME_ENGINE_RANK_PROGRAM_H

#include <stdbool.h>

#include "schemas/base/options.h"

/* gal_options_run, said by rank 0 alone: the other ranks have the same command line. */
bool gal_rank_options_run(const gal_command *command, int argc, char **argv, gal_arguments *out, int *exit_code);

/* "program: error: ...", said by rank 0 alone: the other ranks have the same text. Under gal_launch the process that
 * ran it prints the first error that any rank has said. */
void gal_rank_print_error(const char *program, const gal_error *err);

/* argv as it was given: the options reorder theirs. To be freed; NULL without memory. */
char **gal_copy_arguments(int argc, char *const *argv);

/* "galrun 1.0.0 (Open MPI 4.1.4, OpenBLAS 0.3.21 Haswell)", for --version. blas: of gal_blas_description. */
void gal_rank_version(const char *program, const char *blas, char *text, size_t capacity);

/* Starts MPI and the roll call. From here to gal_rank_end all that a rank waits for in MPI's own calls ends after
 * deadline_seconds with one line of one rank, or of the process that ran gal_launch, and GAL_ERR_DEVICE. program is
 * kept. */
gal_code gal_rank_start(const char *program, double deadline_seconds, int *argc, char ***argv, gal_error *err);
void gal_rank_end(void); /* also after a start that failed */

#endif
