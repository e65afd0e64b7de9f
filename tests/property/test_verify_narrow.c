/* Programs of 16 bits under random plans: every operand is of the type that its operator reads or writes, and the
 * verifier refuses an instruction of another type and an update that leaves out or repeats the masters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "runtime/program/verify/verify.h"
#include "tests/support/mutate.h"
#include "tests/support/random_plan.h"

enum { PLANS = 60, STAGES_MAX = 8, SPOTS = 12 };

typedef struct lowered {
    gal_plan plan;
    gal_program *program[STAGES_MAX];
} lowered;

static void lower_random(uint64_t seed, lowered *out)
{
    static const uint32_t worlds[] = {1, 2, 4, 8, 3, 6};
    gal_error err = {GAL_OK, ""};
    gal_random_plan(seed, worlds[seed % 6], &out->plan);
    out->plan.model.compute_dtype = seed % 2 == 0 ? GAL_BF16 : GAL_FP16;
    if (gal_lower_plan(&out->plan, out->program, &err) != GAL_OK) {
        fail_msg("seed %llu: %s", (unsigned long long)seed, err.text);
    }
}

static void release(lowered *l)
{
    for (uint32_t s = 0; s < l->plan.stage_count; s++) {
        gal_program_free(l->program[s]);
    }
    gal_plan_free(&l->plan);
}

/* ---- wrong programs ---- */

typedef void (*edit)(gal_program *p, uint32_t instruction);

/* The shape of one instruction alone, to be changed. */
static gal_shape *own_shape(gal_program *p, uint32_t instruction)
{
    gal_shape *grown = realloc(p->shape, ((size_t)p->shape_count + 1) * sizeof *grown);
    assert_non_null(grown);
    p->shape = grown;
    grown[p->shape_count] = grown[p->instruction[instruction].shape];
    p->instruction[instruction].shape = p->shape_count;
    return &grown[p->shape_count++];
}

static void other_type(gal_program *p, uint32_t instruction)
{
    gal_shape *shape = own_shape(p, instruction);
    shape->dtype = gal_dtype_is_narrow(shape->dtype) ? GAL_FP32 : p->dtype;
}

/* The same bytes per element. */
static void other_narrow_type(gal_program *p, uint32_t instruction)
{
    gal_shape *shape = own_shape(p, instruction);
    shape->dtype = shape->dtype == GAL_BF16 ? GAL_FP16 : GAL_BF16;
}

static void without_master(gal_program *p, uint32_t instruction)
{
    p->instruction[instruction].operand_count--;
}

static void moment_for_master(gal_program *p, uint32_t instruction)
{
    gal_operand *operand = &p->operand[p->instruction[instruction].first_operand];
    operand[5].buffer = operand[2].buffer;
}

static void master_read_only(gal_program *p, uint32_t instruction)
{
    p->operand[p->instruction[instruction].first_operand + 5].access = GAL_READ;
}

static void narrow_gradient(gal_program *p, uint32_t instruction)
{
    own_shape(p, instruction)->dims[3] &= ~(uint32_t)GAL_GEMM_FP32_C;
}

/* What comes behind it is left out. */
static void updated_twice(gal_program *p, uint32_t instruction)
{
    p->instruction[instruction + 1] = p->instruction[instruction];
}

static void refuse(const lowered *l, uint32_t stage, uint32_t instruction, edit change, const char *name)
{
    gal_program *changed[STAGES_MAX];
    gal_error err = {GAL_OK, ""};
    for (uint32_t s = 0; s < l->plan.stage_count; s++) {
        changed[s] = gal_program_clone(l->program[s]);
        assert_non_null(changed[s]);
    }
    change(changed[stage], instruction);
    if (gal_verify(changed, l->plan.stage_count, &err) != GAL_NO) {
        char line[512];
        gal_instruction_print(l->program[stage], instruction, line, sizeof line);
        fail_msg("%s is not refused: %s", name, line);
    }
    for (uint32_t s = 0; s < l->plan.stage_count; s++) {
        gal_program_free(changed[s]);
    }
}

/* ---- plans ---- */

static bool is_of(const gal_program *p, uint32_t i, gal_op op)
{
    return p->instruction[i].op == op;
}

/* Of a single microbatch plain backward is not. */
static bool is_called(const gal_program *p, uint32_t i)
{
    const uint32_t fragment = gal_program_fragment_of(p, i);
    bool called = gal_fragment_kind_of(fragment) == GAL_FRAGMENT_EVALUATE || fragment == GAL_FRAGMENT_EVALUATE_END;
    for (uint32_t c = 0; !called && c < p->call_count; c++) {
        called = p->call[c].fragment == fragment;
    }
    return called;
}

static bool has_float_type(const gal_program *p, uint32_t i)
{
    const gal_dtype dtype = p->shape[p->instruction[i].shape].dtype;
    return dtype == GAL_FP32 || gal_dtype_is_narrow(dtype);
}

static bool adds_weights(const gal_program *p, uint32_t i)
{
    return is_of(p, i, GAL_OP_GEMM) && (p->shape[p->instruction[i].shape].dims[3] & GAL_GEMM_FP32_C) != 0;
}

static void test_types(void **unused)
{
    (void)unused;
    uint32_t wide = 0, narrow = 0;
    for (uint64_t seed = 1; seed <= PLANS; seed++) {
        lowered l;
        uint64_t random = seed;
        lower_random(seed, &l);
        for (uint32_t spot = 0; spot < SPOTS; spot++) {
            const uint32_t stage = gal_random_below(&random, l.plan.stage_count);
            const gal_program *p = l.program[stage];
            const uint32_t i = gal_random_below(&random, p->instruction_count);
            if (!has_float_type(p, i) || !is_called(p, i)) {
                continue;
            }
            refuse(&l, stage, i, other_type, "another width");
            if (gal_dtype_is_narrow(p->shape[p->instruction[i].shape].dtype)) {
                refuse(&l, stage, i, other_narrow_type, "another type of 16 bits");
                narrow++;
            } else {
                wide++;
            }
            if (adds_weights(p, i)) {
                refuse(&l, stage, i, narrow_gradient, "a gradient of 16 bits");
            }
        }
        release(&l);
    }
    print_message("%u instructions of 16 bits, %u of fp32\n", narrow, wide);
    assert_true(narrow > 100 && wide > 20);
}

static void test_masters(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= PLANS; seed++) {
        lowered l;
        gal_error err = {GAL_OK, ""};
        lower_random(seed, &l);
        assert_int_equal(gal_verify(l.program, l.plan.stage_count, &err), GAL_OK);
        const uint32_t stage = (uint32_t)(seed % l.plan.stage_count);
        const gal_program *p = l.program[stage];
        uint32_t i = p->fragment[GAL_FRAGMENT_UPDATE].first;
        while (!is_of(p, i, GAL_OP_ADAM)) {
            i++;
        }
        assert_int_equal(p->instruction[i].operand_count, 6);
        refuse(&l, stage, i, without_master, "an update without its master");
        refuse(&l, stage, i, moment_for_master, "a moment for a master");
        refuse(&l, stage, i, master_read_only, "a master that is not written");
        refuse(&l, stage, i, updated_twice, "an update for another");
        release(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_types), cmocka_unit_test(test_masters)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
