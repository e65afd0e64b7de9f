#include <stdlib.h>

#include "runtime/engine/engine_queued.h"

/* All that is queued on `after` from here on comes after what `before` has. */
static gal_code follow(const gal_queued *queued, void *before, void *after, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_TRY(queued->ops->record(before, queued->settled, err));
    GAL_TRY(queued->ops->wait(after, queued->settled, err));
cleanup:
    return code;
}

/* Notes the run without carrying it out. What it waits for of before comes before its launch. */
static gal_code capture_run(gal_engine *engine, const gal_run *run, void **graph, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_queued *queued = engine->queued;
    const gal_tape *tape = queued->tape;
    void *compute = queued->queue[GAL_STREAM_COMPUTE], *tensor = queued->queue[GAL_STREAM_TENSOR];
    GAL_TRY(queued->ops->capture_begin(compute, err));
    if (run->forks) {
        GAL_TRY(follow(queued, compute, tensor, err));
    }
    for (const gal_issue *issue = &tape->issue[run->first]; issue < &tape->issue[run->end]; issue++) {
        for (uint32_t w = issue->first_wait; w < issue->first_wait + issue->wait_count; w++) {
            if (queued->runs.inside[w]) {
                GAL_TRY(queued->ops->wait(queued->queue[issue->stream], queued->event[tape->wait[w]], err));
            }
        }
        GAL_TRY(gal_queue_work(engine, issue, err));
        if (issue->event != GAL_NO_EVENT) {
            GAL_TRY(queued->ops->record(queued->queue[issue->stream], queued->event[issue->event], err));
        }
    }
    if (run->forks) {
        GAL_TRY(follow(queued, tensor, compute, err));
    }
    GAL_TRY(queued->ops->capture_end(compute, graph, err));
cleanup:
    return code;
}

gal_code gal_capture_runs(gal_engine *engine, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_queued *queued = engine->queued;
    queued->graph = calloc((size_t)queued->runs.count + 1, sizeof *queued->graph);
    if (queued->graph == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: graphs");
    }
    for (uint32_t r = 0; r < queued->runs.count; r++) {
        GAL_TRY(capture_run(engine, &queued->runs.run[r], &queued->graph[r], err));
    }
cleanup:
    return code;
}

gal_code gal_launch_run(gal_queued *queued, const gal_run *run, void *graph, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_tape *tape = queued->tape;
    const gal_issue *first = &tape->issue[run->first];
    void *compute = queued->queue[GAL_STREAM_COMPUTE], *tensor = queued->queue[GAL_STREAM_TENSOR];
    for (uint32_t w = first->first_wait; w < first->first_wait + first->wait_count; w++) {
        GAL_TRY(queued->ops->wait(compute, queued->event[tape->wait[w]], err));
    }
    if (tensor != NULL) {
        GAL_TRY(follow(queued, tensor, compute, err));
    }
    GAL_TRY(queued->ops->graph_launch(graph, compute, err));
    for (uint32_t i = run->first; i < run->end; i++) {
        const gal_issue *issue = &tape->issue[i];
        queued->issued[issue->stream]++;
        if (queued->runs.leaves[i]) {
            GAL_TRY(queued->ops->record(compute, queued->event[issue->event], err));
        }
    }
    if (tensor != NULL) {
        GAL_TRY(follow(queued, compute, tensor, err));
    }
    for (uint32_t i = run->first; i < run->end; i++) { /* behind all else: then nothing is left to be done */
        if (tape->issue[i].mark != GAL_NO_EVENT) {
            GAL_TRY(queued->ops->record(compute, queued->mark[tape->issue[i].mark], err));
        }
    }
cleanup:
    return code;
}
