#include "costmodel/hidden.h"

#include <math.h>

/* costmodel/hidden.h; _of_one: of an end, a bridge or a merge, which gathers one large piece. */
static const double slowed = 1.2, share = 0.8;
static const double longest = 2.5, longest_of_one = 6.0;
static const double room = 1.2, room_of_one = 3.0;

typedef enum place { INSIDE, FIRST, LAST, SINGLE } place;

static place place_of(const gal_block_shape *shape)
{
    const bool single = shape->kind == GAL_BLOCK_BRIDGE || shape->kind == GAL_BLOCK_MERGE;
    return shape->in.positions == 0 ? FIRST : shape->out.positions == 0 ? LAST : single ? SINGLE : INSIDE;
}

bool gal_hidden_without(const gal_strategy *strategy, gal_strategy *out)
{
    *out = gal_strategy_on_device(strategy);
    out->zero_stage = 1;
    out->shard_unit = GAL_SHARD_MATRIX;
    out->chunk_elements = 0;
    return gal_price_gathers(strategy);
}

static double waits(double seconds, double without_seconds)
{
    return fmax(seconds - slowed * without_seconds, 0.0);
}

/* ---- of a block, by any neighbours ---- */

static double hidden(double waits_seconds, double most_seconds)
{
    return fmin(share * waits_seconds, most_seconds);
}

void gal_hidden_fill(const gal_block_shape *shape, const gal_block_price *without, const gal_block_price *beside,
                     gal_block_price *price)
{
    /* the last backward, with sync, takes no less than what may be hidden is counted of */
    const double backward_seconds = price->backward_seconds + fmin(price->sync_seconds, 0.0);
    const double forward = waits(price->forward_seconds, without->forward_seconds);
    const double backward = waits(backward_seconds, without->backward_seconds);
    const place at = place_of(shape);
    const double most = at == INSIDE ? longest : longest_of_one;
    const double most_forward = most * beside->forward_seconds, most_backward = most * beside->backward_seconds;
    const double half = hidden(0.5 * backward, most_backward);
    gal_pass_seconds *before = &price->hidden_before, *behind = &price->hidden_behind;
    *before = *behind = (gal_pass_seconds){0.0, 0.0};
    switch (at) {
    case FIRST:
        *behind = (gal_pass_seconds){hidden(forward, most_backward), half};
        break;
    case LAST:
        *before = (gal_pass_seconds){hidden(forward, most_forward), hidden(backward, most_forward + most_backward)};
        break;
    case SINGLE:
    case INSIDE:
        *before = (gal_pass_seconds){hidden(forward, most_forward), half};
        *behind = (gal_pass_seconds){0.0, half};
        break;
    }
}

double gal_hidden_floor(double seconds, double without_seconds)
{
    return seconds - share * waits(seconds, without_seconds);
}

/* ---- by one neighbour ---- */

/* Of the outermost links that the block's collectives take the share that a neighbour's leave. */
static double left_share(const gal_block_price *price, const gal_block_price *neighbour)
{
    uint32_t level = 0;
    for (uint32_t i = 0; i < GAL_LINK_LEVELS_MAX; i++) {
        level = price->link_share[i] > 0.0 ? i : level;
    }
    return 1.0 - neighbour->link_share[level];
}

/* What a neighbour has room for of a block's forward and backward; */
static gal_pass_seconds room_of(place block, const gal_block_price *neighbour)
{
    const double forward = neighbour->on_device.forward_seconds, backward = neighbour->on_device.backward_seconds;
    switch (block) {
    case FIRST:
        return (gal_pass_seconds){room_of_one * backward, room_of_one * backward};
    case LAST:
        return (gal_pass_seconds){room_of_one * forward, room_of_one * (forward + backward)};
    case SINGLE:
        return (gal_pass_seconds){room_of_one * forward, room_of_one * backward};
    case INSIDE:
    default:
        return (gal_pass_seconds){room * forward, 0.5 * room * backward};
    }
}

gal_pass_seconds gal_price_hidden(const gal_priced_block *block, const gal_priced_block *neighbour, bool behind)
{
    const gal_pass_seconds *most = behind ? &block->price->hidden_behind : &block->price->hidden_before;
    if (gal_price_gathers(neighbour->strategy)) {
        return (gal_pass_seconds){0.0, 0.0};
    }
    const double left = left_share(block->price, neighbour->price);
    const gal_pass_seconds has = room_of(place_of(block->shape), neighbour->price);
    return (gal_pass_seconds){fmin(most->forward_seconds, left * has.forward_seconds),
                              fmin(most->backward_seconds, left * has.backward_seconds)};
}

gal_pass_seconds gal_price_crowded(const gal_priced_block *from, const gal_priced_block *to)
{
    const gal_pass_seconds first = gal_price_hidden(from, to, true), second = gal_price_hidden(to, from, false);
    return (gal_pass_seconds){from->price->hidden_behind.forward_seconds - first.forward_seconds +
                                  to->price->hidden_before.forward_seconds - second.forward_seconds,
                              from->price->hidden_behind.backward_seconds - first.backward_seconds +
                                  to->price->hidden_before.backward_seconds - second.backward_seconds};
}
