/* Gradients against differences of what they are the gradients of. */
#ifndef GAL_TESTS_SUPPORT_DIFFERENCES_H
#define GAL_TESTS_SUPPORT_DIFFERENCES_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The function of what x[count] now holds. */
typedef double (*objective_of)(void *problem);

/* gradient[count] of the objective by x: central differences of fourth order, of every entry or about 60 of many,
 * within 1e-8 of the largest entry; fails the test otherwise, and where the gradient is zero. x is left as it was. */
static inline void check_differences(objective_of objective, void *problem, double *x, const double *gradient,
                                     size_t count)
{
    const double h = 1e-3, at[] = {-2.0, -1.0, 1.0, 2.0}, factor[] = {1.0, -8.0, 8.0, -1.0};
    double largest = 0.0;
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(gradient[i]));
    }
    assert_true(largest > 0.0);
    for (size_t i = 0; i < count; i += 1 + count / 60) {
        const double kept = x[i];
        double sum = 0.0;
        for (int k = 0; k < 4; k++) {
            x[i] = kept + at[k] * h;
            sum += factor[k] * objective(problem);
        }
        x[i] = kept;
        if (!(fabs(sum / (12.0 * h) - gradient[i]) <= 1e-8 * largest)) {
            print_error("entry %zu: gradient %.17g, difference %.17g\n", i, gradient[i], sum / (12.0 * h));
            fail();
        }
    }
}

#endif
