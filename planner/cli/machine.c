#include "planner/cli/machine.h"

#include <dirent.h>
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, SPACED_KEPT = 200 };

static const char *const found_names[GAL_FOUND_COUNT] = {
    [GAL_FOUND_GALRUN] = "galrun",
    [GAL_FOUND_PROFILER] = "galplan-profile",
    [GAL_FOUND_MPIRUN] = "mpirun",
    [GAL_FOUND_SRUN] = "srun",
    [GAL_FOUND_MPI] = "MPI",
    [GAL_FOUND_BLAS] = "BLAS",
    [GAL_FOUND_HWLOC] = "hwloc",
    [GAL_FOUND_PROCESSOR] = "processor",
    [GAL_FOUND_MEMORY] = "memory",
    [GAL_FOUND_MEMORY_LIMIT] = "memory limit",
    [GAL_FOUND_CUDA_DRIVER] = "CUDA driver",
    [GAL_FOUND_GPU] = "GPU",
    [GAL_FOUND_CUDA] = "CUDA runtime",
    [GAL_FOUND_CUDNN] = "cuDNN",
    [GAL_FOUND_NCCL] = "NCCL",
    [GAL_FOUND_INFINIBAND] = "InfiniBand",
    [GAL_FOUND_NETWORK] = "network",
};

static void set_text(gal_finding *out, const char *text)
{
    out->found = true;
    (void)snprintf(out->text, sizeof out->text, "%.*s", GAL_FINDING_TEXT_BYTES - 1, text);
    out->text[strcspn(out->text, "\n")] = '\0';
}

static void add_text(char *text, const char *between, const char *more)
{
    const size_t used = strlen(text);
    (void)snprintf(text + used, GAL_FINDING_TEXT_BYTES - used, "%s%s", used == 0 ? "" : between, more);
}

/* ---- files ---- */

static bool read_line(const char *path, char *line, size_t capacity)
{
    FILE *file = fopen(path, "r");
    const bool got = file != NULL && fgets(line, (int)capacity, file) != NULL;
    if (file != NULL) {
        (void)fclose(file);
    }
    if (got) {
        line[strcspn(line, "\n")] = '\0';
    }
    return got;
}

/* The rest of the first line that begins with the key, its blanks skipped. */
static bool read_keyed(const char *path, const char *key, char *value, size_t capacity)
{
    char line[512];
    bool got = false;
    FILE *file = fopen(path, "r");
    while (file != NULL && !got && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0) {
            const char *rest = line + strlen(key);
            (void)snprintf(value, capacity, "%s", rest + strspn(rest, " \t:"));
            value[strcspn(value, "\n")] = '\0';
            got = true;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return got;
}

/* ---- programs ---- */

static void look_beside(const char *name, gal_finding *out)
{
    char path[PATH_BYTES];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 64);
    if (length <= 0) {
        return;
    }
    path[length] = '\0';
    char *base = strrchr(path, '/');
    if (base != NULL) {
        (void)snprintf(base + 1, 64, "%s", name);
    }
    (void)snprintf(out->looked_for, sizeof out->looked_for, "%s beside galplan", name);
    if (access(path, X_OK) == 0) {
        set_text(out, path);
    }
}

static void look_on_path(const char *name, gal_finding *out)
{
    char path[PATH_BYTES];
    const char *folder = getenv("PATH");
    (void)snprintf(out->looked_for, sizeof out->looked_for, "%s on PATH", name);
    while (folder != NULL && *folder != '\0' && !out->found) {
        const size_t length = strcspn(folder, ":");
        (void)snprintf(path, sizeof path, "%.*s/%s", (int)length, folder, name);
        if (access(path, X_OK) == 0) {
            set_text(out, path);
        }
        folder += length + (folder[length] == ':');
    }
}

/* ---- libraries ---- */

/* The first of the names (spaces between them) that the dynamic linker finds, or NULL. It stays open: libraries of
 * drivers do not like to be closed. */
static void *open_library(const char *names, gal_finding *out)
{
    char name[64];
    void *library = NULL;
    (void)snprintf(out->looked_for, sizeof out->looked_for, "%s", names);
    while (*names != '\0' && library == NULL) {
        const size_t length = strcspn(names, " ");
        (void)snprintf(name, sizeof name, "%.*s", (int)length, names);
        library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
        names += length + (names[length] == ' ');
    }
    if (library != NULL) {
        set_text(out, name);
    }
    return library;
}

typedef int (*int_function)(int *value);
typedef int (*text_function)(char *text, int *length);
typedef size_t (*size_function)(void);
typedef unsigned (*unsigned_function)(void);
typedef char *(*string_function)(void);
typedef int (*init_function)(unsigned flags);
typedef int (*name_function)(char *name, int length, int device);

/* C has no conversion from object to function pointers, POSIX has: the bytes are the same. */
#define SYMBOL(function, library, name)                                                                                \
    do {                                                                                                               \
        void *address = (library) == NULL ? NULL : dlsym((library), (name));                                           \
        memcpy(&(function), &address, sizeof address);                                                                 \
    } while (0)

static void look_for_mpi(gal_finding *out)
{
    /* Room as MPI_MAX_LIBRARY_VERSION_STRING of Open MPI (256) and MPICH (8192). */
    static char text[8192];
    int length = 0;
    text_function version = NULL;
    void *library = open_library("libmpi.so.40 libmpi.so.12 libmpi.so", out);
    SYMBOL(version, library, "MPI_Get_library_version");
    if (version != NULL && version(text, &length) == 0) { /* may be called before MPI_Init */
        set_text(out, text);
    }
}

static void look_for_blas(gal_finding *out)
{
    string_function config = NULL;
    void *library = open_library("libopenblas.so.0 libopenblas.so", out);
    SYMBOL(config, library, "openblas_get_config");
    if (config != NULL) {
        set_text(out, config());
    }
}

static void look_for_hwloc(gal_finding *out)
{
    unsigned_function version = NULL;
    void *library = open_library("libhwloc.so.15 libhwloc.so", out);
    SYMBOL(version, library, "hwloc_get_api_version");
    if (version != NULL) {
        const unsigned v = version();
        (void)snprintf(out->text, sizeof out->text, "API %u.%u.%u", v >> 16, v >> 8 & 255, v & 255);
    }
}

static void look_for_driver(gal_finding *driver, gal_finding *gpu)
{
    char name[96];
    int version = 0, count = 0;
    init_function init = NULL;
    int_function get_version = NULL, get_count = NULL;
    name_function get_name = NULL;
    void *library = open_library("libcuda.so.1", driver);
    SYMBOL(init, library, "cuInit");
    SYMBOL(get_version, library, "cuDriverGetVersion");
    SYMBOL(get_count, library, "cuDeviceGetCount");
    SYMBOL(get_name, library, "cuDeviceGetName");
    if (get_version != NULL && get_version(&version) == 0) {
        (void)snprintf(driver->text, sizeof driver->text, "for CUDA %d.%d", version / 1000, version % 1000 / 10);
    }
    (void)snprintf(gpu->looked_for, sizeof gpu->looked_for, "devices of libcuda.so.1");
    if (init == NULL || get_count == NULL || get_name == NULL || init(0) != 0 || get_count(&count) != 0) {
        return;
    }
    for (int device = 0; device < count; device++) {
        gpu->found = true;
        if (get_name(name, (int)sizeof name, device) == 0) {
            add_text(gpu->text, ", ", name);
        }
    }
}

static void look_for_cuda(gal_finding *out)
{
    int version = 0;
    int_function get = NULL;
    void *library = open_library("libcudart.so.13 libcudart.so.12 libcudart.so.11.0 libcudart.so", out);
    SYMBOL(get, library, "cudaRuntimeGetVersion");
    if (get != NULL && get(&version) == 0) {
        (void)snprintf(out->text, sizeof out->text, "%d.%d", version / 1000, version % 1000 / 10);
    }
}

static void look_for_cudnn(gal_finding *out)
{
    size_function get = NULL;
    void *library = open_library("libcudnn.so.9 libcudnn.so.8 libcudnn.so", out);
    SYMBOL(get, library, "cudnnGetVersion");
    if (get != NULL) {
        (void)snprintf(out->text, sizeof out->text, "version %zu", get());
    }
}

static void look_for_nccl(gal_finding *out)
{
    int version = 0;
    int_function get = NULL;
    void *library = open_library("libnccl.so.2 libnccl.so", out);
    SYMBOL(get, library, "ncclGetVersion");
    if (get != NULL && get(&version) == 0) {
        (void)snprintf(out->text, sizeof out->text, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    }
}

/* ---- the machine ---- */

static uint32_t look_at_processor(gal_finding *out)
{
    char model[SPACED_KEPT] = "processor of unknown name", nodes[32] = "0";
    cpu_set_t set;
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    const int allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)online;
    (void)read_keyed("/proc/cpuinfo", "model name", model, sizeof model);
    (void)read_line("/sys/devices/system/node/online", nodes, sizeof nodes);
    (void)snprintf(out->looked_for, sizeof out->looked_for, "/proc/cpuinfo, /sys/devices/system/node");
    out->found = true;
    (void)snprintf(out->text, sizeof out->text, "%.150s; %d of %ld processing units allowed; NUMA nodes %s", model,
                   allowed, online, nodes);
    return (uint32_t)allowed;
}

static void look_at_memory(gal_finding *out)
{
    char total[64], available[64];
    (void)snprintf(out->looked_for, sizeof out->looked_for, "/proc/meminfo");
    if (read_keyed("/proc/meminfo", "MemTotal", total, sizeof total) &&
        read_keyed("/proc/meminfo", "MemAvailable", available, sizeof available)) {
        out->found = true;
        (void)snprintf(out->text, sizeof out->text, "%.1f GiB, %.1f GiB available", strtod(total, NULL) / 1048576.0,
                       strtod(available, NULL) / 1048576.0);
    }
}

/* Of this process's control group and those above it the least limit, 0: none. Groups of version 2, or the root that a
 * container sees; else version 1. */
static uint64_t memory_limit_bytes(void)
{
    char group[PATH_BYTES - 64] = "", path[PATH_BYTES], value[64];
    uint64_t least = 0;
    (void)read_keyed("/proc/self/cgroup", "0::", group, sizeof group);
    for (;;) {
        (void)snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", group);
        if (read_line(path, value, sizeof value) && strcmp(value, "max") != 0) {
            const uint64_t limit = strtoull(value, NULL, 10);
            least = least == 0 || limit < least ? limit : least;
        }
        char *end = strrchr(group, '/');
        if (end == NULL) {
            break;
        }
        *end = '\0';
    }
    if (least == 0 && read_line("/sys/fs/cgroup/memory/memory.limit_in_bytes", value, sizeof value)) {
        const uint64_t limit = strtoull(value, NULL, 10);
        least = limit < UINT64_C(1) << 60 ? limit : 0; /* version 1 writes "none" as a number near 2^63 */
    }
    return least;
}

static void look_at_memory_limit(gal_finding *out)
{
    const uint64_t limit = memory_limit_bytes();
    (void)snprintf(out->looked_for, sizeof out->looked_for, "memory.max of this control group and those above it");
    if (limit != 0) {
        out->found = true;
        (void)snprintf(out->text, sizeof out->text, "%.1f GiB for all processes of this control group",
                       (double)limit / 1073741824.0);
    }
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_shown(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && strcmp(entry->d_name, "lo") != 0;
}

/* The entries of a folder of /sys/class, network interfaces with their rate if the driver says one. */
static void look_in_class(const char *folder, gal_finding *out)
{
    struct dirent **entry = NULL;
    const int count = scandir(folder, &entry, is_shown, by_name);
    (void)snprintf(out->looked_for, sizeof out->looked_for, "%s", folder);
    for (int i = 0; i < count; i++) {
        char path[PATH_BYTES], speed[32], rate[64];
        out->found = true;
        add_text(out->text, ", ", entry[i]->d_name);
        (void)snprintf(path, sizeof path, "%s/%s/speed", folder, entry[i]->d_name);
        if (read_line(path, speed, sizeof speed) && speed[0] != '-') {
            (void)snprintf(rate, sizeof rate, " %s Mbit/s", speed);
            add_text(out->text, "", rate);
        }
        free(entry[i]);
    }
    free(entry);
}

void gal_machine_look(gal_machine *out)
{
    *out = (gal_machine){0};
    gal_finding *f = out->finding;
    for (uint32_t i = 0; i < GAL_FOUND_COUNT; i++) {
        f[i].name = found_names[i];
    }
    look_beside("galrun", &f[GAL_FOUND_GALRUN]);
    look_beside("galplan-profile", &f[GAL_FOUND_PROFILER]);
    look_on_path("mpirun", &f[GAL_FOUND_MPIRUN]);
    look_on_path("srun", &f[GAL_FOUND_SRUN]);
    look_for_mpi(&f[GAL_FOUND_MPI]);
    look_for_blas(&f[GAL_FOUND_BLAS]);
    look_for_hwloc(&f[GAL_FOUND_HWLOC]);
    out->core_count = look_at_processor(&f[GAL_FOUND_PROCESSOR]);
    look_at_memory(&f[GAL_FOUND_MEMORY]);
    look_at_memory_limit(&f[GAL_FOUND_MEMORY_LIMIT]);
    look_for_driver(&f[GAL_FOUND_CUDA_DRIVER], &f[GAL_FOUND_GPU]);
    look_for_cuda(&f[GAL_FOUND_CUDA]);
    look_for_cudnn(&f[GAL_FOUND_CUDNN]);
    look_for_nccl(&f[GAL_FOUND_NCCL]);
    look_in_class("/sys/class/infiniband", &f[GAL_FOUND_INFINIBAND]);
    look_in_class("/sys/class/net", &f[GAL_FOUND_NETWORK]);
}
