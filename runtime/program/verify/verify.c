/* All checks, the cheapest first; each is stated in its own file. */
#include "runtime/program/verify/verify.h"

gal_code gal_verify(gal_program *const *programs, uint32_t stage_count, gal_error *err)
{
    gal_code code = gal_verify_schedule(programs, stage_count, err);
    code = code == GAL_OK ? gal_verify_types(programs, stage_count, err) : code;
    code = code == GAL_OK ? gal_verify_queues(programs, stage_count, err) : code;
    return code == GAL_OK ? gal_verify_clocks(programs, stage_count, err) : code;
}
