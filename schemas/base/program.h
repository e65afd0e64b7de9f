/* A program of several commands: one table drives its dispatch, --help, manual page and bash completion. */
#ifndef GAL_SCHEMAS_BASE_PROGRAM_H
#define GAL_SCHEMAS_BASE_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct gal_program_command {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the name; returns the exit code; parses by gal_options_run */
    const char *summary;
} gal_program_command;

/* What `help NAME` prints beside the help of commands. */
typedef struct gal_program_topic {
    const char *name;
    const char *summary;
    const char *text; /* ends with a newline */
} gal_program_topic;

typedef struct gal_program {
    const char *name;
    const char *version; /* one line, what --version says */
    const char *summary; /* one line */
    const gal_program_command *commands;
    uint32_t command_count;
    const gal_program_topic *topics;
    uint32_t topic_count;
    const char *notes; /* printed after the commands, ends with a newline */
} gal_program;

/* What exit codes mean, one line (schemas/base/status.h). */
extern const char gal_exit_codes[];

/* The main function: runs the command, or answers help, help COMMAND, help TOPIC, --help, --version, --man
 * and --completion. Returns the exit code. */
int gal_program_main(const gal_program *program, int argc, char **argv);

/* The completion script: begin, a part per command, end. */
void gal_completion_begin(const char *program, FILE *out);
void gal_completion_end(const char *program, bool has_commands, FILE *out);

/* Text with what troff takes for its own escaped; a line's first character included. */
void gal_man_print(FILE *out, const char *text);
void gal_man_title(FILE *out, const char *program, const char *command);
/* Lines as they are, under a heading. */
void gal_man_lines(FILE *out, const char *heading, const char *text);

#endif
