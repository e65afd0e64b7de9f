/* Graphs of cuDNN from C: tensors of four dimensions and the operations between them, their engines and plans.
 *
 * A graph is written down as straight lines: the first error sticks in it, later calls do nothing and give
 * GAL_CUDNN_NONE, and gal_cudnn_graph_finish says what went wrong. Arithmetic is fp32; what lies between operations is
 * virtual. */
#ifndef GAL_RUNTIME_OPS_CUDA_CUDNN_GRAPH_H
#define GAL_RUNTIME_OPS_CUDA_CUDNN_GRAPH_H

#include <cudnn_graph.h>
#include <stdbool.h>
#include <stdint.h>

#include "schemas/base/status.h"

enum { GAL_CUDNN_NONE = -1, GAL_CUDNN_TENSORS_MAX = 48, GAL_CUDNN_OPERATIONS_MAX = 32, GAL_CUDNN_ENGINES_MAX = 8 };

typedef struct gal_cudnn_shape {
    int64_t dim[4], stride[4]; /* strides in elements */
} gal_cudnn_shape;

/* Row-major without gaps. */
gal_cudnn_shape gal_cudnn_packed(int64_t a, int64_t b, int64_t c, int64_t d);
/* The last two dimensions exchanged. */
gal_cudnn_shape gal_cudnn_turned(gal_cudnn_shape shape);

typedef struct gal_cudnn_graph {
    cudnnBackendDescriptor_t tensor[GAL_CUDNN_TENSORS_MAX], operation[GAL_CUDNN_OPERATIONS_MAX];
    cudnnBackendDescriptor_t mode[GAL_CUDNN_OPERATIONS_MAX]; /* of the operations */
    gal_cudnn_shape shape[GAL_CUDNN_TENSORS_MAX];
    int tensor_count, operation_count;
    cudnnBackendDescriptor_t graph;
    const char *failed; /* NULL: all is well; else what was being made */
    cudnnStatus_t status;
} gal_cudnn_graph;

/* A tensor in memory; its number in the graph is the uid that gal_cudnn_plan_run takes. */
int gal_cudnn_tensor(gal_cudnn_graph *graph, cudnnDataType_t type, gal_cudnn_shape shape);
/* A number, given at each run: host memory behind the uid. */
int gal_cudnn_number(gal_cudnn_graph *graph, cudnnDataType_t type);

/* How many rows and columns of a product are wanted, and over how many entries it sums, sample by sample: tensors int32
 * [samples][1][1][1], or GAL_CUDNN_NONE: all. What lies behind is not defined, in memory left as it is or not. */
typedef struct gal_cudnn_limits {
    int rows, columns, depth;
} gal_cudnn_limits;

/* Operations give a new virtual tensor of `type`, or write `to` if it is not GAL_CUDNN_NONE. */
int gal_cudnn_matmul(gal_cudnn_graph *graph, int a, int b, gal_cudnn_limits limits, cudnnDataType_t type, int to);
/* b, t: GAL_CUDNN_NONE if the mode takes none. BINARY_SELECT: t ? x : b. */
int gal_cudnn_pointwise(gal_cudnn_graph *graph, cudnnPointwiseMode_t mode, int x, int b, int t, cudnnDataType_t type,
                        int to);
/* int32 number of the element along an axis. */
int gal_cudnn_index(gal_cudnn_graph *graph, int like, int64_t axis);
/* shape: of the result; dimensions that are fewer there are reduced. */
int gal_cudnn_reduce(gal_cudnn_graph *graph, cudnnReduceTensorOp_t op, int x, gal_cudnn_shape shape, int to);
int gal_cudnn_reshape(gal_cudnn_graph *graph, int x, gal_cudnn_shape shape, cudnnDataType_t type);

/* handle NULL: engines can be asked for with a device's properties, plans cannot be made. GAL_ERR_DEVICE. */
gal_code gal_cudnn_graph_finish(gal_cudnn_graph *graph, cudnnHandle_t handle, gal_error *err);
void gal_cudnn_graph_free(gal_cudnn_graph *graph);

/* Engines that the library's heuristics offer, best first: none is no error. device: properties of one that need not be
 * there, or NULL: the handle's. multiprocessors: that they are chosen for, 0: all; where the library offers none for so
 * many, those for all. deterministic leaves out those that say they are not. */
gal_code gal_cudnn_engines(const gal_cudnn_graph *graph, cudnnBackendDescriptor_t device, uint32_t multiprocessors,
                           bool deterministic, cudnnBackendDescriptor_t engine[GAL_CUDNN_ENGINES_MAX], uint32_t *count,
                           gal_error *err);

/* Properties from their JSON (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION). GAL_ERR_DEVICE. */
gal_code gal_cudnn_device(const char *json, cudnnBackendDescriptor_t *out, gal_error *err);

/* NULL is fine. */
void gal_cudnn_destroy(cudnnBackendDescriptor_t descriptor);

/* A plan of an engine. GAL_NO if the engine cannot be built after all. */
gal_code gal_cudnn_plan(cudnnHandle_t handle, cudnnBackendDescriptor_t engine, cudnnBackendDescriptor_t *out,
                        uint64_t *workspace_bytes, gal_error *err);

/* Queues a plan on the handle's stream; address[i] of the tensor uid[i]. */
gal_code gal_cudnn_plan_run(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, const int64_t *uid,
                            void *const *address, uint32_t count, void *workspace, gal_error *err);

/* Records expression, place and cuDNN's text in err, and goes to cleanup with code. */
#define GAL_CUDNN_TRY(expression)                                                                                      \
    do {                                                                                                               \
        const cudnnStatus_t status_ = (expression);                                                                    \
        if (status_ != CUDNN_STATUS_SUCCESS) {                                                                         \
            code = gal_fail(err, GAL_ERR_DEVICE, "%s:%d: %s: %s", __FILE__, __LINE__, #expression,                     \
                            cudnnGetErrorString(status_));                                                             \
            goto cleanup;                                                                                              \
        }                                                                                                              \
    } while (0)

#endif
