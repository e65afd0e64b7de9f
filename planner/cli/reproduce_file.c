#include "planner/cli/reproduce_file.h"

#include "schemas/base/options.h"

static gal_code write_all(const gal_reproduce_command *of, const char *figure, const char *path, gal_error *err)
{
    FILE *out = path == NULL ? stdout : fopen(path, "w");
    if (out == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "cannot write %s", path);
    }
    gal_code code = of->write(figure, out, err);
    const bool bad = ferror(out) != 0;
    if ((path != NULL && fclose(out) != 0) || bad) {
        code = code == GAL_OK ? gal_fail(err, GAL_ERR_SYSTEM, "cannot write %s", path == NULL ? "stdout" : path) : code;
    }
    return code;
}

int gal_cli_reproduce_file(const gal_reproduce_command *of, int argc, char **argv)
{
    const char *path = NULL;
    const gal_option options[] = {
        gal_option_short('o', gal_option_string("output", "FILE", "in place of stdout", &path)),
    };
    const gal_command command = {.program = "galplan",
                                 .command = of->name,
                                 .summary = of->summary,
                                 .positional = "[FIGURE]",
                                 .positional_min = 0,
                                 .positional_max = 1,
                                 .options = options,
                                 .option_count = sizeof options / sizeof options[0],
                                 .notes = of->notes};
    gal_arguments arguments;
    gal_error err = {0};
    int exit_code = 0;
    if (!gal_options_run(&command, argc, argv, &arguments, &exit_code)) {
        return exit_code;
    }
    const char *figure = arguments.positional_count > 0 ? arguments.positional[0] : NULL;
    const gal_code code = write_all(of, figure, path, &err);
    return gal_options_end("galplan", of->name, code, &err);
}
