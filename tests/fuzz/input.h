/* Fuzzing: what the targets share. Each tests/fuzz/fuzz_<reader>.c is one program with one LLVMFuzzerTestOneInput;
 * its main is libFuzzer's (make fuzz) or that of replay.c (make check, any compiler), which runs the committed corpus.
 *
 * An input is refused with one clear line, or accepted; then what was read must be written and read again to the same
 * bytes. A target aborts where that does not hold; a failed GAL_ASSERT aborts too. */
#ifndef GAL_TESTS_FUZZ_INPUT_H
#define GAL_TESTS_FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/base/json.h"
#include "schemas/base/status.h"
#include "schemas/document.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count);

#define GAL_FUZZ_REQUIRE(condition) ((condition) ? (void)0 : gal_fuzz_failed(#condition, __FILE__, __LINE__))
_Noreturn void gal_fuzz_failed(const char *condition, const char *file, int line);

/* The line of a refusal: code and record agree, one line of valid UTF-8 without control characters. */
void gal_fuzz_require_refusal(gal_code code, const gal_error *err);

/* Opens the input as JSON, or NULL where it is refused (and says so clearly). */
gal_json_doc *gal_fuzz_open(const uint8_t *bytes, size_t byte_count);

/* Reads the input into *document (zeroed by the caller). If it is accepted, requires that it is written, read into
 * *again and written to equal bytes, and returns true: the caller releases both. */
bool gal_fuzz_round_trip(gal_document_kind kind, const uint8_t *bytes, size_t byte_count, void *document, void *again);

/* The path of a file in a folder of this process, which is removed at exit. The text stays valid. */
const char *gal_fuzz_path(const char *name);
/* Replaces that file. */
void gal_fuzz_write(const char *path, const void *bytes, size_t byte_count);

#endif
