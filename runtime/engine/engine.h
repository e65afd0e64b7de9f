/* The engine: carries out the program of one rank on a device and a communicator.
 *
 * Every stream is an in-order queue over the whole step; compute runs in the caller's thread when it is at the head of
 * its queue and its waits are met, and between two kernels every other queue is advanced as far as it goes: a
 * collective starts when it is at the head and its waits are met, and is tested until it is complete. Messages move
 * while a thread is in MPI: within kernels that is a second one, which the engine keeps for that (courier.h).
 * Nothing is issued late, so a step ends whenever the queues of runtime/program/verify/verify.h do. A step allocates
 * nothing.
 *
 * On a device with queues every stream is one of them. The thread issues the step in the order of the calls' lists,
 * with events where an entry waits for another stream, and then looks how far the device is (engine_tape.h); where
 * communication is the host's (a comm that is not queued), each stream is issued as far as what it waits for is.
 * Transfers between the host's memory and a file are the host's in either case (engine_transfer.c). */
#ifndef GAL_RUNTIME_ENGINE_ENGINE_H
#define GAL_RUNTIME_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/channels.h"
#include "runtime/comm/comm.h"
#include "runtime/device/device.h"
#include "runtime/device/storage.h"
#include "runtime/engine/loss_scaling.h"
#include "runtime/engine/queues.h"
#include "runtime/ops/ops.h"
#include "runtime/program/program.h"

/* Rows of tokens; or of the targets, what is to be said at each position (of one sequence the tokens that follow, of an
 * encoder-decoder a second sequence; -1: nothing); or of what its decoder reads: token 0, then the targets but the
 * last.
 */
typedef struct gal_token_request {
    uint64_t batch;          /* number of the step, or of the evaluated batch */
    const uint32_t *samples; /* [sample_count] index in the global batch */
    uint32_t sample_count;
    uint32_t position_begin;
    uint32_t sequence_length; /* positions from position_begin on */
    bool targets;
    bool decoder;
    bool evaluation;
} gal_token_request;

/* Patches of images: position p >= 1 is patch p - 1 of its image, position 0 zeros. */
typedef struct gal_patch_request {
    uint64_t batch;
    const uint32_t *samples;
    uint32_t sample_count;
    uint32_t position_begin, position_count;
    uint32_t features;
    gal_dtype dtype; /* fp32 or fp64 */
    bool evaluation;
} gal_patch_request;

typedef struct gal_token_source {
    void *context;
    /* out[sample_count][sequence_length], each in [0, vocabulary), targets also -1. Called within a step: allocates
     * nothing. */
    gal_code (*fill)(void *context, const gal_token_request *request, int32_t *out, gal_error *err);
    /* out[position_count][sample_count][features] of the dtype. NULL: no images. */
    gal_code (*fill_patches)(void *context, const gal_patch_request *request, void *out, gal_error *err);
    /* Of models that pad, else NULL. out[sample_count]: how many positions of each sample's source, of at most
     * sequence_length, are not padding; at least 1. */
    gal_code (*fill_lengths)(void *context, const gal_token_request *request, int32_t *out, gal_error *err);
    /* Likewise: targets of the whole global batch that are not -1; at least 1, equal on all ranks. */
    gal_code (*count_targets)(void *context, uint64_t batch, bool evaluation, uint64_t *out, gal_error *err);
} gal_token_source;

/* Called for every instruction that is complete: seconds of gal_now_seconds. */
typedef struct gal_trace {
    void *context;
    void (*done)(void *context, uint32_t instruction, uint32_t microbatch, double start_seconds, double end_seconds);
} gal_trace;

typedef struct gal_engine_options {
    const gal_device_ops *device;
    const gal_ops *ops;      /* of the program's dtype */
    const gal_ops *wide_ops; /* of programs of 16 bits: those of fp32, for gradients of weights; else NULL */
    /* Of devices with queues: what the host does beside them (host_adam and its part) in programs of this dtype. NULL:
     * nothing, and programs that ask for it are refused. */
    const gal_ops *host_ops;
    const char *storage_directory; /* where a program's file goes; NULL: programs that have one are refused */
    gal_storage_way storage_way;
    gal_comm *comm; /* made with the same channels; NULL if there are none */
    gal_token_source tokens;
    gal_trace trace;          /* done NULL: none */
    double deadline_seconds;  /* without any progress on this rank */
    bool poison;              /* the arena starts as NaN instead of zeros */
    gal_kernel_choice choice; /* of a device's kernels. Multiprocessors are left to communication only where it is on
                               * the device's queues and goes on beside kernels */
    bool graphs;              /* from the second step on, runs of kernels are captured and launched as one */
    gal_queue_order order;    /* the same bits in either */
} gal_engine_options;

typedef struct gal_engine gal_engine;

typedef struct gal_step_settings {
    uint64_t step; /* 0-based */
    uint64_t seed; /* of dropout */
    double learning_rate;
} gal_step_settings;

typedef struct gal_step_result {
    double loss;          /* mean over the positions of the global batch that are in it, nats; equal on all ranks */
    double gradient_norm; /* global 2-norm before clipping */
} gal_step_result;

/* Allocates the arena (exactly program->arena_bytes, program->host_bytes in the host's memory, and a file of
 * program->storage_bytes) and resolves everything that does not change from step to step. device: number within the
 * stage. program, model, channels, comm are borrowed. The arena's content is undefined: gal_weights_initialize or a
 * checkpoint fills the state. GAL_ERR_SYSTEM without memory or room for the file; GAL_ERR_DEVICE if the ops lack a
 * kernel. */
gal_code gal_engine_create(const gal_program *program, const gal_model *model, uint32_t device,
                           const gal_channels *channels, const gal_engine_options *options, gal_engine **out,
                           gal_error *err);
void gal_engine_free(gal_engine *engine);

/* One optimizer step, to its end. GAL_ERR_DEVICE: no progress within the deadline, named with the heads of all
 * streams, or a failed collective; the engine is of no use afterwards. A result that is not finite is not an error
 * here: weights and moments of all ranks then stay as they were. */
gal_code gal_engine_step(gal_engine *engine, const gal_step_settings *settings, gal_step_result *out, gal_error *err);

/* Of the last step, in fp16: its loss was finite, its gradients were not at the scale that the loss then had, which is
 * halved. To be expected now and then; equal on all ranks. */
bool gal_engine_overflowed(const gal_engine *engine);

/* Of programs of fp16, between two steps: what the next one starts with. Others have none, and keep to that. */
gal_loss_scaling gal_engine_loss_scaling(const gal_engine *engine);
void gal_engine_set_loss_scaling(gal_engine *engine, gal_loss_scaling scaling);

/* Where a step first left finite numbers, on this rank. */
typedef struct gal_engine_fault {
    bool found, forward;
    uint32_t block; /* of the model */
} gal_engine_fault;

/* Carries a step whose result was not finite out once more, looking at all that its kernels write: the weights are what
 * they were. Collective, as the step. Slow. */
gal_code gal_engine_find_fault(gal_engine *engine, const gal_step_settings *settings, gal_engine_fault *out,
                               gal_error *err);

/* Mean loss of one evaluated batch, without dropout; the state is not touched. Equal on all ranks.
 * right_share  the part of this rank in the share of targets that have the largest logit: the sum over all ranks is
 *              that share, fewer than one row in ties; NULL: not asked for */
gal_code gal_engine_evaluate(gal_engine *engine, uint64_t batch, double *loss, double *right_share, gal_error *err);

/* What an engine holds. */
typedef struct gal_engine_bytes {
    uint64_t arena_bytes;
    uint64_t host_bytes;      /* in the host's memory: exactly program->host_bytes */
    uint64_t storage_bytes;   /* in a file: exactly program->storage_bytes */
    uint64_t workspace_bytes; /* of a device: workspaces, sample maps, the record of a step */
    uint64_t pinned_bytes;    /* of the host, for a device: what a step loads */
} gal_engine_bytes;
gal_engine_bytes gal_engine_bytes_of(const gal_engine *engine);

const gal_memory *gal_engine_memory(const gal_engine *engine);
/* Of a step, for those who account for a trace. Valid as long as the engine. */
const gal_queues *gal_engine_queues(const gal_engine *engine);

#endif
