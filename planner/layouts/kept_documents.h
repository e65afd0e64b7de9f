/* Models and clusters that the rows of a table name, each read once, however many rows name it. */
#ifndef GAL_PLANNER_LAYOUTS_KEPT_DOCUMENTS_H
#define GAL_PLANNER_LAYOUTS_KEPT_DOCUMENTS_H

#include "schemas/cluster.h"
#include "schemas/model.h"
#include "schemas/model_choice.h"

typedef struct gal_kept_documents gal_kept_documents;

/* NULL without memory. */
gal_kept_documents *gal_kept_documents_create(void);
void gal_kept_documents_free(gal_kept_documents *kept); /* accepts NULL */

/* The document of that name, which `kept` owns; for a model also where its facts are from; for a cluster with so many
 * devices, 0: as many as it has itself. More nodes hang on the outermost link; a cluster of one link has no more than
 * its devices. GAL_NO with the reason if the document cannot be read, too many are named, or a cluster has fewer
 * devices; GAL_ERR_SYSTEM without memory. */
gal_code gal_kept_model(gal_kept_documents *kept, const char *name, const gal_model **out, gal_model_origins *origins,
                        gal_error *err);
gal_code gal_kept_cluster(gal_kept_documents *kept, const char *name, uint32_t devices, const gal_cluster **out,
                          gal_error *err);

#endif
