/* A file of TensorBoard events: scalars by tag and step, as TensorBoard's own writers make it.
 *
 * The file is a sequence of records, all numbers little-endian:
 *     uint64 length, uint32 masked CRC-32C of these 8 bytes, the Event (length bytes), uint32 masked CRC-32C of the
 * Event masked(crc) = (crc >> 15 | crc << 17) + 0xa282ead8 An Event is a message in protobuf's wire format: wall_time
 * (1, double), step (2, int64), and one of file_version (3), summary (5: values with tag and simple_value), session_log
 * (7). Source: TensorFlow, tensorflow/core/lib/io/record_writer.cc and tensorflow/core/util/event.proto. */
#ifndef GAL_RUNTIME_TRAIN_EVENTS_FILE_H
#define GAL_RUNTIME_TRAIN_EVENTS_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "schemas/base/status.h"

enum { GAL_EVENTS_PATH_BYTES = 4096, GAL_EVENTS_SCALARS_MAX = 32, GAL_EVENTS_TAG_BYTES = 64 };

typedef struct gal_events_file {
    FILE *file; /* NULL: nothing is written */
    char path[GAL_EVENTS_PATH_BYTES];
    double (*wall_seconds)(void); /* since 1970 */
} gal_events_file;

typedef struct gal_events_scalar {
    const char *tag; /* "train/loss"; shorter than GAL_EVENTS_TAG_BYTES */
    double value;    /* written as a float */
} gal_events_scalar;

/* Make the folder unless it is there, and a new file in it: events.out.tfevents.SECONDS.HOST.PROCESS. TensorBoard reads
 * all such files of a folder as one run, in the order of their names.
 * first_step    the step that comes first; above 1 TensorBoard forgets what older files say of it and of later steps:
 *               the run goes on from a checkpoint, and does these steps again
 * wall_seconds  NULL: the system's clock
 * GAL_ERR_SYSTEM. */
gal_code gal_events_open(gal_events_file *events, const char *folder, uint64_t first_step, double (*wall_seconds)(void),
                         gal_error *err);
/* One event with count scalars, at most GAL_EVENTS_SCALARS_MAX; on disk when it returns. Errors show at the close. */
void gal_events_put(gal_events_file *events, uint64_t step, const gal_events_scalar *scalar, uint32_t count);
/* GAL_ERR_SYSTEM if something could not be written. Accepts one that is not open. */
gal_code gal_events_close(gal_events_file *events, gal_error *err);

#endif
