/* Where operands and classes lie: inside what holds them, no class over another, each memory's within its bytes. */
#include "runtime/program/verify/verify_internal.h"

static gal_code check_operand(const gal_program *p, uint32_t fragment, uint32_t position, const gal_operand *operand,
                              gal_error *err)
{
    if (operand->buffer >= p->buffer_count || operand->access > GAL_ACCUMULATE) {
        return gal_refuse(err, p, fragment, position, "an operand of no buffer or access");
    }
    const gal_buffer *buffer = &p->buffer[operand->buffer];
    if (operand->bytes == 0 || operand->offset_bytes + gal_operand_span(p, operand) > buffer->bytes) {
        return gal_refuse(err, p, fragment, position, "reaches outside of buffer %s.%u", buffer->name, operand->buffer);
    }
    if (operand->access == GAL_ACCUMULATE && buffer->class != GAL_CLASS_GRADIENT && buffer->class != GAL_CLASS_STATE) {
        return gal_refuse(err, p, fragment, position, "accumulates in buffer %s.%u of class %s", buffer->name,
                          operand->buffer, gal_class_names[buffer->class]);
    }
    return GAL_OK;
}

/* Those of one medium: one behind the other in [begin, limit). */
static gal_code check_medium(const gal_program *p, gal_medium medium, uint64_t begin, uint64_t limit, gal_error *err)
{
    static const char *const places[GAL_MEDIUM_COUNT] = {"", " of the host", " on storage"};
    uint64_t end = begin;
    for (uint32_t a = 0; a < gal_program_arenas(p); a++) {
        const gal_class_arena *arena = &p->arena[a];
        if (arena->item_bytes == 0 || gal_class_medium(gal_arena_class(a)) != medium) {
            continue;
        }
        if (arena->offset < end) {
            return gal_fail(err, GAL_NO, "stage %u: class %s overlaps the class before", p->stage,
                            gal_class_names[gal_arena_class(a)]);
        }
        end = arena->offset + arena->count * arena->item_bytes;
    }
    return end <= limit ? GAL_OK
                        : gal_fail(err, GAL_NO, "stage %u: the classes%s end at byte %llu of an arena of %llu",
                                   p->stage, places[medium], (unsigned long long)end, (unsigned long long)limit);
}

static gal_code check_arenas(const gal_program *p, gal_error *err)
{
    const uint64_t bytes[GAL_MEDIUM_COUNT] = {p->arena_bytes, p->host_bytes, p->storage_bytes};
    uint64_t begin = 0;
    for (uint32_t m = 0; m < GAL_MEDIUM_COUNT; m++) {
        const gal_code code = check_medium(p, (gal_medium)m, begin, begin + bytes[m], err);
        if (code != GAL_OK) {
            return code;
        }
        begin += bytes[m];
    }
    for (uint32_t b = 0; b < p->buffer_count; b++) {
        if (p->buffer[b].offset + p->buffer[b].bytes > p->arena[p->buffer[b].arena].item_bytes) {
            return gal_fail(err, GAL_NO, "stage %u: buffer %s.%u reaches outside of class %s", p->stage,
                            p->buffer[b].name, b, gal_class_names[p->buffer[b].class]);
        }
    }
    return GAL_OK;
}

gal_code gal_verify_bounds(const gal_program *p, gal_error *err)
{
    gal_code code = check_arenas(p, err);
    for (uint32_t f = 0; code == GAL_OK && f < gal_program_fragments(p); f++) {
        for (uint32_t i = 0; code == GAL_OK && i < p->fragment[f].count; i++) {
            const gal_instruction *in = &p->instruction[p->fragment[f].first + i];
            for (uint32_t k = 0; code == GAL_OK && k < in->operand_count; k++) {
                code = check_operand(p, f, i, &p->operand[in->first_operand + k], err);
            }
        }
    }
    return code;
}
