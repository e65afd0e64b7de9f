/* What is searched before the whole: parts of the space, whose plans and bounds spare it most of its work. */
#include <math.h>
#include <string.h>

#include "planner/cell/finalist.h"
#include "planner/search/joint_internal.h"

/* Of more devices the simplest strategies are searched first, of every cell in its stages: what they give is mostly
 * within 1 % of the best, and spares the others (1,024 devices, every axis: llama2-7b 1.2 s in place of 3.6,
 * swin-huge-32 25 in place of 33). Of 64, where memory is short and they lack what saves it, nothing was gained. */
static const char *const simplest = "dp,sdp,tp";
enum { FEW_DEVICES = 128 };

/* Of a device: more than any plan takes, and sums of it are no overflow. */
static const uint64_t unlimited_bytes = UINT64_C(1) << 56;

static gal_joint_cell *cell_of(gal_joint *o, const gal_cell_numbers *numbers)
{
    for (uint32_t i = 0; i < o->candidate_count; i++) {
        if (memcmp(&o->candidate[i].numbers, numbers, sizeof *numbers) == 0) {
            return &o->candidate[i];
        }
    }
    return NULL;
}

/* As that of the cell, unless a faster one is known. The other one is left in its place. */
static gal_code take_plan(gal_joint *o, gal_joint_cell *c, gal_finalist *from, gal_error *err)
{
    const gal_cell_spec spec = gal_joint_spec(o, c);
    if (c->finalist == GAL_JOINT_NO_FINALIST) {
        if (gal_finalist_add(o->request, &spec, o->result) == NULL) {
            return gal_fail(err, GAL_ERR_SYSTEM, "not enough memory to search");
        }
        c->finalist = o->result->finalist_count - 1;
        o->result->finalist[c->finalist].objective_seconds = HUGE_VAL;
    }
    gal_finalist *to = &o->result->finalist[c->finalist], was = *to;
    if (from->objective_seconds < to->objective_seconds) {
        *to = *from;
        *from = was;
        o->now.samples_per_second = fmax(o->now.samples_per_second, gal_finalist_rate(to));
    }
    return GAL_OK;
}

/* Those of a search of some of the space. */
static gal_code take_plans(gal_joint *o, gal_joint *from, gal_error *err)
{
    gal_code code = GAL_OK;
    for (uint32_t i = 0; i < from->candidate_count && code == GAL_OK; i++) {
        const gal_joint_cell *d = &from->candidate[i];
        gal_joint_cell *c = cell_of(o, &d->numbers);
        if (d->finalist != GAL_JOINT_NO_FINALIST && c != NULL) {
            code = take_plan(o, c, &from->result->finalist[d->finalist], err);
        }
    }
    return code;
}

/* Cells that were solved there are, of some of the space. */
static void take_counts(gal_joint *o, const gal_joint *from)
{
    for (uint32_t i = 0; i < from->candidate_count; i++) {
        gal_joint_cell *c = from->candidate[i].solved ? cell_of(o, &from->candidate[i].numbers) : NULL;
        if (c != NULL) {
            gal_joint_note_solved(o, c);
        }
    }
    o->result->label_count += from->result->label_count;
}

/* A good plan soon: of the simplest strategies. */
static gal_code begin_simply(gal_joint *o, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_search_request request = *o->request;
    gal_search_result result = {0};
    gal_joint simple = {.request = &request, .result = &result};
    const uint32_t devices = gal_durations_cluster(request.durations)->device_count;
    const uint32_t few = request.few_devices > 0 ? request.few_devices : FEW_DEVICES;
    gal_space some;
    GAL_TRY(gal_space_parse(simplest, &some, err));
    gal_space_meet(&o->request->space, &some, &request.space);
    request.cache = o->cache;
    request.tell = NULL;
    if (devices > few && !gal_search_is_uniform(&request) &&
        gal_space_room(&request.space, devices) < gal_space_room(&o->request->space, devices)) {
        GAL_TRY(gal_joint_create(&simple, err));
        GAL_TRY(gal_joint_advance_all(&simple, GAL_JOINT_STAGED, err));
        GAL_TRY(take_plans(o, &simple, err));
        take_counts(o, &simple);
    }
cleanup:
    gal_joint_free(&simple);
    gal_search_result_free(&result);
    return code;
}

static void take_bounds(gal_joint *o, gal_joint *from)
{
    for (uint32_t i = 0; i < o->candidate_count; i++) {
        const gal_joint_cell *d = cell_of(from, &o->candidate[i].numbers);
        o->candidate[i].bound = d != NULL ? fmax(o->candidate[i].bound, d->bound) : o->candidate[i].bound;
    }
}

/* How far a part is; its plans are not those of the whole. */
static void tell_of_part(void *context, const gal_search_progress *now)
{
    const gal_joint *o = context;
    gal_search_progress own = *now;
    own.samples_per_second = o->now.samples_per_second;
    o->request->tell(o->request->tell_context, &own);
}

/* Makes part a search for the same, of its own request, by what o knows. */
static gal_code search_part(gal_joint *o, gal_search_request *request, gal_joint *part, gal_error *err)
{
    gal_code code = GAL_OK;
    request->cache = o->cache;
    request->tell = o->request->tell != NULL ? tell_of_part : NULL;
    request->tell_context = o;
    part->now = o->now;
    part->known_per_sample = o->result->finalist_count > 0 ? gal_joint_wanted_per_sample(o) : 0.0;
    GAL_TRY(gal_joint_create(part, err));
    take_bounds(part, o);
    GAL_TRY(gal_joint_begin(part, err));
    GAL_TRY(gal_joint_search_candidates(part, err));
    gal_joint_close_all(part);
    take_counts(o, part);
    part->now.samples_per_second = o->now.samples_per_second;
    o->now = part->now;
cleanup:
    return code;
}

/* The space without offload within the devices' memory. */
static gal_code search_without(gal_joint *o, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_search_request request = *o->request;
    gal_search_result result = {0};
    gal_joint part = {.request = &request, .result = &result};
    request.space.offload = false;
    GAL_TRY(search_part(o, &request, &part, err));
    GAL_TRY(take_plans(o, &part, err));
cleanup:
    gal_joint_free(&part);
    gal_search_result_free(&result);
    return code;
}

/* A plan that devices have no room for, with as much of it in the host's memory as makes it fit. */
static gal_code search_moving(gal_joint *o, const gal_finalist *finalist, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_search_request request = *o->request;
    gal_search_result result = {0};
    gal_joint part = {.request = &request, .result = &result};
    request.batches = (gal_u32_list){1, {finalist->global_batch_samples}};
    request.microbatch_counts = (gal_u32_list){1, {finalist->microbatch_count}};
    request.pp_degrees = (gal_u32_list){1, {finalist->pp_degree}};
    request.moving = &finalist->plan;
    GAL_TRY(search_part(o, &request, &part, err));
    GAL_TRY(take_plans(o, &part, err));
cleanup:
    gal_joint_free(&part);
    gal_search_result_free(&result);
    return code;
}

/* Of plans that devices without a limit would have those that are wanted, and those that a simulation might rank before
 * them, as they are or with some of them in the host's memory. *fit: they are as they are. */
static gal_code make_fit(gal_joint *o, gal_joint *from, bool *fit, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_search_request *r = o->request;
    const uint64_t own = gal_durations_cluster(r->durations)->device.memory_bytes;
    const uint64_t most = r->memory_bytes > 0 ? r->memory_bytes : own;
    const double wanted =
        gal_joint_wanted_per_sample(from) * (1.0 + (r->ranks_by_simulation ? GAL_JOINT_STRAY_MOST : 0.0));
    *fit = from->result->finalist_count > 0;
    for (uint32_t i = 0; i < from->candidate_count && code == GAL_OK; i++) {
        const gal_joint_cell *d = &from->candidate[i];
        gal_joint_cell *c = cell_of(o, &d->numbers);
        gal_finalist *f = d->finalist != GAL_JOINT_NO_FINALIST ? &from->result->finalist[d->finalist] : NULL;
        if (f == NULL || c == NULL || gal_finalist_per_sample(f) > wanted) {
            continue;
        }
        GAL_TRY(gal_finalist_predict(r, f, err));
        *fit = *fit && f->peak_bytes <= most;
        code = f->peak_bytes <= most ? take_plan(o, c, f, err) : search_moving(o, f, err);
    }
cleanup:
    return code;
}

static bool is_proved(const gal_joint *o)
{
    const double hopeless = gal_joint_hopeless_per_sample(o, GAL_JOINT_CLOSED);
    bool proved = o->result->finalist_count > 0;
    for (uint32_t i = 0; i < o->candidate_count && proved; i++) {
        proved = gal_joint_per_sample(&o->candidate[i]) >= hopeless;
    }
    return proved;
}

/* No plan gains by offload but bytes of its devices (costmodel/price.h). So the same without it is searched first, as
 * if these had no limit: its bounds are those of all plans, and where what it finds fits, or does with some of it in
 * the host's memory and is as fast, that is all. Else what fits without; what is left may have something faster. */
static gal_code begin_on_devices(gal_joint *o, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_search_request request = *o->request;
    gal_search_result result = {0};
    gal_joint part = {.request = &request, .result = &result};
    bool fit = false;
    request.space.offload = false;
    request.memory_bytes = unlimited_bytes;
    GAL_TRY(search_part(o, &request, &part, err));
    take_bounds(o, &part);
    GAL_TRY(make_fit(o, &part, &fit, err));
    o->on_devices = fit || is_proved(o);
    if (!o->on_devices) {
        GAL_TRY(search_without(o, err));
        o->on_devices = is_proved(o);
    }
cleanup:
    gal_joint_free(&part);
    gal_search_result_free(&result);
    return code;
}

static bool may_begin_on_devices(const gal_joint *o)
{
    const gal_search_request *r = o->request;
    return r->space.offload && !r->is_short && r->moving == NULL && !gal_search_is_uniform(r) &&
           !gal_price_cache_is_charged(o->cache);
}

gal_code gal_joint_begin(gal_joint *o, gal_error *err)
{
    const gal_code code = may_begin_on_devices(o) ? begin_on_devices(o, err) : GAL_OK;
    return code == GAL_OK && o->result->finalist_count == 0 ? begin_simply(o, err) : code;
}
