/* Attention of every kind by definition in fp64, a pair at a time, and a call of it for the host and for the device,
 * with what the device's may be off by. The index functions are those of the kernels (flash.h).
 *
 * With u of the type and v = 2^-24 of fp32, sums of n terms are off by (n + 8) v times the sum of their sizes; a factor
 * that is rounded to the type adds u times that; a result adds u of itself. Scores are off by the first, and so are
 * probabilities by that relative error twice, theirs and the log-sum-exp's. */
#ifndef GAL_TESTS_SUPPORT_EMULATED_ATTENTION_CASE_H
#define GAL_TESTS_SUPPORT_EMULATED_ATTENTION_CASE_H

#include "runtime/ops/cuda/flash.h"
#include "tests/support/ops_case.h"

typedef struct attention_tensor {
    size_t count;
    double *host;  /* what the host's kernel has */
    double *exact; /* by definition */
    double *bound; /* on what the device has, from exact */
    void *device;
    char *memory;
} attention_tensor;

typedef struct attention_case {
    ops_case at;
    gal_dtype dtype;
    gal_op op; /* the forward */
    const uint32_t *dims;
    bool add, odd; /* odd: addresses that are not multiples of 16 */
    gal_flash f;
    int32_t *lengths;                                              /* of both sides, [samples]; NULL: no padding */
    attention_tensor q, kv, table, ctx, lse, dctx, dq, dkv, dbias; /* kv, dkv: of cross-attention alone */
    double *p, *slope, *mask, *dots;                               /* of one head and window: [queries][keys] */
} attention_case;

/* Of at, op, dims, dtype, add, odd and lengths: operands with random numbers, NaN in what is written. */
void attention_case_make(attention_case *p);
void attention_case_release(attention_case *p);

/* With operands of the host or the device. */
gal_kernel_call attention_case_call(attention_case *p, bool backward, bool device);

/* ctx, lse; then, of the host's ctx, dq, dkv and what is added to dbias: exact and bound. */
void attention_case_define_ctx(attention_case *p);
void attention_case_define_gradients(attention_case *p);

gal_dtype attention_case_type_of(const attention_case *p, const attention_tensor *t);
double attention_case_unit(const attention_case *p);

/* Numbers of a type, at an address of the test. put: such as the type holds. */
double attention_case_round(gal_dtype dtype, double value);
void attention_case_put(gal_dtype dtype, void *to, size_t i, double value);
double attention_case_get(gal_dtype dtype, const void *from, size_t i);

#endif
