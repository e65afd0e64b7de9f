/* The certificate of a plan as JSON, for schemas/plan.c. */
#ifndef GAL_SCHEMAS_CERTIFICATE_H
#define GAL_SCHEMAS_CERTIFICATE_H

#include "schemas/plan.h"

void gal_certificate_read_at(const gal_json_cursor *at, gal_certificate *out);
/* The members of the object, which is open. */
void gal_certificate_write_at(gal_json_writer *out, const gal_certificate *certificate);

#endif
