/* The MPI communicator under mpirun, any number of ranks: comm_world [MODE].
 *
 *     (none)   all cases; rank 0 prints "ok NAME" or "not ok NAME" for each; exit 1 if one fails
 *     abort    rank 1 aborts with code 5 while the others wait
 *
 * Inputs are small integers in floating point, so sums are exact in any order and the check is equality. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/comm/comm.h"
#include "runtime/comm/mpi_internal.h"
#include "schemas/base/clock.h"

enum { RANKS_MAX = 16, ELEMENTS_MAX = 40000, CHANNELS_MAX = 64 };

static const double patience_seconds = 60.0;
static bool failed_here; /* this rank, in the case that runs */
static bool failed_any;

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            if (!failed_here) {                                                                                        \
                (void)fprintf(stderr, "# rank %u: %s:%d: %s\n", gal_mpi_rank(), __FILE__, __LINE__, #condition);       \
            }                                                                                                          \
            failed_here = true;                                                                                        \
        }                                                                                                              \
    } while (0)

/* Ends a case: all ranks agree on whether it passed. Runs on MPI itself, not on the code under test. */
static void report(const char *name)
{
    int failed = failed_here ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (gal_mpi_rank() == 0) {
        (void)printf("%s %s (%u ranks)\n", failed ? "not ok" : "ok", name, gal_mpi_world_size());
        (void)fflush(stdout);
    }
    failed_any = failed_any || failed != 0;
    failed_here = false;
}

static void must(gal_code code, const gal_error *err)
{
    if (code != GAL_OK) {
        (void)fprintf(stderr, "# rank %u: %s\n", gal_mpi_rank(), err->text);
        MPI_Abort(MPI_COMM_WORLD, 99);
    }
}

static void pause_seconds(double seconds)
{
    const time_t whole = (time_t)seconds;
    nanosleep(&(struct timespec){.tv_sec = whole, .tv_nsec = (long)((seconds - (double)whole) * 1e9)}, NULL);
}

static uint32_t start(gal_comm *comm, const gal_comm_request *request)
{
    gal_error err = {0};
    uint32_t handle = 0;
    must(comm->ops->start(comm, request, &handle, &err), &err);
    return handle;
}

static void finish(gal_comm *comm, uint32_t handle)
{
    gal_error err = {0};
    const double begin_seconds = gal_now_seconds();
    bool done = false;
    must(comm->ops->test(comm, handle, &done, &err), &err);
    while (!done) {
        if (gal_now_seconds() > begin_seconds + patience_seconds) {
            must(gal_fail(&err, GAL_ERR_DEVICE, "a request does not complete"), &err);
        }
        gal_comm_give_way(comm, begin_seconds);
        must(comm->ops->test(comm, handle, &done, &err), &err);
    }
}

static void run(gal_comm *comm, const gal_comm_request *request)
{
    finish(comm, start(comm, request));
}

/* ---- values of any type ---- */

static void put(void *buffer, gal_dtype dtype, uint64_t i, int value)
{
    if (dtype == GAL_FP32) {
        ((float *)buffer)[i] = (float)value;
    } else if (dtype == GAL_FP64) {
        ((double *)buffer)[i] = value;
    } else {
        ((int32_t *)buffer)[i] = value;
    }
}

static int get(const void *buffer, gal_dtype dtype, uint64_t i)
{
    if (dtype == GAL_FP32) {
        return (int)((const float *)buffer)[i];
    }
    return dtype == GAL_FP64 ? (int)((const double *)buffer)[i] : ((const int32_t *)buffer)[i];
}

/* What rank r holds at element i: different for all (r, i) that a mix-up could exchange. */
static int value_of(uint32_t r, uint64_t i)
{
    return (int)(r * 1009u + (uint32_t)(i % 997u)) - 500;
}

/* The value of a reduction over the members of a channel at element i. */
static int reduced(const gal_channel_spec *spec, uint64_t i, uint32_t reduce)
{
    int result = value_of(spec->ranks[0], i);
    for (uint32_t m = 1; m < spec->rank_count; m++) {
        const int value = value_of(spec->ranks[m], i);
        result = reduce == GAL_REDUCE_MAX ? (value > result ? value : result) : result + value;
    }
    return result;
}

typedef struct buffers {
    void *source, *target; /* each RANKS_MAX * ELEMENTS_MAX doubles */
} buffers;

static uint32_t index_of(const gal_channel_spec *spec)
{
    uint32_t index = 0;
    while (spec->ranks[index] != gal_mpi_rank()) {
        index++;
    }
    return index;
}

/* Fills the buffers for a request on the channel and starts it. */
static uint32_t begin(gal_comm *comm, const gal_channel_spec *spec, gal_comm_request *request, const buffers *b)
{
    const uint32_t rank = gal_mpi_rank();
    const uint32_t index = index_of(spec);
    const uint64_t n = request->elements;
    const uint64_t whole = n * (request->op == GAL_OP_MIRROR ? 2 : spec->rank_count);
    const uint64_t input = request->op == GAL_OP_ALL_REDUCE || request->op == GAL_OP_ALL_GATHER ? n : whole;
    for (uint64_t i = 0; i < whole; i++) {
        put(b->target, request->dtype, i, -7);
    }
    const bool in_target = request->op == GAL_OP_ALL_REDUCE || request->in_place;
    const uint64_t shift = request->op == GAL_OP_ALL_GATHER && request->in_place ? index * n : 0;
    for (uint64_t i = 0; i < input; i++) {
        put(in_target ? b->target : b->source, request->dtype, shift + i, value_of(rank, i));
    }
    request->source = in_target ? NULL : b->source;
    request->target = b->target;
    return start(comm, request);
}

/* The value that element i of the target must have; the share of a reduce-scatter in place begins at shift. */
static int expected(const gal_channel_spec *spec, const gal_comm_request *request, uint64_t i)
{
    const uint64_t n = request->elements;
    const uint32_t index = index_of(spec);
    switch (request->op) {
    case GAL_OP_ALL_REDUCE:
        return reduced(spec, i, request->reduce);
    case GAL_OP_ALL_GATHER:
        return value_of(spec->ranks[i / n], i % n);
    case GAL_OP_REDUCE_SCATTER:
        return reduced(spec, index * n + i, request->reduce);
    case GAL_OP_BROADCAST:
        return value_of(spec->ranks[request->peer], i);
    case GAL_OP_REDUCE: /* of others the target is as it was */
        return index == request->peer ? reduced(spec, i, request->reduce) : -7;
    case GAL_OP_ROTATE:
        return value_of(spec->ranks[(index + spec->rank_count - 1) % spec->rank_count], i);
    case GAL_OP_MIRROR:
        return value_of(spec->ranks[i < n ? index : spec->rank_count - 1 - index], i);
    default: /* all_to_all: member m sent me its row `index` */
        return value_of(spec->ranks[i / n], index * n + i % n);
    }
}

static void check(const gal_channel_spec *spec, const gal_comm_request *request, const buffers *b)
{
    const uint64_t n = request->elements;
    const bool one_share = request->op == GAL_OP_ALL_REDUCE || request->op == GAL_OP_REDUCE_SCATTER ||
                           request->op == GAL_OP_ROTATE || request->op == GAL_OP_BROADCAST ||
                           request->op == GAL_OP_REDUCE;
    const uint64_t output = one_share ? n : request->op == GAL_OP_MIRROR ? 2 * n : n * spec->rank_count;
    const uint64_t shift = request->op == GAL_OP_REDUCE_SCATTER && request->in_place ? index_of(spec) * n : 0;
    for (uint64_t i = 0; i < output; i++) {
        EXPECT(get(b->target, request->dtype, shift + i) == expected(spec, request, i));
    }
}

static buffers make_buffers(void)
{
    const size_t bytes = (size_t)RANKS_MAX * ELEMENTS_MAX * sizeof(double);
    const buffers b = {.source = malloc(bytes), .target = malloc(bytes)};
    if (b.source == NULL || b.target == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 98);
    }
    return b;
}

static void free_buffers(buffers *b)
{
    free(b->source);
    free(b->target);
}

/* ---- cases ---- */

static uint32_t all_ranks[RANKS_MAX];

static gal_channel_spec whole_world(uint32_t stream)
{
    return (gal_channel_spec){.ranks = all_ranks, .rank_count = gal_mpi_world_size(), .stream = stream};
}

static gal_comm *make_comm(const gal_channel_spec *spec, uint32_t count)
{
    gal_error err = {0};
    gal_comm *comm = NULL;
    must(gal_comm_mpi_create(0, spec, count, &comm, &err), &err);
    return comm;
}

static const gal_op collectives[] = {GAL_OP_ALL_REDUCE, GAL_OP_ALL_GATHER, GAL_OP_REDUCE_SCATTER, GAL_OP_ALL_TO_ALL,
                                     GAL_OP_ROTATE,     GAL_OP_MIRROR,     GAL_OP_BROADCAST,      GAL_OP_REDUCE};

static const gal_dtype dtypes[] = {GAL_FP32, GAL_FP64, GAL_I32}; /* those that MPI knows */

static void all_forms(gal_comm *comm, const gal_channel_spec *spec, const buffers *b, uint64_t elements)
{
    for (uint32_t op = 0; op < sizeof collectives / sizeof collectives[0]; op++) {
        for (uint32_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
            for (uint32_t form = 0; form < 4; form++) {
                gal_comm_request request = {
                    .op = collectives[op],
                    .peer = form % spec->rank_count,
                    .dtype = dtypes[d],
                    .elements = elements,
                    .reduce = form / 2 == 0 ? GAL_REDUCE_SUM : GAL_REDUCE_MAX,
                    .in_place = form % 2 == 1 && (op == 1 || op == 2),
                };
                const uint32_t handle = begin(comm, spec, &request, b);
                finish(comm, handle);
                check(spec, &request, b);
            }
        }
    }
}

/* Every operation, type and form; then with calls limited to 5 elements, so that all of them split. 7 elements make
 * parts of 5 and 2: at most 2 * 8 per member and share, within the 64 parts of a slot for 8 members. */
static void test_forms(void)
{
    const gal_channel_spec spec = whole_world(3);
    buffers b = make_buffers();
    gal_comm *comm = make_comm(&spec, 1);
    EXPECT(comm->rank == gal_mpi_rank() && comm->world_size == gal_mpi_world_size());
    EXPECT(strcmp(comm->ops->name, "mpi") == 0);
    all_forms(comm, &spec, &b, 0);
    all_forms(comm, &spec, &b, 1);
    all_forms(comm, &spec, &b, 7);
    all_forms(comm, &spec, &b, ELEMENTS_MAX);
    report("every operation, type and form");

    gal_mpi_state *state = comm->state;
    state->part_elements = 5;
    all_forms(comm, &spec, &b, 1);
    all_forms(comm, &spec, &b, 5);
    all_forms(comm, &spec, &b, 7);
    report("requests split into parts");

    gal_error err = {0};
    uint32_t handle = 0;
    const gal_comm_request request = {
        .op = GAL_OP_ALL_REDUCE, .dtype = GAL_FP64, .elements = 5 * GAL_MPI_PARTS + 1, .target = b.target};
    if (spec.rank_count > 1) {
        EXPECT(comm->ops->start(comm, &request, &handle, &err) == GAL_ERR_DEVICE);
        EXPECT(strstr(err.text, "65 parts, at most 64") != NULL);
    }
    report("a request with more parts than a slot holds is refused");
    gal_comm_free(comm);
    free_buffers(&b);
}

/* All sets of binary digits of the rank number: the group of a set is the ranks that differ in these digits alone. One
 * stream each, each rank lists and starts them in another order, all in flight together. World sizes 2^k. */
static void test_subgroups(void)
{
    const uint32_t rank = gal_mpi_rank();
    const uint32_t count = gal_mpi_world_size();
    if ((count & (count - 1)) != 0) {
        return;
    }
    static uint32_t members[RANKS_MAX][RANKS_MAX];
    gal_channel_spec spec[CHANNELS_MAX];
    buffers b[RANKS_MAX];
    for (uint32_t k = 0; k < count; k++) {
        const uint32_t digits = (k + rank) % count;
        spec[k] = (gal_channel_spec){.ranks = members[k], .stream = digits % 3};
        for (uint32_t r = 0; r < count; r++) {
            if (((r ^ rank) & ~digits) == 0) {
                members[k][spec[k].rank_count++] = r;
            }
        }
        b[k] = make_buffers();
    }
    gal_comm *comm = make_comm(spec, count);
    for (uint32_t op = 0; op < sizeof collectives / sizeof collectives[0]; op++) {
        gal_comm_request request[RANKS_MAX];
        uint32_t handle[RANKS_MAX];
        for (uint32_t k = 0; k < count; k++) {
            request[k] = (gal_comm_request){.op = collectives[op],
                                            .channel = k,
                                            .dtype = GAL_FP32,
                                            .elements = 50 + 13 * spec[k].rank_count,
                                            .in_place = (k & 1) != 0 && (op == 1 || op == 2)};
            handle[k] = begin(comm, &spec[k], &request[k], &b[k]);
        }
        for (uint32_t k = 0; k < count; k++) {
            finish(comm, handle[k]);
            check(&spec[k], &request[k], &b[k]);
        }
    }
    gal_comm_free(comm);
    for (uint32_t k = 0; k < count; k++) {
        free_buffers(&b[k]);
    }
    report("all groups of binary digits in flight together");
}

/* Members in descending order: the group index is the place in the list, not the world rank. Two equal channels share
 * one communicator; requests on one channel overlap. */
static void test_order(void)
{
    const uint32_t count = gal_mpi_world_size();
    uint32_t down[RANKS_MAX];
    for (uint32_t i = 0; i < count; i++) {
        down[i] = count - 1 - i;
    }
    const gal_channel_spec spec[] = {{.ranks = down, .rank_count = count, .stream = 1},
                                     whole_world(1),
                                     {.ranks = down, .rank_count = count, .stream = 1},
                                     {.ranks = down, .rank_count = count, .stream = 2}};
    gal_comm *comm = make_comm(spec, 4);
    const gal_mpi_state *state = comm->state;
    EXPECT(state->pool_count == (count == 1 ? 0u : 3u));
    EXPECT(state->channel[0].comm == state->channel[2].comm);
    buffers b[4];
    gal_comm_request request[4];
    uint32_t handle[4];
    for (uint32_t k = 0; k < 4; k++) {
        b[k] = make_buffers();
        request[k] = (gal_comm_request){.op = k % 2 == 0 ? GAL_OP_ALL_GATHER : GAL_OP_REDUCE_SCATTER,
                                        .channel = k % 3 == 0 ? 0 : k,
                                        .dtype = GAL_FP64,
                                        .elements = 900};
        handle[k] = begin(comm, &spec[request[k].channel], &request[k], &b[k]);
    }
    for (uint32_t k = 4; k-- > 0;) {
        finish(comm, handle[k]);
        check(&spec[request[k].channel], &request[k], &b[k]);
        free_buffers(&b[k]);
    }
    gal_comm_free(comm);
    report("member order, shared channels, overlapping requests");
}

/* A pipeline: rank r sends two messages to r + 1, over channels of two ranks; then the same split into parts. */
static void test_transfers(void)
{
    const uint32_t rank = gal_mpi_rank();
    const uint32_t count = gal_mpi_world_size();
    const uint32_t left[] = {rank - 1, rank};
    const uint32_t right[] = {rank, rank + 1};
    gal_channel_spec spec[2];
    uint32_t channels = 0;
    if (rank > 0) {
        spec[channels++] = (gal_channel_spec){.ranks = left, .rank_count = 2, .stream = 6};
    }
    if (rank + 1 < count) {
        spec[channels++] = (gal_channel_spec){.ranks = right, .rank_count = 2, .stream = 6};
    }
    gal_comm *comm = make_comm(spec, channels);
    static int32_t out[2][300];
    static int32_t in[2][300];
    for (uint32_t round = 0; round < 2; round++) {
        ((gal_mpi_state *)comm->state)->part_elements = round == 0 ? GAL_MPI_PART_ELEMENTS : 7;
        uint32_t handle[4];
        uint32_t started = 0;
        for (uint32_t k = 0; k < 2; k++) {
            for (uint32_t i = 0; i < 300; i++) {
                out[k][i] = (int32_t)(rank * 1000 + k * 500 + i);
                in[k][i] = -1;
            }
            gal_comm_request request = {.op = GAL_OP_RECEIVE, .dtype = GAL_I32, .elements = 200 + k, .target = in[k]};
            if (rank > 0) {
                handle[started++] = start(comm, &request);
            }
            request = (gal_comm_request){.op = GAL_OP_SEND,
                                         .channel = channels - 1,
                                         .peer = 1,
                                         .dtype = GAL_I32,
                                         .elements = 200 + k,
                                         .source = out[k]};
            if (rank + 1 < count) {
                handle[started++] = start(comm, &request);
            }
        }
        while (started > 0) {
            finish(comm, handle[--started]);
        }
        for (uint32_t k = 0; rank > 0 && k < 2; k++) {
            for (uint32_t i = 0; i < 300; i++) {
                EXPECT(in[k][i] == (i < 200 + k ? (int32_t)((rank - 1) * 1000 + k * 500 + i) : -1));
            }
        }
    }
    gal_comm_free(comm);
    report("sends and receives");
}

static double random_unit(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*state >> 11) * 0x1p-53 - 0.5;
}

/* One reduction of fixed random numbers, at a moment that differs by rank and repetition. */
static void reduce_noise(gal_comm *comm, gal_op op, gal_dtype dtype, uint64_t elements, bool in_place, uint32_t repeat,
                         const buffers *b)
{
    const uint64_t whole = elements * (op == GAL_OP_REDUCE_SCATTER ? comm->world_size : 1);
    const bool in_target = op == GAL_OP_ALL_REDUCE || in_place;
    void *input = in_target ? b->target : b->source;
    uint64_t seed = 17 + comm->rank;
    for (uint64_t i = 0; i < whole; i++) {
        const double value = random_unit(&seed);
        if (dtype == GAL_FP32) {
            ((float *)input)[i] = (float)value;
        } else {
            ((double *)input)[i] = value;
        }
    }
    pause_seconds(0.002 * ((comm->rank * 7 + repeat * 3) % 4));
    run(comm, &(gal_comm_request){.op = op,
                                  .dtype = dtype,
                                  .elements = elements,
                                  .in_place = in_place,
                                  .source = in_target ? NULL : b->source,
                                  .target = b->target});
}

static void test_same_bits(void)
{
    const gal_channel_spec spec = whole_world(0);
    gal_comm *comm = make_comm(&spec, 1);
    buffers b = make_buffers();
    char *first = malloc(ELEMENTS_MAX * sizeof(double));
    char *of_rank_0 = malloc(ELEMENTS_MAX * sizeof(double));
    for (uint32_t form = 0; form < 12; form++) {
        const gal_op op = form % 3 == 0 ? GAL_OP_ALL_REDUCE : GAL_OP_REDUCE_SCATTER;
        const bool in_place = form % 3 == 2;
        const gal_dtype dtype = form / 3 % 2 == 0 ? GAL_FP32 : GAL_FP64;
        const uint64_t elements = form / 6 == 0 ? 129 : ELEMENTS_MAX;
        const size_t bytes = elements * gal_dtype_bytes(dtype);
        const char *result = (const char *)b.target + (in_place ? comm->rank * bytes : 0);
        for (uint32_t repeat = 0; repeat < 6; repeat++) {
            reduce_noise(comm, op, dtype, elements, in_place, repeat, &b);
            if (repeat == 0) {
                memcpy(first, result, bytes);
            }
            EXPECT(memcmp(first, result, bytes) == 0);
        }
        if (op == GAL_OP_ALL_REDUCE) {
            memcpy(of_rank_0, first, bytes);
            MPI_Bcast(of_rank_0, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
            EXPECT(memcmp(of_rank_0, first, bytes) == 0);
        }
    }
    free(of_rank_0);
    free(first);
    free_buffers(&b);
    gal_comm_free(comm);
    report("sums have the same bits in every run and on all members");
}

static void test_control(void)
{
    gal_comm *comm = make_comm(NULL, 0);
    const uint32_t rank = comm->rank;
    const uint32_t count = comm->world_size;
    gal_error err = {0};
    must(gal_comm_barrier(comm, patience_seconds, &err), &err);
    for (uint32_t root = 0; root < count; root++) {
        uint64_t word = rank == root ? 4711 + root : 0;
        must(gal_comm_broadcast(comm, root, &word, sizeof word, patience_seconds, &err), &err);
        EXPECT(word == 4711 + root);
        char mine[3] = {'a', (char)('0' + rank), (char)('0' + root)};
        char all[3 * RANKS_MAX] = {0};
        must(gal_comm_gather(comm, root, mine, sizeof mine, rank == root ? all : NULL, patience_seconds, &err), &err);
        for (uint32_t r = 0; rank == root && r < count; r++) {
            EXPECT(all[3 * r] == 'a' && all[3 * r + 1] == (char)('0' + r) && all[3 * r + 2] == mine[2]);
        }
    }
    double values[2] = {1.0 + rank, -2.0 * rank};
    must(gal_comm_reduce_f64(comm, values, 2, GAL_REDUCE_SUM, patience_seconds, &err), &err);
    EXPECT(values[0] == 0.5 * count * (count + 1) && values[1] == -1.0 * count * (count - 1));
    values[0] = rank == count / 2 ? 3.5 : -1.0;
    must(gal_comm_reduce_f64(comm, values, 1, GAL_REDUCE_MAX, patience_seconds, &err), &err);
    EXPECT(values[0] == 3.5);
    report("barrier, broadcast, gather, reduce");

    EXPECT(gal_comm_agree(comm, GAL_OK, patience_seconds, &err) == GAL_OK && err.code == GAL_OK);
    gal_code mine = GAL_OK;
    if (rank == count - 1 || rank == count / 2) {
        mine = gal_fail(&err, GAL_ERR_SYSTEM, "disk %u is full", rank);
    } else if (rank == 0) {
        mine = gal_fail(&err, GAL_NO, "plan refused");
    }
    char text[64];
    (void)snprintf(text, sizeof text, "rank %u: disk %u is full", count / 2, count / 2);
    EXPECT(gal_comm_agree(comm, mine, patience_seconds, &err) == GAL_ERR_SYSTEM);
    EXPECT(err.code == GAL_ERR_SYSTEM && strcmp(err.text, text) == 0);
    EXPECT(gal_comm_agree(comm, rank == 0 ? GAL_ERR_DEVICE : GAL_OK, patience_seconds, NULL) == GAL_ERR_DEVICE);
    gal_comm_free(comm);
    report("agreement on the worst code");
}

/* The last rank comes 1 s late to a barrier that the others give 0.2 s. */
static void test_deadline(void)
{
    if (gal_mpi_world_size() == 1) {
        return;
    }
    gal_comm *comm = make_comm(NULL, 0);
    gal_error err = {0};
    if (comm->rank == comm->world_size - 1) {
        pause_seconds(1.0);
        must(gal_comm_barrier(comm, patience_seconds, &err), &err);
    } else {
        const double start_seconds = gal_now_seconds();
        EXPECT(gal_comm_barrier(comm, 0.2, &err) == GAL_ERR_DEVICE);
        EXPECT(strcmp(err.text, "no answer from the other ranks within 0.2 s (barrier)") == 0);
        EXPECT(gal_now_seconds() - start_seconds >= 0.2);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    gal_comm_free(comm);
    report("a deadline passes");
}

static void test_refusals(void)
{
    const uint32_t rank = gal_mpi_rank();
    const uint32_t count = gal_mpi_world_size();
    const gal_channel_spec alone = {.ranks = &rank, .rank_count = 1};
    gal_comm *comm = make_comm(&alone, 1);
    float value = 1.0F;
    uint32_t handle[GAL_MPI_SLOTS];
    const gal_comm_request request = {.op = GAL_OP_ALL_REDUCE, .elements = 1, .target = &value};
    for (uint32_t i = 0; i < GAL_MPI_SLOTS; i++) {
        handle[i] = start(comm, &request);
    }
    gal_error err = {0};
    uint32_t extra = 12345;
    EXPECT(comm->ops->start(comm, &request, &extra, &err) == GAL_ERR_DEVICE && extra == 12345);
    EXPECT(strcmp(err.text, "all_reduce: all 256 request slots are in use") == 0);
    finish(comm, handle[77]);
    EXPECT(start(comm, &request) == handle[77]);
    for (uint32_t i = 0; i < GAL_MPI_SLOTS; i++) {
        finish(comm, handle[i]);
    }
    EXPECT(value == 1.0F);
    gal_comm_free(comm);
    report("a full table of requests is refused");

    comm = NULL;
    err = (gal_error){0};
    EXPECT(gal_comm_mpi_create(count + 1, NULL, 0, &comm, &err) == GAL_ERR_DEVICE && comm == NULL);
    EXPECT(strstr(err.text, "ranks are needed") != NULL);
    if (count > 1) {
        err = (gal_error){0};
        const gal_channel_spec spec = whole_world(0);
        EXPECT(gal_comm_mpi_create(0, &spec, rank == 0 ? 1 : 0, &comm, &err) == GAL_ERR_DEVICE && comm == NULL);
        EXPECT(strstr(err.text, "do not agree") != NULL);
    }
    report("too many ranks and lists that differ are refused");
}

/* All but the last rank make a comm; then all of them another. */
static void test_part_of_world(void)
{
    const uint32_t count = gal_mpi_world_size() - 1;
    if (count == 0) {
        return;
    }
    const gal_channel_spec spec = {.ranks = all_ranks, .rank_count = count, .stream = 2};
    const bool in = gal_mpi_rank() < count;
    gal_error err = {0};
    gal_comm *comm = NULL;
    must(gal_comm_mpi_create(count, &spec, in ? 1 : 0, &comm, &err), &err);
    EXPECT((comm != NULL) == in);
    if (comm != NULL) {
        EXPECT(comm->world_size == count && comm->rank == gal_mpi_rank());
        must(gal_comm_barrier(comm, patience_seconds, &err), &err);
        double value = value_of(comm->rank, 0);
        run(comm, &(gal_comm_request){.op = GAL_OP_ALL_REDUCE, .dtype = GAL_FP64, .elements = 1, .target = &value});
        EXPECT(value == reduced(&spec, 0, GAL_REDUCE_SUM));
    }
    gal_comm_free(comm);
    gal_comm_free(NULL);
    report("a comm over the first ranks");
}

int main(int argc, char **argv)
{
    gal_error err = {0};
    must(gal_mpi_init(&argc, &argv, &err), &err);
    if (gal_mpi_world_size() > RANKS_MAX) {
        must(gal_fail(&err, GAL_ERR_USAGE, "at most %d ranks", RANKS_MAX), &err);
    }
    for (uint32_t i = 0; i < RANKS_MAX; i++) {
        all_ranks[i] = i;
    }
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "abort") == 0) {
        gal_comm *comm = make_comm(NULL, 0);
        if (comm->rank == 1) {
            comm->ops->abort(comm, GAL_ERR_DEVICE);
        }
        must(gal_comm_barrier(comm, patience_seconds, &err), &err);
    } else {
        test_forms();
        test_subgroups();
        test_order();
        test_transfers();
        test_same_bits();
        test_control();
        test_deadline();
        test_refusals();
        test_part_of_world();
    }
    gal_mpi_finalize();
    return failed_any ? 1 : 0;
}
