#include "runtime/ops/cuda/cudnn_graph.h"

#include <string.h>

/* ---- shapes ---- */

gal_cudnn_shape gal_cudnn_packed(int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (gal_cudnn_shape){{a, b, c, d}, {b * c * d, c * d, d, 1}};
}

gal_cudnn_shape gal_cudnn_turned(gal_cudnn_shape shape)
{
    return (gal_cudnn_shape){{shape.dim[0], shape.dim[1], shape.dim[3], shape.dim[2]},
                             {shape.stride[0], shape.stride[1], shape.stride[3], shape.stride[2]}};
}

/* ---- descriptors ---- */

void gal_cudnn_destroy(cudnnBackendDescriptor_t descriptor)
{
    if (descriptor != NULL) {
        cudnnBackendDestroyDescriptor(descriptor);
    }
}

static bool try_status(gal_cudnn_graph *graph, cudnnStatus_t status, const char *what)
{
    if (graph->failed == NULL && status != CUDNN_STATUS_SUCCESS) {
        graph->failed = what;
        graph->status = status;
    }
    return graph->failed == NULL;
}

static bool create(gal_cudnn_graph *graph, cudnnBackendDescriptorType_t type, const char *what,
                   cudnnBackendDescriptor_t *out)
{
    return graph->failed == NULL && try_status(graph, cudnnBackendCreateDescriptor(type, out), what);
}

static void set(gal_cudnn_graph *graph, cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *value, const char *what)
{
    if (graph->failed == NULL) {
        try_status(graph, cudnnBackendSetAttribute(descriptor, name, type, count, value), what);
    }
}

static void finalize(gal_cudnn_graph *graph, cudnnBackendDescriptor_t descriptor, const char *what)
{
    if (graph->failed == NULL) {
        try_status(graph, cudnnBackendFinalize(descriptor), what);
    }
}

/* ---- tensors ---- */

static int add_tensor(gal_cudnn_graph *graph, cudnnDataType_t type, gal_cudnn_shape shape, bool is_virtual,
                      bool by_value)
{
    const int number = graph->tensor_count;
    const int64_t alignment = 16, uid = number;
    if (graph->failed != NULL) {
        return GAL_CUDNN_NONE;
    }
    GAL_ASSERT(number < GAL_CUDNN_TENSORS_MAX);
    if (!create(graph, CUDNN_BACKEND_TENSOR_DESCRIPTOR, "a tensor", &graph->tensor[number])) {
        return GAL_CUDNN_NONE;
    }
    graph->shape[number] = shape;
    graph->tensor_count++;
    const cudnnBackendDescriptor_t tensor = graph->tensor[number];
    set(graph, tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type, "a tensor's type");
    set(graph, tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, shape.dim, "a tensor's dimensions");
    set(graph, tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, shape.stride, "a tensor's strides");
    set(graph, tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment, "a tensor's alignment");
    set(graph, tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid, "a tensor's number");
    set(graph, tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual, "a virtual tensor");
    set(graph, tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value, "a number");
    finalize(graph, tensor, "a tensor");
    return graph->failed == NULL ? number : GAL_CUDNN_NONE;
}

int gal_cudnn_tensor(gal_cudnn_graph *graph, cudnnDataType_t type, gal_cudnn_shape shape)
{
    return add_tensor(graph, type, shape, false, false);
}

int gal_cudnn_number(gal_cudnn_graph *graph, cudnnDataType_t type)
{
    return add_tensor(graph, type, gal_cudnn_packed(1, 1, 1, 1), false, true);
}

static int result_of(gal_cudnn_graph *graph, cudnnDataType_t type, gal_cudnn_shape shape, int to)
{
    return to != GAL_CUDNN_NONE ? to : add_tensor(graph, type, shape, true, false);
}

/* ---- operations ---- */

/* Begins an operation and, if it has one, the description of what it does. */
static bool begin(gal_cudnn_graph *graph, cudnnBackendDescriptorType_t type, cudnnBackendDescriptorType_t mode_type,
                  cudnnBackendDescriptor_t *operation, cudnnBackendDescriptor_t *mode, const char *what)
{
    const int number = graph->operation_count;
    if (graph->failed != NULL) {
        return false;
    }
    GAL_ASSERT(number < GAL_CUDNN_OPERATIONS_MAX);
    graph->operation_count++;
    if (mode != NULL) {
        create(graph, mode_type, what, &graph->mode[number]);
        *mode = graph->mode[number];
    }
    create(graph, type, what, &graph->operation[number]);
    *operation = graph->operation[number];
    return graph->failed == NULL;
}

static void set_tensor(gal_cudnn_graph *graph, cudnnBackendDescriptor_t operation, cudnnBackendAttributeName_t name,
                       int tensor, const char *what)
{
    if (graph->failed == NULL && tensor != GAL_CUDNN_NONE) {
        set(graph, operation, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph->tensor[tensor], what);
    }
}

static const cudnnDataType_t single = CUDNN_DATA_FLOAT;

int gal_cudnn_matmul(gal_cudnn_graph *graph, int a, int b, gal_cudnn_limits limits, cudnnDataType_t type, int to)
{
    cudnnBackendDescriptor_t operation, mode;
    const char *what = "a product";
    if (graph->failed != NULL) {
        return GAL_CUDNN_NONE;
    }
    const int64_t *left = graph->shape[a].dim, *right = graph->shape[b].dim;
    const int c = result_of(graph, type, gal_cudnn_packed(left[0], left[1], left[2], right[3]), to);
    if (!begin(graph, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_BACKEND_MATMUL_DESCRIPTOR, &operation, &mode,
               what)) {
        return GAL_CUDNN_NONE;
    }
    set(graph, mode, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &single, what);
    finalize(graph, mode, what);
    set_tensor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a, what);
    set_tensor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b, what);
    set_tensor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c, what);
    set_tensor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, limits.rows, what);
    set_tensor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, limits.columns, what);
    set_tensor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, limits.depth, what);
    set(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &mode, what);
    finalize(graph, operation, what);
    return c;
}

static int add_pointwise(gal_cudnn_graph *graph, cudnnPointwiseMode_t wanted, cudnnDataType_t compute, int64_t axis,
                         int x, int b, int t, cudnnDataType_t type, int to)
{
    cudnnBackendDescriptor_t operation, mode;
    const char *what = "an operation by elements";
    if (graph->failed != NULL) {
        return GAL_CUDNN_NONE;
    }
    const int y = result_of(graph, type, graph->shape[x], to);
    if (!begin(graph, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, &operation,
               &mode, what)) {
        return GAL_CUDNN_NONE;
    }
    set(graph, mode, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &wanted, what);
    set(graph, mode, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute, what);
    if (wanted == CUDNN_POINTWISE_GEN_INDEX) {
        set(graph, mode, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis, what);
    }
    finalize(graph, mode, what);
    set(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &mode, what);
    set_tensor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x, what);
    set_tensor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b, what);
    set_tensor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t, what);
    set_tensor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y, what);
    finalize(graph, operation, what);
    return y;
}

int gal_cudnn_pointwise(gal_cudnn_graph *graph, cudnnPointwiseMode_t mode, int x, int b, int t, cudnnDataType_t type,
                        int to)
{
    const cudnnDataType_t compute = type == CUDNN_DATA_BOOLEAN ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT;
    return add_pointwise(graph, mode, compute, 0, x, b, t, type, to);
}

int gal_cudnn_index(gal_cudnn_graph *graph, int like, int64_t axis)
{
    return add_pointwise(graph, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, axis, like, GAL_CUDNN_NONE, GAL_CUDNN_NONE,
                         CUDNN_DATA_INT32, GAL_CUDNN_NONE);
}

int gal_cudnn_reduce(gal_cudnn_graph *graph, cudnnReduceTensorOp_t op, int x, gal_cudnn_shape shape, int to)
{
    cudnnBackendDescriptor_t operation, mode;
    const char *what = "a reduction";
    const int y = result_of(graph, CUDNN_DATA_FLOAT, shape, to);
    if (!begin(graph, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, CUDNN_BACKEND_REDUCTION_DESCRIPTOR, &operation,
               &mode, what)) {
        return GAL_CUDNN_NONE;
    }
    set(graph, mode, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &op, what);
    set(graph, mode, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &single, what);
    finalize(graph, mode, what);
    set_tensor(graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x, what);
    set_tensor(graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y, what);
    set(graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &mode, what);
    finalize(graph, operation, what);
    return y;
}

int gal_cudnn_reshape(gal_cudnn_graph *graph, int x, gal_cudnn_shape shape, cudnnDataType_t type)
{
    cudnnBackendDescriptor_t operation;
    const char *what = "a reshape";
    const int y = result_of(graph, type, shape, GAL_CUDNN_NONE);
    if (!begin(graph, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
               &operation, NULL, what)) {
        return GAL_CUDNN_NONE;
    }
    set_tensor(graph, operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x, what);
    set_tensor(graph, operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y, what);
    finalize(graph, operation, what);
    return y;
}

/* ---- graphs ---- */

gal_code gal_cudnn_graph_finish(gal_cudnn_graph *graph, cudnnHandle_t handle, gal_error *err)
{
    const char *what = "a graph";
    if (create(graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, what, &graph->graph)) {
        set(graph, graph->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, graph->operation_count,
            graph->operation, what);
        if (handle != NULL) {
            set(graph, graph->graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle, what);
        }
        finalize(graph, graph->graph, what);
    }
    if (graph->failed != NULL) {
        return gal_fail(err, GAL_ERR_DEVICE, "cuDNN refuses %s: %s", graph->failed, cudnnGetErrorString(graph->status));
    }
    return GAL_OK;
}

void gal_cudnn_graph_free(gal_cudnn_graph *graph)
{
    gal_cudnn_destroy(graph->graph);
    for (int i = 0; i < graph->operation_count; i++) {
        gal_cudnn_destroy(graph->operation[i]);
        gal_cudnn_destroy(graph->mode[i]);
    }
    for (int i = 0; i < graph->tensor_count; i++) {
        gal_cudnn_destroy(graph->tensor[i]);
    }
    memset(graph, 0, sizeof *graph);
}

/* ---- engines ---- */

gal_code gal_cudnn_device(const char *json, cudnnBackendDescriptor_t *out, gal_error *err)
{
    gal_code code = GAL_OK;
    cudnnBackendDescriptor_t device = NULL;
    GAL_CUDNN_TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &device));
    GAL_CUDNN_TRY(cudnnBackendSetAttribute(device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                           (int64_t)strlen(json) + 1, json));
    GAL_CUDNN_TRY(cudnnBackendFinalize(device));
    *out = device;
    device = NULL;
cleanup:
    gal_cudnn_destroy(device);
    return code;
}

/* What an engine says of itself. */
static bool is_deterministic(cudnnBackendDescriptor_t config)
{
    cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    cudnnBackendDescriptor_t engine = NULL;
    int64_t count = 0;
    bool deterministic = false;
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) == CUDNN_STATUS_SUCCESS &&
        cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                 &engine) == CUDNN_STATUS_SUCCESS &&
        cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                 CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, note) == CUDNN_STATUS_SUCCESS) {
        deterministic = true;
        for (int64_t i = 0; i < count; i++) {
            deterministic = deterministic && note[i] != CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
        }
    }
    gal_cudnn_destroy(engine);
    return deterministic;
}

static gal_code ask(const gal_cudnn_graph *graph, cudnnBackendDescriptor_t device, uint32_t multiprocessors,
                    bool deterministic, cudnnBackendDescriptor_t engine[GAL_CUDNN_ENGINES_MAX], uint32_t *count,
                    gal_error *err)
{
    gal_code code = GAL_OK;
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    const int32_t target = (int32_t)multiprocessors;
    cudnnBackendDescriptor_t heuristics = NULL, result[GAL_CUDNN_ENGINES_MAX] = {NULL};
    int64_t returned = 0;
    uint32_t kept = 0;
    GAL_CUDNN_TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristics));
    GAL_CUDNN_TRY(cudnnBackendSetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                                           CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph->graph));
    GAL_CUDNN_TRY(cudnnBackendSetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode));
    if (device != NULL) {
        GAL_CUDNN_TRY(cudnnBackendSetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
                                               CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device));
    }
    if (target != 0) {
        GAL_CUDNN_TRY(
            cudnnBackendSetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET, CUDNN_TYPE_INT32, 1, &target));
    }
    *count = 0;
    const cudnnStatus_t status = cudnnBackendFinalize(heuristics);
    if (status == CUDNN_STATUS_NOT_SUPPORTED) {
        goto cleanup;
    }
    GAL_CUDNN_TRY(status);
    for (uint32_t i = 0; i < GAL_CUDNN_ENGINES_MAX; i++) {
        GAL_CUDNN_TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &result[i]));
    }
    GAL_CUDNN_TRY(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                           GAL_CUDNN_ENGINES_MAX, &returned, result));
    for (int64_t i = 0; i < returned && i < GAL_CUDNN_ENGINES_MAX; i++) {
        if (!deterministic || is_deterministic(result[i])) {
            engine[kept++] = result[i];
            result[i] = NULL;
        }
    }
    *count = kept;
cleanup:
    for (uint32_t i = 0; i < GAL_CUDNN_ENGINES_MAX; i++) {
        gal_cudnn_destroy(result[i]);
    }
    gal_cudnn_destroy(heuristics);
    return code;
}

gal_code gal_cudnn_engines(const gal_cudnn_graph *graph, cudnnBackendDescriptor_t device, uint32_t multiprocessors,
                           bool deterministic, cudnnBackendDescriptor_t engine[GAL_CUDNN_ENGINES_MAX], uint32_t *count,
                           gal_error *err)
{
    gal_error ignored = {.code = GAL_OK};
    *count = 0;
    if (multiprocessors != 0 && ask(graph, device, multiprocessors, deterministic, engine, count, &ignored) == GAL_OK &&
        *count > 0) {
        return GAL_OK;
    }
    return ask(graph, device, 0, deterministic, engine, count, err);
}

/* ---- plans ---- */

gal_code gal_cudnn_plan(cudnnHandle_t handle, cudnnBackendDescriptor_t engine, cudnnBackendDescriptor_t *out,
                        uint64_t *workspace_bytes, gal_error *err)
{
    gal_code code = GAL_OK;
    cudnnBackendDescriptor_t plan = NULL;
    int64_t bytes = 0, count = 0;
    GAL_CUDNN_TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan));
    GAL_CUDNN_TRY(cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle));
    GAL_CUDNN_TRY(cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                           1, &engine));
    if (cudnnBackendFinalize(plan) != CUDNN_STATUS_SUCCESS) {
        code = GAL_NO;
        goto cleanup;
    }
    GAL_CUDNN_TRY(
        cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes));
    *workspace_bytes = (uint64_t)bytes;
    *out = plan;
    plan = NULL;
cleanup:
    gal_cudnn_destroy(plan);
    return code;
}

gal_code gal_cudnn_plan_run(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, const int64_t *uid,
                            void *const *address, uint32_t count, void *workspace, gal_error *err)
{
    gal_code code = GAL_OK;
    cudnnBackendDescriptor_t pack = NULL;
    GAL_CUDNN_TRY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack));
    GAL_CUDNN_TRY(
        cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, address));
    GAL_CUDNN_TRY(cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, uid));
    GAL_CUDNN_TRY(
        cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace));
    GAL_CUDNN_TRY(cudnnBackendFinalize(pack));
    GAL_CUDNN_TRY(cudnnBackendExecute(handle, plan, pack));
cleanup:
    gal_cudnn_destroy(pack);
    return code;
}
