#include "schemas/base/large_pages.h"

#include <stdint.h>
#include <stdlib.h>

#ifdef __GLIBC__ /* known once its headers are read */
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

/* LARGE_PAGE_BYTES: of x86-64 and, with pages of 4 KiB, of arm64. FIRST_BYTES: that a heap writes as it begins, in
 * front of the first large page, which is one as long as nothing of it is. RESERVED_BYTES: all that mallopt can say. */
enum {
    RESERVED_BYTES = 2047 << 20,
    LATER_BYTES = 16 << 20,
    LARGE_PAGE_BYTES = 2 << 20,
    FIRST_BYTES = 4 << 10,
    NEVER = -1
};

void gal_large_pages_reserve(void)
{
    const uintptr_t now = (uintptr_t)sbrk(0);
    const uintptr_t begin = (now + FIRST_BYTES + LARGE_PAGE_BYTES - 1) / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES;
    (void)sbrk((intptr_t)(begin - FIRST_BYTES - now)); /* what is before is never touched */
    (void)mallopt(M_TOP_PAD, RESERVED_BYTES);
    void *volatile first = malloc(1); /* with it a heap begins; behind its first bytes nothing is written yet */
    free(first);
    const uintptr_t end = (uintptr_t)sbrk(0);
    (void)mallopt(M_TOP_PAD, LATER_BYTES);
    if (begin < end && madvise((void *)begin, end - begin, MADV_HUGEPAGE) == 0) {
        (void)mallopt(M_TRIM_THRESHOLD, NEVER); /* what was given back would be asked for again, and cleared */
        (void)mallopt(M_MMAP_MAX, 0);           /* large blocks too */
    }
}

#else

void gal_large_pages_reserve(void)
{
}

#endif
