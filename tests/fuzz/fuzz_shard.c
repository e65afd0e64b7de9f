/* The file of a rank. First under the index that was saved: other bytes than those that were written are refused.
 * Then as if the index named these very bytes: the reader itself, without the checksum's protection. */
#include <stdlib.h>
#include <string.h>

#include "runtime/train/shard_file.h"
#include "schemas/base/file.h"
#include "schemas/base/fnv.h"
#include "tests/fuzz/checkpoint.h"
#include "tests/fuzz/input.h"

enum { SHARD_BYTES_MAX = 1 << 20 };

static char *whole; /* the file as it was saved */
static size_t whole_count;

static void forget(void)
{
    free(whole);
}

static void check_under_index(const gal_fuzz_checkpoint *checkpoint, const uint8_t *bytes, size_t byte_count)
{
    const bool is_whole = byte_count >= whole_count && memcmp(bytes, whole, whole_count) == 0;
    const gal_code code = gal_fuzz_checkpoint_load(checkpoint);
    GAL_FUZZ_REQUIRE(is_whole || code == GAL_ERR_DOCUMENT);
}

static void check_reader(const gal_fuzz_checkpoint *checkpoint, const uint8_t *bytes, size_t byte_count)
{
    gal_error err = {0};
    const gal_shard_record record = {.file_bytes = byte_count, .checksum = gal_fnv(GAL_FNV_START, bytes, byte_count)};
    gal_code code = gal_shard_check(checkpoint->directory, &checkpoint->state, &record, &err);
    GAL_FUZZ_REQUIRE((code == GAL_OK) == (byte_count == whole_count));
    if (code == GAL_OK) {
        code = gal_shard_read(checkpoint->directory, &checkpoint->state, &err);
        GAL_FUZZ_REQUIRE(code == GAL_OK);
    } else {
        gal_fuzz_require_refusal(code, &err);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    const gal_fuzz_checkpoint *checkpoint = gal_fuzz_checkpoint_get();
    if (whole == NULL) {
        GAL_FUZZ_REQUIRE(gal_file_read(checkpoint->shard_path, SHARD_BYTES_MAX, &whole, &whole_count, NULL) == GAL_OK);
        GAL_FUZZ_REQUIRE(atexit(forget) == 0);
    }
    gal_fuzz_write(checkpoint->shard_path, bytes, byte_count);
    check_under_index(checkpoint, bytes, byte_count);
    check_reader(checkpoint, bytes, byte_count);
    return 0;
}
