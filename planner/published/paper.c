#include "planner/published/paper.h"

#include <stdio.h>
#include <string.h>

#include "planner/cell/finalist.h"
#include "planner/layouts/layout_plan.h"
#include "planner/space/ranges.h"
#include "planner/space/strategy_space.h"
#include "schemas/base/json.h"
#include "schemas/catalogue/catalogue.h"
#include "schemas/limits.h"

#define X(enumerator, name, function) [enumerator] = name,
static const char *const algorithm_names[GAL_PAPER_ALGORITHM_COUNT] = {GAL_PAPER_ALGORITHMS(X)};
#undef X
#define X(enumerator, name, function) [enumerator] = {name, function},
static const gal_algorithm algorithms[GAL_PAPER_ALGORITHM_COUNT] = {GAL_PAPER_ALGORITHMS(X)};
#undef X

enum { SOLVER_LABELS = 4000000 };
static const double gibibyte = 1073741824.0;

/* ---- reading ---- */

/* A list as on the command line; left out: empty. */
static void read_list(const gal_json_cursor *at, const char *key, gal_u32_list *out)
{
    char text[GAL_PAPER_LIST_BYTES];
    gal_error why = {0};
    if (gal_json_has(at, key)) {
        gal_json_string(at, key, text, sizeof text);
        if (text[0] != '\0' && gal_parse_microbatches(key, text, out, &why) != GAL_OK) {
            gal_json_member_error(at, key, "%s", why.text);
        }
    }
}

static void read_space(const gal_json_cursor *at, gal_space *out)
{
    char text[GAL_PAPER_LIST_BYTES];
    gal_error why = {0};
    gal_json_string(at, "space", text, sizeof text);
    if (text[0] != '\0' && gal_space_parse(text, out, &why) != GAL_OK) {
        gal_json_member_error(at, "space", "%s", why.text);
    }
}

static void read_strategy(const gal_json_cursor *at, gal_paper_strategy *out)
{
    gal_json_string(at, "name", out->name, sizeof out->name);
    out->algorithm = (gal_paper_algorithm)gal_json_enum(at, "algorithm", algorithm_names, GAL_PAPER_ALGORITHM_COUNT);
    out->schedule = (gal_schedule)gal_json_enum(at, "schedule", gal_schedule_names, GAL_SCHEDULE_1F1B + 1);
    gal_json_string(at, "microbatches", out->microbatches, sizeof out->microbatches);
    read_list(at, "microbatches", &out->microbatch_counts);
    if (gal_json_has(at, "contains")) {
        gal_json_string(at, "contains", out->contains, sizeof out->contains);
    }
    if (out->algorithm == GAL_PAPER_LAYOUT) {
        out->tp_degree = gal_json_u32(at, "tp", 0, GAL_DEVICES_MAX);
        out->pp_degree = gal_json_u32(at, "pp", 0, GAL_DEVICES_MAX);
        out->zero_stage = gal_json_u32(at, "zero", 0, 3);
    } else {
        read_space(at, &out->space);
        read_list(at, "pp", &out->pp_degrees);
    }
    gal_json_reject_unknown(at);
}

static void read_table(const gal_json_cursor *at, gal_paper_table *out)
{
    gal_json_string(at, "table", out->table, sizeof out->table);
    gal_json_string(at, "cluster", out->cluster, sizeof out->cluster);
    out->dtype = (gal_dtype)gal_json_enum(at, "dtype", gal_dtype_names, GAL_DTYPE_COUNT);
    const gal_json_cursor budgets = gal_json_array(at, "memory_gib", 1, GAL_PAPER_BUDGETS_MAX, &out->budget_count);
    for (uint32_t i = 0; i < out->budget_count; i++) {
        out->budget_bytes[i] = (uint64_t)(gibibyte * gal_json_element_f64(&budgets, i, 1.0, 1e4));
    }
    gal_json_string(at, "models", out->models, sizeof out->models);
    gal_json_string(at, "strategies", out->strategies, sizeof out->strategies);
    gal_json_reject_unknown(at);
}

/* Every name is one of the strategies before. */
static void check_contained(const gal_json_cursor *at, const gal_paper *paper, uint32_t strategy)
{
    const char *list = paper->strategy[strategy].contains;
    char name[GAL_NAME_BYTES];
    while (gal_paper_next_name(&list, name)) {
        const gal_paper_strategy *found = gal_paper_find(paper, name);
        if (found == NULL || found >= &paper->strategy[strategy]) {
            gal_json_member_error(at, "contains", "must be names of strategies before this one, got %s", name);
        }
    }
}

static gal_code open_entry(const char *name, gal_json_doc **out, gal_error *err)
{
    const char *text = gal_catalogue_find("reproduction", name);
    return text == NULL ? gal_fail(err, GAL_ERR_SYSTEM, "built without %s", name)
                        : gal_json_open_text(name, text, strlen(text), out, err);
}

static gal_code read_strategies(gal_paper *out, gal_error *err)
{
    char source[512];
    gal_json_doc *doc = NULL;
    gal_code code = open_entry("galvatron-strategies", &doc, err);
    if (code == GAL_OK) {
        const gal_json_cursor root = gal_json_root(doc);
        gal_json_string(&root, "source", source, sizeof source);
        const gal_json_cursor list =
            gal_json_array(&root, "strategies", 1, GAL_PAPER_STRATEGIES_MAX, &out->strategy_count);
        for (uint32_t i = 0; i < out->strategy_count; i++) {
            const gal_json_cursor each = gal_json_element(&list, i);
            read_strategy(&each, &out->strategy[i]);
            check_contained(&each, out, i);
        }
        gal_json_reject_unknown(&root);
        code = gal_json_status(doc, err);
    }
    gal_json_close(doc);
    return code;
}

static gal_code read_tables(gal_paper *out, gal_error *err)
{
    char source[512];
    gal_json_doc *doc = NULL;
    gal_code code = open_entry("galvatron-tables", &doc, err);
    if (code == GAL_OK) {
        const gal_json_cursor root = gal_json_root(doc);
        gal_json_string(&root, "source", source, sizeof source);
        read_list(&root, "batches", &out->batches);
        const gal_json_cursor list = gal_json_array(&root, "tables", 1, GAL_PAPER_TABLES_MAX, &out->table_count);
        for (uint32_t i = 0; i < out->table_count; i++) {
            const gal_json_cursor each = gal_json_element(&list, i);
            read_table(&each, &out->table[i]);
        }
        gal_json_reject_unknown(&root);
        code = gal_json_status(doc, err);
    }
    gal_json_close(doc);
    return code;
}

gal_code gal_paper_read(gal_paper *out, gal_error *err)
{
    memset(out, 0, sizeof *out);
    const gal_code code = read_strategies(out, err);
    return code == GAL_OK ? read_tables(out, err) : code;
}

const gal_paper_strategy *gal_paper_find(const gal_paper *paper, const char *name)
{
    for (uint32_t i = 0; i < paper->strategy_count; i++) {
        if (strcmp(paper->strategy[i].name, name) == 0) {
            return &paper->strategy[i];
        }
    }
    return NULL;
}

bool gal_paper_next_name(const char **at, char name[GAL_NAME_BYTES])
{
    const size_t length = strcspn(*at, ",");
    if (**at == '\0') {
        return false;
    }
    (void)snprintf(name, GAL_NAME_BYTES, "%.*s", (int)length, *at);
    *at += length + ((*at)[length] == ',');
    return true;
}

bool gal_paper_lists(const char *list, const char *name)
{
    char each[GAL_NAME_BYTES];
    bool found = list == NULL;
    while (!found && gal_paper_next_name(&list, each)) {
        found = strcmp(each, name) == 0;
    }
    return found;
}

/* ---- answers ---- */

static void note_refusal(gal_paper_answer *answer, const gal_error *why)
{
    if (answer->refusal[0] == '\0') {
        (void)snprintf(answer->refusal, sizeof answer->refusal, "%s", why->text);
    }
}

/* The layout's row at a batch and so many microbatches; false if the numbers do not divide. */
static bool set_row(const gal_search_request *request, const gal_paper_strategy *strategy, uint32_t batch, uint32_t m,
                    gal_layout_row *row, gal_error *why)
{
    const uint32_t devices = row->cluster->device_count;
    const uint32_t tp = strategy->tp_degree == 0 ? devices : strategy->tp_degree;
    const uint32_t pp = strategy->pp_degree == 0 ? devices : strategy->pp_degree;
    const uint32_t dp = devices / (tp * pp);
    row->layout = (gal_uniform_layout){.dp_degree = dp,
                                       .tp_degree = tp,
                                       .pp_degree = pp,
                                       .zero_stage = dp > 1 ? strategy->zero_stage : 0,
                                       .schedule = strategy->schedule,
                                       .chunk_count = 1,
                                       .microbatch_samples = dp > 0 ? batch / m / dp : 0,
                                       .global_batch_samples = batch};
    if (dp == 0 || devices % (tp * pp) != 0 || batch % (m * dp) != 0) {
        (void)gal_fail(why, GAL_NO, "batch %u must be a multiple of %u microbatches x %u replicas", batch, m, dp);
        return false;
    }
    return gal_uniform_layout_check(&row->layout, request->model, why) == GAL_OK;
}

/* Takes the row's plan where it fits and is faster than what is known. */
static gal_code try_layout(const gal_search_request *request, const gal_layout_row *row, gal_paper_answer *best,
                           gal_error *err)
{
    gal_code code = GAL_OK;
    gal_error why = {0};
    gal_search_result result = {0};
    gal_plan plan = {0};
    const uint64_t limit = request->memory_bytes;
    if (gal_layout_plan(row, &plan, &why) != GAL_OK) { /* galrun has no such plan */
        note_refusal(best, &why);
        return GAL_OK;
    }
    const gal_cell_spec spec = {.global_batch_samples = plan.global_batch_samples,
                                .microbatch_count = plan.microbatch_count,
                                .pp_degree = plan.pp_degree};
    gal_finalist *f = gal_finalist_add(request, &spec, &result);
    if (f == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search"));
    }
    plan.fixed_bytes = gal_durations_fixed_bytes(request->durations);
    f->plan = plan;
    memset(&plan, 0, sizeof plan);
    code = gal_finalist_predict(request, f, &why);
    if (code == GAL_ERR_DOCUMENT) { /* a tensor is too large for a program */
        note_refusal(best, &why);
        code = GAL_OK;
        goto cleanup;
    }
    GAL_TRY(code == GAL_OK ? GAL_OK : gal_fail(err, code, "%s", why.text));
    const double rate = f->global_batch_samples / f->simulated_seconds;
    best->legal = true;
    if (f->peak_bytes <= limit && rate > best->samples_per_second) {
        gal_plan_free(&best->plan);
        best->feasible = true;
        best->samples_per_second = rate;
        best->plan = f->plan;
        memset(&f->plan, 0, sizeof f->plan);
    }
cleanup:
    gal_plan_free(&plan);
    gal_search_result_free(&result);
    return code;
}

static gal_code answer_layout(const gal_search_request *request, const gal_paper_strategy *strategy,
                              gal_paper_answer *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_layout_row row = {.model = *request->model, .cluster = gal_durations_cluster(request->durations)};
    for (uint32_t b = 0; b < request->batches.count; b++) {
        for (uint32_t m = 0; m < strategy->microbatch_counts.count && code == GAL_OK; m++) {
            gal_error why = {0};
            if (set_row(request, strategy, request->batches.value[b], strategy->microbatch_counts.value[m], &row,
                        &why)) {
                code = try_layout(request, &row, out, err);
            } else {
                note_refusal(out, &why);
            }
        }
    }
    return code;
}

gal_code gal_paper_answer_of(const gal_search_request *request, const gal_paper_strategy *strategy,
                             gal_paper_answer *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_algorithm_answer answer = {0};
    const gal_solver_limits limits = {.label_limit = SOLVER_LABELS, .time_limit_seconds = 10.0};
    gal_search_request own = *request;
    *out = (gal_paper_answer){0};
    if (strategy->algorithm == GAL_PAPER_LAYOUT) {
        return answer_layout(request, strategy, out, err);
    }
    own.space = strategy->space;
    own.schedule = strategy->schedule;
    own.microbatch_counts = strategy->microbatch_counts;
    own.pp_degrees = strategy->pp_degrees;
    GAL_TRY(algorithms[strategy->algorithm].search(&own, &limits, &answer, err));
    if (answer.search.feasible) {
        gal_finalist *f = &answer.search.finalist[0];
        *out = (gal_paper_answer){.feasible = true,
                                  .legal = true,
                                  .samples_per_second = f->global_batch_samples / f->simulated_seconds,
                                  .opinion = answer.opinion,
                                  .plan = f->plan};
        memset(&f->plan, 0, sizeof f->plan);
    } else {
        out->legal = answer.search.cell_count > 0;
        (void)snprintf(out->refusal, sizeof out->refusal, "%s", answer.search.refusal);
    }
cleanup:
    gal_algorithm_answer_free(&answer);
    return code;
}
