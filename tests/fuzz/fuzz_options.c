/* The command lines of all programs, by their own tables: the input's lines are the words, the first byte the program.
 * The Makefile links the programs' mains under other names and puts gal_options_run below in place of the library's,
 * which parses and then ends the program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/base/options.h"
#include "tests/fuzz/input.h"

enum { WORDS_MAX = 32 };

int gal_fuzz_main_galplan(int argc, char **argv);
int gal_fuzz_main_galrun(int argc, char **argv);
int gal_fuzz_main_galplan_profile(int argc, char **argv);

static FILE *nowhere;

static void require_words_of(int argc, char **argv, const gal_arguments *arguments)
{
    GAL_FUZZ_REQUIRE(arguments->positional_count < (uint32_t)argc);
    for (uint32_t i = 0; i < arguments->positional_count; i++) {
        bool is_found = false;
        for (int j = 1; j < argc; j++) {
            is_found = is_found || arguments->positional[i] == argv[j];
        }
        GAL_FUZZ_REQUIRE(is_found);
    }
}

bool __wrap_gal_options_run(const gal_command *command, int argc, char **argv, gal_arguments *out, int *exit_code);
bool __wrap_gal_options_run(const gal_command *command, int argc, char **argv, gal_arguments *out, int *exit_code)
{
    gal_error err = {0};
    gal_code code = gal_options_parse(command, argc, argv, out, &err);
    if (code != GAL_OK) {
        GAL_FUZZ_REQUIRE(code == GAL_ERR_USAGE && err.code == code);
        for (const char *c = err.text; *c != '\0'; c++) {
            GAL_FUZZ_REQUIRE((unsigned char)*c >= 0x20);
        }
    } else if (out->help) {
        gal_options_print_help(command, nowhere);
    } else if (out->version) {
        GAL_FUZZ_REQUIRE(command->version != NULL);
    } else {
        require_words_of(argc, argv, out);
        GAL_FUZZ_REQUIRE(out->positional_count >= command->positional_min);
        GAL_FUZZ_REQUIRE(out->positional_count <= command->positional_max);
    }
    *exit_code = (int)code;
    return false;
}

/* It would start the program again, under another environment. */
void __wrap_gal_blas_choose_kernels(char *const *argv);
void __wrap_gal_blas_choose_kernels(char *const *argv)
{
    (void)argv;
}

static int cut(char *text, char **words)
{
    int count = 0;
    words[count++] = text;
    for (char *c = text; *c != '\0' && count < WORDS_MAX; c++) {
        if (*c == '\n') {
            *c = '\0';
            words[count++] = c + 1;
        }
    }
    words[count] = NULL;
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
    char *words[WORDS_MAX + 1];
    char *text = malloc(byte_count + 1);
    GAL_FUZZ_REQUIRE(text != NULL);
    memcpy(text, bytes, byte_count);
    text[byte_count] = '\0';
    if (nowhere == NULL) {
        nowhere = fopen("/dev/null", "w");
        GAL_FUZZ_REQUIRE(nowhere != NULL);
    }
    const int count = cut(text, words);
    if (words[0][0] == 'r') {
        (void)gal_fuzz_main_galrun(count, words);
    } else if (words[0][0] == 'm') {
        (void)gal_fuzz_main_galplan_profile(count, words);
    } else if (count < 2 || strcmp(words[1], "profile") != 0) { /* galplan profile starts another program */
        (void)gal_fuzz_main_galplan(count, words);
    }
    free(text);
    return 0;
}
