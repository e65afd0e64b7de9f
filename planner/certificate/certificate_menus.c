/* Menus that are kept. Of the tables of a kind of stage a proof asks again and again: under every weight of the first
 * stage's tail, with every effort, for every stage that is tightened; two of five times for one that it had before. */
#include <math.h>
#include <string.h>

#include "planner/certificate/certificate_prices.h"

/* [type][strategy and split]: at most so many. */
void gal_cert_menus_create(gal_cert_prices *v)
{
    const size_t types = v->types.type_count;
    const size_t most = (size_t)v->strategy_count + v->split_count;
    gal_cert_item *item = gal_heap_take_room(&v->heap, types * most, sizeof *item);
    v->room.of = gal_heap_take(&v->heap, types, sizeof *v->room.of);
    v->room.turn = gal_heap_take_room(&v->heap, types * most, sizeof *v->room.turn);
    v->room.least = gal_heap_take_room(&v->heap, types, sizeof *v->room.least);
    v->kept = gal_heap_take(&v->heap, 2 * GAL_CERT_TABLES * (size_t)v->kind_count, sizeof *v->kept);
    for (size_t type = 0; v->heap.code == GAL_OK && type < types; type++) {
        v->room.of[type].item = item + type * most;
    }
}

static size_t count_items(const gal_cert_prices *v)
{
    size_t count = 0;
    for (uint32_t type = 0; type < v->types.type_count; type++) {
        count += v->room.of[type].count;
    }
    return count;
}

/* Where there is not room enough, a little more is taken: under another weight about as many are left. */
static void make_room(gal_cert_prices *v, gal_cert_kept *kept, size_t items)
{
    const size_t types = v->types.type_count;
    gal_cert_menus *own = &kept->menus;
    if (own->of == NULL) {
        own->of = gal_heap_take(&v->heap, types, sizeof *own->of);
        own->least = gal_heap_take_room(&v->heap, types, sizeof *own->least);
    }
    if (v->heap.code == GAL_OK && kept->item_count < items) {
        kept->item_count = items + items / 4;
        own->of[0].item = gal_heap_take_room(&v->heap, kept->item_count, sizeof *own->of[0].item);
    }
    if (v->heap.code == GAL_OK && kept->turn_count < v->room.turn_count) {
        kept->turn_count = v->room.turn_count + v->room.turn_count / 4;
        own->turn = gal_heap_take_room(&v->heap, kept->turn_count, sizeof *own->turn);
    }
}

/* What the room has at hand. */
static void keep(gal_cert_prices *v, gal_cert_kept *kept)
{
    gal_cert_menus *own = &kept->menus;
    kept->known = false;
    make_room(v, kept, count_items(v));
    if (v->heap.code != GAL_OK) {
        return;
    }
    gal_cert_item *item = own->of[0].item;
    for (uint32_t type = 0; type < v->types.type_count; type++) {
        const gal_cert_menu *from = &v->room.of[type];
        own->of[type] = (gal_cert_menu){from->count, item};
        if (from->count > 0) {
            memcpy(item, from->item, from->count * sizeof *item);
            item += from->count;
        }
    }
    memcpy(own->least, v->room.least, v->types.type_count * sizeof *own->least);
    if (v->room.turn_count > 0) {
        memcpy(own->turn, v->room.turn, v->room.turn_count * sizeof *own->turn);
    }
    own->turn_count = v->room.turn_count;
    own->ends_seconds = v->room.ends_seconds;
    kept->known = true;
}

/* A weight counts in what the first stage adds alone. */
void gal_cert_menus_open(gal_cert_prices *v, uint32_t kind, gal_cert_table table, double tail_weight, bool any_class)
{
    const gal_cert_kind *k = &v->kind[kind];
    const double weight = table == GAL_CERT_ADDED && k->stage == 0 ? tail_weight : 0.0;
    gal_cert_kept *kept = &v->kept[((size_t)kind * GAL_CERT_TABLES + table) * 2 + any_class];
    if (!kept->known || kept->tail_weight != weight || kept->changed_count != v->changed_count) {
        gal_cert_menus_fill(v, k, table, weight, any_class, &v->room);
        keep(v, kept);
        kept->tail_weight = weight;
        kept->changed_count = v->changed_count;
    }
    v->menus = kept->known ? kept->menus : v->room;
    v->menus.kind = k;
    v->menus.table = table;
}

gal_cert_choice gal_cert_cheapest(const gal_cert_prices *v, uint32_t type, gal_cert_position at, double rate,
                                  double price, double top)
{
    const gal_cert_menu *menu = &v->menus.of[type];
    gal_cert_choice least = {HUGE_VAL, HUGE_VAL, 0.0};
    for (const gal_cert_item *i = menu->item; i < menu->item + menu->count; i++) {
        if (i->turn_bytes <= top) {
            least = gal_cert_cheaper(least, gal_cert_choice_of(i, at, rate, price));
        }
    }
    return least;
}

gal_cert_choice gal_cert_chain_of_cheapest(const gal_cert_prices *v, const gal_cert_chain *c, double rate, double price,
                                           double top, gal_cert_choice *rest, double *on)
{
    const uint32_t *type_of = v->types.type_of, first = type_of[c->begin], last = type_of[c->end - 1];
    const bool alone = c->begin + 1 == c->end;
    const gal_cert_choice nothing = {0.0, 0.0, 0.0};
    const gal_cert_choice end = alone ? nothing : gal_cert_cheapest(v, last, GAL_CERT_LAST, rate, price, top);
    const gal_cert_choice begin =
        gal_cert_cheapest(v, first, alone ? GAL_CERT_ALONE : GAL_CERT_FIRST, rate, price, top);
    gal_cert_choice inside[GAL_TYPES_MAX], sum = gal_cert_joined(&begin, &end);
    uint32_t count[GAL_TYPES_MAX] = {0};
    for (uint32_t block = c->begin + 1; block + 1 < c->end; block++) {
        count[type_of[block]]++;
    }
    for (uint32_t type = 0; type < v->types.type_count; type++) {
        inside[type] = count[type] > 0 ? gal_cert_cheapest(v, type, GAL_CERT_INSIDE, rate, price, top) : nothing;
        const gal_cert_choice all = {count[type] * inside[type].cost, count[type] * inside[type].seconds,
                                     count[type] * inside[type].bytes};
        sum = count[type] > 0 ? gal_cert_joined(&sum, &all) : sum;
    }
    gal_cert_choice behind = nothing;
    for (uint32_t block = c->end; block-- > c->begin && rest != NULL;) {
        on[block] = behind.cost;
        rest[block] = gal_cert_joined(block + 1 < c->end ? &inside[type_of[block]] : &end, &behind);
        behind = rest[block];
    }
    return sum;
}

/* What a block of the type costs there in the class; class_count: in any. */
static double cost_of(const gal_cert_prices *v, uint32_t class_count, const gal_cert_choice *best, uint32_t at,
                      uint32_t type, uint32_t class)
{
    const gal_cert_choice *own = &best[((size_t)at * v->types.type_count + type) * class_count];
    double least = class < class_count ? own[class].cost : HUGE_VAL;
    for (uint32_t any = 0; any < class_count && class == class_count; any++) {
        least = gal_cert_lesser(least, own[any].cost);
    }
    return least;
}

static uint32_t position_of(uint32_t block, uint32_t begin, uint32_t end)
{
    return (block == begin ? GAL_CERT_FIRST : 0U) + (block + 1 == end ? GAL_CERT_LAST : 0U);
}

double gal_cert_menus_limit(const gal_cert_prices *v, uint32_t class_count, const gal_cert_choice *best, uint32_t begin,
                            uint32_t end, double *before)
{
    double alike = HUGE_VAL, inside[GAL_TYPES_MAX], sum = 0.0;
    uint32_t count[GAL_TYPES_MAX] = {0};
    const uint32_t first = v->types.type_of[begin], last = v->types.type_of[end - 1];
    for (uint32_t block = begin + 1; block + 1 < end; block++) {
        count[v->types.type_of[block]]++;
    }
    for (uint32_t class = 0; class < class_count; class ++) {
        double own = cost_of(v, class_count, best, position_of(begin, begin, end), first, class);
        own += end - begin > 1 ? cost_of(v, class_count, best, GAL_CERT_LAST, last, class) : 0.0;
        for (uint32_t type = 0; type < v->types.type_count; type++) {
            own += count[type] > 0 ? count[type] * cost_of(v, class_count, best, GAL_CERT_INSIDE, type, class) : 0.0;
        }
        alike = gal_cert_lesser(alike, own);
    }
    for (uint32_t type = 0; type < v->types.type_count; type++) {
        inside[type] = cost_of(v, class_count, best, GAL_CERT_INSIDE, type, class_count);
    }
    for (uint32_t block = begin; block < end; block++) {
        const uint32_t at = position_of(block, begin, end), type = v->types.type_of[block];
        before[block] = sum;
        sum += at == GAL_CERT_INSIDE ? inside[type] : cost_of(v, class_count, best, at, type, class_count);
    }
    return alike + 1e-9 * fabs(alike);
}
