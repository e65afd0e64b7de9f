/* The tables of Galvatron-BMW as configurations: the cells of tests/accuracy/galvatron_tables.csv, no more and no
 * fewer; every name is a document; what strategies choose. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "planner/published/paper_row.h"

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

/* Under rising budgets, the first so small that nothing fits: no strategy is worse than one that it contains, and where
 * it takes another's plan, that is said. What has no plan says why. */
static void rows(void **unused)
{
    (void)unused;
    const gal_paper paper = read_paper();
    static const uint64_t budget_mebibytes[] = {1, 900, 1300, 3000, 9000};
    gal_paper_table table = {.table = "-"};
    gal_error err = {0};
    gal_model model;
    gal_cluster cluster;
    gal_durations *durations = NULL;
    uint32_t answered = 0, taken = 0;
    assert_int_equal(gal_model_read("gpt2-small", &model, &err), GAL_OK);
    assert_int_equal(gal_cluster_read("a100-8", &cluster, &err), GAL_OK);
    assert_int_equal(gal_durations_create_analytic(&cluster, &durations, &err), GAL_OK);
    for (uint32_t i = 0; i < paper.strategy_count; i++) {
        const size_t used = strlen(table.strategies);
        (void)snprintf(table.strategies + used, sizeof table.strategies - used, "%s%s", i == 0 ? "" : ",",
                       paper.strategy[i].name);
    }
    for (uint32_t b = 0; b < sizeof budget_mebibytes / sizeof budget_mebibytes[0]; b++) {
        gal_paper_row row = {.paper = &paper,
                             .table = &table,
                             .request = {.model = &model,
                                         .durations = durations,
                                         .profile_hash = "",
                                         .memory_bytes = budget_mebibytes[b] << 20,
                                         .batches = {.count = 2, .value = {8, 16}},
                                         .prefetch_depth = 2}};
        for (uint32_t i = 0; i < paper.strategy_count; i++) {
            const gal_paper_answer *answer = NULL, *inner = NULL;
            const char *at = paper.strategy[i].contains;
            char name[GAL_NAME_BYTES];
            uint32_t of = 0, of_inner = 0;
            assert_int_equal(gal_paper_row_answer(&row, i, &answer, &of, &err), GAL_OK);
            assert_true(answer == &row.own[of] && (of == i || row.own[of].feasible));
            assert_true(!answer->feasible || answer->plan.stage_count > 0);
            while (gal_paper_next_name(&at, name)) {
                const uint32_t number = (uint32_t)(gal_paper_find(&paper, name) - paper.strategy);
                assert_int_equal(gal_paper_row_answer(&row, number, &inner, &of_inner, &err), GAL_OK);
                assert_true(!inner->feasible || answer->feasible);
                assert_true(answer->samples_per_second >= inner->samples_per_second);
            }
            answered += answer->feasible;
            taken += of != i;
        }
        assert_true(b > 0 || answered == 0);
        gal_paper_row_free(&row);
    }
    print_message("%u answers, %u of them plans of a strategy that is contained\n", answered, taken);
    assert_true(answered > 0 && taken > 0);
    model.head_count = 6; /* TP over 8 */
    model.hidden = 768;
    gal_search_request request = {.model = &model,
                                  .durations = durations,
                                  .profile_hash = "",
                                  .memory_bytes = UINT64_C(40) << 30,
                                  .batches = {.count = 1, .value = {16}},
                                  .prefetch_depth = 2};
    gal_paper_answer answer;
    assert_int_equal(gal_paper_answer_of(&request, gal_paper_find(&paper, "TP"), &answer, &err), GAL_OK);
    assert_true(!answer.feasible && !answer.legal && strstr(answer.refusal, "head") != NULL);
    gal_durations_free(durations);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_cells),
        cmocka_unit_test(all_names),
        cmocka_unit_test(answers),
        cmocka_unit_test(rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
