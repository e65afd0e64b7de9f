#include "planner/cli/plan_table.h"

#include <string.h>

#include "planner/answers/figure_text.h"
#include "planner/answers/plan_rows.h"

enum { TABLE_COLUMNS = 100, TEXT_BYTES = 512, NAMES_JOINED = 3 };

/* ---- texts ---- */

/* "sdp8.z3", or "attention sdp8.z1, FFN sdp8.z3". */
static void row_strategies(const gal_plan_row *row, char text[TEXT_BYTES])
{
    char name[GAL_STRATEGY_NAME_BYTES];
    const gal_strategy *one = gal_plan_row_strategy(row);
    size_t used = 0;
    text[0] = '\0';
    if (one != NULL) {
        (void)snprintf(text, TEXT_BYTES, "%s", gal_strategy_name(one, name));
    }
    for (uint32_t part = 0; one == NULL && part < GAL_PART_COUNT; part++) {
        if (row->strategy[part] != NULL) {
            used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s%s %s", used > 0 ? ", " : "",
                                     gal_plan_part_names[part], gal_strategy_name(row->strategy[part], name));
        }
    }
}

/* "stage", or "piece": then a stage has several. */
static const char *piece_noun(const gal_plan *plan)
{
    return gal_plan_chunk_count(plan) > 1 ? "piece" : "stage";
}

static void append_shift(const gal_plan *plan, const gal_plan_group *group, char text[TEXT_BYTES])
{
    if (group->piece_count > 1) {
        const size_t used = strlen(text);
        (void)snprintf(text + used, TEXT_BYTES - used, ", +%u a %s", group->shift, piece_noun(plan));
    }
}

static void row_part(const gal_plan *plan, const gal_plan_group *group, const gal_plan_row *row, char text[TEXT_BYTES])
{
    char name[GAL_PLAN_ROW_NAME_BYTES];
    (void)snprintf(text, TEXT_BYTES, "%s", gal_plan_row_name(row, name));
    append_shift(plan, group, text);
}

/* All parts of a group: "embedding, layers 1-10"; of many "embedding to head". */
static void group_part(const gal_plan *plan, const gal_plan_rows *rows, const gal_plan_group *group,
                       char text[TEXT_BYTES])
{
    char name[GAL_PLAN_ROW_NAME_BYTES];
    const bool joined = group->row_count <= NAMES_JOINED;
    size_t used = 0;
    for (uint32_t i = 0; i < group->row_count; i += joined ? 1 : group->row_count - 1) {
        used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s%s",
                                 i == 0   ? ""
                                 : joined ? ", "
                                          : " to ",
                                 gal_plan_row_name(&rows->row[group->first_row + i], name));
    }
    append_shift(plan, group, text);
}

static void stage_text(const gal_plan_group *group, char text[GAL_FIGURE_TEXT_BYTES])
{
    const uint32_t last = group->piece + group->piece_count - 1;
    (void)(last == group->piece ? snprintf(text, GAL_FIGURE_TEXT_BYTES, "%u", last)
                                : snprintf(text, GAL_FIGURE_TEXT_BYTES, "%u-%u", group->piece, last));
}

/* The least and the most of a group's pieces. */
typedef struct span {
    uint64_t least, most;
} span;

static span span_of(const gal_plan *plan, const gal_plan_group *group, uint64_t (*bytes_of)(const gal_plan_stage *))
{
    span found = {UINT64_MAX, 0};
    for (uint32_t p = group->piece; p < group->piece + group->piece_count; p++) {
        const uint64_t bytes = bytes_of(&plan->stage[p]);
        found.least = bytes < found.least ? bytes : found.least;
        found.most = bytes > found.most ? bytes : found.most;
    }
    return found;
}

static uint64_t device_bytes(const gal_plan_stage *stage)
{
    return stage->predicted_bytes;
}

static uint64_t host_bytes(const gal_plan_stage *stage)
{
    return stage->predicted_host_bytes;
}

static uint64_t storage_bytes(const gal_plan_stage *stage)
{
    return stage->predicted_storage_bytes;
}

/* "74.2 GB", "61.0-70.2 GB" where it is not the same in all; "-": not known. */
static void span_text(span bytes, char text[TEXT_BYTES])
{
    char least[GAL_FIGURE_TEXT_BYTES], most[GAL_FIGURE_TEXT_BYTES];
    gal_memory_text(bytes.least, least);
    gal_memory_text(bytes.most, most);
    const int number = (int)strlen(least) - (int)strlen(" GB");
    const bool same_unit = strcmp(least + number, most + strlen(most) - strlen(" GB")) == 0;
    if (bytes.most == 0) {
        (void)snprintf(text, TEXT_BYTES, "-");
    } else if (strcmp(least, most) == 0) {
        (void)snprintf(text, TEXT_BYTES, "%s", most);
    } else {
        (void)snprintf(text, TEXT_BYTES, "%.*s-%s", same_unit ? number : (int)strlen(least), least, most);
    }
}

/* ---- the table ---- */

typedef struct table {
    FILE *out;
    const gal_plan *plan;
    gal_plan_rows rows;
    int memory_columns, part_columns; /* of the widest entry */
} table;

static void widen(int *columns, const char *text)
{
    const int length = (int)strlen(text);
    *columns = length > *columns ? length : *columns;
}

static bool is_one_row(const table *t, const gal_plan_group *group)
{
    return group->row_count == 1 || gal_plan_group_strategy(&t->rows, group) != NULL;
}

static const char host_place[] = "host memory", storage_place[] = "storage";

static void measure_columns(table *t)
{
    char text[TEXT_BYTES];
    t->memory_columns = (int)strlen("memory");
    t->part_columns = (int)strlen("part");
    for (uint32_t g = 0; g < t->rows.group_count; g++) {
        const gal_plan_group *group = &t->rows.group[g];
        span_text(span_of(t->plan, group, device_bytes), text);
        widen(&t->memory_columns, text);
        widen(&t->part_columns, span_of(t->plan, group, host_bytes).most > 0 ? host_place : "");
        if (is_one_row(t, group)) {
            group_part(t->plan, &t->rows, group, text);
            widen(&t->part_columns, text);
        }
        for (uint32_t i = 0; !is_one_row(t, group) && i < group->row_count; i++) {
            row_part(t->plan, group, &t->rows.row[group->first_row + i], text);
            widen(&t->part_columns, text);
        }
    }
}

/* The strategies of a row whose other entries take `column` columns; what does not fit goes on below, from a comma. */
static void print_strategies(FILE *out, int column, const char *text)
{
    const int room = TABLE_COLUMNS - column;
    for (;;) {
        const char *cut = NULL;
        for (const char *comma = strstr(text, ", "); comma != NULL; comma = strstr(comma + 1, ", ")) {
            cut = cut == NULL || comma - text < room ? comma : cut;
        }
        if ((int)strlen(text) <= room || cut == NULL) {
            break;
        }
        fprintf(out, "%.*s,\n%*s", (int)(cut - text), text, column, "");
        text = cut + 2;
    }
    fprintf(out, "%s\n", text);
}

/* stage, devices and memory stand in the first row of a group alone. */
static void print_row(const table *t, const gal_plan_group *group, bool first, const char *part, const char *strategies)
{
    char stage[GAL_FIGURE_TEXT_BYTES] = "", devices[GAL_FIGURE_TEXT_BYTES] = "", memory[TEXT_BYTES] = "";
    if (first) {
        stage_text(group, stage);
        (void)snprintf(devices, sizeof devices, "%u", gal_plan_stage_devices(t->plan));
        span_text(span_of(t->plan, group, device_bytes), memory);
    }
    const int column =
        fprintf(t->out, "  %5s  %7s  %*s  %-*s  ", stage, devices, t->memory_columns, memory, t->part_columns, part);
    print_strategies(t->out, column, strategies);
}

/* The memory that devices of a group have beside their own. */
static void print_beside(const table *t, const gal_plan_group *group, const char *place, span bytes)
{
    char text[TEXT_BYTES], said[TEXT_BYTES + sizeof " a device"];
    if (bytes.most > 0) {
        span_text(bytes, text);
        (void)snprintf(said, sizeof said, "%s a device", text);
        print_row(t, group, false, place, said);
    }
}

static void print_group(const table *t, const gal_plan_group *group)
{
    char part[TEXT_BYTES], strategies[TEXT_BYTES];
    const gal_strategy *one = gal_plan_group_strategy(&t->rows, group);
    if (one != NULL) {
        char name[GAL_STRATEGY_NAME_BYTES];
        group_part(t->plan, &t->rows, group, part);
        print_row(t, group, true, part, gal_strategy_name(one, name));
    }
    for (uint32_t i = 0; one == NULL && i < group->row_count; i++) {
        const gal_plan_row *row = &t->rows.row[group->first_row + i];
        row_part(t->plan, group, row, part);
        row_strategies(row, strategies);
        print_row(t, group, i == 0, part, strategies);
    }
    print_beside(t, group, host_place, span_of(t->plan, group, host_bytes));
    print_beside(t, group, storage_place, span_of(t->plan, group, storage_bytes));
}

gal_code gal_plan_table_print(FILE *out, const gal_plan *plan, gal_error *err)
{
    gal_code code = GAL_OK;
    table t = {.out = out, .plan = plan};
    GAL_TRY(gal_plan_rows_find(plan, &t.rows, err));
    measure_columns(&t);
    fprintf(out, "\n  %5s  devices  %*s  %-*s  strategy\n", piece_noun(plan), t.memory_columns, "memory",
            t.part_columns, "part");
    for (uint32_t g = 0; g < t.rows.group_count; g++) {
        print_group(&t, &t.rows.group[g]);
    }
cleanup:
    gal_plan_rows_free(&t.rows);
    return code;
}

/* ---- as JSON ---- */

static void put_strategies(gal_json_writer *out, const gal_plan_row *row)
{
    static const char *const keys[GAL_PART_COUNT] = {"attention", "cross_attention", "ffn"};
    char name[GAL_STRATEGY_NAME_BYTES];
    for (uint32_t part = 0; part < GAL_PART_COUNT; part++) {
        if (row->strategy[part] != NULL) {
            gal_json_put_string(out, row->first_layer > 0 ? keys[part] : "strategy",
                                gal_strategy_name(row->strategy[part], name));
        }
    }
}

static void put_part(gal_json_writer *out, const gal_plan_row *row)
{
    static const char *const stacks[] = {"", "encoder", "decoder"};
    const bool layers = row->first_layer > 0;
    gal_json_put_string(out, "part", layers ? "layers" : gal_block_kind_names[row->kind]);
    if (row->stack != GAL_STACK_ONLY) {
        gal_json_put_string(out, "stack", stacks[row->stack]);
    }
    if (row->level > 0) {
        gal_json_put_u64(out, "level", row->level);
    }
    if (layers) {
        gal_json_begin_array(out, "layers");
        gal_json_put_u64(out, NULL, row->first_layer);
        gal_json_put_u64(out, NULL, row->last_layer);
        gal_json_end_array(out);
        gal_json_put_u64(out, "repeat", row->repeat);
    }
    if (row->repeat > 1) {
        gal_json_put_u64(out, "period", row->period);
    }
}

static void put_group(gal_json_writer *out, const gal_plan *plan, const gal_plan_rows *rows,
                      const gal_plan_group *group)
{
    for (uint32_t i = 0; i < group->row_count; i++) {
        gal_json_begin_object(out, NULL);
        gal_json_put_u64(out, piece_noun(plan), group->piece);
        if (group->piece_count > 1) {
            gal_json_put_u64(out, "count", group->piece_count);
            gal_json_put_u64(out, "shift_layers", group->shift);
        }
        put_part(out, &rows->row[group->first_row + i]);
        put_strategies(out, &rows->row[group->first_row + i]);
        gal_json_end_object(out);
    }
}

gal_code gal_plan_table_put(gal_json_writer *out, const gal_plan *plan, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_plan_rows rows = {0};
    GAL_TRY(gal_plan_rows_find(plan, &rows, err));
    gal_json_begin_array(out, "layout");
    for (uint32_t g = 0; g < rows.group_count; g++) {
        put_group(out, plan, &rows, &rows.group[g]);
    }
    gal_json_end_array(out);
cleanup:
    gal_plan_rows_free(&rows);
    return code;
}
