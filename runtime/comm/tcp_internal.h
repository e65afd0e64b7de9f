/* The TCP comm's state and wire format, for the files of this folder and for the test of a frame that is cut. Numbers
 * on the wire are little-endian. */
#ifndef GAL_RUNTIME_COMM_TCP_INTERNAL_H
#define GAL_RUNTIME_COMM_TCP_INTERNAL_H

#include "runtime/comm/tcp.h"

#define GAL_TCP_PROTOCOL "galplan tcp 1\0\0" /* 16 bytes with the final zero */

enum {
    GAL_TCP_PROTOCOL_BYTES = 16,
    GAL_TCP_HELLO_BYTES = GAL_TCP_PROTOCOL_BYTES + GAL_TCP_COOKIE_BYTES + 8, /* rank, world size */
    GAL_TCP_ANSWER_TEXT_BYTES = 256,
    GAL_TCP_ANSWER_BYTES = GAL_TCP_PROTOCOL_BYTES + 4 + GAL_TCP_ANSWER_TEXT_BYTES, /* 0 or a gal_code, its text */
    GAL_TCP_FRAME_BYTES = 24, /* kind, 0, number of the frame on this connection and way, bytes that follow */
    GAL_TCP_NOTICE_TEXT_BYTES = 512
};

/* What a frame is for. Both sides know which comes next, but for notices and the end. */
typedef enum gal_tcp_kind {
    GAL_TCP_BARRIER = 1,
    GAL_TCP_BROADCAST,
    GAL_TCP_GATHER,
    GAL_TCP_NOTICE, /* to rank 0: gal_code, then text: this rank has failed, or (GAL_OK) waits too long */
    GAL_TCP_LEAVE,  /* the last one of a rank that is done */
    GAL_TCP_END     /* the last one of rank 0 when it has told why the run ends */
} gal_tcp_kind;

typedef struct gal_tcp_peer {
    int descriptor; /* -1: none */
    uint64_t sent, received;
    bool in_frame; /* some of a frame has been read: what comes next is not the beginning of one */
    bool has_notice;
    gal_code notice_code;
    char notice[GAL_TCP_NOTICE_TEXT_BYTES];
} gal_tcp_peer;

typedef struct gal_tcp_state {
    gal_tcp_peer *peer; /* rank 0: [world_size], its own unused; else [1]: rank 0 */
    uint32_t peer_count;
    void (*tell)(const char *text);
    gal_error blame; /* of this rank */
} gal_tcp_state;

extern const gal_comm_ops gal_tcp_ops;
extern const gal_comm_control gal_tcp_control;

static inline void gal_tcp_put(uint8_t *to, uint64_t value, uint32_t byte_count)
{
    for (uint32_t i = 0; i < byte_count; i++) {
        to[i] = (uint8_t)(value >> 8 * i);
    }
}

static inline uint64_t gal_tcp_get(const uint8_t *from, uint32_t byte_count)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < byte_count; i++) {
        value |= (uint64_t)from[i] << 8 * i;
    }
    return value;
}

/* After a failed send or recv: nothing is wrong, it would only have waited. */
bool gal_tcp_would_wait(void);

/* Joins the world: descriptors of the peers, connected and non-blocking. */
gal_code gal_tcp_join(const gal_tcp_place *place, double deadline_seconds, gal_tcp_state *state, gal_error *err);

/* One frame to or from a peer, by the deadline; in the meantime roll calls. peer: index in state->peer. */
gal_code gal_tcp_send(gal_comm *comm, uint32_t peer, gal_tcp_kind kind, const void *data, uint64_t byte_count,
                      double deadline_seconds, gal_error *err);
gal_code gal_tcp_receive(gal_comm *comm, uint32_t peer, gal_tcp_kind kind, void *data, uint64_t byte_count,
                         double deadline_seconds, gal_error *err);

/* The roll call (comm.h). */
bool gal_tcp_called(gal_comm *comm);
void gal_tcp_roll_call(gal_comm *comm, const gal_comm_wait *waits, uint32_t wait_count, double deadline_seconds);
void gal_tcp_blame(gal_comm *comm, const gal_error *err);
void gal_tcp_leave(gal_comm *comm); /* says that this rank is done */
void gal_tcp_abort(gal_comm *comm, gal_code code);
/* Reads the rest of a notice whose frame has been read. False: the peer does not keep to the protocol. */
bool gal_tcp_read_notice(gal_tcp_peer *peer, uint64_t byte_count);

#endif
