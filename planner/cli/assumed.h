/* The line that says what a command read and assumed of a model, and the same as a JSON object:
 *     llama3-8b: 8.03 B parameters, bf16 (catalogue), 8192 positions (catalogue), batch 128 (--batch), adamw, fp32
 * states (catalogue) */
#ifndef GAL_PLANNER_CLI_ASSUMED_H
#define GAL_PLANNER_CLI_ASSUMED_H

#include <stdio.h>

#include "schemas/base/json.h"
#include "schemas/base/options.h"
#include "schemas/model_choice.h"

/* Options of every command that takes a model and a cluster. */
#define GAL_CLI_DTYPE_HELP "arithmetic of the model (its document's; else bf16, or what the device has)"
#define GAL_CLI_SEQUENCE_HELP "positions of a sample, of texts (its document's); t5: of the source"

enum { GAL_ASSUMED_TEXT_BYTES = 512 };

typedef struct gal_assumed {
    const gal_model *model;
    const gal_device *device;
    gal_model_origins origins;
    gal_u32_list batches; /* global batches that an option asks for, or every row has its own; none: the model's own */
} gal_assumed;

void gal_assumed_text(const gal_assumed *assumed, char text[GAL_ASSUMED_TEXT_BYTES]);

/* The text as a line. */
void gal_assumed_print(FILE *out, const gal_assumed *assumed);

/* The member "assumed" of the object at hand: {"model", "parameter_count", "dtype": {"value", "origin"}, ...}. dtype
 * has "preferred" too, where the device lacks what the catalogue or the default would take. */
void gal_assumed_put(gal_json_writer *out, const gal_assumed *assumed);

#endif
