#include "planner/cli/search_counts.h"

#include "planner/cell/cell_list.h"
#include "planner/search/space_counts.h"

static void print_table(FILE *out, const gal_cell_spec *spec, const gal_space_counts *counts)
{
    (void)fprintf(out, "\nstrategies of %u devices, %u samples a microbatch: in the space, legal for the block,\n",
                  spec->device_count / spec->pp_degree, spec->global_batch_samples / spec->microbatch_count);
    (void)fprintf(out, "tried (of equal programs one; only attention and FFN run again), in the first of those orders\n"
                       "of axes that are one (all that bounds without conversions look at); and of those tried, not\n"
                       "ruled out of a faster plan\n");
    (void)fprintf(out, "  %-16s blocks    space    legal    tried   orders     open\n", "block");
    for (uint32_t i = 0; i < counts->type_count; i++) {
        const gal_space_count *c = &counts->of[i];
        (void)fprintf(out, "  %-16s %6u %8u %8u %8u %8u %8u\n", gal_block_kind_names[c->kind], c->block_count,
                      c->listed, c->legal, c->tried, c->first, c->open);
    }
}

gal_code gal_search_print_counts(FILE *out, const gal_search_request *request, const gal_finalist *best, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_price_cache *cache = NULL;
    gal_space_counts counts = {0};
    const gal_cell_numbers numbers = {best->global_batch_samples, best->microbatch_count, best->pp_degree};
    GAL_TRY(gal_price_cache_create(request->model, request->durations, &cache, err));
    const gal_cell_spec spec = gal_search_cell_spec(request, &numbers, cache);
    GAL_TRY(gal_space_counts_create(&spec, best->objective_seconds, &counts, err));
    print_table(out, &spec, &counts);
cleanup:
    gal_space_counts_free(&counts);
    gal_price_cache_free(cache);
    return code;
}
