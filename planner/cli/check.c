/* galplan check FILE...: are these documents good? */
#include <stdio.h>

#include "planner/cli/check.h"
#include "schemas/base/json.h"
#include "schemas/base/options.h"
#include "schemas/document.h"

enum { FILES_MAX = 100000 };

typedef struct verdict {
    gal_code code; /* GAL_OK; GAL_NO: refused; GAL_ERR_DOCUMENT: not JSON; GAL_ERR_USAGE: not there;
                    * GAL_ERR_SYSTEM: not readable */
    gal_document_kind kind;
    gal_error err;
} verdict;

static verdict check_file(const char *path)
{
    verdict found = {0};
    gal_json_doc *doc = NULL;
    found.code = gal_json_open(path, &doc, &found.err);
    if (found.code == GAL_OK) {
        found.code = gal_document_check(doc, &found.kind, &found.err);
        if (found.code == GAL_ERR_DOCUMENT) {
            found.code = GAL_NO;
        }
    }
    gal_json_close(doc);
    return found;
}

static void put_verdict(gal_json_writer *out, const char *path, const verdict *found)
{
    gal_json_begin_object(out, NULL);
    gal_json_put_string(out, "file", path);
    gal_json_put_bool(out, "ok", found->code == GAL_OK);
    if (found->code == GAL_OK) {
        gal_json_put_string(out, "document", gal_document_names[found->kind]);
    } else {
        gal_json_put_string(out, "error", found->err.text);
    }
    gal_json_end_object(out);
}

static gal_code check_files(const gal_arguments *arguments, gal_json_writer *json)
{
    gal_code worst = GAL_OK;
    for (uint32_t i = 0; i < arguments->positional_count; i++) {
        const char *path = arguments->positional[i];
        verdict found = check_file(path);
        worst = found.code > worst ? found.code : worst;
        if (json != NULL) {
            put_verdict(json, path, &found);
        } else if (found.code == GAL_OK) {
            (void)printf("%s: ok (%s)\n", path, gal_document_names[found.kind]);
        } else {
            (void)fprintf(stderr, "galplan: error: %s\n", found.err.text);
        }
    }
    return worst;
}

static gal_code check_as_json(const gal_arguments *arguments)
{
    gal_error err = {0};
    gal_json_writer *json = gal_json_writer_create();
    gal_json_begin_object(json, NULL);
    gal_json_begin_array(json, "files");
    gal_code worst = check_files(arguments, json);
    gal_json_end_array(json);
    gal_json_put_bool(json, "ok", worst == GAL_OK);
    gal_json_end_object(json);
    gal_code saved = gal_json_writer_save(json, "-", &err);
    if (saved != GAL_OK) {
        (void)fprintf(stderr, "galplan: error: %s\n", err.text);
        worst = saved;
    }
    gal_json_writer_free(json);
    return worst;
}

int gal_cli_check(int argc, char **argv)
{
    bool as_json = false;
    const gal_option options[] = {gal_option_flag("json", "print one JSON object", &as_json)};
    const gal_command command = {
        .program = "galplan",
        .command = "check",
        .summary = "Check documents of every kind (\"-\" is stdin).",
        .positional = "FILE...",
        .positional_min = 1,
        .positional_max = FILES_MAX,
        .options = options,
        .option_count = sizeof options / sizeof options[0],
        .notes = "Exit: 0 all good; 1 a document is refused; 2 usage, or one is not there; 3 one is not JSON; 4 one "
                 "cannot be read.\n",
    };
    gal_arguments arguments;
    int exit_code;
    if (!gal_options_run(&command, argc, argv, &arguments, &exit_code)) {
        return exit_code;
    }
    const gal_error none = {0}; /* every file's own was said */
    const gal_code code = as_json ? check_as_json(&arguments) : check_files(&arguments, NULL);
    return gal_options_end("galplan", "check", code, &none);
}
