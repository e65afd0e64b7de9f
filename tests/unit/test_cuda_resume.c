/* Resuming in fp16: a run that goes on from any step ends in the files of the run that never stopped, with steps that
 * overflowed before and after. On the double of the CUDA runtime, with kernels that overflow where the scale of the
 * loss is too large for the step, and with an update that depends on it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/device/cuda/cuda.h"
#include "runtime/train/train.h"
#include "tests/support/cuda_double.h"
#include "tests/support/cuda_kernels.h"

enum { PATH_BYTES = 128, STEPS = 10, FILE_BYTES = 1 << 20 };

static char directory[64];
static gal_ops narrow;

/* Steps 1, 2 and those from 7 on overflow above these: with 32768 at first the scale is halved in steps 1, 2 and 7. */
static double largest_scale(uint64_t step)
{
    return step == 1 ? 20000.0 : step == 2 ? 10000.0 : step < 7 ? INFINITY : 5000.0;
}

/* ---- kernels ---- */

static void start_norm(void *payload)
{
    const gal_kernel_call *call = payload;
    const gal_kernel_step *step = call->device_step;
    double *norm = call->operand[call->operand_count - 1];
    norm[0] = step->gradient_scale > largest_scale(step->step) ? INFINITY : 1.0;
    norm[1] = 1.0;
}

static void update(void *payload)
{
    const gal_kernel_call *call = payload;
    const gal_kernel_step *step = call->device_step;
    const double *norm = call->operand[4];
    float *first_moment = call->operand[2], *master = call->operand[5];
    for (uint32_t i = 0; i < call->dims[0] && isfinite(norm[0]); i++) {
        first_moment[i] = (float)(step->step + i);
        master[i] += (float)(step->gradient_scale * 1e-6);
    }
}

static gal_code queue(void (*work)(void *payload), const gal_kernel_call *call)
{
    gal_cuda_double_launch(call->stream, work, call, sizeof *call);
    return GAL_OK;
}

static gal_code queue_norm(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    return queue(start_norm, call);
}

static gal_code queue_update(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    return queue(update, call);
}

static const gal_ops *ops_of(gal_dtype dtype)
{
    return dtype == GAL_FP16 ? &narrow : &gal_ops_queued_idle_fp32;
}

static const gal_backend backend = {.device = &gal_device_cuda, .ops = ops_of};

/* ---- runs ---- */

static int begin(void **state)
{
    (void)state;
    narrow = gal_ops_queued_idle_fp16;
    narrow.kernel[GAL_OP_NORM_START] = queue_norm;
    narrow.kernel[GAL_OP_ADAM] = queue_update;
    gal_cuda_double_reset(1, false);
    snprintf(directory, sizeof directory, "/tmp/test_cuda_resume.XXXXXX");
    return mkdtemp(directory) == NULL;
}

static int end(void **state)
{
    (void)state;
    char command[PATH_BYTES];
    snprintf(command, sizeof command, "rm -r '%s'", directory);
    return system(command);
}

/* Saves all steps below `name`. Returns how many were left out. */
static uint64_t train(const char *name, const char *resume_path)
{
    char save[PATH_BYTES];
    gal_plan plan;
    gal_error err = {0};
    gal_train_summary summary = {0};
    const gal_world alone = {.deadline_seconds = 20.0};
    const gal_log log = {.level = GAL_LOG_ERROR, .rank = GAL_LOG_NO_RANK};
    snprintf(save, sizeof save, "%s/%s", directory, name);
    const gal_train_options options = {.data_path = "README.md",
                                       .step_count = STEPS,
                                       .evaluate_batches = 1,
                                       .seed = 1,
                                       .save_directory = save,
                                       .save_every = 1,
                                       .resume_path = resume_path,
                                       .backend = &backend,
                                       .deadline_seconds = 20.0,
                                       .log = &log};
    assert_int_equal(gal_plan_read("tests/numerics/plans/serial.json", &plan, &err), GAL_OK);
    plan.model.compute_dtype = GAL_FP16;
    if (gal_train(&plan, &alone, &options, &summary, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    const uint64_t skipped = summary.skipped_steps;
    gal_train_summary_free(&summary);
    gal_plan_free(&plan);
    return skipped;
}

static const char *step_path(const char *name, uint32_t step)
{
    static char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s/step-%08u", directory, name, step);
    return path;
}

static size_t read_file(const char *name, const char *file, char *content)
{
    char path[2 * PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", step_path(name, STEPS), file);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    const size_t bytes = fread(content, 1, FILE_BYTES, in);
    fclose(in);
    assert_in_range(bytes, 1, FILE_BYTES - 1);
    return bytes;
}

static bool same_file(const char *a, const char *b, const char *file)
{
    char *content[2] = {malloc(FILE_BYTES), malloc(FILE_BYTES)};
    assert_true(content[0] != NULL && content[1] != NULL);
    const size_t bytes[2] = {read_file(a, file, content[0]), read_file(b, file, content[1])};
    const bool same = bytes[0] == bytes[1] && memcmp(content[0], content[1], bytes[0]) == 0;
    free(content[0]);
    free(content[1]);
    return same;
}

static void resumed_runs_end_alike(void **state)
{
    (void)state;
    assert_int_equal(train("whole", NULL), 3);
    for (uint32_t step = 1; step < STEPS; step++) {
        char name[32];
        snprintf(name, sizeof name, "from-%u", step);
        assert_int_equal(train(name, step_path("whole", step)), (step < 2) + (step < 3) + (step < 8));
        assert_true(same_file("whole", name, "rank-00000.bin"));
        assert_true(same_file("whole", name, "index.json"));
    }
}

/* A checkpoint of version 1, from before the scale was kept. The scale is not known: it is 32768 again, and too large
 * for every step from 7 on. */
static void without_its_scale_a_run_starts_it_anew(void **state)
{
    (void)state;
    char command[8 * PATH_BYTES];
    assert_int_equal(train("kept", NULL), 3);
    snprintf(
        command, sizeof command,
        "sed -i '/\"loss_scaling\": {/,/}/d; s/\"version\": 2/\"version\": 1/; /\"run\"/d; /\"data_fingerprint\"/d; "
        "/\"index_checksum\"/d; s/^  \\],/  ]/' '%s/index.json'",
        step_path("kept", 5));
    assert_int_equal(system(command), 0);
    assert_int_equal(train("anew", step_path("kept", 5)), 3);
    assert_false(same_file("kept", "anew", "rank-00000.bin"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resumed_runs_end_alike),
        cmocka_unit_test(without_its_scale_a_run_starts_it_anew),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
