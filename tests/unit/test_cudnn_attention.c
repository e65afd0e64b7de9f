/* Every attention that a model of the catalogue can need under any plan: cuDNN has an engine for it on an H200, or our
 * own kernels take it. Nobody needs a GPU for this: cuDNN's heuristics are asked about a device that is described in
 * JSON, and the toolkit's stub of the driver's library is enough for them. The stub must be on nobody else's path, so a
 * child process asks, with a folder of its own in LD_LIBRARY_PATH.
 *
 *   test_cudnn_attention            the tests
 *   test_cudnn_attention --table    the table (make cudnn-table)
 *   test_cudnn_attention --child    the table; its rows decide the exit status
 *   test_cudnn_attention --all      that, heads that cuDNN lacks, and a part of the device: what is wrong, as bits; at
 *                                   once, since cuDNN takes seconds to load */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/ops/cuda/attention_cudnn.h"
#include "runtime/ops/cuda/flash.h"
#include "schemas/catalogue/catalogue.h"
#include "tests/support/ops_case.h"

/* ---- the child ---- */

/* Keys are those that cuDNN 9.19 writes. Figures: H100 and H200 data sheets and the CUDA programming guide, table of
 * compute capability 9.0; clocks as nvidia-smi prints them for an H200 SXM. */
static const char h200[] =
    "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,"
    "\"multiProcessorCount\":132,\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,"
    "\"maxSharedMemoryPerBlockOptin\":232448,\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,"
    "\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,"
    "\"supportCoopLaunch\":1,\"smClockRateKHz\":1980000,\"memClockRateKHz\":3201000,\"l2CacheSize\":62914560,"
    "\"deviceName\":\"NVIDIA H200\",\"totalGlobalMem\":150754820096,\"deviceVer\":900,\"driverVer\":13000,"
    "\"cudaDeviceId\":0}";

enum { GRAPHS = 4 }; /* forward, backward; as fast as can be, deterministic */

/* Engines of a shape's graphs; a graph that cuDNN refuses has none. */
static void count_engines(cudnnBackendDescriptor_t device, gal_cudnn_attention_key key, uint32_t count[GRAPHS])
{
    for (uint32_t i = 0; i < GRAPHS; i++) {
        gal_cudnn_attention_graph graph;
        gal_error err = {.code = GAL_OK};
        cudnnBackendDescriptor_t engine[GAL_CUDNN_ENGINES_MAX];
        key.backward = i % 2;
        key.deterministic = i / 2;
        count[i] = 0;
        if (gal_cudnn_attention_suits(&key) && gal_cudnn_attention_build(&key, NULL, &graph, &err) == GAL_OK) {
            if (gal_cudnn_engines(&graph.graph, device, 0, key.deterministic != 0, engine, &count[i], &err) != GAL_OK) {
                printf("%s\n", err.text);
            }
            for (uint32_t e = 0; e < count[i]; e++) {
                gal_cudnn_destroy(engine[e]);
            }
        }
        if (gal_cudnn_attention_suits(&key)) {
            gal_cudnn_graph_free(&graph.graph);
        }
    }
}

static bool all_have_one(const uint32_t count[GRAPHS])
{
    return count[0] > 0 && count[1] > 0 && count[2] > 0 && count[3] > 0;
}

typedef struct table {
    cudnnBackendDescriptor_t device;
    gal_cudnn_attention_key seen[512];
    uint32_t seen_count, by_cudnn, by_own, by_none;
} table;

static bool is_new(table *t, const gal_cudnn_attention_key *key)
{
    for (uint32_t i = 0; i < t->seen_count; i++) {
        if (memcmp(&t->seen[i], key, sizeof *key) == 0) {
            return false;
        }
    }
    if (t->seen_count < sizeof t->seen / sizeof *t->seen) {
        t->seen[t->seen_count++] = *key;
    }
    return true;
}

static void print_row(table *t, const char *model, const gal_cudnn_attention_key *key)
{
    uint32_t count[GRAPHS];
    count_engines(t->device, *key, count);
    const bool cudnn = all_have_one(count), own = key->dim <= GAL_FLASH_DIM_MAX;
    printf("%-16s %5u %5u %5u %5u %6s %6s %8u %8u %8u %8u  %s\n", model, key->heads, key->kv_heads, key->dim,
           key->sequence, key->causal != 0 ? "yes" : "no", key->padded != 0 ? "yes" : "no", count[0], count[1],
           count[2], count[3],
           cudnn ? "cuDNN"
           : own ? "own kernel"
                 : "NONE");
    t->by_cudnn += cudnn;
    t->by_own += !cudnn && own;
    t->by_none += !cudnn && !own;
}

/* Plans split the heads of keys evenly (schemas/plan_check.h); positions stay whole in attention. */
static void print_block(table *t, const gal_model *model, const gal_block_shape *block)
{
    for (uint32_t tp_degree = 1; tp_degree <= block->kv_head_count; tp_degree++) {
        if (block->kv_head_count % tp_degree != 0) {
            continue;
        }
        gal_cudnn_attention_key key = {
            .samples = 2, /* rows of a sample are not neighbours */
            .sequence = block->positions,
            .heads = block->head_count / tp_degree,
            .kv_heads = block->kv_head_count / tp_degree,
            .dim = block->head_dim,
            .causal = model->family == GAL_FAMILY_DECODER || model->family == GAL_FAMILY_LLAMA,
            .type = CUDNN_DATA_BFLOAT16,
        };
        const bool may_pad = key.causal == 0 && !gal_model_sees_images(model);
        for (key.padded = 0; key.padded <= (may_pad ? 1U : 0U); key.padded++) {
            if (is_new(t, &key)) {
                print_row(t, model->name, &key);
            }
        }
    }
}

static void print_model(table *t, const char *name)
{
    gal_model model;
    gal_error err = {.code = GAL_OK};
    if (gal_model_read(name, &model, &err) != GAL_OK) {
        printf("%s\n", err.text);
        t->by_none++;
        return;
    }
    if (model.family == GAL_FAMILY_T5 || model.family == GAL_FAMILY_SWIN) {
        printf("%-16s %-87s own kernel\n", name,
               model.family == GAL_FAMILY_T5 ? "relative and cross-attention" : "attention within windows");
        t->by_own++;
        return;
    }
    for (uint32_t type = 0; type < gal_model_type_count(&model); type++) {
        gal_block_shape block;
        gal_model_type(&model, type, &block);
        if (block.kind == GAL_BLOCK_ATTENTION) {
            print_block(t, &model, &block);
        }
    }
}

static int child(void)
{
    table t = {.device = NULL};
    gal_error err = {.code = GAL_OK};
    if (gal_cudnn_device(h200, &t.device, &err) != GAL_OK) {
        printf("%s\n", err.text);
        return 2;
    }
    printf("Engines of cuDNN %zu on sm_90, bf16, without dropout (with it: own kernel). A row's heads are those of a "
           "rank; of models with equal rows the first is named.\n",
           cudnnGetVersion());
    printf("%-16s %5s %5s %5s %5s %6s %6s %8s %8s %8s %8s\n", "model", "heads", "kv", "dim", "seq", "causal", "padded",
           "forward", "backward", "fwd det", "bwd det");
    for (uint32_t i = 0; i < gal_catalogue_entry_count; i++) {
        if (strcmp(gal_catalogue_entries[i].kind, "model") == 0) {
            print_model(&t, gal_catalogue_entries[i].name);
        }
    }
    printf("%u by cuDNN, %u by own kernels, %u by none\n", t.by_cudnn, t.by_own, t.by_none);
    gal_cudnn_destroy(t.device);
    return t.by_none == 0 && t.by_cudnn > 0 ? 0 : 1;
}

/* Heads that cuDNN has no backward engine for, so that the answer above can be no; heads of no multiple of 8 features,
 * whose rows are not aligned, are not asked for. */
static int child_of_odd_heads(void)
{
    cudnnBackendDescriptor_t device = NULL;
    gal_error err = {.code = GAL_OK};
    uint32_t odd[GRAPHS], wide[GRAPHS];
    gal_cudnn_attention_key key = {.samples = 1, .sequence = 1024, .heads = 4, .kv_heads = 4, .causal = 1};
    key.type = CUDNN_DATA_BFLOAT16;
    if (gal_cudnn_device(h200, &device, &err) != GAL_OK) {
        return 2;
    }
    key.dim = 100;
    count_engines(device, key, odd);
    key.dim = 320;
    count_engines(device, key, wide);
    printf("100: %u %u, 320: %u %u\n", odd[0], odd[1], wide[0], wide[1]);
    gal_cudnn_destroy(device);
    return odd[0] == 0 && odd[1] == 0 && wide[1] == 0 && wide[3] == 0 ? 0 : 1;
}

/* Status of heuristics that are asked for engines of so many multiprocessors. */
static cudnnStatus_t ask_for_part(const gal_cudnn_graph *graph, cudnnBackendDescriptor_t device, int32_t target)
{
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    cudnnBackendDescriptor_t asked = NULL;
    cudnnStatus_t status = cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &asked);
    const struct {
        cudnnBackendAttributeName_t name;
        cudnnBackendAttributeType_t type;
        const void *value;
    } set[] = {
        {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, &graph->graph},
        {CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, &mode},
        {CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, &device},
        {CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET, CUDNN_TYPE_INT32, &target},
    };
    for (size_t i = 0; i < sizeof set / sizeof *set && status == CUDNN_STATUS_SUCCESS; i++) {
        status = cudnnBackendSetAttribute(asked, set[i].name, set[i].type, 1, set[i].value);
    }
    status = status == CUDNN_STATUS_SUCCESS ? cudnnBackendFinalize(asked) : status;
    gal_cudnn_destroy(asked);
    return status;
}

/* Engines for what 16 multiprocessors of communication leave of an H200. */
static int child_of_part(void)
{
    cudnnBackendDescriptor_t device = NULL, engine[GAL_CUDNN_ENGINES_MAX];
    gal_error err = {.code = GAL_OK};
    uint32_t count = 0, without = 0;
    gal_cudnn_attention_key key = {.samples = 2, .sequence = 1024, .heads = 16, .kv_heads = 16, .dim = 64, .causal = 1};
    key.type = CUDNN_DATA_BFLOAT16;
    if (gal_cudnn_device(h200, &device, &err) != GAL_OK) {
        return 2;
    }
    for (key.backward = 0; key.backward < 2; key.backward++) {
        gal_cudnn_attention_graph graph;
        cudnnStatus_t status = CUDNN_STATUS_NOT_INITIALIZED;
        if (gal_cudnn_attention_build(&key, NULL, &graph, &err) == GAL_OK &&
            gal_cudnn_engines(&graph.graph, device, 116, false, engine, &count, &err) == GAL_OK) {
            status = ask_for_part(&graph.graph, device, 116);
        }
        printf("116 multiprocessors: %s; %u engines\n", cudnnGetErrorString(status), count);
        without += status != CUDNN_STATUS_SUCCESS || count == 0;
        for (uint32_t e = 0; e < count; e++) {
            gal_cudnn_destroy(engine[e]);
        }
        count = 0;
        gal_cudnn_graph_free(&graph.graph);
    }
    gal_cudnn_destroy(device);
    return without == 0 ? 0 : 1;
}

enum { PART_IS_WRONG = 1, TABLE_IS_WRONG = 2, ODD_HEADS_ARE_WRONG = 4 };

static int child_of_all(void)
{
    return (child_of_part() == 0 ? 0 : PART_IS_WRONG) | (child() == 0 ? 0 : TABLE_IS_WRONG) |
           (child_of_odd_heads() == 0 ? 0 : ODD_HEADS_ARE_WRONG);
}

/* ---- the parent ---- */

/* The stub lies below the folder of cuDNN's library. False: this installation has none. */
static bool find_stub(char path[PATH_MAX])
{
    Dl_info info;
    char real[PATH_MAX];
    if (dladdr((void *)(uintptr_t)cudnnGetVersion, &info) == 0 || info.dli_fname == NULL ||
        realpath(info.dli_fname, real) == NULL || strrchr(real, '/') == NULL) {
        return false;
    }
    *strrchr(real, '/') = '\0';
    return snprintf(path, PATH_MAX, "%s/stubs/libcuda.so", real) < PATH_MAX && access(path, R_OK) == 0;
}

/* Exit status of this program with an argument, with the stub as its driver; -1 without a stub. */
static int run_child(const char *argument)
{
    char stub[PATH_MAX], folder[] = "/tmp/galplan-test-driver-XXXXXX", link[64];
    int status = -1;
    if (!find_stub(stub)) {
        return -1;
    }
    assert_non_null(mkdtemp(folder));
    snprintf(link, sizeof link, "%s/libcuda.so.1", folder);
    assert_int_equal(symlink(stub, link), 0);
    fflush(stdout);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("LD_LIBRARY_PATH", folder, 1);
        setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* cuDNN's own; ours are counted in test_cudnn_graph.c */
        execl("/proc/self/exe", "test_cudnn_attention", argument, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    unlink(link);
    rmdir(folder);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int told; /* by the child */

static int ask_child(void **state)
{
    (void)state;
    told = run_child("--all");
    return 0;
}

static void expect_right(int wrong)
{
    if (told < 0) {
        print_message("the CUDA toolkit has no stubs/libcuda.so\n");
        skip();
    }
    assert_int_equal(told & wrong, 0);
}

static void every_attention_has_an_engine(void **state)
{
    (void)state;
    expect_right(TABLE_IS_WRONG);
}

static void heads_without_an_engine_are_told(void **state)
{
    (void)state;
    expect_right(ODD_HEADS_ARE_WRONG);
}

static void a_part_of_the_device_has_engines(void **state)
{
    (void)state;
    expect_right(PART_IS_WRONG);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_of_the_device_has_engines),
        cmocka_unit_test(every_attention_has_an_engine),
        cmocka_unit_test(heads_without_an_engine_are_told),
    };
    const char *argument = argc > 1 ? argv[1] : "";
    if (strcmp(argument, "--child") == 0) {
        return child();
    }
    if (strcmp(argument, "--all") == 0) {
        return child_of_all();
    }
    if (strcmp(argument, "--table") == 0) {
        const int status = run_child("--child");
        if (status < 0) {
            fprintf(stderr, "the CUDA toolkit has no stubs/libcuda.so\n");
        }
        return status < 0 ? 5 : status;
    }
    return cmocka_run_group_tests(tests, ask_child, NULL);
}
