/* The table of options as people and bash read it: help, manual page, completion. */
#include <ctype.h>
#include <string.h>

#include "schemas/base/options.h"
#include "schemas/base/program.h"
#include "schemas/base/size.h"

enum { HELP_COLUMN = 30, LEFT_BYTES = 128, NAMES_BYTES = 512 };

static const gal_option help_option = {
    .name = "help", .letter = 'h', .help = "print this and exit", .kind = GAL_OPTION_FLAG};

static const gal_option version_option = {
    .name = "version", .help = "print version and libraries and exit", .kind = GAL_OPTION_FLAG};

static uint32_t listed_count(const gal_command *command)
{
    return command->option_count + (command->version != NULL ? 2 : 1);
}

/* --help is the last, --version before it. */
static const gal_option *option_at(const gal_command *command, uint32_t index)
{
    if (index + 1 == listed_count(command)) {
        return &help_option;
    }
    return index < command->option_count ? &command->options[index] : &version_option;
}

/* "one of gpipe, 1f1b", or NULL. */
static const char *enum_names(const gal_option *option, const char *begin, const char *between, char *text)
{
    size_t used = (size_t)snprintf(text, NAMES_BYTES, "%s", begin);
    if (option->kind != GAL_OPTION_ENUM) {
        return NULL;
    }
    for (uint32_t i = 0; i < option->name_count && used < NAMES_BYTES; i++) {
        used += (size_t)snprintf(text + used, NAMES_BYTES - used, "%s%s", i == 0 ? "" : between, option->names[i]);
    }
    return text;
}

static bool takes_size(const gal_command *command)
{
    bool any = false;
    for (uint32_t i = 0; i < command->option_count; i++) {
        any = any || command->options[i].kind == GAL_OPTION_BYTES;
    }
    return any;
}

/* ---- help ---- */

static void print_option(FILE *out, const gal_option *option)
{
    char left[LEFT_BYTES], names[NAMES_BYTES];
    char short_form[8] = "    ";
    if (option->letter != 0) {
        (void)snprintf(short_form, sizeof short_form, "-%c, ", option->letter);
    }
    (void)snprintf(left, sizeof left, "  %s--%s%s%s", short_form, option->name, option->argument == NULL ? "" : " ",
                   option->argument == NULL ? "" : option->argument);
    if (strlen(left) >= HELP_COLUMN) {
        (void)fprintf(out, "%s\n%*s%s\n", left, HELP_COLUMN, "", option->help);
    } else {
        (void)fprintf(out, "%-*s%s\n", HELP_COLUMN, left, option->help);
    }
    if (enum_names(option, "one of ", ", ", names) != NULL) {
        (void)fprintf(out, "%*s%s\n", HELP_COLUMN, "", names);
    }
}

void gal_options_print_help(const gal_command *command, FILE *out)
{
    (void)fprintf(out, "usage: %s%s%s [options]%s%s\n\n%s\n\noptions:\n", command->program,
                  command->command == NULL ? "" : " ", command->command == NULL ? "" : command->command,
                  command->positional == NULL ? "" : " ", command->positional == NULL ? "" : command->positional,
                  command->summary);
    for (uint32_t i = 0; i < listed_count(command); i++) {
        if (!option_at(command, i)->hidden) {
            print_option(out, option_at(command, i));
        }
    }
    if (takes_size(command)) {
        (void)fprintf(out, "\n%s", GAL_SIZE_HELP);
    }
    if (command->notes != NULL) {
        (void)fprintf(out, "\n%s", command->notes);
    }
    if (command->appendix != NULL) {
        (void)fprintf(out, "\n%s", command->appendix);
    }
}

/* ---- manual page ---- */

void gal_man_print(FILE *out, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        if ((*c == '.' || *c == '\'') && (c == text || c[-1] == '\n')) {
            (void)fputs("\\&", out);
        }
        (void)(*c == '-' ? fputs("\\-", out) : *c == '\\' ? fputs("\\e", out) : fputc(*c, out));
    }
}

void gal_man_title(FILE *out, const char *program, const char *command)
{
    (void)fputs(".TH ", out);
    for (const char *part = program; part != NULL; part = part == program ? command : NULL) {
        (void)fputs(part == program ? "" : "\\-", out);
        for (const char *c = part; *c != '\0'; c++) {
            (void)(*c == '-' ? fputs("\\-", out) : fputc(toupper((unsigned char)*c), out));
        }
    }
    (void)fputs(" 1 \"\" galplan \"User Commands\"\n", out);
}

void gal_man_lines(FILE *out, const char *heading, const char *text)
{
    (void)fprintf(out, ".SH %s\n.nf\n", heading);
    gal_man_print(out, text);
    (void)fputs(".fi\n", out);
}

static void print_man_option(FILE *out, const gal_option *option)
{
    char names[NAMES_BYTES];
    (void)fputs(".TP\n\\fB", out);
    if (option->letter != 0) {
        (void)fprintf(out, "\\-%c\\fR, \\fB", option->letter);
    }
    (void)fputs("\\-\\-", out);
    gal_man_print(out, option->name);
    (void)fputs("\\fR", out);
    if (option->argument != NULL) {
        (void)fputs(" \\fI", out);
        gal_man_print(out, option->argument);
        (void)fputs("\\fR", out);
    }
    (void)fputs("\n", out);
    gal_man_print(out, option->help);
    if (enum_names(option, ": one of ", ", ", names) != NULL) {
        gal_man_print(out, names);
    }
    (void)fputs("\n", out);
}

void gal_options_print_man(const gal_command *command, FILE *out)
{
    gal_man_title(out, command->program, command->command);
    (void)fputs(".SH NAME\n", out);
    gal_man_print(out, command->program);
    (void)fprintf(out, "%s%s \\- ", command->command == NULL ? "" : "\\-",
                  command->command == NULL ? "" : command->command);
    gal_man_print(out, command->summary);
    (void)fputs("\n.SH SYNOPSIS\n.B ", out);
    gal_man_print(out, command->program);
    (void)fprintf(out, "%s%s\n[options]\n", command->command == NULL ? "" : " ",
                  command->command == NULL ? "" : command->command);
    if (command->positional != NULL) {
        gal_man_print(out, command->positional);
        (void)fputs("\n", out);
    }
    (void)fputs(".SH OPTIONS\n", out);
    for (uint32_t i = 0; i < listed_count(command); i++) {
        if (!option_at(command, i)->hidden) {
            print_man_option(out, option_at(command, i));
        }
    }
    if (takes_size(command)) {
        gal_man_lines(out, "SIZES", GAL_SIZE_HELP);
    }
    if (command->notes != NULL) {
        gal_man_lines(out, "NOTES", command->notes);
    }
    if (command->appendix != NULL) {
        gal_man_lines(out, "MORE", command->appendix);
    }
    gal_man_lines(out, "EXIT STATUS", gal_exit_codes);
    (void)fputs(".SH SEE ALSO\n.BR galplan (1),\n.BR galrun (1)\n", out);
}

/* ---- bash completion ---- */

/* The function answers with words for (command, word before), or fails: then bash offers files. */
void gal_completion_begin(const char *program, FILE *out)
{
    (void)fprintf(out, "# bash completion of %s, printed by '%s --completion'\n_%s_words()\n{\n    case \"$1 $2\" in\n",
                  program, program, program);
}

void gal_completion_end(const char *program, bool has_commands, FILE *out)
{
    static const char tail[] =
        "    *) return 1 ;;\n    esac\n}\n_%s()\n{\n"
        "    local words command='' current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
        "%s    COMPREPLY=()\n"
        "    words=$(_%s_words \"$command\" \"$previous\") || return 0\n"
        "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n}\n"
        "complete -o bashdefault -o default -F _%s %s\n";
    static const char pick[] = "    [[ $COMP_CWORD -gt 1 ]] && command=${COMP_WORDS[1]}\n";
    (void)fprintf(out, tail, program, has_commands ? pick : "", program, program, program);
}

static void print_values(FILE *out, const char *command, const gal_option *option)
{
    char names[NAMES_BYTES];
    if (option->argument == NULL) {
        return;
    }
    (void)fprintf(out, "    '%s --%s'", command, option->name);
    if (option->letter != 0) {
        (void)fprintf(out, " | '%s -%c'", command, option->letter);
    }
    if (enum_names(option, "", " ", names) != NULL) {
        (void)fprintf(out, ") echo '%s' ;;\n", names);
    } else {
        (void)fputs(") return 1 ;;\n", out);
    }
}

void gal_options_print_completion(const gal_command *command, FILE *out)
{
    const bool whole = command->command == NULL;
    const char *name = whole ? "" : command->command;
    if (whole) {
        gal_completion_begin(command->program, out);
    }
    for (uint32_t i = 0; i < command->option_count; i++) {
        if (!command->options[i].hidden) {
            print_values(out, name, &command->options[i]);
        }
    }
    (void)fprintf(out, "    '%s '*) echo '", name);
    for (uint32_t i = 0; i < listed_count(command); i++) {
        const gal_option *option = option_at(command, i);
        if (option->hidden) {
            continue;
        }
        (void)fprintf(out, "%s--%s", i == 0 ? "" : " ", option->name);
        if (option->letter != 0) {
            (void)fprintf(out, " -%c", option->letter);
        }
    }
    (void)fputs("' ;;\n", out);
    if (whole) {
        gal_completion_end(command->program, false, out);
    }
}
