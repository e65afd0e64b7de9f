/* Which arithmetic and how many positions a model is planned or measured with, and where each of its facts is from.
 *
 * The arithmetic, first that applies:
 *   1. what an option asks for (--dtype);
 *   2. what the model's own document says (compute_dtype; torch_dtype or dtype of a Hugging Face config.json);
 *   3. bf16.
 * The catalogue's documents and rule 3 are preferences: a device that has no rate for them gets fp16 where it has one,
 * else fp32. An option or a user's own document is kept, and whoever runs it refuses what its device cannot do. */
#ifndef GAL_SCHEMAS_MODEL_CHOICE_H
#define GAL_SCHEMAS_MODEL_CHOICE_H

#include "schemas/cluster.h"
#include "schemas/model.h"

/* X(enumerator, name in JSON) */
#define GAL_ORIGINS(X)                                                                                                 \
    X(GAL_ORIGIN_FILE, "file")                                                                                         \
    X(GAL_ORIGIN_CATALOGUE, "catalogue")                                                                               \
    X(GAL_ORIGIN_DEFAULT, "default")                                                                                   \
    X(GAL_ORIGIN_OPTION, "option")                                                                                     \
    X(GAL_ORIGIN_COLUMN, "column")                                                                                     \
    X(GAL_ORIGIN_PLAN, "plan")

#define X(enumerator, name) enumerator,
typedef enum gal_origin { GAL_ORIGINS(X) GAL_ORIGIN_COUNT } gal_origin;
#undef X

extern const char *const gal_origin_names[GAL_ORIGIN_COUNT];

typedef struct gal_model_origins {
    gal_origin dtype, sequence, batch, optimizer;
    gal_dtype preferred_dtype; /* of the catalogue or the default; differs from compute_dtype if the device lacks it */
} gal_model_origins;

/* --dtype and --sequence. */
typedef struct gal_model_options {
    uint32_t dtype;           /* gal_dtype; GAL_COMPUTE_DTYPE_COUNT: not given */
    uint32_t sequence_length; /* 0: not given */
} gal_model_options;

/* Neither is given. */
#define GAL_MODEL_OPTIONS_NONE                                                                                         \
    {                                                                                                                  \
        GAL_COMPUTE_DTYPE_COUNT, 0                                                                                     \
    }

/* The dtypes that a device has a rate for, as bits 1 << gal_dtype: fp32, fp64 and what its document gives beside them.
 */
uint32_t gal_device_dtypes(const gal_device *device);

/* Where a model that was read from path (a file, or a name of the catalogue) has its facts from. */
void gal_model_origins_of(const char *path, const gal_model *model, gal_model_origins *out);

/* Gives samples another length, and the model the learned positions for it (decoder, bert), so its parameter count
 * changes too. t5: the source's length; a target as long as the source follows, any other keeps its length.
 * GAL_ERR_USAGE naming --sequence: an image model, a sequence beyond a sliding window, or more tokens in a batch than
 * documents allow.
 */
gal_code gal_model_set_sequence(gal_model *model, uint32_t sequence_length, gal_error *err);

/* The rule above. origins: as of gal_model_origins_of; its dtype and preferred_dtype are updated. */
void gal_model_choose_dtype(gal_model *model, uint32_t asked_dtype, uint32_t device_dtypes, gal_model_origins *origins);

/* Reads a model as gal_model_read and applies both options. device_dtypes: as of gal_device_dtypes. */
gal_code gal_model_choose(const char *path, const gal_model_options *options, uint32_t device_dtypes, gal_model *out,
                          gal_model_origins *origins, gal_error *err);

#endif
