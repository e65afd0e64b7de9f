#include "runtime/train/shard_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/device/storage.h"
#include "runtime/narrow.h"
#include "runtime/train/weights.h"
#include "schemas/base/fnv.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "checkpoints hold the memory of a little-endian machine"
#endif

enum { CHUNK_BYTES = 1 << 20, WRITTEN_PARTS = 3 };

/* The parts of a unit, in file order. */
static const gal_state_part parts[WRITTEN_PARTS] = {GAL_STATE_WEIGHT, GAL_STATE_FIRST_MOMENT, GAL_STATE_SECOND_MOMENT};

void gal_shard_path(const char *directory, uint32_t rank, char *path)
{
    GAL_ASSERT(snprintf(path, GAL_PATH_BYTES, "%s/rank-%05u.bin", directory, rank) < GAL_PATH_BYTES);
}

bool gal_shard_is_name(const char *name)
{
    static const char beginning[] = "rank-", ending[] = ".bin";
    const size_t digits = strspn(name + (strncmp(name, beginning, 5) == 0 ? 5 : 0), "0123456789");
    return strncmp(name, beginning, 5) == 0 && digits >= 5 && strcmp(name + 5 + digits, ending) == 0;
}

/* Bytes of an element in the file: of every part the same. */
static uint64_t item_bytes(const gal_program *program)
{
    return gal_dtype_bytes(gal_state_dtype(program, GAL_STATE_WEIGHT));
}

static uint64_t zero_count(const gal_program *program, const gal_unit *unit)
{
    return unit->zero_stage > 0 ? gal_group_size(&program->atoms, unit->zero_group) : 1;
}

/* Elements per part that one owner writes. */
static uint64_t written_elements(const gal_program *program, const gal_unit *unit)
{
    return unit->elements / zero_count(program, unit);
}

/* What a device writes of a part: its ZeRO range, also of weights that it holds whole. */
static gal_state_range written_range(const gal_program *program, const gal_unit *unit, uint32_t device,
                                     gal_state_part part)
{
    gal_state_range range = gal_state_range_of(program, unit, device, part);
    const uint64_t count = written_elements(program, unit);
    if (range.count != count) {
        range.first = count * gal_group_index(&program->atoms, unit->zero_group, device);
        range.offset_bytes += range.first * item_bytes(program);
        range.count = count;
    }
    return range;
}

/* Where a unit begins in the file of a device that owns it; unit == unit_count: the file's bytes. */
static uint64_t unit_offset(const gal_program *program, uint32_t unit, uint32_t device)
{
    uint64_t elements = 0;
    for (uint32_t u = 0; u < unit; u++) {
        if (gal_state_owner(program, &program->unit[u], device) == device) {
            elements += WRITTEN_PARTS * written_elements(program, &program->unit[u]);
        }
    }
    return elements * item_bytes(program);
}

static gal_code system_failure(gal_error *err, const char *path)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "%s: %s", path, strerror(errno));
}

/* ---- writing ---- */

static gal_code write_bytes(int descriptor, const char *path, const char *bytes, uint64_t byte_count, gal_error *err)
{
    for (uint64_t done = 0; done < byte_count;) {
        const ssize_t written = write(descriptor, bytes + done, byte_count - done);
        if (written < 0 && errno != EINTR) {
            return system_failure(err, path);
        }
        done += written > 0 ? (uint64_t)written : 0;
    }
    return GAL_OK;
}

static gal_code write_range(int descriptor, const char *path, const gal_checkpoint_state *state,
                            const gal_state_range *range, char *chunk, gal_shard_record *record, gal_error *err)
{
    gal_code code = GAL_OK;
    const uint64_t total = range->count * item_bytes(state->program);
    for (uint64_t done = 0; done < total;) {
        const uint64_t byte_count = total - done < CHUNK_BYTES ? total - done : CHUNK_BYTES;
        state->ops->read(state->memory, range->offset_bytes + done, chunk, byte_count);
        GAL_TRY(write_bytes(descriptor, path, chunk, byte_count, err));
        record->checksum = gal_fnv(record->checksum, chunk, byte_count);
        record->file_bytes += byte_count;
        done += byte_count;
    }
cleanup:
    return code;
}

gal_code gal_shard_write(const char *directory, const gal_checkpoint_state *state, gal_shard_record *record,
                         gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_program *program = state->program;
    char path[GAL_PATH_BYTES];
    gal_shard_record written = {.checksum = GAL_FNV_START};
    char *chunk = malloc(CHUNK_BYTES);
    gal_shard_path(directory, program->stage * program->device_count + state->device, path);
    const int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (descriptor < 0 || chunk == NULL) {
        code = descriptor < 0 ? system_failure(err, path) : gal_fail(err, GAL_ERR_SYSTEM, "out of memory: %s", path);
        goto cleanup;
    }
    for (uint32_t u = 0; u < program->unit_count; u++) {
        const gal_unit *unit = &program->unit[u];
        if (gal_state_owner(program, unit, state->device) != state->device) {
            continue;
        }
        for (uint32_t p = 0; p < WRITTEN_PARTS; p++) {
            const gal_state_range range = written_range(program, unit, state->device, parts[p]);
            GAL_TRY(write_range(descriptor, path, state, &range, chunk, &written, err));
        }
    }
    GAL_TRY(gal_storage_status(state->memory->storage, err));
    if (fsync(descriptor) != 0) {
        code = system_failure(err, path);
        goto cleanup;
    }
    *record = written;
cleanup:
    if (descriptor >= 0 && close(descriptor) != 0 && code == GAL_OK) {
        code = system_failure(err, path);
    }
    free(chunk);
    return code;
}

/* ---- reading ---- */

static gal_code read_bytes(int descriptor, const char *path, uint64_t offset, char *bytes, uint64_t byte_count,
                           gal_error *err)
{
    for (uint64_t done = 0; done < byte_count;) {
        const ssize_t got = pread(descriptor, bytes + done, byte_count - done, (off_t)(offset + done));
        if (got == 0) {
            return gal_fail(err, GAL_ERR_DOCUMENT, "%s: the file ends at byte %llu", path,
                            (unsigned long long)(offset + done));
        }
        if (got < 0 && errno != EINTR) {
            return system_failure(err, path);
        }
        done += got > 0 ? (uint64_t)got : 0;
    }
    return GAL_OK;
}

gal_code gal_shard_check(const char *directory, const gal_checkpoint_state *state, const gal_shard_record *record,
                         gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_program *program = state->program;
    char path[GAL_PATH_BYTES];
    uint64_t checksum = GAL_FNV_START;
    const uint64_t expected_bytes = unit_offset(program, program->unit_count, state->device);
    char *chunk = malloc(CHUNK_BYTES);
    gal_shard_path(directory, program->stage * program->device_count + state->device, path);
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0 || chunk == NULL) {
        code = descriptor < 0 ? system_failure(err, path) : gal_fail(err, GAL_ERR_SYSTEM, "out of memory: %s", path);
        goto cleanup;
    }
    if (record->file_bytes != expected_bytes) {
        code = gal_fail(err, GAL_ERR_DOCUMENT, "%s: the plan makes %llu bytes, the index says %llu", path,
                        (unsigned long long)expected_bytes, (unsigned long long)record->file_bytes);
        goto cleanup;
    }
    for (uint64_t done = 0; done < expected_bytes;) {
        const uint64_t byte_count = expected_bytes - done < CHUNK_BYTES ? expected_bytes - done : CHUNK_BYTES;
        GAL_TRY(read_bytes(descriptor, path, done, chunk, byte_count, err));
        checksum = gal_fnv(checksum, chunk, byte_count);
        done += byte_count;
    }
    struct stat status;
    if (fstat(descriptor, &status) != 0) {
        code = system_failure(err, path);
    } else if ((uint64_t)status.st_size != expected_bytes) {
        code = gal_fail(err, GAL_ERR_DOCUMENT, "%s: the file goes on after byte %llu, the index ends there", path,
                        (unsigned long long)expected_bytes);
    } else if (checksum != record->checksum) {
        code = gal_fail(err, GAL_ERR_DOCUMENT, "%s: the content is damaged: checksum %016llx, the index says %016llx",
                        path, (unsigned long long)checksum, (unsigned long long)record->checksum);
    }
cleanup:
    if (descriptor >= 0) {
        close(descriptor);
    }
    free(chunk);
    return code;
}

/* Elements of a file to the arena, where they are as they are or rounded. In place: the narrower ones come first. */
static void put_elements(const gal_checkpoint_state *state, gal_state_part part, uint64_t offset_bytes, char *chunk,
                         uint64_t elements)
{
    const gal_dtype dtype = gal_state_dtype(state->program, part);
    const bool rounds = dtype != gal_state_dtype(state->program, GAL_STATE_WEIGHT);
    for (uint64_t i = 0; rounds && i < elements; i++) {
        float value;
        memcpy(&value, chunk + i * sizeof value, sizeof value);
        gal_put_real(dtype, chunk, i, (double)value);
    }
    state->ops->write(state->memory, offset_bytes, chunk, elements * gal_dtype_bytes(dtype));
}

/* byte_count bytes at file_offset of a file, to a part at offset_bytes of the arena. */
static gal_code read_piece(const char *path, uint64_t file_offset, uint64_t byte_count,
                           const gal_checkpoint_state *state, gal_state_part part, uint64_t offset_bytes, char *chunk,
                           gal_error *err)
{
    const uint64_t item = item_bytes(state->program), target = gal_dtype_bytes(gal_state_dtype(state->program, part));
    gal_code code = GAL_OK;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
        return system_failure(err, path);
    }
    for (uint64_t done = 0; done < byte_count;) {
        const uint64_t step = byte_count - done < CHUNK_BYTES ? byte_count - done : CHUNK_BYTES;
        GAL_TRY(read_bytes(descriptor, path, file_offset + done, chunk, step, err));
        put_elements(state, part, offset_bytes + done / item * target, chunk, step / item);
        done += step;
    }
cleanup:
    close(descriptor);
    return code;
}

/* The device of this rank's split group whose range is the index-th of the ZeRO group, and that wrote it. */
static uint32_t range_owner(const gal_program *program, const gal_unit *unit, uint32_t device, uint32_t index)
{
    uint32_t owner = gal_state_owner(program, unit, device);
    for (uint32_t a = 0; a < program->atoms.count && unit->zero_stage > 0; a++) {
        if ((unit->zero_group >> a & 1u) != 0) {
            const uint32_t radix = program->atoms.radix[a], stride = program->atoms.stride[a];
            owner = owner - owner / stride % radix * stride + index % radix * stride;
            index /= radix;
        }
    }
    return owner;
}

/* A part of a unit from where the files have part number `stored`. */
static gal_code read_part(const char *directory, const gal_checkpoint_state *state, uint32_t unit_index,
                          gal_state_part part, uint32_t stored, char *chunk, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_program *program = state->program;
    const gal_unit *unit = &program->unit[unit_index];
    const gal_state_range range = gal_state_range_of(program, unit, state->device, part);
    const uint64_t written_bytes = written_elements(program, unit) * item_bytes(program);
    const uint64_t held_bytes = written_elements(program, unit) * gal_dtype_bytes(gal_state_dtype(program, part));
    const uint64_t first_piece = range.first / written_elements(program, unit);
    const uint64_t piece_count = range.count / written_elements(program, unit);
    for (uint64_t i = 0; i < piece_count; i++) {
        char path[GAL_PATH_BYTES];
        const uint32_t owner = range_owner(program, unit, state->device, (uint32_t)(first_piece + i));
        gal_shard_path(directory, program->stage * program->device_count + owner, path);
        GAL_TRY(read_piece(path, unit_offset(program, unit_index, owner) + stored * written_bytes, written_bytes, state,
                           part, range.offset_bytes + i * held_bytes, chunk, err));
    }
cleanup:
    return code;
}

gal_code gal_shard_read(const char *directory, const gal_checkpoint_state *state, gal_error *err)
{
    gal_code code = GAL_OK;
    char *chunk = malloc(CHUNK_BYTES);
    if (chunk == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: checkpoint");
    }
    for (uint32_t u = 0; u < state->program->unit_count; u++) {
        for (uint32_t p = 0; p < WRITTEN_PARTS; p++) {
            GAL_TRY(read_part(directory, state, u, parts[p], p, chunk, err));
        }
        gal_state_part copies[GAL_STATE_COPIES_MAX];
        const uint32_t count = gal_state_copies(&state->program->unit[u], copies);
        for (uint32_t i = 0; i < count; i++) {
            GAL_TRY(read_part(directory, state, u, copies[i], 0, chunk, err));
        }
    }
    GAL_TRY(gal_storage_status(state->memory->storage, err));
cleanup:
    free(chunk);
    return code;
}
