/* The tables of Galvatron-BMW as configurations: the cells of tests/accuracy/galvatron_tables.csv, no more and no
 * fewer; every name is a document; what strategies choose. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "planner/published/paper.h"

static gal_paper read_paper(void)
{
    gal_paper paper;
    gal_error err = {0};
    if (gal_paper_read(&paper, &err) != GAL_OK) {
        fail_msg("%s", err.text);
    }
    return paper;
}

static uint32_t count_names(const char *list)
{
    char name[GAL_NAME_BYTES];
    uint32_t count = 0;
    while (gal_paper_next_name(&list, name)) {
        count++;
    }
    return count;
}

/* 4 x 8 x 11 + 2 (2 x 6 x 11) + 2 x 2 x 11 + 2 x 4 x 3 + 3 x 11 = 352 + 264 + 44 + 24 + 33 */
static void all_cells(void **unused)
{
    (void)unused;
    const gal_paper paper = read_paper();
    uint32_t cells = 0;
    for (uint32_t i = 0; i < paper.table_count; i++) {
        const gal_paper_table *table = &paper.table[i];
        cells += table->budget_count * count_names(table->models) * count_names(table->strategies);
    }
    assert_int_equal(cells, 717);
}

static void all_names(void **unused)
{
    (void)unused;
    const gal_paper paper = read_paper();
    for (uint32_t i = 0; i < paper.table_count; i++) {
        const gal_paper_table *table = &paper.table[i];
        const char *strategies = table->strategies, *models = table->models;
        char name[GAL_NAME_BYTES];
        gal_error err = {0};
        gal_cluster cluster;
        gal_model model;
        assert_int_equal(gal_cluster_read(table->cluster, &cluster, &err), GAL_OK);
        while (gal_paper_next_name(&strategies, name)) {
            assert_non_null(gal_paper_find(&paper, name));
        }
        while (gal_paper_next_name(&models, name)) {
            assert_int_equal(gal_model_read(name, &model, &err), GAL_OK);
        }
    }
    assert_null(gal_paper_find(&paper, "none"));
}

/* gpt2-small on 8 devices: plans are what their names say, and what may choose more is no slower by its own model. */
static void answers(void **unused)
{
    (void)unused;
    const gal_paper paper = read_paper();
    static const struct {
        const char *strategy;
        gal_axis_kind kind;
        uint32_t degree, pp_degree;
    } layouts[] = {{"DP", GAL_AXIS_DP, 8, 1},
                   {"SDP", GAL_AXIS_SDP, 8, 1},
                   {"PP", GAL_AXIS_DP, 1, 8},
                   {"DeepSpeed-3D", GAL_AXIS_TP, 2, 2}};
    gal_error err = {0};
    gal_model model;
    gal_cluster cluster;
    gal_durations *durations = NULL;
    assert_int_equal(gal_model_read("gpt2-small", &model, &err), GAL_OK);
    assert_int_equal(gal_cluster_read("a100-8", &cluster, &err), GAL_OK);
    assert_int_equal(gal_durations_create_analytic(&cluster, &durations, &err), GAL_OK);
    gal_search_request request = {.model = &model,
                                  .durations = durations,
                                  .profile_hash = "",
                                  .memory_bytes = UINT64_C(40) << 30,
                                  .batches = {.count = 1, .value = {16}},
                                  .prefetch_depth = 2};
    gal_paper_answer answer;
    for (uint32_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        const gal_paper_strategy *strategy = gal_paper_find(&paper, layouts[i].strategy);
        assert_int_equal(gal_paper_answer_of(&request, strategy, &answer, &err), GAL_OK);
        assert_true(answer.feasible && answer.samples_per_second > 0.0);
        assert_int_equal(gal_strategy_degree(&answer.plan.run[0].strategy, layouts[i].kind), layouts[i].degree);
        assert_int_equal(answer.plan.pp_degree, layouts[i].pp_degree);
        gal_plan_free(&answer.plan);
    }
    assert_int_equal(gal_paper_answer_of(&request, gal_paper_find(&paper, "DP+TP"), &answer, &err), GAL_OK);
    const double narrow = answer.opinion.seconds;
    gal_plan_free(&answer.plan);
    assert_int_equal(gal_paper_answer_of(&request, gal_paper_find(&paper, "Galvatron"), &answer, &err), GAL_OK);
    assert_true(answer.opinion.seconds <= narrow * (1.0 + 1e-9));
    gal_plan_free(&answer.plan);
    request.memory_bytes = 1 << 20;
    assert_int_equal(gal_paper_answer_of(&request, gal_paper_find(&paper, "DP"), &answer, &err), GAL_OK);
    assert_false(answer.feasible);
    gal_durations_free(durations);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_cells),
        cmocka_unit_test(all_names),
        cmocka_unit_test(answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
