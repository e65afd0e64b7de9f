/* A file as a series of tokens. Three forms, told by the file itself:
 *   text            any other file that is UTF-8 (text_check.h): a token is a byte
 *   llm.c           256 int32 (magic, version, token count), then the tokens: uint16 after magic 20240520 and version 1
 *                   (GPT-2), uint32 after magic 20240801 and version 7 (Llama 3)
 *   Megatron-LM     NAME.idx beside NAME.bin; either may be named, or NAME alone. Index: "MMIDIDX\0\0", uint64 version
 * 1, a byte for the kind of number (1 uint8, 4 int32, 8 uint16), uint64 sequence count, uint64 document count (ends,
 * the first is 0), int32 lengths of the sequences, int64 offsets in bytes, int64 documents. Sequences lie one behind
 * another and are read as one series; ends of documents are tokens of it. A model that pads takes them one by one
 * (lines.h). Source: Megatron-LM, core/datasets/indexed_dataset.py, _IndexReader. */
#ifndef GAL_RUNTIME_TRAIN_TOKEN_FILE_H
#define GAL_RUNTIME_TRAIN_TOKEN_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schemas/base/status.h"

enum { GAL_TOKEN_PATH_BYTES = 4096 };

typedef struct gal_token_file {
    char path[GAL_TOKEN_PATH_BYTES]; /* of the file that holds the tokens */
    int descriptor;                  /* below 0: none */
    bool text, indexed;              /* indexed: of Megatron-LM */
    uint32_t token_bytes;            /* 1, 2 or 4 */
    uint64_t first_byte;             /* of the first token */
    uint64_t byte_count, token_count;
} gal_token_file;

/* Opens the file and checks every token. as_bytes: a file of no token form is taken as bytes, whatever it holds.
 * Afterwards gal_token_file_close, also on failure. GAL_ERR_SYSTEM: cannot be read; GAL_ERR_DOCUMENT: neither a token
 * file nor text, or a token outside [0, vocabulary) (with its position). */
gal_code gal_token_file_open(const char *path, uint32_t vocabulary, bool as_bytes, gal_token_file *out, gal_error *err);
void gal_token_file_close(gal_token_file *file);

/* The path of the .idx file beside an indexed file's tokens; false if it is too long. */
bool gal_token_file_index_path(const gal_token_file *file, char path[GAL_TOKEN_PATH_BYTES]);

/* Tokens [first, first + count). GAL_ERR_SYSTEM: the file has shrunk since it was opened, or cannot be read. */
gal_code gal_token_file_read(const gal_token_file *file, uint64_t first, size_t count, int32_t *out, gal_error *err);

/* Gives each(context, first, tokens, count) all tokens of [first, end) in turn; it may fail. */
gal_code gal_token_file_each(const gal_token_file *file, uint64_t first, uint64_t end,
                             gal_code (*each)(void *context, uint64_t first, const int32_t *tokens, size_t count,
                                              gal_error *err),
                             void *context, gal_error *err);

/* Gives each(context, first, end) the tokens [first, end) of every sequence of Megatron-LM's in turn; it may fail.
 * GAL_ERR_DOCUMENT: the file has none; GAL_ERR_SYSTEM: the index cannot be read any more. */
gal_code gal_token_file_sequences(const gal_token_file *file,
                                  gal_code (*each)(void *context, uint64_t first, uint64_t end, gal_error *err),
                                  void *context, gal_error *err);

#endif
