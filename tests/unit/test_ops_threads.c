/* Threads of the host kernels: every part once, and the same bits for any number of threads.
 *
 * The threads of a process are started once, so the kernels run in processes of their own: this program starts itself
 * as `test_ops_threads kernels`, which prints a hash of what each kernel wrote. */
#include <cblas.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "runtime/ops/host/parallel.h"
#include "tests/support/ops_case.h"

/* ---- parts ---- */

enum { PARTS_MAX = 64, JOBS = 20000 };

typedef struct tally {
    _Atomic uint32_t times[PARTS_MAX];
    uint32_t job[PARTS_MAX]; /* written by whoever has the part, read after the job */
    uint32_t number;
} tally;

static void count_part(const void *context, uint32_t part)
{
    tally *at = *(tally *const *)context;
    atomic_fetch_add(&at->times[part], 1);
    at->job[part] = at->number;
}

/* Jobs of 0 to 63 parts, one after the other: each part of each runs once, and before its job is over. */
static void test_every_part_once(void **state)
{
    (void)state;
    tally counts = {.number = 0};
    tally *at = &counts;
    for (uint32_t job = 1; job <= JOBS; job++) {
        const uint32_t part_count = job % PARTS_MAX;
        at->number = job;
        gal_parallel(part_count, count_part, &at);
        for (uint32_t part = 0; part < part_count; part++) {
            assert_int_equal(at->job[part], job);
        }
    }
    for (uint32_t part = 0; part < PARTS_MAX; part++) {
        uint32_t expected = 0;
        for (uint32_t job = 1; job <= JOBS; job++) {
            expected += part < job % PARTS_MAX;
        }
        assert_int_equal(at->times[part], expected);
    }
}

/* 100 in units of 16: 7 units in 3 parts are 2, 2 and 3 units (floor of 7/3, 14/3, 21/3). */
static void test_cut(void **state)
{
    (void)state;
    const gal_cut cut = {.count = 100, .unit = 16, .part_count = 3};
    assert_int_equal(gal_cut_begin(&cut, 0), 0);
    assert_int_equal(gal_cut_begin(&cut, 1), 32);
    assert_int_equal(gal_cut_begin(&cut, 2), 64);
    assert_int_equal(gal_cut_begin(&cut, 3), 100);
    const gal_cut empty = gal_cut_for_threads(0, 16, 1);
    assert_int_equal(empty.part_count, 1);
    assert_int_equal(gal_cut_begin(&empty, 1), 0);
    assert_int_equal(gal_cut_for_threads(100, 16, 1000).part_count, 1);
}

/* ---- the same bits for any number of threads ---- */

enum { SAMPLES = 4, SEQUENCE = 96, SIDE = 8, HEADS = 3, DIM = 32, HIDDEN = HEADS * DIM, ROWS = SAMPLES * SEQUENCE };
enum { VOCABULARY = 1000, VOCABULARY_PADDED = 1024, UNIT = 300001, WIDE = 3 * HIDDEN, BUFFERS = 6 };

typedef struct bench {
    ops_case at;
    float *buffer[BUFFERS]; /* of UNIT or ROWS * VOCABULARY_PADDED elements, whichever is more */
    size_t elements;
    int32_t tokens[ROWS];
    double norm[2];
} bench;

static void fill(bench *b)
{
    uint64_t state = 7;
    for (int i = 0; i < BUFFERS; i++) {
        for (size_t j = 0; j < b->elements; j++) {
            b->buffer[i][j] = (float)ops_random(&state);
        }
    }
    for (size_t i = 0; i < ROWS; i++) {
        b->tokens[i] = (int32_t)(i * i % VOCABULARY);
    }
    b->norm[0] = 0.5;
}

static void print_hash(const bench *b, const char *name)
{
    uint64_t hash = 0xCBF29CE484222325U; /* FNV-1a, by words */
    for (int i = 0; i < BUFFERS; i++) {
        for (size_t j = 0; j < b->elements; j++) {
            uint32_t bits;
            memcpy(&bits, b->buffer[i] + j, sizeof bits);
            hash = (hash ^ bits) * 0x100000001B3U;
        }
    }
    printf("%s %016llx %a\n", name, (unsigned long long)hash, b->norm[0]);
}

#define KERNEL(op, dims, ...)                                                                                          \
    fill(b);                                                                                                           \
    OPS(&b->at, &gal_ops_host_fp32, op, dims, __VA_ARGS__);                                                            \
    print_hash(b, #op)

static void run_rows(bench *b)
{
    float **x = b->buffer;
    KERNEL(GAL_OP_EMBED, DIMS(SAMPLES, SEQUENCE, HIDDEN, VOCABULARY), b->tokens, x[0], x[1]);
    KERNEL(GAL_OP_EMBED_BACKWARD, DIMS(SAMPLES, SEQUENCE, HIDDEN, VOCABULARY), b->tokens, x[0], x[1]);
    KERNEL(GAL_OP_POSITION, DIMS(SAMPLES, SEQUENCE, HIDDEN, SEQUENCE, 0, 0), x[0], x[1], x[2]);
    KERNEL(GAL_OP_POSITION_BACKWARD, DIMS(SAMPLES, SEQUENCE, HIDDEN, SEQUENCE, 0, 0), x[0], x[1], x[2]);
    KERNEL(GAL_OP_POSITION, DIMS(SAMPLES, SEQUENCE, HIDDEN, SEQUENCE, 2, 0), x[0], x[1], x[2], x[3]);
    KERNEL(GAL_OP_POSITION_BACKWARD, DIMS(SAMPLES, SEQUENCE, HIDDEN, SEQUENCE, 2, 0), x[0], x[1], x[2], x[3]);
    KERNEL(GAL_OP_POSITION_BACKWARD, DIMS(SAMPLES, SEQUENCE, HIDDEN, SEQUENCE, 0, 1), x[0], x[1], x[2], x[3]);
    KERNEL(GAL_OP_LAYER_NORM, DIMS(ROWS, HIDDEN), x[0], x[1], x[2], x[3], x[4]);
    KERNEL(GAL_OP_LAYER_NORM_BACKWARD, DIMS(ROWS, HIDDEN, 1), x[0], x[1], x[2], x[3], x[4], x[5], x[5] + HIDDEN,
           x[5] + WIDE);
    KERNEL(GAL_OP_BIAS_GRADIENT, DIMS(ROWS, WIDE), x[0], x[1]);
    KERNEL(GAL_OP_RESIDUAL, DIMS(SAMPLES, SEQUENCE, HIDDEN, 1), x[0], x[1], x[3], x[2]);
    KERNEL(GAL_OP_DROPOUT, DIMS(SAMPLES, SEQUENCE, HIDDEN), x[0], x[1]);
    KERNEL(GAL_OP_ATTENTION, DIMS(SAMPLES, SEQUENCE, HEADS, DIM, HEADS, GAL_ATTENTION_CAUSAL), x[0], x[1], x[2]);
    KERNEL(GAL_OP_ATTENTION_BACKWARD, DIMS(SAMPLES, SEQUENCE, HEADS, DIM, HEADS, GAL_ATTENTION_CAUSAL), x[0], x[1],
           x[2], x[3], x[4]);
    KERNEL(GAL_OP_ATTENTION, DIMS(SAMPLES, SEQUENCE, HEADS, DIM, HEADS, 0), x[0], x[1], x[2]);
    KERNEL(GAL_OP_ATTENTION_BACKWARD, DIMS(SAMPLES, SEQUENCE, HEADS, DIM, HEADS, 0), x[0], x[1], x[2], x[3], x[4]);
    KERNEL(GAL_OP_WINDOW_ATTENTION, DIMS(SAMPLES, SIDE * SIDE, HEADS, DIM, SIDE, SIDE / 2, SIDE / 4), x[0], x[1], x[2],
           x[3]);
    KERNEL(GAL_OP_WINDOW_ATTENTION_BACKWARD, DIMS(SAMPLES, SIDE * SIDE, HEADS, DIM, SIDE, SIDE / 2, SIDE / 4), x[0],
           x[1], x[2], x[3], x[4], x[5], x[5] + ROWS * WIDE);
    KERNEL(GAL_OP_MEAN_POSITION, DIMS(SAMPLES, SEQUENCE, HIDDEN, SEQUENCE), x[0], x[1]);
    KERNEL(GAL_OP_MEAN_POSITION_BACKWARD, DIMS(SAMPLES, SEQUENCE, HIDDEN, SEQUENCE), x[0], x[1]);
    KERNEL(GAL_OP_MERGE, DIMS(SAMPLES, SIDE * SIDE, HIDDEN, SIDE), x[0], x[1]);
    KERNEL(GAL_OP_MERGE_BACKWARD, DIMS(SAMPLES, SIDE * SIDE, HIDDEN, SIDE), x[0], x[1]);
    KERNEL(GAL_OP_CROSS_ENTROPY_MAX, DIMS(ROWS, VOCABULARY_PADDED, VOCABULARY), x[0], x[1]);
    KERNEL(GAL_OP_CROSS_ENTROPY_SUM, DIMS(SAMPLES, SEQUENCE, VOCABULARY_PADDED, VOCABULARY), x[0], x[1], b->tokens,
           x[2]);
    KERNEL(GAL_OP_CROSS_ENTROPY_BACKWARD, DIMS(SAMPLES, SEQUENCE, VOCABULARY_PADDED, VOCABULARY), x[0], x[1], x[2],
           b->tokens);
}

static void run_elements(bench *b)
{
    float **x = b->buffer;
    KERNEL(GAL_OP_ACTIVATION, DIMS(UNIT, GAL_ACTIVATION_GELU_TANH), x[0], x[1]);
    KERNEL(GAL_OP_ACTIVATION_BACKWARD, DIMS(UNIT, GAL_ACTIVATION_GELU_ERF), x[0], x[1], x[2]);
    KERNEL(GAL_OP_ADD, DIMS(UNIT), x[0], x[1]);
    KERNEL(GAL_OP_FILL, DIMS(UNIT), x[0]);
    KERNEL(GAL_OP_SUM_SQUARES, DIMS(UNIT, 1), x[0], b->norm);
    KERNEL(GAL_OP_ADAM, DIMS(UNIT, UNIT / 2), x[0], x[1], x[2], x[3], b->norm);
}

static int run_kernels(void)
{
    static bench b; /* the case points into itself */
    ops_case_init(&b.at);
    b.at.model.sequence_length = SEQUENCE;
    b.at.model.head_count = HEADS;
    b.at.model.embedding_dropout = b.at.model.residual_dropout = b.at.model.attention_dropout = 0.25;
    b.at.model.optimizer = (gal_optimizer){.kind = GAL_OPTIMIZER_ADAMW,
                                           .beta1 = 0.9,
                                           .beta2 = 0.99,
                                           .epsilon = 1e-8,
                                           .weight_decay = 0.1,
                                           .gradient_clip_norm = 1.0};
    b.at.step.learning_rate = 1e-3;
    b.elements = (size_t)ROWS * VOCABULARY_PADDED;
    for (int i = 0; i < BUFFERS; i++) {
        b.buffer[i] = malloc(b.elements * sizeof(float));
        if (b.buffer[i] == NULL) {
            return 4;
        }
    }
    run_rows(&b);
    run_elements(&b);
    printf("threads %u\n", gal_parallel_threads());
    for (int i = 0; i < BUFFERS; i++) {
        free(b.buffer[i]);
    }
    return 0;
}

/* Lines of the program run with so many threads; the last one names their number. */
static void kernels_with(const char *threads, char *text, size_t capacity)
{
    char path[512], command[640];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    assert_true(length > 0);
    path[length] = '\0';
    snprintf(command, sizeof command, "OPENBLAS_NUM_THREADS=%s '%s' kernels", threads, path);
    FILE *child = popen(command, "r");
    assert_non_null(child);
    const size_t count = fread(text, 1, capacity - 1, child);
    text[count] = '\0';
    assert_int_equal(pclose(child), 0);
}

static void test_bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    static char one[8192], several[8192];
    kernels_with("1", one, sizeof one);
    for (int run = 0; run < 3; run++) {
        kernels_with("2", several, sizeof several);
        char *threads_of_one = strstr(one, "threads ");
        char *threads_of_several = strstr(several, "threads ");
        assert_non_null(threads_of_one);
        assert_non_null(threads_of_several);
        assert_string_equal(threads_of_one, "threads 1\n");
        if (strcmp(threads_of_several, "threads 2\n") != 0) {
            skip(); /* OpenBLAS takes no more threads than the machine has cores */
        }
        const size_t lines = (size_t)(threads_of_one - one);
        assert_int_equal(threads_of_several - several, lines);
        assert_memory_equal(one, several, lines);
    }
}

/* A product is cut by the number of threads, and sums in BLAS may then round otherwise: against a plain loop in double,
 * k = 40 products of numbers below 1, each sum off by at most k eps k = 40 * 40 * 2^-24. */
static void test_gemm_in_parts(void **state)
{
    (void)state;
    enum { M = 700, N = 650, K = 40 };
    const double bound = (double)K * K * 0x1p-24;
    ops_case at;
    uint64_t random = 3;
    float *a = malloc(sizeof(float) * M * K), *b = malloc(sizeof(float) * K * N), *c = malloc(sizeof(float) * M * N);
    float bias[N];
    assert_true(a != NULL && b != NULL && c != NULL);
    for (size_t i = 0; i < (size_t)M * K; i++) {
        a[i] = (float)ops_random(&random);
    }
    for (size_t i = 0; i < (size_t)K * N; i++) {
        b[i] = (float)ops_random(&random);
    }
    for (size_t j = 0; j < N; j++) {
        bias[j] = (float)ops_random(&random);
    }
    ops_case_init(&at);
    for (uint32_t flags = 0; flags < 8; flags++) {
        for (int wide = 0; wide < 2; wide++) { /* cut by rows, cut by columns */
            const uint32_t m = wide ? M - 100 : M, n = wide ? N : N - 100;
            OPS(&at, &gal_ops_host_fp32, GAL_OP_GEMM, DIMS(m, n, K, flags), a, b, c, bias);
            for (uint32_t i = 0; i < m; i += 3) {
                for (uint32_t j = 0; j < n; j++) {
                    double sum = (flags & GAL_GEMM_BIAS) != 0 ? (double)bias[j] : 0.0;
                    for (uint32_t k = 0; k < K; k++) {
                        sum += (double)a[(flags & GAL_GEMM_TRANSPOSE_A) != 0 ? k * m + i : i * K + k] *
                               (double)b[(flags & GAL_GEMM_TRANSPOSE_B) != 0 ? j * K + k : k * n + j];
                    }
                    assert_true(sum - (double)c[(size_t)i * n + j] <= bound);
                    assert_true((double)c[(size_t)i * n + j] - sum <= bound);
                }
            }
        }
    }
    free(a);
    free(b);
    free(c);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "kernels") == 0) {
        return run_kernels();
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_part_once),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_bits_do_not_depend_on_threads),
        cmocka_unit_test(test_gemm_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
