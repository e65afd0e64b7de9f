#include "planner/cli/next.h"

/* How galrun is started by the plan: it starts the ranks of one machine itself. */
static void print_galrun(FILE *out, const gal_plan *plan, const char *path)
{
    const uint32_t ranks = plan->pp_degree * gal_plan_stage_devices(plan);
    const char *const device = plan->cluster.device.multiprocessor_count > 0 ? " --device cuda" : "";
    const char *const labels = gal_model_sees_images(&plan->model) ? " --labels FILE" : "";
    const char *const storage = gal_plan_stores(plan) ? " --storage DIR" : "";
    if (ranks <= plan->cluster.level[0].span_devices) {
        fprintf(out, "galrun %s --np %u%s --data FILE%s%s\n", path, ranks, device, labels, storage);
    } else {
        fprintf(out, "mpirun -n %u galrun %s%s --data FILE%s%s\n", ranks, path, device, labels, storage);
    }
}

/* "galplan COMMAND PLAN --profile FILE", the profile as far as there is one. */
static void print_galplan(FILE *out, const char *command, const char *path, const char *profile_path)
{
    fprintf(out, "galplan %s %s%s%s", command, path, profile_path == NULL ? "" : " --profile ",
            profile_path == NULL ? "" : profile_path);
}

void gal_next_of_search(FILE *out, const gal_plan *plan, const char *path, const char *profile_path)
{
    if (path == NULL) {
        fprintf(out, "\nnext: -o plan.json writes the plan, for galplan verify, galplan simulate and galrun\n");
        return;
    }
    fprintf(out, "\nnext: ");
    print_galplan(out, "verify", path, profile_path);
    fprintf(out, "\n      ");
    print_galplan(out, "simulate", path, profile_path);
    fprintf(out, " --trace t.json\n      ");
    print_galrun(out, plan, path);
}

void gal_next_of_front(FILE *out)
{
    fprintf(out, "\nnext: --memory SIZE -o plan.json in place of --pareto writes the plan of a point\n");
}

void gal_next_of_simulation(FILE *out, const gal_plan *plan, const char *path, const char *profile_path,
                            const char *trace_path)
{
    if (trace_path == NULL) {
        fprintf(out, "\nnext: ");
        print_galplan(out, "simulate", path, profile_path);
        fprintf(out, " --trace t.json\n      ");
    } else {
        fprintf(out, "\nnext: open %s in https://ui.perfetto.dev\n      ", trace_path);
    }
    print_galrun(out, plan, path);
}

void gal_next_of_estimate(FILE *out, const char *cluster)
{
    fprintf(out, "next: galplan search --model MODEL --cluster %s -o plan.json\n",
            cluster == NULL ? "CLUSTER" : cluster);
}
