/* Lists of counts on the command line. */
#ifndef GAL_PLANNER_SPACE_RANGES_H
#define GAL_PLANNER_SPACE_RANGES_H

#include "schemas/base/options.h"

/* "8,16,24" as it is; "A:B" doubles from A while <= B; "A:B:STEP" adds; "A:B:xF" multiplies by F. GAL_ERR_USAGE names
 * the option and what is wrong. At most GAL_U32_LIST_MAX values of 1 or more. */
gal_code gal_parse_batches(const char *option, const char *text, gal_u32_list *out, gal_error *err);
/* The same, and "max:N": 1, 2, 4 ... up to N. */
gal_code gal_parse_microbatches(const char *option, const char *text, gal_u32_list *out, gal_error *err);

#endif
