#include <stdlib.h>

#include "runtime/device/binding.h"

/* A whole number; what may follow it is "(x2)", as Slurm writes equal nodes. */
static bool read_number(const char *name, uint32_t *value)
{
    char *rest;
    const char *text = getenv(name);
    if (text == NULL || *text < '0' || *text > '9') {
        return false;
    }
    const unsigned long number = strtoul(text, &rest, 10);
    if (number > UINT32_MAX || (*rest != '\0' && *rest != '(')) {
        return false;
    }
    for (; *rest != '\0'; rest++) {
        if (*rest == ',') { /* nodes differ, and which one this is it does not say */
            return false;
        }
    }
    *value = (uint32_t)number;
    return true;
}

bool gal_binding_place(uint32_t *local_rank, uint32_t *local_count)
{
    static const char *const names[][2] = {{"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                                           {"MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
                                           {"SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"},
                                           {"LOCAL_RANK", "LOCAL_WORLD_SIZE"}};
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        uint32_t rank = 0, count = 0;
        if (read_number(names[i][0], &rank) && read_number(names[i][1], &count) && rank < count) {
            *local_rank = rank;
            *local_count = count;
            return true;
        }
    }
    return false;
}
