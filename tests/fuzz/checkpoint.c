#include "tests/fuzz/checkpoint.h"

#include <sys/stat.h>

#include "tests/fuzz/input.h"

enum { STEP = 7 };

static const gal_world alone = {.deadline_seconds = 10.0};

/* One layer, hidden 4: some 2 KB of state. */
static const gal_model tiny = {.name = "tiny",
                               .layer_count = 1,
                               .hidden = 4,
                               .head_count = 2,
                               .ffn_hidden = 4,
                               .sequence_length = 4,
                               .vocabulary = 8,
                               .vocabulary_multiple = 1,
                               .tied_embeddings = true,
                               .norm_epsilon = 1e-5,
                               .initial_standard_deviation = 0.02,
                               .compute_dtype = GAL_FP32,
                               .global_batch_samples = 2,
                               .optimizer = {.learning_rate = 0.01, .epsilon = 1e-8}};

static gal_plan_run run = {.block_count = 4};
static gal_plan_stage stage = {.run_count = 1};
static gal_plan plan = {.global_batch_samples = 2,
                        .microbatch_count = 1,
                        .pp_degree = 1,
                        .prefetch_depth = 1,
                        .stage_count = 1,
                        .stage = &stage,
                        .run_count = 1,
                        .run = &run};
static gal_program *program;
static gal_memory memory;

static void make(gal_fuzz_checkpoint *out)
{
    gal_error err = {0};
    plan.model = tiny;
    plan.cluster = (gal_cluster){.name = "host", .device_count = 1, .level_count = 1};
    plan.cluster.level[0].span_devices = 1;
    GAL_FUZZ_REQUIRE(gal_lower(&plan, 0, &program, &err) == GAL_OK);
    GAL_FUZZ_REQUIRE(gal_device_host.allocate(program->arena_bytes, true, &memory, &err) == GAL_OK);
    out->state = (gal_checkpoint_state){.plan = &plan, .program = program, .ops = &gal_device_host, .memory = &memory};
    const gal_checkpoint_position position = {.step = STEP, .seed = 1, .train_windows = 5};
    const gal_save_folder folder = {.directory = gal_fuzz_path("save"), .run = "0123456789abcdef"};
    GAL_FUZZ_REQUIRE(mkdir(folder.directory, 0777) == 0);
    GAL_FUZZ_REQUIRE(gal_checkpoint_save(&folder, &out->state, &position, 0, &alone, &err) == GAL_OK);
    out->directory = gal_fuzz_path("save/step-00000007");
    out->index_path = gal_fuzz_path("save/step-00000007/index.json");
    out->shard_path = gal_fuzz_path("save/step-00000007/rank-00000.bin");
}

const gal_fuzz_checkpoint *gal_fuzz_checkpoint_get(void)
{
    static gal_fuzz_checkpoint made;
    if (made.directory == NULL) {
        make(&made);
    }
    return &made;
}

gal_code gal_fuzz_checkpoint_load(const gal_fuzz_checkpoint *checkpoint)
{
    gal_error err = {0};
    gal_checkpoint_position position = {.step = UINT64_MAX};
    gal_code code = gal_checkpoint_load(checkpoint->directory, &checkpoint->state, &position, &alone, NULL, &err);
    GAL_FUZZ_REQUIRE((position.step == UINT64_MAX) == (code != GAL_OK));
    if (code != GAL_OK) {
        GAL_FUZZ_REQUIRE(code == GAL_ERR_DOCUMENT);
        gal_fuzz_require_refusal(code, &err);
    }
    return code;
}
