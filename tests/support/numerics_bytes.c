#include "tests/support/numerics_bytes.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/device/storage.h"

enum { POISON = 0xFF };

/* The end of the last buffer of targets: a target that is none is -1, and looks like poison. */
static uint64_t targets_end(const gal_program *program, uint32_t arena)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        const gal_instruction *in = &program->instruction[i];
        const gal_buffer *buffer = &program->buffer[program->operand[in->first_operand].buffer];
        if (in->op == GAL_OP_LOAD_TARGETS && buffer->arena == arena && buffer->offset + buffer->bytes > end) {
            end = buffer->offset + buffer->bytes;
        }
    }
    return end;
}

/* The bytes of the item from 0 to the end of its last written one, in whole alignments; up to `known` it is written. A
 * value on its way to the file is followed there by what its last block had behind it, and so it comes back: poison.
 */
static uint64_t written_bytes(gal_class class, const unsigned char *item, uint64_t item_bytes, uint64_t known)
{
    uint64_t end = item_bytes;
    while (end > known && item[end - 1] == POISON) {
        end--;
    }
    return class == GAL_CLASS_STORED_SAVED ? gal_align_in(class, end) : gal_align(end);
}

/* The first written byte that belongs to no buffer of the arena, item_bytes if there is none. */
static uint64_t stray_byte(const gal_program *program, uint32_t arena, const unsigned char *item)
{
    const uint64_t item_bytes = program->arena[arena].item_bytes;
    bool *owned = calloc(item_bytes + 1, sizeof *owned);
    uint64_t stray = 0;
    GAL_ASSERT(owned != NULL);
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        const gal_buffer *buffer = &program->buffer[b];
        if (buffer->arena == arena) {
            GAL_ASSERT(buffer->offset + buffer->bytes <= item_bytes);
            memset(owned + buffer->offset, true, buffer->bytes);
        }
    }
    while (stray < item_bytes && (owned[stray] || item[stray] == POISON)) {
        stray++;
    }
    free(owned);
    return stray;
}

/* The file is as large as planned, and a step writes to its end. */
static bool storage_as_planned(const gal_program *program, const gal_memory *memory, char *text, size_t capacity)
{
    const gal_storage_facts facts =
        memory->storage != NULL ? gal_storage_facts_of(memory->storage) : (gal_storage_facts){0};
    const bool fits = facts.bytes == program->storage_bytes && facts.written_bytes == program->storage_bytes;
    if (!fits) {
        (void)snprintf(text, capacity, "the file has %llu bytes, written up to byte %llu, planned are %llu",
                       (unsigned long long)facts.bytes, (unsigned long long)facts.written_bytes,
                       (unsigned long long)program->storage_bytes);
    }
    return fits;
}

bool gal_arena_as_planned(const gal_program *program, const gal_memory *memory, char *text, size_t capacity)
{
    if (memory->bytes != program->arena_bytes) {
        (void)snprintf(text, capacity, "the arena has %llu bytes, planned are %llu", (unsigned long long)memory->bytes,
                       (unsigned long long)program->arena_bytes);
        return false;
    }
    const uint64_t host_bytes = memory->host != NULL ? memory->host->bytes : 0;
    if (host_bytes != program->host_bytes) {
        (void)snprintf(text, capacity, "the host's memory has %llu bytes, planned are %llu",
                       (unsigned long long)host_bytes, (unsigned long long)program->host_bytes);
        return false;
    }
    if (!storage_as_planned(program, memory, text, capacity)) {
        return false;
    }
    for (uint32_t c = 0; c < gal_program_arenas(program); c++) {
        const gal_class_arena *arena = &program->arena[c];
        const gal_medium medium = gal_class_medium(gal_arena_class(c));
        for (uint32_t i = 0; i < arena->count && arena->item_bytes > 0 && medium != GAL_MEDIUM_STORAGE; i++) {
            const unsigned char *base = medium == GAL_MEDIUM_HOST ? (const unsigned char *)memory->host->base +
                                                                        (arena->offset - program->arena_bytes)
                                                                  : (const unsigned char *)memory->base + arena->offset;
            const unsigned char *item = base + i * arena->item_bytes;
            const uint64_t written =
                written_bytes(gal_arena_class(c), item, arena->item_bytes, targets_end(program, c));
            const uint64_t stray = stray_byte(program, c, item);
            if (written != arena->item_bytes) {
                (void)snprintf(text, capacity, "class %s item %u: written up to byte %llu of %llu planned",
                               gal_class_names[gal_arena_class(c)], i, (unsigned long long)written,
                               (unsigned long long)arena->item_bytes);
                return false;
            }
            if (stray != arena->item_bytes) {
                (void)snprintf(text, capacity, "class %s item %u: byte %llu was written and belongs to no buffer",
                               gal_class_names[gal_arena_class(c)], i, (unsigned long long)stray);
                return false;
            }
        }
    }
    return true;
}

uint64_t gal_resident_anonymous_bytes(void)
{
    static const char key[] = "RssAnon:";
    char text[4096] = "";
    (void)malloc_trim(0);
    const int file = open("/proc/self/status", O_RDONLY);
    GAL_ASSERT(file >= 0);
    const ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    GAL_ASSERT(length > 0);
    const char *at = strstr(text, key);
    GAL_ASSERT(at != NULL);
    return strtoull(at + sizeof key - 1, NULL, 10) * 1024;
}
