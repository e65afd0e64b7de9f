#include "runtime/train/checkpoint_prune.h"

#include <dirent.h>
#include <string.h>

#include "runtime/train/checkpoint_folder.h"
#include "runtime/train/checkpoint_index.h"

static bool is_own_file(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, "index.json") == 0 ||
           gal_shard_is_name(name);
}

/* Whether a checkpoint holds galrun's files and nothing else. */
static bool holds_own_files(const char *path)
{
    bool own = true;
    const struct dirent *entry;
    DIR *opened = opendir(path);
    while (opened != NULL && own && (entry = readdir(opened)) != NULL) {
        own = is_own_file(entry->d_name);
    }
    if (opened != NULL) {
        closedir(opened);
    }
    return own;
}

/* Whether the checkpoint is one that the run may remove. */
static bool is_own(const char *directory, uint64_t step, const char run[GAL_HASH_BYTES], const gal_log *log)
{
    char name[GAL_CHECKPOINT_NAME_BYTES], path[GAL_PATH_BYTES], found[GAL_HASH_BYTES];
    gal_checkpoint_step_name(step, name);
    if (gal_checkpoint_join(directory, name, path, NULL) != GAL_OK || !gal_checkpoint_run_of(path, found) ||
        strcmp(found, run) != 0) {
        return false;
    }
    if (!holds_own_files(path)) {
        gal_log_line(log, GAL_LOG_WARN, "%s stays: it holds files that galrun did not write", path);
        return false;
    }
    return true;
}

void gal_checkpoint_prune(const char *directory, const char run[GAL_HASH_BYTES], uint64_t newest, uint32_t keep,
                          const gal_log *log)
{
    uint64_t step = UINT64_MAX;
    uint32_t kept = 1; /* the newest */
    while (keep > 0 && gal_checkpoint_next_older(directory, step, &step)) {
        gal_error cause = {0};
        if (step == newest || !is_own(directory, step, run, log)) {
            continue;
        }
        if (kept < keep) {
            kept++;
        } else if (gal_checkpoint_retire(directory, step, &cause) != GAL_OK) {
            gal_log_line(log, GAL_LOG_WARN, "an old checkpoint stays: %s", cause.text);
        }
    }
}
