#include "schemas/base/options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/base/checked.h"
#include "schemas/base/nearest.h"
#include "schemas/base/size.h"

typedef struct parser {
    const gal_command *command;
    gal_error *err;
    bool given[GAL_OPTIONS_MAX];
} parser;

void gal_u32_list_add_once(gal_u32_list *list, uint32_t value)
{
    bool known = false;
    for (uint32_t i = 0; i < list->count; i++) {
        known = known || list->value[i] == value;
    }
    if (!known && list->count < GAL_U32_LIST_MAX) {
        list->value[list->count++] = value;
    }
}

/* ---- reading values ---- */

/* Decimal digits alone; *rest is what follows them. */
static bool read_digits(const char *text, uint64_t *value, const char **rest)
{
    uint64_t sum = 0;
    if (*text < '0' || *text > '9') {
        return false;
    }
    for (; *text >= '0' && *text <= '9'; text++) {
        if (!gal_checked_mul(sum, 10, &sum) || !gal_checked_add(sum, (uint64_t)(*text - '0'), &sum)) {
            return false;
        }
    }
    *value = sum;
    *rest = text;
    return true;
}

static gal_code refuse(const gal_option *option, const char *expected, const char *text, gal_error *err)
{
    return gal_fail(err, GAL_ERR_USAGE, "--%s: expected %s, got \"%s\"", option->name, expected, text);
}

static gal_code check_whole(const gal_option *option, uint64_t value, const char *text, gal_error *err)
{
    if (value < option->min) {
        return gal_fail(err, GAL_ERR_USAGE, "--%s: must be >= %llu, got %s", option->name,
                        (unsigned long long)option->min, text);
    }
    if (value > option->max) {
        return gal_fail(err, GAL_ERR_USAGE, "--%s: must be <= %llu, got %s", option->name,
                        (unsigned long long)option->max, text);
    }
    return GAL_OK;
}

static gal_code read_whole(const gal_option *option, const char *text, uint64_t *value, gal_error *err)
{
    const char *rest;
    if (option->kind == GAL_OPTION_BYTES) {
        if (!gal_size_parse(text, value)) {
            return refuse(option, GAL_SIZE_FORMS, text, err);
        }
    } else if (!read_digits(text, value, &rest) || *rest != '\0') {
        return refuse(option, "a whole number", text, err);
    }
    return check_whole(option, *value, text, err);
}

static gal_code read_f64(const gal_option *option, const char *text, gal_error *err)
{
    char *rest;
    double value = strtod(text, &rest);
    bool is_plain = text[0] != '\0' && text[strspn(text, "0123456789+-.eE")] == '\0';
    if (!is_plain || *rest != '\0' || !isfinite(value)) {
        return refuse(option, "a number", text, err);
    }
    if (value < option->f64_min || value > option->f64_max) {
        return gal_fail(err, GAL_ERR_USAGE, "--%s: must be from %g to %g, got %s", option->name, option->f64_min,
                        option->f64_max, text);
    }
    *(double *)option->target = value;
    return GAL_OK;
}

static gal_code read_list(const gal_option *option, const char *text, gal_error *err)
{
    gal_u32_list list = {0};
    const char *rest = text;
    for (;;) {
        uint64_t value;
        if (list.count == GAL_U32_LIST_MAX) {
            return gal_fail(err, GAL_ERR_USAGE, "--%s: at most %d values", option->name, GAL_U32_LIST_MAX);
        }
        if (!read_digits(rest, &value, &rest) || (*rest != ',' && *rest != '\0')) {
            return refuse(option, "whole numbers with commas between them", text, err);
        }
        gal_code code = check_whole(option, value, text, err);
        if (code != GAL_OK) {
            return code;
        }
        list.value[list.count++] = (uint32_t)value;
        if (*rest == '\0') {
            break;
        }
        rest++;
    }
    *(gal_u32_list *)option->target = list;
    return GAL_OK;
}

/* Without regard to case and punctuation, which tell no two names of an option apart. */
static gal_code read_enum(const gal_option *option, const char *text, gal_error *err)
{
    char list[512] = "one of ";
    for (uint32_t i = 0; i < option->name_count; i++) {
        if (gal_word_same(option->names[i], text)) {
            *(uint32_t *)option->target = i;
            return GAL_OK;
        }
        size_t used = strlen(list);
        (void)snprintf(list + used, sizeof list - used, "%s%s", i == 0 ? "" : ", ", option->names[i]);
    }
    const char *nearest = gal_nearest_name(text, option->names, option->name_count);
    return nearest == NULL ? refuse(option, list, text, err)
                           : gal_fail(err, GAL_ERR_USAGE, "--%s: expected %s, got \"%s\"; did you mean %s?",
                                      option->name, list, text, nearest);
}

static gal_code store(const gal_option *option, const char *text, gal_error *err)
{
    uint64_t whole = 0;
    gal_code code = GAL_OK;
    switch (option->kind) {
    case GAL_OPTION_FLAG:
        *(bool *)option->target = true;
        break;
    case GAL_OPTION_COUNT:
        ++*(uint32_t *)option->target;
        break;
    case GAL_OPTION_U32:
        code = read_whole(option, text, &whole, err);
        if (code == GAL_OK) {
            *(uint32_t *)option->target = (uint32_t)whole;
        }
        break;
    case GAL_OPTION_U64:
    case GAL_OPTION_BYTES:
        code = read_whole(option, text, &whole, err);
        if (code == GAL_OK) {
            *(uint64_t *)option->target = whole;
        }
        break;
    case GAL_OPTION_F64:
        code = read_f64(option, text, err);
        break;
    case GAL_OPTION_STRING:
        *(const char **)option->target = text;
        break;
    case GAL_OPTION_U32_LIST:
        code = read_list(option, text, err);
        break;
    case GAL_OPTION_ENUM:
        code = read_enum(option, text, err);
        break;
    }
    return code;
}

/* ---- the command line ---- */

static bool takes_value(const gal_option *option)
{
    return option->kind != GAL_OPTION_FLAG && option->kind != GAL_OPTION_COUNT;
}

static gal_code give(parser *p, uint32_t index, const char *value)
{
    const gal_option *option = &p->command->options[index];
    if (p->given[index] && option->kind != GAL_OPTION_COUNT) {
        return gal_fail(p->err, GAL_ERR_USAGE, "--%s is given twice", option->name);
    }
    p->given[index] = true;
    return store(option, value, p->err);
}

static gal_code unknown_long(const parser *p, const char *name)
{
    const char *names[GAL_OPTIONS_MAX + 2];
    for (uint32_t i = 0; i < p->command->option_count; i++) {
        names[i] = p->command->options[i].name;
    }
    names[p->command->option_count] = "help";
    names[p->command->option_count + 1] = "version";
    const uint32_t added = p->command->version != NULL ? 2 : 1;
    const char *nearest = gal_nearest_name(name, names, p->command->option_count + added);
    if (nearest == NULL) {
        return gal_fail(p->err, GAL_ERR_USAGE, "unknown option --%s", name);
    }
    return gal_fail(p->err, GAL_ERR_USAGE, "unknown option --%s, did you mean --%s?", name, nearest);
}

/* text is behind the dashes: "name" or "name=value"; next is the word after it or NULL. *used_next: it was the value.
 */
static gal_code parse_long(parser *p, const char *text, const char *next, bool *used_next)
{
    size_t length = strcspn(text, "=");
    const char *value = text[length] == '=' ? text + length + 1 : NULL;
    char name[64];
    (void)snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name), text);
    for (uint32_t i = 0; i < p->command->option_count; i++) {
        const gal_option *option = &p->command->options[i];
        if (strcmp(option->name, name) != 0) {
            continue;
        }
        if (!takes_value(option)) {
            return value == NULL ? give(p, i, NULL)
                                 : gal_fail(p->err, GAL_ERR_USAGE, "--%s takes no value", option->name);
        }
        if (value == NULL && (next == NULL || strncmp(next, "--", 2) == 0)) {
            return gal_fail(p->err, GAL_ERR_USAGE, "--%s needs a value %s", option->name, option->argument);
        }
        *used_next = value == NULL;
        return give(p, i, value == NULL ? next : value);
    }
    return unknown_long(p, name);
}

static const gal_option *find_letter(const gal_command *command, char letter, uint32_t *index)
{
    for (uint32_t i = 0; i < command->option_count; i++) {
        if (command->options[i].letter == letter) {
            *index = i;
            return &command->options[i];
        }
    }
    return NULL;
}

/* letters is behind the dash: flags, the last of which may have a value: the rest of the word or, without a rest, the
 * next word. */
static gal_code parse_letters(parser *p, const char *letters, const char *next, bool *used_next)
{
    for (const char *c = letters; *c != '\0'; c++) {
        uint32_t index = 0;
        const gal_option *option = find_letter(p->command, *c, &index);
        if (option == NULL) {
            return gal_fail(p->err, GAL_ERR_USAGE, "unknown option -%c", *c);
        }
        if (takes_value(option)) {
            *used_next = c[1] == '\0';
            const char *value = *used_next ? next : c + 1;
            return value == NULL ? gal_fail(p->err, GAL_ERR_USAGE, "-%c needs a value %s", *c, option->argument)
                                 : give(p, index, value);
        }
        gal_code code = give(p, index, NULL);
        if (code != GAL_OK) {
            return code;
        }
    }
    return GAL_OK;
}

static gal_code check_counts(const parser *p, uint32_t positional_count)
{
    const gal_command *command = p->command;
    for (uint32_t i = 0; i < command->option_count; i++) {
        if (command->options[i].required && !p->given[i]) {
            return gal_fail(p->err, GAL_ERR_USAGE, "--%s %s is missing", command->options[i].name,
                            command->options[i].argument == NULL ? "" : command->options[i].argument);
        }
    }
    if (positional_count < command->positional_min) {
        return gal_fail(p->err, GAL_ERR_USAGE, "%s is missing", command->positional);
    }
    return GAL_OK;
}

gal_code gal_options_parse(const gal_command *command, int argc, char **argv, gal_arguments *out, gal_error *err)
{
    parser p = {.command = command, .err = err};
    gal_arguments found = {.positional = argv + (argc > 0)};
    bool only_positional = false;
    GAL_ASSERT(command->option_count <= GAL_OPTIONS_MAX);
    for (int i = 1; i < argc; i++) {
        char *word = argv[i];
        const char *next = i + 1 < argc ? argv[i + 1] : NULL;
        bool used_next = false;
        gal_code code = GAL_OK;
        if (only_positional || word[0] != '-' || word[1] == '\0') {
            if (found.positional_count == command->positional_max) {
                return gal_fail(err, GAL_ERR_USAGE, "unexpected argument \"%s\"", word);
            }
            found.positional[found.positional_count++] = word;
        } else if (strcmp(word, "--") == 0) {
            only_positional = true;
        } else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            *out = (gal_arguments){.help = true};
            return GAL_OK;
        } else if (strcmp(word, "--version") == 0 && command->version != NULL) {
            *out = (gal_arguments){.version = true};
            return GAL_OK;
        } else if (word[1] == '-') {
            code = parse_long(&p, word + 2, next, &used_next);
        } else {
            code = parse_letters(&p, word + 1, next, &used_next);
        }
        if (code != GAL_OK) {
            return code;
        }
        i += used_next;
    }
    gal_code code = check_counts(&p, found.positional_count);
    if (code == GAL_OK) {
        *out = found;
    }
    return code;
}

int gal_options_end(const char *program, const char *command, gal_code code, const gal_error *err)
{
    if (err->code != GAL_OK) {
        (void)fprintf(stderr, "%s: error: %s\n", program, err->text);
    }
    if (err->code == GAL_ERR_USAGE) {
        (void)fprintf(stderr, "try '%s%s%s --help'\n", program, command == NULL ? "" : " ",
                      command == NULL ? "" : command);
    }
    if (fflush(stdout) != 0 || ferror(stdout) != 0) {
        (void)fprintf(stderr, "%s: error: cannot write to stdout\n", program);
        return (int)GAL_ERR_SYSTEM;
    }
    return (int)code;
}

bool gal_options_run(const gal_command *command, int argc, char **argv, gal_arguments *out, int *exit_code)
{
    gal_error err = {0};
    *exit_code = GAL_OK;
    if (argc == 2 && strcmp(argv[1], "--man") == 0) {
        gal_options_print_man(command, stdout);
        return false;
    }
    if (argc == 2 && strcmp(argv[1], "--completion") == 0) {
        gal_options_print_completion(command, stdout);
        return false;
    }
    gal_code code = gal_options_parse(command, argc, argv, out, &err);
    if (code == GAL_OK && out->help) {
        gal_options_print_help(command, stdout);
    } else if (code == GAL_OK && out->version) {
        (void)printf("%s\n", command->version);
    }
    if (code != GAL_OK || out->help || out->version) {
        *exit_code = gal_options_end(command->program, command->command, code, &err);
        return false;
    }
    return true;
}

/* ---- the table ---- */

gal_option gal_option_flag(const char *name, const char *help, bool *target)
{
    return (gal_option){.name = name, .help = help, .kind = GAL_OPTION_FLAG, .target = target};
}

gal_option gal_option_count(const char *name, const char *help, uint32_t *target)
{
    return (gal_option){.name = name, .help = help, .kind = GAL_OPTION_COUNT, .target = target};
}

static gal_option whole_option(gal_option_kind kind, const char *name, const char *argument, const char *help,
                               void *target, uint64_t min, uint64_t max)
{
    return (gal_option){
        .name = name, .argument = argument, .help = help, .kind = kind, .target = target, .min = min, .max = max};
}

gal_option gal_option_u32(const char *name, const char *argument, const char *help, uint32_t *target, uint32_t min,
                          uint32_t max)
{
    return whole_option(GAL_OPTION_U32, name, argument, help, target, min, max);
}

gal_option gal_option_u64(const char *name, const char *argument, const char *help, uint64_t *target, uint64_t min,
                          uint64_t max)
{
    return whole_option(GAL_OPTION_U64, name, argument, help, target, min, max);
}

gal_option gal_option_bytes(const char *name, const char *argument, const char *help, uint64_t *target, uint64_t min,
                            uint64_t max)
{
    return whole_option(GAL_OPTION_BYTES, name, argument, help, target, min, max);
}

gal_option gal_option_u32_list(const char *name, const char *argument, const char *help, gal_u32_list *target,
                               uint32_t min, uint32_t max)
{
    return whole_option(GAL_OPTION_U32_LIST, name, argument, help, target, min, max);
}

gal_option gal_option_f64(const char *name, const char *argument, const char *help, double *target, double min,
                          double max)
{
    return (gal_option){.name = name,
                        .argument = argument,
                        .help = help,
                        .kind = GAL_OPTION_F64,
                        .target = target,
                        .f64_min = min,
                        .f64_max = max};
}

gal_option gal_option_string(const char *name, const char *argument, const char *help, const char **target)
{
    return (gal_option){
        .name = name, .argument = argument, .help = help, .kind = GAL_OPTION_STRING, .target = (void *)target};
}

gal_option gal_option_enum(const char *name, const char *help, uint32_t *target, const char *const *names,
                           uint32_t name_count)
{
    return (gal_option){.name = name,
                        .argument = "NAME",
                        .help = help,
                        .kind = GAL_OPTION_ENUM,
                        .target = target,
                        .names = names,
                        .name_count = name_count};
}

gal_option gal_option_short(char letter, gal_option option)
{
    option.letter = letter;
    return option;
}

gal_option gal_option_hidden(gal_option option)
{
    option.hidden = true;
    return option;
}

gal_option gal_option_required(gal_option option)
{
    option.required = true;
    return option;
}
