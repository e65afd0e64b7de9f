/* Tensors of weights on disk that the model has no place for. */
#ifndef GAL_RUNTIME_TRAIN_SAFETENSORS_LEFTOVERS_H
#define GAL_RUNTIME_TRAIN_SAFETENSORS_LEFTOVERS_H

#include "runtime/program/program.h"
#include "runtime/train/safetensors_set.h"
#include "schemas/base/log.h"

/* The tensor of that public name, which may stand behind "transformer.", or NULL. */
const gal_safetensors_entry *gal_safetensors_entry_of(const gal_safetensors_set *set, const char *name);

/* whole: the program of one device, which has all tensors of the model. GAL_ERR_DOCUMENT: tensors of the family's
 * pattern have no place in the model (the first by name and their count are named), or a second name of a table has
 * other values. Other tensors without a place are told in one line of log, rank 0's. */
gal_code gal_safetensors_check_leftovers(const gal_safetensors_set *set, const gal_model *model,
                                         const gal_program *whole, const gal_log *log, gal_error *err);

#endif
