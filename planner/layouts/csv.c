#include "planner/layouts/csv.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/base/file.h"
#include "schemas/base/nearest.h"
#include "schemas/base/size.h"

enum { FILE_BYTES_MAX = 64 << 20, LIST_BYTES = 512 };

struct gal_csv {
    char *path, *text; /* owned; text is cut into fields */
    bool whole;        /* the last line has an end */
    uint32_t column_count, row_count, row_capacity;
    char **field;          /* [1 + row_count][column_count]: names first */
    uint32_t *line;        /* [1 + row_count] */
    uint32_t *field_count; /* [1 + row_count] as they stand there; 0: the line cannot be cut into fields */
};

void gal_csv_free(gal_csv *csv)
{
    if (csv != NULL) {
        free(csv->field_count);
        free(csv->line);
        free(csv->field);
        free(csv->text);
        free(csv->path);
        free(csv);
    }
}

static gal_code out_of_memory(gal_error *err)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: a table");
}

/* Room for one more row. */
static gal_code reserve(gal_csv *csv, gal_error *err)
{
    if (csv->row_count < csv->row_capacity) {
        return GAL_OK;
    }
    const uint32_t capacity = csv->row_capacity == 0 ? 256 : 2 * csv->row_capacity;
    char **field = realloc(csv->field, sizeof *field * capacity * (size_t)csv->column_count);
    if (field != NULL) {
        csv->field = field;
    }
    uint32_t *line = realloc(csv->line, sizeof *line * capacity);
    if (line != NULL) {
        csv->line = line;
    }
    uint32_t *field_count = realloc(csv->field_count, sizeof *field_count * capacity);
    if (field_count != NULL) {
        csv->field_count = field_count;
    }
    if (field == NULL || line == NULL || field_count == NULL) {
        return out_of_memory(err);
    }
    csv->row_capacity = capacity;
    return GAL_OK;
}

static char *trimmed(char *field, char *end)
{
    while (*field == ' ' || *field == '\t') {
        field++;
    }
    while (end > field && (end[-1] == ' ' || end[-1] == '\t')) {
        end--;
    }
    *end = '\0';
    return field;
}

/* Cuts a line in place. False: a quote is open, or text stands behind one, or there are too many fields. */
static bool cut(char *line, char **field, uint32_t *count)
{
    *count = 0;
    for (;;) {
        if (*count == GAL_CSV_COLUMNS_MAX) {
            return false;
        }
        line += strspn(line, " \t");
        if (*line == '"') {
            char *to = ++line;
            field[(*count)++] = to;
            while (*line != '\0' && (*line != '"' || line[1] == '"')) {
                line += *line == '"';
                *to++ = *line++;
            }
            if (*line == '\0') {
                return false;
            }
            line++;
            *to = '\0';
            line += strspn(line, " \t");
        } else {
            char *end = line + strcspn(line, ",");
            const char stop = *end;
            field[(*count)++] = trimmed(line, end);
            line = end;
            *line = stop == '\0' ? '\0' : ',';
        }
        if (*line == '\0') {
            return true;
        }
        if (*line != ',') {
            return false;
        }
        *line++ = '\0';
    }
}

static gal_code fail_at(const gal_csv *csv, uint32_t line, uint32_t field_count, gal_error *err)
{
    if (field_count == 0) {
        return gal_fail(err, GAL_ERR_DOCUMENT,
                        "%s:%u: must be at most %d fields, each without quotes or whole in double quotes", csv->path,
                        line, (int)GAL_CSV_COLUMNS_MAX);
    }
    return gal_fail(err, GAL_ERR_DOCUMENT, "%s:%u: must have the %u fields of the first line, got %u", csv->path, line,
                    csv->column_count, field_count);
}

/* The first line says how many columns there are. A later line with other fields is kept: those that it lacks are
 * empty, and gal_csv_check_row tells. */
static gal_code add_line(gal_csv *csv, char *line, uint32_t number, uint32_t *lines, gal_error *err)
{
    static char empty[] = "";
    char *field[GAL_CSV_COLUMNS_MAX];
    uint32_t count = 0;
    if (!cut(line, field, &count)) {
        count = 0;
    }
    if (*lines == 0 && count == 0) {
        return fail_at(csv, number, count, err);
    }
    csv->column_count = *lines == 0 ? count : csv->column_count;
    csv->row_count = *lines;
    const gal_code code = reserve(csv, err);
    if (code == GAL_OK) {
        for (uint32_t c = 0; c < csv->column_count; c++) {
            csv->field[(size_t)*lines * csv->column_count + c] = c < count ? field[c] : empty;
        }
        csv->line[*lines] = number;
        csv->field_count[*lines] = count;
        ++*lines;
    }
    return code;
}

static gal_code cut_lines(gal_csv *csv, size_t byte_count, gal_error *err)
{
    static const char mark[] = "\xEF\xBB\xBF"; /* of the byte order, that spreadsheets begin UTF-8 with */
    uint32_t lines = 0, number = 1;
    gal_code code = GAL_OK;
    if (strlen(csv->text) != byte_count) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "%s: must be text, got a NUL byte", csv->path);
    }
    csv->whole = byte_count > 0 && csv->text[byte_count - 1] == '\n';
    char *start = csv->text + (strncmp(csv->text, mark, strlen(mark)) == 0 ? strlen(mark) : 0);
    for (char *line = start; line != NULL && code == GAL_OK; number++) {
        char *end = strchr(line, '\n'), *next = end == NULL ? NULL : end + 1;
        end = end == NULL ? line + strlen(line) : end;
        *end = '\0';
        if (end > line && end[-1] == '\r') {
            end[-1] = '\0';
        }
        if (line[0] != '#' && line[strspn(line, " \t")] != '\0') {
            code = add_line(csv, line, number, &lines, err);
        }
        line = next;
    }
    if (code == GAL_OK && lines == 0) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "%s: must have a line of column names", csv->path);
    }
    csv->row_count = lines - 1;
    return code;
}

static gal_code check_names(const gal_csv *csv, gal_error *err)
{
    for (uint32_t i = 0; i < csv->column_count; i++) {
        if (gal_csv_column(csv, csv->field[i]) != i) {
            return gal_fail(err, GAL_ERR_DOCUMENT, "%s:%u: column %s must not be named twice", csv->path, csv->line[0],
                            csv->field[i]);
        }
    }
    return GAL_OK;
}

gal_code gal_csv_read(const char *path, gal_csv **out, gal_error *err)
{
    gal_code code = GAL_OK;
    size_t byte_count = 0;
    gal_csv *csv = calloc(1, sizeof *csv);
    if (csv == NULL || (csv->path = strdup(path)) == NULL) {
        GAL_TRY(out_of_memory(err));
    }
    GAL_TRY(gal_file_read(path, FILE_BYTES_MAX, &csv->text, &byte_count, err));
    GAL_TRY(cut_lines(csv, byte_count, err));
    GAL_TRY(check_names(csv, err));
    *out = csv;
    csv = NULL;
cleanup:
    gal_csv_free(csv);
    return code;
}

const char *gal_csv_path(const gal_csv *csv)
{
    return csv->path;
}

bool gal_csv_is_whole(const gal_csv *csv)
{
    return csv->whole;
}

uint32_t gal_csv_row_count(const gal_csv *csv)
{
    return csv->row_count;
}

uint32_t gal_csv_column_count(const gal_csv *csv)
{
    return csv->column_count;
}

const char *gal_csv_column_name(const gal_csv *csv, uint32_t column)
{
    return csv->field[column];
}

uint32_t gal_csv_column(const gal_csv *csv, const char *name)
{
    for (uint32_t i = 0; i < csv->column_count; i++) {
        if (strcmp(csv->field[i], name) == 0) {
            return i;
        }
    }
    return GAL_CSV_NONE;
}

uint32_t gal_csv_line(const gal_csv *csv, uint32_t row)
{
    return csv->line[1 + row];
}

uint32_t gal_csv_names_line(const gal_csv *csv)
{
    return csv->line[0];
}

gal_code gal_csv_check_row(const gal_csv *csv, uint32_t row, gal_error *err)
{
    const uint32_t count = csv->field_count[1 + row];
    return count == csv->column_count ? GAL_OK : fail_at(csv, gal_csv_line(csv, row), count, err);
}

const char *gal_csv_field(const gal_csv *csv, uint32_t row, uint32_t column)
{
    return column == GAL_CSV_NONE ? "" : csv->field[(size_t)(1 + row) * csv->column_count + column];
}

gal_code gal_csv_fail(const gal_csv *csv, uint32_t row, uint32_t column, gal_error *err, const char *rule_format, ...)
{
    char rule[LIST_BYTES];
    va_list arguments;
    va_start(arguments, rule_format);
    (void)vsnprintf(rule, sizeof rule, rule_format, arguments);
    va_end(arguments);
    return gal_fail(err, GAL_ERR_DOCUMENT, "%s:%u: column %s: %s, got \"%s\"", csv->path, gal_csv_line(csv, row),
                    gal_csv_column_name(csv, column), rule, gal_csv_field(csv, row, column));
}

gal_code gal_csv_u32(const gal_csv *csv, uint32_t row, uint32_t column, uint32_t least, uint32_t most, uint32_t *out,
                     gal_error *err)
{
    const char *text = gal_csv_field(csv, row, column);
    if (*text == '\0') {
        return GAL_OK;
    }
    const size_t digits = strspn(text, "0123456789");
    const unsigned long long value = strtoull(text, NULL, 10);
    if (text[digits] != '\0' || digits > 10 || value < least || value > most) {
        return gal_csv_fail(csv, row, column, err, "must be a whole number from %u to %u", least, most);
    }
    *out = (uint32_t)value;
    return GAL_OK;
}

gal_code gal_csv_f64(const gal_csv *csv, uint32_t row, uint32_t column, double least, double most, double *out,
                     gal_error *err)
{
    const char *text = gal_csv_field(csv, row, column);
    if (*text == '\0') {
        return GAL_OK;
    }
    char *end = NULL;
    errno = 0;
    const double value = strtod(text, &end);
    if (text[strspn(text, "+-.0123456789eE")] != '\0' || *end != '\0' || end == text || !isfinite(value) ||
        value < least || value > most || errno == ERANGE) {
        return gal_csv_fail(csv, row, column, err, "must be a number from %g to %g", least, most);
    }
    *out = value;
    return GAL_OK;
}

gal_code gal_csv_size(const gal_csv *csv, uint32_t row, uint32_t column, uint64_t least, uint64_t most, uint64_t *out,
                      gal_error *err)
{
    const char *text = gal_csv_field(csv, row, column);
    uint64_t value = 0;
    if (*text == '\0') {
        return GAL_OK;
    }
    if (!gal_size_parse(text, &value) || value < least || value > most) {
        return gal_csv_fail(csv, row, column, err, "must be %s, from %llu to %llu", GAL_SIZE_FORMS,
                            (unsigned long long)least, (unsigned long long)most);
    }
    *out = value;
    return GAL_OK;
}

gal_code gal_csv_enum(const gal_csv *csv, uint32_t row, uint32_t column, const char *const *names, uint32_t name_count,
                      uint32_t *out, gal_error *err)
{
    const char *text = gal_csv_field(csv, row, column);
    char list[LIST_BYTES / 2] = "";
    if (*text == '\0') {
        return GAL_OK;
    }
    for (uint32_t i = 0; i < name_count; i++) {
        if (gal_word_same(text, names[i])) {
            *out = i;
            return GAL_OK;
        }
        const size_t used = strlen(list);
        (void)snprintf(list + used, sizeof list - used, "%s%s", i == 0 ? "" : ", ", names[i]);
    }
    return gal_csv_fail(csv, row, column, err, "must be one of %s", list);
}
