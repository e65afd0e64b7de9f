#include "planner/cli/prices_of.h"

#include <string.h>
#include <strings.h>

#include "schemas/base/nearest.h"
#include "schemas/catalogue/catalogue.h"

const char *gal_cli_framework_name(const char *text)
{
    static const char prefix[] = "framework:";
    if (strncasecmp(text, prefix, sizeof prefix - 1) == 0) {
        return text + sizeof prefix - 1;
    }
    return gal_catalogue_find("framework", text) == NULL ? NULL : text;
}

gal_code gal_cli_unknown_prices(const char *text, const char *known, gal_error *err)
{
    char suggestion[GAL_ERROR_TEXT_BYTES / 4], names[GAL_ERROR_TEXT_BYTES / 2];
    gal_catalogue_suggest("framework", text, suggestion, sizeof suggestion);
    gal_catalogue_names("framework", names, sizeof names);
    return gal_fail(err, GAL_ERR_USAGE, "--prices: must be %s, got '%s'; %s%sframeworks that ship: %s", known, text,
                    suggestion, suggestion[0] == '\0' ? "" : " ", names);
}

gal_code gal_cli_prices_of(const char *text, bool *described, gal_framework *out, gal_error *err)
{
    const char *name = gal_cli_framework_name(text);
    *described = name != NULL;
    if (*described) {
        return gal_framework_read(name, out, err);
    }
    return gal_word_same(text, "galrun") ? GAL_OK : gal_cli_unknown_prices(text, "galrun or framework:NAME", err);
}
