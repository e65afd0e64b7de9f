/* galplan search --prices: by whose formulas. */
#ifndef GAL_PLANNER_CLI_SEARCH_PRICES_H
#define GAL_PLANNER_CLI_SEARCH_PRICES_H

#include "planner/search/named.h"

/* X(enumerator, name) */
#define GAL_SEARCH_PRICES(X)                                                                                           \
    X(GAL_SEARCH_PRICES_GALRUN, "galrun")                                                                              \
    X(GAL_SEARCH_PRICES_GALVATRON, "galvatron")                                                                        \
    X(GAL_SEARCH_PRICES_OASES, "oases")                                                                                \
    X(GAL_SEARCH_PRICES_FRAMEWORK, "framework:NAME")

typedef enum gal_search_prices {
#define X(enumerator, name) enumerator,
    GAL_SEARCH_PRICES(X)
#undef X
        GAL_SEARCH_PRICES_COUNT
} gal_search_prices;

/* Whose, by name. With a framework its description is read into pricing, and the constants of that path (NULL: none).
 * GAL_ERR_USAGE; errors of the documents. */
gal_code gal_search_prices_parse(const char *text, const char *constants_path, gal_search_prices *out,
                                 gal_pricing *pricing, gal_error *err);

/* Who searches under these prices: algorithm, of which GAL_ALGORITHM_COUNT stands for none asked for, if it can.
 * GAL_ERR_USAGE names what can. With galvatron's prices the one returned has no function: gal_search_by_galvatron;
 * neither with a framework's: gal_search_by_framework. */
gal_code gal_search_prices_algorithm(gal_search_prices prices, uint32_t algorithm, const gal_algorithm **out,
                                     gal_error *err);

/* Under galvatron's prices, of the galvatron_profile at the path. Notes what has no price to stderr. */
gal_code gal_search_prices_galvatron(const gal_search_request *request, const char *profile_path,
                                     gal_algorithm_answer *out, gal_error *err);

#endif
