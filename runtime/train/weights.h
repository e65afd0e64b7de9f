/* The state of a rank seen as the tensors of the model: initial values, gathering, scattering.
 *
 * A unit (gal_unit) lies flat in a rank's arena, whole or cut to its range over the ZeRO group; a tensor
 * (gal_parameter) is one part of a unit, split over the TP group. Global tensors here are without padding:
 * [outer][split_used][inner], row-major. */
#ifndef GAL_RUNTIME_TRAIN_WEIGHTS_H
#define GAL_RUNTIME_TRAIN_WEIGHTS_H

#include "runtime/device/device.h"
#include "runtime/program/program.h"

/* The weights are the masters where there are any, in programs of 16 bits or whose gradients reuse parameters; what
 * kernels read there is they, rounded. */
typedef enum gal_state_part {
    GAL_STATE_WEIGHT,
    GAL_STATE_FIRST_MOMENT,
    GAL_STATE_SECOND_MOMENT,
    GAL_STATE_GRADIENT,
    GAL_STATE_ROUNDED, /* of programs of 16 bits alone */
    GAL_STATE_HOST     /* of units that are updated on the host alone: the weights there, as kernels read them */
} gal_state_part;

/* The parts of a unit that must be written whenever its weights are: what follows from them. Returns their count. */
enum { GAL_STATE_COPIES_MAX = 2 };
uint32_t gal_state_copies(const gal_unit *unit, gal_state_part out[GAL_STATE_COPIES_MAX]);

gal_dtype gal_state_dtype(const gal_program *program, gal_state_part part);

/* Elements [first, first + count) of a unit lie at offset_bytes of the arena. */
typedef struct gal_state_range {
    uint64_t first, count;
    uint64_t offset_bytes;
} gal_state_range;

/* Where one device keeps a part of a unit: the whole unit, or its ZeRO range. Of the gradient: what holds the
 * synchronised sum after a step, which under ZeRO is the device's range. */
gal_state_range gal_state_range_of(const gal_program *program, const gal_unit *unit, uint32_t device,
                                   gal_state_part part);

/* The device that stands for all that hold the same elements: equal digits over the unit's split and ZeRO groups,
 * zeros elsewhere. */
uint32_t gal_state_owner(const gal_program *program, const gal_unit *unit, uint32_t device);

/* `count` elements at offset_bytes of the arena that are consecutive in the global tensor from global_index on. */
typedef struct gal_tensor_run {
    uint64_t global_index, count;
    uint64_t offset_bytes;
} gal_tensor_run;

typedef void (*gal_tensor_run_visit)(void *context, const gal_tensor_run *run);

/* Visits the elements of a tensor that this device holds, by ascending address; padding is left out. */
void gal_tensor_runs(const gal_program *program, const gal_parameter *parameter, uint32_t device, gal_state_part part,
                     gal_tensor_run_visit visit, void *context);

uint64_t gal_tensor_elements(const gal_parameter *parameter); /* of the global tensor, without padding */

/* Copies the elements that this device holds out of / in to global[gal_tensor_elements]; the others are left alone.
 * With weights their copies are written. */
void gal_tensor_read(const gal_program *program, const gal_parameter *parameter, uint32_t device, gal_state_part part,
                     const gal_device_ops *ops, const gal_memory *memory, double *global);
void gal_tensor_write(const gal_program *program, const gal_parameter *parameter, uint32_t device, gal_state_part part,
                      const gal_device_ops *ops, const gal_memory *memory, const double *global);

/* Sets all of this device's weights as functions of (seed, tensor, global index), moments and padding to zero. */
void gal_weights_initialize(const gal_program *program, const gal_model *model, uint32_t device, uint64_t seed,
                            const gal_device_ops *ops, const gal_memory *memory);

#endif
