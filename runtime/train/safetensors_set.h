/* Weights on disk: one safetensors file, or several with an index. Headers are read, values are not. */
#ifndef GAL_RUNTIME_TRAIN_SAFETENSORS_SET_H
#define GAL_RUNTIME_TRAIN_SAFETENSORS_SET_H

#include "runtime/train/safetensors_index.h"

typedef struct gal_safetensors_file {
    char *path;
    int descriptor;
    uint64_t data_begin, data_bytes; /* behind the header */
    gal_json_doc *header;
} gal_safetensors_file;

typedef struct gal_safetensors_entry {
    const char *name; /* in the header */
    uint32_t file;
} gal_safetensors_entry;

typedef struct gal_safetensors_set {
    const char *path; /* as it was given */
    uint32_t file_count, entry_count;
    gal_safetensors_file *file;
    gal_safetensors_entry *entry; /* by name */
} gal_safetensors_set;

/* path: a safetensors file, an index, or a folder with model.safetensors or model.safetensors.index.json; it outlives
 * the set. GAL_ERR_SYSTEM: a file cannot be read. GAL_ERR_DOCUMENT: a file is of another format or damaged, a folder
 * has neither file or both, or index and files disagree on where a tensor lies. */
gal_code gal_safetensors_set_open(const char *path, gal_safetensors_set *out, gal_error *err);
void gal_safetensors_set_close(gal_safetensors_set *set);

/* NULL: the set has no tensor of that name. */
const gal_safetensors_entry *gal_safetensors_set_find(const gal_safetensors_set *set, const char *name);

/* All bytes at that place of an open file, or false with errno. */
bool gal_safetensors_read(int descriptor, void *bytes, uint64_t byte_count, uint64_t offset);

#endif
