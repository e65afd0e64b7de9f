/* Finding the document that a person named. For schemas alone. */
#ifndef GAL_SCHEMAS_DOCUMENT_OPEN_H
#define GAL_SCHEMAS_DOCUMENT_OPEN_H

#include "schemas/document.h"

/* path is, in this order: "-" (stdin); a file; for a model, a folder of Hugging Face that holds a config.json; the name
 * of a document that ships, without regard to case and punctuation, which has no "/". GAL_ERR_USAGE if it is none of
 * these: the error suggests the nearest name and says where all names are listed. Other errors as gal_json_open. */
gal_code gal_document_open(gal_document_kind kind, const char *path, gal_json_doc **out, gal_error *err);

#endif
