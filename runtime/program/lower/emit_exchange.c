/* The exchanges of Ulysses around attention: features are put in the order of the devices that they go to, sent there
 * by an all_to_all, and the other way round. The memory between is of the block's work. */
#include <string.h>

#include "runtime/program/lower/emit_nodes.h"

/* Features in order (deal: r rows, w [member][row]; collect the reverse). */
static void order(gal_builder *b, const gal_block_emit *e, gal_op op, const char *name,
                  const uint32_t part[GAL_FEATURE_PARTS], uint8_t value, uint32_t from, uint32_t to)
{
    gal_shape shape = {
        .op = op, .dtype = b->program->dtype, .dims = {gal_emit_rows(e, value), e->graph.sequence_degree}};
    memcpy(&shape.dims[2], part, GAL_FEATURE_PARTS * sizeof part[0]);
    gal_builder_instruction(b, GAL_STREAM_COMPUTE, name, &shape)->group = e->mesh.sequence;
    gal_emit_read(b, e, from, value);
    gal_emit_access(b, e, to, value, GAL_WRITE);
}

/* Between a value of chunks and one of heads: as many bytes. */
static void exchange(gal_builder *b, const gal_block_emit *e, const char *name, uint32_t from, uint8_t source,
                     uint32_t to, uint8_t target)
{
    const uint64_t elements = (uint64_t)gal_emit_rows(e, source) * e->graph.value[source].features;
    gal_emit_collective(b, GAL_OP_ALL_TO_ALL, GAL_STREAM_TENSOR, name, b->program->dtype, e->mesh.sequence,
                        elements / e->graph.sequence_degree, 0);
    gal_emit_read(b, e, from, source);
    gal_emit_access(b, e, to, target, GAL_WRITE);
}

void gal_emit_deal(gal_builder *b, gal_block_emit *e, const char *name, const uint32_t part[GAL_FEATURE_PARTS],
                   uint32_t from, uint8_t source, uint32_t to, uint8_t target)
{
    const uint32_t packed = gal_emit_work(b, e, "packed", gal_emit_bytes(b, e, source));
    order(b, e, GAL_OP_DEAL_FEATURES, "deal", part, source, from, packed);
    exchange(b, e, name, packed, source, to, target);
}

void gal_emit_collect(gal_builder *b, gal_block_emit *e, const char *name, const uint32_t part[GAL_FEATURE_PARTS],
                      uint32_t from, uint8_t source, uint32_t to, uint8_t target)
{
    const uint32_t packed = gal_emit_work(b, e, "packed", gal_emit_bytes(b, e, target));
    exchange(b, e, name, from, source, packed, target);
    order(b, e, GAL_OP_COLLECT_FEATURES, "collect", part, target, packed, to);
}
