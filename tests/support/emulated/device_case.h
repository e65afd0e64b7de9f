/* One kernel of runtime/ops/cuda, emulated, beside the host's in fp64 on the same numbers.
 *
 * An operand is a list of numbers in fp64 that its type on the device can hold; `device_case_run` gives both kernels
 * theirs, the device's twice, with the threads in either order, and sees that the bits agree. Buffers are exactly as
 * large as the operand, so that AddressSanitizer sees what goes beyond. */
#ifndef GAL_TESTS_SUPPORT_EMULATED_DEVICE_CASE_H
#define GAL_TESTS_SUPPORT_EMULATED_DEVICE_CASE_H

#include "runtime/ops/cuda/kernels.h"
#include "tests/support/ops_case.h"

/* ELEMENT: of the table's dtype. WHOLE: fp64 on both sides. TOKEN: int32 likewise. */
typedef enum operand_kind { ELEMENT, FLOAT, WHOLE, TOKEN } operand_kind;

typedef struct operand {
    operand_kind kind;
    size_t count;
    double *exact; /* what the host's kernel has; int32_t for tokens */
    char *mapping; /* device begins at it, or one element later */
    void *device;
    double *got; /* after a run, what the device's kernel has */
} operand;

typedef struct device_case device_case;

/* Who carries out a call, if not our own kernels: between gal_machine_begin and end, operands at the kernels'
 * addresses. */
typedef struct device_case_library {
    uint64_t (*workspace_bytes)(const device_case *at, gal_op op, const gal_kernel_call *call);
    gal_code (*run)(device_case *at, gal_op op, gal_kernel_call *call, gal_error *err);
} device_case_library;

struct device_case {
    ops_case ops;
    const device_case_library *library; /* NULL: our own kernels */
    gal_dtype dtype;
    double unit;           /* half the distance from 1 to the next number of dtype */
    bool odd_addresses;    /* operands are not aligned to 16 bytes */
    double gradient_scale; /* of the step record */
    operand operand[GAL_KERNEL_OPERANDS_MAX];
    uint32_t operand_count;
};

/* Half the distance from 1 to the next fp32 number: what device arithmetic rounds by. */
static const double single_unit = 0x1p-24;

void device_case_init(device_case *at, gal_dtype dtype, bool odd_addresses);
void device_case_free(device_case *at);

/* The next operand: `count` numbers in [-size, size); and of tokens whatever is given. Size 0: NaN, for what is
 * written. Returns it. */
operand *device_case_add(device_case *at, operand_kind kind, size_t count, double size, uint64_t seed);
operand *device_case_add_tokens(device_case *at, const int32_t *tokens, size_t count);

/* Rounds to what the kind holds. */
double device_case_round(const device_case *at, operand_kind kind, double value);

void device_case_run(device_case *at, gal_op op, const uint32_t *dims);

/* Entry `index` of the operand is off by at most `bound`, and by the rounding of its kind. */
void device_case_expect(const device_case *at, const operand *o, size_t index, double bound);

/* All entries; the same bound. */
void device_case_expect_all(const device_case *at, const operand *o, double bound);

#endif
