/* What a process takes of the machine's memory, beside what it asked for. */
#ifndef GAL_RUNTIME_ENGINE_RESIDENT_H
#define GAL_RUNTIME_ENGINE_RESIDENT_H

#include <stdint.h>

/* The most bytes that this process ever had resident; 0: not known. */
uint64_t gal_peak_resident_bytes(void);

#endif
