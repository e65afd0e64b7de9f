#include "schemas/framework.h"

#include "schemas/document.h"

void gal_framework_read_at(const gal_json_cursor *at, gal_framework *out)
{
    gal_json_expect_document(at, "framework", GAL_FRAMEWORK_VERSION);
    gal_json_string(at, "name", out->name, sizeof out->name);
    gal_json_string(at, "source", out->source, sizeof out->source);
#define X(member) out->member = gal_json_bool(at, #member);
    GAL_FRAMEWORK_FLAGS(X)
#undef X
#define X(member, least, most) out->member = gal_json_f64(at, #member, least, most);
    GAL_FRAMEWORK_NUMBERS(X)
#undef X
    gal_json_reject_unknown(at);
}

void gal_framework_write_at(gal_json_writer *out, const gal_framework *framework)
{
    gal_json_put_string(out, "document", "framework");
    gal_json_put_u64(out, "version", GAL_FRAMEWORK_VERSION);
    gal_json_put_string(out, "name", framework->name);
    gal_json_put_string(out, "source", framework->source);
#define X(member) gal_json_put_bool(out, #member, framework->member);
    GAL_FRAMEWORK_FLAGS(X)
#undef X
#define X(member, least, most) gal_json_put_f64(out, #member, framework->member);
    GAL_FRAMEWORK_NUMBERS(X)
#undef X
}

static bool read_framework(const gal_json_cursor *at, void *document)
{
    gal_framework_read_at(at, document);
    return true;
}

static void write_framework(gal_json_writer *out, const void *document)
{
    gal_framework_write_at(out, document);
}

const gal_document_form gal_framework_form = {sizeof(gal_framework), read_framework, NULL, write_framework, NULL};

gal_code gal_framework_read(const char *path, gal_framework *out, gal_error *err)
{
    return gal_document_read(GAL_DOCUMENT_FRAMEWORK, path, out, err);
}
