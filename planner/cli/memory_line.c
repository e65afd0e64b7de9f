#include "planner/cli/memory_line.h"

#include <stdarg.h>
#include <stdio.h>

typedef struct unit {
    const char *name;
    double bytes;
} unit;

static const unit *unit_of(uint64_t bytes)
{
    static const unit units[] = {{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}};
    return bytes >= 1000000000 ? &units[0] : bytes >= 1000000 ? &units[1] : &units[2];
}

void gal_memory_words(uint64_t bytes, char words[GAL_MEMORY_WORDS_BYTES])
{
    const unit *own = unit_of(bytes);
    (void)snprintf(words, GAL_MEMORY_WORDS_BYTES, "%.1f %s", (double)bytes / own->bytes, own->name);
}

typedef struct text {
    char *line;
    size_t length;
} text;

__attribute__((format(printf, 2, 3))) static void add(text *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int bytes = vsnprintf(t->line + t->length, GAL_MEMORY_LINE_BYTES - t->length, format, arguments);
    va_end(arguments);
    GAL_ASSERT(bytes >= 0 && t->length + (size_t)bytes < GAL_MEMORY_LINE_BYTES);
    t->length += (size_t)bytes;
}

void gal_memory_line(const gal_memory_kinds *kinds, uint64_t memory_bytes, char line[GAL_MEMORY_LINE_BYTES])
{
    const uint64_t used = gal_memory_kinds_sum(kinds);
    const unit *own = unit_of(used), *whole = unit_of(memory_bytes);
    const char *before = ": ";
    text t = {line, 0};
    add(&t, "%.1f", (double)used / own->bytes);
    if (own != whole) {
        add(&t, " %s", own->name);
    }
    add(&t, " of %.1f %s", (double)memory_bytes / whole->bytes, whole->name);
    for (uint32_t k = 0; k < GAL_MEMORY_KIND_COUNT; k++) {
        if (kinds->bytes[k] > 0) {
            add(&t, "%s%s %.1f", before, gal_memory_kind_names[k], (double)kinds->bytes[k] / own->bytes);
            before = ", ";
        }
    }
}

void gal_memory_put(gal_json_writer *out, const gal_memory_kinds *kinds, uint32_t stage, uint64_t memory_bytes)
{
    gal_json_begin_object(out, "memory");
    gal_json_put_u64(out, "stage", stage);
    gal_json_put_u64(out, "memory_bytes", memory_bytes);
    gal_json_put_u64(out, "peak_bytes", gal_memory_kinds_sum(kinds));
    for (uint32_t k = 0; k < GAL_MEMORY_KIND_COUNT; k++) {
        char key[64];
        (void)snprintf(key, sizeof key, "%s_bytes", gal_memory_kind_names[k]);
        gal_json_put_u64(out, key, kinds->bytes[k]);
    }
    gal_json_end_object(out);
}
