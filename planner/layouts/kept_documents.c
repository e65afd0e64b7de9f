#include "planner/layouts/kept_documents.h"

#include <stdlib.h>
#include <string.h>

#include "planner/least/least.h"

enum { KEPT_MAX = 256 };

/* The reason why it cannot be read is kept too, for the next row that names it. */
typedef struct kept_model {
    char *name, *failure; /* failure NULL: model is read */
    gal_model model;
    gal_model_origins origins;
} kept_model;

typedef struct kept_cluster {
    char *name, *failure;
    uint32_t devices; /* 0: as the document says */
    gal_cluster cluster;
} kept_cluster;

struct gal_kept_documents {
    uint32_t model_count, cluster_count;
    kept_model model[KEPT_MAX];
    kept_cluster cluster[KEPT_MAX];
};

gal_kept_documents *gal_kept_documents_create(void)
{
    return calloc(1, sizeof(gal_kept_documents));
}

void gal_kept_documents_free(gal_kept_documents *kept)
{
    if (kept == NULL) {
        return;
    }
    for (uint32_t i = 0; i < kept->model_count; i++) {
        free(kept->model[i].name);
        free(kept->model[i].failure);
    }
    for (uint32_t i = 0; i < kept->cluster_count; i++) {
        free(kept->cluster[i].name);
        free(kept->cluster[i].failure);
    }
    free(kept);
}

static gal_code out_of_memory(gal_error *err)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: documents");
}

/* The text of a failed read, or NULL where code says that it succeeded. False without memory. */
static bool keep_failure(gal_code code, const gal_error *why, char **failure)
{
    *failure = code == GAL_OK ? NULL : strdup(why->text);
    return code == GAL_OK || *failure != NULL;
}

gal_code gal_kept_model(gal_kept_documents *kept, const char *name, const gal_model **out, gal_model_origins *origins,
                        gal_error *err)
{
    uint32_t i = 0;
    while (i < kept->model_count && strcmp(kept->model[i].name, name) != 0) {
        i++;
    }
    kept_model *found = &kept->model[i];
    if (i == KEPT_MAX) {
        return gal_fail(err, GAL_NO, "there are more than %d different models", (int)KEPT_MAX);
    }
    if (i == kept->model_count) {
        gal_error why = {0};
        if ((found->name = strdup(name)) == NULL) {
            return out_of_memory(err);
        }
        kept->model_count++;
        if (!keep_failure(gal_model_read(name, &found->model, &why), &why, &found->failure)) {
            return out_of_memory(err);
        }
        if (found->failure == NULL) {
            gal_model_origins_of(name, &found->model, &found->origins);
        }
    }
    if (found->failure != NULL) {
        return gal_fail(err, GAL_NO, "%s", found->failure);
    }
    *origins = found->origins;
    *out = &found->model;
    return GAL_OK;
}

/* Adds the cluster: from its document, or resized from the whole one that was read before. */
static gal_code add_cluster(kept_cluster *out, const char *name, uint32_t devices, const gal_cluster *whole,
                            gal_error *err)
{
    gal_error why = {0};
    out->devices = devices;
    if ((out->name = strdup(name)) == NULL) {
        return out_of_memory(err);
    }
    if (whole != NULL) {
        out->cluster = *whole;
        gal_cluster_resize(&out->cluster, devices);
        return GAL_OK;
    }
    return keep_failure(gal_cluster_read(name, &out->cluster, &why), &why, &out->failure) ? GAL_OK : out_of_memory(err);
}

/* devices 0: as the document says, else whole is that document's cluster. */
static gal_code find_cluster(gal_kept_documents *kept, const char *name, uint32_t devices, const gal_cluster *whole,
                             const gal_cluster **out, gal_error *err)
{
    uint32_t i = 0;
    while (i < kept->cluster_count &&
           (strcmp(kept->cluster[i].name, name) != 0 || kept->cluster[i].devices != devices)) {
        i++;
    }
    if (i == KEPT_MAX) {
        return gal_fail(err, GAL_NO, "there are more than %d different clusters and numbers of devices", (int)KEPT_MAX);
    }
    if (i == kept->cluster_count) {
        const gal_code code = add_cluster(&kept->cluster[i], name, devices, whole, err);
        kept->cluster_count += kept->cluster[i].name != NULL;
        if (code != GAL_OK) {
            return code;
        }
    }
    if (kept->cluster[i].failure != NULL) {
        return gal_fail(err, GAL_NO, "%s", kept->cluster[i].failure);
    }
    *out = &kept->cluster[i].cluster;
    return GAL_OK;
}

gal_code gal_kept_cluster(gal_kept_documents *kept, const char *name, uint32_t devices, const gal_cluster **out,
                          gal_error *err)
{
    const gal_cluster *whole = NULL;
    const gal_code code = find_cluster(kept, name, 0, NULL, &whole, err);
    if (code != GAL_OK) {
        return code;
    }
    if (devices > whole->device_count && whole->level_count == 1) {
        return gal_fail(err, GAL_NO, "gpus %u is more than the %u devices of cluster %s", devices, whole->device_count,
                        whole->name);
    }
    if (devices == 0 || devices == whole->device_count) {
        *out = whole;
        return GAL_OK;
    }
    return find_cluster(kept, name, devices, whole, out, err);
}
