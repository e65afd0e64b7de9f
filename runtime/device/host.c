/* Host memory: anonymous pages between two guard pages. The arena ends exactly where the upper guard begins, so an
 * overrun by one byte faults; the few bytes between the lower guard and the arena belong to nobody. */
#include "runtime/device/device.h"

#include "runtime/device/storage.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HOST_ALIGNMENT_BYTES = 256 };

static gal_code host_allocate(uint64_t bytes, bool poison, gal_memory *out, gal_error *err)
{
    GAL_ASSERT(bytes > 0 && bytes % HOST_ALIGNMENT_BYTES == 0);
    const uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    if (bytes > SIZE_MAX / 2) {
        return gal_fail(err, GAL_ERR_SYSTEM, "arena of %llu bytes: more than the address space",
                        (unsigned long long)bytes);
    }
    const uint64_t body_bytes = (bytes + page_bytes - 1) / page_bytes * page_bytes;
    const uint64_t mapping_bytes = body_bytes + 2 * page_bytes;
    char *mapping = mmap(NULL, mapping_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) {
        return gal_fail(err, GAL_ERR_SYSTEM, "arena of %llu bytes: %s", (unsigned long long)bytes, strerror(errno));
    }
    if (mprotect(mapping + page_bytes, body_bytes, PROT_READ | PROT_WRITE) != 0) {
        const int cause = errno;
        munmap(mapping, mapping_bytes);
        return gal_fail(err, GAL_ERR_SYSTEM, "arena of %llu bytes: %s", (unsigned long long)bytes, strerror(cause));
    }
    *out = (gal_memory){.host = NULL};
    out->mapping = mapping;
    out->mapping_bytes = mapping_bytes;
    out->base = mapping + page_bytes + (body_bytes - bytes);
    out->bytes = bytes;
    if (poison) {
        memset(mapping + page_bytes, 0xFF, body_bytes);
    }
    return GAL_OK;
}

static void host_release(gal_memory *memory)
{
    if (memory->mapping != NULL) {
        munmap(memory->mapping, memory->mapping_bytes);
    }
    memset(memory, 0, sizeof *memory);
}

static char *inside(const gal_memory *memory, uint64_t offset, uint64_t byte_count)
{
    if (memory->host != NULL && offset >= memory->bytes) {
        offset -= memory->bytes;
        memory = memory->host;
    }
    GAL_ASSERT(offset <= memory->bytes && byte_count <= memory->bytes - offset);
    return (char *)memory->base + offset;
}

static void host_write(const gal_memory *memory, uint64_t offset, const void *source, uint64_t byte_count)
{
    uint64_t in_file;
    if (gal_memory_stores(memory, offset, &in_file)) {
        gal_storage_put(memory->storage, in_file, source, byte_count);
    } else {
        memcpy(inside(memory, offset, byte_count), source, byte_count);
    }
}

static void host_read(const gal_memory *memory, uint64_t offset, void *target, uint64_t byte_count)
{
    uint64_t in_file;
    if (gal_memory_stores(memory, offset, &in_file)) {
        gal_storage_get(memory->storage, in_file, target, byte_count);
    } else {
        memcpy(target, inside(memory, offset, byte_count), byte_count);
    }
}

static void host_zero(const gal_memory *memory, uint64_t offset, uint64_t byte_count)
{
    uint64_t in_file;
    if (gal_memory_stores(memory, offset, &in_file)) {
        gal_storage_zero(memory->storage, in_file, byte_count);
    } else {
        memset(inside(memory, offset, byte_count), 0, byte_count);
    }
}

const gal_device_ops gal_device_host = {
    .name = "host",
    .allocate = host_allocate,
    .release = host_release,
    .write = host_write,
    .read = host_read,
    .zero = host_zero,
};
