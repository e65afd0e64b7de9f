/* The index of weights in several files: model.safetensors.index.json, which says in which file each tensor lies.
 *
 *     {"metadata": {"total_size": BYTES}, "weight_map": {"TENSOR": "model-00001-of-00002.safetensors", ...}}
 *
 * The files lie beside the index. total_size is not needed to read them, and writers get it wrong. Source: Hugging
 * Face's huggingface_hub, serialization of sharded models. */
#ifndef GAL_RUNTIME_TRAIN_SAFETENSORS_INDEX_H
#define GAL_RUNTIME_TRAIN_SAFETENSORS_INDEX_H

#include <stdint.h>

#include "schemas/base/json.h"

enum { GAL_SHARD_NAME_BYTES = 256, GAL_SHARDS_MAX = 4096 };

typedef struct gal_safetensors_place {
    const char *tensor; /* in the document */
    uint32_t shard;
} gal_safetensors_place;

typedef struct gal_safetensors_index {
    gal_json_doc *doc;
    uint32_t shard_count, place_count;
    char (*shard)[GAL_SHARD_NAME_BYTES]; /* names of files, in the order of their first tensor */
    gal_safetensors_place *place;        /* in the order of the document */
} gal_safetensors_index;

/* GAL_ERR_DOCUMENT: it is no index, or names a file that is not beside it. Errors of gal_file_read. */
gal_code gal_safetensors_index_read(const char *path, gal_safetensors_index *out, gal_error *err);
void gal_safetensors_index_free(gal_safetensors_index *index);

#endif
