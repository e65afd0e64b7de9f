/* The peer's files of tests/fixtures/galvatron, imported. Run from the repository root. */
#ifndef GAL_TESTS_SUPPORT_GALVATRON_FILES_H
#define GAL_TESTS_SUPPORT_GALVATRON_FILES_H

#include "schemas/galvatron_plan.h"
#include "schemas/galvatron_profile.h"

#define GAL_PEER_FOLDER "tests/fixtures/galvatron/"

/* llama2-7b, 8 devices, sequence length 2048. */
gal_code gal_peer_llama(gal_galvatron_profile *out, gal_error *err);
/* The profile of its own search test: 28 layers, sequence length 8192. */
gal_code gal_peer_seq8192(gal_galvatron_profile *out, gal_error *err);

/* A row of predicted.tsv. */
typedef struct gal_peer_row {
    char file[128];
    unsigned limit_gb, batch, chunks; /* chunks 0: all divisors of the batch */
    double samples_per_second;
} gal_peer_row;

enum { GAL_PEER_ROWS = 8 };
/* False unless there are so many. */
int gal_peer_rows(gal_peer_row rows[GAL_PEER_ROWS]);
gal_code gal_peer_plan(const char *file, gal_galvatron_plan *out, gal_error *err);

#endif
