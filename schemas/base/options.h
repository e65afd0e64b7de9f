/* The command line, by table: what every program here accepts is a gal_command and an array of gal_option.
 *
 *     uint32_t step_count = 0;
 *     const char *data_path = NULL;
 *     const gal_option options[] = {
 *         gal_option_required(gal_option_string("data", "FILE", "text or token file to train on", &data_path)),
 *         gal_option_u32("steps", "N", "optimizer steps", &step_count, 1, 1000000000),
 *     };
 *     const gal_command command = {.program = "galrun", .summary = "Train by a plan.", .positional = "PLAN",
 *                                  .positional_min = 1, .positional_max = 1,
 *                                  .options = options, .option_count = sizeof options / sizeof options[0]};
 *     gal_arguments arguments;
 *     int exit_code;
 *     if (!gal_options_run(&command, argc, argv, &arguments, &exit_code)) {
 *         return exit_code;
 *     }
 *
 * Accepted: --name value, --name=value, -x value, -xvalue, flags bundled (-qv, -vv), "--" ends the options, "-" is
 * positional. Refused: unknown names (the nearest is suggested), an option given twice, values out of bounds, a missing
 * value. A target keeps what the caller put there unless its option is given: that is the default. */
#ifndef GAL_SCHEMAS_BASE_OPTIONS_H
#define GAL_SCHEMAS_BASE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "schemas/base/status.h"

enum { GAL_U32_LIST_MAX = 64, GAL_OPTIONS_MAX = 64 };

typedef struct gal_u32_list {
    uint32_t count;
    uint32_t value[GAL_U32_LIST_MAX];
} gal_u32_list;

/* Behind the others, unless it is among them or the list is full. */
void gal_u32_list_add_once(gal_u32_list *list, uint32_t value);

typedef enum gal_option_kind {
    GAL_OPTION_FLAG,     /* bool */
    GAL_OPTION_COUNT,    /* uint32_t: how often it was given (-v, -vv) */
    GAL_OPTION_U32,      /* uint32_t */
    GAL_OPTION_U64,      /* uint64_t */
    GAL_OPTION_F64,      /* double, finite */
    GAL_OPTION_STRING,   /* const char *, into argv */
    GAL_OPTION_BYTES,    /* uint64_t: a size (schemas/base/size.h) */
    GAL_OPTION_U32_LIST, /* gal_u32_list: 1,2,4 */
    GAL_OPTION_ENUM      /* uint32_t: index into names */
} gal_option_kind;

/* Built by the functions below, which tie the kind to the type of the target. Bounds are inclusive. */
typedef struct gal_option {
    const char *name;     /* without dashes */
    char letter;          /* of the short form; 0: none */
    const char *argument; /* what help calls the value; NULL for flags */
    const char *help;
    gal_option_kind kind;
    bool required;
    bool hidden; /* accepted, but not listed */
    void *target;
    uint64_t min, max;        /* U32, U64, BYTES, U32_LIST */
    double f64_min, f64_max;  /* F64 */
    const char *const *names; /* ENUM */
    uint32_t name_count;
} gal_option;

gal_option gal_option_flag(const char *name, const char *help, bool *target);
gal_option gal_option_count(const char *name, const char *help, uint32_t *target);
gal_option gal_option_u32(const char *name, const char *argument, const char *help, uint32_t *target, uint32_t min,
                          uint32_t max);
gal_option gal_option_u64(const char *name, const char *argument, const char *help, uint64_t *target, uint64_t min,
                          uint64_t max);
gal_option gal_option_f64(const char *name, const char *argument, const char *help, double *target, double min,
                          double max);
gal_option gal_option_string(const char *name, const char *argument, const char *help, const char **target);
gal_option gal_option_bytes(const char *name, const char *argument, const char *help, uint64_t *target, uint64_t min,
                            uint64_t max);
gal_option gal_option_u32_list(const char *name, const char *argument, const char *help, gal_u32_list *target,
                               uint32_t min, uint32_t max);
gal_option gal_option_enum(const char *name, const char *help, uint32_t *target, const char *const *names,
                           uint32_t name_count);
/* The same option with a short form, or one that must be given. */
gal_option gal_option_short(char letter, gal_option option);
gal_option gal_option_required(gal_option option);
/* The same option left out of help, manual page and completion: of work that is not finished. */
gal_option gal_option_hidden(gal_option option);

typedef struct gal_command {
    const char *program;    /* "galplan" */
    const char *version;    /* one line, what --version says; NULL: there is no such option */
    const char *command;    /* "search"; NULL: the program has no commands */
    const char *summary;    /* one line */
    const char *positional; /* "FILE..." in the usage line; NULL: none */
    uint32_t positional_min, positional_max;
    const gal_option *options; /* --version and --help are added */
    uint32_t option_count;     /* at most GAL_OPTIONS_MAX */
    const char *notes;         /* printed after the options, NULL: none; ends with a newline */
    const char *appendix;      /* likewise, after the notes: C11 promises 4095 characters of a string */
} gal_command;

typedef struct gal_arguments {
    bool help, version; /* --help or -h, --version: the rest is not set */
    uint32_t positional_count;
    char **positional; /* into argv, which is reordered */
} gal_arguments;

/* argv[0] is the program or command name and is skipped. GAL_ERR_USAGE with one line in *err. */
gal_code gal_options_parse(const gal_command *command, int argc, char **argv, gal_arguments *out, gal_error *err);

void gal_options_print_help(const gal_command *command, FILE *out);
/* The manual page, section 1, in the man macros of troff. */
void gal_options_print_man(const gal_command *command, FILE *out);
/* What bash needs to complete the command: a whole script for a program without commands, else the command's part of
 * its program's (schemas/base/program.h). */
void gal_options_print_completion(const gal_command *command, FILE *out);

/* For a program's main: parse, print help or version on stdout (*exit_code 0), or "galplan: error: ..." and "try
 * 'galplan search
 * --help'" on stderr (*exit_code 2). True if the program is to go on. The single argument --man prints the manual page,
 * --completion what bash needs: these two are for `make install`, so no help lists them. */
bool gal_options_run(const gal_command *command, int argc, char **argv, gal_arguments *out, int *exit_code);

/* The end of a command (command NULL: of a program without any): says on stderr what err holds, for GAL_ERR_USAGE with
 * the "try" line, and sees that stdout was written. Returns the exit code: code, or GAL_ERR_SYSTEM if it was not. */
int gal_options_end(const char *program, const char *command, gal_code code, const gal_error *err);

#endif
