#include "runtime/train/safetensors_index.h"

#include <stdlib.h>
#include <string.h>

/* Tensors of one file mostly follow one another, so the search begins with the newest. */
static uint32_t shard_of(gal_safetensors_index *index, const gal_json_cursor *at, const char *name)
{
    for (uint32_t i = index->shard_count; i-- > 0;) {
        if (strcmp(index->shard[i], name) == 0) {
            return i;
        }
    }
    if (index->shard_count == GAL_SHARDS_MAX) {
        gal_json_error(at, "an index may name at most %d files", GAL_SHARDS_MAX);
        return 0;
    }
    memcpy(index->shard[index->shard_count], name, GAL_SHARD_NAME_BYTES);
    return index->shard_count++;
}

static void read_places(gal_safetensors_index *index, const gal_json_cursor *map)
{
    gal_json_cursor at = {0};
    while (gal_json_next_member(map, &at)) {
        char name[GAL_SHARD_NAME_BYTES] = "";
        gal_json_text(&at, name, sizeof name);
        if (name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL) {
            gal_json_error(&at, "must be the name of a file beside the index");
        }
        index->place[index->place_count++] = (gal_safetensors_place){at.key, shard_of(index, &at, name)};
    }
}

gal_code gal_safetensors_index_read(const char *path, gal_safetensors_index *out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_safetensors_index index = {0};
    GAL_TRY(gal_json_open(path, &index.doc, err));
    const gal_json_cursor root = gal_json_root(index.doc);
    if (gal_json_has(&root, "metadata")) {
        const gal_json_cursor metadata = gal_json_object(&root, "metadata");
        gal_json_accept_unknown(&metadata);
    }
    const gal_json_cursor map = gal_json_object(&root, "weight_map");
    const uint32_t count = gal_json_member_count(&map);
    index.place = calloc((size_t)count + 1, sizeof *index.place);
    index.shard = calloc(GAL_SHARDS_MAX, sizeof *index.shard);
    if (index.place == NULL || index.shard == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory: %s", path));
    }
    if (count == 0) {
        gal_json_error(&map, "must name at least one tensor");
    }
    read_places(&index, &map);
    gal_json_reject_unknown(&root);
    GAL_TRY(gal_json_status(index.doc, err));
    *out = index;
    index = (gal_safetensors_index){0};
cleanup:
    gal_safetensors_index_free(&index);
    return code;
}

void gal_safetensors_index_free(gal_safetensors_index *index)
{
    free(index->place);
    free(index->shard);
    gal_json_close(index->doc);
    *index = (gal_safetensors_index){0};
}
