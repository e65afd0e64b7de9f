#include "tests/support/emulated/device.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

enum { THREADS_MAX = 1024, WARP = 32, STACK_BYTES = 256 * 1024 };

typedef enum thread_state { READY, AT_BARRIER, AT_EXCHANGE, DONE } thread_state;

/* Contexts (getcontext) give threads their stacks; from then on they change by _setjmp, which asks nothing of the
 * system: swapcontext keeps the mask of signals, by two calls each time. But AddressSanitizer takes a jump for the end
 * of frames of one stack; swapcontext it follows. */
#ifdef __SANITIZE_ADDRESS__
typedef ucontext_t spot;

static void change(spot *from, spot *to)
{
    (void)swapcontext(from, to);
}

static void begin(spot *from, const ucontext_t *to)
{
    (void)swapcontext(from, to);
}
#else
typedef jmp_buf spot;

static void change(spot *from, spot *to)
{
    if (_setjmp(*from) == 0) {
        _longjmp(*to, 1);
    }
}

static void begin(spot *from, const ucontext_t *to)
{
    if (_setjmp(*from) == 0) {
        setcontext(to);
    }
}
#endif

typedef struct thread {
    spot where; /* it waits, if it has a stack */
    thread_state state;
    uint64_t given[2]; /* of the last two exchanges: a lane is at most one ahead of another */
    uint32_t exchanges;
    char *stack;
} thread;

gal_emulated_index gal_emulated_thread, gal_emulated_block, gal_emulated_block_count, gal_emulated_thread_count;
bool gal_emulated_reverse;
uint64_t gal_emulated_launches;

static thread threads[THREADS_MAX];
static spot scheduler;
static uint32_t running, thread_count;
static void (*kernel)(void *);
static void *kernel_context;

static void give_up(const char *why)
{
    fprintf(stderr, "emulated kernel: %s (block %u, thread %u)\n", why, gal_emulated_block.x, gal_emulated_thread.x);
    exit(1);
}

static void wait_as(thread_state state)
{
    threads[running].state = state;
    change(&threads[running].where, &scheduler);
}

/* One kernel after another. */
static void live(void)
{
    for (;;) {
        kernel(kernel_context);
        wait_as(DONE);
    }
}

static void begin_life(thread *at)
{
    ucontext_t context;
    at->stack = malloc(STACK_BYTES);
    if (at->stack == NULL || getcontext(&context) != 0) {
        give_up("no memory for threads");
    }
    context.uc_stack.ss_sp = at->stack;
    context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&context, live, 0);
    begin(&scheduler, &context);
}

static void resume(uint32_t t)
{
    if (threads[t].stack == NULL) {
        begin_life(&threads[t]);
    } else {
        change(&scheduler, &threads[t].where);
    }
}

void gal_emulated_barrier(void)
{
    wait_as(AT_BARRIER);
}

uint64_t gal_emulated_exchange(uint64_t value, uint32_t source)
{
    const uint32_t warp = running / WARP * WARP, slot = threads[running].exchanges++ % 2;
    threads[running].given[slot] = value;
    wait_as(AT_EXCHANGE);
    return threads[warp + source % WARP].given[slot];
}

static void place(uint32_t t)
{
    running = t;
    gal_emulated_thread.x = t % gal_emulated_thread_count.x;
    gal_emulated_thread.y = t / gal_emulated_thread_count.x % gal_emulated_thread_count.y;
    gal_emulated_thread.z = t / gal_emulated_thread_count.x / gal_emulated_thread_count.y;
}

/* Those from first on, while all wait in this way; releases none unless all do. */
static bool release(uint32_t first, uint32_t count, thread_state state, bool may_be_done)
{
    bool some = false;
    for (uint32_t t = first; t < first + count; t++) {
        if (threads[t].state != state && !(may_be_done && threads[t].state == DONE)) {
            return false;
        }
        some = some || threads[t].state == state;
    }
    for (uint32_t t = first; t < first + count && some; t++) {
        threads[t].state = threads[t].state == state ? READY : threads[t].state;
    }
    return some;
}

/* Runs each lane that can run until it waits; false if none could. */
static bool advance_lanes(uint32_t first, uint32_t count)
{
    bool some = false;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t t = first + (gal_emulated_reverse ? count - 1 - i : i);
        if (threads[t].state == READY) {
            place(t);
            resume(t);
            some = true;
        }
    }
    return some;
}

/* One warp after another goes as far as it can, so that a missing barrier lets it run ahead of the others; false if
 * none could. */
static bool advance(void)
{
    const uint32_t warps = (thread_count + WARP - 1) / WARP;
    bool some = false;
    for (uint32_t i = 0; i < warps; i++) {
        const uint32_t first = (gal_emulated_reverse ? warps - 1 - i : i) * WARP;
        const uint32_t count = thread_count - first < WARP ? thread_count - first : WARP;
        do {
            some = advance_lanes(first, count) || some;
        } while (count == WARP && release(first, WARP, AT_EXCHANGE, false));
    }
    return release(0, thread_count, AT_BARRIER, true) || some;
}

static void run_block(void)
{
    bool left = true;
    for (uint32_t t = 0; t < thread_count; t++) {
        threads[t].state = READY;
        threads[t].exchanges = 0;
    }
    while (left) {
        const bool moved = advance();
        left = false;
        for (uint32_t t = 0; t < thread_count; t++) {
            left = left || threads[t].state != DONE;
        }
        if (left && !moved) {
            give_up("threads wait for others that will not come");
        }
    }
}

void gal_emulated_run(gal_emulated_index blocks, gal_emulated_index block_threads, void (*work)(void *), void *context)
{
    kernel = work;
    kernel_context = context;
    thread_count = block_threads.x * block_threads.y * block_threads.z;
    gal_emulated_thread_count = block_threads;
    gal_emulated_block_count = blocks;
    gal_emulated_launches++;
    if (thread_count == 0 || thread_count > THREADS_MAX) {
        give_up("not a size of blocks");
    }
    for (gal_emulated_block.z = 0; gal_emulated_block.z < blocks.z; gal_emulated_block.z++) {
        for (gal_emulated_block.y = 0; gal_emulated_block.y < blocks.y; gal_emulated_block.y++) {
            for (gal_emulated_block.x = 0; gal_emulated_block.x < blocks.x; gal_emulated_block.x++) {
                run_block();
            }
        }
    }
}
