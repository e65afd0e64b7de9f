/* Documents as such: what kind a text is, and readers that start from an open one. */
#ifndef GAL_SCHEMAS_DOCUMENT_H
#define GAL_SCHEMAS_DOCUMENT_H

#include "schemas/base/json.h"
#include "schemas/base/status.h"
#include "schemas/cluster.h"
#include "schemas/model.h"
#include "schemas/plan.h"
#include "schemas/profile.h"

/* X(enumerator, value of the key "document") */
#define GAL_DOCUMENTS(X)                                                                                               \
    X(GAL_DOCUMENT_MODEL, "model")                                                                                     \
    X(GAL_DOCUMENT_CLUSTER, "cluster")                                                                                 \
    X(GAL_DOCUMENT_PROFILE, "profile")                                                                                 \
    X(GAL_DOCUMENT_PLAN, "plan")

typedef enum gal_document_kind {
#define X(enumerator, name) enumerator,
    GAL_DOCUMENTS(X)
#undef X
        GAL_DOCUMENT_KIND_COUNT
} gal_document_kind;

extern const char *const gal_document_names[GAL_DOCUMENT_KIND_COUNT];

/* The frames of gal_*_read and gal_*_write. A file is opened, or where path has neither '/' nor '.' and names no file,
 * the built-in document of that name and kind; `document` is the struct that read fills or write_members shows. */
gal_code gal_document_read(gal_document_kind kind, const char *path,
                           gal_code (*read)(gal_json_doc *doc, void *document, gal_error *err), void *document,
                           gal_error *err);
gal_code gal_document_write(const char *path, void (*write_members)(gal_json_writer *out, const void *document),
                            const void *document, gal_error *err);

/* The readers behind gal_*_read, for a document that is open already. GAL_ERR_DOCUMENT, GAL_ERR_SYSTEM. */
gal_code gal_model_read_document(gal_json_doc *doc, gal_model *out, gal_error *err);
gal_code gal_cluster_read_document(gal_json_doc *doc, gal_cluster *out, gal_error *err);
gal_code gal_profile_read_document(gal_json_doc *doc, gal_profile *out, gal_error *err);
gal_code gal_plan_read_document(gal_json_doc *doc, gal_plan *out, gal_error *err);

/* Reads the document whatever its kind is (a Hugging Face config.json is a model) and forgets what it says. */
gal_code gal_document_check(gal_json_doc *doc, gal_document_kind *kind, gal_error *err);

#endif
