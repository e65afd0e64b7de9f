/* What the checks of programs share: messages and the order that waits and queues guarantee. For verify_*.c alone. */
#ifndef GAL_RUNTIME_PROGRAM_VERIFY_VERIFY_INTERNAL_H
#define GAL_RUNTIME_PROGRAM_VERIFY_VERIFY_INTERNAL_H

#include "runtime/program/program.h"

/* Refuses: "stage 1, backward, instruction 12: <text of the instruction>: rule". Returns GAL_NO.
 * position is the place in the fragment's list. */
gal_code gal_refuse(gal_error *err, const gal_program *program, uint32_t fragment, uint32_t position,
                    const char *rule_format, ...) __attribute__((format(printf, 5, 6)));

/* One instruction of one call, in the order in which the host issues them. */
typedef struct gal_event {
    const gal_instruction *instruction;
    uint16_t fragment; /* number */
    uint32_t position, microbatch;
} gal_event;

/* The happens-before relation of one stage on a run of calls, as vector clocks over streams.
 * known[t] of an instruction = how many instructions of stream t are complete for certain when it starts. A wait for a
 * buffer means the latest access in an *earlier* call, which is the weaker reading of what the engine does. */
typedef struct gal_order {
    const gal_program *program;
    uint32_t issued[GAL_STREAM_COUNT];
    uint32_t before_call[GAL_STREAM_COUNT];           /* the same, at the start of this call */
    uint32_t now[GAL_STREAM_COUNT][GAL_STREAM_COUNT]; /* per stream: what its latest instruction knew of others */
    uint32_t base[GAL_STREAM_COUNT];                  /* of each stream in `done` */
    uint32_t (*done)[GAL_STREAM_COUNT];               /* clock at the end of every instruction, [base + number] */
    uint32_t *number;                                 /* of an instruction of this call in its stream; by position */
    uint32_t item[GAL_ARENAS_MAX];                    /* that this call addresses */
    uint32_t *slot;                                   /* [buffer * streams + stream] into access, or GAL_NO_BUFFER */
    struct gal_noted_access *noted;                   /* accesses that somebody waits for, instruction by instruction */
    uint32_t *first_noted;                            /* of each instruction, and one past the last */
    struct gal_latest_access *access;
    uint32_t call_number;
} gal_order;

/* Calls that are issued one behind the other. */
typedef struct gal_call_list {
    const gal_call *call;
    uint32_t count;
} gal_call_list;

/* verify_beginning.c: of a step as much as writes every item again: later accesses are ordered behind these writes, and
 * those are the same in every step. */
gal_call_list gal_beginning_of_step(const gal_program *program);

/* lists: all calls that will be issued. GAL_ERR_SYSTEM without memory. gal_order_free accepts a zeroed one. */
gal_code gal_order_init(gal_order *order, const gal_program *program, const gal_call_list *lists, uint32_t list_count,
                        gal_error *err);
void gal_order_free(gal_order *order);
void gal_order_begin_call(gal_order *order, uint32_t microbatch);
/* Issues the next instruction; known[] is what is complete when it starts. Returns its number in its stream, from 1. */
uint32_t gal_order_issue(gal_order *order, const gal_event *event, uint32_t known[GAL_STREAM_COUNT]);

/* Waits of all fragments point to earlier instructions, or to buffers and streams that exist; no class is without
 * items. Checked before gal_order_init. */
gal_code gal_check_waits(const gal_program *program, gal_error *err);

/* verify_bounds.c: operands lie in their buffers, buffers in their classes, classes beside each other in their memory.
 */
gal_code gal_verify_bounds(const gal_program *program, gal_error *err);

/* Parts of an access that do not depend on the rank: the union of all ranks' views. */
uint64_t gal_operand_span(const gal_program *program, const gal_operand *operand);

#endif
