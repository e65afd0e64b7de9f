#include "runtime/cli/report.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/program/program.h"
#include "runtime/train/data.h"
#include "runtime/train/session.h"
#include "runtime/train/step_line.h"

static double mib(uint64_t bytes)
{
    return (double)bytes / (1024.0 * 1024.0);
}

/* Of the prediction, and whether what was measured lies in it. */
static void print_interval(const gal_plan *plan, double measured, FILE *out)
{
    const double low = plan->simulated_low_seconds, high = plan->simulated_high_seconds;
    if (high > 0.0) {
        fprintf(out, "%-20s %.6f to %.6f", "  90 % interval", low, high);
        if (measured > 0.0) {
            fprintf(out, "   measured %s", measured < low ? "below it" : measured > high ? "above it" : "within it");
        }
        fputc('\n', out);
    }
}

static void print_rate(const char *name, double predicted, double measured, const char *format, FILE *out)
{
    char text[2][32] = {"-", "-"};
    if (predicted > 0.0) {
        snprintf(text[0], sizeof text[0], format, predicted);
    }
    if (measured > 0.0) {
        snprintf(text[1], sizeof text[1], format, measured);
    }
    fprintf(out, "%-20s %12s %12s", name, text[0], text[1]);
    if (predicted > 0.0 && measured > 0.0) {
        fprintf(out, "   %+.1f %%", 100.0 * (predicted / measured - 1.0));
    }
    fputc('\n', out);
}

/* Zeroed figures where the seconds are not known. */
static gal_figures figures_at(const gal_step *work, double seconds)
{
    gal_figures figures = {0};
    gal_step step = *work;
    step.seconds = seconds;
    if (seconds > 0.0) {
        gal_figures_of(&step, &figures);
    }
    return figures;
}

static void print_figures(const gal_plan *plan, const gal_step *work, FILE *out)
{
    char name[32];
    const gal_figures predicted = figures_at(work, plan->simulated_seconds), measured = figures_at(work, work->seconds);
    snprintf(name, sizeof name, "%s per second", gal_model_token_noun(work->model));
    print_rate(name, predicted.tokens_per_second, measured.tokens_per_second, "%.1f", out);
    if (work->device_count > 1) {
        print_rate("  per device", predicted.tokens_per_second_per_device, measured.tokens_per_second_per_device,
                   "%.1f", out);
    }
    const double peak = gal_device_peak_flops_per_second(work->device, work->model->compute_dtype, work->tf32);
    const bool tera = peak >= 1e12;
    const double unit = tera ? 1e12 : 1e9;
    print_rate(tera ? "TFLOP/s per device" : "GFLOP/s per device", predicted.model_flops_per_second_per_device / unit,
               measured.model_flops_per_second_per_device / unit, "%.2f", out);
    snprintf(name, sizeof name, tera ? "MFU of %.0f TFLOP/s" : "MFU of %.1f GFLOP/s", peak / unit);
    print_rate(name, 100.0 * predicted.mfu, 100.0 * measured.mfu, "%.3g %%", out);
}

/* What the loss is a mean of. */
static const char *unit_of(const gal_model *model)
{
    return gal_model_sees_images(model) ? "image" : model->family == GAL_FAMILY_BERT ? "masked token" : "token";
}

void gal_report_start(const gal_plan *plan, const gal_train_options *options)
{
    const gal_model *model = &plan->model;
    const uint64_t tokens = gal_model_sample_tokens(model);
    char batch[64];
    snprintf(batch, sizeof batch, "%u %s", plan->global_batch_samples, gal_model_token_noun(model));
    if (tokens > 1) {
        snprintf(batch, sizeof batch, "%u x %llu %s", plan->global_batch_samples, (unsigned long long)tokens,
                 gal_model_token_noun(model));
    }
    gal_log_line(options->log, GAL_LOG_INFO, "%s: %.4g M parameters, %s, %s a step, %s, to step %llu, on %u x %s",
                 model->name, (double)gal_model_parameter_count(model) / 1e6, gal_dtype_names[model->compute_dtype],
                 batch, gal_optimizer_names[model->optimizer.kind], (unsigned long long)options->step_count,
                 gal_plan_rank_count(plan), plan->cluster.device.kind);
}

void gal_report_summary(const gal_plan *plan, const gal_train_summary *summary, const char *save_directory, FILE *out)
{
    const char *unit = unit_of(&plan->model);
    char memory[GAL_MEMORY_BYTES];
    fprintf(out, "%-20s %llu (%llu in this run%s)\n", "steps done", (unsigned long long)summary->step,
            (unsigned long long)(summary->step - summary->first_step), summary->interrupted ? ", interrupted" : "");
    if (!isnan(summary->loss)) {
        fprintf(out, "%-20s %.4f -> %.4f nats per %s\n", "training loss", summary->first_loss, summary->loss, unit);
    }
    if (!isnan(summary->validation_loss)) {
        fprintf(out, "%-20s %.4f nats per %s, over %llu batches\n", "validation loss", summary->validation_loss, unit,
                (unsigned long long)summary->validation_batches);
    }
    if (!isnan(summary->accuracy)) {
        fprintf(out, "%-20s %.2f %% of the %ss\n", "validation accuracy", 100.0 * summary->accuracy, unit);
    }
    if (gal_model_sees_images(&plan->model)) {
        fprintf(out, "%-20s %.4f nats per image: what label frequencies alone give\n", "label entropy",
                summary->unigram_entropy);
    } else {
        fprintf(out, "%-20s %.4f nats per token: what token frequencies alone give\n", "unigram entropy",
                summary->unigram_entropy);
    }
    if (summary->memory_bytes > 0) {
        fprintf(out, "%-20s %s, on the fullest device\n", "memory",
                gal_step_memory_text((double)summary->memory_bytes, plan->cluster.device.memory_bytes, memory));
    }
    if (summary->saved) {
        fprintf(out, "%-20s %s\n", "checkpoint", save_directory);
    }
    fprintf(out, "\n%-20s %12s %12s   error of the prediction\n", "", "predicted", "measured");
    print_rate("seconds per step", plan->simulated_seconds, summary->work.seconds, "%.6f", out);
    print_interval(plan, summary->work.seconds, out);
    print_figures(plan, &summary->work, out);
    for (uint32_t s = 0; s < summary->stage_count; s++) {
        const gal_stage_bytes *stage = &summary->stage[s];
        char name[32];
        snprintf(name, sizeof name, "MiB, stage %u", s);
        print_rate(name, mib(stage->predicted_bytes), mib(stage->resident_bytes), "%.2f", out);
        snprintf(name, sizeof name, "  of it arena");
        const uint64_t arena =
            stage->predicted_bytes > plan->fixed_bytes ? stage->predicted_bytes - plan->fixed_bytes : 0;
        print_rate(name, mib(arena), mib(stage->arena_bytes), "%.2f", out);
        if (stage->host_bytes > 0) {
            print_rate("  in the host's", mib(plan->stage[s].predicted_host_bytes), mib(stage->host_bytes), "%.2f",
                       out);
        }
        if (stage->storage_bytes > 0) {
            print_rate("  on storage", mib(plan->stage[s].predicted_storage_bytes), mib(stage->storage_bytes), "%.2f",
                       out);
        }
    }
}

void gal_report_communication(const gal_train_summary *summary, const gal_log *log)
{
    const gal_exposure *mean = &summary->exposure;
    if (summary->communicator_count == 0) {
        return;
    }
    gal_log_line(log, GAL_LOG_DETAIL, "%u communicators per rank, made once in %.6f s", summary->communicator_count,
                 summary->communicator_seconds);
    if (mean->seconds > 0.0) {
        gal_log_line(log, GAL_LOG_DETAIL,
                     "a step, mean of ranks: %.6f s, of it compute %.6f s, waiting for other streams %.6f s, serving "
                     "them %.6f s",
                     mean->seconds, mean->compute_seconds, mean->waiting_seconds, mean->serving_seconds);
    }
    for (uint32_t s = 0; s < GAL_STREAM_COUNT; s++) {
        if (mean->in_flight_seconds[s] > 0.0) {
            gal_log_line(log, GAL_LOG_DETAIL, "  %-8s %.6f s in flight, %.6f s exposed (%.1f %%)", gal_stream_names[s],
                         mean->in_flight_seconds[s], mean->exposed_seconds[s],
                         100.0 * gal_exposure_share(mean, (gal_stream)s));
        }
    }
}

void gal_report_device(const gal_train_summary *summary, const gal_log *log)
{
    const gal_engine_bytes *held = &summary->held;
    const uint64_t ours = held->arena_bytes + held->workspace_bytes;
    if (summary->device_bytes == 0) {
        return;
    }
    gal_log_line(log, GAL_LOG_DETAIL,
                 "%.2f MiB of the GPU are taken: arena %.2f, workspace %.2f, contexts, libraries and other ranks %.2f; "
                 "%.2f MiB pinned",
                 mib(summary->device_bytes), mib(held->arena_bytes), mib(held->workspace_bytes),
                 mib(summary->device_bytes > ours ? summary->device_bytes - ours : 0), mib(held->pinned_bytes));
}

static gal_code print_stage(const gal_plan *plan, uint32_t stage, FILE *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_program *program = NULL;
    char name[GAL_STRATEGY_NAME_BYTES];
    const gal_plan_stage *at = &plan->stage[stage]; /* its first piece */
    GAL_TRY(gal_lower(plan, stage, &program, err));
    fprintf(out, "stage %u: %u devices, ", stage, program->device_count);
    if (program->chunk_count > 1) {
        fprintf(out, "%u blocks in %u chunks", program->block_count, program->chunk_count);
    } else {
        fprintf(out, "blocks %u..%u", program->first_block, program->first_block + program->block_count - 1);
    }
    fprintf(out, ", arena %.2f MiB per device", mib(program->arena_bytes));
    if (program->host_bytes > 0) {
        fprintf(out, " and %.2f MiB in the host's memory", mib(program->host_bytes));
    }
    if (program->storage_bytes > 0) {
        fprintf(out, " and %.2f MiB on storage", mib(program->storage_bytes));
    }
    if (at->predicted_bytes > 0) {
        fprintf(out, ", planned %.2f MiB with %.2f MiB fixed", mib(at->predicted_bytes), mib(plan->fixed_bytes));
    }
    fputc('\n', out);
    for (uint32_t piece = stage; piece < gal_plan_piece_count(plan); piece += plan->stage_count) {
        uint32_t block = gal_plan_stage_first_block(plan, piece);
        at = &plan->stage[piece];
        for (uint32_t r = at->first_run; r < at->first_run + at->run_count; r++) {
            fprintf(out, "  blocks %u..%u: %s\n", block, block + plan->run[r].block_count - 1,
                    gal_strategy_name(&plan->run[r].strategy, name));
            block += plan->run[r].block_count;
        }
    }
    fprintf(out, "  %u instructions, %u calls per step, %u microbatches in flight\n", program->instruction_count,
            program->call_count, program->in_flight);
cleanup:
    gal_program_free(program);
    return code;
}

static gal_code print_data(const gal_plan *plan, const gal_train_options *options, FILE *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_data *data = NULL;
    const gal_data_options data_options = {
        .path = options->data_path,
        .validation_path = options->validation_path,
        .labels_path = options->labels_path,
        .validation_labels_path = options->validation_labels_path,
        .vocabulary = plan->model.vocabulary,
        .sequence_length = plan->model.sequence_length,
        .target_length = plan->model.decoder_sequence_length,
        .global_batch_samples = plan->global_batch_samples,
        .seed = options->seed,
        .model = &plan->model,
    };
    GAL_TRY(gal_data_open(&data_options, &data, err));
    const double epochs =
        (double)options->step_count * (double)plan->global_batch_samples / (double)gal_data_train_windows(data);
    if (gal_model_sees_images(&plan->model)) {
        fprintf(out, "data: %s: %llu training images, %llu validation images; %llu steps are %.2f epochs\n",
                options->data_path, (unsigned long long)gal_data_train_windows(data),
                (unsigned long long)gal_data_validation_windows(data), (unsigned long long)options->step_count, epochs);
        goto cleanup;
    }
    fprintf(out,
            "data: %s: %llu training tokens in %llu windows, %llu validation windows; %llu steps are %.2f epochs\n",
            options->data_path, (unsigned long long)gal_data_train_tokens(data),
            (unsigned long long)gal_data_train_windows(data), (unsigned long long)gal_data_validation_windows(data),
            (unsigned long long)options->step_count, epochs);
cleanup:
    gal_data_close(data);
    return code;
}

static void print_predicted(const gal_plan *plan, const gal_train_options *options, FILE *out)
{
    char duration[GAL_DURATION_BYTES];
    const gal_step work = gal_plan_step(plan, options->tf32);
    const gal_figures figures = figures_at(&work, plan->simulated_seconds);
    fprintf(out, "  %.1f %s/s, %.1f per device, MFU %.3g %%; %llu steps take %s\n", figures.tokens_per_second,
            gal_model_token_noun(&plan->model), figures.tokens_per_second_per_device, 100.0 * figures.mfu,
            (unsigned long long)options->step_count,
            gal_duration_text((double)options->step_count * plan->simulated_seconds, duration));
}

gal_code gal_report_dry_run(const gal_plan *plan, const gal_train_options *options, FILE *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_model *model = &plan->model;
    fprintf(out, "model %s: %llu parameters, %u layers, hidden %u, sequence %u, %s\n", model->name,
            (unsigned long long)gal_model_parameter_count(model), model->layer_count, model->hidden,
            model->sequence_length, gal_dtype_names[model->compute_dtype]);
    fprintf(out, "plan: %u ranks in %u stages, batch %u in %u microbatches, schedule %s\n", gal_plan_rank_count(plan),
            plan->stage_count, plan->global_batch_samples, plan->microbatch_count, gal_schedule_names[plan->schedule]);
    if (plan->communication_ctas > 0) {
        fprintf(out, "communication: %u thread blocks per collective on GPUs\n", plan->communication_ctas);
    }
    for (uint32_t s = 0; s < plan->stage_count; s++) {
        GAL_TRY(print_stage(plan, s, out, err));
    }
    if (plan->simulated_seconds > 0.0) {
        fprintf(out, "predicted: %.6f seconds per step\n", plan->simulated_seconds);
        print_interval(plan, 0.0, out);
        print_predicted(plan, options, out);
    }
    GAL_TRY(print_data(plan, options, out, err));
cleanup:
    return code;
}
