/* Memory that is taken piece by piece and freed all at once. */
#ifndef GAL_SCHEMAS_BASE_HEAP_H
#define GAL_SCHEMAS_BASE_HEAP_H

#include <stddef.h>

#include "schemas/base/status.h"

typedef struct gal_heap_piece gal_heap_piece;

/* Zeroed but for err it is empty. code: GAL_ERR_SYSTEM, with a reason in err, once memory ran out; after that nothing
 * is taken any more. */
typedef struct gal_heap {
    gal_heap_piece *last;
    gal_error *err;
    gal_code code;
} gal_heap;

/* count elements of `bytes` each, zeroed, aligned for any type; never NULL but where memory ran out. Their product is
 * not above SIZE_MAX / 2. */
void *gal_heap_take(gal_heap *heap, size_t count, size_t bytes);
/* The same, not zeroed. */
void *gal_heap_take_room(gal_heap *heap, size_t count, size_t bytes);
void gal_heap_free(gal_heap *heap); /* leaves it empty */

#endif
