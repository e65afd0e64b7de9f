#include "planner/stages/stage_tables.h"

#include <math.h>
#include <stdlib.h>

#include "planner/stages/stage_rows.h"

static gal_code no_memory(gal_error *err)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
}

bool gal_holds_table(const gal_block_types *types, uint32_t type)
{
    return types->table_shared && (types->shape[type].shared >> GAL_SHARED_TABLE & 1U) != 0;
}

bool gal_stage_tables_may_hold(const gal_screened *s, uint32_t stage, uint32_t type)
{
    const gal_block_types *t = s->types;
    return (type != t->type_of[0] || stage == 0) &&
           (type != t->type_of[t->block_count - 1] || stage + 1 == s->spec.pp_degree);
}

/* ---- conversions ---- */

/* Where the carried tensor passes, the rows keep their layout (planner/cell/cell.h). */
static bool may_convert(const gal_block_shape *to)
{
    return to->carried_in.positions == 0 || to->kind == GAL_BLOCK_CROSS_ATTENTION;
}

static const gal_mix_conversion not_allowed = {HUGE_VAL, 0.0, 0.0};

static gal_mix_conversion *new_row(uint32_t class_count, gal_mix_conversion with)
{
    gal_mix_conversion *row = malloc(class_count * sizeof *row);
    for (uint32_t class = 0; class < class_count && row != NULL; class ++) {
        row[class] = with;
    }
    return row;
}

/* Of a pair and a class, unless it is there. */
static void open_row(gal_stage_tables *t, gal_mix_conversion **row)
{
    if (*row == NULL) {
        *row = new_row(t->class_count, (gal_mix_conversion){.forward_seconds = NAN});
    }
    if (*row == NULL) {
        *row = t->no_row;
        t->code = no_memory(t->err);
    }
}

/* On the stage at hand. */
static gal_mix_conversion price_conversion(void *context, uint32_t pair, uint32_t from_class, uint32_t to_class)
{
    gal_stage_tables *t = context;
    const gal_screened *s = t->s;
    const uint32_t block = s->types->pair_first[pair];
    const gal_block_shape *to = &s->types->shape[s->types->type_of[block]];
    const gal_pair_price *price = NULL;
    const gal_price_query query = {.type = s->types->shape[s->types->type_of[block - 1]].type,
                                   .strategy = &s->strategy[t->stands[from_class]],
                                   .device_count = s->spec.device_count / s->spec.pp_degree,
                                   .stage = t->stage,
                                   .stage_count = s->spec.pp_degree,
                                   .microbatch_samples = s->spec.global_batch_samples / s->spec.microbatch_count,
                                   .prefetch_depth = s->spec.prefetch_depth};
    open_row(t, &t->conversion[(size_t)pair * t->class_count + from_class]);
    if (!may_convert(to)) {
        return not_allowed;
    }
    gal_error reason = {0};
    const gal_code code =
        gal_price_pair(s->spec.cache, &query, to->type, &s->strategy[t->stands[to_class]], &price, &reason);
    if (code != GAL_OK && !gal_is_too_large(code)) {
        t->code = gal_fail(t->err, code, "%s", reason.text);
    }
    return code == GAL_OK ? (gal_mix_conversion){price->forward_seconds, price->backward_seconds, price->sync_seconds}
                          : not_allowed;
}

static double rounds_of(const gal_stage_tables *t, uint32_t stage, gal_stage_table table)
{
    const gal_cell_spec *spec = &t->s->spec;
    return spec->pp_degree == 1 || table == GAL_TABLE_STEP ? spec->microbatch_count
           : table == GAL_TABLE_ROUND                      ? 1.0
           : table == GAL_TABLE_BOTH ? gal_rounds_of_stage(&t->rounds, stage) + t->rounds.slowest / spec->pp_degree
                                     : gal_rounds_of_stage(&t->rounds, stage);
}

/* In a stage; backward hides later tails. */
static gal_mix_rates rates_of(const gal_stage_tables *t, uint32_t stage, gal_stage_table table)
{
    const double rounds = rounds_of(t, stage, table);
    const bool once = table != GAL_TABLE_ROUND || t->s->spec.pp_degree == 1;
    return once ? (gal_mix_rates){rounds, rounds - t->drained[stage], t->exposed[stage]}
                : (gal_mix_rates){rounds, rounds, 0.0};
}

static gal_mix_menu *known_of(const gal_stage_tables *t, uint32_t stage, gal_stage_table table)
{
    return &t->known[((size_t)table * t->s->spec.pp_degree + stage) * t->s->types->type_count];
}

/* Menus of the stage in this table and those behind it. */
static void forget_menus(gal_stage_tables *t, uint32_t stage, gal_stage_table first)
{
    for (gal_stage_table table = first; table < GAL_TABLE_COUNT; table++) {
        gal_mix_menu *known = known_of(t, stage, table);
        for (uint32_t type = 0; type < t->s->types->type_count; type++) {
            free((void *)known[type].item);
            known[type] = (gal_mix_menu){0};
        }
    }
}

void gal_stage_tables_weigh(gal_stage_tables *t, const double *exposed, const double *update)
{
    double behind = 0.0;
    for (uint32_t p = t->s->spec.pp_degree; p-- > 0;) {
        if (t->exposed[p] != exposed[p] || t->update[p] != update[p] || t->drained[p] != behind) {
            t->exposed[p] = exposed[p];
            t->update[p] = update[p];
            t->drained[p] = behind;
            t->weighed[p]++;
            forget_menus(t, p, t->s->spec.pp_degree > 1 ? GAL_TABLE_ADDED : GAL_TABLE_ROUND); /* none are in rounds */
        }
        behind += exposed[p];
    }
}

static void forget_conversions(gal_stage_tables *t)
{
    const size_t count = (size_t)t->s->types->pair_count * t->class_count;
    for (size_t i = 0; i < count; i++) {
        if (t->conversion[i] != t->no_row) {
            free(t->conversion[i]);
        }
        t->conversion[i] = NULL;
    }
}

/* ---- menus ---- */

/* Of what neighbours hide of an item's backward: not in the one with sync; on the only stage update has that
 * (gal_price_once). */
static double not_hidden_share(const gal_stage_tables *t)
{
    return t->s->spec.pp_degree > 1 ? 1.0 - gal_price_hidden_share(t->s->spec.microbatch_count) : 0.0;
}

double gal_stage_tables_seconds(const gal_stage_tables *t, const gal_screened_item *item, uint32_t stage,
                                gal_stage_table table)
{
    const gal_mix_rates rates = rates_of(t, stage, table);
    const bool once = table != GAL_TABLE_ROUND || t->s->spec.pp_degree == 1;
    const double not_hidden =
        not_hidden_share(t) * (item->hidden_before.backward_seconds + item->hidden_behind.backward_seconds);
    return rates.forward * item->forward_seconds + rates.backward * (item->backward_seconds + not_hidden) +
           rates.tail * item->tail_seconds + (once ? t->update[stage] * item->update_seconds : 0.0);
}

/* The embedding where the head holds the table too, else the other holder on a stage of its own. */
static bool pays_reduction(const gal_stage_tables *t, uint32_t type, uint32_t stage)
{
    const gal_block_types *types = t->s->types;
    const bool embedding = type == types->type_of[0];
    const bool with_head = gal_holds_table(types, types->type_of[types->block_count - 1]);
    return gal_holds_table(types, type) && embedding == with_head && (embedding || stage > 0);
}

double gal_stage_tables_reduction(const gal_stage_tables *t, uint32_t type, uint32_t strategy, uint32_t stage)
{
    return pays_reduction(t, type, stage) ? t->table_seconds[strategy] : 0.0;
}

/* What each size that is sent takes from the stage to the next; true: not what it does from the one before. */
static bool find_transfers(gal_stage_tables *t, uint32_t stage)
{
    const gal_cell_spec *spec = &t->s->spec;
    bool changed = false;
    for (uint32_t i = 1; i < t->size_count && stage != t->sent_stage; i++) {
        const gal_price_transfer own = gal_price_transfer_of(spec->durations, spec->device_count / spec->pp_degree,
                                                             stage, spec->pp_degree, t->size[i]);
        changed = changed || own.seconds != t->transfer[i].seconds || own.level != t->transfer[i].level;
        t->transfer[i] = own;
    }
    t->sent_stage = stage;
    return changed;
}

/* To the next stage: the rows, and the carried tensor beside them. */
static void send_items(gal_stage_tables *t, uint32_t type)
{
    const gal_stage_items *items = &t->items[type];
    const gal_durations *durations = t->s->spec.durations;
    for (uint32_t i = 0; i < items->count; i++) {
        const double *share = t->s->item[(size_t)type * t->s->strategy_count + items->strategy[i]].link_share;
        items->number[GAL_ITEM_TRANSFER][i] =
            gal_price_transfer_behind(durations, &t->transfer[items->sent[i]], share) +
            gal_price_transfer_behind(durations, &t->transfer[items->carried[i]], share);
    }
}

/* A stage's transfer is part of every round, and on the way back of the step. */
static gal_item_weights weights_of(const gal_stage_tables *t, uint32_t stage, uint32_t type, gal_stage_table table)
{
    const gal_mix_rates rates = rates_of(t, stage, table);
    const bool once = table != GAL_TABLE_ROUND || t->s->spec.pp_degree == 1;
    return (gal_item_weights){.rates = rates,
                              .update = once ? t->update[stage] : 0.0,
                              .in_flight = gal_screen_in_flight(&t->s->spec, stage),
                              .sent = rates.forward + (table == GAL_TABLE_ROUND ? 0.0 : 1.0),
                              .hidden_share = gal_price_hidden_share(t->s->spec.microbatch_count),
                              .not_hidden_share = not_hidden_share(t),
                              .enters = stage > 0,
                              .leaves = stage + 1 < t->s->spec.pp_degree,
                              .more =
                                  table != GAL_TABLE_ROUND && pays_reduction(t, type, stage) ? t->table_seconds : NULL,
                              .order = table == GAL_TABLE_ROUND ? 0 : 1};
}

/* Whether a holder of the token table may have the strategy. */
static bool may_keep(const gal_stage_tables *t, const bool *allowed, uint32_t strategy)
{
    return t->ways.of[strategy] != GAL_NO_WAY && allowed[t->ways.of[strategy]];
}

/* Returns how many items it has, which may then be written. */
static uint32_t list_menu(gal_stage_tables *t, uint32_t stage, uint32_t type, gal_stage_table table,
                          const bool *allowed)
{
    gal_stage_items *items = &t->items[type];
    gal_item_weights weights = weights_of(t, stage, type, table);
    if (!gal_stage_tables_may_hold(t->s, stage, type)) {
        return 0;
    }
    for (uint32_t i = 0; i < items->count && allowed != NULL; i++) {
        t->may_take[i] = may_keep(t, allowed, items->strategy[i]);
        weights.may_take = t->may_take;
    }
    return gal_stage_items_list(items, &weights, &t->room);
}

/* What was listed before stays known: ties, and looks at other stages, change nothing of it. */
static void fill_menu(gal_stage_tables *t, uint32_t stage, uint32_t type, gal_stage_table table, const bool *allowed)
{
    gal_mix_menu *known = known_of(t, stage, table) + type;
    const bool *own_ways = gal_holds_table(t->s->types, type) ? allowed : NULL;
    if (own_ways == NULL && known->item != NULL) {
        t->menu[type] = *known;
        return;
    }
    const uint32_t count = list_menu(t, stage, type, table, own_ways);
    gal_mix_item *kept = own_ways == NULL ? malloc((count + 1) * sizeof *kept) : NULL;
    gal_mix_item *own = kept == NULL ? t->item + (size_t)type * t->s->strategy_count : kept; /* to be listed anew */
    gal_stage_items_write(&t->items[type], &t->room, count, own);
    t->menu[type] = (gal_mix_menu){count, own};
    *known = kept == NULL ? *known : t->menu[type];
}

/* What the ends of a stage of several blocks take for rows that come and go, and for the gradient that its blocks hand
 * on, at least; rows that are converted behind a border lie as any class has them. */
static void fill_ports(gal_stage_tables *t, uint32_t stage)
{
    const gal_cell_spec *spec = &t->s->spec;
    const uint32_t m = spec->microbatch_count;
    const double two = m < 2 ? m : 2.0;
    const double in_flight = gal_screen_in_flight(spec, stage);
    const double alike = (in_flight < m ? in_flight + 1.0 : m) + two - in_flight;
    double least_rows = HUGE_VAL;
    for (uint32_t class = 0; class < t->class_count; class ++) {
        least_rows = fmin(least_rows, t->rows_bytes[class]);
    }
    for (uint32_t class = 0; class < t->class_count; class ++) {
        const double rows = t->rows_bytes[class];
        t->first_bytes[class] = 2.0 * rows + (stage > 0 ? fmin(alike * rows, 2.0 * two * least_rows) : 0.0);
        t->last_bytes[class] = stage + 1 < spec->pp_degree ? 2.0 * two * rows : 0.0;
    }
}

gal_mix_stage gal_stage_tables_fill(gal_stage_tables *t, uint32_t stage, gal_stage_table table, const bool *allowed)
{
    const gal_block_types *types = t->s->types;
    const uint32_t place = gal_price_place(t->s->spec.durations, t->s->spec.device_count / t->s->spec.pp_degree, stage);
    if (place != t->place) {
        forget_conversions(t);
    }
    t->place = place;
    t->stage = stage;
    if (stage + 1 < t->s->spec.pp_degree && find_transfers(t, stage)) {
        for (uint32_t type = 0; type < types->type_count; type++) {
            send_items(t, type);
        }
    }
    for (uint32_t type = 0; type < types->type_count; type++) {
        fill_menu(t, stage, type, table, allowed);
    }
    for (uint32_t pair = 0; pair < types->pair_count; pair++) {
        const uint32_t block = types->pair_first[pair];
        const bool end = block == 1 || block + 1 == types->block_count;
        const double share = types->pair_repeats[pair] / (end ? 1.0 : t->s->spec.pp_degree);
        const bool held = gal_stage_tables_may_hold(t->s, stage, types->type_of[block - 1]) &&
                          gal_stage_tables_may_hold(t->s, stage, types->type_of[block]);
        t->pair_counts[pair] = held ? share : 0.0;
    }
    fill_ports(t, stage);
    return (gal_mix_stage){.types = types,
                           .class_count = t->class_count,
                           .menu = t->menu,
                           .first_bytes = t->first_bytes,
                           .last_bytes = t->last_bytes,
                           .pair_counts = t->pair_counts,
                           .limit_bytes = (double)t->s->spec.arena_limit_bytes,
                           .begins_chain = stage == 0,
                           .ends_chain = stage + 1 == t->s->spec.pp_degree,
                           .conversion = t->conversion,
                           .rates = rates_of(t, stage, table),
                           .price = price_conversion,
                           .context = t};
}

/* ---- ways to keep the token table ---- */

/* What blocks of the type take at least in each way, on the first stage that may hold them, of all blocks. */
static void price_ways(const gal_stage_tables *t, uint32_t type, double first_price, double last_price, double *least)
{
    const uint32_t stage = gal_stage_tables_may_hold(t->s, 0, type) ? 0 : t->s->spec.pp_degree - 1;
    const double price = stage == 0 ? first_price : last_price;
    for (uint32_t way = 0; way < t->ways.count; way++) {
        least[way] = HUGE_VAL;
    }
    for (uint32_t i = 0; i < t->s->strategy_count; i++) {
        const size_t at = (size_t)type * t->s->strategy_count + i;
        const gal_screened_item *item = &t->s->item[at];
        if (t->s->legal[at] && t->ways.of[i] != GAL_NO_WAY) {
            const double bytes = item->bytes + gal_screen_in_flight(&t->s->spec, stage) * item->saved_bytes;
            const double seconds = gal_stage_tables_seconds(t, item, stage, GAL_TABLE_ADDED) +
                                   gal_stage_tables_reduction(t, type, i, stage);
            least[t->ways.of[i]] = fmin(least[t->ways.of[i]], seconds + price * bytes);
        }
    }
}

uint32_t gal_stage_tables_list_ways(const gal_stage_tables *t, double first_price, double last_price,
                                    gal_priced_way *way, double *least)
{
    const gal_block_types *types = t->s->types;
    const uint32_t count = t->ways.count;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        way[i] = (gal_priced_way){i, {0.0, 0.0}};
    }
    for (uint32_t type = 0; type < types->type_count; type++) {
        if (gal_holds_table(types, type)) {
            price_ways(t, type, first_price, last_price, least);
            for (uint32_t i = 0; i < count; i++) {
                way[i].cost[type == types->type_of[0] ? 0 : 1] += least[i];
            }
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        way[kept] = way[i];
        kept += way[i].cost[0] < HUGE_VAL && way[i].cost[1] < HUGE_VAL;
    }
    return kept;
}

/* ---- create ---- */

static void price_reductions(gal_stage_tables *t)
{
    const gal_cell_spec *spec = &t->s->spec;
    const bool reduced = t->s->types->table_shared && spec->pp_degree > 1;
    for (uint32_t i = 0; i < t->listed_count && reduced; i++) {
        const uint32_t strategy = t->listed[i];
        t->table_seconds[strategy] = gal_price_table_update(spec->model, spec->durations, &t->s->strategy[strategy],
                                                            spec->device_count / spec->pp_degree, spec->pp_degree);
    }
}

/* The number of a size that is sent; there is room. */
static uint32_t number_size(gal_stage_tables *t, uint64_t bytes)
{
    uint32_t i = 0;
    while (i < t->size_count && t->size[i] != bytes) {
        i++;
    }
    if (i == t->size_count) {
        t->size[t->size_count++] = bytes;
    }
    return i;
}

/* What the items of a type send to a next stage. */
static void size_items(gal_stage_tables *t, uint32_t type)
{
    const gal_cell_spec *spec = &t->s->spec;
    const gal_flow carried = t->s->types->shape[type].carried_out;
    gal_stage_items *items = &t->items[type];
    for (uint32_t i = 0; i < items->count; i++) {
        const uint32_t strategy = items->strategy[i];
        const gal_screened_item *own = &t->s->item[(size_t)type * t->s->strategy_count + strategy];
        const uint64_t bytes = carried.positions == 0
                                   ? 0
                                   : gal_price_rows_bytes(spec->model, &t->s->strategy[strategy],
                                                          spec->global_batch_samples / spec->microbatch_count, carried);
        items->sent[i] = number_size(t, own->boundary_bytes);
        items->carried[i] = number_size(t, bytes);
    }
}

/* Of what is kept. */
static gal_code create_items(gal_stage_tables *t)
{
    gal_code code = GAL_OK;
    const uint32_t types = t->s->types->type_count;
    uint32_t most = 0;
    uint32_t all = 0;
    bool crowds = false;
    for (uint32_t type = 0; type < types; type++) {
        GAL_TRY(gal_stage_items_create(&t->s->item[(size_t)type * t->s->strategy_count], t->class,
                                       t->kept + (size_t)type * t->listed_count, t->kept_count[type], &t->items[type],
                                       t->err));
        most = t->kept_count[type] > most ? t->kept_count[type] : most;
        all += t->kept_count[type];
        crowds = crowds || t->items[type].crowds;
    }
    for (uint32_t type = 0; type < types; type++) { /* what gathers is not to stand for what would be hidden behind */
        t->items[type].crowds = crowds;
    }
    GAL_TRY(gal_item_room_create(most, &t->room, t->err));
    t->may_take = malloc(((size_t)most + 1) * sizeof *t->may_take);
    t->size = malloc((2 * (size_t)all + 1) * sizeof *t->size);
    if (t->may_take == NULL || t->size == NULL) {
        GAL_TRY(no_memory(t->err));
    }
    (void)number_size(t, 0);
    for (uint32_t type = 0; type < types && t->s->spec.pp_degree > 1; type++) {
        size_items(t, type);
    }
    t->transfer = calloc(t->size_count, sizeof *t->transfer);
    if (t->transfer == NULL) {
        GAL_TRY(no_memory(t->err));
    }
cleanup:
    return code;
}

gal_code gal_stage_tables_create(const gal_screened *screened, bool one_class, gal_stage_tables *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const size_t types = screened->types->type_count;
    const size_t pairs = screened->types->pair_count;
    gal_stage_tables t = {.s = screened,
                          .err = err,
                          .sent_stage = UINT32_MAX,
                          .class = calloc(3 * (size_t)screened->strategy_count + 1, sizeof *t.class),
                          .item = malloc((types * screened->strategy_count + 1) * sizeof *t.item),
                          .menu = calloc(types, sizeof *t.menu),
                          .known = calloc(GAL_TABLE_COUNT * (size_t)screened->spec.pp_degree * types, sizeof *t.known),
                          .kept_count = calloc(types, sizeof *t.kept_count),
                          .items = calloc(types, sizeof *t.items),
                          .rounds = gal_round_counts_of(screened->spec.schedule, screened->spec.pp_degree,
                                                        screened->spec.microbatch_count),
                          .pair_counts = calloc(pairs + 1, sizeof *t.pair_counts),
                          .table_seconds = calloc((size_t)screened->strategy_count + 1, sizeof *t.table_seconds)};
    if (t.class == NULL || t.item == NULL || t.menu == NULL || t.known == NULL || t.kept_count == NULL ||
        t.items == NULL || t.pair_counts == NULL || t.table_seconds == NULL) {
        GAL_TRY(no_memory(err));
    }
    t.stands = t.class + screened->strategy_count;
    t.listed = t.stands + screened->strategy_count;
    GAL_TRY(gal_stage_rows_number(&t));
    price_reductions(&t);
    if (screened->types->table_shared) {
        GAL_TRY(gal_table_ways_create(screened, &t.ways, err));
    }
    t.rows_bytes = malloc((3 * (size_t)t.class_count + 1) * sizeof *t.rows_bytes);
    t.kept = malloc((types * t.listed_count + 1) * sizeof *t.kept);
    if (t.rows_bytes == NULL || t.kept == NULL) {
        GAL_TRY(no_memory(err));
    }
    t.first_bytes = t.rows_bytes + t.class_count;
    t.last_bytes = t.first_bytes + t.class_count;
    gal_stage_rows_measure(&t);
    gal_stage_rows_keep_best(
        &t); /* in their own classes: joined, hundreds of one would be compared for a few that are beaten */
    if (one_class) {
        gal_stage_rows_join(&t);
    }
    GAL_TRY(create_items(&t));
    t.conversion = calloc(pairs * t.class_count + 1, sizeof *t.conversion);
    t.no_row = new_row(t.class_count + 1, not_allowed);
    if (t.conversion == NULL || t.no_row == NULL) {
        GAL_TRY(no_memory(err));
    }
    *out = t;
    t = (gal_stage_tables){0};
cleanup:
    gal_stage_tables_free(&t);
    return code;
}

void gal_stage_tables_free(gal_stage_tables *tables)
{
    if (tables->known != NULL) {
        for (uint32_t p = 0; p < tables->s->spec.pp_degree; p++) {
            forget_menus(tables, p, GAL_TABLE_ROUND);
        }
    }
    if (tables->conversion != NULL) {
        forget_conversions(tables);
    }
    gal_table_ways_free(&tables->ways);
    free(tables->no_row);
    free(tables->conversion);
    for (uint32_t type = 0; tables->items != NULL && type < tables->s->types->type_count; type++) {
        gal_stage_items_free(&tables->items[type]);
    }
    gal_item_room_free(&tables->room);
    free(tables->items);
    free(tables->transfer);
    free(tables->size);
    free(tables->may_take);
    free(tables->kept);
    free(tables->kept_count);
    free(tables->known);
    free(tables->rows_bytes);
    free(tables->table_seconds);
    free(tables->pair_counts);
    free(tables->menu);
    free(tables->item);
    free(tables->class);
    *tables = (gal_stage_tables){0};
}
