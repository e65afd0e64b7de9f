#include "tests/support/scratch_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char gal_scratch_folder[GAL_SCRATCH_FOLDER_BYTES];

int gal_scratch_folder_make(void **state)
{
    static const char template[] = "/tmp/galplan-test-XXXXXX";
    (void)state;
    memcpy(gal_scratch_folder, template, sizeof template);
    return mkdtemp(gal_scratch_folder) == NULL;
}

int gal_scratch_folder_remove(void **state)
{
    char command[GAL_SCRATCH_FOLDER_BYTES + 16];
    (void)state;
    (void)snprintf(command, sizeof command, "rm -r '%s'", gal_scratch_folder);
    return system(command);
}
