/* The rules that --microbatches and --pp have with the batch, the devices and the model: a number that can be in no
 * plan is a wrong option, not a lack of memory or devices. */
#ifndef GAL_PLANNER_CLI_SEARCH_NUMBERS_H
#define GAL_PLANNER_CLI_SEARCH_NUMBERS_H

#include "planner/cell/search_request.h"

/* microbatches: the option's text, or NULL; a range max:N asks only for the counts that divide. pp_degrees: as asked
 * for. GAL_ERR_USAGE if no number of a list can be in a plan: names the option, the first number and what it does not
 * divide. Where other numbers of the list can, a note on stderr says the same. */
gal_code gal_search_numbers_rule(const gal_search_request *request, const char *microbatches,
                                 const gal_u32_list *pp_degrees, gal_error *err);

#endif
