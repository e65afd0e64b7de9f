/* Documents that ship with the programs, found by kind and name. The texts are schemas/catalogue/<kind>s/<name>.json,
 * or words that say the document (cluster_words.h): a row of schemas/catalogue/<kind>s/words.tsv. embed.sh makes a C
 * source of them at build time, so nothing is looked for at run time. */
#ifndef GAL_SCHEMAS_CATALOGUE_H
#define GAL_SCHEMAS_CATALOGUE_H

#include <stddef.h>
#include <stdint.h>

typedef struct gal_catalogue_entry {
    const char *kind;  /* "model", "cluster" */
    const char *group; /* the folder below the kind's: "papers" for samples of publications; "" for all others */
    const char *name;  /* "gpt2-small" */
    const char *text;  /* the document, which begins with '{', or words */
} gal_catalogue_entry;

/* In order of kind, then group ("" first); in a group words in the order of their rows, then documents by name. */
extern const gal_catalogue_entry gal_catalogue_entries[];
extern const uint32_t gal_catalogue_entry_count;

/* The entry, or NULL. The name as it is, else the only entry whose name differs in case and punctuation alone
 * (gal_word_same): "LLaMA-3-8B" finds llama3-8b. */
const gal_catalogue_entry *gal_catalogue_find_entry(const char *kind, const char *name);
/* Its text, or NULL. */
const char *gal_catalogue_find(const char *kind, const char *name);

/* Names that a person may have meant by a word that finds nothing: those that begin with the word, else the nearest by
 * edits, else the longest that is part of it ("meta-llama/Llama-3-8B-hf"). Writes `did you mean "llama3-8b"?`, or `did
 * you mean one of gpt2-large, gpt2-medium?`, or "". */
void gal_catalogue_suggest(const char *kind, const char *word, char *text, size_t capacity);

/* The names of a kind with ", " between them; cut to capacity. */
void gal_catalogue_names(const char *kind, char *text, size_t capacity);

#endif
