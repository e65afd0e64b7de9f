/* How the ranks find each other. Rank 0 serves any number of callers at once: each has its own few bytes of memory and
 * its own time to say who it is. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/comm/tcp_internal.h"
#include "schemas/base/clock.h"

enum {
    CALLERS_MAX = 128,
    BACKLOG = 1024,
    POLL_MILLISECONDS = 50,
    RETRY_MICROSECONDS = 100 * 1000,
    KEEPALIVE_SECONDS = 10,
    LIST_BYTES = 128
};
static const double hello_seconds = 5.0;

/* One who has connected and not yet said all. */
typedef struct caller {
    int descriptor;
    uint32_t received;
    double begin_seconds;
    uint8_t hello[GAL_TCP_HELLO_BYTES];
} caller;

typedef struct hall {
    const gal_tcp_place *place;
    gal_tcp_state *state;
    int listening;
    uint32_t present; /* other ranks */
    uint32_t caller_count;
    caller caller[CALLERS_MAX];
    char refused[GAL_TCP_ANSWER_TEXT_BYTES]; /* the last one of this run that was sent away */
} hall;

/* Non-blocking, no delay of small messages, a dead host is noticed. */
static void set_up(int descriptor)
{
    const int on = 1, idle_seconds = KEEPALIVE_SECONDS;
    (void)fcntl(descriptor, F_SETFL, O_NONBLOCK);
    (void)fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    (void)setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, &idle_seconds, sizeof idle_seconds);
    (void)setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, &idle_seconds, sizeof idle_seconds);
}

static int wait_for(int descriptor, short events)
{
    struct pollfd one = {.fd = descriptor, .events = events};
    return poll(&one, 1, POLL_MILLISECONDS);
}

/* As much as there is by end_seconds; returns the bytes. */
static size_t read_by(int descriptor, void *data, size_t byte_count, double end_seconds)
{
    size_t done = 0;
    while (done < byte_count && gal_now_seconds() < end_seconds) {
        const ssize_t got = recv(descriptor, (char *)data + done, byte_count - done, 0);
        if (got > 0) {
            done += (size_t)got;
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            break;
        } else {
            (void)wait_for(descriptor, POLLIN);
        }
    }
    return done;
}

static bool write_by(int descriptor, const void *data, size_t byte_count, double end_seconds)
{
    size_t done = 0;
    while (done < byte_count && gal_now_seconds() < end_seconds) {
        const ssize_t put = send(descriptor, (const char *)data + done, byte_count - done, MSG_NOSIGNAL);
        if (put > 0) {
            done += (size_t)put;
        } else if (errno != EAGAIN && errno != EINTR) {
            break;
        } else {
            (void)wait_for(descriptor, POLLOUT);
        }
    }
    return done == byte_count;
}

/* ---- rank 0 ---- */

/* An answer fits in any socket's buffer: who does not take it is gone. */
static void answer(int descriptor, gal_code code, const char *text)
{
    uint8_t bytes[GAL_TCP_ANSWER_BYTES] = {0};
    memcpy(bytes, GAL_TCP_PROTOCOL, GAL_TCP_PROTOCOL_BYTES);
    gal_tcp_put(bytes + GAL_TCP_PROTOCOL_BYTES, (uint64_t)code, 4);
    (void)snprintf((char *)bytes + GAL_TCP_PROTOCOL_BYTES + 4, GAL_TCP_ANSWER_TEXT_BYTES, "%s", text);
    (void)write_by(descriptor, bytes, sizeof bytes, gal_now_seconds() + 1.0);
}

/* Every address of this machine, IPv4 too; an error with the port if it is taken. */
static gal_code open_hall(hall *h, gal_error *err)
{
    const int on = 1, off = 0;
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any};
    struct sockaddr_in four = {.sin_family = AF_INET};
    six.sin6_port = four.sin_port = htons(h->place->port);
    struct sockaddr *address = (struct sockaddr *)&six;
    socklen_t address_bytes = sizeof six;
    h->listening = socket(AF_INET6, SOCK_STREAM, 0);
    if (h->listening < 0) { /* a machine without IPv6 */
        h->listening = socket(AF_INET, SOCK_STREAM, 0);
        address = (struct sockaddr *)&four;
        address_bytes = sizeof four;
    }
    if (h->listening < 0) {
        return gal_fail(err, GAL_ERR_SYSTEM, "rank 0 cannot open a socket: %s", strerror(errno));
    }
    (void)fcntl(h->listening, F_SETFL, O_NONBLOCK);
    (void)fcntl(h->listening, F_SETFD, FD_CLOEXEC);
    (void)setsockopt(h->listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    (void)setsockopt(h->listening, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(h->listening, address, address_bytes) != 0 || listen(h->listening, BACKLOG) != 0) {
        return gal_fail(err, GAL_ERR_SYSTEM, "rank 0 cannot listen on MASTER_PORT %u: %s", h->place->port,
                        strerror(errno));
    }
    return GAL_OK;
}

static void drop(hall *h, uint32_t index)
{
    close(h->caller[index].descriptor);
    h->caller[index] = h->caller[--h->caller_count];
}

/* The oldest makes room: nobody is waited for longer than hello_seconds, and ranks try again. */
static void admit(hall *h)
{
    const int descriptor = accept(h->listening, NULL, NULL);
    if (descriptor < 0) {
        return;
    }
    set_up(descriptor);
    if (h->caller_count == CALLERS_MAX) {
        uint32_t oldest = 0;
        for (uint32_t i = 1; i < CALLERS_MAX; i++) {
            oldest = h->caller[i].begin_seconds < h->caller[oldest].begin_seconds ? i : oldest;
        }
        drop(h, oldest);
    }
    h->caller[h->caller_count++] = (caller){.descriptor = descriptor, .begin_seconds = gal_now_seconds()};
}

/* Whoever has the cookie is of this run, so what is wrong with it is worth a word. */
static void seat(hall *h, uint32_t index)
{
    caller *c = &h->caller[index];
    const uint8_t *at = c->hello + GAL_TCP_PROTOCOL_BYTES + GAL_TCP_COOKIE_BYTES;
    const uint32_t rank = (uint32_t)gal_tcp_get(at, 4), world_size = (uint32_t)gal_tcp_get(at + 4, 4);
    char why[GAL_TCP_ANSWER_TEXT_BYTES] = "";
    if (world_size != h->place->world_size) {
        (void)snprintf(why, sizeof why, "rank %u has WORLD_SIZE %u, rank 0 has %u", rank, world_size,
                       h->place->world_size);
    } else if (rank == 0 || rank >= world_size) {
        (void)snprintf(why, sizeof why, "RANK %u of %u cannot connect to rank 0", rank, world_size);
    } else if (h->state->peer[rank].descriptor >= 0) {
        (void)snprintf(why, sizeof why, "there are two of RANK %u", rank);
    }
    if (why[0] != '\0') {
        answer(c->descriptor, GAL_ERR_DEVICE, why);
        memcpy(h->refused, why, sizeof why);
        drop(h, index);
        return;
    }
    h->state->peer[rank].descriptor = c->descriptor;
    h->present++;
    h->caller[index] = h->caller[--h->caller_count];
}

/* True if the bytes so far are those of a rank of this run. */
static bool is_known(const hall *h, const caller *c)
{
    uint8_t expected[GAL_TCP_PROTOCOL_BYTES + GAL_TCP_COOKIE_BYTES];
    memcpy(expected, GAL_TCP_PROTOCOL, GAL_TCP_PROTOCOL_BYTES);
    memcpy(expected + GAL_TCP_PROTOCOL_BYTES, h->place->cookie, GAL_TCP_COOKIE_BYTES);
    const size_t count = c->received < sizeof expected ? c->received : sizeof expected;
    return memcmp(c->hello, expected, count) == 0;
}

static void hear(hall *h, uint32_t index)
{
    caller *c = &h->caller[index];
    const ssize_t got = recv(c->descriptor, c->hello + c->received, sizeof c->hello - c->received, 0);
    const bool gone = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
    c->received += got > 0 ? (uint32_t)got : 0;
    if (gone || !is_known(h, c) || gal_now_seconds() - c->begin_seconds > hello_seconds) {
        drop(h, index);
    } else if (c->received == sizeof c->hello) {
        seat(h, index);
    }
}

/* A rank that is seated says nothing until it is answered: what can be read is its end. */
static void check_seated(hall *h)
{
    for (uint32_t r = 1; r < h->place->world_size; r++) {
        char byte;
        gal_tcp_peer *peer = &h->state->peer[r];
        if (peer->descriptor < 0) {
            continue;
        }
        const ssize_t got = recv(peer->descriptor, &byte, 1, MSG_PEEK);
        if (got >= 0 || (errno != EAGAIN && errno != EINTR)) {
            (void)snprintf(h->refused, sizeof h->refused, "rank %u came and went", r);
            close(peer->descriptor);
            peer->descriptor = -1;
            h->present--;
        }
    }
}

static void serve_once(hall *h)
{
    struct pollfd all[CALLERS_MAX + 1];
    all[0] = (struct pollfd){.fd = h->listening, .events = POLLIN};
    for (uint32_t i = 0; i < h->caller_count; i++) {
        all[i + 1] = (struct pollfd){.fd = h->caller[i].descriptor, .events = POLLIN};
    }
    (void)poll(all, h->caller_count + 1, POLL_MILLISECONDS);
    for (uint32_t i = h->caller_count; i-- > 0;) { /* backwards: the last one takes the place of one that goes */
        hear(h, i);
    }
    if (all[0].revents != 0) {
        admit(h);
    }
    check_seated(h);
}

static gal_code say_who_is_missing(const hall *h, double deadline_seconds, gal_error *err)
{
    char list[LIST_BYTES] = "";
    size_t used = 0;
    uint32_t missing = 0;
    for (uint32_t r = 1; r < h->place->world_size; r++) {
        if (h->state->peer[r].descriptor < 0 && missing++ < UINT32_MAX && used + 24 < sizeof list) {
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%u", used > 0 ? ", " : "", r);
        }
    }
    return gal_fail(err, GAL_ERR_DEVICE, "rank%s %s%s not come to rank 0 on port %u within %g s%s%s%s",
                    missing > 1 ? "s" : "", list, missing > 1 ? " have" : " has", h->place->port, deadline_seconds,
                    h->refused[0] != '\0' ? " (" : "", h->refused, h->refused[0] != '\0' ? ")" : "");
}

static gal_code receive_all(hall *h, double deadline_seconds, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_error unsaid = {0};
    const double end_seconds = gal_now_seconds() + deadline_seconds;
    GAL_TRY(open_hall(h, err));
    while (h->present + 1 < h->place->world_size && gal_now_seconds() < end_seconds) {
        serve_once(h);
    }
    if (h->present + 1 < h->place->world_size) {
        code = say_who_is_missing(h, deadline_seconds, &unsaid);
        (void)gal_fail(err, code, "%s", unsaid.text);
    }
    for (uint32_t r = 1; r < h->place->world_size; r++) {
        if (h->state->peer[r].descriptor >= 0) {
            answer(h->state->peer[r].descriptor, code, unsaid.text);
        }
    }
cleanup:
    while (h->caller_count > 0) {
        drop(h, h->caller_count - 1);
    }
    if (h->listening >= 0) {
        close(h->listening);
    }
    return code;
}

/* ---- the others ---- */

/* A connected socket, or -1; *why then says what the last address said. */
static int connect_once(const gal_tcp_place *place, double end_seconds, const char **why)
{
    char port[16];
    struct addrinfo *list = NULL;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    (void)snprintf(port, sizeof port, "%u", place->port);
    const int found = getaddrinfo(place->address, port, &hints, &list);
    if (found != 0) {
        *why = gai_strerror(found);
        return -1;
    }
    int descriptor = -1;
    for (const struct addrinfo *at = list; at != NULL && descriptor < 0; at = at->ai_next) {
        descriptor = socket(at->ai_family, at->ai_socktype, at->ai_protocol);
        if (descriptor < 0) {
            continue;
        }
        set_up(descriptor);
        int error = connect(descriptor, at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
        while (error == EINPROGRESS && gal_now_seconds() < end_seconds) {
            socklen_t error_bytes = sizeof error;
            if (wait_for(descriptor, POLLOUT) > 0) {
                (void)getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &error_bytes);
            }
        }
        if (error != 0) {
            *why = strerror(error);
            close(descriptor);
            descriptor = -1;
        }
    }
    freeaddrinfo(list);
    return descriptor;
}

/* GAL_OK: seated. *heard: rank 0 has said no, which is final. */
static gal_code introduce(const gal_tcp_place *place, int descriptor, double end_seconds, bool *heard, gal_error *err)
{
    uint8_t hello[GAL_TCP_HELLO_BYTES], bytes[GAL_TCP_ANSWER_BYTES];
    memcpy(hello, GAL_TCP_PROTOCOL, GAL_TCP_PROTOCOL_BYTES);
    memcpy(hello + GAL_TCP_PROTOCOL_BYTES, place->cookie, GAL_TCP_COOKIE_BYTES);
    gal_tcp_put(hello + GAL_TCP_PROTOCOL_BYTES + GAL_TCP_COOKIE_BYTES, place->rank, 4);
    gal_tcp_put(hello + GAL_TCP_PROTOCOL_BYTES + GAL_TCP_COOKIE_BYTES + 4, place->world_size, 4);
    if (!write_by(descriptor, hello, sizeof hello, end_seconds) ||
        read_by(descriptor, bytes, sizeof bytes, end_seconds) < sizeof bytes ||
        memcmp(bytes, GAL_TCP_PROTOCOL, GAL_TCP_PROTOCOL_BYTES) != 0) {
        return GAL_ERR_DEVICE;
    }
    const uint64_t code = gal_tcp_get(bytes + GAL_TCP_PROTOCOL_BYTES, 4);
    *heard = true;
    bytes[sizeof bytes - 1] = '\0';
    return code == 0 ? GAL_OK : gal_fail(err, GAL_ERR_DEVICE, "%s", (const char *)bytes + GAL_TCP_PROTOCOL_BYTES + 4);
}

/* Rank 0 may come later than this one, so it is tried again until the deadline. It answers by its own, which may be
 * somewhat later. */
static gal_code find_first(const gal_tcp_place *place, double deadline_seconds, gal_tcp_state *state, gal_error *err)
{
    const double begin_seconds = gal_now_seconds(), end_seconds = begin_seconds + deadline_seconds;
    const double answer_end_seconds = end_seconds + gal_roll_call_seconds(deadline_seconds);
    const char *why = "no answer";
    while (gal_now_seconds() < end_seconds) {
        bool heard = false;
        const int descriptor = connect_once(place, end_seconds, &why);
        if (descriptor >= 0) {
            const gal_code code = introduce(place, descriptor, answer_end_seconds, &heard, err);
            if (code == GAL_OK) {
                state->peer[0].descriptor = descriptor;
                return GAL_OK;
            }
            close(descriptor);
            if (heard) {
                return code;
            }
            why = "it does not answer as rank 0 of this run";
        }
        usleep(RETRY_MICROSECONDS);
    }
    return gal_fail(err, GAL_ERR_DEVICE, "rank %u cannot reach rank 0 at %s, port %u, within %g s: %s", place->rank,
                    place->address, place->port, deadline_seconds, why);
}

gal_code gal_tcp_join(const gal_tcp_place *place, double deadline_seconds, gal_tcp_state *state, gal_error *err)
{
    if (place->rank != 0) {
        return find_first(place, deadline_seconds, state, err);
    }
    if (place->world_size == 1) {
        return GAL_OK;
    }
    hall *h = calloc(1, sizeof *h);
    if (h == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: control");
    }
    h->place = place;
    h->state = state;
    h->listening = -1;
    const gal_code code = receive_all(h, deadline_seconds, err);
    free(h);
    return code;
}
