/* galplan reproduce galvatron --table: rows of Tables II to VI. */
#include <stdio.h>
#include <string.h>

#include "planner/cli/reproduce_paper.h"
#include "planner/published/paper_row.h"
#include "planner/space/ranges.h"
#include "schemas/base/json.h"

typedef struct run {
    const gal_paper_options *options;
    gal_paper paper;
    gal_json_writer *json; /* NULL: text */
    uint32_t cell_count;
} run;

/* Layers of each stage, as 11;13: blocks of attention that a stage begins. */
static void write_partition(const gal_plan *plan, char *text, size_t capacity)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t s = 0; s < plan->stage_count && used < capacity; s++) {
        const uint32_t first = gal_plan_stage_first_block(plan, s), count = gal_plan_stage_block_count(plan, s);
        uint32_t layers = 0;
        for (uint32_t b = first; b < first + count; b++) {
            layers += gal_model_block_kind(&plan->model, b) == GAL_BLOCK_ATTENTION;
        }
        used += (size_t)snprintf(text + used, capacity - used, "%s%u", s == 0 ? "" : ";", layers);
    }
}

/* A cell of the table. */
typedef struct cell {
    const gal_paper_table *table;
    const gal_search_request *request;
    const char *model, *strategy;
    const gal_paper_strategy *by; /* whose plan it is */
    const gal_paper_answer *answer;
    gal_prediction interval;
    char partition[256];
} cell;

static double low_rate(const cell *c)
{
    return c->answer->plan.global_batch_samples / c->interval.high_seconds;
}

static double high_rate(const cell *c)
{
    return c->answer->plan.global_batch_samples / c->interval.low_seconds;
}

static void put_json(gal_json_writer *out, const cell *c)
{
    const gal_paper_answer *a = c->answer;
    gal_json_begin_object(out, NULL);
    gal_json_put_string(out, "table", c->table->table);
    gal_json_put_string(out, "cluster", c->table->cluster);
    gal_json_put_u64(out, "memory_bytes", c->request->memory_bytes);
    gal_json_put_string(out, "strategy", c->strategy);
    gal_json_put_string(out, "model", c->model);
    gal_json_put_bool(out, "feasible", a->feasible);
    gal_json_put_string(out, "microbatches", c->by->microbatches);
    if (a->feasible) {
        gal_json_put_f64(out, "samples_per_second", a->samples_per_second);
        gal_json_put_f64(out, "low_samples_per_second", low_rate(c));
        gal_json_put_f64(out, "high_samples_per_second", high_rate(c));
        gal_json_put_u64(out, "global_batch_samples", a->plan.global_batch_samples);
        gal_json_put_u64(out, "microbatch_count", a->plan.microbatch_count);
        gal_json_put_string(out, "partition", c->partition);
        gal_json_put_string(out, "plan_of", c->by->name);
    } else if (!a->legal) {
        gal_json_put_string(out, "refused", a->refusal);
    }
    gal_json_end_object(out);
}

static void put_text(const cell *c)
{
    const gal_paper_answer *a = c->answer;
    printf("%-5s %-11s %3.0f GiB  %-14s %-14s ", c->table->table, c->table->cluster,
           (double)c->request->memory_bytes / 1073741824.0, c->strategy, c->model);
    if (a->feasible) {
        const bool other = strcmp(c->by->name, c->strategy) != 0;
        printf("%10.2f %10.2f %10.2f  %5u  %4u of %-6s  %s%s%s\n", a->samples_per_second, low_rate(c), high_rate(c),
               a->plan.global_batch_samples, a->plan.microbatch_count, c->by->microbatches, c->partition,
               other ? "  as " : "", other ? c->by->name : "");
    } else if (a->legal) {
        printf("       OOM\n");
    } else {
        printf("   no plan  (%s)\n", a->refusal);
    }
    (void)fflush(stdout);
}

/* A row of the table: the strategies asked for. */
static gal_code run_row(run *r, gal_paper_row *row, const char *model, gal_error *err)
{
    gal_code code = GAL_OK;
    const char *at = row->table->strategies;
    char each[GAL_NAME_BYTES];
    while (gal_paper_next_name(&at, each)) {
        const gal_paper_strategy *strategy = gal_paper_find(&r->paper, each);
        cell c = {.table = row->table, .request = &row->request, .model = model, .strategy = each};
        uint32_t by = 0;
        if (strategy == NULL || !gal_paper_lists(r->options->strategies, each)) {
            continue;
        }
        GAL_TRY(gal_paper_row_answer(row, (uint32_t)(strategy - r->paper.strategy), &c.answer, &by, err));
        c.by = &r->paper.strategy[by];
        if (c.answer->feasible) {
            write_partition(&c.answer->plan, c.partition, sizeof c.partition);
            GAL_TRY(gal_plan_interval(&c.answer->plan, row->request.durations, &c.interval, err));
        }
        if (r->json != NULL) {
            put_json(r->json, &c);
        } else {
            put_text(&c);
        }
        r->cell_count++;
    }
cleanup:
    return code;
}

/* The cells of a table for one model, all strategies under all budgets. */
static gal_code run_model(run *r, const gal_paper_table *table, const char *name, const gal_durations *durations,
                          gal_error *err)
{
    gal_model model;
    gal_code code = gal_model_read(name, &model, err);
    const uint64_t asked = r->options->memory_bytes;
    model.compute_dtype = table->dtype;
    for (uint32_t m = 0; m < table->budget_count && code == GAL_OK; m++) {
        if (asked != 0 && asked != table->budget_bytes[m]) {
            continue;
        }
        gal_paper_row row = {.paper = &r->paper,
                             .table = table,
                             .request = {.model = &model,
                                         .durations = durations,
                                         .profile_hash = "",
                                         .memory_bytes = table->budget_bytes[m],
                                         .batches = r->paper.batches,
                                         .prefetch_depth = 2}};
        code = run_row(r, &row, name, err);
        gal_paper_row_free(&row);
    }
    return code;
}

static gal_code run_table(run *r, const gal_paper_table *table, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_cluster cluster;
    gal_durations *durations = NULL;
    const char *at = table->models;
    char name[GAL_NAME_BYTES];
    GAL_TRY(gal_cluster_read(table->cluster, &cluster, err));
    GAL_TRY(gal_durations_create_analytic(&cluster, &durations, err));
    while (gal_paper_next_name(&at, name)) {
        if (gal_paper_lists(r->options->model, name)) {
            GAL_TRY(run_model(r, table, name, durations, err));
        }
    }
cleanup:
    gal_durations_free(durations);
    return code;
}

static gal_code run_tables(run *r, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_paper_options *o = r->options;
    for (uint32_t i = 0; i < r->paper.table_count; i++) {
        const gal_paper_table *table = &r->paper.table[i];
        if (strcmp(table->table, o->table) == 0 && gal_paper_lists(o->cluster, table->cluster)) {
            GAL_TRY(run_table(r, table, err));
        }
    }
    if (r->cell_count == 0) {
        GAL_TRY(gal_fail(err, GAL_ERR_USAGE, "no row of table %s is meant (--cluster, --model, --memory, --strategy)",
                         o->table));
    }
cleanup:
    return code;
}

gal_code gal_cli_reproduce_table(const gal_paper_options *options, gal_error *err)
{
    gal_code code = GAL_OK;
    run r = {.options = options};
    GAL_TRY(gal_paper_read(&r.paper, err));
    if (options->batch != NULL) {
        r.paper.batches.count = 0;
        GAL_TRY(gal_parse_batches("batch", options->batch, &r.paper.batches, err));
    }
    if (options->json) {
        r.json = gal_json_writer_create();
        gal_json_begin_object(r.json, NULL);
        gal_json_begin_array(r.json, "cells");
    } else {
        printf("table cluster       memory  strategy       model           samples/s  90 %% from         to  batch  "
               "microbatches of policy, layers of stages, as which strategy\n");
    }
    GAL_TRY(run_tables(&r, err));
    if (options->json) {
        gal_json_end_array(r.json);
        gal_json_end_object(r.json);
        GAL_TRY(gal_json_writer_save(r.json, "-", err));
    }
cleanup:
    gal_json_writer_free(r.json);
    return code;
}
