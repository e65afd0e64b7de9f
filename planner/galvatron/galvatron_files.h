/* Files of Hetu-Galvatron: read into documents, written from them, and its plans as ours and back.
 *
 * Read: the six kinds of profile as its profilers write them (main of 2026-06 and release 2.4.0), told apart by their
 * keys, and its strategy file. Written: the strategy file. */
#ifndef GAL_PLANNER_GALVATRON_GALVATRON_FILES_H
#define GAL_PLANNER_GALVATRON_GALVATRON_FILES_H

#include "schemas/base/json.h"
#include "schemas/galvatron_plan.h"
#include "schemas/galvatron_profile.h"
#include "schemas/plan.h"

/* The file has the key that every strategy has. */
bool gal_galvatron_is_strategy(gal_json_doc *doc);

/* Adds the rows of the files to *profile, whose scalars and layer_type the caller has set; sets sequence_parallel (the
 * memory that was measured with it is taken where a file has both), overlap_slowdown and device_count (the largest
 * group). *outside_missing: no file has the time outside the layers; a row of 0 s stands for it. GAL_ERR_DOCUMENT where
 * a key is not theirs, or a table is missing that every price needs. */
gal_code gal_galvatron_import_profile(const char *const *paths, uint32_t path_count, gal_galvatron_profile *profile,
                                      bool *outside_missing, gal_error *err);
/* The same from files that are open already. */
gal_code gal_galvatron_import_profile_open(gal_json_doc *const *docs, uint32_t doc_count,
                                           gal_galvatron_profile *profile, bool *outside_missing, gal_error *err);

/* device_count 0: what the file says, which older files do not. */
gal_code gal_galvatron_import_plan(const char *path, uint32_t device_count, gal_galvatron_plan *out, gal_error *err);
/* The same from a file that is open already; path is for errors and the name. */
gal_code gal_galvatron_import_plan_open(gal_json_doc *doc, const char *path, uint32_t device_count,
                                        gal_galvatron_plan *out, gal_error *err);

/* The strategy file: embed_sdp, which its search writes, and vocab_sdp, which its runtime reads, both. */
gal_code gal_galvatron_export_plan(const char *path, const gal_galvatron_plan *plan, gal_error *err);

/* Our plan as one of theirs. GAL_ERR_DOCUMENT with what it cannot say: other schedules, a layer whose blocks differ,
 * ZeRO 1, selective recompute, replicas of both kinds, a split by tensors and by Ulysses or over no neighbours, states
 * sharded along Ulysses alone, tensors without sequence parallelism (there a flag of the whole run, on by default). */
gal_code gal_galvatron_plan_of(const gal_plan *plan, gal_galvatron_plan *out, gal_error *err);

/* Theirs as ours, for galrun. Megatron's sequence parallelism goes with every split by tensors. GAL_ERR_DOCUMENT where
 * the plan breaks a rule of ours (gal_plan_check): a batch that does not divide, say. */
gal_code gal_galvatron_plan_to(const gal_galvatron_plan *plan, const gal_model *model, const gal_cluster *cluster,
                               gal_plan *out, gal_error *err);

#endif
