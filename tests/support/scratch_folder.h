/* A folder for the files of a test program, by cmocka's set-up and tear-down of a group. */
#ifndef GAL_TESTS_SUPPORT_SCRATCH_FOLDER_H
#define GAL_TESTS_SUPPORT_SCRATCH_FOLDER_H

enum { GAL_SCRATCH_FOLDER_BYTES = 32 };

/* Its path. */
extern char gal_scratch_folder[GAL_SCRATCH_FOLDER_BYTES];

int gal_scratch_folder_make(void **state);
/* With all that is in it. */
int gal_scratch_folder_remove(void **state);

#endif
