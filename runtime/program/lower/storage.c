/* Units whose moments are in a file, their masters and weights too where the strategy says so (ZeRO-Infinity,
 * section 5.2; colossal-spec section 9.6).
 *
 * Their gradients are on the host as those of other units that are updated there (zero_host.c), and so is what of them
 * is not in the file. What is passes through the host's memory in parts of some megabytes, which need not be whole
 * units: part k + 1 is read while part k is updated and part k - 1 is written, through a ring of three. A part's bytes
 * of the file and its place in the ring are all that orders the three streams, so the first parts of a step are read as
 * early as the last step's writes allow, beside forward and backward; and what is written last, beside the next
 * forward. Parts begin at whole blocks of storage and are at most so many per unit, that programs of large units stay
 * small.
 * Weights pass through the ring of their kind in front of each use as well, from the file to the device part by part:
 * the reads run ahead until the ring is full, the copies until the device's is. */
#include "runtime/program/lower/zero.h"

enum { PARTS_MAX = 256 };

static uint64_t whole_blocks(uint64_t bytes)
{
    return gal_align_in(GAL_CLASS_STORAGE, bytes);
}

/* Elements that are moved at a time at most: of each kind they are whole blocks, and of none more bytes than the plan
 * says, unless the unit would be more parts than PARTS_MAX. */
static uint64_t most_elements(const gal_builder *b, const gal_unit *unit)
{
    const uint64_t wide = gal_zero_wide_bytes(b);
    const bool weights = gal_unit_stores_weights(b->program, unit);
    const uint64_t narrower = weights ? wide / gal_stored_item_bytes(b->program, GAL_STORED_WEIGHT) : 1;
    const uint64_t grain = narrower * GAL_STORAGE_BLOCK_BYTES;
    const uint64_t wanted = b->spec->storage_part_bytes > 0 ? b->spec->storage_part_bytes : GAL_STORAGE_PART_BYTES;
    const uint64_t most_grains = wanted / grain;
    const uint64_t least_grains = unit->shard_elements * wide / PARTS_MAX / grain + 1;
    return (most_grains > least_grains ? most_grains : least_grains) * grain / wide;
}

static uint64_t part_elements(const gal_builder *b, const gal_unit *unit, uint64_t first)
{
    const uint64_t most = most_elements(b, unit);
    return unit->shard_elements - first < most ? unit->shard_elements - first : most;
}

static void cut(gal_builder *b, uint32_t buffer, uint64_t item, const gal_unit *unit)
{
    if (!b->out_of_memory) {
        b->program->buffer[buffer].cut_bytes = most_elements(b, unit) * item;
    }
}

static uint32_t file_buffer(gal_builder *b, uint32_t block, const char *name, const gal_unit *unit)
{
    const uint64_t item = gal_zero_wide_bytes(b);
    const uint32_t buffer = gal_builder_buffer(b, GAL_CLASS_STORAGE, block, name, unit->shard_elements * item);
    cut(b, buffer, item, unit);
    return buffer;
}

/* The place in the ring of parts of a kind is as large as those that come to it. */
static void reserve(gal_builder *b, uint32_t turn, uint32_t kind, uint64_t bytes)
{
    static const char *const names[GAL_STORED_KINDS] = {"stored m", "stored v", "stored master", "stored w"};
    uint32_t *place = &b->stored[turn % GAL_STORED_RING][kind];
    if (*place == GAL_NO_BUFFER) {
        *place = gal_builder_buffer(b, GAL_CLASS_STORED, GAL_NO_BUFFER, names[kind], 0);
    }
    gal_builder_grow_buffer(b, *place, whole_blocks(bytes));
}

void gal_storage_buffers(gal_builder *b, uint32_t block, gal_storage_kinds kinds, gal_unit *unit)
{
    if (b->out_of_memory) {
        return;
    }
    if (kinds.weight) {
        cut(b, unit->weight, gal_stored_item_bytes(b->program, GAL_STORED_WEIGHT), unit);
    }
    unit->first_moment = file_buffer(b, block, "m", unit);
    unit->second_moment = file_buffer(b, block, "v", unit);
    if (kinds.master) {
        unit->master = file_buffer(b, block, "master", unit);
    }
    const uint32_t wide_kinds = kinds.master ? GAL_STORED_MASTER + 1 : GAL_STORED_MOMENTS;
    for (uint64_t first = 0; first < unit->shard_elements; first += part_elements(b, unit, first)) {
        for (uint32_t k = 0; k < wide_kinds; k++) {
            reserve(b, b->stored_parts, k, part_elements(b, unit, first) * gal_zero_wide_bytes(b));
        }
        b->stored_parts++;
    }
}

/* A part that is moved: elements of a unit, and its turn in the ring. */
typedef struct stored_part {
    uint64_t first, elements;
    uint32_t turn;
} stored_part;

static gal_operand in_ring(const gal_builder *b, uint32_t kind, const stored_part *part, gal_access access)
{
    return (gal_operand){.buffer = b->stored[part->turn % GAL_STORED_RING][kind],
                         .access = (uint8_t)access,
                         .bytes = part->elements * gal_stored_item_bytes(b->program, kind)};
}

/* One kind of a part, from the file or to it. Of weights the ring is as large as what comes for use or update, in
 * whatever turn. */
static void move(gal_builder *b, uint32_t file_buffer, uint32_t kind, const stored_part *part, bool in)
{
    static const char *const names[GAL_STORED_KINDS][2] = {
        {"store m", "load m"}, {"store v", "load v"}, {"store master", "load master"}, {"store w", "load w"}};
    const gal_dtype dtype = b->program->dtype;
    const uint64_t item = gal_stored_item_bytes(b->program, kind);
    const gal_shape shape = {.op = in ? GAL_OP_STORAGE_READ : GAL_OP_STORAGE_WRITE,
                             .dtype = kind == GAL_STORED_WEIGHT ? dtype : gal_dtype_wide(dtype),
                             .dims = {gal_builder_dim(b, part->elements), (uint32_t)item}};
    const gal_operand file = {.buffer = file_buffer,
                              .access = in ? GAL_READ : GAL_WRITE,
                              .offset_bytes = part->first * item,
                              .bytes = part->elements * item};
    if (kind == GAL_STORED_WEIGHT) {
        reserve(b, part->turn, kind, file.bytes);
    }
    const gal_operand ring = in_ring(b, kind, part, in ? GAL_WRITE : GAL_READ);
    gal_builder_instruction(b, in ? GAL_STREAM_STORAGE_IN : GAL_STREAM_STORAGE_OUT, names[kind][in], &shape);
    gal_builder_operand_at(b, in ? &file : &ring);
    gal_builder_operand_at(b, in ? &ring : &file);
}

/* ---- use ---- */

void gal_storage_fetch(gal_builder *b, const gal_unit *unit, uint32_t buffer)
{
    const gal_dtype dtype = b->program->dtype;
    const uint64_t item = gal_dtype_bytes(dtype);
    stored_part part = {0};
    for (; part.first < unit->shard_elements && !b->out_of_memory; part.first += part.elements) {
        part.elements = part_elements(b, unit, part.first);
        part.turn = b->stored_turn++;
        move(b, unit->weight, GAL_STORED_WEIGHT, &part, true);
        const gal_shape shape = {
            .op = GAL_OP_COPY_IN, .dtype = dtype, .dims = {gal_builder_dim(b, part.elements), (uint32_t)item}};
        const gal_operand ring = in_ring(b, GAL_STORED_WEIGHT, &part, GAL_READ);
        const gal_operand target = {
            .buffer = buffer, .access = GAL_WRITE, .offset_bytes = part.first * item, .bytes = part.elements * item};
        gal_builder_instruction(b, GAL_STREAM_HOST_IN, "fetch w", &shape);
        gal_builder_operand_at(b, &ring);
        gal_builder_operand_at(b, &target);
    }
}

/* ---- update ---- */

void gal_storage_read_ahead(gal_builder *b, gal_storage_cursor *next)
{
    const gal_program *p = b->program;
    while (!b->out_of_memory && next->unit < p->unit_count && !gal_unit_is_stored(p, &p->unit[next->unit])) {
        next->unit++;
    }
    if (b->out_of_memory || next->unit == p->unit_count) {
        return;
    }
    const gal_unit unit = p->unit[next->unit];
    const stored_part part = {next->first, part_elements(b, &unit, next->first), next->turn++};
    uint32_t in_file[GAL_STORED_KINDS];
    gal_unit_in_file(p, &unit, in_file);
    for (uint32_t k = 0; k < GAL_STORED_KINDS; k++) {
        if (in_file[k] != GAL_NO_BUFFER) {
            move(b, in_file[k], k, &part, true);
        }
    }
    next->first += part.elements;
    if (next->first == unit.shard_elements) {
        next->unit++;
        next->first = 0;
    }
}

/* What of a part is in the host's memory. */
static gal_operand in_memory(uint32_t buffer, const stored_part *part, uint64_t item, gal_access access)
{
    return (gal_operand){.buffer = buffer,
                         .access = (uint8_t)access,
                         .offset_bytes = part->first * item,
                         .bytes = part->elements * item};
}

static void update_part(gal_builder *b, const gal_unit *unit, const stored_part *part)
{
    const gal_dtype dtype = b->program->dtype;
    const uint64_t item = gal_dtype_bytes(dtype), wide = gal_zero_wide_bytes(b);
    uint32_t in_file[GAL_STORED_KINDS];
    gal_unit_in_file(b->program, unit, in_file);
    const gal_shape shape = {.op = GAL_OP_HOST_ADAM_PART,
                             .dtype = dtype,
                             .dims = {gal_builder_dim(b, part->elements), gal_builder_dim(b, unit->decay_elements),
                                      gal_builder_dim(b, unit->shard_elements), gal_builder_dim(b, part->first)}};
    gal_builder_instruction(b, GAL_STREAM_HOST, "host adam", &shape)->group = unit->zero_group;
    gal_operand at = in_file[GAL_STORED_WEIGHT] != GAL_NO_BUFFER ? in_ring(b, GAL_STORED_WEIGHT, part, GAL_UPDATE)
                                                                 : in_memory(unit->host_weight, part, item, GAL_UPDATE);
    gal_builder_operand_at(b, &at);
    at = in_memory(unit->host_gradient, part, wide, GAL_READ);
    gal_builder_operand_at(b, &at);
    for (uint32_t m = 0; m < GAL_STORED_MOMENTS; m++) {
        at = in_ring(b, m, part, GAL_UPDATE);
        gal_builder_operand_at(b, &at);
    }
    gal_builder_operand(b, b->program->host_norm_buffer, GAL_READ);
    if (unit->master != GAL_NO_BUFFER) {
        at = in_file[GAL_STORED_MASTER] != GAL_NO_BUFFER ? in_ring(b, GAL_STORED_MASTER, part, GAL_UPDATE)
                                                         : in_memory(unit->master, part, wide, GAL_UPDATE);
        gal_builder_operand_at(b, &at);
    }
}

/* In the list a part's read comes behind the write that frees its place. */
void gal_storage_update(gal_builder *b, uint32_t unit, gal_storage_cursor *next)
{
    const gal_unit at = b->program->unit[unit];
    uint32_t in_file[GAL_STORED_KINDS];
    gal_unit_in_file(b->program, &at, in_file);
    stored_part part = {.turn = next->done};
    for (; part.first < at.shard_elements && !b->out_of_memory; part.first += part.elements, part.turn++) {
        part.elements = part_elements(b, &at, part.first);
        update_part(b, &at, &part);
        for (uint32_t k = 0; k < GAL_STORED_KINDS; k++) {
            if (in_file[k] != GAL_NO_BUFFER) {
                move(b, in_file[k], k, &part, false);
            }
        }
        gal_storage_read_ahead(b, next);
    }
    next->done = part.turn;
}
