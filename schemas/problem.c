#include "schemas/problem.h"

#include <stdlib.h>
#include <string.h>

#include "schemas/document.h"
#include "schemas/limits.h"

/* The worst sums of a document are below 2^62 in picoseconds and in bytes. */
#define TOTAL_SECONDS_MAX 4e6
#define TOTAL_BYTES_MAX 4e18

uint32_t gal_problem_layer_count(const gal_problem *problem)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < problem->run_count; r++) {
        count += problem->run[r].layer_count;
    }
    return count;
}

uint32_t gal_problem_in_flight(const gal_problem *problem, uint32_t stage)
{
    const uint32_t m = problem->microbatch_count;
    const uint32_t behind = problem->stage_count - stage;
    return problem->schedule == GAL_SCHEDULE_GPIPE || m < behind ? m : behind;
}

/* ---- reading ---- */

static void read_name(const gal_json_cursor *at, char *name)
{
    gal_json_string(at, "name", name, GAL_NAME_BYTES);
    if (name[0] == '\0') {
        gal_json_member_error(at, "name", "must not be empty");
    }
}

/* False without memory, as all of these. No allocation of 0 bytes. */
static bool read_strategies(const gal_json_cursor *root, gal_problem *out)
{
    gal_json_cursor strategies =
        gal_json_array(root, "strategies", 1, GAL_PROBLEM_STRATEGIES_MAX, &out->strategy_count);
    out->strategy = calloc((size_t)out->strategy_count + 1, sizeof *out->strategy);
    for (uint32_t s = 0; out->strategy != NULL && s < out->strategy_count; s++) {
        gal_json_cursor at = gal_json_element(&strategies, s);
        read_name(&at, out->strategy[s].name);
        out->strategy[s].tied_seconds = gal_json_f64(&at, "tied_seconds", 0.0, GAL_SECONDS_MAX);
        gal_json_reject_unknown(&at);
    }
    return out->strategy != NULL;
}

static void read_matrix(const gal_json_cursor *at, uint32_t strategy_count, double *out)
{
    uint32_t count;
    gal_json_cursor rows = gal_json_array(at, "transition_seconds", strategy_count, strategy_count, &count);
    for (uint32_t from = 0; from < count; from++) {
        uint32_t width;
        gal_json_cursor row = gal_json_element_array(&rows, from, strategy_count, strategy_count, &width);
        for (uint32_t to = 0; to < width; to++) {
            out[(size_t)from * strategy_count + to] = gal_json_element_f64(&row, to, 0.0, GAL_SECONDS_MAX);
        }
    }
}

/* Room for one row more of `row_count`, zeroed; NULL without memory. Tables grow as their rows are read: what a
 * document claims to hold and does not costs no memory. */
static void *grow(void *table, size_t row_count, size_t row_bytes)
{
    char *larger = realloc(table, (row_count + 1) * row_bytes);
    if (larger != NULL) {
        memset(larger + row_count * row_bytes, 0, row_bytes);
    }
    return larger;
}

static bool read_transitions(const gal_json_cursor *root, gal_problem *out)
{
    const size_t cells = (size_t)out->strategy_count * out->strategy_count;
    gal_json_cursor transitions = gal_json_array(root, "transitions", 1, GAL_LAYERS_MAX, &out->transition_count);
    for (uint32_t t = 0; t < out->transition_count && gal_json_status(root->doc, NULL) == GAL_OK; t++) {
        gal_json_cursor at = gal_json_element(&transitions, t);
        double *larger = grow(out->transition_seconds, t, cells * sizeof *larger);
        if (larger == NULL) {
            return false;
        }
        out->transition_seconds = larger;
        read_matrix(&at, out->strategy_count, larger + t * cells);
        gal_json_reject_unknown(&at);
    }
    return true;
}

static void read_seconds(const gal_json_cursor *at, const char *key, uint32_t strategy_count, gal_problem_cost *row,
                         size_t offset)
{
    uint32_t count;
    gal_json_cursor column = gal_json_array(at, key, strategy_count, strategy_count, &count);
    for (uint32_t s = 0; s < count; s++) {
        *(double *)(void *)((char *)&row[s] + offset) = gal_json_element_f64(&column, s, 0.0, GAL_SECONDS_MAX);
    }
}

static void read_bytes(const gal_json_cursor *at, const char *key, uint32_t strategy_count, gal_problem_cost *row,
                       size_t offset)
{
    uint32_t count;
    gal_json_cursor column = gal_json_array(at, key, strategy_count, strategy_count, &count);
    for (uint32_t s = 0; s < count; s++) {
        *(uint64_t *)((char *)&row[s] + offset) = gal_json_element_u64(&column, s, 0, GAL_BYTES_MAX);
    }
}

static void read_kind(const gal_json_cursor *at, const gal_problem *problem, gal_problem_kind *kind,
                      gal_problem_cost *row)
{
    const uint32_t last = problem->transition_count == 0 ? 0 : problem->transition_count - 1;
    const uint32_t count = problem->strategy_count;
    read_name(at, kind->name);
    kind->transition_index = gal_json_u32(at, "transition_index", 0, last);
    read_seconds(at, "seconds", count, row, offsetof(gal_problem_cost, seconds));
    read_seconds(at, "enter_seconds", count, row, offsetof(gal_problem_cost, enter_seconds));
    read_bytes(at, "state_bytes", count, row, offsetof(gal_problem_cost, state_bytes));
    read_bytes(at, "forward_bytes", count, row, offsetof(gal_problem_cost, forward_bytes));
    read_bytes(at, "backward_bytes", count, row, offsetof(gal_problem_cost, backward_bytes));
    gal_json_reject_unknown(at);
}

static bool read_kinds(const gal_json_cursor *root, gal_problem *out)
{
    gal_json_cursor kinds = gal_json_array(root, "kinds", 1, GAL_LAYERS_MAX, &out->kind_count);
    out->kind = calloc((size_t)out->kind_count + 1, sizeof *out->kind);
    for (uint32_t k = 0; out->kind != NULL && k < out->kind_count && gal_json_status(root->doc, NULL) == GAL_OK; k++) {
        gal_json_cursor at = gal_json_element(&kinds, k);
        gal_problem_cost *larger = grow(out->cost, k, out->strategy_count * sizeof *larger);
        if (larger == NULL) {
            return false;
        }
        out->cost = larger;
        read_kind(&at, out, &out->kind[k], larger + (size_t)k * out->strategy_count);
    }
    return out->kind != NULL;
}

static bool read_runs(const gal_json_cursor *root, gal_problem *out)
{
    const uint32_t last = out->kind_count == 0 ? 0 : out->kind_count - 1;
    gal_json_cursor runs = gal_json_array(root, "runs", 1, GAL_LAYERS_MAX, &out->run_count);
    out->run = calloc((size_t)out->run_count + 1, sizeof *out->run);
    for (uint32_t r = 0; out->run != NULL && r < out->run_count; r++) {
        gal_json_cursor at = gal_json_element(&runs, r);
        out->run[r].kind_index = gal_json_u32(&at, "kind_index", 0, last);
        out->run[r].layer_count = gal_json_u32(&at, "layer_count", 1, GAL_LAYERS_MAX);
        gal_json_reject_unknown(&at);
    }
    return out->run != NULL;
}

static bool read_problem(const gal_json_cursor *root, void *document)
{
    gal_problem *out = document;
    gal_json_expect_document(root, "problem", GAL_PROBLEM_VERSION);
    read_name(root, out->name);
    /* Eq. 5 is of these two, the first of the table. */
    out->schedule = (gal_schedule)gal_json_enum(root, "schedule", gal_schedule_names, GAL_SCHEDULE_1F1B + 1);
    out->stage_count = gal_json_u32(root, "stage_count", 1, GAL_PROBLEM_STAGES_MAX);
    out->microbatch_count = gal_json_u32(root, "microbatch_count", 1, GAL_STAGE_MICROBATCHES_MAX);
    out->budget_bytes = gal_json_u64(root, "budget_bytes", 1, GAL_BYTES_MAX);
    const bool has_memory =
        read_strategies(root, out) && read_transitions(root, out) && read_kinds(root, out) && read_runs(root, out);
    gal_json_reject_unknown(root);
    return has_memory;
}

/* Every layer at its dearest; in doubles, which is close enough to a bound that no problem comes near. */
static void finish_problem(gal_json_doc *doc, void *document)
{
    const gal_problem *p = document;
    const uint32_t layer_count = gal_problem_layer_count(p);
    double seconds = 0.0;
    double bytes = 0.0;
    double change = 0.0;
    for (size_t i = 0; i < (size_t)p->transition_count * p->strategy_count * p->strategy_count; i++) {
        change = p->transition_seconds[i] > change ? p->transition_seconds[i] : change;
    }
    for (uint32_t s = 0; s < p->strategy_count; s++) {
        seconds = 2.0 * p->strategy[s].tied_seconds > seconds ? 2.0 * p->strategy[s].tied_seconds : seconds;
    }
    for (uint32_t r = 0; r < p->run_count; r++) {
        const gal_problem_cost *row = p->cost + (size_t)p->run[r].kind_index * p->strategy_count;
        double most_seconds = 0.0;
        double most_bytes = 0.0;
        for (uint32_t s = 0; s < p->strategy_count; s++) {
            const double time = row[s].seconds + row[s].enter_seconds + change;
            const double size = (double)row[s].state_bytes + (double)row[s].backward_bytes +
                                (double)row[s].forward_bytes * gal_problem_in_flight(p, 0);
            most_seconds = time > most_seconds ? time : most_seconds;
            most_bytes = size > most_bytes ? size : most_bytes;
        }
        seconds += most_seconds * p->run[r].layer_count;
        bytes += most_bytes * p->run[r].layer_count;
    }
    if (layer_count > GAL_LAYERS_MAX) {
        gal_json_error_at_path(doc, "/runs", "must have at most 4096 layers in all");
    } else if (p->stage_count > layer_count) {
        gal_json_error_at_path(doc, "/stage_count", "must be at most the number of layers");
    } else if (seconds * p->microbatch_count > TOTAL_SECONDS_MAX) {
        gal_json_error_at_path(doc, "/", "the dearest strategies must take at most 4e6 seconds for all microbatches");
    } else if (bytes > TOTAL_BYTES_MAX) {
        gal_json_error_at_path(doc, "/", "the largest strategies must take at most 4e18 bytes in all");
    }
}

/* ---- writing ---- */

static void write_strategies(gal_json_writer *out, const gal_problem *p)
{
    gal_json_begin_array(out, "strategies");
    for (uint32_t s = 0; s < p->strategy_count; s++) {
        gal_json_begin_object(out, NULL);
        gal_json_put_string(out, "name", p->strategy[s].name);
        gal_json_put_f64(out, "tied_seconds", p->strategy[s].tied_seconds);
        gal_json_end_object(out);
    }
    gal_json_end_array(out);
}

static void write_transitions(gal_json_writer *out, const gal_problem *p)
{
    const double *cell = p->transition_seconds;
    gal_json_begin_array(out, "transitions");
    for (uint32_t t = 0; t < p->transition_count; t++) {
        gal_json_begin_object(out, NULL);
        gal_json_begin_array(out, "transition_seconds");
        for (uint32_t from = 0; from < p->strategy_count; from++) {
            gal_json_begin_array(out, NULL);
            for (uint32_t to = 0; to < p->strategy_count; to++) {
                gal_json_put_f64(out, NULL, *cell++);
            }
            gal_json_end_array(out);
        }
        gal_json_end_array(out);
        gal_json_end_object(out);
    }
    gal_json_end_array(out);
}

static void write_column(gal_json_writer *out, const char *key, uint32_t count, const gal_problem_cost *row,
                         size_t offset, bool is_bytes)
{
    gal_json_begin_array(out, key);
    for (uint32_t s = 0; s < count; s++) {
        const void *at = (const char *)&row[s] + offset;
        if (is_bytes) {
            gal_json_put_u64(out, NULL, *(const uint64_t *)at);
        } else {
            gal_json_put_f64(out, NULL, *(const double *)at);
        }
    }
    gal_json_end_array(out);
}

static void write_kinds(gal_json_writer *out, const gal_problem *p)
{
    const uint32_t count = p->strategy_count;
    gal_json_begin_array(out, "kinds");
    for (uint32_t k = 0; k < p->kind_count; k++) {
        const gal_problem_cost *row = p->cost + (size_t)k * count;
        gal_json_begin_object(out, NULL);
        gal_json_put_string(out, "name", p->kind[k].name);
        gal_json_put_u64(out, "transition_index", p->kind[k].transition_index);
        write_column(out, "seconds", count, row, offsetof(gal_problem_cost, seconds), false);
        write_column(out, "enter_seconds", count, row, offsetof(gal_problem_cost, enter_seconds), false);
        write_column(out, "state_bytes", count, row, offsetof(gal_problem_cost, state_bytes), true);
        write_column(out, "forward_bytes", count, row, offsetof(gal_problem_cost, forward_bytes), true);
        write_column(out, "backward_bytes", count, row, offsetof(gal_problem_cost, backward_bytes), true);
        gal_json_end_object(out);
    }
    gal_json_end_array(out);
}

static void write_problem(gal_json_writer *out, const void *document)
{
    const gal_problem *p = document;
    gal_json_put_string(out, "document", "problem");
    gal_json_put_u64(out, "version", GAL_PROBLEM_VERSION);
    gal_json_put_string(out, "name", p->name);
    gal_json_put_string(out, "schedule", gal_schedule_names[p->schedule]);
    gal_json_put_u64(out, "stage_count", p->stage_count);
    gal_json_put_u64(out, "microbatch_count", p->microbatch_count);
    gal_json_put_u64(out, "budget_bytes", p->budget_bytes);
    write_strategies(out, p);
    write_transitions(out, p);
    write_kinds(out, p);
    gal_json_begin_array(out, "runs");
    for (uint32_t r = 0; r < p->run_count; r++) {
        gal_json_begin_object(out, NULL);
        gal_json_put_u64(out, "kind_index", p->run[r].kind_index);
        gal_json_put_u64(out, "layer_count", p->run[r].layer_count);
        gal_json_end_object(out);
    }
    gal_json_end_array(out);
}

void gal_problem_free(gal_problem *problem)
{
    if (problem != NULL) {
        free(problem->strategy);
        free(problem->transition_seconds);
        free(problem->kind);
        free(problem->cost);
        free(problem->run);
        *problem = (gal_problem){0};
    }
}

static void release_problem(void *problem)
{
    gal_problem_free(problem);
}

const gal_document_form gal_problem_form = {sizeof(gal_problem), read_problem, finish_problem, write_problem,
                                            release_problem};

gal_code gal_problem_read(const char *path, gal_problem *out, gal_error *err)
{
    return gal_document_read(GAL_DOCUMENT_PROBLEM, path, out, err);
}

gal_code gal_problem_write(const char *path, const gal_problem *problem, gal_error *err)
{
    return gal_document_write(GAL_DOCUMENT_PROBLEM, path, problem, err);
}
