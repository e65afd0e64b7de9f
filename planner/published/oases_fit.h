/* Constants of the two clusters of the paper of Oases, fitted to what Megatron-LM reached on them.
 *
 * The least sum of (log(simulated / measured) / 5 %)^2 over the six measurements and of (log of a factor / 1)^2 over
 * the constants, factors on what the cluster documents say: what measurements do not tell stays there. By Gauss and
 * Newton, derivatives by differences, steps halved until they help. Both clusters have one kind of GPU and of network:
 * gemm_fraction, memory_fraction and the network's achievable_fraction are common; that of PCIe is each cluster's own,
 * as in one of them NVLink takes half of a ring's hops. NVLink itself no measurement tells of. */
#ifndef GAL_PLANNER_PUBLISHED_OASES_FIT_H
#define GAL_PLANNER_PUBLISHED_OASES_FIT_H

#include "schemas/cluster.h"

enum { GAL_OASES_CLUSTERS = 2 };

/* As the tables call them, and as the catalogue does. */
extern const char *const gal_oases_cluster_names[GAL_OASES_CLUSTERS];
extern const char *const gal_oases_cluster_documents[GAL_OASES_CLUSTERS];

/* X(enumerator, name) */
#define GAL_OASES_CONSTANTS(X)                                                                                         \
    X(GAL_OASES_GEMM, "gemm_fraction")                                                                                 \
    X(GAL_OASES_MEMORY, "memory_fraction")                                                                             \
    X(GAL_OASES_NETWORK, "infiniband fraction")                                                                        \
    X(GAL_OASES_PCIE_BESIDE_NVLINK, "pcie fraction, NVLink 3090")                                                      \
    X(GAL_OASES_PCIE, "pcie fraction, 3090")

typedef enum gal_oases_constant {
#define X(enumerator, name) enumerator,
    GAL_OASES_CONSTANTS(X)
#undef X
        GAL_OASES_CONSTANT_COUNT
} gal_oases_constant;

extern const char *const gal_oases_constant_names[GAL_OASES_CONSTANT_COUNT];

enum { GAL_OASES_MEASURED = 6 };

typedef struct gal_oases_fit {
    double value[GAL_OASES_CONSTANT_COUNT];       /* the fractions */
    double tokens_per_second[GAL_OASES_MEASURED]; /* as simulated with them */
} gal_oases_fit;

/* A measurement: Megatron-LM on 32 devices (Oases, Table 3). */
typedef struct gal_oases_measured {
    uint32_t cluster, hidden;
    double tokens_per_second;
} gal_oases_measured;
extern const gal_oases_measured gal_oases_measurement[GAL_OASES_MEASURED];

/* Table 4, by hidden size. */
typedef struct gal_oases_model {
    uint32_t hidden, tp_degree;
    const char *document;
} gal_oases_model;
enum { GAL_OASES_MODELS = 7 };
extern const gal_oases_model gal_oases_models[GAL_OASES_MODELS];
const gal_oases_model *gal_oases_model_of(uint32_t hidden); /* one of these */

/* GAL_ERR_SYSTEM without memory. */
gal_code gal_oases_fit_clusters(gal_oases_fit *out, gal_error *err);
/* Puts the constants in the place of the document's. */
void gal_oases_fit_apply(const gal_oases_fit *fit, uint32_t cluster, gal_cluster *out);

#endif
