/* replay FILE|FOLDER...: runs the target once on each file, in order of name, and says how many there were. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "schemas/base/file.h"
#include "tests/fuzz/input.h"

enum { PATH_BYTES = 1024, INPUT_BYTES_MAX = 16 << 20 };

static uint32_t replayed;

static void replay_file(const char *path)
{
    char *text = NULL;
    size_t byte_count = 0;
    gal_error err = {0};
    if (gal_file_read(path, INPUT_BYTES_MAX, &text, &byte_count, &err) != GAL_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    (void)LLVMFuzzerTestOneInput((const uint8_t *)text, byte_count);
    free(text);
    replayed++;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void replay(const char *path)
{
    struct stat status;
    struct dirent **entries = NULL;
    if (stat(path, &status) != 0 || !S_ISDIR(status.st_mode)) {
        replay_file(path);
        return;
    }
    int count = scandir(path, &entries, is_visible, alphasort);
    for (int i = 0; i < count; i++) {
        char name[PATH_BYTES];
        (void)snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        replay_file(name);
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        replay(argv[i]);
    }
    (void)printf("%u inputs\n", replayed);
    return replayed > 0 ? 0 : 1;
}
