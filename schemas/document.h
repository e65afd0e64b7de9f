/* Documents as such: what every kind brings to one frame, which opens, reads, checks and writes them. */
#ifndef GAL_SCHEMAS_DOCUMENT_H
#define GAL_SCHEMAS_DOCUMENT_H

#include "schemas/base/json.h"
#include "schemas/base/status.h"
#include "schemas/cluster.h"
#include "schemas/constants.h"
#include "schemas/framework.h"
#include "schemas/galvatron_plan.h"
#include "schemas/galvatron_profile.h"
#include "schemas/model.h"
#include "schemas/plan.h"
#include "schemas/problem.h"
#include "schemas/profile.h"

/* X(enumerator, value of the key "document") */
#define GAL_DOCUMENTS(X)                                                                                               \
    X(GAL_DOCUMENT_MODEL, "model")                                                                                     \
    X(GAL_DOCUMENT_CLUSTER, "cluster")                                                                                 \
    X(GAL_DOCUMENT_PROFILE, "profile")                                                                                 \
    X(GAL_DOCUMENT_PLAN, "plan")                                                                                       \
    X(GAL_DOCUMENT_PROBLEM, "problem")                                                                                 \
    X(GAL_DOCUMENT_GALVATRON_PROFILE, "galvatron_profile")                                                             \
    X(GAL_DOCUMENT_GALVATRON_PLAN, "galvatron_plan")                                                                   \
    X(GAL_DOCUMENT_FRAMEWORK, "framework")                                                                             \
    X(GAL_DOCUMENT_CONSTANTS, "constants")

typedef enum gal_document_kind {
#define X(enumerator, name) enumerator,
    GAL_DOCUMENTS(X)
#undef X
        GAL_DOCUMENT_KIND_COUNT
} gal_document_kind;

extern const char *const gal_document_names[GAL_DOCUMENT_KIND_COUNT];

/* A kind of document: `out` and `document` are the kind's own struct (gal_model, ...). */
typedef struct gal_document_form {
    size_t struct_bytes;
    /* Into a zeroed struct; errors stick in the document. False without memory. */
    bool (*read)(const gal_json_cursor *root, void *out);
    /* What needs the whole struct, once all of it was read without an error. NULL: nothing. */
    void (*finish)(gal_json_doc *doc, void *out);
    /* The members, into an object that is begun. */
    void (*write)(gal_json_writer *out, const void *document);
    /* The arrays. NULL: it owns none. */
    void (*release)(void *document);
} gal_document_form;

extern const gal_document_form gal_model_form, gal_cluster_form, gal_profile_form, gal_plan_form, gal_problem_form,
    gal_galvatron_profile_form, gal_galvatron_plan_form, gal_framework_form, gal_constants_form;
const gal_document_form *gal_document_form_of(gal_document_kind kind);

/* gal_*_read and gal_*_write of every kind. path is a file ("-": stdin, stdout), a folder of Hugging Face (a model) or
 * the name of a document of the kind that ships: schemas/document_open.h. GAL_ERR_DOCUMENT with file, line, path, rule
 * and value; GAL_ERR_USAGE if path names nothing; GAL_ERR_SYSTEM if the file cannot be read or written, or without
 * memory. */
gal_code gal_document_read(gal_document_kind kind, const char *path, void *out, gal_error *err);
gal_code gal_document_write(gal_document_kind kind, const char *path, const void *document, gal_error *err);
/* The same from a document that is open already. */
gal_code gal_document_read_open(gal_document_kind kind, gal_json_doc *doc, void *out, gal_error *err);
/* Whether a path that gal_document_read accepts means a built-in document rather than a file. */
bool gal_document_is_built_in(gal_document_kind kind, const char *path);

/* FNV-1a 64 of the text that gal_document_write would write, in hexadecimal. GAL_ERR_SYSTEM without memory. */
gal_code gal_document_hash(gal_document_kind kind, const void *document, char text[GAL_HASH_BYTES], gal_error *err);

/* Reads the document whatever its kind is (a Hugging Face config.json is a model) and forgets what it says. */
gal_code gal_document_check(gal_json_doc *doc, gal_document_kind *kind, gal_error *err);

#endif
