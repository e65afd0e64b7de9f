#include "schemas/document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/base/fnv.h"
#include "schemas/document_open.h"

#define X(enumerator, name) [enumerator] = name,
const char *const gal_document_names[GAL_DOCUMENT_KIND_COUNT] = {GAL_DOCUMENTS(X)};
#undef X

const gal_document_form *gal_document_form_of(gal_document_kind kind)
{
    static const gal_document_form *const forms[GAL_DOCUMENT_KIND_COUNT] = {
        [GAL_DOCUMENT_MODEL] = &gal_model_form,
        [GAL_DOCUMENT_CLUSTER] = &gal_cluster_form,
        [GAL_DOCUMENT_PROFILE] = &gal_profile_form,
        [GAL_DOCUMENT_PLAN] = &gal_plan_form,
        [GAL_DOCUMENT_PROBLEM] = &gal_problem_form,
        [GAL_DOCUMENT_GALVATRON_PROFILE] = &gal_galvatron_profile_form,
        [GAL_DOCUMENT_GALVATRON_PLAN] = &gal_galvatron_plan_form,
        [GAL_DOCUMENT_FRAMEWORK] = &gal_framework_form,
        [GAL_DOCUMENT_CONSTANTS] = &gal_constants_form};
    return forms[kind];
}

gal_code gal_document_read_open(gal_document_kind kind, gal_json_doc *doc, void *out, gal_error *err)
{
    const gal_document_form *form = gal_document_form_of(kind);
    gal_code code = GAL_OK;
    gal_json_cursor root = gal_json_root(doc);
    void *document = calloc(1, form->struct_bytes);
    if (document == NULL || !form->read(&root, document)) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    GAL_TRY(gal_json_status(doc, err));
    if (form->finish != NULL) {
        form->finish(doc, document);
        GAL_TRY(gal_json_status(doc, err));
    }
    memcpy(out, document, form->struct_bytes);
    memset(document, 0, form->struct_bytes);
cleanup:
    if (document != NULL && form->release != NULL) {
        form->release(document);
    }
    free(document);
    return code;
}

gal_code gal_document_read(gal_document_kind kind, const char *path, void *out, gal_error *err)
{
    gal_json_doc *doc = NULL;
    gal_code code = gal_document_open(kind, path, &doc, err);
    if (code == GAL_OK) {
        code = gal_document_read_open(kind, doc, out, err);
    }
    gal_json_close(doc);
    return code;
}

gal_code gal_document_write(gal_document_kind kind, const char *path, const void *document, gal_error *err)
{
    gal_json_writer *out = gal_json_writer_create();
    gal_json_begin_object(out, NULL);
    gal_document_form_of(kind)->write(out, document);
    gal_json_end_object(out);
    gal_code code = gal_json_writer_save(out, path, err);
    gal_json_writer_free(out);
    return code;
}

gal_code gal_document_hash(gal_document_kind kind, const void *document, char text[GAL_HASH_BYTES], gal_error *err)
{
    gal_code code = GAL_OK;
    const char *written = NULL;
    size_t byte_count = 0;
    gal_json_writer *out = gal_json_writer_create();
    gal_json_begin_object(out, NULL);
    gal_document_form_of(kind)->write(out, document);
    gal_json_end_object(out);
    GAL_TRY(gal_json_writer_text(out, &written, &byte_count, err));
    snprintf(text, GAL_HASH_BYTES, "%016llx", (unsigned long long)gal_fnv(GAL_FNV_START, written, byte_count));
cleanup:
    gal_json_writer_free(out);
    return code;
}

static gal_document_kind kind_of(gal_json_doc *doc)
{
    gal_json_cursor root = gal_json_root(doc);
    if (!gal_json_has(&root, "document") && gal_json_has(&root, "model_type")) {
        return GAL_DOCUMENT_MODEL;
    }
    return (gal_document_kind)gal_json_enum(&root, "document", gal_document_names, GAL_DOCUMENT_KIND_COUNT);
}

gal_code gal_document_check(gal_json_doc *doc, gal_document_kind *kind, gal_error *err)
{
    union {
        gal_model model;
        gal_cluster cluster;
        gal_profile profile;
        gal_plan plan;
        gal_problem problem;
        gal_galvatron_profile galvatron_profile;
        gal_galvatron_plan galvatron_plan;
    } any;
    gal_document_kind found = kind_of(doc);
    gal_code code = gal_json_status(doc, err);
    if (code != GAL_OK) {
        return code;
    }
    *kind = found;
    code = gal_document_read_open(found, doc, &any, err);
    if (code == GAL_OK && gal_document_form_of(found)->release != NULL) {
        gal_document_form_of(found)->release(&any);
    }
    return code;
}
