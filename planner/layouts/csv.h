/* Tables of comma-separated values: a line of column names, then a row per line. Lines that begin with # and empty
 * lines are skipped; a field may stand in double quotes, "" in it is one quote; spaces around a field are not part of
 * it. A mark of the byte order at the beginning is skipped. */
#ifndef GAL_PLANNER_LAYOUTS_CSV_H
#define GAL_PLANNER_LAYOUTS_CSV_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/base/status.h"

enum { GAL_CSV_COLUMNS_MAX = 128 };
#define GAL_CSV_NONE UINT32_MAX /* no such column */

typedef struct gal_csv gal_csv;

/* path "-" is stdin. Errors as gal_file_read; GAL_ERR_SYSTEM without memory; GAL_ERR_DOCUMENT for the line of column
 * names: "FILE:LINE: rule". A wrong row is kept, for gal_csv_check_row. */
gal_code gal_csv_read(const char *path, gal_csv **out, gal_error *err);
void gal_csv_free(gal_csv *csv); /* accepts NULL */

const char *gal_csv_path(const gal_csv *csv);
/* False: the last line has no end, so the file may have been cut short in it. */
bool gal_csv_is_whole(const gal_csv *csv);
uint32_t gal_csv_row_count(const gal_csv *csv);
uint32_t gal_csv_column_count(const gal_csv *csv);
const char *gal_csv_column_name(const gal_csv *csv, uint32_t column);
uint32_t gal_csv_column(const gal_csv *csv, const char *name); /* GAL_CSV_NONE: there is none */
uint32_t gal_csv_line(const gal_csv *csv, uint32_t row);       /* of the file, from 1 */
uint32_t gal_csv_names_line(const gal_csv *csv);               /* likewise of the column names */
/* GAL_ERR_DOCUMENT ("FILE:LINE: rule") unless the line of the row was cut into as many fields as there are columns; the
 * fields that it lacks are "". */
gal_code gal_csv_check_row(const gal_csv *csv, uint32_t row, gal_error *err);
/* The field, owned by csv; "" where column is GAL_CSV_NONE. */
const char *gal_csv_field(const gal_csv *csv, uint32_t row, uint32_t column);

/* GAL_ERR_DOCUMENT: "FILE:LINE: column NAME: RULE, got VALUE". */
gal_code gal_csv_fail(const gal_csv *csv, uint32_t row, uint32_t column, gal_error *err, const char *rule_format, ...)
    __attribute__((format(printf, 5, 6)));
/* A whole number, a number; an empty field or no such column leaves *out alone. */
gal_code gal_csv_u32(const gal_csv *csv, uint32_t row, uint32_t column, uint32_t least, uint32_t most, uint32_t *out,
                     gal_error *err);
gal_code gal_csv_f64(const gal_csv *csv, uint32_t row, uint32_t column, double least, double most, double *out,
                     gal_error *err);
/* A size (schemas/base/size.h). */
gal_code gal_csv_size(const gal_csv *csv, uint32_t row, uint32_t column, uint64_t least, uint64_t most, uint64_t *out,
                      gal_error *err);
/* Index into names, which are compared without regard to case and punctuation. */
gal_code gal_csv_enum(const gal_csv *csv, uint32_t row, uint32_t column, const char *const *names, uint32_t name_count,
                      uint32_t *out, gal_error *err);

#endif
