/* index.json of a checkpoint whose files are whole. */
#include "tests/fuzz/checkpoint.h"
#include "tests/fuzz/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    const gal_fuzz_checkpoint *checkpoint = gal_fuzz_checkpoint_get();
    gal_fuzz_write(checkpoint->index_path, bytes, byte_count);
    (void)gal_fuzz_checkpoint_load(checkpoint);
    return 0;
}
