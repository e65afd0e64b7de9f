/* Lowering: small programs whose instructions, waits and bytes are worked by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/program/program.h"
#include "schemas/plan_check.h"

typedef struct fixture {
    gal_plan plan;
    gal_plan_stage stage[2];
    gal_plan_run run[2];
    gal_program *program[2];
} fixture;

static gal_strategy one_axis(gal_axis_kind kind, uint32_t degree)
{
    gal_strategy s;
    memset(&s, 0, sizeof s);
    s.axis_count = degree > 1;
    s.axis[0] = degree > 1 ? (gal_axis){kind, degree} : s.axis[0];
    s.zero_stage = kind == GAL_AXIS_SDP ? 3 : 0;
    return s;
}

/* One layer, hidden 8, sequence 4, vocabulary 16, batch 8 in 4 microbatches of 2 samples, all blocks alike. */
static void lower(fixture *f, uint32_t device_count, uint32_t pp_degree, const gal_strategy *strategy,
                  gal_schedule schedule)
{
    memset(f, 0, sizeof *f);
    gal_plan *plan = &f->plan;
    gal_error err = {0};
    gal_model_defaults(&plan->model);
    snprintf(plan->model.name, sizeof plan->model.name, "tiny");
    plan->model.layer_count = 1;
    plan->model.hidden = 8;
    plan->model.head_count = 2;
    plan->model.ffn_hidden = 16;
    plan->model.sequence_length = 4;
    plan->model.vocabulary = 16;
    plan->model.vocabulary_multiple = 16;
    plan->model.tied_embeddings = false;
    plan->cluster.device_count = device_count;
    plan->global_batch_samples = 8;
    plan->microbatch_count = 4;
    plan->pp_degree = pp_degree;
    plan->schedule = schedule;
    plan->prefetch_depth = 2;
    plan->stage_count = pp_degree;
    plan->stage = f->stage;
    plan->run = f->run;
    plan->run_count = pp_degree;
    for (uint32_t p = 0; p < pp_degree; p++) {
        f->stage[p] = (gal_plan_stage){.first_run = p, .run_count = 1};
        f->run[p] = (gal_plan_run){4 / pp_degree, *strategy};
    }
    assert_int_equal(gal_lower_plan(plan, f->program, &err), GAL_OK);
}

static void release(fixture *f)
{
    for (uint32_t p = 0; p < f->plan.stage_count; p++) {
        gal_program_free(f->program[p]);
    }
}

static uint32_t count_ops(const gal_program *p, gal_fragment_kind fragment, gal_op op)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->fragment[fragment].count; i++) {
        count += p->instruction[p->fragment[fragment].first + i].op == op;
    }
    return count;
}

static uint64_t class_bytes(const gal_program *p, gal_class class)
{
    return p->arena[class].item_bytes * p->arena[class].count;
}

/* One device: no collective but the norm's (over one rank), no wait but for it. */
static void test_serial(void **state)
{
    (void)state;
    fixture f;
    gal_strategy serial = one_axis(GAL_AXIS_DP, 1);
    lower(&f, 1, 1, &serial, GAL_SCHEDULE_GPIPE);
    const gal_program *p = f.program[0];
    /* qkv, proj, ffn1, ffn2 forward; the head runs in backward: its GEMM, then dX and dW of five linears */
    assert_int_equal(count_ops(p, GAL_FRAGMENT_FORWARD, GAL_OP_GEMM), 4);
    assert_int_equal(count_ops(p, GAL_FRAGMENT_BACKWARD_SYNC, GAL_OP_GEMM), 1 + 2 * 5);
    assert_int_equal(count_ops(p, GAL_FRAGMENT_UPDATE, GAL_OP_ALL_REDUCE), 1);
    assert_int_equal(p->fragment[GAL_FRAGMENT_BACKWARD].count, p->fragment[GAL_FRAGMENT_BACKWARD_SYNC].count);
    for (uint32_t i = 0; i < p->instruction_count; i++) {
        bool touches_norm = strcmp(p->instruction[i].name, "norm") == 0 ||
                            strcmp(p->instruction[i].name, "adam") == 0 || strcmp(p->instruction[i].name, "loss") == 0;
        assert_true(p->instruction[i].wait_count == 0 || touches_norm);
    }
    /* units of wte, wpe; vectors, qkv, proj; vectors, fc, proj; vectors, head: elements */
    static const uint64_t elements[] = {16 * 8, 4 * 8, 3 * 8, 8 * 24 + 24, 64, 3 * 8, 8 * 16 + 16, 128, 2 * 8, 16 * 8};
    assert_int_equal(p->unit_count, sizeof elements / sizeof elements[0]);
    uint64_t bytes = 0;
    for (uint32_t u = 0; u < p->unit_count; u++) {
        assert_int_equal(p->unit[u].elements, elements[u]);
        bytes += (elements[u] * 4 + 255) / 256 * 256;
    }
    assert_int_equal(class_bytes(p, GAL_CLASS_GRADIENT), bytes);
    assert_int_equal(class_bytes(p, GAL_CLASS_STATE), 3 * bytes + 2 * 256); /* w, m, v; loss and norm */
    assert_int_equal(p->in_flight, 4);                                      /* GPipe holds all microbatches */
    release(&f);
}

/* Tensor parallel 2: one all-reduce behind each row-parallel linear and behind the embedding forward; in backward one
 * in front of each column-parallel linear, the head's included, and the two of the loss. */
static void test_tensor_parallel(void **state)
{
    (void)state;
    fixture f;
    gal_strategy tp = one_axis(GAL_AXIS_TP, 2);
    lower(&f, 2, 1, &tp, GAL_SCHEDULE_GPIPE);
    assert_int_equal(count_ops(f.program[0], GAL_FRAGMENT_FORWARD, GAL_OP_ALL_REDUCE), 3);
    assert_int_equal(count_ops(f.program[0], GAL_FRAGMENT_BACKWARD_SYNC, GAL_OP_ALL_REDUCE), 3 + 2);
    assert_int_equal(f.program[0]->unit[2].split_group, GAL_GROUP_NONE); /* vectors are whole on both */
    assert_int_equal(f.program[0]->unit[3].split_group, 1);
    release(&f);
    tp.recompute = GAL_RECOMPUTE_FULL; /* one more: proj's runs again (the embedding has nothing to run again, ffn2's
                                        * is dead): Oases section 3.3 */
    lower(&f, 2, 1, &tp, GAL_SCHEDULE_GPIPE);
    assert_int_equal(count_ops(f.program[0], GAL_FRAGMENT_BACKWARD_SYNC, GAL_OP_ALL_REDUCE), 3 + 2);
    release(&f);
}

/* Attention runs again and nothing else; its context and log-sum-exps are not kept. */
static void test_selective_recompute(void **state)
{
    (void)state;
    fixture f;
    gal_strategy plain = one_axis(GAL_AXIS_DP, 2);
    lower(&f, 2, 1, &plain, GAL_SCHEDULE_GPIPE);
    const uint64_t kept = class_bytes(f.program[0], GAL_CLASS_SAVED);
    const gal_model model = f.plan.model;
    const uint64_t rows = (uint64_t)f.program[0]->microbatch_samples / 2 * model.sequence_length;
    assert_int_equal(count_ops(f.program[0], GAL_FRAGMENT_BACKWARD_SYNC, GAL_OP_ATTENTION), 0);
    release(&f);
    plain.recompute = GAL_RECOMPUTE_SELECTIVE;
    lower(&f, 2, 1, &plain, GAL_SCHEDULE_GPIPE);
    const uint64_t layers = count_ops(f.program[0], GAL_FRAGMENT_FORWARD, GAL_OP_ATTENTION);
    assert_int_equal(count_ops(f.program[0], GAL_FRAGMENT_BACKWARD_SYNC, GAL_OP_ATTENTION), layers);
    assert_int_equal(count_ops(f.program[0], GAL_FRAGMENT_BACKWARD_SYNC, GAL_OP_LAYER_NORM), 1); /* the head's */
    const uint64_t context = (rows * model.hidden * 4 + 255) / 256 * 256;
    const uint64_t sums = (rows * model.head_count * 4 + 255) / 256 * 256;
    assert_int_equal(kept - class_bytes(f.program[0], GAL_CLASS_SAVED),
                     f.program[0]->in_flight * layers * (context + sums));
    release(&f);
}

/* 8 rows of 8 in fp32. Attention keeps x 256 bytes, its norm 256 and the norm's sums 64, queries, keys and values 768,
 * context 256, log-sum-exps 64: 1664; of 50 % (832) leave x, norm, sums (576), not the next 768, then context (832).
 * FFN keeps x 256, norm 256, sums 64, before and behind the activation 512 each: 1600; of 50 % (800) x, norm, sums. Of
 * 25 % (416, 400) go on to the file x and, as the norm does not fit, the sums (320). 4 microbatches in flight; buffers
 * are multiples of 256 bytes, of 4096 in the file and on the way there. */
static void test_share_of_activations(void **state)
{
    (void)state;
    fixture f;
    gal_strategy share = one_axis(GAL_AXIS_DP, 1);
    lower(&f, 1, 1, &share, GAL_SCHEDULE_GPIPE);
    const uint64_t kept = class_bytes(f.program[0], GAL_CLASS_SAVED);
    release(&f);
    share.offload_activations_percent = 50;
    lower(&f, 1, 1, &share, GAL_SCHEDULE_GPIPE);
    assert_int_equal(class_bytes(f.program[0], GAL_CLASS_HOST_SAVED), 4 * (4 + 3) * 256);
    assert_int_equal(class_bytes(f.program[0], GAL_CLASS_SAVED), kept - 4 * (4 + 3) * 256);
    assert_int_equal(f.program[0]->storage_bytes, 0);
    release(&f);
    share.offload_storage_activations_percent = 25;
    lower(&f, 1, 1, &share, GAL_SCHEDULE_GPIPE);
    const gal_program *p = f.program[0];
    assert_int_equal(class_bytes(p, GAL_CLASS_HOST_SAVED), 4 * (2 + 1) * 256);
    assert_int_equal(class_bytes(p, GAL_CLASS_STORAGE_SAVED), 4 * (2 + 2) * 4096);
    assert_int_equal(class_bytes(p, GAL_CLASS_STORED_SAVED), 3 * 4096);
    assert_int_equal(p->storage_bytes, 4 * (2 + 2) * 4096);
    static const gal_op out[] = {GAL_OP_COPY_OUT, GAL_OP_STORAGE_WRITE}, in[] = {GAL_OP_COPY_IN, GAL_OP_STORAGE_READ};
    static const uint32_t moved[] = {4 + 3, 2 + 2};
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(count_ops(p, GAL_FRAGMENT_FORWARD, out[i]), moved[i]);
        assert_int_equal(count_ops(p, GAL_FRAGMENT_BACKWARD_SYNC, in[i]), moved[i]);
        assert_int_equal(count_ops(p, GAL_FRAGMENT_EVALUATE, out[i]), 0); /* nobody asks for it again */
    }
    release(&f);
}

/* With sequence parallelism the same volume: a gather in front of each column-parallel linear, a scatter behind each
 * row-parallel one; backward gathers the gradient and, again, the input. */
static void test_sequence_parallel(void **state)
{
    (void)state;
    fixture f;
    gal_strategy sp = one_axis(GAL_AXIS_TP, 2);
    sp.sequence_parallel = true;
    lower(&f, 2, 1, &sp, GAL_SCHEDULE_GPIPE);
    const gal_program *p = f.program[0];
    assert_int_equal(count_ops(p, GAL_FRAGMENT_FORWARD, GAL_OP_ALL_GATHER), 2);
    assert_int_equal(count_ops(p, GAL_FRAGMENT_FORWARD, GAL_OP_REDUCE_SCATTER), 3);
    assert_int_equal(count_ops(p, GAL_FRAGMENT_BACKWARD_SYNC, GAL_OP_ALL_GATHER), 2 + 3 + 1);
    assert_int_equal(count_ops(p, GAL_FRAGMENT_BACKWARD_SYNC, GAL_OP_REDUCE_SCATTER), 3);
    release(&f);
}

/* ZeRO-3: a gather per matrix forward, one backward; a scatter per matrix and microbatch. */
static void test_zero3(void **state)
{
    (void)state;
    fixture f;
    gal_strategy zero = one_axis(GAL_AXIS_SDP, 2);
    lower(&f, 2, 1, &zero, GAL_SCHEDULE_GPIPE);
    const gal_program *p = f.program[0];
    assert_int_equal(count_ops(p, GAL_FRAGMENT_FORWARD, GAL_OP_ALL_GATHER), 6);  /* wte wpe qkv proj fc proj */
    assert_int_equal(count_ops(p, GAL_FRAGMENT_BACKWARD, GAL_OP_ALL_GATHER), 5); /* head, and all but the embedding */
    assert_int_equal(count_ops(p, GAL_FRAGMENT_BACKWARD, GAL_OP_REDUCE_SCATTER), 7);
    assert_int_equal(count_ops(p, GAL_FRAGMENT_BACKWARD_SYNC, GAL_OP_ALL_REDUCE), 3); /* vectors are not sharded */
    assert_int_equal(count_ops(p, GAL_FRAGMENT_UPDATE, GAL_OP_ALL_GATHER), 0);
    /* the ring in turns, forward: wte qkv fc | wpe proj proj; backward: head fc qkv | proj proj. The first buffer holds
     * qkv, 216 elements, 864 B of 1024; the second fc's proj, 512 B */
    assert_int_equal(class_bytes(p, GAL_CLASS_GATHERED), 1024 + 512);
    release(&f);
}

static void test_schedules(void **state)
{
    (void)state;
    fixture f;
    gal_strategy serial = one_axis(GAL_AXIS_DP, 1);
    static const gal_call first[] = {
        {GAL_FRAGMENT_FORWARD, 0},  {GAL_FRAGMENT_FORWARD, 1},       {GAL_FRAGMENT_BACKWARD, 0},
        {GAL_FRAGMENT_FORWARD, 2},  {GAL_FRAGMENT_BACKWARD, 1},      {GAL_FRAGMENT_FORWARD, 3},
        {GAL_FRAGMENT_BACKWARD, 2}, {GAL_FRAGMENT_BACKWARD_SYNC, 3}, {GAL_FRAGMENT_UPDATE, 0}};
    lower(&f, 2, 2, &serial, GAL_SCHEDULE_1F1B);
    assert_int_equal(f.program[0]->call_count, 9);
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(f.program[0]->call[i].fragment, first[i].fragment);
        assert_int_equal(f.program[0]->call[i].microbatch, first[i].microbatch);
    }
    assert_int_equal(f.program[0]->in_flight, 2);
    assert_int_equal(f.program[1]->in_flight, 1);
    assert_int_equal(f.program[1]->arena[GAL_CLASS_X_IN].count, 2); /* k + 1 */
    release(&f);
}

/* What the second stage receives goes on to the host, for its four microbatches in flight: on the device are two. */
static void test_received_input_leaves(void **state)
{
    (void)state;
    fixture kept, away;
    gal_strategy serial = one_axis(GAL_AXIS_DP, 1);
    lower(&kept, 2, 2, &serial, GAL_SCHEDULE_GPIPE);
    serial.offload_activations_percent = 100;
    lower(&away, 2, 2, &serial, GAL_SCHEDULE_GPIPE);
    const gal_class_arena *x_in = &away.program[1]->arena[GAL_CLASS_X_IN];
    assert_int_equal(kept.program[1]->arena[GAL_CLASS_X_IN].count, 4);
    assert_int_equal(x_in->count, 2);
    assert_int_equal(x_in->item_bytes, kept.program[1]->arena[GAL_CLASS_X_IN].item_bytes);
    assert_true(away.program[1]->arena[GAL_CLASS_HOST_SAVED].item_bytes > x_in->item_bytes); /* of x and of more */
    release(&kept);
    release(&away);
}

/* Parts are no larger than the plan says, and whole blocks of every kind: of weights half of it. */
static void test_parts_of_narrow_weights(void **state)
{
    enum { BLOCKS = 3 };
    (void)state;
    gal_error err = {0};
    gal_plan plan;
    gal_program *program = NULL;
    uint64_t most = 0;
    assert_int_equal(gal_plan_read("tests/numerics/plans/storage.json", &plan, &err), GAL_OK);
    plan.model.compute_dtype = GAL_BF16;
    plan.storage_part_bytes = BLOCKS * GAL_STORAGE_BLOCK_BYTES;
    plan.run[0].strategy.offload_storage_parameters_percent = 100;
    assert_int_equal(gal_plan_check(&plan, NULL, &err), GAL_OK);
    assert_int_equal(gal_lower(&plan, 0, &program, &err), GAL_OK);
    for (uint32_t i = 0; i < program->instruction_count; i++) {
        const gal_instruction *in = &program->instruction[i];
        const uint64_t bytes = program->operand[in->first_operand].bytes;
        const bool moves = in->op == GAL_OP_STORAGE_READ || in->op == GAL_OP_STORAGE_WRITE;
        most = moves && bytes > most ? bytes : most;
    }
    assert_int_equal(most, (BLOCKS - 1) * GAL_STORAGE_BLOCK_BYTES);
    gal_program_free(program);
    gal_plan_free(&plan);
}

/* The same plan gives the same program, byte for byte in print. */
static void test_repeatable(void **state)
{
    (void)state;
    char *text[2] = {NULL, NULL};
    size_t bytes[2] = {0, 0};
    for (uint32_t i = 0; i < 2; i++) {
        fixture f;
        gal_strategy zero = one_axis(GAL_AXIS_SDP, 2);
        lower(&f, 4, 2, &zero, GAL_SCHEDULE_1F1B);
        FILE *out = open_memstream(&text[i], &bytes[i]);
        gal_program_print(f.program[1], out);
        fclose(out);
        release(&f);
    }
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(text[0], text[1], bytes[0]);
    free(text[0]);
    free(text[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_serial),
                                       cmocka_unit_test(test_selective_recompute),
                                       cmocka_unit_test(test_tensor_parallel),
                                       cmocka_unit_test(test_sequence_parallel),
                                       cmocka_unit_test(test_zero3),
                                       cmocka_unit_test(test_schedules),
                                       cmocka_unit_test(test_share_of_activations),
                                       cmocka_unit_test(test_received_input_leaves),
                                       cmocka_unit_test(test_parts_of_narrow_weights),
                                       cmocka_unit_test(test_repeatable)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
