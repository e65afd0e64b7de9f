/* galplan models: what ships with the programs, or one of them as a document to start from. */
#include "planner/cli/models.h"

#include <stdio.h>
#include <string.h>

#include "schemas/base/options.h"
#include "schemas/catalogue/catalogue.h"
#include "schemas/model.h"

static gal_code list_models(gal_error *err)
{
    for (uint32_t i = 0; i < gal_catalogue_entry_count; i++) {
        gal_model model;
        if (strcmp(gal_catalogue_entries[i].kind, "model") != 0) {
            continue;
        }
        gal_code code = gal_model_read(gal_catalogue_entries[i].name, &model, err);
        if (code != GAL_OK) {
            return code;
        }
        printf("%-14s %2u layers, hidden %5u, %llu parameters\n", gal_catalogue_entries[i].name, model.layer_count,
               model.hidden, (unsigned long long)gal_model_parameter_count(&model));
    }
    return GAL_OK;
}

static gal_code print_model(const char *name, gal_error *err)
{
    const char *text = gal_catalogue_find("model", name);
    char known[512];
    if (text == NULL) {
        gal_catalogue_names("model", known, sizeof known);
        return gal_fail(err, GAL_ERR_USAGE, "unknown model '%s' (known: %s)", name, known);
    }
    return fputs(text, stdout) == EOF ? gal_fail(err, GAL_ERR_SYSTEM, "cannot write to stdout") : GAL_OK;
}

int gal_cli_models(int argc, char **argv)
{
    const gal_command command = {.program = "galplan",
                                 .command = "models",
                                 .summary = "List the models that ship with galplan, or print one as a document.",
                                 .positional = "[NAME]",
                                 .positional_max = 1};
    gal_arguments arguments;
    gal_error err = {0};
    int exit_code = 0;
    if (!gal_options_run(&command, argc, argv, &arguments, &exit_code)) {
        return exit_code;
    }
    gal_code code = arguments.positional_count == 0 ? list_models(&err) : print_model(arguments.positional[0], &err);
    if (code != GAL_OK) {
        fprintf(stderr, "galplan: error: %s\n", err.text);
    }
    return (int)code;
}
