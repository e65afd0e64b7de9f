#include "runtime/engine/engine_runs.h"

#include <stdlib.h>
#include <string.h>

/* A shorter run saves nothing. */
enum { RUN_LEAST = 4 };

typedef struct builder {
    const gal_program *program;
    const gal_tape *tape;
    gal_runs runs;
    uint32_t *target;    /* [wait]: the issue that it is for */
    uint32_t *waited_by; /* [issue]: streams, as bits, that wait for its event */
} builder;

static bool is_captured(uint32_t stream)
{
    return stream == GAL_STREAM_COMPUTE || stream == GAL_STREAM_TENSOR;
}

static gal_code reserve(builder *b, gal_error *err)
{
    const gal_tape *tape = b->tape;
    b->target = calloc((size_t)tape->wait_count + 1, sizeof *b->target);
    b->waited_by = calloc((size_t)tape->issue_count + 1, sizeof *b->waited_by);
    b->runs.run = calloc((size_t)tape->issue_count / RUN_LEAST + 1, sizeof *b->runs.run);
    b->runs.leaves = calloc((size_t)tape->issue_count + 1, sizeof *b->runs.leaves);
    b->runs.inside = calloc((size_t)tape->wait_count + 1, sizeof *b->runs.inside);
    const bool complete = b->target != NULL && b->waited_by != NULL && b->runs.run != NULL && b->runs.leaves != NULL &&
                          b->runs.inside != NULL;
    return complete ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "out of memory: runs of a tape");
}

/* An event means its latest record. */
static gal_code resolve_waits(builder *b, gal_error *err)
{
    const gal_tape *tape = b->tape;
    uint32_t *recorded = calloc((size_t)tape->event_count + 1, sizeof *recorded);
    if (recorded == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: runs of a tape");
    }
    for (uint32_t i = 0; i < tape->issue_count; i++) {
        const gal_issue *issue = &tape->issue[i];
        for (uint32_t w = issue->first_wait; w < issue->first_wait + issue->wait_count; w++) {
            b->target[w] = recorded[tape->wait[w]];
            b->waited_by[b->target[w]] |= UINT32_C(1) << issue->stream;
        }
        if (issue->event != GAL_NO_EVENT) {
            recorded[issue->event] = i;
        }
    }
    free(recorded);
    return GAL_OK;
}

static bool can_run(const builder *b, uint32_t i)
{
    const gal_issue *issue = &b->tape->issue[i];
    const uint32_t instruction = b->tape->queues->entry[issue->stream][issue->entry].instruction;
    return is_captured(issue->stream) && !gal_op_loads((gal_op)b->program->instruction[instruction].op);
}

static bool waits_for_others(const builder *b, uint32_t i)
{
    const gal_issue *issue = &b->tape->issue[i];
    bool waits = false;
    for (uint32_t w = issue->first_wait; w < issue->first_wait + issue->wait_count; w++) {
        waits = waits || !is_captured(b->tape->issue[b->target[w]].stream);
    }
    return waits;
}

static bool others_wait_for(const builder *b, uint32_t i)
{
    const uint32_t captured = UINT32_C(1) << GAL_STREAM_COMPUTE | UINT32_C(1) << GAL_STREAM_TENSOR;
    return (b->waited_by[i] & ~captured) != 0;
}

/* One past the run that begins at first, which can run. */
static uint32_t end_of(const builder *b, uint32_t first)
{
    const gal_issue *issue = b->tape->issue;
    uint32_t end = first + 1;
    while (end < b->tape->issue_count && !others_wait_for(b, end - 1) && issue[end].call == issue[first].call &&
           can_run(b, end) && !waits_for_others(b, end)) {
        end++;
    }
    return end;
}

static void add_run(builder *b, uint32_t first, uint32_t end)
{
    gal_run *run = &b->runs.run[b->runs.count++];
    *run = (gal_run){.first = first, .end = end};
    for (uint32_t i = first; i < end; i++) {
        const gal_issue *issue = &b->tape->issue[i];
        run->forks = run->forks || issue->stream == GAL_STREAM_TENSOR;
        for (uint32_t w = issue->first_wait; w < issue->first_wait + issue->wait_count; w++) {
            b->runs.inside[w] = b->target[w] >= first;
        }
    }
}

static void find_leaves(builder *b)
{
    for (uint32_t w = 0; w < b->tape->wait_count; w++) {
        b->runs.leaves[b->target[w]] = b->runs.leaves[b->target[w]] || !b->runs.inside[w];
    }
}

gal_code gal_runs_of(const gal_program *program, const gal_tape *tape, gal_runs *out, gal_error *err)
{
    gal_code code = GAL_OK;
    builder b = {.program = program, .tape = tape};
    GAL_TRY(reserve(&b, err));
    GAL_TRY(resolve_waits(&b, err));
    for (uint32_t first = 0; first < tape->issue_count;) {
        const uint32_t end = can_run(&b, first) ? end_of(&b, first) : first + 1;
        if (end - first >= RUN_LEAST) {
            add_run(&b, first, end);
        }
        first = end;
    }
    find_leaves(&b);
    *out = b.runs;
    memset(&b.runs, 0, sizeof b.runs);
cleanup:
    free(b.target);
    free(b.waited_by);
    gal_runs_free(&b.runs);
    return code;
}

void gal_runs_free(gal_runs *runs)
{
    free(runs->run);
    free(runs->leaves);
    free(runs->inside);
    memset(runs, 0, sizeof *runs);
}
