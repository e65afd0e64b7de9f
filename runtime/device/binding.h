/* Binding ranks to the cores of their host. binding_hwloc.c where hwloc is, else binding_none.c.
 *
 * Rank r of n on a host gets the r-th of n runs of neighbouring cores, so ranks share no core, neighbours share caches,
 * and memory is on the NUMA node of the rank that touches it first. Nothing is done for a single rank, with fewer cores
 * than ranks, and where somebody (mpirun --bind-to, srun --cpu-bind, taskset) has bound the process already. */
#ifndef GAL_RUNTIME_DEVICE_BINDING_H
#define GAL_RUNTIME_DEVICE_BINDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Binds all threads of this process. text: one line for people on what is so now. Cannot fail: what the system refuses
 * is said, and the process stays unbound. */
void gal_binding_apply(uint32_t local_rank, uint32_t local_count, char *text, size_t capacity);

/* Which rank of how many on this host this is, as the launcher's environment says (Open MPI, MPICH, Slurm). False: it
 * does not. */
bool gal_binding_place(uint32_t *local_rank, uint32_t *local_count);

#endif
