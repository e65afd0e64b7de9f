/* What galrun prints on stdout, and with -v at the end of a run on stderr. */
#ifndef GAL_RUNTIME_CLI_REPORT_H
#define GAL_RUNTIME_CLI_REPORT_H

#include <stdio.h>

#include "runtime/train/train.h"
#include "schemas/base/log.h"

/* One info line before a run: what is trained, and by how many devices. */
void gal_report_start(const gal_plan *plan, const gal_train_options *options);

/* The result of a run: losses, predicted against measured. */
void gal_report_summary(const gal_plan *plan, const gal_train_summary *summary, const char *save_directory, FILE *out);

/* Where the seconds of a step went, what of each stream's communication was exposed, and what the communicators cost:
 * detail lines. Nothing for one rank. */
void gal_report_communication(const gal_train_summary *summary, const gal_log *log);
/* What of a GPU's memory is taken, and by what; says nothing of the host. */
void gal_report_device(const gal_train_summary *summary, const gal_log *log);

/* --dry-run: the stages as lowered, their bytes, and what would be trained. GAL_ERR_SYSTEM, GAL_ERR_DOCUMENT (data). */
gal_code gal_report_dry_run(const gal_plan *plan, const gal_train_options *options, FILE *out, gal_error *err);

#endif
