/* Prices of kinds: slopes of chains of whole layers. */
#include <math.h>

#include "planner/price/kind_table.h"

/* Chains of fewer layers than FEWEST still begin and end at the same time. Slopes that differ by more than same_share,
 * and those below the floor, are of chains that do not run steadily yet: what they wait for hides behind their ends. */
enum { FEWEST_LAYERS = 2, MOST_LAYERS = 16, ALONE_LAYERS = 4 };
static const double same_share = 1e-4;

typedef struct chain {
    gal_block_spec block[GAL_LAYER_CHAIN_BLOCKS_MAX];
    uint32_t count;
} chain;

static void append(const gal_kind_table *table, const gal_kind *kind, uint32_t layers, chain *out)
{
    const gal_layer_type *type = &table->query.layers->type[kind->type];
    for (uint32_t i = 0; i < layers; i++) {
        for (uint32_t b = 0; b < type->block_count; b++) {
            out->block[out->count++] =
                (gal_block_spec){.shape = type->shape[b], .strategy = gal_kind_strategy(table, kind, b)};
        }
    }
}

static gal_code measure(const gal_kind_table *table, const chain *c, gal_layer_times *out, gal_error *err)
{
    const gal_kind_query *q = &table->query;
    const gal_layer_chain spec = {.model = q->model,
                                  .durations = q->durations,
                                  .device_count = q->device_count,
                                  .stage = q->stage,
                                  .stage_count = q->stage_count,
                                  .microbatch_samples = q->microbatch_samples,
                                  .microbatch_count = q->microbatch_count,
                                  .prefetch_depth = q->prefetch_depth,
                                  .block_count = c->count,
                                  .block = c->block};
    return gal_layer_chain_times(&spec, out, err);
}

/* a + factor * b, part by part. */
static gal_layer_times plus(const gal_layer_times *a, double factor, const gal_layer_times *b)
{
    return (gal_layer_times){.forward_seconds = a->forward_seconds + factor * b->forward_seconds,
                             .backward_seconds = a->backward_seconds + factor * b->backward_seconds,
                             .last_seconds = a->last_seconds + factor * b->last_seconds,
                             .sync_seconds = a->sync_seconds + factor * b->sync_seconds,
                             .update_seconds = a->update_seconds + factor * b->update_seconds,
                             .step_seconds = a->step_seconds + factor * b->step_seconds};
}

static bool is_steady(const gal_layer_times *slope, const gal_layer_times *last, const gal_layer_times *floor)
{
    const double seconds = slope->step_seconds;
    return fabs(seconds - last->step_seconds) <= same_share * seconds &&
           seconds >= (1.0 - same_share) * floor->step_seconds;
}

static gal_code price_layer(gal_kind_table *table, gal_kind *kind, gal_error *err)
{
    gal_code code = GAL_OK;
    chain c = {.count = 0};
    gal_layer_times before, now, slope = {0}, last = {0};
    uint32_t layers = FEWEST_LAYERS;
    append(table, kind, layers, &c);
    GAL_TRY(measure(table, &c, &before, err));
    do {
        last = slope;
        append(table, kind, 1, &c);
        layers++;
        GAL_TRY(measure(table, &c, &now, err));
        slope = plus(&now, -1.0, &before);
        before = now;
    } while (layers < MOST_LAYERS && !is_steady(&slope, &last, &kind->times));
    slope.step_seconds = fmax(slope.step_seconds, kind->times.step_seconds);
    kind->turn = plus(&now, -(double)layers, &slope);
    kind->times = slope;
    kind->steady_layers = layers > ALONE_LAYERS ? layers : ALONE_LAYERS;
cleanup:
    return code;
}

/* What a block that stands alone adds to layers on each of its sides, as many as run steadily. */
static gal_code price_alone(gal_kind_table *table, gal_kind *kind, const gal_kind_company *company, gal_error *err)
{
    gal_code code = GAL_OK;
    chain c = {.count = 0};
    const gal_kind *before = company->before < 0 ? NULL : &table->kind[company->before];
    const gal_kind *behind = company->behind < 0 ? NULL : &table->kind[company->behind];
    gal_layer_times with, without = (before != NULL ? before : behind)->turn;
    if (company->first >= 0) {
        append(table, &table->kind[company->first], 1, &c);
    }
    if (before != NULL) {
        append(table, before, before->steady_layers, &c);
        without = plus(&without, before->steady_layers, &before->times);
    }
    if (company->first >= 0) {
        GAL_TRY(measure(table, &c, &without, err));
    }
    append(table, kind, 1, &c);
    if (behind != NULL) {
        append(table, behind, behind->steady_layers, &c);
        without = plus(&without, behind->steady_layers, &behind->times);
    }
    GAL_TRY(measure(table, &c, &with, err));
    kind->times = plus(&with, -1.0, &without);
cleanup:
    return code;
}

gal_code gal_kind_price(gal_kind_table *table, uint32_t number, const gal_kind_company *company, gal_error *err)
{
    gal_kind *kind = &table->kind[number];
    const bool alone = table->query.layers->type[kind->type].alone;
    const gal_code code = alone ? price_alone(table, kind, company, err) : price_layer(table, kind, err);
    if (code == GAL_OK) {
        kind->priced = true;
    }
    return code;
}
