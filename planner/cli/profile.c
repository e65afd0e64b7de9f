#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "planner/cli/profile.h"
#include "schemas/base/status.h"

enum { PATH_BYTES = 4096 };

static const char name[] = "galplan-profile";

int gal_cli_profile(int argc, char **argv)
{
    char path[PATH_BYTES + sizeof name];
    const ssize_t length = readlink("/proc/self/exe", path, PATH_BYTES);
    (void)argc;
    if (length <= 0 || length == PATH_BYTES) {
        (void)fprintf(stderr, "galplan: error: /proc/self/exe: %s\n", length <= 0 ? strerror(errno) : "path too long");
        return GAL_ERR_SYSTEM;
    }
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    memcpy(slash == NULL ? path : slash + 1, name, sizeof name);
    argv[0] = path;
    (void)execv(path, argv);
    (void)fprintf(stderr, "galplan: error: profile needs %s: %s (make builds it where MPI, OpenBLAS and hwloc are)\n",
                  path, strerror(errno));
    return GAL_ERR_SYSTEM;
}
