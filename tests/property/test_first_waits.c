/* Waits of a program's first fragments alone are those that it has where all are derived. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/plan_check.h"
#include "tests/support/priced_plan.h"

enum { PLANS = 60 };

/* The waits of an instruction, one behind the other. */
static gal_wait *copy_waits(const gal_program *program, uint32_t end)
{
    uint32_t count = 0;
    gal_wait *out = calloc((size_t)program->wait_count + 1, sizeof *out);
    assert_non_null(out);
    for (uint32_t i = 0; i < end; i++) {
        const gal_instruction *in = &program->instruction[i];
        for (uint32_t w = 0; w < in->wait_count; w++) {
            out[count++] = program->wait[in->first_wait + w];
        }
    }
    return out;
}

static uint32_t end_of_rounds(const gal_program *program)
{
    const gal_fragment *last = &program->fragment[GAL_FRAGMENT_BACKWARD];
    const gal_fragment *sync = &program->fragment[GAL_FRAGMENT_BACKWARD_SYNC];
    const uint32_t end = last->first + last->count, sync_end = sync->first + sync->count;
    return end > sync_end ? end : sync_end;
}

/* Returns how many waits there are. */
static uint32_t compare(gal_program *program)
{
    gal_error err = {0};
    const uint32_t end = end_of_rounds(program);
    uint16_t *waits = calloc((size_t)end + 1, sizeof *waits);
    gal_wait *all = copy_waits(program, end);
    uint32_t count = 0;
    assert_non_null(waits);
    for (uint32_t i = 0; i < end; i++) {
        waits[i] = program->instruction[i].wait_count;
        program->instruction[i].wait_count = 0;
        count += waits[i];
    }
    assert_int_equal(gal_program_derive_waits(program, GAL_FRAGMENT_UPDATE, &err), GAL_OK);
    gal_wait *first = copy_waits(program, end);
    for (uint32_t i = 0; i < end; i++) {
        assert_int_equal(program->instruction[i].wait_count, waits[i]);
    }
    for (uint32_t w = 0; w < count; w++) {
        assert_int_equal(first[w].kind, all[w].kind);
        assert_int_equal(first[w].stream, all[w].stream);
        assert_int_equal(first[w].target, all[w].target);
    }
    free(first);
    free(all);
    free(waits);
    return count;
}

static void first_fragments(void **unused)
{
    (void)unused;
    uint64_t state = 20;
    uint32_t count = 0;
    for (uint32_t i = 0; i < PLANS; i++) {
        gal_plan plan;
        gal_priced_describe(&state, &plan);
        gal_priced_turn_to((gal_family)(i % GAL_FAMILY_COUNT), &plan.model);
        gal_priced_fill(&state, &plan, i % 2 == 0, i % 3 == 0);
        gal_program **programs = gal_priced_lower(&plan);
        for (uint32_t s = 0; s < plan.stage_count; s++) {
            count += compare(programs[s]);
        }
        gal_priced_free(programs, plan.stage_count);
        gal_plan_free(&plan);
    }
    assert_true(count > 1000); /* some wait */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(first_fragments)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
