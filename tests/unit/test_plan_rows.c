/* Folding of patterns, and plans as rows of layers, by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "planner/answers/fold.h"
#include "planner/answers/plan_rows.h"

/* ---- folding ---- */

/* "AABAAB" as "(AAB)2", "AAAB" as "A3 B". */
static const char *folded(const char *letters, char text[256])
{
    uint32_t kind[64];
    gal_fold fold[64];
    const uint32_t count = (uint32_t)strlen(letters);
    size_t used = 0;
    for (uint32_t i = 0; i < count; i++) {
        kind[i] = (uint32_t)letters[i];
    }
    const uint32_t folds = gal_fold_kinds(kind, count, fold);
    for (uint32_t i = 0; i < folds; i++) {
        const char *const between = i > 0 ? " " : "";
        const int period = (int)fold[i].period;
        used += (size_t)snprintf(text + used, 256 - used, period > 1 ? "%s(%.*s)%u" : "%s%.*s%u", between, period,
                                 letters + fold[i].first, fold[i].turns);
    }
    return text;
}

static void test_fold(void **state)
{
    (void)state;
    char text[256];
    assert_string_equal(folded("A", text), "A1");
    assert_string_equal(folded("AAAB", text), "A3 B1");
    assert_string_equal(folded("ABABAB", text), "(AB)3");
    assert_string_equal(folded("AABAABAAB", text), "(AAB)3");
    assert_string_equal(folded("EABABABH", text), "E1 (AB)3 H1");
    /* the longer run in front would leave BABAB, four rows in place of three */
    assert_string_equal(folded("AAABABAB", text), "A2 (AB)3");
    assert_string_equal(folded("ABBAABBA", text), "(ABBA)2");
    assert_string_equal(folded("ABC", text), "A1 B1 C1");
    /* two turns of AB save two rows; of AAB and AAB none is left over */
    assert_string_equal(folded("ABAB", text), "(AB)2");
}

/* ---- plans ---- */

typedef struct cut {
    gal_plan plan;
    gal_plan_stage stage[32];
    gal_plan_run run[128];
} cut;

/* runs: per piece as many blocks each; the strategy of a run is SDP of so many devices, ZeRO 3. */
typedef struct piece {
    uint32_t run_count;
    uint32_t blocks[64], degree[64];
} piece;

static void make(const char *model, const piece *pieces, uint32_t count, cut *out)
{
    gal_error err = {0};
    memset(out, 0, sizeof *out);
    assert_int_equal(gal_model_read(model, &out->plan.model, &err), GAL_OK);
    out->plan.stage = out->stage;
    out->plan.run = out->run;
    out->plan.stage_count = out->plan.pp_degree = count;
    for (uint32_t p = 0; p < count; p++) {
        out->stage[p] = (gal_plan_stage){.first_run = out->plan.run_count, .run_count = pieces[p].run_count};
        for (uint32_t r = 0; r < pieces[p].run_count; r++) {
            gal_plan_run *run = &out->run[out->plan.run_count++];
            run->block_count = pieces[p].blocks[r];
            run->strategy = (gal_strategy){.axis_count = 1, .zero_stage = 3};
            run->strategy.axis[0].kind = GAL_AXIS_SDP;
            run->strategy.axis[0].degree = pieces[p].degree[r];
        }
    }
}

/* All rows as text, a group a line: "0: embedding 8; layers 1-3 4,2; ..." with degrees in place of strategies. */
static void check(cut *c, const char *expected)
{
    char text[2048] = "", name[GAL_PLAN_ROW_NAME_BYTES];
    gal_plan_rows rows;
    gal_error err = {0};
    size_t used = 0;
    assert_int_equal(gal_plan_rows_find(&c->plan, &rows, &err), GAL_OK);
    for (uint32_t g = 0; g < rows.group_count; g++) {
        const gal_plan_group *group = &rows.group[g];
        used += (size_t)snprintf(text + used, sizeof text - used, "%u", group->piece);
        if (group->piece_count > 1) {
            used += (size_t)snprintf(text + used, sizeof text - used, " x%u +%u", group->piece_count, group->shift);
        }
        for (uint32_t i = 0; i < group->row_count; i++) {
            const gal_plan_row *row = &rows.row[group->first_row + i];
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i == 0 ? ": " : "; ",
                                     gal_plan_row_name(row, name));
            for (uint32_t part = 0; part < GAL_PART_COUNT; part++) {
                if (row->strategy[part] != NULL) {
                    used +=
                        (size_t)snprintf(text + used, sizeof text - used, " %u", row->strategy[part]->axis[0].degree);
                }
            }
        }
        used += (size_t)snprintf(text + used, sizeof text - used, "\n");
    }
    gal_plan_rows_free(&rows);
    assert_string_equal(text, expected);
}

/* GPT-2 small has 12 layers, 26 blocks: attention under 8, FFN under 4, by turns. */
static void test_stripes(void **state)
{
    (void)state;
    cut c;
    piece one = {.run_count = 26};
    for (uint32_t i = 0; i < 26; i++) {
        one.blocks[i] = 1;
        one.degree[i] = i % 2 == 1 ? 8 : 4;
    }
    make("gpt2-small", &one, 1, &c);
    check(&c, "0: embedding 4; layers 1-12 8 4; head 8\n");
    /* every third layer is under 2 */
    for (uint32_t layer = 2; layer < 12; layer += 3) {
        one.degree[1 + 2 * layer] = one.degree[2 + 2 * layer] = 2;
    }
    make("gpt2-small", &one, 1, &c);
    check(&c, "0: embedding 4; layers 1-2, 4-5 ... 10-11 (x 4) 8 4; layers 3, 6 ... 12 (x 4) 2 2; head 8\n");
}

/* Pieces that end inside a layer: 7 + 6 + 6 + 7 blocks. The second and the third are equal, three layers apart. */
static void test_stages(void **state)
{
    (void)state;
    cut c;
    const piece even[] = {{1, {7}, {8}}, {1, {6}, {8}}, {1, {6}, {8}}, {1, {7}, {8}}};
    make("gpt2-small", even, 4, &c);
    check(&c, "0: embedding 8; layers 1-3 8 8\n"
              "1 x2 +3: layers 4-6 8 8\n"
              "3: layers 10-12 8 8; head 8\n");
    const piece odd[] = {{1, {8}, {8}}, {1, {6}, {8}}, {1, {6}, {8}}, {1, {6}, {8}}};
    make("gpt2-small", odd, 4, &c);
    check(&c, "0: embedding 8; layers 1-3 8 8; layer 4 attention 8\n"
              "1 x2 +3: layer 4 FFN 8; layers 5-6 8 8; layer 7 attention 8\n"
              "3: layer 10 FFN 8; layers 11-12 8 8; head 8\n");
}

/* T5 small: 6 layers of encoder and of decoder; its second stage begins at the decoder. */
static void test_two_stacks(void **state)
{
    (void)state;
    cut c;
    const piece two[] = {{2, {1, 12}, {2, 8}}, {2, {19, 1}, {4, 2}}};
    make("t5-small", two, 2, &c);
    check(&c, "0: embedding 2; encoder layers 1-6 8 8\n"
              "1: decoder embedding 4; decoder layers 1-6 4 4 4; head 2\n");
}

/* Swin tiny: 2, 2, 6 and 2 layers with merges between. */
static void test_levels(void **state)
{
    (void)state;
    cut c;
    const piece one = {1, {29}, {8}};
    make("swin-tiny", &one, 1, &c);
    check(&c, "0: embedding 8; level 1 layers 1-2 8 8; merge 1 8; level 2 layers 1-2 8 8; merge 2 8; "
              "level 3 layers 1-6 8 8; merge 3 8; level 4 layers 1-2 8 8; head 8\n");
}

static void test_strategies(void **state)
{
    (void)state;
    cut c;
    gal_plan_rows rows;
    gal_error err = {0};
    const piece mixed = {3, {3, 1, 22}, {8, 4, 8}};
    make("gpt2-small", &mixed, 1, &c);
    assert_int_equal(gal_plan_rows_find(&c.plan, &rows, &err), GAL_OK);
    assert_int_equal(rows.row_count, 5); /* embedding, layer 1, layer 2, layers 3-12, head */
    assert_non_null(gal_plan_row_strategy(&rows.row[1]));
    assert_null(gal_plan_row_strategy(&rows.row[2]));
    assert_null(gal_plan_group_strategy(&rows, &rows.group[0]));
    gal_plan_rows_free(&rows);
    const piece same = {2, {3, 23}, {8, 8}};
    make("gpt2-small", &same, 1, &c);
    assert_int_equal(gal_plan_rows_find(&c.plan, &rows, &err), GAL_OK);
    assert_int_equal(rows.row_count, 3);
    assert_int_equal(gal_plan_group_strategy(&rows, &rows.group[0])->axis[0].degree, 8);
    gal_plan_rows_free(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fold),       cmocka_unit_test(test_stripes), cmocka_unit_test(test_stages),
        cmocka_unit_test(test_two_stacks), cmocka_unit_test(test_levels),  cmocka_unit_test(test_strategies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
