/* --prices galrun or framework:NAME, as an option of a command. */
#ifndef GAL_PLANNER_CLI_PRICES_OF_H
#define GAL_PLANNER_CLI_PRICES_OF_H

#include <stdbool.h>

#include "schemas/framework.h"

/* text: "galrun", or "framework:NAME" with the name of a framework document or of one that ships. *described is whether
 * it is the latter; then *out is read. GAL_ERR_USAGE; errors of the document. */
gal_code gal_cli_prices_of(const char *text, bool *described, gal_framework *out, gal_error *err);

#endif
