/* Verification of programs: no deadlock, no race, the right values in the right form. Linear, by class of ranks.
 *
 * programs[stage_count] are the stages of one plan. Each check returns GAL_OK, or GAL_NO with one line in *err that
 * names stage, fragment, instruction (gal_instruction_print) and rule; GAL_ERR_SYSTEM without memory.
 *   queues    queues without time: every stream of every stage is a queue; a cross-stage operation completes when all
 *             members have posted it (rendezvous); partners agree in operation, bytes and microbatch. Run for several
 *             mappings of streams to hardware queues (one per stream; all sends and receives of a direction together,
 * but for interleaved stages, which form a ring and need one per stream) clocks    vector clocks on physical cells over
 * the expanded schedule: races, reuse, written-before-read, tags (buffer, block, microbatch) types     over which atoms
 * each value is still a partial sum, split by rows, or split by features schedule  in every chunk every microbatch
 * forward then backward once, in order; sync on the last backward; update last */
#ifndef GAL_RUNTIME_PROGRAM_VERIFY_VERIFY_H
#define GAL_RUNTIME_PROGRAM_VERIFY_VERIFY_H

#include "runtime/program/program.h"

gal_code gal_verify_queues(gal_program *const *programs, uint32_t stage_count, gal_error *err);
gal_code gal_verify_clocks(gal_program *const *programs, uint32_t stage_count, gal_error *err);
gal_code gal_verify_types(gal_program *const *programs, uint32_t stage_count, gal_error *err);
gal_code gal_verify_schedule(gal_program *const *programs, uint32_t stage_count, gal_error *err);
gal_code gal_verify(gal_program *const *programs, uint32_t stage_count, gal_error *err); /* all of them */

#endif
