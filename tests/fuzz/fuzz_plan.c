/* Plan documents. A plan that is accepted is lowered, where its counts are small enough to be quick: programs that
 * fit their arenas and pass every check of the verifier, or one clear refusal. Sizes of tensors are not bounded. */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/program/verify/verify.h"
#include "schemas/document.h"
#include "schemas/limits.h"
#include "schemas/plan_check.h"
#include "tests/fuzz/input.h"

enum { LAYERS_MAX = 4, DEVICES_MAX = 16, STAGES_MAX = 4, MICROBATCHES_MAX = 6 };

__extension__ typedef unsigned __int128 wide;

/* In 128 bits, what the program computed in 64. */
static void require_no_overflow(const gal_program *program)
{
    for (uint32_t c = 0; c < gal_program_arenas(program); c++) {
        const gal_class_arena *arena = &program->arena[c];
        const gal_medium medium = gal_class_medium(gal_arena_class(c));
        const wide end = (wide)program->arena_bytes + (medium >= GAL_MEDIUM_HOST ? program->host_bytes : 0) +
                         (medium == GAL_MEDIUM_STORAGE ? program->storage_bytes : 0);
        const wide items = (wide)arena->item_bytes * arena->count;
        GAL_FUZZ_REQUIRE(arena->item_bytes == 0 || arena->offset + items <= end);
    }
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        const gal_buffer *buffer = &program->buffer[b];
        const wide buffer_end = (wide)buffer->offset + buffer->bytes;
        GAL_FUZZ_REQUIRE(buffer_end <= program->arena[buffer->arena].item_bytes);
    }
}

static void lower(const gal_plan *plan)
{
    gal_error err = {0};
    gal_program *programs[STAGES_MAX] = {0};
    gal_code code = gal_lower_plan(plan, programs, &err);
    if (code != GAL_OK) {
        GAL_FUZZ_REQUIRE(code == GAL_ERR_DOCUMENT);
        gal_fuzz_require_refusal(code, &err);
        return;
    }
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        require_no_overflow(programs[s]);
    }
    if (gal_verify(programs, plan->stage_count, &err) != GAL_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        abort();
    }
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        gal_program_free(programs[s]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    gal_plan plan = {0};
    gal_plan again = {0};
    if (gal_fuzz_round_trip(GAL_DOCUMENT_PLAN, bytes, byte_count, &plan, &again)) {
        char name[GAL_STRATEGY_NAME_BYTES];
        for (uint32_t r = 0; r < plan.run_count; r++) {
            (void)gal_strategy_name(&plan.run[r].strategy, name);
            GAL_FUZZ_REQUIRE(gal_strategy_equal(&plan.run[r].strategy, &again.run[r].strategy));
        }
        if (plan.model.layer_count <= LAYERS_MAX && plan.cluster.device_count <= DEVICES_MAX &&
            plan.stage_count <= STAGES_MAX && plan.microbatch_count <= MICROBATCHES_MAX) {
            lower(&plan);
        }
    }
    gal_plan_free(&again);
    gal_plan_free(&plan);
    return 0;
}
