/* A model family: what its documents hold beyond the members that all models have, how many parameters that makes, and
 * which blocks. One file per family (family_<name>.c); a row of the table in model.c picks it. For schemas alone. */
#ifndef GAL_SCHEMAS_MODEL_FAMILY_H
#define GAL_SCHEMAS_MODEL_FAMILY_H

#include "schemas/limits.h"
#include "schemas/model.h"

/* What the source calls them, for messages. */
typedef struct gal_model_keys {
    const char *head_count, *kv_head_count;
} gal_model_keys;

typedef struct gal_model_family {
    /* The family's own members of a document. */
    void (*read)(const gal_json_cursor *at, gal_model *out);
    void (*write)(gal_json_writer *out, const gal_model *model);
    /* Reports at the cursor what does not hold between numbers. */
    void (*check)(const gal_json_cursor *at, const gal_model *model, const gal_model_keys *keys);
    uint64_t (*parameter_count)(const gal_model *model);
    uint32_t (*block_count)(const gal_model *model);
    void (*block)(const gal_model *model, uint32_t block, gal_block_shape *out);
    uint32_t (*type_count)(const gal_model *model);
    uint32_t (*first_of_type)(const gal_model *model, uint32_t type); /* a block */
    uint32_t (*loss_positions)(uint32_t positions);                   /* of a sample of so many; NULL: all */
} gal_model_family;

extern const gal_model_family gal_family_decoder, gal_family_llama, gal_family_bert, gal_family_vit, gal_family_t5,
    gal_family_swin;

/* The members that say what images are. */
void gal_family_read_images(const gal_json_cursor *at, gal_model *out);
void gal_family_write_images(gal_json_writer *out, const gal_model *model);
/* Reports a patch that does not divide the image, and tied embeddings; returns whether the patch does. */
bool gal_family_check_images(const gal_json_cursor *at, const gal_model *model);

/* family_swin.c: layers and heads of every level, from two arrays. */
void gal_family_read_levels(const gal_json_cursor *at, const char *layers, const char *heads, gal_model *out);

/* Reports heads that do not divide the hidden size. */
void gal_family_check_heads(const gal_json_cursor *at, const gal_model *model, const gal_model_keys *keys);

/* The chain of most families: embedding, attention and FFN of each layer, head; all of one width and length. */
uint32_t gal_family_chain_count(const gal_model *model);
void gal_family_chain_block(const gal_model *model, uint32_t block, gal_block_shape *out);
uint32_t gal_family_chain_type_count(const gal_model *model);
uint32_t gal_family_chain_first(const gal_model *model, uint32_t type);

#endif
