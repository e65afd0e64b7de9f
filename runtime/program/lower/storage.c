/* Units whose moments, or moments and masters, are in a file (ZeRO-Infinity, section 5.2; colossal-spec section 9.6).
 *
 * Their weights and gradients are on the host as those of other units that are updated there (zero_host.c). What is in
 * the file passes through the host's memory in parts of some megabytes, which need not be whole units: part k + 1 is
 * read while part k is updated and part k - 1 is written, through a ring of three. A part's bytes of the file and its
 * place in the ring are all that orders the three streams, so the first parts of a step are read as early as the last
 * step's writes allow, beside forward and backward; and what is written last, beside the next forward. Parts begin at
 * whole blocks of storage and are at most so many per unit, that programs of large units stay small. */
#include "runtime/program/lower/zero.h"

enum { PARTS_MAX = 256 };

static uint64_t whole_blocks(uint64_t bytes)
{
    return gal_align_in(GAL_CLASS_STORAGE, bytes);
}

/* Bytes of a moment that are moved at a time. */
static uint64_t part_bytes(const gal_builder *b, const gal_unit *unit)
{
    const uint64_t wanted = b->spec->storage_part_bytes > 0 ? b->spec->storage_part_bytes : GAL_STORAGE_PART_BYTES;
    const uint64_t least = whole_blocks(unit->shard_elements * gal_zero_wide_bytes(b) / PARTS_MAX + 1);
    return wanted > least ? wanted : least;
}

static uint64_t part_elements(const gal_builder *b, const gal_unit *unit, uint64_t first)
{
    const uint64_t most = part_bytes(b, unit) / gal_zero_wide_bytes(b);
    return unit->shard_elements - first < most ? unit->shard_elements - first : most;
}

static uint32_t file_buffer(gal_builder *b, uint32_t block, const char *name, const gal_unit *unit)
{
    const uint64_t bytes = unit->shard_elements * gal_zero_wide_bytes(b);
    const uint32_t buffer = gal_builder_buffer(b, GAL_CLASS_STORAGE, block, name, bytes);
    if (!b->out_of_memory) {
        b->program->buffer[buffer].cut_bytes = part_bytes(b, unit);
    }
    return buffer;
}

/* A place in the ring for one more part of `kinds`: as large as those that come to it. */
static void reserve_part(gal_builder *b, uint32_t kinds, uint64_t bytes)
{
    static const char *const names[GAL_STORED_KINDS] = {"stored m", "stored v", "stored master"};
    uint32_t *place = b->stored[b->stored_parts % GAL_STORED_RING];
    for (uint32_t k = 0; k < GAL_STORED_KINDS; k++) {
        if (b->stored_parts < GAL_STORED_RING) {
            place[k] = GAL_NO_BUFFER;
        }
        if (k < kinds && place[k] == GAL_NO_BUFFER) {
            place[k] = gal_builder_buffer(b, GAL_CLASS_STORED, GAL_NO_BUFFER, names[k], 0);
        }
        if (k < kinds) {
            gal_builder_grow_buffer(b, place[k], whole_blocks(bytes));
        }
    }
    b->stored_parts++;
}

void gal_storage_buffers(gal_builder *b, uint32_t block, bool master, gal_unit *unit)
{
    unit->first_moment = file_buffer(b, block, "m", unit);
    unit->second_moment = file_buffer(b, block, "v", unit);
    if (master) {
        unit->master = file_buffer(b, block, "master", unit);
    }
    for (uint64_t first = 0; first < unit->shard_elements; first += part_elements(b, unit, first)) {
        reserve_part(b, master ? GAL_STORED_KINDS : GAL_STORED_MOMENTS,
                     part_elements(b, unit, first) * gal_zero_wide_bytes(b));
    }
}

/* All that the file has of a part, one way. */
static void move(gal_builder *b, const gal_unit *unit, uint64_t first, uint32_t turn, bool in)
{
    static const char *const names[GAL_STORED_KINDS][2] = {
        {"store m", "load m"}, {"store v", "load v"}, {"store master", "load master"}};
    const uint64_t item = gal_zero_wide_bytes(b), elements = part_elements(b, unit, first);
    uint32_t buffers[GAL_STORED_KINDS];
    const uint32_t kinds = gal_unit_in_file(b->program, unit, buffers);
    const gal_shape shape = {.op = in ? GAL_OP_STORAGE_READ : GAL_OP_STORAGE_WRITE,
                             .dtype = gal_dtype_wide(b->program->dtype),
                             .dims = {gal_builder_dim(b, elements), (uint32_t)item}};
    for (uint32_t k = 0; k < kinds; k++) {
        const gal_operand file = {.buffer = buffers[k],
                                  .access = in ? GAL_READ : GAL_WRITE,
                                  .offset_bytes = first * item,
                                  .bytes = elements * item};
        const gal_operand ring = {.buffer = b->stored[turn % GAL_STORED_RING][k],
                                  .access = in ? GAL_WRITE : GAL_READ,
                                  .bytes = elements * item};
        gal_builder_instruction(b, in ? GAL_STREAM_STORAGE_IN : GAL_STREAM_STORAGE_OUT, names[k][in], &shape);
        gal_builder_operand_at(b, in ? &file : &ring);
        gal_builder_operand_at(b, in ? &ring : &file);
    }
}

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
    move(b, &unit, next->first, next->turn++, true);
    next->first += part_elements(b, &unit, next->first);
    if (next->first == unit.shard_elements) {
        next->unit++;
        next->first = 0;
    }
}

/* One of a part's turn in the ring. */
static void put_stored(gal_builder *b, uint32_t kind, uint32_t turn, uint64_t bytes)
{
    const gal_operand ring = {.buffer = b->stored[turn % GAL_STORED_RING][kind], .access = GAL_UPDATE, .bytes = bytes};
    gal_builder_operand_at(b, &ring);
}

static void update_part(gal_builder *b, const gal_unit *unit, uint64_t first, uint32_t turn)
{
    const uint64_t elements = part_elements(b, unit, first);
    const gal_dtype dtype = b->program->dtype;
    const uint64_t item = gal_dtype_bytes(dtype), wide = gal_zero_wide_bytes(b);
    uint32_t in_file[GAL_STORED_KINDS];
    const uint32_t kinds = gal_unit_in_file(b->program, unit, in_file);
    const gal_shape shape = {.op = GAL_OP_HOST_ADAM_PART,
                             .dtype = dtype,
                             .dims = {gal_builder_dim(b, elements), gal_builder_dim(b, unit->decay_elements),
                                      gal_builder_dim(b, unit->shard_elements), gal_builder_dim(b, first)}};
    gal_operand at = {
        .buffer = unit->host_weight, .access = GAL_UPDATE, .offset_bytes = first * item, .bytes = elements * item};
    gal_builder_instruction(b, GAL_STREAM_HOST, "host adam", &shape)->group = unit->zero_group;
    gal_builder_operand_at(b, &at);
    at = (gal_operand){
        .buffer = unit->host_gradient, .access = GAL_READ, .offset_bytes = first * wide, .bytes = elements * wide};
    gal_builder_operand_at(b, &at);
    for (uint32_t m = 0; m < GAL_STORED_MOMENTS; m++) {
        put_stored(b, m, turn, elements * wide);
    }
    gal_builder_operand(b, b->program->host_norm_buffer, GAL_READ);
    if (kinds > GAL_STORED_MASTER) {
        put_stored(b, GAL_STORED_MASTER, turn, elements * wide);
    } else if (unit->master != GAL_NO_BUFFER) {
        at.buffer = unit->master;
        at.access = GAL_UPDATE;
        gal_builder_operand_at(b, &at);
    }
}

/* In the list a part's read comes behind the write that frees its place. */
void gal_storage_update(gal_builder *b, uint32_t unit, gal_storage_cursor *next)
{
    const gal_unit at = b->program->unit[unit];
    uint32_t turn = next->done;
    for (uint64_t first = 0; first < at.shard_elements && !b->out_of_memory; turn++) {
        update_part(b, &at, first, turn);
        move(b, &at, first, turn, false);
        first += part_elements(b, &at, first);
        gal_storage_read_ahead(b, next);
    }
    next->done = turn;
}
