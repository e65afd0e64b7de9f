#include "runtime/ops/cuda/flash_call.h"

#include <math.h>
#include <stddef.h>

#include "runtime/ops/cuda/kernels.h"

/* The kernels read the head of the record of a step. */
_Static_assert(offsetof(gal_cuda_step, seed) == 0 && offsetof(gal_cuda_step, step) == 8, "seed and step come first");

bool gal_flash_is_backward(gal_op op)
{
    return op == GAL_OP_ATTENTION_BACKWARD || op == GAL_OP_RELATIVE_ATTENTION_BACKWARD ||
           op == GAL_OP_WINDOW_ATTENTION_BACKWARD || op == GAL_OP_CROSS_ATTENTION_BACKWARD ||
           op == GAL_OP_ATTENTION_STEP_BACKWARD;
}

static bool is_step(gal_op op)
{
    return op == GAL_OP_ATTENTION_STEP || op == GAL_OP_ATTENTION_STEP_BACKWARD;
}

/* Queries, keys and values in one row. */
static void set_self(const gal_kernel_call *call, uint32_t kv_heads, gal_flash *f)
{
    f->queries = f->keys = f->positions = call->dims[1];
    f->kv_heads = kv_heads;
    f->q_row = f->dq_row = f->kv_row = ((uint64_t)f->heads + 2 * (uint64_t)kv_heads) * f->dim;
    f->k_offset = (uint64_t)f->heads * f->dim;
    f->v_offset = f->k_offset + (uint64_t)kv_heads * f->dim;
}

static void set_cross(const gal_kernel_call *call, gal_flash *f)
{
    f->queries = f->positions = call->dims[1];
    f->keys = call->dims[4];
    f->kv_heads = f->heads;
    f->q_row = f->dq_row = (uint64_t)f->heads * f->dim;
    f->kv_row = 2 * f->q_row;
    f->v_offset = f->q_row;
}

/* As runtime/ops/host/attention_ring.c: queries of this device's chunk, keys of the one `step` chunks back. */
static void set_step(const gal_kernel_call *call, gal_flash *f)
{
    const uint32_t positions = call->dims[1], step = call->dims[6], chunks = call->dims[7];
    const uint32_t chunk = call->position_begin / positions;
    set_self(call, call->dims[4], f);
    f->causal = (call->dims[5] & GAL_ATTENTION_CAUSAL) != 0;
    f->wide = true;
    f->resumes = step > 0;
    f->query_begin = call->position_begin;
    f->key_begin = (chunk + chunks - step) % chunks * positions;
    f->kv_row = 2 * (uint64_t)f->kv_heads * f->dim;
    f->k_offset = 0;
    f->v_offset = (uint64_t)f->kv_heads * f->dim;
    f->dq_row = (uint64_t)f->heads * f->dim;
}

static void set_relative(const gal_kernel_call *call, gal_flash *f)
{
    set_self(call, f->heads, f);
    f->causal = call->dims[4] != 0;
    f->bias = GAL_FLASH_BUCKETS;
    f->bias_entries = call->dims[5];
    f->max_distance = call->dims[6];
    f->bias_stride = f->heads * call->group_count;
    f->bias_column = f->heads * call->group_index;
}

static void set_window(const gal_kernel_call *call, gal_flash *f)
{
    set_self(call, f->heads, f);
    f->side = call->dims[4];
    f->window = call->dims[5];
    f->shift = call->dims[6];
    f->queries = f->keys = f->window * f->window;
    f->windows = (f->side / f->window) * (f->side / f->window);
    f->bias = GAL_FLASH_WINDOW;
    f->bias_entries = (2 * f->window - 1) * (2 * f->window - 1);
    f->bias_stride = f->heads * (call->within_count > 1 ? call->within_count : 1);
    f->bias_column = f->heads * call->within_index;
}

/* Forward operands, or those of the backward from the second on, as operator.h lists them. apart: keys and values are
 * an operand of their own. */
static void set_operands(const gal_kernel_call *call, bool apart, bool backward, gal_flash *f)
{
    void *const *operand = call->operand;
    const bool table = f->bias != GAL_FLASH_NO_BIAS, three = table || apart;
    const uint32_t last = backward ? (three ? 7 : 5) : three ? 4 : 3;
    f->lengths = call->operand_count > last ? operand[last] : NULL;
    if (!backward) {
        const uint32_t ctx = three ? 2 : 1;
        f->q = operand[0];
        f->kv = apart ? operand[1] : operand[0];
        f->table = table ? operand[1] : NULL;
        f->ctx = operand[ctx];
        f->lse = operand[ctx + 1];
        return;
    }
    const uint32_t ctx = apart ? 3 : 2, dq = three ? 5 : 4;
    f->dctx = operand[0];
    f->q = operand[1];
    f->kv = apart ? operand[2] : operand[1];
    f->ctx = operand[ctx];
    f->lse = operand[ctx + 1];
    f->table = table ? operand[4] : NULL;
    f->dq = operand[dq];
    f->dkv = apart ? operand[dq + 1] : operand[dq];
    f->dbias = table ? operand[dq + 1] : NULL;
}

/* As runtime/ops/host/attention.c and attention_window.c count. */
static void set_dropout(const gal_kernel_call *call, gal_flash *f)
{
    const gal_model *model = call->step->model;
    const double probability = model->attention_dropout;
    if (!call->step->training || probability <= 0.0) {
        return;
    }
    const bool windows = f->bias == GAL_FLASH_WINDOW;
    const uint32_t row = windows ? f->keys : gal_model_longest_sequence(model);
    f->dropout = true;
    f->drop_max = (uint32_t)((uint64_t)ceil(probability * 0x1p32) - 1U);
    f->keep_scale = (float)(1.0 / (1.0 - probability));
    f->dropout_site = 2U * call->block + 1U;
    f->all_heads = windows ? f->heads * call->group_count : model->head_count;
    f->head_begin = f->heads * call->group_index;
    f->dropout_rows = windows ? f->positions : row;
    f->dropout_row = (row + 3) / 4 * 4;
    f->sample_map = call->sample_map;
    f->step = call->device_step;
}

gal_flash gal_flash_of_call(gal_op op, const gal_kernel_call *call)
{
    gal_flash f = {
        .samples = call->dims[0],
        .heads = call->dims[2],
        .dim = call->dims[3],
        .windows = 1,
        .add = call->add,
        .scale = 1.0F,
        .workspace = call->workspace,
        .workspace_bytes = call->workspace_bytes,
    };
    const float scale = (float)(1.0 / sqrt((double)f.dim));
    const bool cross = op == GAL_OP_CROSS_ATTENTION || op == GAL_OP_CROSS_ATTENTION_BACKWARD;
    const bool step = is_step(op);
    if (cross) {
        set_cross(call, &f);
    } else if (step) {
        set_step(call, &f);
        f.scale = scale;
    } else if (op == GAL_OP_RELATIVE_ATTENTION || op == GAL_OP_RELATIVE_ATTENTION_BACKWARD) {
        set_relative(call, &f);
    } else if (op == GAL_OP_WINDOW_ATTENTION || op == GAL_OP_WINDOW_ATTENTION_BACKWARD) {
        set_window(call, &f);
        f.scale = scale;
    } else {
        GAL_ASSERT(op == GAL_OP_ATTENTION || op == GAL_OP_ATTENTION_BACKWARD);
        set_self(call, call->dims[4], &f);
        f.causal = (call->dims[5] & GAL_ATTENTION_CAUSAL) != 0;
        f.scale = scale;
    }
    set_operands(call, cross || step, gal_flash_is_backward(op), &f);
    set_dropout(call, &f);
    return f;
}

uint64_t gal_flash_workspace_bytes(gal_op op, const gal_kernel_call *call)
{
    const gal_flash f = gal_flash_of_call(op, call);
    return gal_flash_layout_of(&f, gal_flash_is_backward(op)).bytes;
}

gal_code gal_flash_run(gal_op op, gal_dtype dtype, const gal_kernel_call *call, gal_error *err)
{
    const gal_flash f = gal_flash_of_call(op, call);
    const bool backward = gal_flash_is_backward(op);
    const gal_flash_type type = dtype == GAL_BF16   ? GAL_FLASH_BF16
                                : dtype == GAL_FP16 ? GAL_FLASH_FP16
                                                    : GAL_FLASH_FP32;
    const uint64_t needed = gal_flash_layout_of(&f, backward).bytes;
    if (type != GAL_FLASH_FP32 && f.dim > GAL_FLASH_DIM_MAX) {
        return gal_fail(err, GAL_ERR_DEVICE, "%s: heads of %u, the widest of 16 bits are %d", gal_op_names[op], f.dim,
                        GAL_FLASH_DIM_MAX);
    }
    if (is_step(op) && (call->dims[5] & GAL_ATTENTION_ZIGZAG) != 0) {
        return gal_fail(err, GAL_ERR_DEVICE, "%s: chunks of a zig-zag ring, of which CUDA has no kernel",
                        gal_op_names[op]);
    }
    if (call->workspace_bytes < needed) {
        return gal_fail(err, GAL_ERR_DEVICE, "%s: %llu bytes of workspace, needs %llu", gal_op_names[op],
                        (unsigned long long)call->workspace_bytes, (unsigned long long)needed);
    }
    const int result =
        backward ? gal_flash_backward(&f, type, call->stream) : gal_flash_forward(&f, type, call->stream);
    return result == 0 ? GAL_OK : gal_fail(err, GAL_ERR_DEVICE, "%s: CUDA error %d", gal_op_names[op], result);
}
