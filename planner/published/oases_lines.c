#include "planner/published/oases_lines.h"

#include <math.h>
#include <string.h>

#include "costmodel/simulate.h"
#include "planner/published/oases_case.h"
#include "runtime/program/program.h"

enum { HIDDEN = 2048, DEVICES = 4, CLUSTER = 1, ATTENTION = 1, FFN = 2 };

typedef enum line { RECOMPUTE, BACKWARD, REDUCE, LINE_COUNT } line;
const char *const gal_oases_line_names[GAL_OASES_LINES] = {"recompute", "backward", "all-reduce"};

/* Seconds of each sub-batch (and of whole microbatches) at work in each column. */
typedef struct picture {
    double seconds; /* of the two blocks' backward */
    double busy[LINE_COUNT][GAL_OASES_COLUMNS][3];
} picture;

/* What a step of one layer is simulated as. */
typedef struct played {
    gal_program *program;
    gal_simulation simulation;
} played;

/* Whether forward has it too. */
static bool is_again(const gal_program *program, const gal_instruction *in)
{
    const gal_fragment *forward = &program->fragment[GAL_FRAGMENT_FORWARD];
    bool found = false;
    for (uint32_t i = forward->first; i < forward->first + forward->count && !found; i++) {
        const gal_instruction *other = &program->instruction[i];
        found = other->block == in->block && strcmp(other->name, in->name) == 0;
    }
    return found;
}

/* Whether an event is of the two blocks' backward; *at: on which line. */
static bool is_shown(const gal_program *program, const gal_timeline_event *event, line *at)
{
    const gal_instruction *in = &program->instruction[event->instruction];
    const gal_fragment *backward = &program->fragment[GAL_FRAGMENT_BACKWARD_SYNC];
    const uint32_t offset = event->instruction - backward->first;
    const bool works = in->stream == GAL_STREAM_COMPUTE || in->stream == GAL_STREAM_TENSOR;
    *at = in->stream == GAL_STREAM_TENSOR ? REDUCE : is_again(program, in) ? RECOMPUTE : BACKWARD;
    return works && offset < backward->count && (in->block == ATTENTION || in->block == FFN);
}

static gal_code play(const gal_oases_fit *fit, gal_oases_method method, played *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_oases_case of;
    gal_plan plan = {0};
    gal_durations *durations = NULL;
    const gal_oases_model *model = gal_oases_model_of(HIDDEN);
    GAL_TRY(gal_oases_case_read(model->document, gal_oases_cluster_documents[CLUSTER], DEVICES, model->tp_degree, &of,
                                err));
    of.global_batch_samples /= 32 / DEVICES; /* as of a replica of 32 devices */
    of.model.layer_count = 1;
    gal_oases_fit_apply(fit, CLUSTER, &of.cluster);
    GAL_TRY(gal_durations_create_analytic(&of.cluster, &durations, err));
    GAL_TRY(gal_oases_case_plan(&of, method, &plan, err));
    GAL_TRY(gal_oases_plan_lower(&plan, &out->program, err));
    GAL_TRY(gal_simulate(&out->program, 1, durations, true, &out->simulation, err));
cleanup:
    gal_plan_free(&plan);
    gal_durations_free(durations);
    return code;
}

/* begin, end: of all events that are shown. */
static void span_of(const played *p, double *begin, double *end)
{
    *begin = HUGE_VAL;
    *end = 0.0;
    for (uint64_t i = 0; i < p->simulation.event_count; i++) {
        const gal_timeline_event *event = &p->simulation.timeline[i];
        line at;
        if (is_shown(p->program, event, &at)) {
            *begin = fmin(*begin, event->start_seconds);
            *end = fmax(*end, event->end_seconds);
        }
    }
}

static void draw(const played *p, double column_seconds, picture *out)
{
    double begin = 0.0, end = 0.0;
    memset(out, 0, sizeof *out);
    span_of(p, &begin, &end);
    out->seconds = end - begin;
    for (uint64_t i = 0; i < p->simulation.event_count; i++) {
        const gal_timeline_event *event = &p->simulation.timeline[i];
        line at;
        if (!is_shown(p->program, event, &at)) {
            continue;
        }
        const uint8_t sub_batch = p->program->instruction[event->instruction].sub_batch;
        for (uint32_t c = 0; c < GAL_OASES_COLUMNS; c++) {
            const double from = begin + c * column_seconds;
            const double overlap = fmin(event->end_seconds, from + column_seconds) - fmax(event->start_seconds, from);
            out->busy[at][c][sub_batch] += fmax(0.0, overlap);
        }
    }
}

/* The character of each column. */
static void write_lines(const picture *p, double column_seconds, gal_oases_line *out)
{
    static const char symbols[] = "-01";
    out->seconds = p->seconds;
    memset(out->text, 0, sizeof out->text);
    for (uint32_t at = 0; at < LINE_COUNT; at++) {
        for (uint32_t c = 0; c < GAL_OASES_COLUMNS; c++) {
            const double *busy = p->busy[at][c];
            const uint32_t most = busy[1] >= busy[2] && busy[1] > busy[0] ? 1 : busy[2] > busy[0] ? 2 : 0;
            out->text[at][c] = busy[0] + busy[1] + busy[2] >= 0.5 * column_seconds ? symbols[most] : ' ';
        }
    }
}

gal_code gal_oases_lines(const gal_oases_fit *fit, gal_oases_line out[GAL_OASES_SCHEDULES], gal_error *err)
{
    gal_code code = GAL_OK;
    played all[GAL_OASES_SCHEDULES] = {{.program = NULL}};
    double longest = 0.0;
    for (uint32_t method = 0; method < GAL_OASES_SCHEDULES; method++) {
        double begin = 0.0, end = 0.0;
        GAL_TRY(play(fit, (gal_oases_method)method, &all[method], err));
        span_of(&all[method], &begin, &end);
        longest = fmax(longest, end - begin);
    }
    for (uint32_t method = 0; method < GAL_OASES_SCHEDULES; method++) {
        picture p;
        draw(&all[method], longest / GAL_OASES_COLUMNS, &p);
        write_lines(&p, longest / GAL_OASES_COLUMNS, &out[method]);
    }
cleanup:
    for (uint32_t method = 0; method < GAL_OASES_SCHEDULES; method++) {
        gal_simulation_free(&all[method].simulation);
        gal_program_free(all[method].program);
    }
    return code;
}
