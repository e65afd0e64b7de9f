#include "tests/support/numerics_coverage.h"

#include <string.h>

#include "tests/support/numerics_cells.h"

/* What a strategy is made of; one strategy may have several. */
enum { DP, ZERO_1, ZERO_2, ZERO_3, TP, TP_SP, ULYSSES, RING, GRID, TRAIT_COUNT };
static const char *const trait_names[TRAIT_COUNT] = {"dp",    "zero1",   "zero2", "zero3", "tp",
                                                     "tp+sp", "ulysses", "ring",  "grid"};

/* Which of the axes DP, SDP and TP a strategy has, in any order: bits by gal_axis_kind, less the empty set. Strategies
 * with an axis of the positions have cells of their own: all pairs of these too would take thousands of plans. */
enum { MATRIX_KINDS = GAL_AXIS_TP + 1, COMBINATION_COUNT = (1 << MATRIX_KINDS) - 1 };

/* Ordered axes, innermost first, on 2, 4 and 8 devices: 3 + 9 + 21. */
enum { AXES_CELLS = 33, ZERO_STAGES = 4, PP_DEGREES = 4 };

enum {
    WITHIN_STAGE = 0,                                                /* [trait][trait of the next block] */
    ACROSS_STAGES = WITHIN_STAGE + TRAIT_COUNT * TRAIT_COUNT,        /* the same at a stage border */
    COMBINATIONS = ACROSS_STAGES + TRAIT_COUNT * TRAIT_COUNT,        /* [axes, unordered][those of the next block] */
    AXES = COMBINATIONS + COMBINATION_COUNT * COMBINATION_COUNT,     /* [axes, ordered] */
    ZERO = AXES + AXES_CELLS,                                        /* [stage][log2 P][schedule] */
    SWITCHES = ZERO + ZERO_STAGES * PP_DEGREES * GAL_SCHEDULE_COUNT, /* [tied][uneven][accumulation], P > 1 */
    DROPOUTS = SWITCHES + 8,                                         /* [dropout][recompute] */
    OTHERS = DROPOUTS + 4                                            /* the cells of numerics_cells.h */
};

static const gal_coverage_cells *const others[] = {
    &gal_cells_of_family,  &gal_cells_of_t5,      &gal_cells_of_sequence, &gal_cells_of_grid,
    &gal_cells_of_offload, &gal_cells_of_overlap, &gal_cells_of_step,     &gal_cells_of_units,
};
enum { OTHERS_COUNT = sizeof others / sizeof others[0] };

static uint32_t cell_count(void)
{
    uint32_t count = OTHERS;
    for (uint32_t i = 0; i < OTHERS_COUNT; i++) {
        count += others[i]->count;
    }
    GAL_ASSERT(count <= GAL_COVERAGE_CELLS_MAX);
    return count;
}

/* ---- strategies ---- */

static void traits_of(const gal_strategy *s, bool trait[TRAIT_COUNT])
{
    memset(trait, false, TRAIT_COUNT * sizeof *trait);
    trait[DP] = gal_strategy_degree(s, GAL_AXIS_DP) > 1;
    trait[ZERO_1] = s->zero_stage == 1;
    trait[ZERO_2] = s->zero_stage == 2;
    trait[ZERO_3] = s->zero_stage == 3;
    trait[GRID] = s->tp_mode != GAL_TP_1D;
    trait[TP] = gal_strategy_degree(s, GAL_AXIS_TP) > 1 && !s->sequence_parallel && !trait[GRID];
    trait[TP_SP] = s->sequence_parallel;
    trait[ULYSSES] = gal_strategy_degree(s, GAL_AXIS_ULYSSES) > 1;
    trait[RING] = gal_strategy_degree(s, GAL_AXIS_RING) > 1;
}

uint32_t gal_cells_axes_of(const gal_strategy *s)
{
    uint32_t set = 0;
    for (uint32_t i = 0; i < s->axis_count; i++) {
        set |= 1u << s->axis[i].kind;
    }
    return set;
}

typedef struct axes_table {
    uint32_t count;
    gal_strategy strategy[AXES_CELLS];
} axes_table;

static void list_axes(axes_table *table, gal_strategy *at, uint32_t left, uint32_t used)
{
    if (left == 1) {
        GAL_ASSERT(table->count < AXES_CELLS);
        table->strategy[table->count++] = *at;
        return;
    }
    for (uint32_t degree = left; degree >= 2; degree /= 2) {
        for (uint32_t kind = 0; kind < MATRIX_KINDS; kind++) {
            if ((used >> kind & 1u) == 0) {
                at->axis[at->axis_count++] = (gal_axis){(gal_axis_kind)kind, degree};
                list_axes(table, at, left / degree, used | 1u << kind);
                at->axis_count--;
            }
        }
    }
}

static void all_axes(axes_table *table)
{
    gal_strategy at;
    memset(table, 0, sizeof *table);
    for (uint32_t devices = 2; devices <= 8; devices *= 2) {
        memset(&at, 0, sizeof at);
        list_axes(table, &at, devices, 0);
    }
    GAL_ASSERT(table->count == AXES_CELLS);
}

static bool same_axes(const gal_strategy *a, const gal_strategy *b)
{
    bool same = a->axis_count == b->axis_count;
    for (uint32_t i = 0; same && i < a->axis_count; i++) {
        same = a->axis[i].kind == b->axis[i].kind && a->axis[i].degree == b->axis[i].degree;
    }
    return same;
}

/* ---- one plan ---- */

static void hit_pairs(const gal_plan *plan, bool *hit)
{
    const uint32_t blocks = gal_model_block_count(&plan->model);
    uint32_t piece = 0;
    for (uint32_t b = 0; b + 1 < blocks; b++) {
        bool here[TRAIT_COUNT], next[TRAIT_COUNT];
        const uint32_t end = gal_plan_stage_first_block(plan, piece) + gal_plan_stage_block_count(plan, piece);
        const bool border = b + 1 == end;
        piece += border;
        const gal_strategy *s = gal_plan_block_strategy(plan, b);
        const gal_strategy *after = gal_plan_block_strategy(plan, b + 1);
        traits_of(s, here);
        traits_of(after, next);
        const bool in_matrix = gal_strategy_sequence_degree(s) == 1 && gal_strategy_sequence_degree(after) == 1;
        if (!border && s->axis_count > 0 && in_matrix) {
            hit[COMBINATIONS + (gal_cells_axes_of(s) - 1) * COMBINATION_COUNT + gal_cells_axes_of(after) - 1] = true;
        }
        for (uint32_t i = 0; i < TRAIT_COUNT * TRAIT_COUNT; i++) {
            const bool met = here[i / TRAIT_COUNT] && next[i % TRAIT_COUNT];
            hit[(border ? ACROSS_STAGES : WITHIN_STAGE) + i] |= met;
        }
    }
}

static void hit_strategies(const gal_plan *plan, bool *hit)
{
    axes_table axes;
    uint32_t log2_pp = 0;
    all_axes(&axes);
    while ((1u << log2_pp) < plan->stage_count) {
        log2_pp++;
    }
    const bool power_of_two = (1u << log2_pp) == plan->stage_count && log2_pp < PP_DEGREES;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        const gal_strategy *s = &plan->run[r].strategy;
        for (uint32_t i = 0; i < AXES_CELLS; i++) {
            hit[AXES + i] |= same_axes(s, &axes.strategy[i]);
        }
        if (power_of_two) {
            hit[ZERO + (s->zero_stage * PP_DEGREES + log2_pp) * GAL_SCHEDULE_COUNT + plan->schedule] = true;
        }
    }
}

static bool is_uneven(const gal_plan *plan)
{
    bool uneven = false;
    for (uint32_t s = 1; s < gal_plan_piece_count(plan); s++) {
        uneven |= gal_plan_stage_block_count(plan, s) != gal_plan_stage_block_count(plan, 0);
    }
    return uneven;
}

static void hit_model(const gal_plan *plan, bool *hit)
{
    const gal_model *m = &plan->model;
    const bool dropout = m->embedding_dropout > 0 || m->attention_dropout > 0 || m->residual_dropout > 0;
    bool redo = false;
    for (uint32_t r = 0; r < plan->run_count; r++) {
        redo |= plan->run[r].strategy.recompute == GAL_RECOMPUTE_FULL;
    }
    if (plan->stage_count > 1) {
        hit[SWITCHES + (uint32_t)m->tied_embeddings * 4 + (uint32_t)is_uneven(plan) * 2 +
            (uint32_t)(plan->microbatch_count > 1)] = true;
    }
    hit[DROPOUTS + (uint32_t)dropout * 2 + (uint32_t)redo] = true;
}

void gal_coverage_of(const gal_plan *plan, bool hit[GAL_COVERAGE_CELLS_MAX])
{
    bool *cells = hit + OTHERS;
    memset(hit, false, GAL_COVERAGE_CELLS_MAX * sizeof *hit);
    hit_pairs(plan, hit);
    hit_strategies(plan, hit);
    hit_model(plan, hit);
    for (uint32_t i = 0; i < OTHERS_COUNT; i++) {
        others[i]->hit(plan, cells);
        cells += others[i]->count;
    }
}

/* ---- many plans ---- */

/* ZeRO needs two devices in a stage at least, so not P = 8 of 8 ranks; interleaving needs two stages at least and two
 * blocks on each, so not P = 8 of at most 8 blocks. All other cells can be met. */
static bool is_legal(uint32_t cell)
{
    if (cell < ZERO || cell >= SWITCHES) {
        return cell < cell_count();
    }
    const uint32_t zero_stage = (cell - ZERO) / GAL_SCHEDULE_COUNT / PP_DEGREES;
    const uint32_t log2_pp = (cell - ZERO) / GAL_SCHEDULE_COUNT % PP_DEGREES;
    const bool interleaved = (cell - ZERO) % GAL_SCHEDULE_COUNT == GAL_SCHEDULE_INTERLEAVED;
    return (zero_stage == 0 || log2_pp < 3) && (!interleaved || (log2_pp > 0 && log2_pp < 3));
}

static int legal_count(void)
{
    int count = 0;
    for (uint32_t c = 0; c < cell_count(); c++) {
        count += is_legal(c);
    }
    return count;
}

void gal_coverage_add(gal_coverage *coverage, const bool hit[GAL_COVERAGE_CELLS_MAX])
{
    for (uint32_t c = 0; c < cell_count(); c++) {
        coverage->met[c] += hit[c];
    }
}

uint32_t gal_coverage_gain(const gal_coverage *coverage, const bool hit[GAL_COVERAGE_CELLS_MAX])
{
    uint32_t gain = 0;
    for (uint32_t c = 0; c < cell_count(); c++) {
        gain += hit[c] && coverage->met[c] < coverage->wanted_plans;
    }
    return gain;
}

uint32_t gal_coverage_short(const gal_coverage *coverage)
{
    uint32_t count = 0;
    for (uint32_t c = 0; c < cell_count(); c++) {
        count += is_legal(c) && coverage->met[c] < coverage->wanted_plans;
    }
    return count;
}

static void print_traits(const gal_coverage *coverage, uint32_t first, const char *title, FILE *out)
{
    (void)fprintf(out, "%s\n%10s", title, "");
    for (uint32_t t = 0; t < TRAIT_COUNT; t++) {
        (void)fprintf(out, "%8s", trait_names[t]);
    }
    for (uint32_t i = 0; i < TRAIT_COUNT * TRAIT_COUNT; i++) {
        if (i % TRAIT_COUNT == 0) {
            (void)fprintf(out, "\n%10s", trait_names[i / TRAIT_COUNT]);
        }
        (void)fprintf(out, "%8u", coverage->met[first + i]);
    }
    (void)fprintf(out, "\n");
}

static void combination_name(uint32_t set, char name[16])
{
    size_t used = 0;
    for (uint32_t kind = 0; kind < MATRIX_KINDS; kind++) {
        if ((set >> kind & 1u) != 0) {
            used += (size_t)snprintf(name + used, 16 - used, "%s%s", used > 0 ? "+" : "", gal_axis_kind_names[kind]);
        }
    }
}

static void print_combinations(const gal_coverage *coverage, FILE *out)
{
    char name[16];
    (void)fprintf(out, "plans by axes in any order (row) and those of the next block, same stage\n%10s", "");
    for (uint32_t c = 0; c < COMBINATION_COUNT; c++) {
        combination_name(c + 1, name);
        (void)fprintf(out, "%11s", name);
    }
    for (uint32_t i = 0; i < COMBINATION_COUNT * COMBINATION_COUNT; i++) {
        if (i % COMBINATION_COUNT == 0) {
            combination_name(i / COMBINATION_COUNT + 1, name);
            (void)fprintf(out, "\n%10s", name);
        }
        (void)fprintf(out, "%11u", coverage->met[COMBINATIONS + i]);
    }
    (void)fprintf(out, "\n");
}

static void print_axes(const gal_coverage *coverage, FILE *out)
{
    axes_table axes;
    all_axes(&axes);
    (void)fprintf(out, "plans by order and degree of axes, innermost first");
    for (uint32_t i = 0; i < AXES_CELLS; i++) {
        char name[64] = "";
        size_t used = 0;
        for (uint32_t a = 0; a < axes.strategy[i].axis_count; a++) {
            const gal_axis *axis = &axes.strategy[i].axis[a];
            used += (size_t)snprintf(name + used, sizeof name - used, "%s%s%u", a > 0 ? "-" : "",
                                     gal_axis_kind_names[axis->kind], axis->degree);
        }
        (void)fprintf(out, "%s%16s%5u", i % 4 == 0 ? "\n" : "", name, coverage->met[AXES + i]);
    }
    (void)fprintf(out, "\n");
}

static void print_zero(const gal_coverage *coverage, FILE *out)
{
    (void)fprintf(out, "plans by zero stage, P and schedule\n%10s", "");
    for (uint32_t p = 0; p < PP_DEGREES * GAL_SCHEDULE_COUNT; p++) {
        char name[32];
        (void)snprintf(name, sizeof name, " P%u %.6s", 1u << p / GAL_SCHEDULE_COUNT,
                       gal_schedule_names[p % GAL_SCHEDULE_COUNT]);
        (void)fprintf(out, "%10s", name);
    }
    for (uint32_t i = 0; i < ZERO_STAGES * PP_DEGREES * GAL_SCHEDULE_COUNT; i++) {
        if (i % (PP_DEGREES * GAL_SCHEDULE_COUNT) == 0) {
            (void)fprintf(out, "\n%9s%u", "zero", i / (PP_DEGREES * GAL_SCHEDULE_COUNT));
        }
        if (is_legal(ZERO + i)) {
            (void)fprintf(out, "%10u", coverage->met[ZERO + i]);
        } else {
            (void)fprintf(out, "%10s", "-");
        }
    }
    (void)fprintf(out, "\n");
}

void gal_coverage_print(const gal_coverage *coverage, FILE *out)
{
    print_traits(coverage, WITHIN_STAGE, "plans by strategy (row) and that of the next block, same stage", out);
    print_traits(coverage, ACROSS_STAGES, "the same across a stage border", out);
    print_combinations(coverage, out);
    print_axes(coverage, out);
    print_zero(coverage, out);
    (void)fprintf(out, "plans with P > 1 by tied, uneven stages, accumulation\n");
    for (uint32_t i = 0; i < 8; i++) {
        (void)fprintf(out, "  %s, %s, %s: %u\n", i & 4u ? "tied" : "untied", i & 2u ? "uneven" : "even",
                      i & 1u ? "m > 1" : "m = 1", coverage->met[SWITCHES + i]);
    }
    (void)fprintf(out, "plans by dropout and recompute\n");
    for (uint32_t i = 0; i < 4; i++) {
        (void)fprintf(out, "  %s, %s: %u\n", i & 2u ? "dropout" : "no dropout", i & 1u ? "recompute" : "no recompute",
                      coverage->met[DROPOUTS + i]);
    }
    (void)fprintf(out, "plans with\n");
    const uint32_t *met = coverage->met + OTHERS;
    for (uint32_t i = 0; i < OTHERS_COUNT; i++) {
        for (uint32_t c = 0; c < others[i]->count; c++) {
            (void)fprintf(out, "  %s: %u\n", others[i]->name[c], *met++);
        }
    }
    (void)fprintf(out, "legal cells met by fewer than %u plans: %u of %d\n", coverage->wanted_plans,
                  gal_coverage_short(coverage), legal_count());
}
