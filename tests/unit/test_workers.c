/* Every task is done once, whoever does it; runs may follow each other; without threads the caller does all in order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "schemas/base/workers.h"

enum { TASKS = 1000, RUNS = 200, THREADS = 5 };

typedef struct seen {
    uint32_t times[TASKS]; /* each written by one task alone */
    uint32_t last;
    int in_order;
} seen;

static void count(void *context, uint32_t index)
{
    seen *s = context;
    s->times[index]++;
}

static void count_in_order(void *context, uint32_t index)
{
    seen *s = context;
    s->in_order = s->in_order && index == s->last;
    s->last = index + 1;
    count(context, index);
}

static void test_each_once(void **state)
{
    (void)state;
    static seen s;
    gal_workers *workers = gal_workers_create(THREADS);
    assert_non_null(workers);
    for (uint32_t run = 0; run < RUNS; run++) {
        gal_workers_run(workers, TASKS - run, count, &s);
    }
    gal_workers_free(workers);
    for (uint32_t i = 0; i < TASKS; i++) {
        assert_int_equal(s.times[i], i < TASKS - RUNS + 1 ? RUNS : TASKS - i);
    }
}

static void test_fewer_than_threads(void **state)
{
    (void)state;
    seen s;
    memset(&s, 0, sizeof s);
    gal_workers *workers = gal_workers_create(THREADS);
    for (uint32_t tasks = 0; tasks <= THREADS; tasks++) {
        gal_workers_run(workers, tasks, count, &s);
    }
    gal_workers_free(workers);
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(s.times[i], THREADS - i);
    }
}

static void test_alone(void **state)
{
    (void)state;
    seen s;
    memset(&s, 0, sizeof s);
    s.in_order = 1;
    assert_null(gal_workers_create(1));
    gal_workers_run(NULL, TASKS, count_in_order, &s);
    gal_workers_free(NULL);
    assert_true(s.in_order);
    assert_int_equal(s.last, TASKS);
}

/* What was never asked for a task has no threads to wait for. */
static void test_unused(void **state)
{
    (void)state;
    gal_workers_free(gal_workers_create(THREADS));
    assert_true(gal_workers_cores() >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_once),
        cmocka_unit_test(test_fewer_than_threads),
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_unused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
