/* Weights as a safetensors file, under the public names of the model's tensors and in their shapes, so that a model
 * trained here loads elsewhere and the reverse.
 *
 * The file: 8 bytes, the length of the header (little-endian); the header, JSON, {"name": {"dtype", "shape",
 * "data_offsets": [begin, end)}, ...}, offsets in bytes behind the header; the data, row-major. Written in the model's
 * compute_dtype (F64 or, also of 16 bits, F32: the masters), without padding, a tied table once; read as F64, F32, F16
 * or BF16. Moments are not kept: that is what checkpoints are for. Every rank writes and reads its own elements: the
 * file lies where all ranks see it. Source: the format's description, github.com/huggingface/safetensors, README. */
#ifndef GAL_RUNTIME_TRAIN_SAFETENSORS_H
#define GAL_RUNTIME_TRAIN_SAFETENSORS_H

#include "runtime/train/checkpoint.h"
#include "schemas/base/log.h"

/* Collective; all ranks get the same code and text. */

/* Whether path can be written, so that this shows now and not after hours. GAL_ERR_SYSTEM. */
gal_code gal_safetensors_probe(const char *path, const gal_world *world, gal_error *err);

/* Replaces path when all of it is written. GAL_ERR_SYSTEM. */
gal_code gal_safetensors_save(const char *path, const gal_checkpoint_state *state, const gal_world *world,
                              gal_error *err);

/* Sets the rank's weights; the rest of the state is left alone. path: as gal_safetensors_set_open has it, one file or
 * several. A tensor may stand under its name or behind "transformer."; tensors without a place in the model are refused
 * or told as safetensors_leftovers.h says. A rank reads its own elements alone. GAL_ERR_SYSTEM: cannot be read;
 * GAL_ERR_DOCUMENT: a header is not what the format says, a tensor is missing, has another shape, or is left over. */
gal_code gal_safetensors_load(const char *path, const gal_checkpoint_state *state, const gal_world *world,
                              const gal_log *log, gal_error *err);

#endif
