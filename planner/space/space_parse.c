/* --space: words that say what is allowed. */
#include "planner/space/strategy_space.h"

#include <stdio.h>
#include <string.h>

#include "planner/space/words.h"
#include "schemas/base/nearest.h"

/* Pipelines are in every space: --pp chooses their degrees. The word is known because others list it beside the rest.
 */
static const char pipelines[] = "pp";

enum { SPACE_WORDS = 21 };

/* A word of --space and what it allows. */
typedef struct space_word {
    const char *name;
    bool *field;
} space_word;

static void list_words(gal_space *space, space_word words[SPACE_WORDS])
{
    const space_word list[SPACE_WORDS] = {{"dp", &space->axis[GAL_AXIS_DP]},
                                          {"sdp", &space->axis[GAL_AXIS_SDP]},
                                          {"zero1", &space->zero_stage[1]},
                                          {"zero2", &space->zero_stage[2]},
                                          {"zero3", &space->zero_stage[3]},
                                          {"tp", &space->axis[GAL_AXIS_TP]},
                                          {"sp", &space->sequence_parallel},
                                          {"ulysses", &space->axis[GAL_AXIS_ULYSSES]},
                                          {"ring", &space->axis[GAL_AXIS_RING]},
                                          {"zigzag", &space->axis[GAL_AXIS_ZIGZAG]},
                                          {"recompute", &space->recompute},
                                          {"selective", &space->selective},
                                          {"2d", &space->tp_grid[GAL_TP_2D]},
                                          {"2.5d", &space->tp_grid[GAL_TP_2P5D]},
                                          {"3d", &space->tp_grid[GAL_TP_3D]},
                                          {"keep", &space->keep_panels},
                                          {"stepped", &space->stepped},
                                          {"overlap", &space->overlap},
                                          {"bucket", &space->bucket},
                                          {"chunk", &space->chunk},
                                          {"offload", &space->offload}};
    memcpy(words, list, sizeof list);
}

static gal_code refuse_word(const space_word words[SPACE_WORDS], const char *word, gal_error *err)
{
    const char *names[SPACE_WORDS + 1];
    char known[GAL_ERROR_TEXT_BYTES / 2];
    for (uint32_t i = 0; i < SPACE_WORDS; i++) {
        names[i] = words[i].name;
    }
    names[SPACE_WORDS] = pipelines;
    gal_words_suggest(GAL_VOCABULARY_SPACE, word, names, SPACE_WORDS + 1, known, sizeof known);
    return gal_fail(err, GAL_ERR_USAGE, "--space: unknown axis '%s'; %s; 'galplan search --help' says words of others",
                    word, known);
}

static gal_code allow_list(const space_word words[SPACE_WORDS], const char *list, gal_error *err);

/* Allows what a word names. Words of others stand for one word here, or for several with commas between them. */
static gal_code allow_word(const space_word words[SPACE_WORDS], const char *word, gal_error *err)
{
    if (gal_word_same(word, pipelines)) {
        return GAL_OK;
    }
    for (uint32_t i = 0; i < SPACE_WORDS; i++) {
        if (gal_word_same(words[i].name, word)) {
            *words[i].field = true;
            return GAL_OK;
        }
    }
    const char *meaning = gal_words_meaning(GAL_VOCABULARY_SPACE, word);
    return meaning == NULL ? refuse_word(words, word, err) : allow_list(words, meaning, err);
}

static gal_code allow_list(const space_word words[SPACE_WORDS], const char *list, gal_error *err)
{
    gal_code code = GAL_OK;
    for (const char *at = list; at != NULL && code == GAL_OK;) {
        char word[GAL_WORD_BYTES];
        const char *comma = strchr(at, ',');
        const size_t length = comma == NULL ? strlen(at) : (size_t)(comma - at);
        (void)snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word), at);
        code = allow_word(words, word, err);
        at = comma == NULL ? NULL : comma + 1;
    }
    return code;
}

gal_code gal_space_parse(const char *text, gal_space *out, gal_error *err)
{
    gal_space space = {0};
    space_word words[SPACE_WORDS];
    memcpy(space.takeaway, out->takeaway, sizeof space.takeaway);
    list_words(&space, words);
    const gal_code code = allow_list(words, text, err);
    if (code != GAL_OK) {
        return code;
    }
    bool *zero = space.zero_stage;
    space.axis[GAL_AXIS_SDP] = space.axis[GAL_AXIS_SDP] || zero[1] || zero[2] || zero[3];
    if (space.axis[GAL_AXIS_SDP] && !zero[1] && !zero[2] && !zero[3]) {
        zero[1] = zero[2] = zero[3] = true;
    }
    *out = space;
    return GAL_OK;
}
