#include "planner/cli/prices_of.h"

#include <string.h>

gal_code gal_cli_prices_of(const char *text, bool *described, gal_framework *out, gal_error *err)
{
    static const char prefix[] = "framework:";
    *described = strncmp(text, prefix, sizeof prefix - 1) == 0;
    if (*described) {
        return gal_framework_read(text + sizeof prefix - 1, out, err);
    }
    if (strcmp(text, "galrun") != 0) {
        return gal_fail(err, GAL_ERR_USAGE, "--prices: must be galrun or framework:NAME, got \"%s\"", text);
    }
    return GAL_OK;
}
