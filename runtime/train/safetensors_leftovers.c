#include "runtime/train/safetensors_leftovers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/tensor_names.h"

enum { KEY_BYTES = GAL_PARAMETER_NAME_BYTES + 16, CHUNK_BYTES = 1 << 20, LISTED_NAMES_MAX = 8, LIST_BYTES = 1024 };

const gal_safetensors_entry *gal_safetensors_entry_of(const gal_safetensors_set *set, const char *name)
{
    char key[KEY_BYTES];
    const gal_safetensors_entry *entry = gal_safetensors_set_find(set, name);
    (void)snprintf(key, sizeof key, "transformer.%s", name);
    return entry != NULL ? entry : gal_safetensors_set_find(set, key);
}

/* A tensor that stands under both of its names has one place: the second is left over. */
static bool has_place(const gal_safetensors_set *set, const gal_program *whole, const gal_safetensors_entry *entry)
{
    const char *name = gal_tensor_name_bare(entry->name);
    for (uint32_t i = 0; i < whole->parameter_count; i++) {
        if (strcmp(whole->parameter[i].name, name) == 0) {
            return gal_safetensors_entry_of(set, name) == entry;
        }
    }
    return false;
}

/* ---- second names ---- */

typedef struct extent {
    uint64_t begin, byte_count;
} extent;

static gal_code extent_of(const gal_safetensors_set *set, const gal_safetensors_entry *entry, extent *out,
                          gal_error *err)
{
    const gal_safetensors_file *file = &set->file[entry->file];
    uint32_t count = 0;
    const gal_json_cursor root = gal_json_root(file->header);
    const gal_json_cursor at = gal_json_object(&root, entry->name);
    const gal_json_cursor offsets = gal_json_array(&at, "data_offsets", 2, 2, &count);
    const uint64_t begin = count == 2 ? gal_json_element_u64(&offsets, 0, 0, file->data_bytes) : 0;
    const uint64_t end = count == 2 ? gal_json_element_u64(&offsets, 1, begin, file->data_bytes) : begin;
    *out = (extent){file->data_begin + begin, end - begin};
    return gal_json_status(file->header, err);
}

static gal_code compare_bytes(const gal_safetensors_set *set, const gal_safetensors_entry *const pair[2], bool *same,
                              gal_error *err)
{
    gal_code code = GAL_OK;
    extent at[2];
    char *bytes = malloc(2 * (size_t)CHUNK_BYTES);
    code = bytes != NULL ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "out of memory: weights");
    GAL_TRY(code);
    for (uint32_t i = 0; i < 2; i++) {
        GAL_TRY(extent_of(set, pair[i], &at[i], err));
    }
    *same = at[0].byte_count == at[1].byte_count;
    for (uint64_t done = 0; *same && done < at[0].byte_count; done += CHUNK_BYTES) {
        const uint64_t left = at[0].byte_count - done, count = left < CHUNK_BYTES ? left : CHUNK_BYTES;
        for (uint32_t i = 0; i < 2; i++) {
            const gal_safetensors_file *file = &set->file[pair[i]->file];
            if (!gal_safetensors_read(file->descriptor, bytes + i * (size_t)CHUNK_BYTES, count, at[i].begin + done)) {
                GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "cannot read %s: %s", file->path, strerror(errno)));
            }
        }
        *same = memcmp(bytes, bytes + CHUNK_BYTES, count) == 0;
    }
cleanup:
    free(bytes);
    return code;
}

static gal_code check_twin(const gal_safetensors_set *set, const gal_safetensors_entry *entry, const char *of,
                           gal_error *err)
{
    const gal_safetensors_entry *const pair[2] = {entry, gal_safetensors_entry_of(set, of)};
    bool same = true;
    const gal_code code = pair[1] != NULL ? compare_bytes(set, pair, &same, err) : GAL_OK;
    if (code == GAL_OK && !same) {
        return gal_fail(err, GAL_ERR_DOCUMENT,
                        "%s: the plan's model has one tensor for \"%s\" and \"%s\", and here their values differ: plan "
                        "a model with tied_embeddings false",
                        set->file[entry->file].path, entry->name, pair[1]->name);
    }
    return code;
}

/* ---- all that is left over ---- */

typedef struct leftovers {
    const gal_safetensors_entry *first_own;
    uint32_t own_count, other_count;
    char list[LIST_BYTES]; /* names of the first others */
} leftovers;

/* The names come from a file of others and go to a terminal: control characters become '?'. */
static void note_other(leftovers *found, const char *name)
{
    const size_t used = strlen(found->list);
    if (found->other_count++ < LISTED_NAMES_MAX) {
        (void)snprintf(found->list + used, sizeof found->list - used, "%s%s", used > 0 ? ", " : "", name);
    }
    for (char *c = found->list + used; *c != '\0'; c++) {
        *c = (unsigned char)*c < ' ' || *c == '\x7f' ? '?' : *c;
    }
}

static gal_code note_leftover(const gal_safetensors_set *set, const gal_model *model,
                              const gal_safetensors_entry *entry, leftovers *found, gal_error *err)
{
    const char *twin_of = NULL;
    switch (gal_tensor_name_kind_of(model->family, gal_tensor_name_bare(entry->name), &twin_of)) {
    case GAL_TENSOR_NAME_TWIN:
        return check_twin(set, entry, twin_of, err);
    case GAL_TENSOR_NAME_OWN:
        found->first_own = found->first_own != NULL ? found->first_own : entry;
        found->own_count++;
        return GAL_OK;
    default:
        note_other(found, entry->name);
        return GAL_OK;
    }
}

gal_code gal_safetensors_check_leftovers(const gal_safetensors_set *set, const gal_model *model,
                                         const gal_program *whole, const gal_log *log, gal_error *err)
{
    leftovers found = {0};
    for (uint32_t i = 0; i < set->entry_count; i++) {
        const gal_safetensors_entry *entry = &set->entry[i];
        const gal_code code = has_place(set, whole, entry) ? GAL_OK : note_leftover(set, model, entry, &found, err);
        if (code != GAL_OK) {
            return code;
        }
    }
    if (found.own_count > 0) {
        return gal_fail(err, GAL_ERR_DOCUMENT,
                        "%s: the plan's model (%s, %u layers) has no place for %u of %u tensors, the first is \"%s\": "
                        "plan the model of these weights",
                        set->file[found.first_own->file].path, gal_family_names[model->family], model->layer_count,
                        found.own_count, set->entry_count, found.first_own->name);
    }
    if (found.other_count > 0) {
        gal_log_line(log, GAL_LOG_INFO, "%s: %u tensors have no part in this model and are left out: %s%s", set->path,
                     found.other_count, found.list, found.other_count > LISTED_NAMES_MAX ? ", ..." : "");
    }
    return GAL_OK;
}
