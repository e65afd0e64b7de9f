#include "runtime/ops/ring_step.h"

/* The parts of a chunk: itself, or zig-zag its own first half and the second one of its mirror. */
static uint32_t parts_of(const gal_kernel_call *call, uint32_t chunk, gal_ring_part part[GAL_RING_PARTS_MAX])
{
    const uint32_t rows = call->dims[1], chunks = call->dims[7], half = rows / 2;
    if ((call->dims[5] & GAL_ATTENTION_ZIGZAG) == 0) {
        part[0] = (gal_ring_part){0, rows, chunk * rows};
        return 1;
    }
    part[0] = (gal_ring_part){0, half, chunk * rows};
    part[1] = (gal_ring_part){half, half, (chunks - 1 - chunk) * rows + half};
    return 2;
}

static void add_pairs(const gal_ring_part *queries, const gal_ring_part *keys, uint32_t parts, bool causal,
                      bool diagonal, gal_ring_step *out)
{
    for (uint32_t q = 0; q < parts; q++) {
        for (uint32_t k = 0; k < parts; k++) {
            const bool same = causal && queries[q].position == keys[k].position;
            const bool sees = !causal || keys[k].position <= queries[q].position;
            if (sees && same == diagonal) {
                out->pair[out->pair_count++] =
                    (gal_ring_pair){.queries = queries[q], .keys = keys[k], .diagonal = diagonal};
            }
        }
    }
}

static bool overlap(gal_ring_part a, gal_ring_part b)
{
    return a.first < b.first + b.count && b.first < a.first + a.count;
}

static void set_firsts(gal_ring_step *step)
{
    for (uint32_t p = 0; p < step->pair_count; p++) {
        gal_ring_pair *pair = &step->pair[p];
        pair->first_of_queries = pair->first_of_keys = true;
        for (uint32_t i = 0; i < p; i++) {
            pair->first_of_queries = pair->first_of_queries && !overlap(step->pair[i].queries, pair->queries);
            pair->first_of_keys = pair->first_of_keys && !overlap(step->pair[i].keys, pair->keys);
        }
    }
}

static void set_unseen(const gal_ring_part *keys, uint32_t parts, gal_ring_step *step)
{
    for (uint32_t k = 0; k < parts; k++) {
        bool seen = false;
        for (uint32_t p = 0; p < step->pair_count; p++) {
            seen = seen || overlap(step->pair[p].keys, keys[k]);
        }
        if (!seen) {
            step->unseen[step->unseen_count++] = keys[k];
        }
    }
}

gal_ring_step gal_ring_step_of(const gal_kernel_call *call)
{
    const uint32_t chunks = call->dims[7], chunk = call->position_begin / call->dims[1];
    const bool causal = (call->dims[5] & GAL_ATTENTION_CAUSAL) != 0;
    gal_ring_part queries[GAL_RING_PARTS_MAX], keys[GAL_RING_PARTS_MAX];
    gal_ring_step step = {.pair_count = 0};
    const uint32_t parts = parts_of(call, chunk, queries);
    (void)parts_of(call, (chunk + chunks - call->dims[6]) % chunks, keys);
    add_pairs(queries, keys, parts, causal, true, &step);
    add_pairs(queries, keys, parts, causal, false, &step);
    set_firsts(&step);
    set_unseen(keys, parts, &step);
    return step;
}

static bool same(gal_ring_part a, gal_ring_part b)
{
    return a.first == b.first && a.count == b.count;
}

/* b lies behind a, and everything else is the same of both. */
static bool join(gal_ring_pair *a, const gal_ring_pair *b)
{
    if (a->diagonal || b->diagonal) {
        return false;
    }
    if (same(a->queries, b->queries) && a->keys.first + a->keys.count == b->keys.first) {
        a->keys.count += b->keys.count;
        return true;
    }
    if (same(a->keys, b->keys) && a->queries.first + a->queries.count == b->queries.first) {
        a->queries.count += b->queries.count;
        return true;
    }
    return false;
}

gal_ring_step gal_ring_step_joined(const gal_ring_step *step)
{
    gal_ring_step out = *step;
    for (uint32_t a = 0; a < out.pair_count; a++) {
        for (uint32_t b = a + 1; b < out.pair_count; b++) {
            if (join(&out.pair[a], &out.pair[b])) {
                out.pair_count--;
                for (uint32_t i = b; i < out.pair_count; i++) {
                    out.pair[i] = out.pair[i + 1];
                }
                a = b = 0; /* what has grown may have new neighbours */
            }
        }
    }
    set_firsts(&out);
    return out;
}
