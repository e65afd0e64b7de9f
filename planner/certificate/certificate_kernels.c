/* What a certificate knows of blocks without their prices: kernels of splits alone (costmodel/floor.h). */
#include "planner/certificate/certificate_prices.h"
#include "planner/space/strategy_space.h"

/* Data parallel groups share the samples and, where the space has sharding, the states, which devices that split
 * positions share too. */
static gal_code price_split(gal_cert_prices *v, uint32_t type, const gal_split_kind *split, gal_cert_kernels *out)
{
    const gal_space *space = v->cell->space;
    const bool shards = space->axis[GAL_AXIS_SDP], *zero = space->zero_stage;
    const uint32_t together = split->tp_degree * split->sequence_degree;
    const uint32_t groups = v->devices / together;
    gal_split_kind plain = *split; /* whatever is offloaded of it */
    plain.offload = false;
    const gal_strategy strategy = gal_split_strategy(&plain);
    gal_error reason = {0};
    gal_code code = GAL_OK;
    const bool depth = split->tp_mode == GAL_TP_2D && space->tp_grid[GAL_TP_2P5D];
    out->legal = v->samples % groups == 0 && (groups == 1 || shards || depth || space->axis[GAL_AXIS_DP]) &&
                 gal_cert_may_take(v, &strategy, together, v->samples / groups) &&
                 gal_cert_may_take_for(v, type, &strategy, v->samples / groups);
    if (out->legal) {
        const uint32_t like = v->types.shape[v->types.type_like[type]].type;
        code = gal_floors_of(v->from->floors, like, *split, v->samples / groups, &out->floor, &reason);
        out->floor.state_bytes /= shards ? groups : 1;
        out->floor.state_bytes /= zero[1] || zero[2] || zero[3] ? split->sequence_degree : 1;
        out->legal = code == GAL_OK;
    }
    return code == GAL_OK || gal_is_too_large(code) ? GAL_OK : gal_fail(v->heap.err, code, "%s", reason.text);
}

gal_code gal_cert_price_kernels(gal_cert_prices *v)
{
    gal_code code = GAL_OK;
    for (uint32_t type = 0; type < v->types.type_count; type++) {
        for (uint32_t i = 0; i < v->split_count; i++) {
            GAL_TRY(price_split(v, type, &v->split[i], &v->kernels[(size_t)type * v->split_count + i]));
        }
    }
cleanup:
    return code;
}

bool gal_cert_is_closed(const gal_cert_prices *v, uint32_t type, uint32_t split)
{
    const gal_cert_kernels *own = &v->kernels[(size_t)type * v->split_count + split];
    return own->legal && !own->opened;
}
