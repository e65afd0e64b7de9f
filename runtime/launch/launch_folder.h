/* A folder of a launch's own for Open MPI's shared memory and session files, so that nothing of them is left when the
 * launcher was killed and cannot clean up itself. */
#ifndef GAL_RUNTIME_LAUNCH_LAUNCH_FOLDER_H
#define GAL_RUNTIME_LAUNCH_LAUNCH_FOLDER_H

enum { GAL_LAUNCH_FOLDER_BYTES = 64 };

/* Makes /dev/shm/galrun-PROCESS-XXXXXX, which only this user may enter, and removes those whose process is gone. path
 * is "" where it cannot be made: Open MPI then takes the places that it takes by itself. */
void gal_launch_folder_make(char path[GAL_LAUNCH_FOLDER_BYTES]);
/* Removes it with everything in it. Accepts "". */
void gal_launch_folder_remove(const char *path);

#endif
