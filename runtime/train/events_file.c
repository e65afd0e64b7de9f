#include "runtime/train/events_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    VALUE_BYTES = GAL_EVENTS_TAG_BYTES + 16, /* a tag, a float, and what announces them */
    EVENT_BYTES = GAL_EVENTS_SCALARS_MAX * (VALUE_BYTES + 2) + 64,
    HOST_BYTES = 64
};

/* Numbers of fields in event.proto and summary.proto. */
enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_FILE_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SESSION_LOG = 7 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE_VALUE = 2, SESSION_LOG_STATUS = 1, SESSION_LOG_START = 1 };
enum { WIRE_VARINT = 0, WIRE_64_BITS = 1, WIRE_LENGTH = 2, WIRE_32_BITS = 5 };

/* TensorBoard heeds session logs from this version on. */
static const char file_version[] = "brain.Event:2";

/* ---- protobuf's wire format ---- */

typedef struct message {
    uint8_t bytes[EVENT_BYTES];
    size_t used;
} message;

static void put_little_endian(message *to, uint64_t value, uint32_t byte_count)
{
    GAL_ASSERT(to->used + byte_count <= sizeof to->bytes);
    for (uint32_t i = 0; i < byte_count; i++) {
        to->bytes[to->used++] = (uint8_t)(value >> (8 * i));
    }
}

static void put_varint(message *to, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) {
        put_little_endian(to, (value & 0x7f) | 0x80, 1);
    }
    put_little_endian(to, value, 1);
}

static void put_key(message *to, uint32_t field, uint32_t wire_type)
{
    put_varint(to, field << 3 | wire_type);
}

static void put_bytes(message *to, uint32_t field, const void *bytes, size_t byte_count)
{
    put_key(to, field, WIRE_LENGTH);
    put_varint(to, byte_count);
    GAL_ASSERT(to->used + byte_count <= sizeof to->bytes);
    memcpy(to->bytes + to->used, bytes, byte_count);
    to->used += byte_count;
}

static void put_double(message *to, uint32_t field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(to, field, WIRE_64_BITS);
    put_little_endian(to, bits, sizeof bits);
}

static void put_float(message *to, uint32_t field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_key(to, field, WIRE_32_BITS);
    put_little_endian(to, bits, sizeof bits);
}

static void put_number(message *to, uint32_t field, uint64_t value)
{
    put_key(to, field, WIRE_VARINT);
    put_varint(to, value);
}

/* ---- records ---- */

/* CRC-32C: the polynomial of Castagnoli, bits reversed. */
static uint32_t masked_crc(const uint8_t *bytes, size_t byte_count)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < byte_count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? UINT32_C(0x82f63b78) : 0);
        }
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

static void write_record(gal_events_file *events, const message *event)
{
    message head = {.used = 0}, tail = {.used = 0};
    put_little_endian(&head, event->used, 8);
    put_little_endian(&head, masked_crc(head.bytes, 8), 4);
    put_little_endian(&tail, masked_crc(event->bytes, event->used), 4);
    (void)fwrite(head.bytes, 1, head.used, events->file);
    (void)fwrite(event->bytes, 1, event->used, events->file);
    (void)fwrite(tail.bytes, 1, tail.used, events->file);
    (void)fflush(events->file);
}

static void begin_event(const gal_events_file *events, message *event, uint64_t step)
{
    event->used = 0;
    put_double(event, EVENT_WALL_TIME, events->wall_seconds());
    if (step > 0) { /* as protobuf does: a 0 is left out */
        put_number(event, EVENT_STEP, step);
    }
}

/* ---- the file ---- */

static double system_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void put_head(gal_events_file *events, uint64_t first_step)
{
    message event, status = {.used = 0};
    begin_event(events, &event, 0);
    put_bytes(&event, EVENT_FILE_VERSION, file_version, strlen(file_version));
    write_record(events, &event);
    if (first_step > 1) {
        begin_event(events, &event, first_step);
        put_number(&status, SESSION_LOG_STATUS, SESSION_LOG_START);
        put_bytes(&event, EVENT_SESSION_LOG, status.bytes, status.used);
        write_record(events, &event);
    }
}

gal_code gal_events_open(gal_events_file *events, const char *folder, uint64_t first_step, double (*wall_seconds)(void),
                         gal_error *err)
{
    char host[HOST_BYTES] = "host";
    gal_events_file opened = {.wall_seconds = wall_seconds != NULL ? wall_seconds : system_seconds};
    (void)gethostname(host, sizeof host - 1);
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        return gal_fail(err, GAL_ERR_SYSTEM, "%s: %s", folder, strerror(errno));
    }
    const int length = snprintf(opened.path, sizeof opened.path, "%s/events.out.tfevents.%010llu.%s.%ld", folder,
                                (unsigned long long)opened.wall_seconds(), host, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof opened.path) {
        return gal_fail(err, GAL_ERR_SYSTEM, "%s: %s", folder, strerror(ENAMETOOLONG));
    }
    opened.file = fopen(opened.path, "wxe");
    if (opened.file == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "%s: %s", opened.path, strerror(errno));
    }
    put_head(&opened, first_step);
    *events = opened;
    return GAL_OK;
}

void gal_events_put(gal_events_file *events, uint64_t step, const gal_events_scalar *scalar, uint32_t count)
{
    message event, summary = {.used = 0}, value;
    GAL_ASSERT(count <= GAL_EVENTS_SCALARS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        value.used = 0;
        GAL_ASSERT(strlen(scalar[i].tag) < GAL_EVENTS_TAG_BYTES);
        put_bytes(&value, VALUE_TAG, scalar[i].tag, strlen(scalar[i].tag));
        put_float(&value, VALUE_SIMPLE_VALUE, (float)scalar[i].value);
        put_bytes(&summary, SUMMARY_VALUE, value.bytes, value.used);
    }
    begin_event(events, &event, step);
    put_bytes(&event, EVENT_SUMMARY, summary.bytes, summary.used);
    write_record(events, &event);
}

gal_code gal_events_close(gal_events_file *events, gal_error *err)
{
    if (events->file == NULL) {
        return GAL_OK;
    }
    const int failed = ferror(events->file);
    const int not_closed = fclose(events->file);
    events->file = NULL;
    if (failed != 0 || not_closed != 0) {
        return gal_fail(err, GAL_ERR_SYSTEM, "%s: could not be written whole", events->path);
    }
    return GAL_OK;
}
