#include "planner/cli/search_prices.h"

#include <stdio.h>

#include "planner/cli/prices_of.h"
#include "planner/galvatron/galvatron_prices.h"
#include "schemas/base/nearest.h"

#define X(enumerator, name) [enumerator] = name,
static const char *const names[GAL_SEARCH_PRICES_COUNT] = {GAL_SEARCH_PRICES(X)};
#undef X

gal_code gal_search_prices_parse(const char *text, const char *constants_path, gal_search_prices *out,
                                 gal_pricing *pricing, gal_error *err)
{
    const char *framework = gal_cli_framework_name(text);
    *out = GAL_SEARCH_PRICES_GALRUN;
    if (framework != NULL) {
        *out = GAL_SEARCH_PRICES_FRAMEWORK;
        const gal_code code = gal_framework_read(framework, &pricing->framework, err);
        pricing->present = true;
        return code == GAL_OK && constants_path != NULL ? gal_constants_read(constants_path, &pricing->constants, err)
                                                        : code;
    }
    if (constants_path != NULL) {
        return gal_fail(err, GAL_ERR_USAGE, "--constants goes with --prices framework:NAME");
    }
    while (*out < GAL_SEARCH_PRICES_FRAMEWORK && !gal_word_same(text, names[*out])) {
        (*out)++;
    }
    return *out < GAL_SEARCH_PRICES_FRAMEWORK
               ? GAL_OK
               : gal_cli_unknown_prices(text, "one of galrun, galvatron, oases, framework:NAME", err);
}

gal_code gal_search_prices_algorithm(gal_search_prices prices, uint32_t algorithm, const gal_algorithm **out,
                                     gal_error *err)
{
    static const gal_algorithm by_galvatron = {"galvatron", NULL};
    static const gal_algorithm by_framework = {"framework", NULL};
    static const gal_algorithm by_oases = {"oases", gal_algorithm_oases};
    static const gal_algorithm by_oases_ilp = {"oases by ilp", gal_algorithm_oases_ilp};
    const bool exact = algorithm == GAL_ALGORITHM_COUNT || algorithm == GAL_ALGORITHM_EXACT;
    switch (prices) {
    case GAL_SEARCH_PRICES_GALVATRON:
        *out = &by_galvatron;
        return exact ? GAL_OK : gal_fail(err, GAL_ERR_USAGE, "--prices galvatron goes with --algorithm exact");
    case GAL_SEARCH_PRICES_OASES:
        *out = algorithm == GAL_ALGORITHM_ILP ? &by_oases_ilp : &by_oases;
        return exact || algorithm == GAL_ALGORITHM_ILP || algorithm == GAL_ALGORITHM_OASES
                   ? GAL_OK
                   : gal_fail(err, GAL_ERR_USAGE, "--prices oases goes with --algorithm exact, oases or ilp");
    case GAL_SEARCH_PRICES_FRAMEWORK:
        *out = &by_framework;
        return exact ? GAL_OK : gal_fail(err, GAL_ERR_USAGE, "--prices framework:NAME goes with --algorithm exact");
    case GAL_SEARCH_PRICES_GALRUN:
    case GAL_SEARCH_PRICES_COUNT:
        break;
    }
    *out = &gal_algorithms[algorithm % GAL_ALGORITHM_COUNT];
    return GAL_OK;
}

gal_code gal_search_prices_galvatron(const gal_search_request *request, const char *profile_path,
                                     gal_algorithm_answer *out, gal_error *err)
{
    char left_out[GAL_ERROR_TEXT_BYTES];
    gal_galvatron_profile profile = {0};
    gal_code code = gal_galvatron_profile_read(profile_path, &profile, err);
    if (code == GAL_OK) {
        code = gal_search_by_galvatron(request, &profile, out, left_out, err);
    }
    if (code == GAL_OK && left_out[0] != '\0') {
        fprintf(stderr, "galplan: note: strategies without a price are left out (%s)\n", left_out);
    }
    gal_galvatron_profile_free(&profile);
    return code;
}
