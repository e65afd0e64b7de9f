#include "runtime/train/weights.h"

#include <math.h>

#include "runtime/narrow.h"
#include "runtime/ops/ops.h"

enum { CHUNK_ELEMENTS = 1024 };

static uint32_t buffer_of(const gal_unit *unit, gal_state_part part)
{
    switch (part) {
    case GAL_STATE_FIRST_MOMENT:
        return unit->first_moment;
    case GAL_STATE_SECOND_MOMENT:
        return unit->second_moment;
    case GAL_STATE_GRADIENT:
        return unit->gradient;
    case GAL_STATE_ROUNDED:
        return unit->weight;
    case GAL_STATE_HOST:
        return unit->host_weight;
    default:
        return unit->master != GAL_NO_BUFFER ? unit->master : unit->weight;
    }
}

gal_dtype gal_state_dtype(const gal_program *program, gal_state_part part)
{
    return part == GAL_STATE_ROUNDED || part == GAL_STATE_HOST ? program->dtype : gal_dtype_wide(program->dtype);
}

uint32_t gal_state_copies(const gal_unit *unit, gal_state_part out[GAL_STATE_COPIES_MAX])
{
    uint32_t count = 0;
    if (unit->master != GAL_NO_BUFFER) {
        out[count++] = GAL_STATE_ROUNDED;
    }
    if (unit->host_weight != GAL_NO_BUFFER && !gal_unit_is_fetched(unit)) {
        out[count++] = GAL_STATE_HOST;
    }
    return count;
}

gal_state_range gal_state_range_of(const gal_program *program, const gal_unit *unit, uint32_t device,
                                   gal_state_part part)
{
    const uint32_t index = buffer_of(unit, part);
    const gal_buffer *buffer = &program->buffer[index];
    const uint64_t element_bytes = gal_dtype_bytes(gal_state_dtype(program, part));
    const uint64_t held = buffer->bytes / element_bytes;
    gal_state_range range = {.count = unit->elements,
                             .offset_bytes = program->arena[buffer->class].offset + buffer->offset};
    if (unit->zero_stage == 3 || (unit->zero_stage > 0 && index != unit->weight)) {
        range.count = unit->elements / gal_group_size(&program->atoms, unit->zero_group);
        range.first = range.count * gal_group_index(&program->atoms, unit->zero_group, device);
        if (held == unit->elements) { /* the range of a whole buffer */
            range.offset_bytes += range.first * element_bytes;
        }
    }
    GAL_ASSERT(held == unit->elements || held == range.count);
    return range;
}

uint32_t gal_state_owner(const gal_program *program, const gal_unit *unit, uint32_t device)
{
    const gal_group kept = unit->split_group | unit->zero_group;
    uint32_t owner = 0;
    for (uint32_t a = 0; a < program->atoms.count; a++) {
        if ((kept >> a & 1u) != 0) {
            const uint32_t digit = device / program->atoms.stride[a] % program->atoms.radix[a];
            owner += digit * program->atoms.stride[a];
        }
    }
    return owner;
}

uint64_t gal_tensor_elements(const gal_parameter *parameter)
{
    return parameter->outer * parameter->split_used * parameter->inner;
}

/* This device's part of a dimension. */
typedef struct extent {
    uint64_t first, count;
} extent;

static extent extent_of(const gal_program *program, uint64_t whole, gal_group group, uint32_t device)
{
    const uint64_t count = whole / gal_group_size(&program->atoms, group);
    return (extent){count * gal_group_index(&program->atoms, group, device), count};
}

/* What is visited: elements of the unit that the device keeps. */
typedef struct visited {
    gal_state_range range;
    uint64_t element_bytes;
    gal_tensor_run_visit visit;
    void *context;
} visited;

/* Elements [begin, begin + count) of the unit, consecutive in the tensor from global_index on. */
static void visit_run(const visited *v, uint64_t begin, uint64_t count, uint64_t global_index)
{
    const gal_state_range *range = &v->range;
    const uint64_t end = begin + count;
    const uint64_t from = begin > range->first ? begin : range->first;
    const uint64_t to = end < range->first + range->count ? end : range->first + range->count;
    if (from < to) {
        const gal_tensor_run run = {.global_index = global_index + (from - begin),
                                    .count = to - from,
                                    .offset_bytes = range->offset_bytes + (from - range->first) * v->element_bytes};
        v->visit(v->context, &run);
    }
}

void gal_tensor_runs(const gal_program *program, const gal_parameter *parameter, uint32_t device, gal_state_part part,
                     gal_tensor_run_visit visit, void *context)
{
    const gal_unit *unit = &program->unit[parameter->unit];
    const visited v = {.range = gal_state_range_of(program, unit, device, part),
                       .element_bytes = gal_dtype_bytes(gal_state_dtype(program, part)),
                       .visit = visit,
                       .context = context};
    const extent outer = extent_of(program, parameter->outer, parameter->outer_group, device);
    const extent rows = extent_of(program, parameter->split, parameter->split_group, device);
    const extent inner = extent_of(program, parameter->inner, parameter->inner_group, device);
    uint64_t used_rows = parameter->split_used > rows.first ? parameter->split_used - rows.first : 0;
    used_rows = used_rows < rows.count ? used_rows : rows.count;
    /* rows that are whole follow one another */
    const uint64_t joined = inner.count == parameter->inner ? used_rows : 1;
    for (uint64_t o = 0; o < outer.count; o++) {
        for (uint64_t r = 0; r < used_rows; r += joined) {
            const uint64_t begin = parameter->offset_elements + (o * rows.count + r) * inner.count;
            const uint64_t row = (outer.first + o) * parameter->split_used + rows.first + r;
            visit_run(&v, begin, joined * inner.count, row * parameter->inner + inner.first);
        }
    }
}

/* ---- visits ---- */

typedef struct copy {
    const gal_device_ops *ops;
    const gal_memory *memory;
    gal_dtype dtype;
    double *target;       /* global tensor, when reading */
    const double *source; /* global tensor, when writing */
    uint64_t seed;        /* when drawing */
    uint32_t tensor;
    double scale;
} copy;

static uint64_t chunk_of(uint64_t left)
{
    return left < CHUNK_ELEMENTS ? left : CHUNK_ELEMENTS;
}

static void put(const copy *c, uint64_t offset_bytes, const double *values, uint64_t count)
{
    double room[CHUNK_ELEMENTS];
    for (uint64_t i = 0; i < count; i++) {
        gal_put_real(c->dtype, room, i, values[i]);
    }
    c->ops->write(c->memory, offset_bytes, room, count * gal_dtype_bytes(c->dtype));
}

static void get(const copy *c, uint64_t offset_bytes, double *values, uint64_t count)
{
    double room[CHUNK_ELEMENTS];
    c->ops->read(c->memory, offset_bytes, room, count * gal_dtype_bytes(c->dtype));
    for (uint64_t i = 0; i < count; i++) {
        values[i] = gal_get_real(c->dtype, room, i);
    }
}

static void visit_read(void *context, const gal_tensor_run *run)
{
    const copy *c = context;
    const uint64_t element_bytes = gal_dtype_bytes(c->dtype);
    for (uint64_t i = 0; i < run->count; i += CHUNK_ELEMENTS) {
        get(c, run->offset_bytes + i * element_bytes, c->target + run->global_index + i, chunk_of(run->count - i));
    }
}

static void visit_write(void *context, const gal_tensor_run *run)
{
    const copy *c = context;
    const uint64_t element_bytes = gal_dtype_bytes(c->dtype);
    for (uint64_t i = 0; i < run->count; i += CHUNK_ELEMENTS) {
        put(c, run->offset_bytes + i * element_bytes, c->source + run->global_index + i, chunk_of(run->count - i));
    }
}

static void visit_one(void *context, const gal_tensor_run *run)
{
    const copy *c = context;
    double ones[CHUNK_ELEMENTS];
    for (uint64_t i = 0; i < CHUNK_ELEMENTS; i++) {
        ones[i] = 1.0;
    }
    for (uint64_t i = 0; i < run->count; i += CHUNK_ELEMENTS) {
        put(c, run->offset_bytes + i * gal_dtype_bytes(c->dtype), ones, chunk_of(run->count - i));
    }
}

static void visit_normal(void *context, const gal_tensor_run *run)
{
    const copy *c = context;
    double values[CHUNK_ELEMENTS];
    for (uint64_t i = 0; i < run->count; i += CHUNK_ELEMENTS) {
        const uint64_t count = chunk_of(run->count - i);
        for (uint64_t j = 0; j < count; j++) {
            values[j] = c->scale * gal_initial_normal(c->seed, c->tensor, run->global_index + i + j);
        }
        put(c, run->offset_bytes + i * gal_dtype_bytes(c->dtype), values, count);
    }
}

void gal_tensor_read(const gal_program *program, const gal_parameter *parameter, uint32_t device, gal_state_part part,
                     const gal_device_ops *ops, const gal_memory *memory, double *global)
{
    copy c = {.ops = ops, .memory = memory, .dtype = gal_state_dtype(program, part), .target = global};
    gal_tensor_runs(program, parameter, device, part, visit_read, &c);
}

/* To a part; of weights also to their copies. */
static void write_part(const gal_program *program, const gal_parameter *parameter, uint32_t device, gal_state_part part,
                       gal_tensor_run_visit visit, copy *c)
{
    c->dtype = gal_state_dtype(program, part);
    gal_tensor_runs(program, parameter, device, part, visit, c);
    gal_state_part copies[GAL_STATE_COPIES_MAX];
    const uint32_t count = gal_state_copies(&program->unit[parameter->unit], copies);
    for (uint32_t i = 0; part == GAL_STATE_WEIGHT && i < count; i++) {
        c->dtype = gal_state_dtype(program, copies[i]);
        gal_tensor_runs(program, parameter, device, copies[i], visit, c);
    }
}

void gal_tensor_write(const gal_program *program, const gal_parameter *parameter, uint32_t device, gal_state_part part,
                      const gal_device_ops *ops, const gal_memory *memory, const double *global)
{
    copy c = {.ops = ops, .memory = memory, .source = global};
    write_part(program, parameter, device, part, visit_write, &c);
}

static void zero_buffer(const gal_program *program, uint32_t buffer, const gal_device_ops *ops,
                        const gal_memory *memory)
{
    const gal_buffer *at = &program->buffer[buffer];
    ops->zero(memory, program->arena[at->class].offset + at->offset, at->bytes);
}

void gal_weights_initialize(const gal_program *program, const gal_model *model, uint32_t device, uint64_t seed,
                            const gal_device_ops *ops, const gal_memory *memory)
{
    for (uint32_t u = 0; u < program->unit_count; u++) {
        uint32_t kept[GAL_UNIT_KEPT_MAX];
        const uint32_t count = gal_unit_kept(&program->unit[u], kept);
        for (uint32_t k = 0; k < count; k++) {
            zero_buffer(program, kept[k], ops, memory);
        }
    }
    for (uint32_t p = 0; p < program->parameter_count; p++) {
        const gal_parameter *parameter = &program->parameter[p];
        copy c = {.ops = ops,
                  .memory = memory,
                  .seed = seed,
                  .tensor = parameter->tensor,
                  .scale = model->initial_standard_deviation};
        if (parameter->initial == GAL_INITIAL_NORMAL_RESIDUAL) {
            c.scale /= sqrt(2.0 * (double)model->layer_count);
        }
        if (parameter->initial == GAL_INITIAL_ONE) {
            write_part(program, parameter, device, GAL_STATE_WEIGHT, visit_one, &c);
        } else if (parameter->initial != GAL_INITIAL_ZERO) {
            write_part(program, parameter, device, GAL_STATE_WEIGHT, visit_normal, &c);
        }
    }
}
