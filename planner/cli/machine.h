/* What is on this machine, found without linking any of it: libraries are opened by name, the rest is read from /proc
 * and /sys. Nothing here can fail: what is not there is a finding too. */
#ifndef GAL_PLANNER_CLI_MACHINE_H
#define GAL_PLANNER_CLI_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

enum { GAL_FINDING_TEXT_BYTES = 256 };

typedef struct gal_finding {
    const char *name;
    bool found;
    char text[GAL_FINDING_TEXT_BYTES];       /* version and the like; "" if not found */
    char looked_for[GAL_FINDING_TEXT_BYTES]; /* names of libraries, files or programs */
} gal_finding;

typedef enum gal_found {
    GAL_FOUND_GALRUN,
    GAL_FOUND_PROFILER,
    GAL_FOUND_MPIRUN,
    GAL_FOUND_SRUN,
    GAL_FOUND_MPI,
    GAL_FOUND_BLAS,
    GAL_FOUND_HWLOC,
    GAL_FOUND_PROCESSOR,
    GAL_FOUND_MEMORY,
    GAL_FOUND_MEMORY_LIMIT,
    GAL_FOUND_CUDA_DRIVER,
    GAL_FOUND_GPU,
    GAL_FOUND_CUDA,
    GAL_FOUND_CUDNN,
    GAL_FOUND_NCCL,
    GAL_FOUND_INFINIBAND,
    GAL_FOUND_NETWORK,
    GAL_FOUND_COUNT
} gal_found;

typedef struct gal_machine {
    gal_finding finding[GAL_FOUND_COUNT];
    uint32_t core_count; /* processing units that this process may run on */
} gal_machine;

void gal_machine_look(gal_machine *out);

#endif
