/* The plan as a table of stages and layers (planner/answers/plan_rows.h). */
#ifndef GAL_PLANNER_CLI_PLAN_TABLE_H
#define GAL_PLANNER_CLI_PLAN_TABLE_H

#include <stdio.h>

#include "schemas/plan.h"

/* A row for each stage, or for each group of layers of a stage whose strategies differ; equal stages share a row. Rows
 * are at most 100 columns wide, longer ones go on below. GAL_ERR_SYSTEM without memory. */
gal_code gal_plan_table_print(FILE *out, const gal_plan *plan, gal_error *err);

/* The member "layout" of an object that is begun, an array of the same rows:
 *     {"stage": 0, "part": "layers", "layers": [1, 26], "repeat": 1, "attention": "sdp8.z1", "ffn": "sdp8.z3"}
 * stage          or piece, of an interleaved schedule. Where equal ones follow, count says how many there are with it,
 *                and shift_layers by how much the numbers of the layers are greater in each than in the one before
 * part           embedding, layers, merge, bridge or head; stack: of a T5's layers; level: of a Swin
 * layers         the first and the last, from 1; with a repeat above 1 of the first turn, period layers before the next
 * attention, cross_attention, ffn   strategies of layers; strategy: of any other part
 * Likewise. */
gal_code gal_plan_table_put(gal_json_writer *out, const gal_plan *plan, gal_error *err);

#endif
