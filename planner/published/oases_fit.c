#include "planner/published/oases_fit.h"

#include <math.h>
#include <string.h>

#include "costmodel/simulate.h"
#include "planner/published/oases_case.h"
#include "runtime/program/program.h"

enum { N = GAL_OASES_CONSTANT_COUNT, ROWS = GAL_OASES_MEASURED, DEVICES = 32, STEPS_MAX = 20, HALVINGS_MAX = 12 };

static const double residual_unit = 0.05, difference = 1e-3;

const char *const gal_oases_cluster_names[GAL_OASES_CLUSTERS] = {"NVLink 3090", "3090"};
const char *const gal_oases_cluster_documents[GAL_OASES_CLUSTERS] = {"rtx3090-nvlink-32", "rtx3090-32"};

#define X(enumerator, name) [enumerator] = name,
const char *const gal_oases_constant_names[GAL_OASES_CONSTANT_COUNT] = {GAL_OASES_CONSTANTS(X)};
#undef X

/* Oases, Table 3, the column of Megatron-LM. */
const gal_oases_measured gal_oases_measurement[GAL_OASES_MEASURED] = {
    {0, 2048, 31.4e3}, {0, 4096, 18.1e3}, {0, 8192, 5.6e3}, {1, 2048, 23.0e3}, {1, 4096, 14.0e3}, {1, 8192, 5.3e3}};

/* Oases, Table 4. */
const gal_oases_model gal_oases_models[GAL_OASES_MODELS] = {
    {1024, 2, "oases-h1024"}, {2048, 4, "oases-h2048"}, {3072, 4, "oases-h3072"},  {4096, 4, "oases-h4096"},
    {6144, 8, "oases-h6144"}, {8192, 8, "oases-h8192"}, {12288, 8, "oases-h12288"}};

const gal_oases_model *gal_oases_model_of(uint32_t hidden)
{
    uint32_t i = 0;
    while (i + 1 < GAL_OASES_MODELS && gal_oases_models[i].hidden != hidden) {
        i++;
    }
    GAL_ASSERT(gal_oases_models[i].hidden == hidden);
    return &gal_oases_models[i];
}

/* ---- constants in a cluster ---- */

/* The outermost level that is shared, the way out of nodes, or is not, PCIe. NULL: of so few devices there is none. */
static gal_link_level *outermost(gal_cluster *cluster, bool shared)
{
    gal_link_level *found = NULL;
    for (uint32_t i = 0; i < cluster->level_count; i++) {
        found = cluster->level[i].shared == shared ? &cluster->level[i] : found;
    }
    return found;
}

static double *field_of(gal_cluster *cluster, uint32_t constant)
{
    gal_link_level *level = NULL;
    switch ((gal_oases_constant)constant) {
    case GAL_OASES_GEMM:
        return &cluster->device.gemm_fraction;
    case GAL_OASES_MEMORY:
        return &cluster->device.memory_fraction;
    default:
        level = outermost(cluster, constant == GAL_OASES_NETWORK);
        return level == NULL ? NULL : &level->achievable_fraction;
    }
}

static bool is_of_cluster(uint32_t constant, uint32_t cluster)
{
    const bool pcie = constant == GAL_OASES_PCIE || constant == GAL_OASES_PCIE_BESIDE_NVLINK;
    return !pcie || (constant == GAL_OASES_PCIE) == (cluster == 1);
}

void gal_oases_fit_apply(const gal_oases_fit *fit, uint32_t cluster, gal_cluster *out)
{
    for (uint32_t k = 0; k < N; k++) {
        double *field = is_of_cluster(k, cluster) ? field_of(out, k) : NULL;
        if (field != NULL) {
            *field = fit->value[k];
        }
    }
}

/* ---- residuals ---- */

typedef struct fit {
    gal_cluster cluster[GAL_OASES_CLUSTERS];
    gal_program *program[ROWS];
    double tokens[ROWS]; /* of a step */
    double start[N];     /* what the documents say */
} fit;

/* z: logarithms of factors; no fraction is above 1. */
static void value_of(const fit *f, const double *z, double *value)
{
    for (uint32_t k = 0; k < N; k++) {
        value[k] = fmin(1.0, f->start[k] * exp(z[k]));
    }
}

static gal_code residuals(const fit *f, const double *z, double *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_oases_fit now;
    gal_durations *durations[GAL_OASES_CLUSTERS] = {NULL};
    value_of(f, z, now.value);
    for (uint32_t c = 0; c < GAL_OASES_CLUSTERS; c++) {
        gal_cluster cluster = f->cluster[c];
        gal_oases_fit_apply(&now, c, &cluster);
        GAL_TRY(gal_durations_create_analytic(&cluster, &durations[c], err));
    }
    for (uint32_t i = 0; i < ROWS; i++) {
        const gal_oases_measured *row = &gal_oases_measurement[i];
        gal_simulation simulation = {0};
        GAL_TRY(gal_simulate(&f->program[i], 1, durations[row->cluster], false, &simulation, err));
        out[i] = log(simulation.iteration_seconds * row->tokens_per_second / f->tokens[i]);
        gal_simulation_free(&simulation);
    }
cleanup:
    for (uint32_t c = 0; c < GAL_OASES_CLUSTERS; c++) {
        gal_durations_free(durations[c]);
    }
    return code;
}

static double loss(const double *residual, const double *z)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < ROWS; i++) {
        sum += residual[i] * residual[i] / (residual_unit * residual_unit);
    }
    for (uint32_t k = 0; k < N; k++) {
        sum += z[k] * z[k];
    }
    return sum;
}

/* ---- Gauss and Newton ---- */

/* Solves in place; matrix is positive definite: the constants' own part of the loss makes it so. */
static void solve(double matrix[N][N], double right[N])
{
    for (uint32_t k = 0; k < N; k++) {
        for (uint32_t r = k + 1; r < N; r++) {
            const double factor = matrix[r][k] / matrix[k][k];
            for (uint32_t c = k; c < N; c++) {
                matrix[r][c] -= factor * matrix[k][c];
            }
            right[r] -= factor * right[k];
        }
    }
    for (uint32_t k = N; k-- > 0;) {
        for (uint32_t c = k + 1; c < N; c++) {
            right[k] -= matrix[k][c] * right[c];
        }
        right[k] /= matrix[k][k];
    }
}

/* The step from z, to be subtracted. */
static gal_code newton_step(const fit *f, const double *z, const double *residual, double *step, gal_error *err)
{
    gal_code code = GAL_OK;
    double slope[N][ROWS], matrix[N][N], beside[N], changed[ROWS];
    const double weight = 1.0 / (residual_unit * residual_unit);
    for (uint32_t k = 0; k < N; k++) {
        memcpy(beside, z, sizeof beside);
        beside[k] -= difference; /* away from the upper bound */
        GAL_TRY(residuals(f, beside, changed, err));
        for (uint32_t i = 0; i < ROWS; i++) {
            slope[k][i] = (residual[i] - changed[i]) / difference;
        }
    }
    for (uint32_t k = 0; k < N; k++) {
        step[k] = z[k];
        for (uint32_t i = 0; i < ROWS; i++) {
            step[k] += weight * slope[k][i] * residual[i];
        }
        for (uint32_t l = 0; l < N; l++) {
            matrix[k][l] = k == l ? 1.0 : 0.0;
            for (uint32_t i = 0; i < ROWS; i++) {
                matrix[k][l] += weight * slope[k][i] * slope[l][i];
            }
        }
    }
    solve(matrix, step);
cleanup:
    return code;
}

static gal_code descend(const fit *f, double *z, double *residual, gal_error *err)
{
    gal_code code = GAL_OK;
    double step[N], next[N], changed[ROWS];
    GAL_TRY(residuals(f, z, residual, err));
    double best = loss(residual, z);
    for (uint32_t i = 0; i < STEPS_MAX; i++) {
        const double before = best;
        GAL_TRY(newton_step(f, z, residual, step, err));
        for (uint32_t h = 0; h < HALVINGS_MAX && best == before; h++) {
            for (uint32_t k = 0; k < N; k++) {
                next[k] = z[k] - step[k] * exp2(-(double)h);
            }
            GAL_TRY(residuals(f, next, changed, err));
            if (loss(changed, next) < best) {
                best = loss(changed, next);
                memcpy(z, next, sizeof next);
                memcpy(residual, changed, sizeof changed);
            }
        }
        if (before - best < 1e-9 * (1.0 + best)) {
            break;
        }
    }
cleanup:
    return code;
}

/* ---- all of it ---- */

static gal_code prepare(fit *f, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_plan plan = {0};
    for (uint32_t i = 0; i < ROWS; i++) {
        const gal_oases_measured *row = &gal_oases_measurement[i];
        const gal_oases_model *model = gal_oases_model_of(row->hidden);
        gal_oases_case of;
        GAL_TRY(gal_oases_case_read(model->document, gal_oases_cluster_documents[row->cluster], DEVICES,
                                    model->tp_degree, &of, err));
        GAL_TRY(gal_oases_case_plan(&of, GAL_OASES_MEGATRON, &plan, err));
        GAL_TRY(gal_oases_plan_lower(&plan, &f->program[i], err));
        gal_plan_free(&plan);
        f->tokens[i] = (double)of.global_batch_samples * of.model.sequence_length;
        f->cluster[row->cluster] = of.cluster;
    }
    for (uint32_t k = 0; k < N; k++) {
        f->start[k] = *field_of(&f->cluster[k == GAL_OASES_PCIE ? 1 : 0], k);
    }
cleanup:
    gal_plan_free(&plan);
    return code;
}

gal_code gal_oases_fit_clusters(gal_oases_fit *out, gal_error *err)
{
    gal_code code = GAL_OK;
    fit f = {.program = {NULL}};
    double z[N] = {0}, residual[ROWS];
    GAL_TRY(prepare(&f, err));
    GAL_TRY(descend(&f, z, residual, err));
    value_of(&f, z, out->value);
    for (uint32_t i = 0; i < ROWS; i++) {
        out->tokens_per_second[i] = gal_oases_measurement[i].tokens_per_second / exp(residual[i]);
    }
cleanup:
    for (uint32_t i = 0; i < ROWS; i++) {
        gal_program_free(f.program[i]);
    }
    return code;
}
