/* The helpers over the star. A broadcast from another root goes over rank 0. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/comm/tcp_internal.h"

enum { POLL_MILLISECONDS = 5 };

static const char *const kind_names[] = {
    [GAL_TCP_BARRIER] = "barrier", [GAL_TCP_BROADCAST] = "broadcast", [GAL_TCP_GATHER] = "gather"};

bool gal_tcp_would_wait(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

static uint32_t rank_of(const gal_comm *comm, uint32_t peer)
{
    return comm->rank == 0 ? peer : 0;
}

/* ---- frames ---- */

/* What one side of a frame has left to do. */
typedef struct transfer {
    gal_comm *comm;
    gal_tcp_peer *peer;
    gal_comm_wait wait;
    uint32_t rank; /* of the peer */
    gal_comm_patience patience;
} transfer;

static transfer begin(gal_comm *comm, uint32_t peer, gal_tcp_kind kind, double deadline_seconds)
{
    gal_tcp_state *state = comm->state;
    return (transfer){.comm = comm,
                      .peer = &state->peer[peer],
                      .wait = {.text = kind_names[kind]},
                      .rank = rank_of(comm, peer),
                      .patience = gal_comm_patience_begin(deadline_seconds)};
}

/* The connection says nothing now, or never again. */
static gal_code stand_by(transfer *t, ssize_t moved, short events, gal_error *err)
{
    if (moved == 0 || (moved < 0 && !gal_tcp_would_wait())) {
        gal_tcp_roll_call(t->comm, &t->wait, 1, t->patience.deadline_seconds);
    }
    struct pollfd one = {.fd = t->peer->descriptor, .events = events};
    (void)poll(&one, 1, POLL_MILLISECONDS);
    return one.revents == 0 ? gal_comm_idle(t->comm, &t->patience, &t->wait, err) : GAL_OK;
}

static gal_code write_all(transfer *t, const void *data, uint64_t byte_count, gal_error *err)
{
    gal_code code = GAL_OK;
    for (uint64_t done = 0; done < byte_count;) {
        const ssize_t put =
            send(t->peer->descriptor, (const char *)data + done, (size_t)(byte_count - done), MSG_NOSIGNAL);
        if (put > 0) {
            done += (uint64_t)put;
        } else {
            GAL_TRY(stand_by(t, put, POLLOUT, err));
        }
    }
cleanup:
    return code;
}

static gal_code read_all(transfer *t, void *data, uint64_t byte_count, gal_error *err)
{
    gal_code code = GAL_OK;
    for (uint64_t done = 0; done < byte_count;) {
        const ssize_t got = recv(t->peer->descriptor, (char *)data + done, (size_t)(byte_count - done), 0);
        if (got > 0) {
            done += (uint64_t)got;
            t->peer->in_frame = true;
        } else {
            GAL_TRY(stand_by(t, got, POLLIN, err));
        }
    }
cleanup:
    return code;
}

gal_code gal_tcp_send(gal_comm *comm, uint32_t peer, gal_tcp_kind kind, const void *data, uint64_t byte_count,
                      double deadline_seconds, gal_error *err)
{
    gal_code code = GAL_OK;
    transfer t = begin(comm, peer, kind, deadline_seconds);
    uint8_t frame[GAL_TCP_FRAME_BYTES] = {0};
    gal_tcp_put(frame, (uint64_t)kind, 4);
    gal_tcp_put(frame + 8, t.peer->sent++, 8);
    gal_tcp_put(frame + 16, byte_count, 8);
    GAL_TRY(write_all(&t, frame, sizeof frame, err));
    GAL_TRY(write_all(&t, data, byte_count, err));
cleanup:
    return code;
}

/* A notice or the end in place of what was expected is a roll call. */
static gal_code check_frame(transfer *t, gal_tcp_kind kind, uint64_t byte_count, const uint8_t *frame, gal_error *err)
{
    const uint64_t said = gal_tcp_get(frame, 4), number = gal_tcp_get(frame + 8, 8), bytes = gal_tcp_get(frame + 16, 8);
    if (said == GAL_TCP_NOTICE && gal_tcp_read_notice(t->peer, bytes)) {
        gal_tcp_roll_call(t->comm, &t->wait, 1, t->patience.deadline_seconds);
    }
    if (said == GAL_TCP_END) { /* the cause is told */
        const gal_tcp_state *state = t->comm->state;
        _Exit((int)(state->blame.code != GAL_OK ? state->blame.code : GAL_ERR_DEVICE));
    }
    if (said == GAL_TCP_LEAVE) {
        return gal_fail(err, GAL_ERR_DEVICE, "rank %u has left while rank %u waits in %s", t->rank, t->comm->rank,
                        t->wait.text);
    }
    const bool known = said == GAL_TCP_BARRIER || said == GAL_TCP_BROADCAST || said == GAL_TCP_GATHER;
    if (!known || number != t->peer->received) {
        return gal_fail(err, GAL_ERR_DEVICE, "rank %u does not keep to the protocol of control", t->rank);
    }
    if (said != (uint64_t)kind || bytes != byte_count) {
        return gal_fail(err, GAL_ERR_DEVICE, "rank %u is in a %s of %llu bytes, rank %u in a %s of %llu", t->rank,
                        kind_names[said], (unsigned long long)bytes, t->comm->rank, kind_names[kind],
                        (unsigned long long)byte_count);
    }
    t->peer->received++;
    return GAL_OK;
}

gal_code gal_tcp_receive(gal_comm *comm, uint32_t peer, gal_tcp_kind kind, void *data, uint64_t byte_count,
                         double deadline_seconds, gal_error *err)
{
    gal_code code = GAL_OK;
    transfer t = begin(comm, peer, kind, deadline_seconds);
    uint8_t frame[GAL_TCP_FRAME_BYTES];
    GAL_TRY(read_all(&t, frame, sizeof frame, err));
    GAL_TRY(check_frame(&t, kind, byte_count, frame, err));
    GAL_TRY(read_all(&t, data, byte_count, err));
    t.peer->in_frame = false;
cleanup:
    return code;
}

/* ---- the helpers ---- */

/* Of rank 0, to all but one. */
static gal_code send_to_all(gal_comm *comm, gal_tcp_kind kind, uint32_t except, const void *data, uint64_t byte_count,
                            double deadline_seconds, gal_error *err)
{
    gal_code code = GAL_OK;
    for (uint32_t r = 1; r < comm->world_size; r++) {
        if (r != except) {
            GAL_TRY(gal_tcp_send(comm, r, kind, data, byte_count, deadline_seconds, err));
        }
    }
cleanup:
    return code;
}

static gal_code tcp_barrier(gal_comm *comm, double deadline_seconds, gal_error *err)
{
    gal_code code = GAL_OK;
    if (comm->rank != 0) {
        GAL_TRY(gal_tcp_send(comm, 0, GAL_TCP_BARRIER, NULL, 0, deadline_seconds, err));
        return gal_tcp_receive(comm, 0, GAL_TCP_BARRIER, NULL, 0, deadline_seconds, err);
    }
    for (uint32_t r = 1; r < comm->world_size; r++) {
        GAL_TRY(gal_tcp_receive(comm, r, GAL_TCP_BARRIER, NULL, 0, deadline_seconds, err));
    }
    GAL_TRY(send_to_all(comm, GAL_TCP_BARRIER, 0, NULL, 0, deadline_seconds, err));
cleanup:
    return code;
}

static gal_code tcp_broadcast(gal_comm *comm, uint32_t root, void *data, uint64_t byte_count, double deadline_seconds,
                              gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_ASSERT(root < comm->world_size);
    if (comm->rank != 0) {
        return comm->rank == root
                   ? gal_tcp_send(comm, 0, GAL_TCP_BROADCAST, data, byte_count, deadline_seconds, err)
                   : gal_tcp_receive(comm, 0, GAL_TCP_BROADCAST, data, byte_count, deadline_seconds, err);
    }
    if (root != 0) {
        GAL_TRY(gal_tcp_receive(comm, root, GAL_TCP_BROADCAST, data, byte_count, deadline_seconds, err));
    }
    GAL_TRY(send_to_all(comm, GAL_TCP_BROADCAST, root, data, byte_count, deadline_seconds, err));
cleanup:
    return code;
}

/* Each part by itself, so that no rank but the root holds the whole. */
static gal_code tcp_gather(gal_comm *comm, uint32_t root, const void *mine, uint64_t byte_count, void *all,
                           double deadline_seconds, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_ASSERT(root < comm->world_size);
    void *passing = NULL;
    if (comm->rank == root) {
        memcpy((char *)all + root * byte_count, mine, byte_count);
    } else if (comm->rank != 0) {
        return gal_tcp_send(comm, 0, GAL_TCP_GATHER, mine, byte_count, deadline_seconds, err);
    }
    if (comm->rank != 0) {
        for (uint32_t r = 0; r < comm->world_size; r++) {
            if (r != root) {
                GAL_TRY(gal_tcp_receive(comm, 0, GAL_TCP_GATHER, (char *)all + r * byte_count, byte_count,
                                        deadline_seconds, err));
            }
        }
        return GAL_OK;
    }
    if (root != 0) {
        passing = malloc(byte_count + 1);
        if (passing == NULL) {
            return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: control");
        }
        GAL_TRY(gal_tcp_send(comm, root, GAL_TCP_GATHER, mine, byte_count, deadline_seconds, err));
    }
    for (uint32_t r = 1; r < comm->world_size; r++) {
        void *to = root == 0 ? (char *)all + r * byte_count : passing;
        if (r != root) {
            GAL_TRY(gal_tcp_receive(comm, r, GAL_TCP_GATHER, to, byte_count, deadline_seconds, err));
        }
        if (r != root && root != 0) {
            GAL_TRY(gal_tcp_send(comm, root, GAL_TCP_GATHER, to, byte_count, deadline_seconds, err));
        }
    }
cleanup:
    free(passing);
    return code;
}

/* Rank 0 adds in the order of the ranks. */
static gal_code tcp_reduce_f64(gal_comm *comm, double *values, uint32_t count, uint32_t reduce, double deadline_seconds,
                               gal_error *err)
{
    gal_code code = GAL_OK;
    const uint64_t byte_count = (uint64_t)count * sizeof *values;
    double *other = NULL;
    if (comm->rank != 0) {
        GAL_TRY(gal_tcp_send(comm, 0, GAL_TCP_GATHER, values, byte_count, deadline_seconds, err));
    } else {
        other = malloc(byte_count + 1);
        code = other != NULL ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "out of memory: control");
        GAL_TRY(code);
    }
    for (uint32_t r = 1; comm->rank == 0 && r < comm->world_size; r++) {
        GAL_TRY(gal_tcp_receive(comm, r, GAL_TCP_GATHER, other, byte_count, deadline_seconds, err));
        for (uint32_t i = 0; i < count; i++) {
            const double larger = other[i] > values[i] ? other[i] : values[i];
            values[i] = reduce == GAL_REDUCE_MAX ? larger : values[i] + other[i];
        }
    }
    GAL_TRY(tcp_broadcast(comm, 0, values, byte_count, deadline_seconds, err));
cleanup:
    free(other);
    return code;
}

static gal_code tcp_agree(gal_comm *comm, gal_code mine, double deadline_seconds, gal_error *err)
{
    gal_code code = GAL_OK;
    uint32_t worst[2] = {(uint32_t)mine, comm->rank}; /* code, the lowest rank that has it */
    char text[GAL_ERROR_TEXT_BYTES] = "";
    if (comm->rank != 0) {
        GAL_TRY(gal_tcp_send(comm, 0, GAL_TCP_GATHER, worst, sizeof worst, deadline_seconds, err));
    }
    for (uint32_t r = 1; comm->rank == 0 && r < comm->world_size; r++) {
        uint32_t other[2];
        GAL_TRY(gal_tcp_receive(comm, r, GAL_TCP_GATHER, other, sizeof other, deadline_seconds, err));
        if (other[0] > worst[0] && other[0] <= GAL_BUG) {
            worst[0] = other[0];
            worst[1] = r;
        }
    }
    GAL_TRY(tcp_broadcast(comm, 0, worst, sizeof worst, deadline_seconds, err));
    if (worst[0] == GAL_OK) {
        return GAL_OK;
    }
    if (comm->rank == worst[1]) {
        const bool has_text = err != NULL && err->code != GAL_OK;
        (void)snprintf(text, sizeof text, "rank %u: %.1000s", comm->rank, has_text ? err->text : "failed");
    }
    GAL_TRY(tcp_broadcast(comm, worst[1], text, sizeof text, deadline_seconds, err));
    text[sizeof text - 1] = '\0';
    if (err != NULL) {
        err->code = (gal_code)worst[0];
        memcpy(err->text, text, sizeof err->text);
    }
    code = (gal_code)worst[0];
cleanup:
    return code;
}

const gal_comm_control gal_tcp_control = {.barrier = tcp_barrier,
                                          .broadcast = tcp_broadcast,
                                          .reduce_f64 = tcp_reduce_f64,
                                          .gather = tcp_gather,
                                          .agree = tcp_agree};

/* ---- the comm ---- */

static void tcp_release(gal_comm *comm)
{
    gal_tcp_state *state = comm->state;
    gal_tcp_leave(comm);
    for (uint32_t p = 0; p < state->peer_count; p++) {
        if (state->peer[p].descriptor >= 0) {
            close(state->peer[p].descriptor);
        }
    }
    free(state->peer);
    free(state);
    free(comm);
}

const gal_comm_ops gal_tcp_ops = {.name = "tcp",
                                  .control = &gal_tcp_control,
                                  .release = tcp_release,
                                  .abort = gal_tcp_abort,
                                  .called = gal_tcp_called,
                                  .roll_call = gal_tcp_roll_call,
                                  .blame = gal_tcp_blame};

gal_code gal_comm_tcp_create(const gal_tcp_place *place, double deadline_seconds, void (*tell)(const char *text),
                             gal_comm **out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_comm *comm = calloc(1, sizeof *comm);
    gal_tcp_state *state = calloc(1, sizeof *state);
    const uint32_t peer_count = place->rank == 0 ? place->world_size : 1;
    gal_tcp_peer *peer = calloc(peer_count, sizeof *peer);
    GAL_ASSERT(place->rank < place->world_size);
    if (comm == NULL || state == NULL || peer == NULL) {
        free(comm);
        free(state);
        free(peer);
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: control");
    }
    for (uint32_t p = 0; p < peer_count; p++) {
        peer[p].descriptor = -1;
    }
    *state = (gal_tcp_state){.peer = peer, .peer_count = peer_count, .tell = tell};
    *comm = (gal_comm){.ops = &gal_tcp_ops, .rank = place->rank, .world_size = place->world_size, .state = state};
    GAL_TRY(gal_tcp_join(place, deadline_seconds, state, err));
    *out = comm;
    comm = NULL;
cleanup:
    gal_comm_free(comm);
    return code;
}
