/* galplan reproduce colossal: what our formulas, programs and prices say of Colossal-AI's tables and figures. */
#include "planner/cli/reproduce_colossal.h"

#include <stdio.h>

#include "planner/cli/reproduce_file.h"
#include "planner/published/colossal.h"

static const char notes[] =
    "A line per point: figure,system,gpus,mode,depth,batch,value. Systems are those of the paper's Table II, of the\n"
    "catalogue; nothing is fitted to the paper. What galrun does not run is said on stderr, as a comment.\n"
    "  table1, fig9      elements that one linear's devices receive, by Table I as printed (b 32, s 512, h 1024)\n"
    "  table1-corrected, fig9-corrected   the same, all rows of all devices, with the sum over depth\n"
    "  fig12             bytes of two linear layers: fig12a, fig12b by batch on 4 and 8 GPUs, fig12c-hH, fig12d-hH of\n"
    "                    width H\n"
    "  fig14, table3     images/s of ViT, the best of the batches that fit, as Colossal-AI's release ran its modes\n"
    "  fig14-galrun, table3-galrun   the same as galrun runs them\n"
    "  fig15a, fig15b    largest batch of 512 positions, most positions of 64 samples, of BERT-Base: 1D and ring\n"
    "  fig16a, fig16b    tokens/s at the largest batch; depth: pipeline stages of 4 devices, 4 microbatches\n"
    "  fig17             samples/s of GPT-2 10B by ZeRO-3, the optimizer on the host or as much as must be\n"
    "Precision is fp16 beside fp32 masters, without recomputation but in fig17. Of 1D over 8 GPUs 12 heads do not "
    "divide.\n"
    "Exit: 0 done; 2 usage; 4 system.\n"
    "\nExamples:\n"
    "  galplan reproduce colossal -o tables.csv\n"
    "  galplan reproduce colossal fig15a\n";

static gal_code put(void *context, const gal_colossal_row *row)
{
    FILE *out = context;
    if (row->refused[0] != '\0') {
        (void)fprintf(stderr, "# %s,%s,%u,%s,%u: %s\n", row->figure, row->system, row->devices, row->mode, row->depth,
                      row->refused);
        return GAL_OK;
    }
    (void)fprintf(out, "%s,%s,%u,%s,%u,%u,%.6g\n", row->figure, row->system, row->devices, row->mode, row->depth,
                  row->batch, row->value);
    return GAL_OK;
}

static gal_code put_figure(const char *figure, FILE *out, gal_error *err)
{
    (void)fputs("figure,system,gpus,mode,depth,batch,value\n", out);
    return gal_colossal_reproduce(figure, put, out, err);
}

int gal_cli_reproduce_colossal(int argc, char **argv)
{
    const gal_reproduce_command command = {.name = "reproduce colossal",
                                           .summary = "Predict the tables and figures of the Colossal-AI paper.",
                                           .notes = notes,
                                           .write = put_figure};
    return gal_cli_reproduce_file(&command, argc, argv);
}
