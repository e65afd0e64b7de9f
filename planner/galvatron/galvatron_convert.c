/* Their layers are our attention and FFN blocks, two and two; embedding and head are what is outside. */
#include <stdlib.h>
#include <string.h>

#include "planner/galvatron/galvatron_files.h"
#include "schemas/limits.h"
#include "schemas/plan_check.h"

/* ---- ours to theirs ---- */

typedef struct reading {
    const gal_plan *plan;
    gal_galvatron_plan *out;
    bool has_ddp, has_zero2; /* among replicas that are not zero3: all must agree */
} reading;

static gal_code cannot_say(gal_error *err, uint32_t block, const char *what)
{
    return gal_fail(err, GAL_ERR_DOCUMENT, "block %u: Hetu-Galvatron has no %s", block, what);
}

static gal_code strategy_of(reading *r, uint32_t block, gal_galvatron_strategy *out, gal_error *err)
{
    const gal_strategy *s = gal_plan_block_strategy(r->plan, block);
    const uint32_t dp = gal_strategy_degree(s, GAL_AXIS_DP);
    const uint32_t sdp = gal_strategy_degree(s, GAL_AXIS_SDP);
    const uint32_t tp = gal_strategy_degree(s, GAL_AXIS_TP), ulysses = gal_strategy_degree(s, GAL_AXIS_ULYSSES);
    *out = (gal_galvatron_strategy){.degree = tp * ulysses,
                                    .ulysses = ulysses > 1,
                                    .zero3 = s->zero_stage == 3,
                                    .recompute = s->recompute >= GAL_RECOMPUTE_FULL};
    if (s->recompute == GAL_RECOMPUTE_SELECTIVE) {
        return cannot_say(err, block, "selective recompute");
    }
    if (s->tp_mode != GAL_TP_1D) {
        return cannot_say(err, block, "a grid of tensor parallelism");
    }
    if (dp > 1 && sdp > 1) {
        return cannot_say(err, block, "replicas of both kinds, DP and SDP");
    }
    if (s->zero_stage == 1) {
        return cannot_say(err, block, "ZeRO 1");
    }
    if (gal_strategy_ring_degree(s) > 1) {
        return cannot_say(err, block, "ring attention");
    }
    if (tp > 1 && ulysses > 1) {
        return cannot_say(err, block, "layer split by tensors and by Ulysses");
    }
    if (ulysses > 1 && dp > 1 && s->zero_stage > 0) {
        return cannot_say(err, block, "states sharded along Ulysses and not over replicas");
    }
    if (tp > 1 && s->axis[0].kind != GAL_AXIS_TP) {
        return cannot_say(err, block, "tensor parallelism over devices that are no neighbours");
    }
    if (ulysses > 1 && s->axis[0].kind != GAL_AXIS_ULYSSES) {
        return cannot_say(err, block, "Ulysses over devices that are no neighbours");
    }
    if (tp > 1 && !s->sequence_parallel) {
        return cannot_say(err, block, "tensor parallelism without sequence parallelism in a strategy");
    }
    r->has_ddp = r->has_ddp || dp > 1 || (ulysses > 1 && s->zero_stage == 0);
    r->has_zero2 = r->has_zero2 || s->zero_stage == 2;
    if (r->has_ddp && r->has_zero2) {
        return cannot_say(err, block, "mixture of DP and ZeRO 2");
    }
    return GAL_OK;
}

static bool is_outside(gal_block_kind kind)
{
    return kind == GAL_BLOCK_EMBEDDING || kind == GAL_BLOCK_HEAD;
}

static gal_code read_outside(reading *r, uint32_t block, bool *seen, gal_error *err)
{
    gal_galvatron_strategy here;
    const gal_code code = strategy_of(r, block, &here, err);
    if (code != GAL_OK) {
        return code;
    }
    if (here.recompute) {
        return cannot_say(err, block, "recompute of embedding or head");
    }
    if (*seen && !gal_galvatron_strategy_equal(&r->out->outside, &here)) {
        return cannot_say(err, block, "head under another strategy than the embedding's");
    }
    r->out->outside = here;
    *seen = true;
    return GAL_OK;
}

/* The FFN behind an attention has the same strategy and lies on the same stage. */
static gal_code read_layer(reading *r, uint32_t block, uint32_t piece_end, gal_error *err)
{
    gal_galvatron_plan *out = r->out;
    gal_galvatron_strategy attention;
    gal_galvatron_strategy ffn;
    gal_code code = GAL_OK;
    if (gal_model_block_kind(&r->plan->model, block) != GAL_BLOCK_ATTENTION || block + 1 >= piece_end ||
        gal_model_block_kind(&r->plan->model, block + 1) != GAL_BLOCK_FFN) {
        return cannot_say(err, block, "layer other than attention and FFN on one stage");
    }
    GAL_TRY(strategy_of(r, block, &attention, err));
    GAL_TRY(strategy_of(r, block + 1, &ffn, err));
    if (!gal_galvatron_strategy_equal(&attention, &ffn)) {
        return cannot_say(err, block + 1, "FFN under another strategy than its attention's");
    }
    if (out->run_count == 0 || !gal_galvatron_strategy_equal(&out->run[out->run_count - 1].strategy, &attention)) {
        out->run[out->run_count++].strategy = attention;
    }
    out->run[out->run_count - 1].layer_count++;
cleanup:
    return code;
}

static gal_code read_stages(reading *r, gal_error *err)
{
    bool seen = false;
    gal_code code = GAL_OK;
    for (uint32_t s = 0; s < r->plan->pp_degree; s++) {
        const uint32_t first = gal_plan_stage_first_block(r->plan, s);
        const uint32_t end = first + gal_plan_stage_block_count(r->plan, s);
        for (uint32_t b = first; b < end; b++) {
            if (is_outside(gal_model_block_kind(&r->plan->model, b))) {
                GAL_TRY(read_outside(r, b, &seen, err));
            } else {
                GAL_TRY(read_layer(r, b++, end, err));
                r->out->stage_layer_count[s]++;
            }
        }
        if (r->out->stage_layer_count[s] == 0) {
            GAL_TRY(cannot_say(err, first, "stage without a layer"));
        }
    }
cleanup:
    return code;
}

gal_code gal_galvatron_plan_of(const gal_plan *plan, gal_galvatron_plan *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_galvatron_plan made = {.device_count = plan->pp_degree * gal_plan_stage_devices(plan),
                               .pp_degree = plan->pp_degree,
                               .global_batch_samples = plan->global_batch_samples,
                               .microbatch_count = plan->microbatch_count,
                               .schedule = plan->schedule};
    reading r = {.plan = plan, .out = &made};
    if (plan->schedule != GAL_SCHEDULE_GPIPE && plan->schedule != GAL_SCHEDULE_1F1B) {
        GAL_TRY(gal_fail(err, GAL_ERR_DOCUMENT, "/schedule: Hetu-Galvatron has no schedule %s",
                         gal_schedule_names[plan->schedule]));
    }
    memcpy(made.name, plan->model.name, sizeof made.name);
    made.stage_layer_count = calloc(plan->pp_degree, sizeof *made.stage_layer_count);
    made.run = calloc((size_t)gal_model_block_count(&plan->model) + 1, sizeof *made.run);
    if (made.stage_layer_count == NULL || made.run == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    GAL_TRY(read_stages(&r, err));
    made.data_parallel = r.has_ddp ? GAL_GALVATRON_DDP : GAL_GALVATRON_ZERO2;
    *out = made;
    made = (gal_galvatron_plan){0};
cleanup:
    gal_galvatron_plan_free(&made);
    return code;
}

/* ---- theirs to ours ---- */

/* With Ulysses states are sharded over its devices too, if they are. */
static gal_strategy strategy_to(const gal_galvatron_plan *plan, const gal_galvatron_strategy *from)
{
    const uint32_t replicas = plan->device_count / plan->pp_degree / from->degree;
    const bool sharded = from->zero3 || plan->data_parallel == GAL_GALVATRON_ZERO2;
    gal_strategy s = {.sequence_parallel = from->degree > 1 && !from->ulysses,
                      .recompute = from->recompute ? GAL_RECOMPUTE_FULL : GAL_RECOMPUTE_NONE};
    if (from->degree > 1) {
        s.axis[s.axis_count++] = (gal_axis){from->ulysses ? GAL_AXIS_ULYSSES : GAL_AXIS_TP, from->degree};
    }
    if (replicas > 1) {
        s.axis[s.axis_count++] = (gal_axis){sharded ? GAL_AXIS_SDP : GAL_AXIS_DP, replicas};
    }
    if (sharded && (replicas > 1 || (from->ulysses && from->degree > 1))) {
        s.zero_stage = from->zero3 ? 3 : 2;
    }
    return s;
}

/* Layers of attention and FFN blocks alone, with one block before them and one behind. */
static bool has_such_layers(const gal_model *model, uint32_t layer_count)
{
    const uint32_t block_count = gal_model_block_count(model);
    if (block_count != 2 * layer_count + 2) {
        return false;
    }
    for (uint32_t b = 0; b < block_count; b++) {
        const gal_block_kind kind = gal_model_block_kind(model, b);
        const gal_block_kind wanted = b == 0                 ? GAL_BLOCK_EMBEDDING
                                      : b + 1 == block_count ? GAL_BLOCK_HEAD
                                      : b % 2 == 1           ? GAL_BLOCK_ATTENTION
                                                             : GAL_BLOCK_FFN;
        if (kind != wanted) {
            return false;
        }
    }
    return true;
}

static void add_run(gal_plan *plan, gal_plan_stage *stage, uint32_t block_count, gal_strategy strategy)
{
    gal_plan_run *last = stage->run_count == 0 ? NULL : &plan->run[plan->run_count - 1];
    if (last != NULL && gal_strategy_equal(&last->strategy, &strategy)) {
        last->block_count += block_count;
        return;
    }
    plan->run[plan->run_count++] = (gal_plan_run){block_count, strategy};
    stage->run_count++;
}

static void fill_stages(const gal_galvatron_plan *from, gal_plan *out)
{
    uint32_t layer = 0;
    for (uint32_t s = 0; s < from->pp_degree; s++) {
        gal_plan_stage *stage = &out->stage[s];
        *stage = (gal_plan_stage){.first_run = out->run_count};
        if (s == 0) {
            add_run(out, stage, 1, strategy_to(from, &from->outside));
        }
        for (uint32_t i = 0; i < from->stage_layer_count[s]; i++, layer++) {
            add_run(out, stage, 2, strategy_to(from, gal_galvatron_plan_strategy(from, layer)));
        }
        if (s + 1 == from->pp_degree) {
            add_run(out, stage, 1, strategy_to(from, &from->outside));
        }
    }
}

gal_code gal_galvatron_plan_to(const gal_galvatron_plan *plan, const gal_model *model, const gal_cluster *cluster,
                               gal_plan *out, gal_error *err)
{
    const uint32_t layer_count = gal_galvatron_plan_layer_count(plan);
    gal_code code = GAL_OK;
    gal_plan made = {.model = *model,
                     .cluster = *cluster,
                     .global_batch_samples = plan->global_batch_samples,
                     .microbatch_count = plan->microbatch_count,
                     .pp_degree = plan->pp_degree,
                     .schedule = plan->schedule,
                     .prefetch_depth = 2,
                     .stage_count = plan->pp_degree};
    if (!has_such_layers(model, layer_count)) {
        GAL_TRY(gal_fail(err, GAL_ERR_DOCUMENT, "the plan has %u layers of attention and FFN, the model %s has others",
                         layer_count, model->name));
    }
    if (cluster->device_count != plan->device_count) {
        GAL_TRY(gal_fail(err, GAL_ERR_DOCUMENT, "the plan is for %u devices, the cluster has %u", plan->device_count,
                         cluster->device_count));
    }
    made.stage = calloc(plan->pp_degree, sizeof *made.stage);
    made.run = calloc((size_t)layer_count + 2, sizeof *made.run);
    if (made.stage == NULL || made.run == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory"));
    }
    fill_stages(plan, &made);
    GAL_TRY(gal_plan_check(&made, "as a plan: ", err));
    *out = made;
    made = (gal_plan){0};
cleanup:
    gal_plan_free(&made);
    return code;
}
