#include "planner/solve/stage_labels.h"

#include <stdlib.h>
#include <string.h>

static bool reserve(void **memory, size_t *capacity, size_t needed, size_t item_bytes)
{
    if (needed <= *capacity) {
        return true;
    }
    size_t wanted = *capacity < 512 ? 1024 : *capacity * 2;
    wanted = wanted < needed ? needed : wanted;
    void *larger = realloc(*memory, wanted * item_bytes);
    if (larger == NULL) {
        return false;
    }
    *memory = larger;
    *capacity = wanted;
    return true;
}

bool gal_heads_push(gal_heads *heads, gal_head head)
{
    void *memory = heads->head;
    if (!reserve(&memory, &heads->capacity, heads->count + 1, sizeof head)) {
        return false;
    }
    heads->head = memory;
    heads->head[heads->count++] = head;
    return true;
}

static bool before(const gal_head *a, const gal_head *b)
{
    if (a->kept_bytes != b->kept_bytes) {
        return a->kept_bytes < b->kept_bytes;
    }
    return a->seconds_ps != b->seconds_ps ? a->seconds_ps < b->seconds_ps : a->peak_bytes < b->peak_bytes;
}

void gal_head_rows_clear(gal_head_rows *rows)
{
    rows->heads.count = 0;
    rows->row_count = 0;
}

bool gal_head_rows_begin(gal_head_rows *rows)
{
    void *memory = rows->row;
    if (rows->row_count > 0 && rows->row[rows->row_count - 1] == rows->heads.count) {
        return true; /* the one before stayed empty */
    }
    if (!reserve(&memory, &rows->row_capacity, rows->row_count + 2, sizeof *rows->row)) {
        return false;
    }
    rows->row = memory;
    rows->row[rows->row_count++] = rows->heads.count;
    return true;
}

bool gal_head_rows_add(gal_head_rows *rows, gal_head head)
{
    const size_t begin = rows->row[rows->row_count - 1];
    const bool breaks = rows->heads.count > begin && before(&head, &rows->heads.head[rows->heads.count - 1]);
    return (!breaks || gal_head_rows_begin(rows)) && gal_heads_push(&rows->heads, head);
}

static void merge(const gal_head *a, const gal_head *a_end, const gal_head *b, const gal_head *b_end, gal_head *to)
{
    while (a < a_end && b < b_end) {
        *to++ = before(b, a) ? *b++ : *a++;
    }
    memcpy(to, a, (size_t)(a_end - a) * sizeof *a);
    memcpy(to + (a_end - a), b, (size_t)(b_end - b) * sizeof *b);
}

/* Neighbouring rows are merged until one is left. */
static bool sort(gal_head_rows *rows)
{
    void *memory = rows->spare.head;
    if (!reserve(&memory, &rows->spare.capacity, rows->heads.count, sizeof(gal_head))) {
        return false;
    }
    rows->spare.head = memory;
    while (rows->row_count > 1) {
        const gal_heads from = rows->heads;
        size_t merged = 0;
        rows->row[rows->row_count] = from.count;
        for (size_t r = 0; r < rows->row_count; r += 2) {
            const size_t middle = rows->row[r + 1];
            const size_t end = r + 2 <= rows->row_count ? rows->row[r + 2] : middle;
            const size_t begin = rows->row[r];
            merge(from.head + begin, from.head + middle, from.head + middle, from.head + end, rows->spare.head + begin);
            rows->row[merged++] = begin;
        }
        rows->row_count = merged;
        rows->heads = (gal_heads){rows->spare.head, from.count, rows->spare.capacity};
        rows->spare = (gal_heads){from.head, 0, from.capacity};
    }
    return true;
}

/* In order of kept bytes: those before have no more, so a head is replaced if one of them has no more seconds and no
 * higher peak. The stair holds the best pairs of these, seconds falling and peaks rising. */
bool gal_head_rows_keep_best(gal_head_rows *rows, gal_heads *to)
{
    if (rows->heads.count == 0) {
        return true;
    }
    if (!sort(rows)) {
        return false;
    }
    gal_head *stair = rows->spare.head;
    size_t height = 0;
    for (size_t i = 0; i < rows->heads.count; i++) {
        const gal_head *head = &rows->heads.head[i];
        size_t low = 0;
        size_t high = height;
        while (low < high) {
            const size_t middle = (low + high) / 2;
            if (stair[middle].seconds_ps > head->seconds_ps) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if (low < height && stair[low].peak_bytes <= head->peak_bytes) {
            continue;
        }
        size_t end = low < height && stair[low].seconds_ps == head->seconds_ps ? low + 1 : low;
        while (low > 0 && stair[low - 1].peak_bytes >= head->peak_bytes) {
            low--;
        }
        memmove(stair + low + 1, stair + end, (height - end) * sizeof *stair);
        stair[low] = *head;
        height = height - (end - low) + 1;
        if (!gal_heads_push(to, *head)) {
            return false;
        }
    }
    return true;
}

void gal_head_rows_free(gal_head_rows *rows)
{
    free(rows->heads.head);
    free(rows->spare.head);
    free(rows->row);
    *rows = (gal_head_rows){0};
}

/* ---- one layer more ---- */

bool gal_stage_floors_create(const gal_stage *stage, gal_stage_floors *f)
{
    const gal_menu *o = stage->choices;
    const size_t count = stage->end - stage->first;
    f->held_bytes = calloc(count, sizeof *f->held_bytes);
    f->own_bytes = calloc(count, sizeof *f->own_bytes);
    if (f->held_bytes == NULL || f->own_bytes == NULL) {
        return false;
    }
    for (uint32_t l = stage->end - 1; l > stage->first; l--) {
        const uint32_t *start = gal_stage_start(stage, l);
        const size_t i = l - stage->first;
        int64_t held = INT64_MAX;
        int64_t own = INT64_MAX;
        for (uint32_t c = start[0]; c < start[o->instance->class_count]; c++) {
            const gal_choice *at = &o->choice[c];
            const int64_t behind = at->backward_bytes > f->own_bytes[i] ? at->backward_bytes : f->own_bytes[i];
            const int64_t mine = at->kept_bytes - at->held_bytes + behind;
            held = at->held_bytes < held ? at->held_bytes : held;
            own = mine < own ? mine : own;
        }
        f->held_bytes[i - 1] = f->held_bytes[i] + held;
        f->own_bytes[i - 1] = own;
    }
    return true;
}

void gal_stage_floors_free(gal_stage_floors *floors)
{
    free(floors->held_bytes);
    free(floors->own_bytes);
    *floors = (gal_stage_floors){0};
}

gal_head gal_head_extend(const gal_head *head, const gal_choice *choice, const gal_stage_floors *f, size_t i)
{
    gal_head next = {.kept_bytes = head->kept_bytes + choice->kept_bytes, .strategy = choice->strategy};
    const int64_t old = head->peak_bytes + choice->held_bytes;
    const int64_t here = next.kept_bytes + choice->backward_bytes;
    const int64_t behind = next.kept_bytes + f->own_bytes[i];
    next.seconds_ps = head->seconds_ps + choice->seconds_ps;
    next.peak_bytes = old > here ? old : here;
    next.peak_bytes = next.peak_bytes > behind ? next.peak_bytes : behind;
    return next;
}
