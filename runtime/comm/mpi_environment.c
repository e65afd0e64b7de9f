/* MPI's environment: begun once, ended once, and who this rank is in it. */
#include <stdio.h>
#include <string.h>

#include "runtime/comm/mpi_internal.h"

gal_code gal_mpi_check(int result, const char *what, gal_error *err)
{
    if (result == MPI_SUCCESS) {
        return GAL_OK;
    }
    char text[MPI_MAX_ERROR_STRING + 1] = "unknown error";
    int length = 0;
    (void)MPI_Error_string(result, text, &length);
    return gal_fail(err, GAL_ERR_DEVICE, "%s: %s", what, text);
}

gal_code gal_mpi_init(int *argc, char ***argv, gal_error *err)
{
    int initialized = 0;
    int provided = MPI_THREAD_SERIALIZED;
    MPI_Initialized(&initialized);
    gal_code code = GAL_OK;
    if (!initialized) {
        gal_mpi_blocked("MPI_Init_thread", NULL, 0);
        const int result = MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &provided);
        gal_mpi_unblocked();
        GAL_TRY(gal_mpi_check(result, "MPI_Init_thread", err));
    }
    if (provided < MPI_THREAD_SERIALIZED) {
        return gal_fail(err, GAL_ERR_DEVICE, "this MPI does not let threads take turns (MPI_THREAD_SERIALIZED)");
    }
    GAL_TRY(gal_mpi_check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "error handler", err));
    GAL_TRY(gal_mpi_check(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN), "error handler", err));
cleanup:
    return code;
}

void gal_mpi_finalize(void)
{
    int initialized = 0;
    int finalized = 0;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (initialized && !finalized) {
        gal_mpi_blocked("MPI_Finalize", NULL, 0);
        MPI_Finalize();
    }
}

uint32_t gal_mpi_rank(void)
{
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return (uint32_t)rank;
}

uint32_t gal_mpi_world_size(void)
{
    int rank_count = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &rank_count);
    return (uint32_t)rank_count;
}

/* The library says more than its name and version; "Open MPI v4.1.4, package: ..." loses the v and the rest. */
void gal_mpi_version(char *text, size_t capacity)
{
    char whole[MPI_MAX_LIBRARY_VERSION_STRING] = "MPI";
    int length = 0;
    (void)MPI_Get_library_version(whole, &length);
    whole[strcspn(whole, ",\n")] = '\0';
    char *version = strstr(whole, " v");
    if (version != NULL) {
        memmove(version + 1, version + 2, strlen(version + 1));
    }
    (void)snprintf(text, capacity, "%s", whole);
}
