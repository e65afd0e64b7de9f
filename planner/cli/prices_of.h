/* --prices galrun or framework:NAME, as an option of a command. */
#ifndef GAL_PLANNER_CLI_PRICES_OF_H
#define GAL_PLANNER_CLI_PRICES_OF_H

#include <stdbool.h>

#include "schemas/framework.h"

/* NAME, where text is framework:NAME, or the name of a framework that ships alone (torchtitan-2024); else NULL. */
const char *gal_cli_framework_name(const char *text);

/* GAL_ERR_USAGE: known says the prices that the command takes; the names of frameworks follow, with the nearest. */
gal_code gal_cli_unknown_prices(const char *text, const char *known, gal_error *err);

/* text: "galrun", or a framework as above: a document or one that ships. *described is whether it is the latter; then
 * *out is read. GAL_ERR_USAGE; errors of the document. */
gal_code gal_cli_prices_of(const char *text, bool *described, gal_framework *out, gal_error *err);

#endif
