#include "costmodel/memory_kinds.h"

#define X(enumerator, name) name,
const char *const gal_memory_kind_names[GAL_MEMORY_KIND_COUNT] = {GAL_MEMORY_KINDS(X)};
#undef X

/* The kind of all buffers of a class. Buffers of the state differ: workspace until move() says more. */
static gal_memory_kind kind_of(gal_class class)
{
    switch (class) {
    case GAL_CLASS_GRADIENT:
        return GAL_MEMORY_GRADIENTS;
    case GAL_CLASS_SAVED:
    case GAL_CLASS_KEPT:
    case GAL_CLASS_X_IN:
    case GAL_CLASS_CARRIED:
    case GAL_CLASS_Y_OUT:
    case GAL_CLASS_DY_IN:
    case GAL_CLASS_DX_OUT:
    case GAL_CLASS_BOUNDARY:
    case GAL_CLASS_DCARRIED:
        return GAL_MEMORY_ACTIVATIONS;
    default:
        return GAL_MEMORY_WORKSPACE;
    }
}

/* Moves a buffer of the state from the workspace, where the whole class was counted, to its kind. */
static void move(const gal_program *program, uint32_t buffer, gal_memory_kind kind, gal_memory_kinds *out)
{
    if (buffer != GAL_NO_BUFFER && program->buffer[buffer].class == GAL_CLASS_STATE) {
        const uint64_t bytes = gal_align(program->buffer[buffer].bytes);
        out->bytes[kind] += bytes;
        out->bytes[GAL_MEMORY_WORKSPACE] -= bytes;
    }
}

void gal_memory_kinds_of(const gal_program *program, uint64_t fixed_bytes, gal_memory_kinds *out)
{
    *out = (gal_memory_kinds){.bytes = {[GAL_MEMORY_FIXED] = fixed_bytes}};
    for (uint32_t a = 0; a < gal_program_arenas(program); a++) {
        const gal_class class = gal_arena_class(a);
        if (gal_class_medium(class) == GAL_MEDIUM_DEVICE) {
            out->bytes[kind_of(class)] += program->arena[a].count * program->arena[a].item_bytes;
        }
    }
    for (uint32_t u = 0; u < program->unit_count; u++) {
        const gal_unit *unit = &program->unit[u];
        move(program, unit->weight, GAL_MEMORY_WEIGHTS, out);
        move(program, unit->first_moment, GAL_MEMORY_OPTIMIZER, out);
        move(program, unit->second_moment, GAL_MEMORY_OPTIMIZER, out);
        move(program, unit->master, GAL_MEMORY_OPTIMIZER, out);
    }
    GAL_ASSERT(gal_memory_kinds_sum(out) == program->arena_bytes + fixed_bytes);
}

uint32_t gal_memory_kinds_fullest(gal_program *const *programs, uint32_t stage_count, uint64_t fixed_bytes,
                                  gal_memory_kinds *out)
{
    uint32_t fullest = 0;
    for (uint32_t s = 1; s < stage_count; s++) {
        fullest = programs[s]->arena_bytes > programs[fullest]->arena_bytes ? s : fullest;
    }
    gal_memory_kinds_of(programs[fullest], fixed_bytes, out);
    return fullest;
}

uint64_t gal_memory_kinds_sum(const gal_memory_kinds *kinds)
{
    uint64_t sum = 0;
    for (uint32_t k = 0; k < GAL_MEMORY_KIND_COUNT; k++) {
        sum += kinds->bytes[k];
    }
    return sum;
}
