#include "runtime/engine/rank_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/comm/comm.h"
#include "runtime/launch/launch_rank.h"
#include "schemas/base/version.h"

enum { MPI_BYTES = 64 };

bool gal_rank_options_run(const gal_command *command, int argc, char **argv, gal_arguments *out, int *exit_code)
{
    if (gal_launched_rank() == 0) {
        return gal_options_run(command, argc, argv, out, exit_code);
    }
    *exit_code = (int)gal_options_parse(command, argc, argv, out, NULL);
    return *exit_code == GAL_OK && !out->help && !out->version;
}

/* Of a rank that gal_launch started the process that ran it speaks, so that what several ranks say at once is one line;
 * else this one. */
static void say(const char *program, const gal_error *err)
{
    if (!gal_launch_say(err)) {
        (void)fprintf(stderr, "%s: error: %s\n", program, err->text);
        (void)fflush(stderr);
    }
}

void gal_rank_print_error(const char *program, const gal_error *err)
{
    if (gal_launched_rank() == 0) {
        say(program, err);
    }
}

char **gal_copy_arguments(int argc, char *const *argv)
{
    char **copy = calloc((size_t)argc + 1, sizeof *copy);
    if (copy != NULL) {
        memcpy(copy, argv, (size_t)argc * sizeof *copy);
    }
    return copy;
}

void gal_rank_version(const char *program, const char *blas, char *text, size_t capacity)
{
    char mpi[MPI_BYTES];
    gal_mpi_version(mpi, sizeof mpi);
    (void)snprintf(text, capacity, "%s %s (%s, %s)", program, GAL_VERSION, mpi, blas);
}

/* What the roll call's voice begins with: it is called with an error alone. */
static const char *speaker;

/* The one line of the one rank that speaks when others have been lost. */
static void tell_loss(const gal_error *err)
{
    say(speaker, err);
}

gal_code gal_rank_start(const char *program, double deadline_seconds, int *argc, char ***argv, gal_error *err)
{
    gal_code code = GAL_OK;
    speaker = program;
    gal_launch_deadline(program, deadline_seconds);
    gal_mpi_set_deadline(deadline_seconds, gal_launch_blocked, gal_launch_unblocked);
    GAL_TRY(gal_mpi_init(argc, argv, err));
    GAL_TRY(gal_mpi_roll_call_enable(tell_loss, err));
cleanup:
    return code;
}

void gal_rank_end(void)
{
    gal_mpi_roll_call_disable();
    gal_mpi_finalize();
}
