/* Atoms, groups and layout conversions: every conversion is carried out on row numbers, device by device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/program/layout.h"

enum { DEVICES_MAX = 24, ROWS_MAX = 4096, SEQUENCE = 24 };

static void test_atoms(void **state)
{
    (void)state;
    gal_atoms atoms;
    gal_atoms_of(12, &atoms); /* 12 = 2 * 2 * 3, innermost first */
    assert_int_equal(atoms.count, 3);
    assert_int_equal(atoms.radix[2], 3);
    assert_int_equal(atoms.stride[2], 4);
    uint32_t members[12];
    /* device 7 = 1 + 1*2 + 1*4: the group of atoms {0, 2} holds 2 + {0,1} + {0,4,8} */
    assert_int_equal(gal_group_members(&atoms, 5, 7, members), 6);
    assert_int_equal(members[0], 2);
    assert_int_equal(members[1], 3);
    assert_int_equal(members[2], 6);
    assert_int_equal(members[5], 11);
    assert_int_equal(gal_group_index(&atoms, 5, 7), 3);
    gal_atoms_of(1, &atoms);
    assert_int_equal(atoms.count, 0);
    assert_int_equal(gal_group_members(&atoms, GAL_GROUP_NONE, 0, members), 1);
}

typedef struct world {
    gal_atoms atoms;
    uint32_t device_count, row_count[DEVICES_MAX];
    uint32_t row[DEVICES_MAX][ROWS_MAX]; /* sample * SEQUENCE + position */
} world;

/* What a device must hold under a layout. */
static uint32_t expected_rows(const world *w, const gal_layout *layout, uint32_t device, uint32_t *rows)
{
    uint32_t map[ROWS_MAX];
    uint32_t samples = gal_layout_local_samples(layout);
    uint32_t chunks = gal_group_size(&w->atoms, layout->sequence_group);
    uint32_t begin = gal_group_index(&w->atoms, layout->sequence_group, device) * (SEQUENCE / chunks);
    gal_layout_sample_map(layout, &w->atoms, device, map);
    for (uint32_t p = 0; p < SEQUENCE / chunks; p++) {
        for (uint32_t s = 0; s < samples; s++) {
            rows[p * samples + s] = map[s] * SEQUENCE + begin + p;
        }
    }
    return SEQUENCE / chunks * samples;
}

static void permute(const world *w, const gal_permutation *how, uint32_t index, const uint32_t *from, uint32_t *to)
{
    uint32_t n = 0;
    const uint32_t *c = how->count;
    (void)w;
    for (uint32_t i = 0; i < c[0] * c[1] * c[2] * c[3] * c[4]; i++) {
        uint32_t rest = i;
        uint32_t row = index * how->view_stride;
        for (uint32_t d = GAL_PERMUTE_DIMS; d-- > 0;) {
            row += rest % c[d] * how->stride[d];
            rest /= c[d];
        }
        to[n++] = from[row];
    }
}

/* all_gather or all_to_all among the members of each device's group. */
static void communicate(world *w, const gal_layout_step *step)
{
    static uint32_t old[DEVICES_MAX][ROWS_MAX];
    memcpy(old, w->row, sizeof old);
    for (uint32_t d = 0; d < w->device_count; d++) {
        uint32_t members[DEVICES_MAX];
        uint32_t size = gal_group_members(&w->atoms, step->group, d, members);
        uint32_t rows = w->row_count[d];
        uint32_t part = step->kind == GAL_STEP_GATHER ? rows : rows / size;
        uint32_t first = step->kind == GAL_STEP_GATHER ? 0 : gal_group_index(&w->atoms, step->group, d) * part;
        for (uint32_t i = 0; i < size; i++) {
            memcpy(&w->row[d][i * part], &old[members[i]][first], part * sizeof(uint32_t));
        }
    }
    for (uint32_t d = 0; d < w->device_count; d++) {
        w->row_count[d] *= step->kind == GAL_STEP_GATHER ? gal_group_size(&w->atoms, step->group) : 1;
    }
}

static void copy_rows(world *w, const gal_layout_step *step, const gal_permutation *how)
{
    for (uint32_t d = 0; d < w->device_count; d++) {
        uint32_t target[ROWS_MAX];
        permute(w, how, gal_group_index(&w->atoms, step->group, d), w->row[d], target);
        w->row_count[d] = how->count[0] * how->count[1] * how->count[2] * how->count[3] * how->count[4];
        memcpy(w->row[d], target, w->row_count[d] * sizeof(uint32_t));
    }
}

static void run_step(world *w, const gal_layout_step *step)
{
    gal_permutation how;
    bool sequence = step->from.sequence_group != step->to.sequence_group;
    bool pack = step->kind == GAL_STEP_ALL_TO_ALL && step->from.sequence_group != 0;
    if (step->kind == GAL_STEP_GATHER && sequence) {
        communicate(w, step);
        return;
    }
    assert_true(gal_step_permutation(step, &w->atoms, SEQUENCE, &how));
    if (step->kind == GAL_STEP_SLICE) {
        copy_rows(w, step, &how);
    } else if (pack) {
        copy_rows(w, step, &how);
        communicate(w, step);
    } else {
        communicate(w, step);
        copy_rows(w, step, &how);
    }
}

static void check_rows(const world *w, const gal_layout *layout)
{
    for (uint32_t d = 0; d < w->device_count; d++) {
        uint32_t rows[ROWS_MAX];
        assert_int_equal(expected_rows(w, layout, d, rows), w->row_count[d]);
        assert_memory_equal(rows, w->row[d], w->row_count[d] * sizeof(uint32_t));
    }
}

static void random_groups(const gal_atoms *atoms, uint32_t samples, gal_group *sample_group, gal_group *sequence_group)
{
    do {
        *sample_group = 0;
        *sequence_group = 0;
        bool sequence = rand() % 2 == 0;
        for (uint32_t a = 0; a < atoms->count; a++) {
            uint32_t pick = (uint32_t)rand() % 3;
            *sample_group |= pick == 0 ? UINT32_C(1) << a : 0;
            *sequence_group |= sequence && pick == 1 ? UINT32_C(1) << a : 0;
        }
    } while (samples % gal_group_size(atoms, *sample_group) != 0 ||
             SEQUENCE % gal_group_size(atoms, *sequence_group) != 0);
}

/* Chains of random conversions over 1 to 24 devices, forward and, by the inverse steps, back. */
static void test_conversions(void **state)
{
    (void)state;
    static const uint32_t device_counts[] = {1, 2, 3, 4, 6, 8, 12, 16, 24};
    static const uint32_t sample_counts[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 48};
    static world w;
    srand(1);
    for (uint32_t round = 0; round < 1000; round++) {
        memset(&w, 0, sizeof w);
        w.device_count = device_counts[(uint32_t)rand() % 9];
        gal_atoms_of(w.device_count, &w.atoms);
        gal_layout now;
        gal_layout_whole(sample_counts[(uint32_t)rand() % 10], &now);
        for (uint32_t d = 0; d < w.device_count; d++) {
            w.row_count[d] = expected_rows(&w, &now, d, w.row[d]);
        }
        for (uint32_t hop = 0; hop < 4; hop++) {
            gal_layout_step steps[GAL_LAYOUT_STEPS_MAX];
            gal_layout to;
            gal_group samples, sequence;
            random_groups(&w.atoms, now.sample_count, &samples, &sequence);
            uint32_t count = gal_layout_convert(&now, &w.atoms, samples, sequence, steps, &to);
            assert_int_equal(to.sample_group, samples);
            assert_int_equal(to.sequence_group, sequence);
            for (uint32_t i = 0; i < count; i++) {
                run_step(&w, &steps[i]);
            }
            check_rows(&w, &to);
            for (uint32_t i = count; i-- > 0;) {
                gal_layout_step back = gal_layout_step_inverse(&steps[i]);
                run_step(&w, &back);
            }
            check_rows(&w, &now);
            for (uint32_t i = 0; i < count; i++) {
                run_step(&w, &steps[i]);
            }
            now = to;
        }
    }
}

/* What a price takes for the rows that enter: the layout that a conversion from whole rows reaches. */
static void test_split_is_what_a_conversion_reaches(void **state)
{
    (void)state;
    for (uint32_t devices = 1; devices <= 24; devices++) {
        gal_atoms atoms;
        gal_atoms_of(devices, &atoms);
        const gal_group all = (gal_group)((UINT32_C(1) << atoms.count) - 1);
        for (gal_group samples = 0; samples <= all; samples++) {
            for (int split = 0; split < 2; split++) {
                const gal_group positions = split ? all & ~samples : GAL_GROUP_NONE;
                gal_layout whole, reached, direct;
                gal_layout_step steps[GAL_LAYOUT_STEPS_MAX];
                gal_layout_whole(3 * devices, &whole);
                gal_layout_convert(&whole, &atoms, samples, positions, steps, &reached);
                gal_layout_split(3 * devices, &atoms, samples, positions, &direct);
                assert_true(gal_layout_equal(&reached, &direct));
            }
        }
    }
}

/* Device (i, j, k) of a cube has, turned, what (i, k, j) had: as many rows, of the samples of i and k, and features of
 * part j. Sides of 2 and of 4, two atoms each, beside data parallelism in either order. */
static void test_turned(void **state)
{
    (void)state;
    static const gal_strategy cubes[] = {
        {.axis_count = 1, .axis = {{GAL_AXIS_TP, 8}}, .tp_mode = GAL_TP_3D},
        {.axis_count = 1, .axis = {{GAL_AXIS_TP, 64}}, .tp_mode = GAL_TP_3D},
        {.axis_count = 2, .axis = {{GAL_AXIS_DP, 2}, {GAL_AXIS_TP, 8}}, .tp_mode = GAL_TP_3D},
        {.axis_count = 2, .axis = {{GAL_AXIS_TP, 8}, {GAL_AXIS_DP, 2}}, .tp_mode = GAL_TP_3D}};
    static const uint32_t devices[] = {8, 64, 16, 16};
    for (uint32_t c = 0; c < 4; c++) {
        gal_atoms atoms;
        gal_layout layout, turned;
        gal_atoms_of(devices[c], &atoms);
        const gal_mesh mesh = gal_mesh_of(&atoms, &cubes[c]);
        const uint32_t side = gal_strategy_grid_side(&cubes[c]);
        gal_layout_of_strategy(2 * devices[c], &atoms, &cubes[c], &layout);
        gal_layout_turn(&layout, &atoms, mesh.tp, mesh.output, &turned);
        assert_int_equal(turned.feature_group, mesh.tp);
        assert_int_equal(turned.sample_group, (layout.sample_group & ~mesh.tp) | mesh.output);
        const uint32_t step = c == 2 ? 2 : 1; /* of a device in the cube */
        for (uint32_t d = 0; d < devices[c]; d++) {
            uint32_t own[ROWS_MAX], other[ROWS_MAX];
            const uint32_t j = d / (step * side) % side, k = d / (step * side * side) % side;
            const uint32_t exchanged = d - (j + k * side) * step * side + (k + j * side) * step * side;
            gal_layout_sample_map(&turned, &atoms, d, own);
            gal_layout_sample_map(&layout, &atoms, exchanged, other);
            assert_memory_equal(own, other, gal_layout_local_samples(&layout) * sizeof *own);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_turned),
                                       cmocka_unit_test(test_split_is_what_a_conversion_reaches),
                                       cmocka_unit_test(test_atoms), cmocka_unit_test(test_conversions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
