#include "tests/support/thread_world.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct gal_thread_world {
    pthread_barrier_t barrier;
    uint32_t size;
    gal_comm comm[GAL_THREADS_MAX];
    const void *shown[GAL_THREADS_MAX]; /* by rank: what the others may read until the next barrier */
    gal_code code[GAL_THREADS_MAX];
};

static void meet(gal_thread_world *world)
{
    (void)pthread_barrier_wait(&world->barrier);
}

static gal_code barrier(gal_comm *comm, double deadline_seconds, gal_error *err)
{
    (void)deadline_seconds;
    (void)err;
    meet(comm->state);
    return GAL_OK;
}

static gal_code broadcast(gal_comm *comm, uint32_t root, void *data, uint64_t byte_count, double deadline_seconds,
                          gal_error *err)
{
    gal_thread_world *world = comm->state;
    (void)deadline_seconds;
    (void)err;
    world->shown[comm->rank] = data;
    meet(world);
    if (comm->rank != root) {
        memcpy(data, world->shown[root], byte_count);
    }
    meet(world);
    return GAL_OK;
}

static gal_code reduce_f64(gal_comm *comm, double *values, uint32_t count, uint32_t reduce, double deadline_seconds,
                           gal_error *err)
{
    gal_thread_world *world = comm->state;
    double *result = calloc(count, sizeof *result);
    (void)deadline_seconds;
    (void)err;
    GAL_ASSERT(result != NULL);
    world->shown[comm->rank] = values;
    meet(world);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t r = 0; r < world->size; r++) {
            const double value = ((const double *)world->shown[r])[i];
            const bool larger = r == 0 || value > result[i];
            result[i] = reduce == GAL_REDUCE_SUM ? result[i] + value : larger ? value : result[i];
        }
    }
    meet(world);
    memcpy(values, result, count * sizeof *values);
    free(result);
    return GAL_OK;
}

static gal_code gather(gal_comm *comm, uint32_t root, const void *mine, uint64_t byte_count, void *gathered,
                       double deadline_seconds, gal_error *err)
{
    gal_thread_world *world = comm->state;
    (void)deadline_seconds;
    (void)err;
    world->shown[comm->rank] = mine;
    meet(world);
    for (uint32_t r = 0; comm->rank == root && r < world->size; r++) {
        memcpy((char *)gathered + r * byte_count, world->shown[r], byte_count);
    }
    meet(world);
    return GAL_OK;
}

static gal_code agree(gal_comm *comm, gal_code mine, double deadline_seconds, gal_error *err)
{
    gal_thread_world *world = comm->state;
    gal_code worst = GAL_OK;
    (void)deadline_seconds;
    world->code[comm->rank] = mine;
    meet(world);
    for (uint32_t r = 0; r < world->size; r++) {
        worst = world->code[r] > worst ? world->code[r] : worst;
    }
    meet(world);
    return mine == worst ? mine : gal_fail(err, worst, "another rank has failed");
}

static const gal_comm_control control = {
    .barrier = barrier, .broadcast = broadcast, .reduce_f64 = reduce_f64, .gather = gather, .agree = agree};
static const gal_comm_ops ops = {.name = "threads", .control = &control};

gal_thread_world *gal_thread_world_create(uint32_t world_size)
{
    gal_thread_world *world = calloc(1, sizeof *world);
    GAL_ASSERT(world != NULL && world_size >= 1 && world_size <= GAL_THREADS_MAX);
    world->size = world_size;
    GAL_ASSERT(pthread_barrier_init(&world->barrier, NULL, world_size) == 0);
    for (uint32_t r = 0; r < world_size; r++) {
        world->comm[r] = (gal_comm){.ops = &ops, .rank = r, .world_size = world_size, .state = world};
    }
    return world;
}

void gal_thread_world_free(gal_thread_world *world)
{
    pthread_barrier_destroy(&world->barrier);
    free(world);
}

gal_comm *gal_thread_world_comm(gal_thread_world *world, uint32_t rank)
{
    return &world->comm[rank];
}

typedef struct started {
    pthread_t thread;
    uint32_t rank;
    void (*body)(uint32_t rank, void *context);
    void *context;
} started;

static void *run_rank(void *argument)
{
    const started *s = argument;
    s->body(s->rank, s->context);
    return NULL;
}

void gal_thread_world_run(uint32_t world_size, void (*body)(uint32_t rank, void *context), void *context)
{
    started rank[GAL_THREADS_MAX];
    for (uint32_t r = 0; r < world_size; r++) {
        rank[r] = (started){.rank = r, .body = body, .context = context};
        GAL_ASSERT(pthread_create(&rank[r].thread, NULL, run_rank, &rank[r]) == 0);
    }
    for (uint32_t r = 0; r < world_size; r++) {
        pthread_join(rank[r].thread, NULL);
    }
}
