/* The price per byte at which a limit of bytes that is relaxed bounds most.
 *
 * The cheapest choice at a price costs least of all lines seconds + price * bytes: concave in the price. Between a
 * choice that is too large and one that fits, the price at which both cost the same either is the best, or its cheapest
 * choice takes the place of one of them.
 * Source: G. Y. Handler, I. Zang, "A dual algorithm for the constrained shortest path problem", Networks 10, 1980. */
#ifndef GAL_PLANNER_BOUND_SLOPE_H
#define GAL_PLANNER_BOUND_SLOPE_H

typedef struct gal_priced_choice {
    double seconds, bytes;
} gal_priced_choice;

/* The cheapest choice at a price; of equals one of fewest bytes. */
typedef gal_priced_choice gal_choose_at(void *context, double price);

typedef struct gal_slope {
    double price;            /* 0: the limit does not bind. Where nothing fits, the one to what is smallest */
    gal_priced_choice best;  /* at the price: the last that was asked for */
    gal_priced_choice large; /* the two between which the price decides; twice one where the limit does not bind */
    gal_priced_choice small;
} gal_slope;

gal_slope gal_best_slope(gal_choose_at *choose, void *context, double limit_bytes);

#endif
