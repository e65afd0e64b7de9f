/* The communicators that a rank's program needs: one per (group, stream) of its collectives, and one per neighbour
 * and direction of its sends and receives. World rank = stage * D + device. */
#ifndef GAL_RUNTIME_CHANNELS_H
#define GAL_RUNTIME_CHANNELS_H

#include "runtime/comm/comm.h"
#include "runtime/program/program.h"

#define GAL_NO_CHANNEL UINT32_MAX

typedef struct gal_channels {
    uint32_t count;
    gal_channel_spec *spec;   /* [count]: what gal_comm_mpi_create takes */
    uint32_t *of_instruction; /* [instruction_count]: GAL_NO_CHANNEL for kernels and for groups of one */
    uint32_t *ranks;          /* storage of spec[].ranks */
    gal_group *group;         /* [count] */
} gal_channels;

/* The channels of this device of the program's stage, in an order that depends on the program alone. Every rank of
 * the plan calls it for its own program. GAL_ERR_SYSTEM without memory. */
gal_code gal_channels_of(const gal_program *program, uint32_t device, gal_channels *out, gal_error *err);
void gal_channels_free(gal_channels *channels); /* the arrays; accepts a zeroed one */

/* The world ranks of the group's members, in group order, into ranks[stage_count * device_count]; returns their count.
 */
uint32_t gal_group_ranks(const gal_program *program, gal_group group, uint32_t device, uint32_t *ranks);

#endif
