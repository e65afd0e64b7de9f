/* What the sources of models share: documents (model.c) and Hugging Face config.json (model_hugging_face.c). For
 * schemas alone. */
#ifndef GAL_SCHEMAS_MODEL_SOURCE_H
#define GAL_SCHEMAS_MODEL_SOURCE_H

#include "schemas/model_family.h"

/* Reports at the cursor what does not hold between numbers. */
void gal_model_check(const gal_json_cursor *at, const gal_model *model, const gal_model_keys *keys);

/* A config.json, told by its "model_type". Errors are kept in the document. */
void gal_model_read_hugging_face(const gal_json_cursor *root, gal_model *out);

#endif
