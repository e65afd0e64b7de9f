#include "tests/numerics/equivalence_run.h"

#include <dlfcn.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/program/verify/verify.h"
#include "tests/support/numerics_bytes.h"

enum { WORDS_SECONDS = 5 };

/* Resident growth after step 1: 1 % of the arena, or 256 KiB where that is more. What grows with every step does so in
 * both halves of the steps behind, and twice the lesser is what is compared. What does not: Open MPI's lists of
 * requests, fragments and messages that came early grow when more are in use at once than ever before in the process,
 * in any step of any plan, by how ranks and their two threads happen to meet. */
static const double resident_fraction = 0.01;
static const double resident_floor_bytes = 262144.0;

const char *const gal_check_names[GAL_CHECK_COUNT] = {
#define X(enumerator, name) name,
    GAL_EQUIVALENCE_CHECKS(X)
#undef X
};

void gal_equivalence_stop(const char *what, const gal_error *err)
{
    (void)fprintf(stderr, "rank %u: %s: %s\n", gal_mpi_rank(), what, err->text);
    sleep(WORDS_SECONDS); /* the one that the others wait for may be a little later to say what for */
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ISO C has no cast from an object pointer to a function pointer; POSIX says that the bytes are the function's. */
static void name_phase(const char *name)
{
    static bool looked_up;
    static void (*phase)(const char *);
    if (!looked_up) {
        void *symbol = dlsym(RTLD_DEFAULT, "alloc_count_phase");
        memcpy(&phase, &symbol, sizeof phase);
        looked_up = true;
    }
    if (phase != NULL) {
        phase(name);
    }
}

static void keep_state(const gal_trial *trial, gal_outcome *out)
{
    const gal_program *p = trial->program;
    size_t used = 0;
    for (uint32_t u = 0; u < p->unit_count; u++) {
        const uint32_t buffers[] = {p->unit[u].weight, p->unit[u].first_moment, p->unit[u].second_moment};
        for (uint32_t i = 0; i < 3; i++) {
            out->state_bytes += p->buffer[buffers[i]].bytes;
        }
    }
    out->state = malloc(out->state_bytes + 1);
    GAL_ASSERT(out->state != NULL);
    for (uint32_t u = 0; u < p->unit_count; u++) {
        const uint32_t buffers[] = {p->unit[u].weight, p->unit[u].first_moment, p->unit[u].second_moment};
        for (uint32_t i = 0; i < 3; i++) {
            const gal_buffer *buffer = &p->buffer[buffers[i]];
            trial->on->device->read(gal_engine_memory(trial->engine), p->arena[buffer->class].offset + buffer->offset,
                                    out->state + used, buffer->bytes);
            used += buffer->bytes;
        }
    }
}

bool gal_outcome_equal(const gal_outcome *a, const gal_outcome *b)
{
    return memcmp(a->loss, b->loss, sizeof a->loss) == 0 && memcmp(a->norm, b->norm, sizeof a->norm) == 0 &&
           memcmp(&a->evaluation, &b->evaluation, sizeof a->evaluation) == 0 && a->state_bytes == b->state_bytes &&
           memcmp(a->state, b->state, a->state_bytes) == 0;
}

void gal_check_note(double *error, double found, const char *text)
{
    if (!(found <= 1.0) && *error <= 1.0) {
        (void)fprintf(stderr, "rank %u: %s\n", gal_mpi_rank(), text);
    }
    *error = isnan(found) ? INFINITY : fmax(*error, found);
}

/* After the first step: the gradient, and by how many ranks each of its elements is held. */
static void check_gradient(const gal_equivalence_run *run, const gal_trial *trial, double *error)
{
    const gal_reference *reference = run->reference;
    char text[512] = "";
    const double found = gal_trial_compare(trial, GAL_STATE_GRADIENT, &reference->table, reference->gradient,
                                           run->on->relative_bound, 0.0, run->held, text, sizeof text);
    gal_check_note(&error[GAL_CHECK_GRADIENT], found, text);
    for (uint32_t i = 0; i < trial->program->parameter_count; i++) {
        const gal_parameter *p = &trial->program->parameter[i];
        for (uint64_t at = reference->table.offset[p->tensor]; at < reference->table.offset[p->tensor + 1]; at++) {
            run->planned[at] = trial->program->unit[p->unit].replicas;
        }
    }
}

static void check_numbers(const gal_equivalence_run *run, const gal_trial *trial, const gal_outcome *out, double *error)
{
    const gal_reference *reference = run->reference;
    const double bound = run->on->relative_bound;
    char text[512] = "";
    for (uint32_t s = 0; s < GAL_TRIAL_STEPS; s++) {
        (void)snprintf(text, sizeof text, "step %u: loss %.17g norm %.17g, expected %.17g and %.17g", s, out->loss[s],
                       out->norm[s], reference->loss[s], reference->norm[s]);
        const double loss = fabs(out->loss[s] - reference->loss[s]) / (bound * reference->loss[s]);
        const double norm = fabs(out->norm[s] - reference->norm[s]) / (bound * reference->norm[s]);
        gal_check_note(&error[GAL_CHECK_LOSS], loss, text);
        gal_check_note(&error[GAL_CHECK_NORM], norm, text);
    }
    (void)snprintf(text, sizeof text, "evaluation loss %.17g, expected %.17g", out->evaluation, reference->evaluation);
    gal_check_note(&error[GAL_CHECK_EVALUATION],
                   fabs(out->evaluation - reference->evaluation) / (bound * reference->evaluation), text);
    const double moved = run->on->weight_bound * GAL_TRIAL_STEPS * run->learning_rate;
    const double weight = gal_trial_compare(trial, GAL_STATE_WEIGHT, &reference->table, reference->weight, bound, moved,
                                            NULL, text, sizeof text);
    gal_check_note(&error[GAL_CHECK_WEIGHT], weight, text);
}

static void check_memory(const gal_trial *trial, uint64_t grown_bytes, double *error)
{
    char text[512] = "";
    if (!trial->on->same_memory) {
        const uint64_t bytes = gal_engine_memory(trial->engine)->bytes;
        gal_check_note(&error[GAL_CHECK_BYTES], bytes == trial->program->arena_bytes ? 0.0 : INFINITY,
                       "the arena is not as planned");
        return;
    }
    const bool fits = gal_arena_as_planned(trial->program, gal_engine_memory(trial->engine), text, sizeof text);
    gal_check_note(&error[GAL_CHECK_BYTES], fits ? 0.0 : INFINITY, text);
    if (dlsym(RTLD_DEFAULT, "__asan_report_load1") != NULL || dlsym(RTLD_DEFAULT, "__tsan_read1") != NULL) {
        return; /* the sanitizer keeps what is freed, or a shadow of it */
    }
    const double allowed = fmax(resident_fraction * (double)trial->program->arena_bytes, resident_floor_bytes);
    (void)snprintf(text, sizeof text, "resident memory grew by %llu bytes after step 1, allowed are %.0f",
                   (unsigned long long)grown_bytes, allowed);
    gal_check_note(&error[GAL_CHECK_RESIDENT], (double)grown_bytes / allowed, text);
}

/* By steps that go on growing: twice what came in the half of the steps behind the first that brought less. */
static uint64_t growth_of(const uint64_t resident_bytes[GAL_TRIAL_STEPS])
{
    const uint64_t first = resident_bytes[0], last = resident_bytes[GAL_TRIAL_STEPS - 1];
    const uint64_t middle = resident_bytes[(GAL_TRIAL_STEPS - 1) / 2];
    const uint64_t early = middle > first ? middle - first : 0, late = last > middle ? last - middle : 0;
    return 2 * (early < late ? early : late);
}

static void train(const gal_equivalence_run *run, gal_outcome *out, double *error)
{
    gal_error err = {GAL_OK, ""};
    gal_trial trial;
    uint64_t resident_bytes[GAL_TRIAL_STEPS] = {0}; /* behind each step */
    memset(out, 0, sizeof *out);
    if (gal_trial_world(run->plan) == 1 && gal_mpi_rank() > 0) {
        return;
    }
    if (gal_trial_create_on(run->on, run->plan, run->seed, NULL, &trial, &err) != GAL_OK) {
        gal_equivalence_stop("create", &err);
    }
    if (trial.engine == NULL) {
        return;
    }
    for (uint32_t s = 0; s < GAL_TRIAL_STEPS; s++) {
        const gal_step_settings step = {s, run->seed, run->learning_rate};
        gal_step_result result;
        name_phase(s > 0 ? "step" : "other");
        if (gal_engine_step(trial.engine, &step, &result, &err) != GAL_OK) {
            gal_equivalence_stop("step", &err);
        }
        out->loss[s] = result.loss;
        out->norm[s] = result.gradient_norm;
        if (s == 0 && run->reference != NULL &&
            !run->plan->gradient_reuses_parameter) { /* else the weights are there again */
            check_gradient(run, &trial, error);
        }
        resident_bytes[s] = gal_resident_anonymous_bytes();
    }
    name_phase("other");
    if (gal_engine_evaluate(trial.engine, 0, &out->evaluation, NULL, &err) != GAL_OK) {
        gal_equivalence_stop("evaluate", &err);
    }
    keep_state(&trial, out);
    if (run->reference != NULL) {
        check_numbers(run, &trial, out, error);
    }
    check_memory(&trial, growth_of(resident_bytes), error);
    gal_trial_free(&trial);
}

static void verify_plan(const gal_plan *plan, double *error)
{
    gal_error err = {GAL_OK, ""};
    gal_program **programs = calloc(plan->stage_count, sizeof *programs);
    GAL_ASSERT(programs != NULL);
    gal_code code = gal_lower_plan(plan, programs, &err);
    if (code == GAL_OK) {
        code = gal_verify(programs, plan->stage_count, &err);
    }
    gal_check_note(&error[GAL_CHECK_VERIFY], code == GAL_OK ? 0.0 : INFINITY, err.text);
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        gal_program_free(programs[s]);
    }
    free(programs);
}

void gal_equivalence_run_plan(const gal_equivalence_run *run, gal_outcome *out, double error[GAL_CHECK_COUNT])
{
    if (gal_mpi_rank() + 1 == gal_mpi_world_size()) { /* one verifies: few plans need the last for more */
        verify_plan(run->plan, error);
    }
    train(run, out, error);
}
