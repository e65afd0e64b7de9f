/* Transfers between the host's memory and a file beside a device with queues. Nobody but the host can start one, and
 * see its end: a call to the host from a queue would hold up the updates that other queues wait for. So a transfer's
 * waits go to its stream's queue like any other's, an event behind them tells the host that it may start, and its end
 * is recorded on that queue for those who wait for it. */
#include "runtime/engine/engine_queued.h"

static gal_storage_direction direction_of(uint32_t stream)
{
    return stream == GAL_STREAM_STORAGE_IN ? GAL_STORAGE_READ : GAL_STORAGE_WRITE;
}

gal_code gal_transfers_create(const gal_engine *engine, gal_queued *queued, gal_error *err)
{
    gal_code code = GAL_OK;
    for (uint32_t d = 0; engine->storage != NULL && d < GAL_STORAGE_DIRECTIONS; d++) {
        GAL_TRY(queued->ops->event_create(false, &queued->may_move[d], err));
    }
cleanup:
    return code;
}

void gal_transfers_free(const gal_queued *queued)
{
    for (uint32_t d = 0; d < GAL_STORAGE_DIRECTIONS; d++) {
        if (queued->may_move[d] != NULL) {
            queued->ops->event_destroy(queued->may_move[d]);
        }
    }
}

gal_code gal_transfer_begin(gal_engine *engine, uint32_t stream, gal_error *err)
{
    gal_queued *queued = engine->queued;
    const gal_storage_direction direction = direction_of(stream);
    queued->moving[direction] = false;
    queued->requested[stream] = true;
    return queued->ops->record(queued->queue[stream], queued->may_move[direction], err);
}

gal_code gal_transfer_test(gal_engine *engine, uint32_t stream, const gal_queue_entry *entry, bool *done,
                           gal_error *err)
{
    gal_code code = GAL_OK;
    gal_queued *queued = engine->queued;
    const gal_instruction *instruction = &engine->program->instruction[entry->instruction];
    const gal_storage_direction direction = direction_of(stream);
    *done = false;
    if (!queued->moving[direction]) {
        bool may_start = false;
        GAL_TRY(queued->ops->reached(queued->may_move[direction], &may_start, err));
        if (!may_start) {
            goto cleanup;
        }
        GAL_TRY(gal_engine_start_transfer(engine, instruction, entry->microbatch, err));
        queued->moving[direction] = true;
    }
    GAL_TRY(gal_engine_test_transfer(engine, instruction, done, err));
cleanup:
    return code;
}
