/* The scale of a loss of fp16 over many steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/engine/loss_scaling.h"

static void loss_scale_falls_and_grows(void **state)
{
    (void)state;
    gal_loss_scaling scaling;
    gal_loss_scaling_init(&scaling);
    assert_true(scaling.scale == 32768.0);
    gal_loss_scaling_update(&scaling, false);
    assert_true(scaling.scale == 16384.0);
    for (int i = 0; i < 1999; i++) {
        gal_loss_scaling_update(&scaling, true);
    }
    assert_true(scaling.scale == 16384.0);
    gal_loss_scaling_update(&scaling, true);
    assert_true(scaling.scale == 32768.0);
    for (int i = 0; i < 100; i++) {
        gal_loss_scaling_update(&scaling, false);
    }
    assert_true(scaling.scale == 1.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(loss_scale_falls_and_grows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
