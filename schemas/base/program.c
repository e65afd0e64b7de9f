#include "schemas/base/program.h"

#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "schemas/base/nearest.h"
#include "schemas/base/status.h"

enum { COMMANDS_MAX = 64 };

static const char version_option[] = "--version", version_help[] = "print the version and exit";

const char gal_exit_codes[] =
    "Exit: 0 done; 1 the answer is no; 2 usage; 3 document; 4 system; 5 device or collective; 6 a bug.\n";

static void print_help(const gal_program *program)
{
    printf("usage: %s COMMAND [OPTIONS]\n\n%s\n\n", program->name, program->summary);
    for (uint32_t i = 0; i < program->command_count; i++) {
        printf("  %-10s %s\n", program->commands[i].name, program->commands[i].summary);
    }
    printf("\n");
    for (uint32_t i = 0; i < program->topic_count; i++) {
        printf("  help %-5s %s\n", program->topics[i].name, program->topics[i].summary);
    }
    printf("  %-10s %s\n\n%s%s", version_option, version_help, program->notes, gal_exit_codes);
}

static void print_man(const gal_program *program)
{
    gal_man_title(stdout, program->name, NULL);
    printf(".SH NAME\n");
    gal_man_print(stdout, program->name);
    printf(" \\- ");
    gal_man_print(stdout, program->summary);
    printf("\n.SH SYNOPSIS\n.B ");
    gal_man_print(stdout, program->name);
    printf("\n.I COMMAND\n[options]\n.SH COMMANDS\n");
    for (uint32_t i = 0; i < program->command_count; i++) {
        printf(".TP\n.BR %s\\-%s (1)\n", program->name, program->commands[i].name);
        gal_man_print(stdout, program->commands[i].summary);
        printf("\n");
    }
    printf(".SH OPTIONS\n.TP\n.B ");
    gal_man_print(stdout, version_option);
    printf("\n");
    gal_man_print(stdout, version_help);
    printf("\n");
    for (uint32_t i = 0; i < program->topic_count; i++) {
        gal_man_lines(stdout, program->topics[i].summary, program->topics[i].text);
    }
    gal_man_lines(stdout, "NOTES", program->notes);
    gal_man_lines(stdout, "EXIT STATUS", gal_exit_codes);
}

/* A command may become another program (as galplan profile does), so each prints its part as a process of its own. The
 * part of a program that is not there is left out. */
static void print_part(const gal_program_command *command)
{
    char name[64], option[] = "--completion";
    char *argv[] = {name, option, NULL};
    (void)snprintf(name, sizeof name, "%s", command->name);
    (void)fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        const int nowhere = open("/dev/null", O_WRONLY);
        if (nowhere >= 0) {
            (void)dup2(nowhere, STDERR_FILENO);
        }
        const int code = command->run(2, argv);
        (void)fflush(stdout);
        _exit(code);
    }
    if (child > 0) {
        (void)waitpid(child, NULL, 0);
    }
}

static void print_completion(const gal_program *program)
{
    gal_completion_begin(program->name, stdout);
    for (uint32_t i = 0; i < program->command_count; i++) {
        print_part(&program->commands[i]);
    }
    printf("    ' '*) echo '");
    for (uint32_t i = 0; i < program->command_count; i++) {
        printf("%s ", program->commands[i].name);
    }
    printf("%s --help' ;;\n", version_option);
    gal_completion_end(program->name, true, stdout);
}

static const gal_program_command *find_command(const gal_program *program, const char *name)
{
    for (uint32_t i = 0; i < program->command_count; i++) {
        if (strcmp(name, program->commands[i].name) == 0) {
            return &program->commands[i];
        }
    }
    return NULL;
}

static const gal_program_topic *find_topic(const gal_program *program, const char *name)
{
    for (uint32_t i = 0; i < program->topic_count; i++) {
        if (strcmp(name, program->topics[i].name) == 0) {
            return &program->topics[i];
        }
    }
    return NULL;
}

/* topic_count: of how many topics the name could be meant; only help has any. */
static int unknown_command(const gal_program *program, const char *name, uint32_t topic_count)
{
    const char *names[COMMANDS_MAX];
    for (uint32_t i = 0; i < program->command_count; i++) {
        names[i] = program->commands[i].name;
    }
    for (uint32_t i = 0; i < topic_count; i++) {
        names[program->command_count + i] = program->topics[i].name;
    }
    const char *nearest = gal_nearest_name(name, names, program->command_count + topic_count);
    fprintf(stderr, "%s: error: unknown command '%s'%s%s%s\ntry '%s --help'\n", program->name, name,
            nearest == NULL ? "" : ", did you mean '", nearest == NULL ? "" : nearest, nearest == NULL ? "" : "'?",
            program->name);
    return GAL_ERR_USAGE;
}

/* "help" prints the general help, "help COMMAND" that of the command, "help TOPIC" the topic's text. */
static int answer_help(const gal_program *program, int argc, char **argv)
{
    char help[] = "--help";
    if (argc < 3) {
        print_help(program);
        return GAL_OK;
    }
    if (argc > 3) {
        fprintf(stderr, "%s: error: help takes one command, got '%s' too\ntry '%s --help'\n", program->name, argv[3],
                program->name);
        return GAL_ERR_USAGE;
    }
    const gal_program_topic *topic = find_topic(program, argv[2]);
    if (topic != NULL) {
        printf("%s", topic->text);
        return fflush(stdout) == 0 ? GAL_OK : GAL_ERR_SYSTEM;
    }
    const gal_program_command *command = find_command(program, argv[2]);
    char *words[] = {argv[2], help, NULL};
    return command == NULL ? unknown_command(program, argv[2], program->topic_count) : command->run(2, words);
}

int gal_program_main(const gal_program *program, int argc, char **argv)
{
    GAL_ASSERT(program->command_count + program->topic_count <= COMMANDS_MAX);
    if (argc < 2) {
        fprintf(stderr, "%s: error: give a command\ntry '%s --help'\n", program->name, program->name);
        return GAL_ERR_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(program);
        return GAL_OK;
    }
    if (strcmp(argv[1], "help") == 0) {
        return answer_help(program, argc, argv);
    }
    if (strcmp(argv[1], version_option) == 0) {
        printf("%s\n", program->version);
        return fflush(stdout) == 0 ? GAL_OK : GAL_ERR_SYSTEM;
    }
    if (strcmp(argv[1], "--man") == 0) {
        print_man(program);
        return GAL_OK;
    }
    if (strcmp(argv[1], "--completion") == 0) {
        print_completion(program);
        return GAL_OK;
    }
    const gal_program_command *command = find_command(program, argv[1]);
    return command == NULL ? unknown_command(program, argv[1], 0) : command->run(argc - 1, argv + 1);
}
