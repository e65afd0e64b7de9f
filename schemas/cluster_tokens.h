/* What clusters in words are made of: words, with the units behind numbers. For schemas/cluster_words_read.c alone. */
#ifndef GAL_SCHEMAS_CLUSTER_TOKENS_H
#define GAL_SCHEMAS_CLUSTER_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/base/status.h"
#include "schemas/catalogue/devices.h"

enum { GAL_CLUSTER_TOKENS_MAX = 32, GAL_CLUSTER_TOKEN_BYTES = GAL_PLAIN_BYTES };

typedef struct gal_cluster_token {
    char text[GAL_CLUSTER_TOKEN_BYTES];
    const char *family; /* of a link, whose generation or rate is the next token: "pcie", "4" of "pcie-4"; else NULL */
    bool behind_comma;
} gal_cluster_token;

typedef struct gal_cluster_tokens {
    gal_cluster_token token[GAL_CLUSTER_TOKENS_MAX + 1]; /* an empty one ends them */
    uint32_t count, at;                                  /* at: the next to read */
} gal_cluster_tokens;

/* A number in front of a unit, which is in the same token or the next one. */
typedef struct gal_quantity {
    double count, number; /* > 0; count: "8" of "8x400Gbit", else 1 */
    const char *unit;     /* not empty */
    uint32_t token_count; /* 1 or 2 */
} gal_quantity;

typedef struct gal_said_rate {
    double bytes_per_second; /* 0: none */
    bool in_bits, per_device;
} gal_said_rate;

/* Behind a sign of multiplication and the blanks around it; NULL if there is none at p. */
const char *gal_skip_times(const char *p);
/* Blanks, commas, "=" and ":" stand between tokens. out is zeroed before. GAL_ERR_USAGE if they are too many or long.
 */
gal_code gal_cluster_split(const char *text, gal_cluster_tokens *out, gal_error *err);
/* False: the next token is no number with a unit. */
bool gal_quantity_read(const gal_cluster_tokens *tokens, gal_quantity *out);
/* The bytes of the next token's "40GB" or "40GiB" (schemas/base/size.h); 0: it is a rate, or a prefix alone. */
uint64_t gal_quantity_bytes(const gal_cluster_tokens *tokens, const gal_quantity *q);
/* The rate that comes next, and "per gpu" or "per node" behind it, are read if they are there. */
gal_said_rate gal_cluster_take_rate(gal_cluster_tokens *tokens);

#endif
