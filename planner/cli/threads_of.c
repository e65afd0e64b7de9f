#include "planner/cli/threads_of.h"

gal_code gal_cli_threads_of(gal_profile *profile, uint32_t threads, gal_error *err)
{
    if (threads == 0) {
        return GAL_OK;
    }
    if (!profile->has_host) {
        return gal_fail(err, GAL_ERR_USAGE, "--threads: the profile has no rates by threads: measure it anew");
    }
    if (!profile->has_gpu && threads != profile->host.threads_per_rank) {
        return gal_fail(err, GAL_ERR_USAGE,
                        "--threads %u: the profile's kernels ran on %u threads per rank: measure it with as many "
                        "(galplan profile --threads)",
                        threads, profile->host.threads_per_rank);
    }
    profile->host.threads_per_rank = threads;
    return GAL_OK;
}
