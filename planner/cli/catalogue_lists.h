/* The lists of `galplan models` and `galplan clusters`. For these commands alone. */
#ifndef GAL_PLANNER_CLI_CATALOGUE_LISTS_H
#define GAL_PLANNER_CLI_CATALOGUE_LISTS_H

#include "schemas/base/json.h"
#include "schemas/base/status.h"

/* Each lists all that ships: json NULL: as text on stdout, by groups with headings; else as the elements of an array
 * that is begun. */
gal_code gal_list_models(gal_json_writer *json, gal_error *err);
gal_code gal_list_clusters(gal_json_writer *json, gal_error *err);
/* Kinds of devices, each once. */
gal_code gal_list_devices(gal_json_writer *json, gal_error *err);

/* The group of an entry of the catalogue, as lists say it: "train" or the folder's name. */
const char *gal_list_group(const char *group);

#endif
