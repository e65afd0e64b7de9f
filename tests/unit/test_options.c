#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "schemas/base/nearest.h"
#include "schemas/base/options.h"
#include "schemas/base/size.h"

typedef struct values {
    bool json;
    uint32_t verbose_count, steps, mode;
    uint64_t seed, memory_bytes;
    double risk;
    const char *output;
    gal_u32_list batches;
    gal_arguments arguments;
    gal_error err;
} values;

static const char *const mode_names[] = {"slow", "fast"};

static gal_code parse(values *v, int argc, const char **words)
{
    const gal_option options[] = {
        gal_option_flag("json", "one object", &v->json),
        gal_option_short('v', gal_option_count("verbose", "more", &v->verbose_count)),
        gal_option_u32("steps", "N", "steps", &v->steps, 1, 1000),
        gal_option_u64("seed", "N", "seed", &v->seed, 0, UINT64_MAX),
        gal_option_f64("risk", "Q", "risk", &v->risk, -1, 1),
        gal_option_bytes("memory", "BYTES", "memory", &v->memory_bytes, 1, UINT64_MAX),
        gal_option_u32_list("batch", "B,...", "batches", &v->batches, 1, 64),
        gal_option_short('o', gal_option_string("output", "FILE", "file", &v->output)),
        gal_option_enum("mode", "mode", &v->mode, mode_names, 2),
    };
    const gal_command command = {.program = "galplan",
                                 .command = "test",
                                 .summary = "Test.",
                                 .positional = "FILE",
                                 .positional_min = 1,
                                 .positional_max = 2,
                                 .options = options,
                                 .option_count = sizeof options / sizeof options[0]};
    char *argv[16];
    memcpy(argv, words, (size_t)argc * sizeof *argv);
    gal_code code = gal_options_parse(&command, argc, argv, &v->arguments, &v->err);
    if (code == GAL_OK && v->arguments.positional_count > 0) { /* argv dies here */
        words[0] = v->arguments.positional[0];
        words[1] = v->arguments.positional_count > 1 ? v->arguments.positional[1] : NULL;
    }
    return code;
}

#define PARSE(v, ...)                                                                                                  \
    parse(v, (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)), (const char *[]){__VA_ARGS__})

static void refuses_words(int argc, const char **words, const char *expected)
{
    values v = {0};
    assert_int_equal(parse(&v, argc, words), GAL_ERR_USAGE);
    assert_string_equal(v.err.text, expected);
}

#define REFUSES(expected, ...)                                                                                         \
    refuses_words((int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)), (const char *[]){__VA_ARGS__},        \
                  expected)

static void test_every_kind(void **state)
{
    (void)state;
    values v = {0};
    const char *words[] = {"test",
                           "--json",
                           "--steps",
                           "7",
                           "--seed=18446744073709551615",
                           "--risk=-2.5e-1",
                           "--memory",
                           "16GiB",
                           "a",
                           "--batch=1,2,64",
                           "-vv",
                           "-vo",
                           "out",
                           "--mode",
                           "Fast"};
    assert_int_equal(parse(&v, 15, words), GAL_OK);
    assert_true(v.json);
    assert_int_equal(v.steps, 7);
    assert_true(v.seed == UINT64_MAX);
    assert_true(v.risk == -0.25);
    assert_true(v.memory_bytes == UINT64_C(17179869184)); /* 16 * 2^30 */
    assert_int_equal(v.batches.count, 3);
    assert_int_equal(v.batches.value[2], 64);
    assert_int_equal(v.verbose_count, 3);
    assert_string_equal(v.output, "out");
    assert_int_equal(v.mode, 1);
    assert_int_equal(v.arguments.positional_count, 1);
    assert_string_equal(words[0], "a");
}

/* A value may follow its letter in the same word, behind flags too. */
static void test_attached_values(void **state)
{
    (void)state;
    values v = {0};
    assert_int_equal(PARSE(&v, "test", "a", "-vofile"), GAL_OK);
    assert_string_equal(v.output, "file");
    assert_int_equal(v.verbose_count, 1);
    v = (values){0};
    assert_int_equal(PARSE(&v, "test", "a", "-o-", "-vv"), GAL_OK);
    assert_string_equal(v.output, "-");
    assert_int_equal(v.verbose_count, 2);
}

static void test_defaults_and_ends(void **state)
{
    (void)state;
    values v = {.steps = 5, .memory_bytes = 1};
    const char *words[] = {"test", "-", "--", "--json"};
    assert_int_equal(parse(&v, 4, words), GAL_OK);
    assert_int_equal(v.steps, 5);
    assert_false(v.json);
    assert_string_equal(words[0], "-");
    assert_string_equal(words[1], "--json");
    v = (values){0};
    assert_int_equal(PARSE(&v, "test", "--help", "--nonsense"), GAL_OK);
    assert_true(v.arguments.help);
}

/* Only where there is one, whatever else is missing or wrong behind it. */
static void test_version(void **state)
{
    (void)state;
    gal_arguments arguments;
    gal_error err = {0};
    char program[] = "test", version[] = "--version", wrong[] = "--nonsense", misspelt[] = "--versoin";
    char *words[] = {program, version, wrong, NULL}, *near[] = {program, misspelt, NULL};
    gal_command command = {.program = "galrun", .version = "galrun 1", .positional = "PLAN", .positional_min = 1};
    assert_int_equal(gal_options_parse(&command, 3, words, &arguments, &err), GAL_OK);
    assert_true(arguments.version && !arguments.help);
    assert_int_equal(gal_options_parse(&command, 2, near, &arguments, &err), GAL_ERR_USAGE);
    assert_string_equal(err.text, "unknown option --versoin, did you mean --version?");
    command.version = NULL;
    err = (gal_error){0};
    assert_int_equal(gal_options_parse(&command, 2, words, &arguments, &err), GAL_ERR_USAGE);
    assert_string_equal(err.text, "unknown option --version");
}

static void test_bytes(void **state)
{
    (void)state;
    values v = {0};
    assert_int_equal(PARSE(&v, "test", "a", "--memory=512MiB"), GAL_OK);
    assert_int_equal(v.memory_bytes, 536870912); /* 512 * 2^20 */
    v = (values){0};
    assert_int_equal(PARSE(&v, "test", "a", "--memory=1000"), GAL_OK);
    assert_int_equal(v.memory_bytes, 1000);
    REFUSES("--memory: expected " GAL_SIZE_FORMS ", got \"16GX\"", "test", "a", "--memory=16GX");
    REFUSES("--memory: expected " GAL_SIZE_FORMS ", got \"\"", "test", "a", "--memory=");
    REFUSES("--memory: must be >= 1, got 0", "test", "a", "--memory=0");
}

static void test_refusals(void **state)
{
    (void)state;
    REFUSES("FILE is missing", "test");
    REFUSES("unexpected argument \"c\"", "test", "a", "b", "c");
    REFUSES("unknown option --step, did you mean --steps?", "test", "a", "--step", "3");
    REFUSES("unknown option --xylophone", "test", "a", "--xylophone");
    REFUSES("unknown option -x", "test", "a", "-x");
    REFUSES("--steps needs a value N", "test", "a", "--steps");
    REFUSES("--steps needs a value N", "test", "a", "--steps", "--json");
    REFUSES("-o needs a value FILE", "test", "a", "-o");
    REFUSES("unknown option -x", "test", "a", "-vxo", "file");
    REFUSES("--json takes no value", "test", "a", "--json=yes");
    REFUSES("--steps is given twice", "test", "a", "--steps", "1", "--steps", "2");
    REFUSES("--steps: must be <= 1000, got 1001", "test", "a", "--steps", "1001");
    REFUSES("--steps: expected a whole number, got \"-1\"", "test", "a", "--steps", "-1");
    REFUSES("--steps: expected a whole number, got \"3x\"", "test", "a", "--steps", "3x");
    REFUSES("--seed: expected a whole number, got \"18446744073709551616\"", "test", "a", "--seed",
            "18446744073709551616"); /* 2^64 */
    REFUSES("--risk: expected a number, got \"nan\"", "test", "a", "--risk", "nan");
    REFUSES("--risk: expected a number, got \"1e999\"", "test", "a", "--risk", "1e999");
    REFUSES("--risk: must be from -1 to 1, got 2", "test", "a", "--risk", "2");
    REFUSES("--batch: expected whole numbers with commas between them, got \"1,\"", "test", "a", "--batch", "1,");
    REFUSES("--batch: must be <= 64, got 1,65", "test", "a", "--batch", "1,65");
    REFUSES("--mode: expected one of slow, fast, got \"quick\"", "test", "a", "--mode", "quick");
    REFUSES("--mode: expected one of slow, fast, got \"fats\"; did you mean fast?", "test", "a", "--mode", "fats");
}

static void test_required(void **state)
{
    (void)state;
    const char *data = NULL;
    const gal_option options[] = {gal_option_required(gal_option_string("data", "FILE", "data", &data))};
    const gal_command command = {.program = "galrun", .summary = "s", .options = options, .option_count = 1};
    char name[] = "galrun";
    char *argv[] = {name, NULL};
    gal_arguments arguments;
    gal_error err = {0};
    assert_int_equal(gal_options_parse(&command, 1, argv, &arguments, &err), GAL_ERR_USAGE);
    assert_string_equal(err.text, "--data FILE is missing");
}

static void test_help(void **state)
{
    (void)state;
    bool json = false;
    const char *data = NULL;
    const gal_option options[] = {
        gal_option_short('d', gal_option_string("data", "FILE", "what to read", &data)),
        gal_option_flag("a-very-long-option-name-indeed", "wraps", &json),
    };
    const gal_command command = {.program = "galrun",
                                 .summary = "Train.",
                                 .positional = "PLAN",
                                 .options = options,
                                 .option_count = 2,
                                 .notes = "More.\n"};
    char text[1024] = {0};
    FILE *out = fmemopen(text, sizeof text - 1, "w");
    assert_non_null(out);
    gal_options_print_help(&command, out);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, "usage: galrun [options] PLAN\n\nTrain.\n\noptions:\n"
                              "  -d, --data FILE             what to read\n"
                              "      --a-very-long-option-name-indeed\n"
                              "                              wraps\n"
                              "  -h, --help                  print this and exit\n"
                              "\nMore.\n");
}

/* kitten -> sitting takes 3 edits; the words have at most 7 letters, so 2 are allowed. */
static void test_nearest(void **state)
{
    (void)state;
    assert_int_equal(gal_edits_between("steps", "steps"), 0);
    assert_int_equal(gal_edits_between("setps", "steps"), 1); /* one swap */
    assert_int_equal(gal_edits_between("kitten", "sitting"), GAL_EDITS_FAR);
    assert_int_equal(gal_edits_between("", "a"), GAL_EDITS_FAR);
    static const char *const names[] = {"hidden", NULL, "head_count"};
    assert_string_equal(gal_nearest_name("hiden", names, 3), "hidden");
    assert_null(gal_nearest_name("vocabulary", names, 3));
    char folded[GAL_WORD_BYTES];
    assert_true(gal_word_fold("Meta_Llama-3.1 8B.", folded));
    assert_string_equal(folded, "metallama3.18b");
    assert_false(gal_word_fold("-_.", folded));
    assert_string_equal(folded, "");
    assert_false(gal_word_fold("0123456789012345678901234567890123456789012345678901234567890123", folded)); /* 64 */
    assert_true(gal_word_same("ZeRO-3", "zero3"));
    assert_false(gal_word_same("2.5d", "25d"));
}

/* Each value once, in the order of their first times; a full list takes no more. */
static void test_listed_once(void **state)
{
    (void)state;
    gal_u32_list list = {.count = 2, .value = {7, 3}};
    gal_u32_list_add_once(&list, 3);
    gal_u32_list_add_once(&list, 5);
    assert_int_equal(list.count, 3);
    assert_int_equal(list.value[2], 5);
    for (uint32_t value = 100; value < 100 + 2 * GAL_U32_LIST_MAX; value++) {
        gal_u32_list_add_once(&list, value);
    }
    assert_int_equal(list.count, GAL_U32_LIST_MAX);
    assert_int_equal(list.value[GAL_U32_LIST_MAX - 1], 100 + GAL_U32_LIST_MAX - 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind),
        cmocka_unit_test(test_attached_values),
        cmocka_unit_test(test_defaults_and_ends),
        cmocka_unit_test(test_version),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_required),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_listed_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
