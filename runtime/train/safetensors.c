#include "runtime/train/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/narrow.h"
#include "runtime/train/checkpoint_folder.h"
#include "runtime/train/safetensors_leftovers.h"
#include "runtime/train/weights.h"

enum { LENGTH_BYTES = 8, CHUNK_ELEMENTS = 1 << 14, SHAPE_BYTES = 96 };

/* ---- what both directions share ---- */

static gal_code system_error(const char *what, const char *path, gal_error *err)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "cannot %s %s: %s", what, path, strerror(errno));
}

/* All bytes at that place, or an error. */
static bool put_bytes(int file, const void *bytes, uint64_t count, uint64_t offset)
{
    for (uint64_t done = 0; done < count;) {
        const ssize_t moved = pwrite(file, (const char *)bytes + done, count - done, (off_t)(offset + done));
        if (moved == 0) {
            errno = EIO;
        }
        if (moved <= 0 && errno != EINTR) {
            return false;
        }
        done += moved > 0 ? (uint64_t)moved : 0;
    }
    return true;
}

/* Elements of one tensor on their way between the arena and the file. */
typedef struct mover {
    const gal_checkpoint_state *state;
    int file;
    bool writes, failed;
    uint64_t begin; /* of the tensor in the file */
    uint32_t file_item_bytes;
    void (*widen)(const void *from, double *to, uint64_t count); /* of the file's elements; reading */
    gal_dtype dtype;                                             /* of the part of the state that is moved */
    double arena[CHUNK_ELEMENTS];                                /* room for elements of any type */
    double value[CHUNK_ELEMENTS];
    char bytes[CHUNK_ELEMENTS * sizeof(double)];
} mover;

static void put_chunk(mover *m, uint64_t global_index, uint64_t offset_bytes, uint64_t count)
{
    const gal_checkpoint_state *s = m->state;
    const uint64_t item = gal_dtype_bytes(m->dtype), bytes = count * item;
    s->ops->read(s->memory, offset_bytes, m->arena, bytes);
    m->failed = m->failed || !put_bytes(m->file, m->arena, bytes, m->begin + global_index * item);
}

static void get_chunk(mover *m, uint64_t global_index, uint64_t offset_bytes, uint64_t count)
{
    const gal_checkpoint_state *s = m->state;
    const uint64_t item = m->file_item_bytes;
    if (m->failed || !gal_safetensors_read(m->file, m->bytes, count * item, m->begin + global_index * item)) {
        m->failed = true;
        return;
    }
    m->widen(m->bytes, m->value, count);
    for (uint64_t i = 0; i < count; i++) {
        gal_put_real(m->dtype, m->arena, i, m->value[i]);
    }
    s->ops->write(s->memory, offset_bytes, m->arena, count * gal_dtype_bytes(m->dtype));
}

static void visit_run(void *context, const gal_tensor_run *run)
{
    mover *m = context;
    const uint64_t item = gal_dtype_bytes(m->dtype);
    for (uint64_t i = 0; i < run->count; i += CHUNK_ELEMENTS) {
        const uint64_t left = run->count - i, count = left < CHUNK_ELEMENTS ? left : CHUNK_ELEMENTS;
        (m->writes ? put_chunk : get_chunk)(m, run->global_index + i, run->offset_bytes + i * item, count);
    }
}

static void move_part(mover *m, const gal_parameter *parameter, gal_state_part part)
{
    m->dtype = gal_state_dtype(m->state->program, part);
    gal_tensor_runs(m->state->program, parameter, m->state->device, part, visit_run, m);
}

/* Masters where there are any; what is read also goes to the copies of the weights. */
static void move_tensor(mover *m, const gal_parameter *parameter)
{
    move_part(m, parameter, GAL_STATE_WEIGHT);
    gal_state_part copies[GAL_STATE_COPIES_MAX];
    const gal_program *program = m->state->program;
    const uint32_t count = gal_state_copies(&program->unit[parameter->unit], copies);
    for (uint32_t i = 0; !m->writes && i < count; i++) {
        move_part(m, parameter, copies[i]);
    }
}

/* ---- writing ---- */

/* All tensors of the model, in its order: those of the program of one device. */
static gal_code lower_whole(const gal_model *model, gal_program **out, gal_error *err)
{
    static const gal_strategy serial;
    const uint32_t count = gal_model_block_count(model);
    gal_block_spec *block = calloc(count, sizeof *block);
    if (block == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: names of the weights");
    }
    for (uint32_t i = 0; i < count; i++) {
        block[i] = gal_block_spec_of(model, i, &serial);
    }
    const gal_stage_spec spec = {.model = model,
                                 .device_count = 1,
                                 .stage_count = 1,
                                 .microbatch_samples = 1,
                                 .microbatch_count = 1,
                                 .schedule = GAL_SCHEDULE_1F1B,
                                 .prefetch_depth = 1,
                                 .block_count = count,
                                 .block = block,
                                 .own_entry = true};
    const gal_code code = gal_lower_spec(&spec, out, err);
    free(block);
    return code;
}

static uint64_t bytes_of(const gal_program *program, const gal_parameter *parameter)
{
    return gal_tensor_elements(parameter) * gal_dtype_bytes(gal_state_dtype(program, GAL_STATE_WEIGHT));
}

static void put_tensor(FILE *out, const gal_program *program, const gal_parameter *p, uint64_t begin)
{
    uint64_t dims[GAL_PUBLIC_DIMS_MAX];
    const uint32_t count = gal_parameter_public_shape(p, dims);
    (void)fprintf(out, ",\n\"%s\": {\"dtype\": \"%s\", \"shape\": [", p->name,
                  program->dtype == GAL_FP64 ? "F64" : "F32");
    for (uint32_t i = 0; i < count; i++) {
        (void)fprintf(out, "%s%llu", i > 0 ? ", " : "", (unsigned long long)dims[i]);
    }
    (void)fprintf(out, "], \"data_offsets\": [%llu, %llu]}", (unsigned long long)begin,
                  (unsigned long long)(begin + bytes_of(program, p)));
}

/* Length and header, padded with blanks so that the data are aligned. The caller frees *text. */
static gal_code make_header(const gal_program *whole, char **text, size_t *byte_count, uint64_t *data_bytes,
                            gal_error *err)
{
    *text = NULL;
    FILE *out = open_memstream(text, byte_count);
    if (out == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: header");
    }
    (void)fprintf(out, "%*s{\"__metadata__\": {\"format\": \"pt\"}", LENGTH_BYTES, "");
    *data_bytes = 0;
    for (uint32_t i = 0; i < whole->parameter_count; i++) {
        put_tensor(out, whole, &whole->parameter[i], *data_bytes);
        *data_bytes += bytes_of(whole, &whole->parameter[i]);
    }
    (void)fputs("}\n", out);
    while (ftell(out) % LENGTH_BYTES != 0) {
        (void)fputc(' ', out);
    }
    if (fclose(out) != 0 || *text == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: header");
    }
    for (uint32_t i = 0; i < LENGTH_BYTES; i++) {
        (*text)[i] = (char)((*byte_count - LENGTH_BYTES) >> 8 * i & 0xFF);
    }
    return GAL_OK;
}

static gal_code create_file(const char *path, const char *header, size_t header_bytes, uint64_t data_bytes,
                            gal_error *err)
{
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0) {
        return system_error("create", path, err);
    }
    gal_code code = GAL_OK;
    if (!put_bytes(file, header, header_bytes, 0) || ftruncate(file, (off_t)(header_bytes + data_bytes)) != 0) {
        code = system_error("write", path, err);
    }
    if (close(file) != 0 && code == GAL_OK) {
        code = system_error("write", path, err);
    }
    return code;
}

/* Of equal copies one is written: that of the first replica, of a tensor with copies that of the first stage. */
static bool is_writer(const gal_checkpoint_state *state, const gal_unit *unit)
{
    return gal_state_owner(state->program, unit, state->device) == state->device &&
           (unit->copies == GAL_GROUP_NONE ||
            state->program->stage == state->program->holders[gal_shared_of_group(unit->copies)].range[0].first);
}

static gal_code write_own(const char *path, const gal_program *whole, uint64_t data_begin,
                          const gal_checkpoint_state *state, gal_error *err)
{
    gal_code code = GAL_OK;
    mover *m = calloc(1, sizeof *m);
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    if (m == NULL || file < 0) {
        GAL_TRY(m == NULL ? gal_fail(err, GAL_ERR_SYSTEM, "out of memory: weights") : system_error("open", path, err));
    }
    *m = (mover){.state = state, .file = file, .writes = true};
    for (uint32_t i = 0; i < state->program->parameter_count; i++) {
        const gal_parameter *own = &state->program->parameter[i];
        m->begin = data_begin;
        uint32_t j = 0;
        for (; strcmp(whole->parameter[j].name, own->name) != 0; j++) {
            m->begin += bytes_of(whole, &whole->parameter[j]);
            GAL_ASSERT(j + 1 < whole->parameter_count);
        }
        if (is_writer(state, &state->program->unit[own->unit])) {
            move_tensor(m, own);
        }
    }
    if (m->failed || fsync(file) != 0) {
        GAL_TRY(system_error("write", path, err));
    }
cleanup:
    if (file >= 0 && close(file) != 0 && code == GAL_OK) {
        code = system_error("write", path, err);
    }
    free(m);
    return code;
}

static gal_code partial_of(const char *path, char partial[GAL_PATH_BYTES], gal_error *err)
{
    const int length = snprintf(partial, GAL_PATH_BYTES, "%s.partial", path);
    return length > 0 && length < GAL_PATH_BYTES ? GAL_OK : gal_fail(err, GAL_ERR_SYSTEM, "%s: too long a path", path);
}

gal_code gal_safetensors_probe(const char *path, const gal_world *world, gal_error *err)
{
    char partial[GAL_PATH_BYTES];
    gal_code code = partial_of(path, partial, err);
    if (code == GAL_OK && gal_world_rank(world) == 0) {
        code = create_file(partial, NULL, 0, 0, err);
        (void)unlink(partial);
    }
    return gal_world_agree(world, code, err);
}

gal_code gal_safetensors_save(const char *path, const gal_checkpoint_state *state, const gal_world *world,
                              gal_error *err)
{
    gal_code code = GAL_OK;
    char partial[GAL_PATH_BYTES];
    char *header = NULL;
    size_t header_bytes = 0;
    uint64_t data_bytes = 0;
    gal_program *whole = NULL;
    const bool first = gal_world_rank(world) == 0;
    code = partial_of(path, partial, err);
    code = code == GAL_OK ? lower_whole(&state->plan->model, &whole, err) : code;
    code = code == GAL_OK ? make_header(whole, &header, &header_bytes, &data_bytes, err) : code;
    if (code == GAL_OK && first) {
        code = create_file(partial, header, header_bytes, data_bytes, err);
    }
    GAL_TRY(gal_world_agree(world, code, err));
    code = write_own(partial, whole, header_bytes, state, err);
    GAL_TRY(gal_world_agree(world, code, err));
    if (first && rename(partial, path) != 0) {
        code = system_error("write", path, err);
    }
    GAL_TRY(gal_world_agree(world, code, err));
cleanup:
    if (code != GAL_OK && first) {
        (void)unlink(partial);
    }
    gal_program_free(whole);
    free(header);
    return code;
}

/* ---- reading ---- */

static void widen_f64(const void *from, double *to, uint64_t count)
{
    memcpy(to, from, count * sizeof *to);
}

static void widen_f32(const void *from, double *to, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        float value;
        memcpy(&value, (const char *)from + i * sizeof value, sizeof value);
        to[i] = (double)value;
    }
}

static double float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static void widen_bf16(const void *from, double *to, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, (const char *)from + i * sizeof bits, sizeof bits);
        to[i] = float_of_bits((uint32_t)bits << 16);
    }
}

/* IEEE binary16: subnormals are multiples of 2^-24. */
static void widen_f16(const void *from, double *to, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, (const char *)from + i * sizeof bits, sizeof bits);
        const uint32_t exponent = bits >> 10 & 31U, fraction = bits & 1023U, sign = (uint32_t)(bits >> 15) << 31;
        if (exponent == 0) {
            to[i] = (sign != 0 ? -0x1p-24 : 0x1p-24) * (double)fraction;
        } else {
            const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
            to[i] = float_of_bits(sign | wide << 23 | fraction << 13);
        }
    }
}

static const char *const dtype_names[] = {"F64", "F32", "F16", "BF16"};
static const struct element {
    uint32_t bytes;
    void (*widen)(const void *from, double *to, uint64_t count);
} elements_of[] = {{8, widen_f64}, {4, widen_f32}, {2, widen_f16}, {2, widen_bf16}};

static void print_shape(const uint64_t *dims, uint32_t count, char text[SHAPE_BYTES])
{
    int used = 0;
    for (uint32_t i = 0; i < count; i++) {
        used += snprintf(text + used, (size_t)(SHAPE_BYTES - used), "%s%llu", i > 0 ? ", " : "",
                         (unsigned long long)dims[i]);
    }
}

/* Where a tensor lies and how; errors are kept in the header's document. */
static void read_entry(const gal_safetensors_file *from, const char *key, const gal_parameter *p, mover *m)
{
    uint32_t count = 0;
    const uint64_t elements = gal_tensor_elements(p);
    uint64_t wanted[GAL_PUBLIC_DIMS_MAX];
    const uint32_t wanted_count = gal_parameter_public_shape(p, wanted);
    const gal_json_cursor root = gal_json_root(from->header);
    const gal_json_cursor at = gal_json_object(&root, key);
    const struct element *element = &elements_of[gal_json_enum(&at, "dtype", dtype_names, 4)];
    const gal_json_cursor shape = gal_json_array(&at, "shape", 0, 8, &count);
    bool same = count == wanted_count;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t size = gal_json_element_u64(&shape, i, 0, UINT64_C(1) << 53);
        same = same && size == wanted[i];
    }
    if (!same) {
        char text[SHAPE_BYTES];
        print_shape(wanted, wanted_count, text);
        gal_json_error(&shape, "the plan's model has [%s] here", text);
    }
    const gal_json_cursor offsets = gal_json_array(&at, "data_offsets", 2, 2, &count);
    const uint64_t begin = count == 2 ? gal_json_element_u64(&offsets, 0, 0, from->data_bytes) : 0;
    const uint64_t end = count == 2 ? gal_json_element_u64(&offsets, 1, 0, from->data_bytes) : 0;
    if (end - begin != elements * element->bytes) {
        gal_json_error(&offsets, "must be %llu bytes apart", (unsigned long long)(elements * element->bytes));
    }
    m->file = from->descriptor;
    m->begin = from->data_begin + begin;
    m->file_item_bytes = element->bytes;
    m->widen = element->widen;
}

static gal_code read_own(const gal_safetensors_set *set, const gal_checkpoint_state *state, gal_error *err)
{
    gal_code code = GAL_OK;
    mover *m = calloc(1, sizeof *m);
    if (m == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: weights");
    }
    *m = (mover){.state = state};
    for (uint32_t i = 0; i < state->program->parameter_count; i++) {
        const gal_parameter *p = &state->program->parameter[i];
        const gal_safetensors_entry *entry = gal_safetensors_entry_of(set, p->name);
        if (entry == NULL) {
            GAL_TRY(gal_fail(err, GAL_ERR_DOCUMENT, "%s: there is no tensor \"%s\"", set->path, p->name));
        }
        const gal_safetensors_file *file = &set->file[entry->file];
        read_entry(file, entry->name, p, m);
        GAL_TRY(gal_json_status(file->header, err));
        move_tensor(m, p);
        if (m->failed) {
            GAL_TRY(system_error("read", file->path, err));
        }
    }
cleanup:
    free(m);
    return code;
}

/* Every rank has the same headers, so one looks for all. */
static gal_code check_names(const gal_safetensors_set *set, const gal_checkpoint_state *state, const gal_log *log,
                            gal_error *err)
{
    gal_program *whole = NULL;
    gal_code code = lower_whole(&state->plan->model, &whole, err);
    code = code == GAL_OK ? gal_safetensors_check_leftovers(set, &state->plan->model, whole, log, err) : code;
    gal_program_free(whole);
    return code;
}

gal_code gal_safetensors_load(const char *path, const gal_checkpoint_state *state, const gal_world *world,
                              const gal_log *log, gal_error *err)
{
    gal_safetensors_set set = {0};
    gal_code code = gal_safetensors_set_open(path, &set, err);
    if (code == GAL_OK && gal_world_rank(world) == 0) {
        code = check_names(&set, state, log, err);
    }
    GAL_TRY(gal_world_agree(world, code, err));
    GAL_TRY(gal_world_agree(world, read_own(&set, state, err), err));
cleanup:
    gal_safetensors_set_close(&set);
    return code;
}
