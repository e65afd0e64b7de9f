#include "planner/cli/search_ctas.h"

#include <stdlib.h>
#include <string.h>

gal_code gal_ctas_parse(const char *text, gal_ctas *out, gal_error *err)
{
    *out = (gal_ctas){.ctas = 0};
    if (text == NULL) {
        return GAL_OK;
    }
    if (strcmp(text, "auto") == 0) {
        out->is_auto = true;
        return GAL_OK;
    }
    const size_t length = strlen(text);
    const unsigned long ctas =
        length > 0 && length < 9 && strspn(text, "0123456789") == length ? strtoul(text, NULL, 10) : 0;
    if (ctas < 1 || ctas > GAL_COMMUNICATION_CTAS_MAX) {
        return gal_fail(err, GAL_ERR_USAGE, "--communication-ctas: must be auto or a number from 1 to %d, got '%s'",
                        GAL_COMMUNICATION_CTAS_MAX, text);
    }
    out->ctas = (uint32_t)ctas;
    return GAL_OK;
}

static double samples_per_second(const gal_search_result *result)
{
    return result->feasible ? gal_finalist_rate(result->finalist) : 0.0;
}

static gal_code check_profile(const gal_profile *profile, gal_error *err)
{
    const gal_profile_gpu *gpu = &profile->gpu;
    bool known = profile->has_gpu && gpu->by_ctas_count > 0;
    for (uint32_t i = 0; known && i < gpu->by_ctas_count; i++) {
        known = gpu->by_ctas[i].communication_alone > 0.0;
    }
    return known ? GAL_OK
                 : gal_fail(
                       err, GAL_ERR_USAGE,
                       "--communication-ctas auto needs a --profile that says how long collectives take by how many "
                       "thread blocks (communication_alone of slowdown_by_ctas, of two GPUs or more by NCCL): give a "
                       "number");
}

gal_code gal_ctas_search(const gal_profile *profile, const gal_algorithm *algorithm, gal_search_request *request,
                         const gal_solver_limits *limits, gal_ctas *ctas, gal_durations **durations,
                         gal_algorithm_answer *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_durations *made = NULL;
    gal_algorithm_answer answer = {0};
    double best = -1.0;
    GAL_TRY(check_profile(profile, err));
    for (uint32_t i = 0; i <= profile->gpu.by_ctas_count; i++) {
        const uint32_t count = i == 0 ? 0 : profile->gpu.by_ctas[i - 1].ctas;
        GAL_TRY(gal_durations_create_at(profile, count, &made, err));
        request->durations = made;
        GAL_TRY(algorithm->search(request, limits, &answer, err));
        const double rate = samples_per_second(&answer.search);
        ctas->tried[ctas->tried_count++] = (gal_ctas_tried){count, rate};
        if (rate > best) {
            const gal_algorithm_answer worse = *out;
            gal_durations *left = *durations;
            *out = answer;
            *durations = made;
            ctas->ctas = count;
            best = rate;
            answer = worse;
            made = left;
        }
        gal_algorithm_answer_free(&answer);
        gal_durations_free(made);
        answer = (gal_algorithm_answer){0};
        made = NULL;
    }
cleanup:
    request->durations = *durations;
    gal_algorithm_answer_free(&answer);
    gal_durations_free(made);
    return code;
}

void gal_ctas_mark(const gal_ctas *ctas, gal_search_result *result)
{
    for (uint32_t i = 0; i < result->finalist_count; i++) {
        result->finalist[i].plan.communication_ctas = ctas->ctas;
    }
}

void gal_ctas_print(FILE *out, const gal_ctas *ctas, bool priced)
{
    if (ctas->is_auto) {
        fprintf(out, "\n  thread blocks of a collective  samples/s\n");
        for (uint32_t i = 0; i < ctas->tried_count; i++) {
            const gal_ctas_tried *tried = &ctas->tried[i];
            char count[16] = "NCCL's own";
            if (tried->ctas > 0) {
                (void)snprintf(count, sizeof count, "%u", tried->ctas);
            }
            fprintf(out, "  %29s  %9.2f%s\n", count, tried->samples_per_second,
                    tried->ctas == ctas->ctas ? "  (the plan's)" : "");
        }
    } else if (ctas->ctas > 0) {
        fprintf(out, "\n  a collective takes %u thread blocks of a GPU%s\n", ctas->ctas,
                priced ? "" : "; what that costs is not known, and not in the prices");
    }
}

void gal_ctas_put(gal_json_writer *out, const gal_ctas *ctas)
{
    if (ctas->is_auto || ctas->ctas > 0) {
        gal_json_put_u64(out, "communication_ctas", ctas->ctas);
    }
    if (!ctas->is_auto) {
        return;
    }
    gal_json_begin_array(out, "communication_ctas_tried");
    for (uint32_t i = 0; i < ctas->tried_count; i++) {
        gal_json_begin_object(out, NULL);
        gal_json_put_u64(out, "ctas", ctas->tried[i].ctas);
        gal_json_put_f64(out, "samples_per_second", ctas->tried[i].samples_per_second);
        gal_json_end_object(out);
    }
    gal_json_end_array(out);
}
