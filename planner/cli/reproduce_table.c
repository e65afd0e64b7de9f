/* galplan reproduce galvatron --table: rows of Tables II to VI. */
#include <stdio.h>
#include <string.h>

#include "planner/cli/reproduce_paper.h"
#include "planner/published/paper.h"
#include "planner/space/ranges.h"
#include "schemas/base/json.h"

typedef struct run {
    const gal_paper_options *options;
    gal_paper paper;
    gal_json_writer *json; /* NULL: text */
    uint32_t cell_count;
} run;

/* Whether a name is on a list of names; NULL lists all. */
static bool lists(const char *list, const char *name)
{
    char each[GAL_NAME_BYTES];
    bool found = list == NULL;
    while (!found && gal_paper_next_name(&list, each)) {
        found = strcmp(each, name) == 0;
    }
    return found;
}

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

static void put_cell(run *r, const gal_paper_table *table, uint64_t bytes, const char *model, const char *strategy,
                     const gal_paper_answer *answer)
{
    char partition[256];
    const double gib = (double)bytes / 1073741824.0;
    write_partition(&answer->plan, partition, sizeof partition);
    if (r->json != NULL) {
        gal_json_begin_object(r->json, NULL);
        gal_json_put_string(r->json, "table", table->table);
        gal_json_put_string(r->json, "cluster", table->cluster);
        gal_json_put_u64(r->json, "memory_bytes", bytes);
        gal_json_put_string(r->json, "strategy", strategy);
        gal_json_put_string(r->json, "model", model);
        gal_json_put_bool(r->json, "feasible", answer->feasible);
        if (answer->feasible) {
            gal_json_put_f64(r->json, "samples_per_second", answer->samples_per_second);
            gal_json_put_u64(r->json, "global_batch_samples", answer->plan.global_batch_samples);
            gal_json_put_u64(r->json, "microbatch_count", answer->plan.microbatch_count);
            gal_json_put_string(r->json, "partition", partition);
        }
        gal_json_end_object(r->json);
    } else if (answer->feasible) {
        printf("%-5s %-11s %3.0f GiB  %-14s %-14s %10.2f  %5u  %4u  %s\n", table->table, table->cluster, gib, strategy,
               model, answer->samples_per_second, answer->plan.global_batch_samples, answer->plan.microbatch_count,
               partition);
    } else {
        printf("%-5s %-11s %3.0f GiB  %-14s %-14s        OOM\n", table->table, table->cluster, gib, strategy, model);
    }
    (void)fflush(stdout);
}

/* The cells of a table for one model, all strategies under all budgets. */
static gal_code run_model(run *r, const gal_paper_table *table, const char *name, const gal_durations *durations,
                          gal_error *err)
{
    gal_code code = GAL_OK;
    gal_model model;
    GAL_TRY(gal_model_read(name, &model, err));
    model.compute_dtype = table->dtype;
    for (uint32_t m = 0; m < table->budget_count; m++) {
        const char *at = table->strategies;
        char each[GAL_NAME_BYTES];
        gal_search_request request = {.model = &model,
                                      .durations = durations,
                                      .profile_hash = "",
                                      .memory_bytes = table->budget_bytes[m],
                                      .batches = r->paper.batches,
                                      .prefetch_depth = 2};
        const uint64_t asked = r->options->memory_bytes;
        while ((asked == 0 || asked == request.memory_bytes) && gal_paper_next_name(&at, each)) {
            const gal_paper_strategy *strategy = gal_paper_find(&r->paper, each);
            gal_paper_answer answer;
            if (strategy == NULL || !lists(r->options->strategies, each)) {
                continue;
            }
            GAL_TRY(gal_paper_answer_of(&request, strategy, &answer, err));
            put_cell(r, table, request.memory_bytes, name, each, &answer);
            r->cell_count++;
            gal_plan_free(&answer.plan);
        }
    }
cleanup:
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
        if (lists(r->options->model, name)) {
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
        if (strcmp(table->table, o->table) == 0 && lists(o->cluster, table->cluster)) {
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
        printf("table cluster       memory  strategy       model           samples/s  batch  microbatches, layers of "
               "stages\n");
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
