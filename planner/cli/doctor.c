/* galplan doctor: what is on this machine, and what that allows. */
#include "planner/cli/doctor.h"

#include <stdio.h>
#include <string.h>

#include "planner/cli/machine.h"
#include "planner/search/joint_search.h"
#include "schemas/cluster.h"
#include "schemas/model.h"

enum { ABILITY_COUNT = 4 };

typedef struct ability {
    const char *name;
    bool possible;
    char text[GAL_FINDING_TEXT_BYTES];
} ability;

/* A search of the smallest model that ships, on one device of a cluster that ships. */
static gal_code try_to_plan(gal_error *err)
{
    gal_code code = GAL_OK;
    gal_model model;
    gal_cluster cluster;
    gal_durations *durations = NULL;
    gal_search_result result = {0};
    gal_search_request request = {.model = &model,
                                  .profile_hash = "",
                                  .batches = {.count = 1, .value = {8}},
                                  .microbatch_counts = {.count = 1, .value = {1}},
                                  .schedule = GAL_SCHEDULE_1F1B,
                                  .prefetch_depth = 2,
                                  .label_limit = 500};
    GAL_TRY(gal_space_parse("dp", &request.space, err));
    GAL_TRY(gal_model_read("gpt2-small", &model, err));
    GAL_TRY(gal_cluster_read("h100-8", &cluster, err));
    cluster.device_count = 1;
    cluster.level_count = 1;
    cluster.level[0].span_devices = 1;
    GAL_TRY(gal_durations_create_analytic(&cluster, &durations, err));
    request.durations = durations;
    GAL_TRY(gal_search(&request, &result, err));
    if (!result.feasible) {
        code = gal_fail(err, GAL_ERR_SYSTEM, "gpt2-small finds no plan on one device of h100-8");
    }
cleanup:
    gal_search_result_free(&result);
    gal_durations_free(durations);
    return code;
}

/* What is missing of the wanted, "" if nothing. */
static void missing_of(const gal_machine *machine, const gal_found *wanted, uint32_t count, char *text)
{
    text[0] = '\0';
    for (uint32_t i = 0; i < count; i++) {
        const gal_finding *finding = &machine->finding[wanted[i]];
        if (!finding->found) {
            const size_t used = strlen(text);
            (void)snprintf(text + used, GAL_FINDING_TEXT_BYTES - used, "%s%s", used == 0 ? "missing: " : ", ",
                           finding->name);
        }
    }
}

static void judge(const gal_machine *machine, ability *out, const char *name, const gal_found *wanted, uint32_t count,
                  const char *how)
{
    out->name = name;
    missing_of(machine, wanted, count, out->text);
    out->possible = out->text[0] == '\0';
    if (out->possible) {
        (void)snprintf(out->text, sizeof out->text, "%s", how);
    }
}

static gal_code judge_all(const gal_machine *machine, ability out[ABILITY_COUNT])
{
    static const gal_found to_profile[] = {GAL_FOUND_PROFILER, GAL_FOUND_MPI, GAL_FOUND_BLAS, GAL_FOUND_HWLOC,
                                           GAL_FOUND_MPIRUN};
    static const gal_found to_train[] = {GAL_FOUND_GALRUN, GAL_FOUND_MPI, GAL_FOUND_BLAS, GAL_FOUND_MPIRUN};
    static const gal_found to_spread[] = {GAL_FOUND_GALRUN, GAL_FOUND_MPI, GAL_FOUND_BLAS};
    char how[GAL_FINDING_TEXT_BYTES];
    gal_error err = {0};
    const gal_code code = try_to_plan(&err);
    out[0] = (ability){.name = "plan", .possible = code == GAL_OK};
    (void)snprintf(out[0].text, sizeof out[0].text, "%.*s", GAL_FINDING_TEXT_BYTES - 1,
                   code == GAL_OK ? "galplan search --model gpt2-small --cluster h100-8" : err.text);
    judge(machine, &out[1], "measure", to_profile, sizeof to_profile / sizeof to_profile[0],
          "galplan profile --model gpt2-small --np N -o profile.json");
    (void)snprintf(how, sizeof how, "galrun plan.json --np N: CPU ranks, up to %u with a core each",
                   machine->core_count);
    judge(machine, &out[2], "train", to_train, sizeof to_train / sizeof to_train[0], how);
    const bool slurm = machine->finding[GAL_FOUND_SRUN].found;
    judge(machine, &out[3], "many machines", to_spread, sizeof to_spread / sizeof to_spread[0],
          slurm ? "srun galrun plan.json (sample: train.sbatch)"
                : "mpirun --host A,B galrun plan.json (sample: train.mpirun.sh)");
    if (out[3].possible && !slurm && !machine->finding[GAL_FOUND_MPIRUN].found) {
        out[3].possible = false;
        (void)snprintf(out[3].text, sizeof out[3].text, "missing: mpirun or srun");
    }
    return code;
}

static void print_text(const gal_machine *machine, const ability *abilities)
{
    printf("here:\n");
    for (uint32_t i = 0; i < GAL_FOUND_COUNT; i++) {
        const gal_finding *f = &machine->finding[i];
        if (f->found) {
            printf("  %-16s %s\n", f->name, f->text);
        } else {
            printf("  %-16s not found; looked for %s\n", f->name, f->looked_for);
        }
    }
    printf("\nwhat that allows (galrun computes on the CPU; GPUs are only reported):\n");
    for (uint32_t i = 0; i < ABILITY_COUNT; i++) {
        printf("  %-16s %-4s %s\n", abilities[i].name, abilities[i].possible ? "yes" : "no", abilities[i].text);
    }
}

static gal_code print_json(const gal_machine *machine, const ability *abilities, gal_error *err)
{
    gal_json_writer *json = gal_json_writer_create();
    gal_json_begin_object(json, NULL);
    gal_json_begin_array(json, "findings");
    for (uint32_t i = 0; i < GAL_FOUND_COUNT; i++) {
        const gal_finding *f = &machine->finding[i];
        gal_json_begin_object(json, NULL);
        gal_json_put_string(json, "name", f->name);
        gal_json_put_bool(json, "found", f->found);
        gal_json_put_string(json, "text", f->text);
        gal_json_put_string(json, "looked_for", f->looked_for);
        gal_json_end_object(json);
    }
    gal_json_end_array(json);
    gal_json_begin_array(json, "abilities");
    for (uint32_t i = 0; i < ABILITY_COUNT; i++) {
        gal_json_begin_object(json, NULL);
        gal_json_put_string(json, "name", abilities[i].name);
        gal_json_put_bool(json, "possible", abilities[i].possible);
        gal_json_put_string(json, "text", abilities[i].text);
        gal_json_end_object(json);
    }
    gal_json_end_array(json);
    gal_json_put_u64(json, "core_count", machine->core_count);
    gal_json_end_object(json);
    const gal_code code = gal_json_writer_save(json, "-", err);
    gal_json_writer_free(json);
    return code;
}

int gal_cli_doctor(int argc, char **argv)
{
    bool as_json = false;
    const gal_option options[] = {gal_option_flag("json", "print one JSON object", &as_json)};
    const gal_command command = {
        .program = "galplan",
        .command = "doctor",
        .summary = "Say what is on this machine and what that allows.",
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .notes = "Libraries are looked for by the dynamic linker (LD_LIBRARY_PATH counts), programs on PATH.\n"
                 "Exit: 0 planning works, whatever else is missing.\n",
    };
    gal_arguments arguments;
    gal_machine machine;
    ability abilities[ABILITY_COUNT];
    gal_error err = {0};
    int exit_code = 0;
    if (!gal_options_run(&command, argc, argv, &arguments, &exit_code)) {
        return exit_code;
    }
    gal_machine_look(&machine);
    gal_code code = judge_all(&machine, abilities);
    if (as_json) {
        const gal_code saved = print_json(&machine, abilities, &err);
        code = code == GAL_OK ? saved : code;
    } else {
        print_text(&machine, abilities);
    }
    return gal_options_end("galplan", "doctor", code, &err);
}
