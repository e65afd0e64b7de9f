#include "schemas/base/large_pages.h"

#include <stdint.h>
#include <stdlib.h>

#ifdef __GLIBC__ /* known once its headers are read */
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

/* LARGE_PAGE_BYTES: of x86-64 and, with pages of 4 KiB, of arm64. */
enum { RESERVED_BYTES = 128 << 20, LARGE_PAGE_BYTES = 2 << 20, MAPPED_BYTES = 32 << 20 };

void gal_large_pages_reserve(void)
{
    const uintptr_t begin = ((uintptr_t)sbrk(0) + LARGE_PAGE_BYTES - 1) / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES;
    (void)mallopt(M_TOP_PAD, RESERVED_BYTES);
    (void)mallopt(M_TRIM_THRESHOLD, 2 * RESERVED_BYTES); /* what was given back would be asked for again */
    (void)mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);       /* setting the others has stopped it from growing by itself */
    void *volatile grows = malloc(LARGE_PAGE_BYTES);     /* more than a heap begins with */
    free(grows);
    const uintptr_t end = (uintptr_t)sbrk(0);
    if (begin < end) {
        (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
    }
}

#else

void gal_large_pages_reserve(void)
{
}

#endif
