#include <stdlib.h>

#include "profiler/measure.h"

/* Those of a place's channels: of one of a pair's sides, what the other sends arrives on the receiving streams. */
enum { FIRST_STREAM = GAL_STREAM_SEND_FORWARD, SECOND_STREAM = GAL_STREAM_SEND_BACKWARD };

/* ---- communicators ---- */

/* Of a pair of neighbours one side sends and the other receives: all that is sent there. */
static uint32_t transfers_of(const gal_candidate_place *place, uint32_t index)
{
    return place->group != GAL_GROUP_NEXT ? 0 : index == 0 ? GAL_TRANSFER_SENDS : GAL_TRANSFER_RECEIVES;
}

/* Of one place: its two channels. */
static void put_place(const gal_candidate_place *place, uint32_t p, gal_links *out)
{
    const uint32_t rank = gal_world_rank(&out->bench->world), rank_count = gal_world_size(&out->bench->world);
    uint32_t *ranks = out->channels.ranks + (size_t)p * rank_count;
    const uint32_t size = gal_candidate_members(place, rank_count, rank, ranks);
    for (uint32_t i = 0; i < size; i++) {
        out->index[p] = ranks[i] == rank ? i : out->index[p];
    }
    for (uint32_t second = 0; second < 2; second++) {
        out->channel[2 * p + second] = size > 1 ? out->channels.count : GAL_NO_CHANNEL;
        if (size > 1) {
            out->channels.spec[out->channels.count++] =
                (gal_channel_spec){.ranks = ranks,
                                   .rank_count = size,
                                   .stream = second == 0 ? FIRST_STREAM : SECOND_STREAM,
                                   .transfers = transfers_of(place, out->index[p])};
        }
    }
}

/* Communicators know the largest request of each stream by the program that they are for: here one of four requests. */
static gal_code connect(const gal_links_settings *settings, gal_links *links, gal_error *err)
{
    gal_instruction instruction[4] = {{.op = GAL_OP_ALL_REDUCE, .stream = FIRST_STREAM},
                                      {.op = GAL_OP_ALL_REDUCE, .stream = SECOND_STREAM},
                                      {.op = GAL_OP_RECEIVE, .stream = GAL_STREAM_RECEIVE_FORWARD},
                                      {.op = GAL_OP_RECEIVE, .stream = GAL_STREAM_RECEIVE_BACKWARD}};
    const gal_program program = {.dtype = settings->dtype, .instruction = instruction, .instruction_count = 4};
    for (uint32_t i = 0; i < 4; i++) {
        instruction[i].bytes = settings->bytes_max;
    }
    const gal_connection connection = {.control = links->bench->world.comm,
                                       .program = &program,
                                       .channels = &links->channels,
                                       .communication_ctas = settings->ctas,
                                       .deadline_seconds = links->deadline_seconds,
                                       .slow_bytes_per_second = settings->slow_bytes_per_second,
                                       .tell = links->bench->tell};
    return links->bench->backend->connect(&connection, &links->comm, err);
}

gal_code gal_links_create(const gal_bench *bench, const gal_links_settings *settings, gal_links *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const size_t places = (size_t)settings->place_count + 1;
    gal_links links = {
        .bench = bench, .place_count = settings->place_count, .deadline_seconds = bench->world.deadline_seconds};
    if (bench->world.comm == NULL) {
        *out = links;
        return GAL_OK;
    }
    links.index = calloc(places, sizeof *links.index);
    links.channel = calloc(2 * places, sizeof *links.channel);
    links.channels.spec = calloc(2 * places, sizeof *links.channels.spec);
    links.channels.ranks = calloc(places * gal_world_size(&bench->world), sizeof *links.channels.ranks);
    if (links.index == NULL || links.channel == NULL || links.channels.spec == NULL || links.channels.ranks == NULL) {
        code = gal_fail(err, GAL_ERR_SYSTEM, "out of memory: communicators");
    }
    GAL_TRY(gal_world_agree(&bench->world, code, err));
    for (uint32_t p = 0; p < settings->place_count; p++) {
        put_place(&settings->place[p], p, &links);
    }
    GAL_TRY(gal_world_agree(&bench->world, connect(settings, &links, err), err));
    *out = links;
    links = (gal_links){0};
cleanup:
    gal_links_free(&links);
    return code;
}

void gal_links_free(gal_links *links)
{
    if (links->comm != NULL) {
        gal_comm_free(links->comm);
    }
    gal_channels_free(&links->channels);
    free(links->index);
    free(links->channel);
    *links = (gal_links){0};
}

/* ---- one collective ---- */

static uint32_t copies_of(const gal_candidate_collective *candidate, uint64_t cold_bytes)
{
    const bool cold = candidate->stream == GAL_STREAM_GATHER || candidate->stream == GAL_STREAM_REDUCE;
    const uint64_t copies = cold_bytes / (gal_align(candidate->bytes) + 1);
    const uint64_t most = cold ? GAL_COLD_COPIES_MAX : GAL_WARM_COPIES;
    return copies < 1 ? 1 : (uint32_t)(copies > most ? most : copies);
}

uint64_t gal_collective_bytes(const gal_candidate_collective *candidate, uint64_t cold_bytes)
{
    return 2 * gal_align(candidate->bytes) * copies_of(candidate, cold_bytes); /* also the second one beside it */
}

void gal_collective_prepare(const gal_candidate_collective *candidate, const gal_links *links, const gal_pools *pools,
                            bool second, gal_collective_run *out)
{
    const gal_op op = candidate->shape.op;
    const uint32_t place = candidate->place;
    const uint32_t copies = copies_of(candidate, pools->settings.cold_bytes);
    const uint64_t stride = gal_align(candidate->bytes), offset = second ? stride * copies : 0;
    const bool shares = op == GAL_OP_ALL_GATHER || op == GAL_OP_REDUCE_SCATTER;
    const bool sends = op == GAL_OP_SEND && links->index[place] == 0;
    GAL_ASSERT(place < links->place_count);
    *out = (gal_collective_run){.bench = links->bench,
                                .comm = links->comm,
                                .takes_part = links->channel[2 * place] != GAL_NO_CHANNEL,
                                .deadline_seconds = links->deadline_seconds,
                                .source = (const char *)pools->normal.base + offset,
                                .target = (char *)pools->written.base + offset,
                                .stride = stride,
                                .copies = copies};
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
    run->request.queue = run->bench->queue[run->lane];
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

/* As the engine: tested again and again, the core given away in between; what is queued needs no test. */
gal_code gal_collective_repeat(void *collective_run, uint32_t count, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_collective_run *run = collective_run;
    for (uint32_t i = 0; i < count && run->takes_part; i++) {
        uint32_t handle = 0;
        bool done = run->comm->ops->queued;
        GAL_TRY(gal_collective_start(run, &handle, err));
        while (!done) {
            GAL_TRY(gal_collective_test(run, handle, &done, err));
            if (!done) {
                gal_comm_give_way(run->comm, run->patience.begin_seconds);
            }
        }
    }
cleanup:
    return code;
}

void gal_links_watch(const gal_links *links, double deadline_seconds)
{
    if (links->comm != NULL && links->comm->ops->watch != NULL) {
        links->comm->ops->watch(links->comm, deadline_seconds);
    }
}

gal_code gal_collective_time(gal_bench *bench, const gal_links *links, gal_collective_run *run, gal_timing *out,
                             gal_error *err)
{
    gal_links_watch(links, links->deadline_seconds);
    const gal_code code = gal_bench_time(bench, gal_collective_repeat, run, out, err);
    gal_links_watch(links, 0.0);
    return code;
}
