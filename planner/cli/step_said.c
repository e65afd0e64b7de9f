#include "planner/cli/step_said.h"

#include "planner/answers/figure_text.h"

static uint32_t device_count_of(const gal_plan *plan)
{
    return plan->pp_degree * gal_plan_stage_devices(plan);
}

void gal_step_said_figures(const gal_step_said *said, gal_figures *out)
{
    const gal_plan *plan = said->plan;
    gal_figures_of(&(gal_step){.model = &plan->model,
                               .device = &plan->cluster.device,
                               .device_count = device_count_of(plan),
                               .global_batch_samples = plan->global_batch_samples,
                               .tf32 = said->tf32,
                               .seconds = said->seconds},
                   out);
}

uint64_t gal_plan_memory_limit(const gal_plan *plan)
{
    if (plan->risk.present) {
        return plan->risk.memory_bytes;
    }
    return plan->certificate.present ? plan->certificate.memory_bytes : plan->cluster.device.memory_bytes;
}

void gal_step_print(FILE *out, const gal_step_said *said)
{
    char seconds[GAL_FIGURE_TEXT_BYTES], rate[GAL_FIGURE_TEXT_BYTES], text[GAL_FIGURE_TEXT_BYTES];
    const gal_model *model = &said->plan->model;
    gal_figures f;
    gal_step_said_figures(said, &f);
    fprintf(out, "step %s s, %s %s/s", gal_figure_text(f.step_seconds, seconds),
            gal_figure_text(f.tokens_per_second, rate), gal_model_token_noun(model));
    if (!gal_model_sees_images(model)) {
        fprintf(out, ", %s samples/s", gal_figure_text(f.samples_per_second, text));
    }
    fprintf(out, ", memory %s\n", gal_memory_of_text(said->bytes, gal_plan_memory_limit(said->plan), text));
    fprintf(out, "  per %s: %s %s/s, ", gal_device_noun(&said->plan->cluster.device),
            gal_figure_text(f.tokens_per_second_per_device, rate), gal_model_token_noun(model));
    fprintf(out, "%s TFLOP/s of the model, MFU %.1f %%\n",
            gal_figure_text(f.model_flops_per_second_per_device * 1e-12, text), 100.0 * f.mfu);
}

void gal_step_print_notes(FILE *out, const gal_step_said *said)
{
    char tokens[GAL_FIGURE_TEXT_BYTES], days[GAL_FIGURE_TEXT_BYTES], hours[GAL_FIGURE_TEXT_BYTES];
    gal_figures f;
    gal_training training;
    gal_step_said_figures(said, &f);
    if (said->tokens > 0.0) {
        gal_training_of(said->tokens, &f, device_count_of(said->plan), &training);
        fprintf(out, "  %s %s take %s days, %s %s-hours\n", gal_tokens_text(training.tokens, tokens),
                gal_model_token_noun(&said->plan->model), gal_figure_text(training.days, days),
                gal_figure_text(training.device_hours, hours), gal_device_noun(&said->plan->cluster.device));
    }
    if (!said->measured && f.mfu > GAL_MFU_PUBLISHED_MOST) {
        fprintf(
            out,
            "  warning: MFU %.1f %% is above what published runs reach (%.0f %%): durations come from data sheets\n",
            100.0 * f.mfu, 100.0 * GAL_MFU_PUBLISHED_MOST);
    }
}

void gal_step_print_interval(FILE *out, const gal_step_said *said, const gal_prediction *in)
{
    char low[GAL_FIGURE_TEXT_BYTES], high[GAL_FIGURE_TEXT_BYTES];
    const bool seconds_apart = in->high_seconds > in->low_seconds, bytes_apart = in->high_bytes > in->low_bytes;
    if (seconds_apart || bytes_apart) {
        fprintf(out, "  90 %%: ");
    }
    if (seconds_apart) {
        gal_step_said slow = *said, fast = *said;
        gal_figures slowest, fastest;
        slow.seconds = in->high_seconds;
        fast.seconds = in->low_seconds;
        gal_step_said_figures(&slow, &slowest);
        gal_step_said_figures(&fast, &fastest);
        fprintf(out, "step %s to %s s, ", gal_figure_text(in->low_seconds, low),
                gal_figure_text(in->high_seconds, high));
        fprintf(out, "%s to %s %s/s per %s", gal_figure_text(slowest.tokens_per_second_per_device, low),
                gal_figure_text(fastest.tokens_per_second_per_device, high), gal_model_token_noun(&said->plan->model),
                gal_device_noun(&said->plan->cluster.device));
    }
    if (bytes_apart) {
        fprintf(out, "%s%s to %s", seconds_apart ? ", " : "", gal_memory_text((uint64_t)in->low_bytes, low),
                gal_memory_text((uint64_t)in->high_bytes, high));
    }
    if (seconds_apart || bytes_apart) {
        fputc('\n', out);
    }
}

void gal_step_put(gal_json_writer *out, const gal_step_said *said)
{
    gal_figures f;
    gal_training training;
    gal_step_said_figures(said, &f);
    gal_figures_put(out, &f);
    gal_json_put_u64(out, "memory_limit_bytes", gal_plan_memory_limit(said->plan));
    gal_training_of(said->tokens, &f, device_count_of(said->plan), &training);
    gal_training_put(out, &training);
}
