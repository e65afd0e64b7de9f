/* What galplan search says where no plan fits. */
#ifndef GAL_PLANNER_CLI_SEARCH_NONE_H
#define GAL_PLANNER_CLI_SEARCH_NONE_H

#include "planner/least/least.h"
#include "planner/search/named.h"

typedef struct gal_no_plan {
    const gal_search_request *request;
    const gal_search_result *result; /* of gal_search, nothing feasible */
    const gal_cluster *whole;        /* before --devices */
    gal_u32_list pp_degrees;         /* as asked for */
    gal_least_devices devices;       /* after find */
    uint32_t most_devices;
} gal_no_plan;

/* The least count of devices, up to 1024 or four times the cluster's; not where the host's memory binds. Errors as
 * gal_least_devices_find. */
gal_code gal_no_plan_find(gal_no_plan *none, gal_error *err);
/* To stderr: what binds, and the least memory and devices that would do. */
void gal_no_plan_print(const gal_no_plan *none);
/* The same as members of an object that is begun. */
void gal_no_plan_put(const gal_no_plan *none, gal_json_writer *out);

/* To stderr, of a named algorithm, which proves nothing. */
void gal_no_plan_print_named(const gal_algorithm *algorithm, const gal_search_result *result, uint64_t memory_bytes);

#endif
