#include "planner/cli/memory_line.h"

#include <stdarg.h>
#include <stdio.h>

#include "planner/answers/figure_text.h"

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
    const gal_memory_unit *own = gal_memory_unit_of(used);
    char whole[GAL_FIGURE_TEXT_BYTES];
    const char *before = ": ";
    text t = {line, 0};
    add(&t, "%s", gal_memory_of_text(used, memory_bytes, whole));
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
