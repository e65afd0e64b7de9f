/* Public names of tensors that a model file may have beside those of the model, by family. */
#ifndef GAL_RUNTIME_TRAIN_TENSOR_NAMES_H
#define GAL_RUNTIME_TRAIN_TENSOR_NAMES_H

#include "schemas/model.h"

typedef enum gal_tensor_name_kind {
    GAL_TENSOR_NAME_FOREIGN, /* not of the family's pattern */
    GAL_TENSOR_NAME_IDLE,    /* known to have no part in what is trained: a mask, a pooler */
    GAL_TENSOR_NAME_TWIN,    /* another name of a tensor of the model, whose values it must repeat */
    GAL_TENSOR_NAME_OWN      /* of the family's pattern: a model of other sizes or parts */
} gal_tensor_name_kind;

/* name: without "transformer.". *twin_of: of a twin, the names that its model may have, else NULL. */
gal_tensor_name_kind gal_tensor_name_kind_of(gal_family family, const char *name, const char **twin_of);

/* The name behind "transformer.", or the whole name. */
const char *gal_tensor_name_bare(const char *name);

#endif
