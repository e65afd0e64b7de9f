#include "runtime/train/safetensors_set.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/train/text_check.h"

enum { LENGTH_BYTES = 8 };

static const uint64_t header_bytes_max = UINT64_C(100) << 20; /* of the format */
static const char single_name[] = "model.safetensors", index_name[] = "model.safetensors.index.json";
static const char advice[] = "in Python, save_pretrained(FOLDER, safe_serialization=True) writes safetensors";

bool gal_safetensors_read(int descriptor, void *bytes, uint64_t byte_count, uint64_t offset)
{
    for (uint64_t done = 0; done < byte_count;) {
        const ssize_t moved = pread(descriptor, (char *)bytes + done, byte_count - done, (off_t)(offset + done));
        if (moved == 0) {
            errno = EIO; /* the file ends here */
        }
        if (moved <= 0 && errno != EINTR) {
            return false;
        }
        done += moved > 0 ? (uint64_t)moved : 0;
    }
    return true;
}

static gal_code system_error(const char *what, const char *path, gal_error *err)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "cannot %s %s: %s", what, path, strerror(errno));
}

static char *joined(const char *folder, size_t folder_length, const char *name)
{
    const size_t room = folder_length + strlen(name) + 2;
    char *path = malloc(room);
    if (path != NULL) {
        (void)snprintf(path, room, "%.*s%s%s", (int)folder_length, folder, folder_length > 0 ? "/" : "", name);
    }
    return path;
}

/* ---- one file ---- */

static gal_code wrong_length(const gal_safetensors_file *file, uint64_t header_bytes, uint64_t file_bytes,
                             gal_error *err)
{
    uint8_t start[GAL_MAGIC_BYTES];
    const uint64_t count = file_bytes < sizeof start ? file_bytes : sizeof start;
    const char *format =
        gal_safetensors_read(file->descriptor, start, count, 0) ? gal_known_format(start, file_bytes) : NULL;
    if (format != NULL) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "%s: no safetensors file: this is %s; %s", file->path, format, advice);
    }
    return gal_fail(err, GAL_ERR_DOCUMENT, "%s: no safetensors file: a header of %llu bytes, and %llu are there",
                    file->path, (unsigned long long)header_bytes, (unsigned long long)(file_bytes - LENGTH_BYTES));
}

static gal_code read_header(gal_safetensors_file *file, uint64_t file_bytes, gal_error *err)
{
    gal_code code = GAL_OK;
    unsigned char length[LENGTH_BYTES];
    uint64_t header_bytes = 0;
    char *text = NULL;
    if (file_bytes < LENGTH_BYTES || !gal_safetensors_read(file->descriptor, length, sizeof length, 0)) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "%s: no safetensors file: it is shorter than its first %d bytes",
                        file->path, LENGTH_BYTES);
    }
    for (uint32_t i = LENGTH_BYTES; i-- > 0;) {
        header_bytes = header_bytes << 8 | length[i];
    }
    if (header_bytes > header_bytes_max || header_bytes > file_bytes - LENGTH_BYTES) {
        return wrong_length(file, header_bytes, file_bytes, err);
    }
    file->data_begin = LENGTH_BYTES + header_bytes;
    file->data_bytes = file_bytes - file->data_begin;
    text = malloc(header_bytes + 1);
    code = text != NULL ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "out of memory: header of %s", file->path);
    GAL_TRY(code);
    if (!gal_safetensors_read(file->descriptor, text, header_bytes, LENGTH_BYTES)) {
        GAL_TRY(system_error("read", file->path, err));
    }
    GAL_TRY(gal_json_open_text(file->path, text, header_bytes, &file->header, err));
cleanup:
    free(text);
    return code;
}

/* Takes the path, which may be NULL: without memory. */
static gal_code open_file(gal_safetensors_set *set, char *path, gal_error *err)
{
    gal_safetensors_file *file = &set->file[set->file_count++];
    struct stat about;
    *file = (gal_safetensors_file){.path = path, .descriptor = -1};
    if (path == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: names of files");
    }
    file->descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (file->descriptor < 0 || fstat(file->descriptor, &about) != 0) {
        return system_error("open", path, err);
    }
    return read_header(file, S_ISREG(about.st_mode) ? (uint64_t)about.st_size : 0, err);
}

/* ---- all files ---- */

static gal_code allocate_files(gal_safetensors_set *set, uint32_t count, gal_error *err)
{
    set->file = calloc(count, sizeof *set->file);
    return set->file != NULL ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "out of memory: files of %s", set->path);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const gal_safetensors_entry *)a)->name, ((const gal_safetensors_entry *)b)->name);
}

/* The tensors of all headers, sorted. */
static gal_code list_entries(gal_safetensors_set *set, gal_error *err)
{
    gal_code code = GAL_OK;
    size_t room = 1;
    for (uint32_t f = 0; f < set->file_count; f++) {
        const gal_json_cursor root = gal_json_root(set->file[f].header);
        room += gal_json_member_count(&root);
    }
    set->entry = calloc(room, sizeof *set->entry);
    if (set->entry == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: names of %s", set->path);
    }
    for (uint32_t f = 0; f < set->file_count; f++) {
        const gal_json_cursor root = gal_json_root(set->file[f].header);
        gal_json_cursor at = {0};
        while (gal_json_next_member(&root, &at)) {
            if (strcmp(at.key, "__metadata__") != 0) {
                set->entry[set->entry_count++] = (gal_safetensors_entry){at.key, f};
            }
        }
        GAL_TRY(gal_json_status(set->file[f].header, err));
    }
    qsort(set->entry, set->entry_count, sizeof *set->entry, by_name);
    for (uint32_t i = 1; i < set->entry_count; i++) {
        if (by_name(&set->entry[i - 1], &set->entry[i]) == 0) {
            GAL_TRY(gal_fail(err, GAL_ERR_DOCUMENT, "tensor \"%s\" is in two files: %s and %s", set->entry[i].name,
                             set->file[set->entry[i - 1].file].path, set->file[set->entry[i].file].path));
        }
    }
cleanup:
    return code;
}

/* Each tensor of the index is in the file that it names, and files have no others: equal counts then suffice. */
static gal_code compare_index(const gal_safetensors_set *set, const gal_safetensors_index *index, const char *path,
                              gal_error *err)
{
    for (uint32_t i = 0; i < index->place_count; i++) {
        const gal_safetensors_place *place = &index->place[i];
        const gal_safetensors_entry *entry = gal_safetensors_set_find(set, place->tensor);
        if (entry == NULL || entry->file != place->shard) {
            return gal_fail(err, GAL_ERR_DOCUMENT, "%s: the index puts tensor \"%s\" there, and it is not",
                            set->file[place->shard].path, place->tensor);
        }
    }
    for (uint32_t i = 0; i < set->entry_count && set->entry_count != index->place_count; i++) {
        uint32_t p = 0;
        while (p < index->place_count && strcmp(index->place[p].tensor, set->entry[i].name) != 0) {
            p++;
        }
        if (p == index->place_count) {
            return gal_fail(err, GAL_ERR_DOCUMENT, "%s: tensor \"%s\" is not in the index %s",
                            set->file[set->entry[i].file].path, set->entry[i].name, path);
        }
    }
    return GAL_OK;
}

static gal_code open_index(gal_safetensors_set *set, const char *path, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_safetensors_index index = {0};
    const char *slash = strrchr(path, '/');
    const size_t folder_length = slash != NULL ? (size_t)(slash - path) : 0;
    GAL_TRY(gal_safetensors_index_read(path, &index, err));
    GAL_TRY(allocate_files(set, index.shard_count, err));
    for (uint32_t i = 0; i < index.shard_count; i++) {
        GAL_TRY(open_file(
            set, slash == path ? joined("/", 1, index.shard[i]) : joined(path, folder_length, index.shard[i]), err));
    }
    GAL_TRY(list_entries(set, err));
    GAL_TRY(compare_index(set, &index, path, err));
cleanup:
    gal_safetensors_index_free(&index);
    return code;
}

static gal_code open_single(gal_safetensors_set *set, const char *path, gal_error *err)
{
    gal_code code = GAL_OK;
    GAL_TRY(allocate_files(set, 1, err));
    GAL_TRY(open_file(set, strdup(path), err));
    GAL_TRY(list_entries(set, err));
cleanup:
    return code;
}

/* An index is JSON: its first byte is a brace, and it does not have the form of a safetensors file. */
static bool is_index(const char *path)
{
    uint8_t start[GAL_MAGIC_BYTES] = {0};
    struct stat about;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    bool is = descriptor >= 0 && fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0;
    if (is) {
        const uint64_t bytes = (uint64_t)about.st_size, count = bytes < sizeof start ? bytes : sizeof start;
        is = gal_safetensors_read(descriptor, start, count, 0) && start[0] == '{' &&
             gal_known_format(start, bytes) == NULL;
    }
    if (descriptor >= 0) {
        (void)close(descriptor);
    }
    return is;
}

static gal_code open_folder(gal_safetensors_set *set, gal_error *err)
{
    gal_code code = GAL_OK;
    const size_t length = strlen(set->path);
    char *single = joined(set->path, length, single_name), *index = joined(set->path, length, index_name);
    if (single == NULL || index == NULL) {
        GAL_TRY(gal_fail(err, GAL_ERR_SYSTEM, "out of memory: names of files"));
    }
    const bool has_single = access(single, F_OK) == 0, has_index = access(index, F_OK) == 0;
    if (has_single && has_index) {
        GAL_TRY(gal_fail(err, GAL_ERR_DOCUMENT, "%s has %s and %s: give the one that is meant", set->path, single_name,
                         index_name));
    }
    if (!has_single && !has_index) {
        GAL_TRY(gal_fail(err, GAL_ERR_DOCUMENT, "%s has neither %s nor %s; %s", set->path, single_name, index_name,
                         advice));
    }
    GAL_TRY(has_single ? open_single(set, single, err) : open_index(set, index, err));
cleanup:
    free(single);
    free(index);
    return code;
}

gal_code gal_safetensors_set_open(const char *path, gal_safetensors_set *out, gal_error *err)
{
    struct stat about;
    gal_safetensors_set set = {.path = path};
    gal_code code = GAL_OK;
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) {
        code = open_folder(&set, err);
    } else {
        code = is_index(path) ? open_index(&set, path, err) : open_single(&set, path, err);
    }
    if (code != GAL_OK) {
        gal_safetensors_set_close(&set);
        return code;
    }
    *out = set;
    return GAL_OK;
}

void gal_safetensors_set_close(gal_safetensors_set *set)
{
    for (uint32_t i = 0; i < set->file_count; i++) {
        gal_json_close(set->file[i].header);
        if (set->file[i].descriptor >= 0) {
            (void)close(set->file[i].descriptor);
        }
        free(set->file[i].path);
    }
    free(set->file);
    free(set->entry);
    *set = (gal_safetensors_set){0};
}

const gal_safetensors_entry *gal_safetensors_set_find(const gal_safetensors_set *set, const char *name)
{
    const gal_safetensors_entry key = {.name = name};
    return bsearch(&key, set->entry, set->entry_count, sizeof key, by_name);
}
