#include "schemas/constants.h"

#include "schemas/document.h"
#include "schemas/limits.h"

enum { ROWS_MAX = 1000000 };

#define X(enumerator, name, least, most) [enumerator] = name,
const char *const gal_constant_names[GAL_CONSTANT_COUNT] = {GAL_CONSTANTS(X)};
#undef X
#define X(enumerator, name, least, most) [enumerator] = least,
const double gal_constant_least[GAL_CONSTANT_COUNT] = {GAL_CONSTANTS(X)};
#undef X
#define X(enumerator, name, least, most) [enumerator] = most,
const double gal_constant_most[GAL_CONSTANT_COUNT] = {GAL_CONSTANTS(X)};
#undef X

static void read_fitted(const gal_json_cursor *at, gal_constants *out)
{
    uint32_t count = 0;
    gal_json_cursor list = gal_json_array(at, "fitted", 0, GAL_CONSTANT_COUNT, &count);
    for (uint32_t i = 0; i < count; i++) {
        gal_json_cursor each = gal_json_element(&list, i);
        const uint32_t which = gal_json_enum(&each, "constant", gal_constant_names, GAL_CONSTANT_COUNT);
        if (out->fitted[which]) {
            gal_json_member_error(&each, "constant", "must not be named twice");
        }
        out->fitted[which] = true;
        out->value[which] = gal_json_f64(&each, "value", gal_constant_least[which], gal_constant_most[which]);
        out->log_deviation[which] = gal_json_f64(&each, "log_deviation", 0.0, GAL_SECONDS_MAX);
        gal_json_reject_unknown(&each);
    }
}

void gal_constants_read_at(const gal_json_cursor *at, gal_constants *out)
{
    gal_json_expect_document(at, "constants", GAL_CONSTANTS_VERSION);
    gal_json_string(at, "name", out->name, sizeof out->name);
    gal_json_string(at, "cluster", out->cluster, sizeof out->cluster);
    gal_json_string(at, "framework", out->framework, sizeof out->framework);
    out->row_count = gal_json_u32(at, "row_count", 1, ROWS_MAX);
    out->median_error = gal_json_f64(at, "median_error", 0.0, GAL_CONSTANTS_FACTOR_MAX);
    out->seconds_low_factor = gal_json_f64(at, "seconds_low_factor", GAL_POSITIVE_MIN, 1.0);
    out->seconds_high_factor = gal_json_f64(at, "seconds_high_factor", 1.0, GAL_CONSTANTS_FACTOR_MAX);
    read_fitted(at, out);
    gal_json_reject_unknown(at);
}

void gal_constants_write_at(gal_json_writer *out, const gal_constants *constants)
{
    gal_json_put_string(out, "document", "constants");
    gal_json_put_u64(out, "version", GAL_CONSTANTS_VERSION);
    gal_json_put_string(out, "name", constants->name);
    gal_json_put_string(out, "cluster", constants->cluster);
    gal_json_put_string(out, "framework", constants->framework);
    gal_json_put_u64(out, "row_count", constants->row_count);
    gal_json_put_f64(out, "median_error", constants->median_error);
    gal_json_put_f64(out, "seconds_low_factor", constants->seconds_low_factor);
    gal_json_put_f64(out, "seconds_high_factor", constants->seconds_high_factor);
    gal_json_begin_array(out, "fitted");
    for (uint32_t i = 0; i < GAL_CONSTANT_COUNT; i++) {
        if (constants->fitted[i]) {
            gal_json_begin_object(out, NULL);
            gal_json_put_string(out, "constant", gal_constant_names[i]);
            gal_json_put_f64(out, "value", constants->value[i]);
            gal_json_put_f64(out, "log_deviation", constants->log_deviation[i]);
            gal_json_end_object(out);
        }
    }
    gal_json_end_array(out);
}

static bool read_constants(const gal_json_cursor *at, void *document)
{
    gal_constants_read_at(at, document);
    return true;
}

static void write_constants(gal_json_writer *out, const void *document)
{
    gal_constants_write_at(out, document);
}

const gal_document_form gal_constants_form = {sizeof(gal_constants), read_constants, NULL, write_constants, NULL};

gal_code gal_constants_read(const char *path, gal_constants *out, gal_error *err)
{
    return gal_document_read(GAL_DOCUMENT_CONSTANTS, path, out, err);
}

gal_code gal_constants_write(const char *path, const gal_constants *constants, gal_error *err)
{
    return gal_document_write(GAL_DOCUMENT_CONSTANTS, path, constants, err);
}
