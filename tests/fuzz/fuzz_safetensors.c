/* A safetensors file: first the bytes as a whole file, then as a header whose length and data are as they should be, so
 * that what is behind the first 8 bytes is reached. What is read is finite bytes of the file or refused in one line. */
#include <string.h>

#include "runtime/train/safetensors.h"
#include "tests/fuzz/checkpoint.h"
#include "tests/fuzz/input.h"

enum { HEADER_BYTES_MAX = 1 << 13, LENGTH_BYTES = 8, DATA_BYTES = 4096 };

static void check_file(const gal_fuzz_checkpoint *checkpoint, const uint8_t *bytes, size_t byte_count)
{
    const gal_world alone = {.deadline_seconds = 10.0};
    gal_error err = {0};
    static const char *path;
    path = path != NULL ? path : gal_fuzz_path("weights.safetensors");
    gal_fuzz_write(path, bytes, byte_count);
    const gal_code code = gal_safetensors_load(path, &checkpoint->state, &alone, NULL, &err);
    if (code != GAL_OK) {
        gal_fuzz_require_refusal(code, &err);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    static uint8_t file[LENGTH_BYTES + HEADER_BYTES_MAX + DATA_BYTES];
    const gal_fuzz_checkpoint *checkpoint = gal_fuzz_checkpoint_get();
    check_file(checkpoint, bytes, byte_count);
    if (byte_count <= HEADER_BYTES_MAX) {
        for (uint32_t i = 0; i < LENGTH_BYTES; i++) {
            file[i] = (uint8_t)(byte_count >> 8 * i);
        }
        memcpy(file + LENGTH_BYTES, bytes, byte_count);
        memset(file + LENGTH_BYTES + byte_count, 0x3C, DATA_BYTES);
        check_file(checkpoint, file, LENGTH_BYTES + byte_count + DATA_BYTES);
    }
    return 0;
}
