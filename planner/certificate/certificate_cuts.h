/* Cuts of all blocks into stages: the one that adds least of those none of whose stages is so slow. */
#ifndef GALPLAN_CERTIFICATE_CUTS_H
#define GALPLAN_CERTIFICATE_CUTS_H

#include "planner/certificate/certificate_prices.h"

/* Seconds of a chain on the stage. In front of the first stage, and of what gal_cert_like says is another end's, chains
 * that end there and are a block longer each are behind one another. */
typedef const double *gal_cert_known(void *context, uint32_t stage, gal_cert_table of, const gal_cert_chain *chain);

typedef struct gal_cert_cuts {
    const gal_cert_prices *prices; /* likes are numbered */
    gal_round_counts added;        /* how often what tables say that stages add */
    gal_cert_known *known;
    void *context;
    uint32_t *far; /* [kind][begin] no chain from there that ends behind it is of use: set by the caller */
    uint32_t *earliest, *longest; /* [stage] where it may begin; the end; most blocks of it */
    gal_cert_chain *begins;       /* [stage] blocks where it may begin: those before it have a sum; the end */
    double *sum;                  /* [stage][block] least of the stages before */
} gal_cert_cuts;

/* Takes its arrays from the heap, whose code says whether there was room. */
void gal_cert_cuts_create(gal_heap *heap, gal_cert_cuts *cuts);
/* The least sum of a whole cut all of whose stages are less than `most` slow; infinity: there is none. */
double gal_cert_cuts_least(gal_cert_cuts *cuts, double most);
/* The cut of that sum, by stage, where it is less than infinity. */
void gal_cert_cuts_read(const gal_cert_cuts *cuts, double most, gal_cert_chain *cut);

#endif
