/* Control over TCP: ranks are processes of this machine. What the helpers give; and whoever dies, hangs, lies or is a
 * stranger, the others end in time with one line that says why, or go on undisturbed. */
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/comm/tcp_internal.h"
#include "schemas/base/clock.h"
#include "tests/support/random_plan.h"

enum { RANKS = 4, LINES = 8, LINE_BYTES = GAL_ERROR_TEXT_BYTES, SOON_SECONDS = 30 };
static const double patience_seconds = 20.0;

/* What the ranks leave to the test. */
typedef struct left {
    uint32_t told;
    char line[LINES][LINE_BYTES];
    gal_code code[RANKS];
    gal_error err[RANKS];
    int stopped;
} left;

static left *shared;

static void tell(const char *text)
{
    const uint32_t line = __atomic_fetch_add(&shared->told, 1, __ATOMIC_SEQ_CST);
    (void)snprintf(shared->line[line % LINES], LINE_BYTES, "%s", text);
}

/* A port that was free a moment ago. */
static uint16_t free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t bytes = sizeof address;
    const int one = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(one, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(getsockname(one, (struct sockaddr *)&address, &bytes), 0);
    close(one);
    return ntohs(address.sin_port);
}

static gal_tcp_place place_of(uint32_t rank, uint32_t world_size, uint16_t port)
{
    gal_tcp_place place = {.rank = rank, .world_size = world_size, .port = port, .address = "127.0.0.1"};
    gal_tcp_cookie("this run", place.cookie);
    return place;
}

static pid_t start(gal_tcp_place place, double join_seconds, void (*body)(gal_comm *comm))
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0) {
        return child;
    }
    gal_comm *comm = NULL;
    gal_error *err = &shared->err[place.rank];
    alarm(SOON_SECONDS); /* never a hang */
    const gal_code code = gal_comm_tcp_create(&place, join_seconds, tell, &comm, err);
    shared->code[place.rank] = code;
    if (code == GAL_OK) {
        body(comm);
        gal_comm_free(comm);
    }
    _exit((int)code);
}

/* The exit code, or -1 for a signal. */
static int end_of(pid_t child)
{
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void run(uint32_t world_size, void (*body)(gal_comm *comm), int exits[RANKS])
{
    pid_t child[RANKS];
    const uint16_t port = free_port();
    memset(shared, 0, sizeof *shared);
    for (uint32_t r = world_size; r-- > 0;) { /* rank 0 comes last */
        child[r] = start(place_of(r, world_size, port), patience_seconds, body);
    }
    for (uint32_t r = 0; r < world_size; r++) {
        exits[r] = end_of(child[r]);
    }
}

/* In a child an assertion of cmocka would be lost: it is its exit code. */
#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)fprintf(stderr, "rank %u: line %d: %s\n", comm->rank, __LINE__, #condition);                         \
            _exit(100);                                                                                                \
        }                                                                                                              \
    } while (0)

/* ---- the helpers ---- */

static void use_helpers(gal_comm *comm)
{
    enum { LARGE = 300 * 1000 };
    static uint32_t words[LARGE], all[RANKS * 3];
    gal_error err = {0};
    EXPECT(gal_comm_barrier(comm, patience_seconds, &err) == GAL_OK);
    for (uint32_t root = 0; root < RANKS; root++) {
        for (uint32_t i = 0; i < LARGE; i++) {
            words[i] = comm->rank == root ? i * (root + 1) : 0;
        }
        EXPECT(gal_comm_broadcast(comm, root, words, sizeof words, patience_seconds, &err) == GAL_OK);
        for (uint32_t i = 0; i < LARGE; i++) {
            EXPECT(words[i] == i * (root + 1));
        }
        const uint32_t mine[3] = {comm->rank, root, 7};
        EXPECT(gal_comm_gather(comm, root, mine, sizeof mine, comm->rank == root ? all : NULL, patience_seconds,
                               &err) == GAL_OK);
        for (uint32_t r = 0; comm->rank == root && r < RANKS; r++) {
            EXPECT(all[3 * r] == r && all[3 * r + 1] == root && all[3 * r + 2] == 7);
        }
    }
    double values[2] = {comm->rank + 1.0, -(double)comm->rank};
    EXPECT(gal_comm_reduce_f64(comm, values, 2, GAL_REDUCE_SUM, patience_seconds, &err) == GAL_OK);
    EXPECT(values[0] == 10.0 && values[1] == -6.0);
    values[0] = -(double)comm->rank;
    EXPECT(gal_comm_reduce_f64(comm, values, 1, GAL_REDUCE_MAX, patience_seconds, &err) == GAL_OK);
    EXPECT(values[0] == 0.0);
    EXPECT(gal_comm_agree(comm, GAL_OK, patience_seconds, &err) == GAL_OK && err.code == GAL_OK);
    const gal_code mine = comm->rank == 0   ? GAL_ERR_DOCUMENT
                          : comm->rank >= 2 ? gal_fail(&err, GAL_ERR_SYSTEM, "disk %u is full", comm->rank)
                                            : GAL_OK;
    EXPECT(gal_comm_agree(comm, mine, patience_seconds, &err) == GAL_ERR_SYSTEM);
    EXPECT(strcmp(err.text, "rank 2: disk 2 is full") == 0);
}

static void test_helpers(void **state)
{
    (void)state;
    int exits[RANKS];
    run(RANKS, use_helpers, exits);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(exits[r], 0);
    }
    assert_int_equal(shared->told, 0);
}

static void use_alone(gal_comm *comm)
{
    gal_error err = {0};
    double value = 3.0;
    uint32_t all = 0;
    EXPECT(gal_comm_barrier(comm, 1.0, &err) == GAL_OK);
    EXPECT(gal_comm_broadcast(comm, 0, &value, sizeof value, 1.0, &err) == GAL_OK);
    EXPECT(gal_comm_reduce_f64(comm, &value, 1, GAL_REDUCE_SUM, 1.0, &err) == GAL_OK && value == 3.0);
    EXPECT(gal_comm_gather(comm, 0, &(uint32_t){5}, sizeof all, &all, 1.0, &err) == GAL_OK && all == 5);
    EXPECT(gal_comm_agree(comm, GAL_OK, 1.0, &err) == GAL_OK);
}

static void test_one_rank(void **state)
{
    (void)state;
    int exits[RANKS];
    run(1, use_alone, exits);
    assert_int_equal(exits[0], 0);
}

/* ---- ranks that fail ---- */

static void die_at(gal_comm *comm, uint32_t rank)
{
    gal_error err = {0};
    EXPECT(gal_comm_barrier(comm, patience_seconds, &err) == GAL_OK);
    if (comm->rank == rank) {
        raise(SIGKILL);
    }
    (void)gal_comm_barrier(comm, patience_seconds, &err);
    _exit(99); /* the roll call ends this rank before */
}

static void last_dies(gal_comm *comm)
{
    die_at(comm, RANKS - 1);
}

static void first_dies(gal_comm *comm)
{
    die_at(comm, 0);
}

static void test_killed_rank(void **state)
{
    (void)state;
    int exits[RANKS];
    const double begin_seconds = gal_now_seconds();
    run(RANKS, last_dies, exits);
    assert_true(gal_now_seconds() - begin_seconds < 0.5 * patience_seconds); /* by its closed connection, not in time */
    for (uint32_t r = 0; r + 1 < RANKS; r++) {
        assert_int_equal(exits[r], GAL_ERR_DEVICE);
    }
    assert_int_equal(shared->told, 1);
    assert_string_equal(shared->line[0], "rank 3 has ended while rank 0 waits in barrier");
}

/* Nobody ends the others here: each says it in its turn, the lowest first. */
static void test_killed_first_rank(void **state)
{
    (void)state;
    int exits[RANKS];
    run(RANKS, first_dies, exits);
    for (uint32_t r = 1; r < RANKS; r++) {
        assert_int_equal(exits[r], GAL_ERR_DEVICE);
    }
    assert_string_equal(shared->line[0], "rank 0 has ended while rank 1 waits for it");
}

/* The one that fails says why, and then takes part as before; the others wait in something else. */
static void one_fails(gal_comm *comm)
{
    gal_error err = {0};
    if (comm->rank == 2) {
        const gal_code code = gal_fail(&err, GAL_ERR_SYSTEM, "cannot write to /data: no space");
        comm->ops->blame(comm, &err);
        (void)gal_comm_agree(comm, code, 1.0, &err);
        _exit(99);
    }
    gal_comm_patience patience = gal_comm_patience_begin(patience_seconds);
    while (gal_comm_idle(comm, &patience, &(gal_comm_wait){.text = "a long collective"}, &err) == GAL_OK) {
        usleep(1000);
    }
    _exit(99);
}

static void test_failed_rank(void **state)
{
    (void)state;
    int exits[RANKS];
    const double begin_seconds = gal_now_seconds();
    run(RANKS, one_fails, exits);
    assert_true(gal_now_seconds() - begin_seconds < 0.5 * patience_seconds);
    assert_int_equal(shared->told, 1);
    assert_string_equal(shared->line[0], "rank 2: cannot write to /data: no space");
    assert_int_equal(exits[0], GAL_ERR_SYSTEM);
    assert_int_equal(exits[2], GAL_ERR_SYSTEM);
    assert_int_equal(exits[1], GAL_ERR_DEVICE);
}

static void one_stops(gal_comm *comm)
{
    gal_error err = {0};
    if (comm->rank == 1) {
        shared->stopped = getpid();
        raise(SIGSTOP);
    }
    (void)gal_comm_barrier(comm, 2.0, &err);
    _exit(99);
}

static void test_stopped_rank(void **state)
{
    (void)state;
    pid_t child[2];
    const uint16_t port = free_port();
    memset(shared, 0, sizeof *shared);
    for (uint32_t r = 0; r < 2; r++) {
        child[r] = start(place_of(r, 2, port), patience_seconds, one_stops);
    }
    assert_int_equal(end_of(child[0]), GAL_ERR_DEVICE);
    assert_string_equal(shared->line[0], "rank 1 has not answered for 2 s: rank 0 waits in barrier");
    kill(child[1], SIGKILL);
    (void)end_of(child[1]);
    assert_int_equal(shared->told, 1);
}

static void go_different_ways(gal_comm *comm)
{
    gal_error *err = &shared->err[comm->rank];
    uint32_t words[2] = {0};
    if (comm->rank == 0) {
        shared->code[0] = gal_comm_gather(comm, 0, words, 4, words, patience_seconds, err);
    } else {
        (void)gal_comm_gather(comm, 0, words, 8, NULL, patience_seconds, err);
    }
}

static void test_sizes_disagree(void **state)
{
    (void)state;
    int exits[RANKS];
    run(2, go_different_ways, exits);
    assert_int_equal(shared->code[0], GAL_ERR_DEVICE);
    assert_string_equal(shared->err[0].text, "rank 1 is in a gather of 8 bytes, rank 0 in a gather of 4");
}

/* Bytes within a frame are data, whatever they look like; at its beginning they are not; and an end is an end. */
static void test_cut_frame(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    gal_tcp_peer peer = {.descriptor = ends[0], .in_frame = true};
    gal_tcp_state inside = {.peer = &peer, .peer_count = 1};
    gal_comm comm = {.ops = &gal_tcp_ops, .rank = 1, .world_size = 2, .state = &inside};
    uint8_t looks_like_the_end[GAL_TCP_FRAME_BYTES] = {GAL_TCP_END};
    assert_false(gal_tcp_called(&comm));
    assert_int_equal(write(ends[1], looks_like_the_end, sizeof looks_like_the_end), sizeof looks_like_the_end);
    assert_false(gal_tcp_called(&comm));
    peer.in_frame = false;
    assert_true(gal_tcp_called(&comm));
    peer.in_frame = true;
    assert_int_equal(read(ends[0], looks_like_the_end, sizeof looks_like_the_end), sizeof looks_like_the_end);
    close(ends[1]);
    assert_true(gal_tcp_called(&comm));
    close(ends[0]);
}

/* ---- ranks that do not come ---- */

static void nothing(gal_comm *comm)
{
    (void)comm;
}

static void test_missing_ranks(void **state)
{
    (void)state;
    char expected[LINE_BYTES];
    const uint16_t port = free_port();
    memset(shared, 0, sizeof *shared);
    const pid_t first = start(place_of(0, 4, port), 1.0, nothing), third = start(place_of(2, 4, port), 1.0, nothing);
    assert_int_equal(end_of(first), GAL_ERR_DEVICE);
    assert_int_equal(end_of(third), GAL_ERR_DEVICE);
    (void)snprintf(expected, sizeof expected, "ranks 1, 3 have not come to rank 0 on port %u within 1 s", port);
    assert_string_equal(shared->err[0].text, expected);
    assert_string_equal(shared->err[2].text, expected);
}

static void test_nobody_listens(void **state)
{
    (void)state;
    char expected[LINE_BYTES];
    const uint16_t port = free_port();
    memset(shared, 0, sizeof *shared);
    assert_int_equal(end_of(start(place_of(1, 2, port), 0.5, nothing)), GAL_ERR_DEVICE);
    (void)snprintf(expected, sizeof expected,
                   "rank 1 cannot reach rank 0 at 127.0.0.1, port %u, within 0.5 s: Connection refused", port);
    assert_string_equal(shared->err[1].text, expected);
}

static void test_wrong_world_size(void **state)
{
    (void)state;
    const uint16_t port = free_port();
    memset(shared, 0, sizeof *shared);
    const pid_t first = start(place_of(0, 2, port), 1.5, nothing), other = start(place_of(1, 3, port), 10.0, nothing);
    assert_int_equal(end_of(other), GAL_ERR_DEVICE);
    assert_string_equal(shared->err[1].text, "rank 1 has WORLD_SIZE 3, rank 0 has 2");
    assert_int_equal(end_of(first), GAL_ERR_DEVICE);
    assert_non_null(strstr(shared->err[0].text, "(rank 1 has WORLD_SIZE 3, rank 0 has 2)"));
}

/* The first one is seated and stays so; the second one is told. */
static void test_two_of_one_rank(void **state)
{
    (void)state;
    const uint16_t port = free_port();
    memset(shared, 0, sizeof *shared);
    const pid_t first = start(place_of(0, 3, port), patience_seconds, nothing);
    const pid_t one = start(place_of(1, 3, port), patience_seconds, nothing),
                same = start(place_of(1, 3, port), patience_seconds, nothing);
    int status = 0;
    const pid_t refused = waitpid(-1, &status, 0); /* the world is not whole: nobody else can end */
    assert_true(refused == one || refused == same);
    assert_int_equal(WEXITSTATUS(status), GAL_ERR_DEVICE);
    assert_string_equal(shared->err[1].text, "there are two of RANK 1");
    const pid_t last = start(place_of(2, 3, port), patience_seconds, nothing);
    assert_int_equal(end_of(refused == one ? same : one), 0);
    assert_int_equal(end_of(last), 0);
    assert_int_equal(end_of(first), 0);
}

static void test_port_in_use(void **state)
{
    (void)state;
    char expected[LINE_BYTES];
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t bytes = sizeof address;
    const int holder = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(holder, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(getsockname(holder, (struct sockaddr *)&address, &bytes), 0);
    assert_int_equal(listen(holder, 1), 0);
    memset(shared, 0, sizeof *shared);
    assert_int_equal(end_of(start(place_of(0, 2, ntohs(address.sin_port)), 5.0, nothing)), GAL_ERR_SYSTEM);
    (void)snprintf(expected, sizeof expected, "rank 0 cannot listen on MASTER_PORT %u: Address already in use",
                   ntohs(address.sin_port));
    assert_string_equal(shared->err[0].text, expected);
    close(holder);
}

/* ---- strangers ---- */

static int call_as_stranger(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int one = socket(AF_INET, SOCK_STREAM, 0);
    while (connect(one, (struct sockaddr *)&address, sizeof address) != 0) { /* rank 0 may not be there yet */
        usleep(10000);
    }
    return one;
}

/* Noise, requests of other protocols, the start of a right greeting, a right one with another cookie, a right one of a
 * rank that does not exist, silence: more of them than rank 0 has room for. The ranks come last. */
static void test_strangers(void **state)
{
    (void)state;
    enum { STRANGERS = 180, HELLO_BYTES = 40 };
    static int stranger[STRANGERS];
    uint8_t hello[HELLO_BYTES] = "galplan tcp 1";
    uint64_t random = 1;
    const uint16_t port = free_port();
    gal_tcp_place place = place_of(1, 3, port);
    memset(shared, 0, sizeof *shared);
    pid_t child[3] = {start(place_of(0, 3, port), patience_seconds, nothing)};
    for (uint32_t i = 0; i < STRANGERS; i++) {
        uint8_t noise[64];
        stranger[i] = call_as_stranger(port);
        for (uint32_t b = 0; b < sizeof noise; b++) {
            noise[b] = (uint8_t)gal_random_next(&random);
        }
        switch (i % 6) {
        case 0:
            (void)send(stranger[i], noise, sizeof noise, MSG_NOSIGNAL);
            break;
        case 1:
            (void)send(stranger[i], "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL);
            break;
        case 2:
            (void)send(stranger[i], hello, 10, MSG_NOSIGNAL);
            break;
        case 3:
            gal_tcp_cookie("another run", hello + 16);
            (void)send(stranger[i], hello, sizeof hello, MSG_NOSIGNAL);
            break;
        case 4:
            memcpy(hello + 16, place.cookie, sizeof place.cookie);
            memset(hello + 32, 0xFF, 4);
            memcpy(hello + 36, (uint8_t[]){3, 0, 0, 0}, 4);
            (void)send(stranger[i], hello, sizeof hello, MSG_NOSIGNAL);
            break;
        default:
            break;
        }
    }
    const double begin_seconds = gal_now_seconds();
    child[1] = start(place, patience_seconds, nothing);
    child[2] = start(place_of(2, 3, port), patience_seconds, nothing);
    for (uint32_t r = 0; r < 3; r++) {
        assert_int_equal(end_of(child[r]), 0);
    }
    assert_true(gal_now_seconds() - begin_seconds < 5.0);
    for (uint32_t i = 0; i < STRANGERS; i++) {
        close(stranger[i]);
    }
}

/* A rank of another run, for whom this rank 0 is the wrong one. */
static void test_another_run(void **state)
{
    (void)state;
    const uint16_t port = free_port();
    gal_tcp_place place = place_of(1, 2, port);
    gal_tcp_cookie("another run", place.cookie);
    memset(shared, 0, sizeof *shared);
    const pid_t first = start(place_of(0, 2, port), patience_seconds, nothing), lost = start(place, 1.0, nothing);
    assert_int_equal(end_of(lost), GAL_ERR_DEVICE);
    assert_non_null(strstr(shared->err[1].text, "it does not answer as rank 0 of this run"));
    assert_int_equal(end_of(start(place_of(1, 2, port), patience_seconds, nothing)), 0);
    assert_int_equal(end_of(first), 0);
}

/* ---- the environment ---- */

static void set_all(const char *rank, const char *world_size, const char *address, const char *port)
{
    const char *const names[] = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
    const char *const values[] = {rank, world_size, address, port};
    for (uint32_t i = 0; i < 4; i++) {
        if (values[i] != NULL) {
            setenv(names[i], values[i], 1);
        } else {
            unsetenv(names[i]);
        }
    }
}

static void refuses(const char *rank, const char *world_size, const char *address, const char *port, const char *why)
{
    gal_tcp_place place;
    gal_error err = {0};
    bool found = false;
    set_all(rank, world_size, address, port);
    assert_int_equal(gal_tcp_place_read(&place, &found, &err), GAL_ERR_USAGE);
    assert_string_equal(err.text, why);
}

static void test_environment(void **state)
{
    (void)state;
    gal_tcp_place place = {0};
    gal_error err = {0};
    bool found = true;
    set_all(NULL, NULL, NULL, NULL);
    assert_int_equal(gal_tcp_place_read(&place, &found, &err), GAL_OK);
    assert_false(found);
    set_all("3", "16", "node-1.cluster", "29500");
    assert_int_equal(gal_tcp_place_read(&place, &found, &err), GAL_OK);
    assert_true(found);
    assert_int_equal(place.rank, 3);
    assert_int_equal(place.world_size, 16);
    assert_string_equal(place.address, "node-1.cluster");
    assert_int_equal(place.port, 29500);
    refuses("3", "16", NULL, "29500",
            "the environment lacks MASTER_ADDR: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT go together");
    refuses("16", "16", "a", "29500", "the environment's RANK must be a whole number from 0 to 15, got '16'");
    refuses("-1", "16", "a", "29500", "the environment's RANK must be a whole number from 0 to 15, got '-1'");
    refuses("0", "2x", "a", "29500", "the environment's WORLD_SIZE must be a whole number from 1 to 1048576, got '2x'");
    refuses("0", "", "a", "29500", "the environment's WORLD_SIZE must be a whole number from 1 to 1048576, got ''");
    refuses("0", "2", "a", "65536",
            "the environment's MASTER_PORT must be a whole number from 1 to 65535, got '65536'");
    refuses("0", "2", "", "29500", "the environment's MASTER_ADDR must be the name or number of a host");
    set_all(NULL, NULL, NULL, NULL);
}

int main(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_helpers),          cmocka_unit_test(test_one_rank),
        cmocka_unit_test(test_killed_rank),      cmocka_unit_test(test_killed_first_rank),
        cmocka_unit_test(test_failed_rank),      cmocka_unit_test(test_stopped_rank),
        cmocka_unit_test(test_sizes_disagree),   cmocka_unit_test(test_cut_frame),
        cmocka_unit_test(test_missing_ranks),    cmocka_unit_test(test_nobody_listens),
        cmocka_unit_test(test_wrong_world_size), cmocka_unit_test(test_two_of_one_rank),
        cmocka_unit_test(test_port_in_use),      cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_another_run),      cmocka_unit_test(test_environment),
    };
    return shared == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
