#include "runtime/ops/cuda/flash_call.h"

#include <math.h>
#include <stddef.h>

#include "runtime/ops/cuda/kernels.h"
#include "runtime/ops/ring_step.h"

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

/* All of the queries of this device's chunk and all keys of another; who sees whom: run_step. */
static void set_step(const gal_kernel_call *call, gal_flash *f)
{
    set_self(call, call->dims[4], f);
    f->wide = true;
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

static gal_code queue(gal_op op, const gal_kernel_call *call, gal_flash_type type, const gal_flash *f, gal_error *err)
{
    const bool backward = gal_flash_is_backward(op);
    const int result = (backward ? gal_flash_backward : gal_flash_forward)(f, type, call->stream);
    return result == 0 ? GAL_OK : gal_fail(err, GAL_ERR_DEVICE, "%s: CUDA error %d", gal_op_names[op], result);
}

/* ---- steps of a ring ---- */

static const void *read_behind(const void *base, uint64_t bytes)
{
    return base == NULL ? NULL : (const char *)base + bytes;
}

static void *behind(void *base, uint64_t bytes)
{
    return base == NULL ? NULL : (char *)base + bytes;
}

/* Of a step these queries and these keys alone: rows of a position are those of all samples. */
static gal_flash part_of(const gal_flash *whole, gal_flash_type type, bool backward, gal_ring_part queries,
                         gal_ring_part keys)
{
    gal_flash f = *whole;
    const uint64_t element = type == GAL_FLASH_FP32 ? sizeof(float) : 2, wide = sizeof(float);
    const uint64_t query = (uint64_t)queries.first * f.samples, key = (uint64_t)keys.first * f.samples;
    const uint64_t ctx_row = (uint64_t)f.heads * f.dim;
    f.queries = queries.count;
    f.keys = keys.count;
    f.query_begin = queries.position;
    f.key_begin = keys.position;
    f.q = read_behind(f.q, query * f.q_row * element);
    f.kv = read_behind(f.kv, key * f.kv_row * element);
    f.ctx = behind(f.ctx, query * ctx_row * (backward ? element : wide));
    f.lse += queries.first;
    f.dctx = read_behind(f.dctx, query * ctx_row * element);
    f.dq = behind(f.dq, query * f.dq_row * wide);
    f.dkv = behind(f.dkv, key * f.kv_row * wide);
    return f;
}

/* Pairs one after another: those that share queries or keys add to what the ones before gave. */
static gal_code run_step(gal_op op, const gal_kernel_call *call, gal_flash_type type, const gal_flash *whole,
                         gal_error *err)
{
    gal_code code = GAL_OK;
    const bool backward = gal_flash_is_backward(op);
    const gal_ring_step parts = gal_ring_step_of(call);
    const gal_ring_step step = whole->dropout ? parts : gal_ring_step_joined(&parts); /* dropout goes by positions */
    for (uint32_t p = 0; p < step.pair_count && code == GAL_OK; p++) {
        const gal_ring_pair *pair = &step.pair[p];
        gal_flash f = part_of(whole, type, backward, pair->queries, pair->keys);
        f.causal = pair->diagonal;
        f.resumes = call->dims[6] > 0 || !pair->first_of_queries;
        f.resumes_keys = !pair->first_of_keys;
        code = queue(op, call, type, &f, err);
    }
    for (uint32_t k = 0; k < step.unseen_count && backward && code == GAL_OK; k++) {
        const gal_flash f = part_of(whole, type, backward, (gal_ring_part){.count = 0}, step.unseen[k]);
        code = queue(op, call, type, &f, err);
    }
    return code;
}

gal_code gal_flash_run(gal_op op, gal_dtype dtype, const gal_kernel_call *call, gal_error *err)
{
    const gal_flash f = gal_flash_of_call(op, call);
    const gal_flash_type type = dtype == GAL_BF16   ? GAL_FLASH_BF16
                                : dtype == GAL_FP16 ? GAL_FLASH_FP16
                                                    : GAL_FLASH_FP32;
    const uint64_t needed = gal_flash_layout_of(&f, gal_flash_is_backward(op)).bytes;
    if (type != GAL_FLASH_FP32 && f.dim > GAL_FLASH_DIM_MAX) {
        return gal_fail(err, GAL_ERR_DEVICE, "%s: heads of %u, the widest of 16 bits are %d", gal_op_names[op], f.dim,
                        GAL_FLASH_DIM_MAX);
    }
    if (call->workspace_bytes < needed) {
        return gal_fail(err, GAL_ERR_DEVICE, "%s: %llu bytes of workspace, needs %llu", gal_op_names[op],
                        (unsigned long long)call->workspace_bytes, (unsigned long long)needed);
    }
    return is_step(op) ? run_step(op, call, type, &f, err) : queue(op, call, type, &f, err);
}
