#include "runtime/train/agreement.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void gal_agreement_add(gal_agreement *agreement, const char *name, const char *format, ...)
{
    GAL_ASSERT(agreement->item_count < GAL_AGREEMENT_ITEMS_MAX);
    gal_agreement_item *item = &agreement->item[agreement->item_count++];
    va_list arguments;
    snprintf(item->name, sizeof item->name, "%s", name);
    va_start(arguments, format);
    vsnprintf(item->value, sizeof item->value, format, arguments);
    va_end(arguments);
}

/* GAL_ERR_USAGE at the first item that differs. */
static gal_code compare(const gal_agreement *mine, const gal_agreement *first, gal_error *err)
{
    for (uint32_t i = 0; i < mine->item_count; i++) {
        if (strcmp(mine->item[i].value, first->item[i].value) != 0) {
            return gal_fail(err, GAL_ERR_USAGE, "%s differs: %s here, %s on rank 0", mine->item[i].name,
                            mine->item[i].value, first->item[i].value);
        }
    }
    return GAL_OK;
}

gal_code gal_agreement_check(const gal_agreement *agreement, const gal_world *world, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_agreement first = *agreement;
    GAL_TRY(gal_world_share(world, &first, sizeof first, err));
    GAL_TRY(gal_world_agree(world, compare(agreement, &first, err), err));
cleanup:
    return code;
}
