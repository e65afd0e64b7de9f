#include "schemas/document_open.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "schemas/catalogue/catalogue.h"

enum { PATH_BYTES = 4096, HINT_BYTES = 1024 };

static const char config_name[] = "config.json";

static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool is_there(const char *path)
{
    struct stat status;
    return strcmp(path, "-") == 0 || stat(path, &status) == 0;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* The config.json of a folder. False if there is none, or its path is too long. */
static bool find_config(const char *folder, char path[PATH_BYTES])
{
    const int length = snprintf(path, PATH_BYTES, "%s%s%s", folder, ends_with(folder, "/") ? "" : "/", config_name);
    return length > 0 && length < PATH_BYTES && is_there(path);
}

/* "owner/name" and no more: an identifier on the Hugging Face hub, or a path of such a form. */
static bool may_be_hub_name(gal_document_kind kind, const char *path)
{
    const char *slash = strchr(path, '/');
    return kind == GAL_DOCUMENT_MODEL && slash != NULL && slash != path && path[0] != '.' && path[0] != '~' &&
           slash[1] != '\0' && strchr(slash + 1, '/') == NULL && !ends_with(path, ".json");
}

/* Where the names of a kind are listed, with a suggestion in front. "" for kinds of which none ship. */
static void write_hint(gal_document_kind kind, const char *word, char hint[HINT_BYTES])
{
    char names[HINT_BYTES - 64], suggestion[HINT_BYTES - 128];
    gal_catalogue_suggest(gal_document_names[kind], word, suggestion, sizeof suggestion);
    if (kind == GAL_DOCUMENT_MODEL || kind == GAL_DOCUMENT_CLUSTER) {
        (void)snprintf(hint, HINT_BYTES, "%s%s'galplan %ss' lists them", suggestion, suggestion[0] == '\0' ? "" : " ",
                       gal_document_names[kind]);
        return;
    }
    gal_catalogue_names(gal_document_names[kind], names, sizeof names);
    (void)snprintf(hint, HINT_BYTES, "%.*s%s(known: %.*s)", HINT_BYTES / 2, suggestion,
                   suggestion[0] == '\0' ? "" : " ", HINT_BYTES / 2 - 16, names);
}

static bool ships(gal_document_kind kind)
{
    char any[2];
    gal_catalogue_names(gal_document_names[kind], any, sizeof any);
    return any[0] != '\0';
}

static gal_code refuse_name(gal_document_kind kind, const char *path, gal_error *err)
{
    char hint[HINT_BYTES];
    if (may_be_hub_name(kind, path)) {
        write_hint(kind, strchr(path, '/') + 1, hint);
        return gal_fail(err, GAL_ERR_USAGE,
                        "%s: no such file or folder; galplan does not ask the Hugging Face hub: download the model's "
                        "config.json and name that file, or name a model that ships with galplan: %s",
                        path, hint);
    }
    if (!ships(kind) || strchr(path, '/') != NULL || ends_with(path, ".json")) {
        return gal_fail(err, GAL_ERR_USAGE, "%s: no such file", path);
    }
    write_hint(kind, path, hint);
    return gal_fail(err, GAL_ERR_USAGE, "%s: no such file, and no %s of that name ships with galplan; %s", path,
                    gal_document_names[kind], hint);
}

static bool is_model_folder(gal_document_kind kind, const char *path)
{
    return kind == GAL_DOCUMENT_MODEL && is_folder(path);
}

/* The file that a path means: itself, or the config.json of a model's folder, whose path is written to config. NULL if
 * there is none. */
static const char *file_of(gal_document_kind kind, const char *path, char config[PATH_BYTES])
{
    if (is_model_folder(kind, path)) {
        return find_config(path, config) ? config : NULL;
    }
    return is_there(path) ? path : NULL;
}

static const char *built_in_text(gal_document_kind kind, const char *path)
{
    return strchr(path, '/') == NULL ? gal_catalogue_find(gal_document_names[kind], path) : NULL;
}

bool gal_document_is_built_in(gal_document_kind kind, const char *path)
{
    char config[PATH_BYTES];
    return file_of(kind, path, config) == NULL && built_in_text(kind, path) != NULL;
}

gal_code gal_document_open(gal_document_kind kind, const char *path, gal_json_doc **out, gal_error *err)
{
    char config[PATH_BYTES];
    const char *file = file_of(kind, path, config), *text = built_in_text(kind, path);
    if (file != NULL) {
        return gal_json_open(file, out, err);
    }
    if (text != NULL) {
        return gal_json_open_text(path, text, strlen(text), out, err);
    }
    if (is_model_folder(kind, path)) {
        return gal_fail(err, GAL_ERR_USAGE,
                        "%s: a folder without %s: name a folder of a Hugging Face model, or a model document", path,
                        config_name);
    }
    return refuse_name(kind, path, err);
}
