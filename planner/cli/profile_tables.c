#include "planner/cli/profile_tables.h"

#include <stdlib.h>
#include <string.h>

#include "costmodel/analytic_collective.h"
#include "costmodel/analytic_kernel.h"
#include "costmodel/duration.h"
#include "planner/space/strategy_space.h"
#include "schemas/plan_check.h"

/* The profile's tables while they grow: a key may be there more than once. */
typedef struct tables {
    gal_profile *profile;
    uint32_t operator_capacity, collective_capacity;
} tables;

/* ---- sets ---- */

/* Sorts and keeps one of each; returns how many. */
static uint32_t unite(void *array, uint32_t count, size_t item_bytes, int (*compare)(const void *, const void *))
{
    char *item = array;
    uint32_t kept = 0;
    if (count > 0) {
        qsort(array, count, item_bytes, compare);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (kept == 0 || compare(item + (kept - 1) * item_bytes, item + i * item_bytes) != 0) {
            memmove(item + kept * item_bytes, item + i * item_bytes, item_bytes);
            kept++;
        }
    }
    return kept;
}

/* Room for one more, with what is there twice thrown out first; NULL without memory. */
static void *room_for_one(void *array, uint32_t *count, uint32_t *capacity, size_t item_bytes,
                          int (*compare)(const void *, const void *))
{
    if (*count < *capacity) {
        return array;
    }
    *count = unite(array, *count, item_bytes, compare);
    if (*count <= *capacity / 2 && *capacity > 0) {
        return array;
    }
    const uint32_t wanted = *capacity == 0 ? 4096 : 2 * *capacity;
    void *grown = realloc(array, wanted * item_bytes);
    *capacity = grown != NULL ? wanted : *capacity;
    return grown;
}

static bool add_operator(tables *t, const gal_shape *shape)
{
    gal_profile *p = t->profile;
    gal_profile_operator *array =
        room_for_one(p->operators, &p->operator_count, &t->operator_capacity, sizeof *array, gal_operator_compare);
    if (array == NULL) {
        return false;
    }
    p->operators = array;
    p->operators[p->operator_count++] =
        (gal_profile_operator){.shape = *shape,
                               .seconds = gal_kernel_analytic_seconds(&p->cluster.device, shape),
                               .source = GAL_SOURCE_ANALYTIC};
    return true;
}

static bool add_collective(tables *t, const gal_profile_collective *entry)
{
    gal_profile *p = t->profile;
    gal_profile_collective *array = room_for_one(p->collectives, &p->collective_count, &t->collective_capacity,
                                                 sizeof *array, gal_collective_compare);
    if (array == NULL) {
        return false;
    }
    p->collectives = array;
    p->collectives[p->collective_count++] = *entry;
    return true;
}

/* ---- programs ---- */

enum { RECENT = 16 };

/* The last few collectives of a program: most repeat from block to block. */
typedef struct recent {
    struct {
        uint8_t op;
        gal_group group;
        uint64_t bytes;
    } seen[RECENT];
    uint32_t count;
} recent;

static bool is_recent(recent *r, const gal_instruction *in)
{
    for (uint32_t i = 0; i < RECENT && i < r->count; i++) {
        if (r->seen[i].op == in->op && r->seen[i].group == in->group && r->seen[i].bytes == in->bytes) {
            return true;
        }
    }
    const uint32_t at = r->count++ % RECENT;
    r->seen[at].op = in->op;
    r->seen[at].group = in->group;
    r->seen[at].bytes = in->bytes;
    return false;
}

static bool add_message(tables *t, const gal_program *program, const gal_instruction *in)
{
    const gal_cluster *cluster = &t->profile->cluster;
    const gal_place_in_cluster place = {.atoms = &program->atoms,
                                        .device_count = program->device_count,
                                        .stage = program->stage,
                                        .stage_count = program->stage_count};
    gal_profile_collective entry = {.op = (gal_op)in->op, .bytes = in->bytes, .source = GAL_SOURCE_ANALYTIC};
    uint32_t members = 1;
    gal_group_level_counts(cluster, &place, in->group, entry.level_counts);
    for (uint32_t i = 0; i < cluster->level_count; i++) {
        members *= entry.level_counts[i];
    }
    entry.seconds = gal_collective_analytic_seconds(cluster, entry.op, entry.level_counts, entry.bytes);
    return members < 2 || in->bytes == 0 || add_collective(t, &entry);
}

static bool add_program(tables *t, const gal_program *program)
{
    recent seen = {.count = 0};
    bool ok = true;
    for (uint32_t i = 0; i < program->shape_count && ok; i++) {
        ok = gal_op_is_collective[program->shape[i].op] || add_operator(t, &program->shape[i]);
    }
    for (uint32_t i = 0; i < program->instruction_count && ok; i++) {
        const gal_instruction *in = &program->instruction[i];
        if (gal_op_is_collective[in->op] && in->op != GAL_OP_RECEIVE && !is_recent(&seen, in)) {
            ok = add_message(t, program, in);
        }
    }
    return ok;
}

/* ---- plans ---- */

/* Stages of equal numbers of blocks, the first ones with those left over. */
static void spread_blocks(gal_plan *plan, const gal_strategy *strategy)
{
    const uint32_t blocks = gal_model_block_count(&plan->model);
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        plan->stage[s] = (gal_plan_stage){.first_run = s, .run_count = 1};
        plan->run[s] = (gal_plan_run){blocks / plan->stage_count + (s < blocks % plan->stage_count), *strategy};
    }
    plan->run_count = plan->stage_count;
}

/* Plans that break a rule, or whose tensors are too large for a program, have nothing to add. */
static gal_code add_plan(tables *t, const gal_plan *plan, gal_error *err)
{
    if (gal_plan_check(plan, NULL, NULL) != GAL_OK) {
        return GAL_OK;
    }
    gal_program **program = calloc(plan->stage_count, sizeof *program);
    bool ok = program != NULL;
    const gal_code lowered = ok ? gal_lower_plan(plan, program, NULL) : GAL_ERR_SYSTEM;
    ok = ok && lowered != GAL_ERR_SYSTEM;
    for (uint32_t s = 0; ok && lowered == GAL_OK && s < plan->stage_count; s++) {
        ok = add_program(t, program[s]);
    }
    for (uint32_t s = 0; program != NULL && s < plan->stage_count; s++) {
        gal_program_free(program[s]);
    }
    free(program);
    return ok ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "out of memory: the tables of a profile");
}

static gal_code add_stages(tables *t, gal_plan *plan, gal_strategy *strategy, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_space space;
    gal_space_all(&space);
    space.recompute = space.selective = false; /* what runs again has the shapes of what ran before */
    const uint32_t count = gal_space_strategies(&space, gal_plan_stage_devices(plan), strategy);
    for (uint32_t i = 0; i < count && code == GAL_OK; i++) {
        spread_blocks(plan, &strategy[i]);
        code = add_plan(t, plan, err);
    }
    return code;
}

static bool takes_count(const gal_u32_list *counts, uint32_t batch, uint32_t count)
{
    bool listed = counts->count == 0 && (count & (count - 1)) == 0;
    for (uint32_t i = 0; i < counts->count; i++) {
        listed = listed || counts->value[i] == count;
    }
    return listed && batch % count == 0;
}

static gal_code add_batch(tables *t, gal_plan *plan, const gal_u32_list *counts, gal_strategy *strategy, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t devices = plan->cluster.device_count, blocks = gal_model_block_count(&plan->model);
    for (uint32_t m = 1; m <= plan->global_batch_samples && code == GAL_OK; m++) {
        if (!takes_count(counts, plan->global_batch_samples, m)) {
            continue;
        }
        plan->microbatch_count = m;
        for (uint32_t stages = 1; stages <= devices && stages <= blocks && code == GAL_OK; stages++) {
            if (devices % stages == 0) {
                plan->pp_degree = plan->stage_count = stages;
                code = add_stages(t, plan, strategy, err);
            }
        }
    }
    return code;
}

static gal_code add_batches(tables *t, const gal_model *model, const gal_u32_list *batches, const gal_u32_list *counts,
                            gal_error *err)
{
    gal_code code = GAL_OK;
    const uint32_t blocks = gal_model_block_count(model);
    gal_plan plan = {
        .model = *model, .cluster = t->profile->cluster, .schedule = GAL_SCHEDULE_1F1B, .prefetch_depth = 2};
    gal_strategy *strategy = calloc(GAL_SPACE_MAX, sizeof *strategy);
    plan.stage = calloc(blocks, sizeof *plan.stage);
    plan.run = calloc(blocks, sizeof *plan.run);
    if (strategy == NULL || plan.stage == NULL || plan.run == NULL) {
        code = gal_fail(err, GAL_ERR_SYSTEM, "out of memory: the tables of a profile");
    }
    for (uint32_t b = 0; b < (batches->count > 0 ? batches->count : 1) && code == GAL_OK; b++) {
        plan.global_batch_samples = batches->count > 0 ? batches->value[b] : model->global_batch_samples;
        code = add_batch(t, &plan, counts, strategy, err);
    }
    gal_plan_free(&plan);
    free(strategy);
    return code;
}

gal_code gal_profile_tables_add(gal_profile *profile, const gal_model *model, const gal_u32_list *batches,
                                const gal_u32_list *microbatch_counts, gal_error *err)
{
    gal_code code = GAL_OK;
    tables t = {.profile = profile,
                .operator_capacity = profile->operator_count,
                .collective_capacity = profile->collective_count};
    GAL_TRY(add_batches(&t, model, batches, microbatch_counts, err));
    profile->operator_count =
        unite(profile->operators, profile->operator_count, sizeof *profile->operators, gal_operator_compare);
    profile->collective_count =
        unite(profile->collectives, profile->collective_count, sizeof *profile->collectives, gal_collective_compare);
    if (profile->operator_count > GAL_PROFILE_ENTRIES_MAX || profile->collective_count > GAL_PROFILE_ENTRIES_MAX) {
        code = gal_fail(err, GAL_ERR_USAGE,
                        "a profile has room for %d kernels and as many collectives, got %u and %u: "
                        "give fewer models, --batch or --microbatches",
                        GAL_PROFILE_ENTRIES_MAX, profile->operator_count, profile->collective_count);
    }
cleanup:
    return code;
}
