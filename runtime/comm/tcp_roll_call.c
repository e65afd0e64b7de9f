/* The roll call over the star: rank 0 hears who waits, who has failed and who has ended, and speaks. If rank 0 itself
 * has ended without a word, the others say so; the lowest of them first, and the orchestrator ends the rest. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/comm/tcp_internal.h"
#include "schemas/base/clock.h"

enum { END_SECONDS = 10, STAGGER_SECONDS_MAX = 10, POLL_MICROSECONDS = 5000, LIST_BYTES = 128 };

/* What can be read of the peer without taking it. */
typedef enum sight { NOTHING, GONE, A_NOTICE, A_LEAVE, THE_END, SOMETHING } sight;

static sight look_at(const gal_tcp_peer *peer)
{
    uint8_t frame[GAL_TCP_FRAME_BYTES];
    if (peer->descriptor < 0) {
        return GONE;
    }
    const ssize_t got = recv(peer->descriptor, frame, sizeof frame, MSG_PEEK | MSG_DONTWAIT);
    if (got > 0 && peer->in_frame) {
        return SOMETHING;
    }
    if (got < (ssize_t)sizeof frame) {
        const bool waits = got > 0 || (got < 0 && gal_tcp_would_wait());
        return waits ? NOTHING : GONE;
    }
    switch (gal_tcp_get(frame, 4)) {
    case GAL_TCP_NOTICE:
        return A_NOTICE;
    case GAL_TCP_LEAVE:
        return A_LEAVE;
    case GAL_TCP_END:
        return THE_END;
    default:
        return SOMETHING;
    }
}

bool gal_tcp_called(gal_comm *comm)
{
    const gal_tcp_state *state = comm->state;
    for (uint32_t p = comm->rank == 0 ? 1 : 0; p < state->peer_count; p++) {
        const sight seen = look_at(&state->peer[p]);
        if (seen == GONE || seen == A_NOTICE || seen == THE_END || state->peer[p].has_notice) {
            return true;
        }
    }
    return false;
}

/* A frame that fits in the socket's buffer, if the peer is there. */
static void send_short(gal_tcp_peer *peer, gal_tcp_kind kind, const void *data, uint32_t byte_count)
{
    uint8_t bytes[GAL_TCP_FRAME_BYTES + 4 + GAL_TCP_NOTICE_TEXT_BYTES] = {0};
    GAL_ASSERT(byte_count <= sizeof bytes - GAL_TCP_FRAME_BYTES);
    gal_tcp_put(bytes, (uint64_t)kind, 4);
    gal_tcp_put(bytes + 8, peer->sent++, 8);
    gal_tcp_put(bytes + 16, byte_count, 8);
    if (byte_count > 0) {
        memcpy(bytes + GAL_TCP_FRAME_BYTES, data, byte_count);
    }
    if (peer->descriptor >= 0) {
        (void)send(peer->descriptor, bytes, GAL_TCP_FRAME_BYTES + byte_count, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

static void send_notice(gal_comm *comm, gal_code code, const char *text)
{
    gal_tcp_state *state = comm->state;
    uint8_t bytes[4 + GAL_TCP_NOTICE_TEXT_BYTES] = {0};
    gal_tcp_put(bytes, (uint64_t)code, 4);
    (void)snprintf((char *)bytes + 4, GAL_TCP_NOTICE_TEXT_BYTES, "%.500s", text);
    send_short(&state->peer[0], GAL_TCP_NOTICE, bytes, sizeof bytes);
}

/* At once: what this rank sends from now on lies behind it. */
void gal_tcp_blame(gal_comm *comm, const gal_error *err)
{
    gal_tcp_state *state = comm->state;
    if (state->blame.code == GAL_OK && comm->rank != 0) {
        send_notice(comm, err->code, err->text);
    }
    state->blame = *err;
}

void gal_tcp_leave(gal_comm *comm)
{
    gal_tcp_state *state = comm->state;
    for (uint32_t p = 0; p < state->peer_count; p++) {
        send_short(&state->peer[p], GAL_TCP_LEAVE, NULL, 0);
    }
}

bool gal_tcp_read_notice(gal_tcp_peer *peer, uint64_t byte_count)
{
    uint8_t bytes[4 + GAL_TCP_NOTICE_TEXT_BYTES];
    const double end_seconds = gal_now_seconds() + 1.0;
    size_t done = 0;
    if (byte_count != sizeof bytes) {
        return false;
    }
    while (done < sizeof bytes && gal_now_seconds() < end_seconds) {
        const ssize_t got = recv(peer->descriptor, bytes + done, sizeof bytes - done, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && !gal_tcp_would_wait())) {
            return false;
        }
        done += got > 0 ? (size_t)got : 0;
    }
    const uint64_t code = gal_tcp_get(bytes, 4);
    bytes[sizeof bytes - 1] = '\0';
    peer->has_notice = done == sizeof bytes && code < GAL_BUG;
    peer->notice_code = (gal_code)code;
    memcpy(peer->notice, bytes + 4, sizeof peer->notice);
    return peer->has_notice;
}

/* ---- rank 0 ---- */

static void take_notice(gal_tcp_peer *peer)
{
    uint8_t frame[GAL_TCP_FRAME_BYTES];
    if (recv(peer->descriptor, frame, sizeof frame, MSG_DONTWAIT) == (ssize_t)sizeof frame) {
        (void)gal_tcp_read_notice(peer, gal_tcp_get(frame + 16, 8));
    }
}

/* Until all have said something, or one that has failed, or the time is up. */
static void hear_all(gal_comm *comm, double seconds)
{
    gal_tcp_state *state = comm->state;
    const double end_seconds = gal_now_seconds() + seconds;
    bool settled = state->blame.code != GAL_OK;
    while (!settled && gal_now_seconds() < end_seconds) {
        uint32_t said = 0;
        for (uint32_t p = 1; p < state->peer_count; p++) {
            gal_tcp_peer *peer = &state->peer[p];
            if (!peer->has_notice && look_at(peer) == A_NOTICE) {
                take_notice(peer);
            }
            settled = settled || (peer->has_notice && peer->notice_code != GAL_OK);
            said += peer->has_notice || look_at(peer) != NOTHING;
        }
        settled = settled || said + 1 == state->peer_count;
        usleep(POLL_MICROSECONDS);
    }
}

static uint32_t lowest_failed(const gal_tcp_state *state)
{
    uint32_t p = 1;
    while (p < state->peer_count && !(state->peer[p].has_notice && state->peer[p].notice_code != GAL_OK)) {
        p++;
    }
    return p;
}

/* "rank 2", "ranks 2, 3": of those at which this is seen, and of which nothing was heard; returns how many. */
static uint32_t list_seen(const gal_tcp_state *state, sight seen, char *text, size_t capacity)
{
    uint32_t count = 0;
    size_t used = 0;
    for (uint32_t p = 1; p < state->peer_count; p++) {
        const gal_tcp_peer *peer = &state->peer[p];
        if (!peer->has_notice && look_at(peer) == seen && used + 24 < capacity) {
            used += (size_t)snprintf(text + used, capacity - used, "%s%u", count++ == 0 ? "" : ", ", p);
        }
    }
    return count;
}

static gal_code verdict(gal_comm *comm, const gal_comm_wait *waits, uint32_t wait_count, double deadline_seconds,
                        gal_error *err)
{
    const gal_tcp_state *state = comm->state;
    const uint32_t failed = lowest_failed(state);
    char list[LIST_BYTES] = "";
    const char *mine = wait_count > 0 ? waits[0].text : "control";
    if (state->blame.code != GAL_OK) {
        return gal_fail(err, state->blame.code, "rank 0: %.1000s", state->blame.text);
    }
    if (failed < state->peer_count) {
        return gal_fail(err, state->peer[failed].notice_code, "rank %u: %.500s", failed, state->peer[failed].notice);
    }
    uint32_t count = list_seen(state, GONE, list, sizeof list);
    if (count > 0) {
        return gal_fail(err, GAL_ERR_DEVICE, "rank%s %s %s ended while rank 0 waits in %s", count > 1 ? "s" : "", list,
                        count > 1 ? "have" : "has", mine);
    }
    count = list_seen(state, NOTHING, list, sizeof list);
    if (count > 0) {
        return gal_fail(err, GAL_ERR_DEVICE, "rank%s %s %s not answered for %g s: rank 0 waits in %s",
                        count > 1 ? "s" : "", list, count > 1 ? "have" : "has", deadline_seconds, mine);
    }
    return gal_fail(err, GAL_ERR_DEVICE, "no progress for %g s, though all ranks answer: rank 0 waits in %s",
                    deadline_seconds, mine);
}

void gal_tcp_abort(gal_comm *comm, gal_code code)
{
    gal_tcp_state *state = comm->state;
    for (uint32_t p = 1; comm->rank == 0 && p < state->peer_count; p++) {
        send_short(&state->peer[p], GAL_TCP_END, NULL, 0);
    }
    _Exit((int)code);
}

/* ---- the others ---- */

/* Reads past what rank 0 has sent, to its end or for END_SECONDS. True: it had told why the run ends. */
static bool read_to_end(gal_tcp_peer *first, bool *ended)
{
    uint8_t tail[GAL_TCP_FRAME_BYTES] = {0}, bytes[4096];
    const double end_seconds = gal_now_seconds() + END_SECONDS;
    *ended = false;
    while (!*ended && gal_now_seconds() < end_seconds) {
        const ssize_t got = recv(first->descriptor, bytes, sizeof bytes, MSG_DONTWAIT);
        *ended = got == 0 || (got < 0 && !gal_tcp_would_wait());
        for (ssize_t i = 0; i < got; i++) { /* the last bytes so far */
            memmove(tail, tail + 1, sizeof tail - 1);
            tail[sizeof tail - 1] = bytes[i];
        }
        if (got < 0 && !*ended) {
            usleep(POLL_MICROSECONDS);
        }
    }
    return gal_tcp_get(tail, 4) == GAL_TCP_END;
}

static _Noreturn void say_and_stay(gal_comm *comm, const gal_comm_wait *waits, uint32_t wait_count)
{
    gal_tcp_state *state = comm->state;
    const gal_code code = state->blame.code;
    const uint32_t turn = comm->rank - 1;
    char text[LIST_BYTES];
    bool ended = false;
    if (code == GAL_OK) { /* else it has been said */
        send_notice(comm, GAL_OK, wait_count > 0 ? waits[0].text : "control");
    }
    if (!read_to_end(&state->peer[0], &ended)) {
        sleep(turn < STAGGER_SECONDS_MAX ? turn : STAGGER_SECONDS_MAX);
        (void)snprintf(text, sizeof text,
                       ended ? "rank 0 has ended while rank %u waits for it" : "rank 0 has not answered rank %u",
                       comm->rank);
        state->tell(code != GAL_OK ? state->blame.text : text);
    }
    _Exit((int)(code != GAL_OK ? code : GAL_ERR_DEVICE));
}

void gal_tcp_roll_call(gal_comm *comm, const gal_comm_wait *waits, uint32_t wait_count, double deadline_seconds)
{
    gal_tcp_state *state = comm->state;
    gal_error err = {0};
    if (comm->world_size == 1) {
        return;
    }
    if (comm->rank != 0) {
        say_and_stay(comm, waits, wait_count);
    }
    hear_all(comm, gal_roll_call_seconds(deadline_seconds));
    const gal_code code = verdict(comm, waits, wait_count, deadline_seconds, &err);
    state->tell(err.text);
    gal_tcp_abort(comm, code);
}
