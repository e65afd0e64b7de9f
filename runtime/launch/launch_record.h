/* What a rank writes to the pipe of the process that ran gal_launch. For launch_rank.c and launch_watch.c. */
#ifndef GAL_RUNTIME_LAUNCH_LAUNCH_RECORD_H
#define GAL_RUNTIME_LAUNCH_LAUNCH_RECORD_H

#include <stdint.h>

/* Names the pipe, as a path below /proc. */
#define GAL_LAUNCH_PIPE_VARIABLE "GALPLAN_LAUNCH_PIPE"
/* Set where the launch ends on a terminal. */
#define GAL_LAUNCH_TERMINAL_VARIABLE "GALPLAN_TERMINAL"

enum { GAL_LAUNCH_TEXT_BYTES = 48, GAL_LAUNCH_MEMBERS_MAX = 256 };

typedef enum gal_launch_event {
    GAL_LAUNCH_STARTED,
    GAL_LAUNCH_BLOCKED,
    GAL_LAUNCH_UNBLOCKED,
    GAL_LAUNCH_FAILED,
    GAL_LAUNCH_DONE
} gal_launch_event;

/* member_count uint32_t follow: the ranks it waits for, the first ones of many; 0: all. After GAL_LAUNCH_FAILED a
 * gal_error follows instead. With these a record is less than PIPE_BUF, so it is written whole or not at all. */
typedef struct gal_launch_record {
    uint32_t event;
    uint32_t rank;
    int32_t process;
    uint32_t member_count;
    char text[GAL_LAUNCH_TEXT_BYTES]; /* what it is blocked in */
} gal_launch_record;

#endif
