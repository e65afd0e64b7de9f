#include "planner/cli/repairs.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/search/host_limit.h"
#include "planner/search/named.h"
#include "schemas/base/trial.h"
#include "schemas/base/workers.h"
#include "schemas/catalogue/catalogue.h"

/* How dear a kind of change is. */
enum { SAME_TRAINING, SEVERAL_CHANGES, OTHER_ARITHMETIC, OTHER_TASK, MORE_DEVICES };

/* Trials beside each other at least, so that one which takes long does not keep the others waiting. */
enum { AT_ONCE_LEAST = 4 };

/* Share of the time limit that one trial has, so that some time is left for those behind it. */
static const double share_of_one = 0.8;

/* Shorter sequences that are tried: a half, a quarter and so on. */
enum { HALVINGS = 5, LEAST_SEQUENCE = 128 };

/* The notes of a trial. */
typedef struct answer {
    bool fits, has_memory, devices_known;
    gal_repair repair;
    gal_cell_numbers numbers; /* of the plan */
    gal_memory_kinds memory;
    uint32_t memory_stage;
    gal_least_devices devices;
} answer;

/* ---- searches ---- */

/* The request of a trial: on one core, with nobody to tell. */
static gal_search_request request_of(const gal_repair_case *of)
{
    gal_search_request request = *of->request;
    request.thread_count = 1;
    request.gap = request.gap > GAL_REPAIR_GAP_PERCENT / 100.0 ? request.gap : GAL_REPAIR_GAP_PERCENT / 100.0;
    request.finalist_count = 1;
    request.cache = NULL;
    request.tell = NULL;
    return request;
}

/* Whether a plan fits, and how fast it is. */
static void search(const gal_search_request *request, answer *a)
{
    gal_error err = {0};
    const gal_solver_limits limits = {0};
    gal_algorithm_answer found = {0};
    if (gal_algorithms[GAL_ALGORITHM_EXACT].search(request, &limits, &found, &err) == GAL_OK && found.search.feasible) {
        const gal_finalist *f = &found.search.finalist[0];
        a->fits = true;
        a->numbers = (gal_cell_numbers){f->global_batch_samples, f->microbatch_count, f->pp_degree};
        a->repair.step_seconds = f->simulated_seconds;
        a->repair.samples_per_second = f->global_batch_samples / f->simulated_seconds;
        a->repair.host_bytes = gal_plan_host_bytes(&f->plan);
    }
    gal_algorithm_answer_free(&found);
}

/* One more option behind those that are named. */
__attribute__((format(printf, 2, 3))) static void add_option(answer *a, const char *format, ...)
{
    char *options = a->repair.options;
    size_t length = strlen(options);
    va_list arguments;
    if (length > 0 && length + 1 < sizeof a->repair.options) {
        options[length++] = ' ';
    }
    va_start(arguments, format);
    (void)vsnprintf(options + length, sizeof a->repair.options - length, format, arguments);
    va_end(arguments);
}

/* ---- the plan of the least memory ---- */

static bool least_plan_exists(const gal_repair_case *of)
{
    return of->result->least_bytes > 0;
}

/* A search with just that memory finds it. */
static void find_least_plan(const gal_repair_case *of, const gal_trial_notes *notes)
{
    answer a = {0};
    gal_error err = {0};
    gal_search_result found = {0};
    gal_search_request request = request_of(of);
    const gal_cell_numbers *numbers = &of->result->least_numbers;
    request.memory_bytes = of->result->least_bytes;
    request.batches = (gal_u32_list){1, {numbers->global_batch_samples}};
    request.microbatch_counts = (gal_u32_list){1, {numbers->microbatch_count}};
    request.pp_degrees = (gal_u32_list){1, {numbers->pp_degree}};
    if (gal_search(&request, &found, &err) == GAL_OK && found.feasible) {
        const gal_plan *plan = &found.finalist[0].plan;
        gal_program **programs = calloc(plan->stage_count, sizeof *programs);
        if (programs != NULL && gal_lower_plan(plan, programs, &err) == GAL_OK) {
            a.memory_stage = gal_memory_kinds_fullest(programs, plan->stage_count, plan->fixed_bytes, &a.memory);
            a.has_memory = true;
        }
    }
    gal_trial_note(notes, &a);
}

/* ---- the same training, done otherwise ---- */

static bool microbatches_are_given(const gal_repair_case *of)
{
    return of->request->microbatch_counts.count > 0;
}

static void try_microbatches(const gal_repair_case *of, const gal_trial_notes *notes)
{
    answer a = {0};
    gal_search_request request = request_of(of);
    request.microbatch_counts.count = 0;
    search(&request, &a);
    add_option(&a, "--microbatches %u", a.numbers.microbatch_count);
    gal_trial_note(notes, &a);
}

static bool pp_is_given(const gal_repair_case *of)
{
    return of->pp_degrees->count > 0;
}

/* The degrees that a search without --pp has on a cluster. */
static gal_u32_list all_pp_degrees(const gal_search_request *request)
{
    static const gal_u32_list none = {0};
    const uint32_t blocks = gal_model_block_count(request->model);
    return gal_space_pp_degrees(&request->space, gal_durations_cluster(request->durations), &none,
                                blocks < GAL_STAGES_MAX ? blocks : GAL_STAGES_MAX);
}

static void try_pp(const gal_repair_case *of, const gal_trial_notes *notes)
{
    answer a = {0};
    gal_search_request request = request_of(of);
    request.pp_degrees = all_pp_degrees(&request);
    search(&request, &a);
    add_option(&a, "--pp %u", a.numbers.pp_degree);
    gal_trial_note(notes, &a);
}

static bool schedule_is_other(const gal_repair_case *of)
{
    return of->request->schedule != GAL_SCHEDULE_1F1B;
}

static void try_schedule(const gal_repair_case *of, const gal_trial_notes *notes)
{
    answer a = {0};
    gal_search_request request = request_of(of);
    request.schedule = GAL_SCHEDULE_1F1B;
    request.chunk_count = 0;
    search(&request, &a);
    add_option(&a, "--schedule 1f1b");
    gal_trial_note(notes, &a);
}

/* Words to the axes that --space has. */
static void widen(const gal_repair_case *of, const char *words, const gal_trial_notes *notes)
{
    answer a = {0};
    gal_error err = {0};
    char space[GAL_REPAIR_OPTIONS_BYTES];
    gal_search_request request = request_of(of);
    const int bytes =
        snprintf(space, sizeof space, "%s,%s", of->space != NULL ? of->space : GAL_SPACE_ALL_WORDS, words);
    if (bytes > 0 && (size_t)bytes < sizeof space && gal_space_parse(space, &request.space, &err) == GAL_OK) {
        search(&request, &a);
        add_option(&a, "--space %s", space);
    }
    gal_trial_note(notes, &a);
}

static bool recompute_is_missing(const gal_repair_case *of)
{
    return !of->request->space.recompute || !of->request->space.selective;
}

static void try_recompute(const gal_repair_case *of, const gal_trial_notes *notes)
{
    widen(of, "recompute,selective", notes);
}

static bool sharding_is_missing(const gal_repair_case *of)
{
    return !of->request->space.axis[GAL_AXIS_SDP] || !of->request->space.zero_stage[3];
}

static void try_sharding(const gal_repair_case *of, const gal_trial_notes *notes)
{
    widen(of, "sdp,zero3", notes);
}

static bool tensor_parallelism_is_missing(const gal_repair_case *of)
{
    return !of->request->space.axis[GAL_AXIS_TP] || !of->request->space.sequence_parallel;
}

static void try_tensor_parallelism(const gal_repair_case *of, const gal_trial_notes *notes)
{
    widen(of, "tp,sp", notes);
}

static bool offload_is_missing(const gal_repair_case *of)
{
    return !of->request->space.offload;
}

static void try_offload(const gal_repair_case *of, const gal_trial_notes *notes)
{
    widen(of, "offload", notes);
}

static bool space_is_narrow(const gal_repair_case *of)
{
    return recompute_is_missing(of) || sharding_is_missing(of) || tensor_parallelism_is_missing(of);
}

static bool several_are_given(const gal_repair_case *of)
{
    return microbatches_are_given(of) + pp_is_given(of) + schedule_is_other(of) + space_is_narrow(of) > 1;
}

/* Nothing that was asked for, where one change alone may not be enough. */
static void try_all(const gal_repair_case *of, const gal_trial_notes *notes)
{
    answer a = {0};
    gal_search_request request = request_of(of);
    bool takeaway[sizeof request.space.takeaway / sizeof request.space.takeaway[0]];
    memcpy(takeaway, request.space.takeaway, sizeof takeaway);
    gal_space_all(&request.space);
    memcpy(request.space.takeaway, takeaway, sizeof takeaway);
    request.microbatch_counts.count = 0;
    request.schedule = GAL_SCHEDULE_1F1B;
    request.chunk_count = 0;
    request.pp_degrees = all_pp_degrees(&request);
    search(&request, &a);
    if (space_is_narrow(of)) {
        add_option(&a, "--space %s", GAL_SPACE_ALL_WORDS);
    }
    if (microbatches_are_given(of)) {
        add_option(&a, "--microbatches %u", a.numbers.microbatch_count);
    }
    if (pp_is_given(of)) {
        add_option(&a, "--pp %u", a.numbers.pp_degree);
    }
    if (schedule_is_other(of)) {
        add_option(&a, "--schedule 1f1b");
    }
    gal_trial_note(notes, &a);
}

/* ---- another model ---- */

static bool is_wide(const gal_repair_case *of)
{
    const gal_device *device = &gal_durations_cluster(of->request->durations)->device;
    return of->request->model->compute_dtype == GAL_FP32 && device->bf16_flops_per_second > 0.0 && !of->measured;
}

static void try_dtype(const gal_repair_case *of, const gal_trial_notes *notes)
{
    answer a = {0};
    gal_model narrow = *of->request->model;
    gal_search_request request = request_of(of);
    narrow.compute_dtype = GAL_BF16;
    request.model = &narrow;
    search(&request, &a);
    add_option(&a, "--dtype bf16");
    gal_trial_note(notes, &a);
}

static bool sequence_is_free(const gal_repair_case *of)
{
    const gal_model *model = of->request->model;
    return (model->family == GAL_FAMILY_DECODER || model->family == GAL_FAMILY_LLAMA) &&
           model->sequence_length / 2 >= LEAST_SEQUENCE && !of->measured;
}

/* The longest that fits. */
static void try_sequence(const gal_repair_case *of, const gal_trial_notes *notes)
{
    answer a = {0};
    gal_model shorter = *of->request->model;
    gal_search_request request = request_of(of);
    request.model = &shorter;
    for (uint32_t i = 0; i < HALVINGS && !a.fits && shorter.sequence_length / 2 >= LEAST_SEQUENCE; i++) {
        shorter.sequence_length /= 2;
        search(&request, &a);
    }
    add_option(&a, "--sequence %u", shorter.sequence_length);
    gal_trial_note(notes, &a);
}

/* ---- more devices ---- */

/* The smallest cluster of the catalogue that has as many of these devices, in such nodes; NULL: none has. */
static const char *catalogue_cluster(const gal_cluster *like, uint32_t devices, gal_cluster *out)
{
    const char *name = NULL;
    for (uint32_t i = 0; i < gal_catalogue_entry_count; i++) {
        const gal_catalogue_entry *entry = &gal_catalogue_entries[i];
        gal_cluster cluster;
        gal_error err = {0};
        if (strcmp(entry->kind, "cluster") == 0 && gal_cluster_read(entry->name, &cluster, &err) == GAL_OK &&
            strcmp(cluster.device.kind, like->device.kind) == 0 && cluster.device_count >= devices &&
            gal_node_devices(&cluster) == gal_node_devices(like) &&
            (name == NULL || cluster.device_count < out->device_count)) {
            name = entry->name;
            *out = cluster;
        }
    }
    return name;
}

/* How to ask for so many; the cluster that then is. */
static void name_devices(const gal_repair_case *of, uint32_t devices, gal_cluster *cluster, answer *a)
{
    *cluster = *of->whole;
    const char *name = devices > of->whole->device_count ? catalogue_cluster(of->whole, devices, cluster) : NULL;
    if (name != NULL && cluster->device_count == devices) {
        add_option(a, "--cluster %s", name);
    } else if (name != NULL) {
        add_option(a, "--cluster %s --devices %u", name, devices);
    } else if (devices <= of->whole->device_count) {
        add_option(a, "--devices %u", devices);
    } else {
        add_option(a, "a cluster of %u such devices", devices);
    }
    gal_cluster_resize(cluster, devices);
}

static bool always(const gal_repair_case *of)
{
    (void)of;
    return true;
}

/* The least number is known before a plan for it is. Prices of a profile hold for no other cluster. */
static void try_devices(const gal_repair_case *of, const gal_trial_notes *notes)
{
    answer a = {0};
    gal_error err = {0};
    gal_cluster cluster;
    gal_durations *durations = NULL;
    gal_search_request request = request_of(of);
    const gal_device_counts counts = {of->whole, of->most_devices};
    if (gal_least_devices_find(of->request, of->pp_degrees, &counts, &a.devices, &err) != GAL_OK) {
        return;
    }
    a.devices_known = true;
    a.fits = a.devices.exists;
    if (a.devices.exists) {
        name_devices(of, a.devices.device_count, &cluster, &a);
    }
    gal_trial_note(notes, &a);
    if (a.devices.exists && !of->measured && gal_durations_create_analytic(&cluster, &durations, &err) == GAL_OK) {
        request.durations = durations;
        request.pp_degrees = of->pp_degrees->count > 0 ? request.pp_degrees : all_pp_degrees(&request);
        search(&request, &a);
        gal_trial_note(notes, &a);
    }
}

/* ---- all of them ---- */

typedef struct change {
    const char *words;
    uint32_t class;
    bool (*applies)(const gal_repair_case *of);
    void (*run)(const gal_repair_case *of, const gal_trial_notes *notes);
} change;

/* In the order in which they are tried; the first one is no change, but says what fills the memory. */
static const change changes[] = {
    {"least memory", SAME_TRAINING, least_plan_exists, find_least_plan},
    {"more microbatches", SAME_TRAINING, microbatches_are_given, try_microbatches},
    {"other pipeline degrees", SAME_TRAINING, pp_is_given, try_pp},
    {"recompute", SAME_TRAINING, recompute_is_missing, try_recompute},
    {"sharding", SAME_TRAINING, sharding_is_missing, try_sharding},
    {"tensor parallelism", SAME_TRAINING, tensor_parallelism_is_missing, try_tensor_parallelism},
    {"schedule 1f1b", SAME_TRAINING, schedule_is_other, try_schedule},
    {"these together", SEVERAL_CHANGES, several_are_given, try_all},
    {"bf16", OTHER_ARITHMETIC, is_wide, try_dtype},
    {"offload", SAME_TRAINING, offload_is_missing, try_offload},
    {"a shorter sequence", OTHER_TASK, sequence_is_free, try_sequence},
    {"another number of devices", MORE_DEVICES, always, try_devices},
};
enum { CHANGES = sizeof changes / sizeof changes[0] };
_Static_assert(sizeof changes / sizeof changes[0] <= (size_t)GAL_REPAIRS_MAX, "each has a place");

typedef struct task {
    const gal_repair_case *of;
    const change *change;
} task;

static void run(const void *context, const gal_trial_notes *notes)
{
    const task *t = context;
    t->change->run(t->of, notes);
}

/* Sorts the repairs: first the ones that fit, cheap and fast ones first; then the others as they are listed. */
static int better_first(const void *x, const void *y)
{
    const gal_repair *a = x, *b = y;
    const bool fit = a->state == GAL_REPAIR_FITS;
    if (fit != (b->state == GAL_REPAIR_FITS)) {
        return fit ? -1 : 1;
    }
    if (fit && a->class != b->class) {
        return a->class < b->class ? -1 : 1;
    }
    if (fit && a->samples_per_second != b->samples_per_second) {
        return a->samples_per_second > b->samples_per_second ? -1 : 1;
    }
    return a->number < b->number ? -1 : a->number > b->number;
}

static void take(const change *tried, const gal_trial *trial, gal_repairs *out)
{
    const answer *a = trial->answer;
    if (tried->run == find_least_plan) {
        out->has_memory = trial->noted && a->has_memory;
        out->memory = a->memory;
        out->memory_stage = a->memory_stage;
        return;
    }
    if (tried->run == try_devices) {
        out->devices_known = trial->noted && a->devices_known;
        out->devices = a->devices;
    }
    gal_repair *repair = &out->repair[out->count];
    *repair = a->repair;
    repair->state = !trial->noted ? GAL_REPAIR_CUT : a->fits ? GAL_REPAIR_FITS : GAL_REPAIR_NO;
    repair->words = tried->words;
    repair->class = tried->class;
    repair->number = out->count++;
}

void gal_repairs_find(const gal_repair_case *of, gal_repairs *out)
{
    static const answer none;
    task tasks[CHANGES];
    answer answers[CHANGES];
    gal_trial trials[CHANGES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < CHANGES; i++) {
        if (changes[i].applies(of)) {
            tasks[count] = (task){of, &changes[i]};
            answers[count] = none;
            trials[count] = (gal_trial){
                .run = run, .task = &tasks[count], .answer = &answers[count], .answer_bytes = sizeof answers[count]};
            count++;
        }
    }
    const uint32_t cores = gal_workers_cores();
    gal_trials_run(trials, count, cores > AT_ONCE_LEAST ? cores : AT_ONCE_LEAST, share_of_one * of->time_limit_seconds,
                   of->time_limit_seconds);
    *out = (gal_repairs){0};
    for (uint32_t i = 0; i < count; i++) {
        take(tasks[i].change, &trials[i], out);
    }
    qsort(out->repair, out->count, sizeof out->repair[0], better_first);
}
