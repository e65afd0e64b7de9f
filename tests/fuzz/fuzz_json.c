/* The JSON reader by itself: whatever the scanner lets by, cJSON parses, and every cursor call either answers or
 * records one error. Numbers and strings that are read are written and read again to the same bits. */
#include <float.h>
#include <string.h>

#include "tests/fuzz/input.h"

enum { TEXT_BYTES = 64 };

static const char *const keys[] = {"a", "b", "version", "document", "items"};
static const char *const names[] = {"one", "two", "three"};
enum { KEYS = sizeof keys / sizeof keys[0] };

static void require_same_number(double value)
{
    gal_json_writer *out = gal_json_writer_create();
    gal_json_doc *doc = NULL;
    const char *text = NULL;
    size_t byte_count = 0;
    gal_json_begin_object(out, NULL);
    gal_json_put_f64(out, "a", value);
    gal_json_end_object(out);
    GAL_FUZZ_REQUIRE(gal_json_writer_text(out, &text, &byte_count, NULL) == GAL_OK);
    GAL_FUZZ_REQUIRE(gal_json_open_text("again", text, byte_count, &doc, NULL) == GAL_OK);
    gal_json_cursor root = gal_json_root(doc);
    double again = gal_json_f64(&root, "a", -DBL_MAX, DBL_MAX);
    GAL_FUZZ_REQUIRE(memcmp(&again, &value, sizeof value) == 0);
    gal_json_close(doc);
    gal_json_writer_free(out);
}

/* One way of asking per value of `choice`, so that an input reaches all of them. */
static void ask(const gal_json_cursor *at, const char *key, uint32_t choice)
{
    char text[TEXT_BYTES];
    uint32_t count = 0;
    switch (choice % 8) {
    case 0:
        require_same_number(gal_json_f64(at, key, -DBL_MAX, DBL_MAX));
        break;
    case 1:
        GAL_FUZZ_REQUIRE(gal_json_u64(at, key, 0, UINT64_C(1) << 53) <= UINT64_C(1) << 53);
        break;
    case 2:
        (void)gal_json_bool(at, key);
        break;
    case 3:
        gal_json_string(at, key, text, sizeof text);
        GAL_FUZZ_REQUIRE(strlen(text) < sizeof text);
        break;
    case 4:
        GAL_FUZZ_REQUIRE(gal_json_enum(at, key, names, 3) < 3);
        break;
    case 5: {
        gal_json_cursor items = gal_json_array(at, key, 0, 1000, &count);
        for (uint32_t i = 0; i < count; i++) {
            gal_json_cursor item = gal_json_element(&items, i);
            (void)gal_json_f64(&item, "a", 0.0, GAL_JSON_BELOW_ONE);
            gal_json_reject_unknown(&item);
        }
        break;
    }
    case 6: {
        gal_json_cursor items = gal_json_array(at, key, 0, 1000, &count);
        for (uint32_t i = 0; i < count; i++) {
            (void)gal_json_element_u64(&items, i, 1, 1000);
        }
        break;
    }
    default: {
        gal_json_cursor object = gal_json_object(at, key);
        (void)gal_json_is_null(&object, "a");
        (void)gal_json_u32(&object, "b", 1, 10);
        gal_json_reject_unknown(&object);
    }
    }
}

static void walk(gal_json_doc *doc, const uint8_t *choices)
{
    gal_error err = {0};
    char hash[17];
    gal_json_cursor root = gal_json_root(doc);
    if (choices[KEYS] % 2 == 0) {
        gal_json_expect_document(&root, "model", 1);
    }
    for (uint32_t i = 0; i < KEYS; i++) {
        if (choices[i] >= 128 || gal_json_has(&root, keys[i])) {
            ask(&root, keys[i], choices[i]);
        }
    }
    gal_json_reject_unknown(&root);
    if (choices[KEYS] >= 128) {
        gal_json_error_at_path(doc, "/items/1/a/0", "rule of a struct");
    }
    gal_json_hash(doc, hash);
    GAL_FUZZ_REQUIRE(strlen(hash) == 16);
    gal_code code = gal_json_status(doc, &err);
    if (code != GAL_OK) {
        gal_fuzz_require_refusal(code, &err);
    }
}

/* The last bytes choose how the keys are read, so that the text itself begins where a document does. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    uint8_t choices[KEYS + 1] = {0};
    if (byte_count > sizeof choices) {
        byte_count -= sizeof choices;
        memcpy(choices, bytes + byte_count, sizeof choices);
    }
    gal_json_doc *doc = gal_fuzz_open(bytes, byte_count);
    if (doc != NULL) {
        walk(doc, choices);
    }
    gal_json_close(doc);
    return 0;
}
