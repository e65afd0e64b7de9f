#include "runtime/train/train_agreement.h"

#include "runtime/train/agreement.h"
#include "schemas/document.h"

static void add_presence(gal_agreement *agreement, const char *name, const char *given)
{
    gal_agreement_add(agreement, name, "%s", given != NULL ? "given" : "not given");
}

static void add_number(gal_agreement *agreement, const char *name, uint64_t value)
{
    gal_agreement_add(agreement, name, "%llu", (unsigned long long)value);
}

static void add_hash(gal_agreement *agreement, const char *name, uint64_t hash)
{
    gal_agreement_add(agreement, name, "%016llx", (unsigned long long)hash);
}

/* The options that decide what is computed or when all ranks meet. A path may differ from node to node: whether one is
 * given decides, and for the data their content. */
static void add_options(gal_agreement *agreement, const gal_train_options *o)
{
    add_number(agreement, "--steps", o->step_count);
    add_number(agreement, "--seed", o->seed);
    gal_agreement_add(agreement, "--text", "%s", o->data_as_bytes ? "given" : "not given");
    add_number(agreement, "--evaluate-every", o->evaluate_every);
    add_number(agreement, "--evaluate-batches", o->evaluate_batches);
    add_presence(agreement, "--save", o->save_directory);
    add_number(agreement, "--save-every", o->save_every);
    add_number(agreement, "--keep", o->keep);
    gal_agreement_add(agreement, "--overwrite", "%s", o->overwrite ? "given" : "not given");
    add_presence(agreement, "--resume", o->resume_path);
    add_presence(agreement, "--weights", o->weights_path);
    add_presence(agreement, "--export", o->export_path);
    add_presence(agreement, "--trace", o->trace_path);
    gal_agreement_add(agreement, "--on-nan", "%s", o->skip_not_finite ? "skip" : "stop");
    gal_agreement_add(agreement, "--no-overlap", "%s", o->order == GAL_ORDER_LIST ? "given" : "not given");
    gal_agreement_add(agreement, "--device", "%s", o->backend == NULL ? "host" : "cuda");
    gal_agreement_add(agreement, "--deterministic", "%s", o->deterministic ? "given" : "not given");
    gal_agreement_add(agreement, "--tf32", "%s", o->tf32 ? "given" : "not given");
    gal_agreement_add(agreement, "--graphs", "%s", o->graphs ? "given" : "not given");
}

gal_code gal_train_agree(const gal_plan *plan, const gal_train_options *options, const gal_data *data,
                         const gal_world *world, gal_data_content *content, gal_error *err)
{
    gal_code code = GAL_OK;
    char hash[GAL_HASH_BYTES] = "";
    gal_agreement agreement = {0};
    gal_data_content found = {0};
    code = gal_document_hash(GAL_DOCUMENT_PLAN, plan, hash, err);
    if (code == GAL_OK) {
        code = gal_data_fingerprint(data, &found, err);
    }
    GAL_TRY(gal_world_agree(world, code, err));
    gal_agreement_add(&agreement, "the plan", "%s", hash);
    add_options(&agreement, options);
    add_hash(&agreement, "the content of --data", found.training);
    add_hash(&agreement, "the content of --validation", found.validation);
    GAL_TRY(gal_agreement_check(&agreement, world, err));
    *content = found;
cleanup:
    return code;
}
