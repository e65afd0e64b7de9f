#include <sched.h>
#include <stdlib.h>

#include "profiler/measure.h"

/* ---- communicators ---- */

static gal_code list_channels(const gal_bench *bench, const gal_candidates *candidates, gal_links *out,
                              gal_channel_spec *spec, uint32_t *members, gal_error *err)
{
    const uint32_t rank = gal_world_rank(&bench->world), rank_count = gal_world_size(&bench->world);
    gal_code code = GAL_OK;
    uint32_t count = 0;
    for (uint32_t p = 0; p < candidates->place_count; p++) {
        uint32_t *ranks = members + (size_t)p * rank_count;
        const uint32_t size = gal_candidate_members(&candidates->place[p], rank_count, rank, ranks);
        for (uint32_t i = 0; i < size; i++) {
            out->index[p] = ranks[i] == rank ? i : out->index[p];
        }
        for (uint32_t second = 0; second < 2; second++) {
            out->channel[2 * p + second] = size > 1 ? count : GAL_NO_CHANNEL;
            if (size > 1) {
                spec[count++] = (gal_channel_spec){.ranks = ranks, .rank_count = size, .stream = second};
            }
        }
    }
    GAL_TRY(gal_comm_mpi_create(0, spec, count, &out->comm, err));
cleanup:
    return code;
}

gal_code gal_links_create(const gal_bench *bench, const gal_candidates *candidates, gal_links *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const size_t places = (size_t)candidates->place_count + 1;
    gal_links links = {.place_count = candidates->place_count, .deadline_seconds = bench->world.deadline_seconds};
    if (bench->world.comm == NULL) {
        *out = links;
        return GAL_OK;
    }
    links.index = calloc(places, sizeof *links.index);
    links.channel = calloc(2 * places, sizeof *links.channel);
    gal_channel_spec *spec = calloc(2 * places, sizeof *spec);
    uint32_t *members = calloc(places * gal_world_size(&bench->world), sizeof *members);
    if (links.index == NULL || links.channel == NULL || spec == NULL || members == NULL) {
        code = gal_fail(err, GAL_ERR_SYSTEM, "out of memory: communicators");
    }
    GAL_TRY(gal_world_agree(&bench->world, code, err));
    code = list_channels(bench, candidates, &links, spec, members, err);
    GAL_TRY(gal_world_agree(&bench->world, code, err));
    *out = links;
    links = (gal_links){0};
cleanup:
    free(members);
    free(spec);
    gal_links_free(&links);
    return code;
}

void gal_links_free(gal_links *links)
{
    if (links->comm != NULL) {
        gal_comm_free(links->comm);
    }
    free(links->index);
    free(links->channel);
    *links = (gal_links){0};
}

/* ---- one collective ---- */

static uint32_t copies_of(const gal_candidate_collective *candidate)
{
    const bool cold = candidate->stream == GAL_STREAM_GATHER || candidate->stream == GAL_STREAM_REDUCE;
    const uint64_t copies = GAL_COLD_BYTES / (gal_align(candidate->bytes) + 1);
    const uint64_t most = cold ? GAL_COLD_COPIES_MAX : GAL_WARM_COPIES;
    return copies < 1 ? 1 : (uint32_t)(copies > most ? most : copies);
}

uint64_t gal_collective_bytes(const gal_candidate_collective *candidate)
{
    return 2 * gal_align(candidate->bytes) * copies_of(candidate); /* also the second one beside it */
}

void gal_collective_prepare(const gal_candidate_collective *candidate, const gal_candidates *candidates,
                            const gal_links *links, const gal_pools *pools, bool second, gal_collective_run *out)
{
    const gal_op op = candidate->shape.op;
    const uint32_t place = candidate->place;
    const uint64_t stride = gal_align(candidate->bytes), offset = second ? stride * copies_of(candidate) : 0;
    const bool shares = op == GAL_OP_ALL_GATHER || op == GAL_OP_REDUCE_SCATTER;
    const bool sends = op == GAL_OP_SEND && links->index[place] == 0;
    GAL_ASSERT(place < candidates->place_count);
    *out = (gal_collective_run){.comm = links->comm,
                                .takes_part = links->channel[2 * place] != GAL_NO_CHANNEL,
                                .deadline_seconds = links->deadline_seconds,
                                .source = (const char *)pools->normal + offset,
                                .target = (char *)pools->written + offset,
                                .stride = stride,
                                .copies = copies_of(candidate)};
    out->request = (gal_comm_request){.op = op == GAL_OP_SEND && !sends ? GAL_OP_RECEIVE : op,
                                      .channel = links->channel[2 * place + (second ? 1 : 0)],
                                      .peer = sends ? 1 : 0,
                                      .dtype = candidate->shape.dtype,
                                      .reduce = op == GAL_OP_ALL_REDUCE ? candidate->shape.dims[1] : GAL_REDUCE_SUM,
                                      .elements = candidate->shape.dims[0],
                                      .in_place = shares && candidate->shape.dims[1] != 0};
}

gal_code gal_collective_start(gal_collective_run *run, uint32_t *handle, gal_error *err)
{
    const uint64_t offset = run->next++ % run->copies * run->stride;
    run->request.source = run->source + offset;
    run->request.target = run->target + offset;
    run->patience = gal_comm_patience_begin(run->deadline_seconds);
    return run->comm->ops->start(run->comm, &run->request, handle, err);
}

gal_code gal_collective_test(gal_collective_run *run, uint32_t handle, bool *done, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_TRY(run->comm->ops->test(run->comm, handle, done, err));
    if (!*done) {
        const gal_comm_wait wait = {.text = gal_op_names[run->request.op]};
        GAL_TRY(gal_comm_idle(run->comm, &run->patience, &wait, err));
    }
cleanup:
    return code;
}

/* As the engine: tested again and again, the core given away in between. */
gal_code gal_collective_repeat(void *collective_run, uint32_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_collective_run *run = collective_run;
    for (uint32_t i = 0; i < count && run->takes_part; i++) {
        uint32_t handle = 0;
        bool done = false;
        GAL_TRY(gal_collective_start(run, &handle, err));
        for (;;) {
            GAL_TRY(gal_collective_test(run, handle, &done, err));
            if (done) {
                break;
            }
            sched_yield();
        }
    }
cleanup:
    return code;
}
