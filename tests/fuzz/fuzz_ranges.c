/* --batch and --microbatches: lists, ranges and max:N. Values are positive and in the order of the text. */
#include <stdlib.h>
#include <string.h>

#include "planner/space/ranges.h"
#include "tests/fuzz/input.h"

typedef gal_code parser(const char *option, const char *text, gal_u32_list *out, gal_error *err);

static void try(parser *parse, const char *text)
{
    gal_error err = {0};
    gal_u32_list list = {.count = UINT32_MAX};
    gal_code code = parse("batch", text, &list, &err);
    if (code != GAL_OK) {
        GAL_FUZZ_REQUIRE(code == GAL_ERR_USAGE && err.code == code && strchr(err.text, '\n') == NULL);
        GAL_FUZZ_REQUIRE(strncmp(err.text, "--batch: ", 9) == 0);
        GAL_FUZZ_REQUIRE(list.count == UINT32_MAX);
        return;
    }
    GAL_FUZZ_REQUIRE(list.count >= 1 && list.count <= GAL_U32_LIST_MAX);
    for (uint32_t i = 0; i < list.count; i++) {
        GAL_FUZZ_REQUIRE(list.value[i] >= 1);
        GAL_FUZZ_REQUIRE(i == 0 || strchr(text, ':') == NULL || list.value[i] > list.value[i - 1]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    char *text = malloc(byte_count + 1);
    GAL_FUZZ_REQUIRE(text != NULL);
    memcpy(text, bytes, byte_count);
    text[byte_count] = '\0';
    try(gal_parse_batches, text);
    try(gal_parse_microbatches, text);
    free(text);
    return 0;
}
