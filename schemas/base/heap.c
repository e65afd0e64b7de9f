#include "schemas/base/heap.h"

#include <stdlib.h>

struct gal_heap_piece {
    gal_heap_piece *before;
    max_align_t memory[];
};

static void *keep(gal_heap *heap, gal_heap_piece *own)
{
    if (own == NULL) {
        heap->code = heap->code == GAL_OK ? gal_fail(heap->err, GAL_ERR_SYSTEM, "out of memory") : heap->code;
        return NULL;
    }
    own->before = heap->last;
    heap->last = own;
    return own->memory;
}

void *gal_heap_take(gal_heap *heap, size_t count, size_t bytes)
{
    return keep(heap, heap->code == GAL_OK ? calloc(1, sizeof(gal_heap_piece) + count * bytes) : NULL);
}

void *gal_heap_take_room(gal_heap *heap, size_t count, size_t bytes)
{
    return keep(heap, heap->code == GAL_OK ? malloc(sizeof(gal_heap_piece) + count * bytes) : NULL);
}

void gal_heap_free(gal_heap *heap)
{
    while (heap->last != NULL) {
        gal_heap_piece *before = heap->last->before;
        free(heap->last);
        heap->last = before;
    }
}
