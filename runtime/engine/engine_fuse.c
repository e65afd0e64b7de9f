/* Kernels that are one: which entries of a stream follow each other so closely that nothing can come between them. */
#include <stdlib.h>

#include "runtime/engine/engine_queued.h"

enum { LONE_UNKNOWN, LONE_NO, LONE_YES };

static const gal_queue_entry *entry_of(const gal_tape *tape, uint32_t issue)
{
    return &tape->queues->entry[tape->issue[issue].stream][tape->issue[issue].entry];
}

static const gal_instruction *instruction_of(const gal_engine *engine, const gal_tape *tape, uint32_t issue)
{
    return &engine->program->instruction[entry_of(tape, issue)->instruction];
}

/* The issue behind this one on its stream. */
static uint32_t next_of(const gal_tape *tape, uint32_t issue)
{
    const gal_issue *at = &tape->issue[issue];
    const bool last = at->entry + 1 == tape->queues->count[at->stream];
    return last ? GAL_NO_EVENT : tape->of_entry[at->stream][at->entry + 1];
}

/* The number of runs that begin at or before an issue: the issue is of the last of them, or of none. */
static uint32_t runs_begun(const gal_runs *runs, uint32_t issue)
{
    uint32_t low = 0, high = runs->count;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (runs->run[middle].first <= issue) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Both are launched by themselves, or by the same run. first is before second. */
static bool same_run(const gal_runs *runs, uint32_t first, uint32_t second)
{
    const uint32_t begun = runs_begun(runs, first);
    const bool is_in = begun > 0 && first < runs->run[begun - 1].end;
    const bool both_in = is_in && second < runs->run[begun - 1].end;
    const uint32_t others = runs_begun(runs, second);
    const bool second_in = others > 0 && second < runs->run[others - 1].end;
    return both_in || (!is_in && !second_in);
}

/* Nobody sees what `first` writes, alone, but the next instruction: that writes anew where it is, or it is in a work
 * buffer that no other of the fragment reads before it is written anew. */
static bool is_lone(const gal_program *program, uint32_t first, uint32_t second)
{
    const gal_instruction *writer = &program->instruction[first];
    const gal_fragment *fragment = &program->fragment[gal_program_fragment_of(program, first)];
    uint32_t written = GAL_NO_BUFFER;
    for (uint32_t o = 0; o < writer->operand_count; o++) {
        const gal_operand *operand = &program->operand[writer->first_operand + o];
        if (operand->access != GAL_READ) {
            if (written != GAL_NO_BUFFER || operand->access != GAL_WRITE) {
                return false;
            }
            written = operand->buffer;
        }
    }
    for (uint32_t i = first + 1; written != GAL_NO_BUFFER && i < fragment->first + fragment->count; i++) {
        const gal_instruction *at = &program->instruction[i];
        for (uint32_t o = 0; o < at->operand_count; o++) {
            const gal_operand *operand = &program->operand[at->first_operand + o];
            const bool anew = operand->access == GAL_WRITE && operand->bytes == program->buffer[written].bytes;
            if (operand->buffer == written && (i != second || anew)) {
                return anew && (i == second || program->buffer[written].class == GAL_CLASS_WORK);
            }
        }
    }
    return written != GAL_NO_BUFFER && program->buffer[written].class == GAL_CLASS_WORK;
}

/* Whether bytes that the second writes are among those that the first reads: the two can share them, as one after the
 * other needs them, but a kernel that is both writes when it has not read all. */
static bool writes_what_is_read(const gal_program *program, const gal_kernel_call calls[2], const uint32_t numbers[2])
{
    const gal_operand *read = &program->operand[program->instruction[numbers[0]].first_operand];
    const gal_operand *written = &program->operand[program->instruction[numbers[1]].first_operand];
    for (uint32_t w = 0; w < calls[1].operand_count; w++) {
        for (uint32_t r = 0; written[w].access != GAL_READ && r < calls[0].operand_count; r++) {
            const char *to = calls[1].operand[w], *from = calls[0].operand[r];
            if (read[r].access == GAL_READ && to < from + read[r].bytes && from < to + written[w].bytes) {
                return true;
            }
        }
    }
    return false;
}

static bool can_follow(const gal_engine *engine, const gal_tape *tape, const gal_runs *runs, uint32_t first,
                       uint32_t second)
{
    return second != GAL_NO_EVENT && tape->issue[second].call == tape->issue[first].call &&
           tape->issue[second].wait_count == 0 && gal_is_kernel(instruction_of(engine, tape, first)) &&
           gal_is_kernel(instruction_of(engine, tape, second)) && same_run(runs, first, second) &&
           gal_engine_ops(engine, instruction_of(engine, tape, first)) == engine->options.ops &&
           gal_engine_ops(engine, instruction_of(engine, tape, second)) == engine->options.ops;
}

gal_kernel_pair gal_queued_pair(const gal_engine *engine, const gal_tape *tape, uint32_t first, bool lone,
                                gal_kernel_call calls[2])
{
    const uint32_t second = next_of(tape, first);
    const gal_queue_entry *entry[2] = {entry_of(tape, first), entry_of(tape, second)};
    for (uint32_t i = 0; i < 2; i++) {
        calls[i] = gal_queued_call(engine, entry[i]->instruction, entry[i]->microbatch);
    }
    return (gal_kernel_pair){.first_op = (gal_op)instruction_of(engine, tape, first)->op,
                             .second_op = (gal_op)instruction_of(engine, tape, second)->op,
                             .first = &calls[0],
                             .second = &calls[1],
                             .lone = lone};
}

gal_code gal_find_fusions(gal_engine *engine, const gal_tape *tape, const gal_runs *runs, uint32_t **out,
                          gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_ops_queued *ops = engine->options.ops->queued;
    uint32_t *fusion = calloc((size_t)tape->issue_count + 1, sizeof *fusion);
    uint8_t *lone = calloc((size_t)engine->program->instruction_count + 1, sizeof *lone);
    if (fusion == NULL || lone == NULL) {
        code = gal_fail(err, GAL_ERR_SYSTEM, "out of memory: pairs of kernels");
        goto cleanup;
    }
    for (uint32_t i = 0; ops->fuse != NULL && i < tape->issue_count; i++) {
        gal_kernel_call calls[2];
        const uint32_t second = next_of(tape, i);
        if (!can_follow(engine, tape, runs, i, second)) {
            continue;
        }
        const uint32_t numbers[2] = {entry_of(tape, i)->instruction, entry_of(tape, second)->instruction};
        uint8_t *known = &lone[numbers[0]]; /* microbatches have it in common */
        if (*known == LONE_UNKNOWN) {
            *known = is_lone(engine->program, numbers[0], numbers[1]) ? LONE_YES : LONE_NO;
        }
        const gal_kernel_pair pair = gal_queued_pair(engine, tape, i, *known == LONE_YES, calls);
        if (!writes_what_is_read(engine->program, calls, numbers)) {
            GAL_TRY(ops->fuse(&pair, &fusion[i], err));
        }
    }
    *out = fusion;
    fusion = NULL;
cleanup:
    free(lone);
    free(fusion);
    return code;
}
