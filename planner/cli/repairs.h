/* Repairs where no plan fits: changes of the command line, each tried by a search of its own.
 *
 * A change is listed as options to paste, with what the search found: the cheapest kind first (the same training done
 * otherwise, then so with several changes, then other arithmetic, then another task, then more devices), and the faster
 * first within a kind. Searches are trials (schemas/base/trial.h): each has GAL_REPAIR_SECONDS, all of them have
 * GAL_REPAIRS_SECONDS. A search is content with a plan within GAL_REPAIR_GAP_PERCENT of the best: the one that the
 * options find may be faster. */
#ifndef GAL_PLANNER_CLI_REPAIRS_H
#define GAL_PLANNER_CLI_REPAIRS_H

#include "costmodel/memory_kinds.h"
#include "planner/least/least.h"

enum { GAL_REPAIRS_MAX = 12, GAL_REPAIR_OPTIONS_BYTES = 256, GAL_REPAIR_GAP_PERCENT = 5 };

/* A search that found nothing. */
typedef struct gal_repair_case {
    const gal_search_request *request;
    const gal_search_result *result;
    const gal_cluster *whole;       /* before --devices */
    const gal_u32_list *pp_degrees; /* as asked for */
    const char *space;              /* the option's text; NULL: none was given */
    bool measured;                  /* its prices are a profile's: of that cluster and that model alone */
    uint32_t most_devices;          /* that are tried */
    double time_limit_seconds;
} gal_repair_case;

typedef enum gal_repair_state {
    GAL_REPAIR_FITS,
    GAL_REPAIR_NO, /* no plan fits with it either */
    GAL_REPAIR_CUT /* not known: its time was up */
} gal_repair_state;

typedef struct gal_repair {
    gal_repair_state state;
    const char *words;                       /* what it is: "offload" */
    char options[GAL_REPAIR_OPTIONS_BYTES];  /* if it fits: to paste, or where no options say so, what is needed */
    double samples_per_second, step_seconds; /* of the plan, simulated; 0: there was no time for a plan */
    uint64_t host_bytes;                     /* of its fullest device's host; 0: none */
    uint32_t class, number;                  /* how dear its kind is; where it stands in the list of kinds */
} gal_repair;

typedef struct gal_repairs {
    bool has_memory; /* of the plan of the least memory */
    gal_memory_kinds memory;
    uint32_t memory_stage;
    bool devices_known; /* the search for a number of devices came to its end */
    gal_least_devices devices;
    uint32_t count;
    gal_repair repair[GAL_REPAIRS_MAX]; /* in the order of the list: those that fit first */
} gal_repairs;

/* Tries all that apply. */
void gal_repairs_find(const gal_repair_case *of, gal_repairs *out);

#endif
