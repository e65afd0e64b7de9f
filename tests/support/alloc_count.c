/* An allocation interposer: counts the calls that the program's own code makes to the allocator and to mmap. Preload
 * it into the program (into the ranks, not into mpirun):
 *
 *     mpirun -x LD_PRELOAD=build/tests/liballoc_count.so -x GALPLAN_ALLOC_FILE=/tmp/alloc ...
 *
 * and each process writes /tmp/alloc.PID when it exits by exit() or return, a line per row:
 *
 *     phase function calls bytes
 *
 * The program's own code is the main executable: a call counts if its return address lies in one of the executable's
 * loaded segments, so what libraries (libc, MPI, BLAS) allocate for themselves does not, even on our behalf. Functions
 * of libc whose result is a fresh allocation (strdup, reallocarray ...) are wrapped too and count as the caller's.
 * phase is the last name given to alloc_count_phase, "none" before the first; the program finds that function by
 * dlsym(RTLD_DEFAULT, "alloc_count_phase"). A phase that was named gets a line "PHASE total n bytes" even for n = 0.
 *
 * The allocator underneath is glibc's, by its __libc_ names: no dlsym, hence no recursion at start-up, and nothing is
 * counted before the loader has told us where the executable lies. Without GALPLAN_ALLOC_FILE nothing is counted. */
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void *block);

#define FUNCTIONS(X)                                                                                                   \
    X(MALLOC, "malloc")                                                                                                \
    X(CALLOC, "calloc")                                                                                                \
    X(REALLOC, "realloc")                                                                                              \
    X(REALLOCARRAY, "reallocarray")                                                                                    \
    X(POSIX_MEMALIGN, "posix_memalign")                                                                                \
    X(ALIGNED_ALLOC, "aligned_alloc")                                                                                  \
    X(MEMALIGN, "memalign")                                                                                            \
    X(STRDUP, "strdup")                                                                                                \
    X(STRNDUP, "strndup")                                                                                              \
    X(FREE, "free")                                                                                                    \
    X(MMAP, "mmap")

enum {
#define X(enumerator, name) enumerator,
    FUNCTIONS(X)
#undef X
        FUNCTION_COUNT
};
enum { PHASE_COUNT_MAX = 64, NAME_BYTES = 48, SEGMENT_COUNT_MAX = 16 };

static const char *const function_names[FUNCTION_COUNT] = {
#define X(enumerator, name) name,
    FUNCTIONS(X)
#undef X
};

typedef struct segment {
    uintptr_t first, end;
} segment;

static segment segments[SEGMENT_COUNT_MAX];
static int segment_count; /* 0 until the constructor has run: nothing counts */
static _Atomic uint64_t calls[PHASE_COUNT_MAX][FUNCTION_COUNT];
static _Atomic uint64_t bytes_asked[PHASE_COUNT_MAX][FUNCTION_COUNT];
static char phases[PHASE_COUNT_MAX][NAME_BYTES] = {"none"};
static int phase_count = 1;
static _Atomic int phase;

void alloc_count_phase(const char *name)
{
    int i = 0;
    while (i < phase_count && strncmp(phases[i], name, NAME_BYTES - 1) != 0) {
        i++;
    }
    if (i == PHASE_COUNT_MAX) {
        static const char message[] = "alloc_count: too many phases\n";
        (void)!write(STDERR_FILENO, message, sizeof message - 1);
        abort();
    }
    if (i == phase_count) {
        strncpy(phases[i], name, NAME_BYTES - 1);
        phase_count++;
    }
    phase = i;
}

static void count_call(const void *caller, int function, size_t byte_count)
{
    const uintptr_t address = (uintptr_t)caller;
    for (int i = 0; i < segment_count; i++) {
        if (address >= segments[i].first && address < segments[i].end) {
            atomic_fetch_add_explicit(&calls[phase][function], 1, memory_order_relaxed);
            atomic_fetch_add_explicit(&bytes_asked[phase][function], byte_count, memory_order_relaxed);
            return;
        }
    }
}

/* The first object that the loader reports is the executable. */
static int note_executable(struct dl_phdr_info *info, size_t info_bytes, void *data)
{
    (void)info_bytes;
    int *count = data;
    for (int i = 0; i < info->dlpi_phnum && *count < SEGMENT_COUNT_MAX; i++) {
        if (info->dlpi_phdr[i].p_type == PT_LOAD) {
            const uintptr_t first = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            segments[(*count)++] = (segment){first, first + info->dlpi_phdr[i].p_memsz};
        }
    }
    return 1;
}

__attribute__((constructor)) static void begin(void)
{
    const char *stem = getenv("GALPLAN_ALLOC_FILE");
    if (stem != NULL && stem[0] != '\0') {
        int count = 0;
        dl_iterate_phdr(note_executable, &count);
        segment_count = count;
    }
}

static void write_line(int file, int row, const char *name, uint64_t call_count, uint64_t byte_count)
{
    char line[160];
    const int length = snprintf(line, sizeof line, "%s %s %llu %llu\n", phases[row], name,
                                (unsigned long long)call_count, (unsigned long long)byte_count);
    if (write(file, line, (size_t)length) != length) {
        perror("alloc_count");
    }
}

__attribute__((destructor)) static void end(void)
{
    if (segment_count == 0) {
        return;
    }
    segment_count = 0;
    char path[4096];
    (void)snprintf(path, sizeof path, "%s.%ld", getenv("GALPLAN_ALLOC_FILE"), (long)getpid());
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file < 0) {
        perror(path);
        return;
    }
    for (int row = 0; row < phase_count; row++) {
        uint64_t call_total = 0;
        uint64_t byte_total = 0;
        for (int function = 0; function < FUNCTION_COUNT; function++) {
            if (calls[row][function] > 0) {
                write_line(file, row, function_names[function], calls[row][function], bytes_asked[row][function]);
                call_total += calls[row][function];
                byte_total += bytes_asked[row][function];
            }
        }
        write_line(file, row, "total", call_total, byte_total);
    }
    close(file);
}

#define CALLER __builtin_return_address(0)

void *malloc(size_t bytes)
{
    count_call(CALLER, MALLOC, bytes);
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    count_call(CALLER, CALLOC, count * bytes);
    return __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes)
{
    count_call(CALLER, REALLOC, bytes);
    return __libc_realloc(old, bytes);
}

void *reallocarray(void *old, size_t count, size_t bytes)
{
    size_t product = 0;
    if (__builtin_mul_overflow(count, bytes, &product)) {
        errno = ENOMEM;
        return NULL;
    }
    count_call(CALLER, REALLOCARRAY, product);
    return __libc_realloc(old, product);
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    count_call(CALLER, POSIX_MEMALIGN, bytes);
    if (alignment % sizeof(void *) != 0 || alignment == 0 || (alignment & (alignment - 1)) != 0) {
        return EINVAL;
    }
    void *block = __libc_memalign(alignment, bytes);
    if (block == NULL) {
        return ENOMEM;
    }
    *out = block;
    return 0;
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    count_call(CALLER, ALIGNED_ALLOC, bytes);
    return __libc_memalign(alignment, bytes);
}

void *memalign(size_t alignment, size_t bytes)
{
    count_call(CALLER, MEMALIGN, bytes);
    return __libc_memalign(alignment, bytes);
}

char *strndup(const char *text, size_t byte_count)
{
    const size_t length = strnlen(text, byte_count);
    count_call(CALLER, STRNDUP, length + 1);
    char *copy = __libc_malloc(length + 1);
    if (copy != NULL) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}

char *strdup(const char *text)
{
    const size_t length = strlen(text);
    count_call(CALLER, STRDUP, length + 1);
    char *copy = __libc_malloc(length + 1);
    return copy != NULL ? memcpy(copy, text, length + 1) : NULL;
}

void free(void *block)
{
    if (block != NULL) {
        count_call(CALLER, FREE, 0);
    }
    __libc_free(block);
}

void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset)
{
    count_call(CALLER, MMAP, bytes);
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
}

void *mmap64(void *address, size_t bytes, int protection, int flags, int file, off_t offset)
{
    count_call(CALLER, MMAP, bytes);
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
}
