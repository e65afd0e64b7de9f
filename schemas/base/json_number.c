#include "schemas/base/json_number.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/base/json_scan.h"
#include "schemas/base/status.h"

enum { DIGITS_MAX = 17 };

void gal_json_number_text(double value, char *text, size_t capacity)
{
    GAL_ASSERT(isfinite(value));
    for (int digits = 1; digits <= DIGITS_MAX; digits++) {
        (void)snprintf(text, capacity, "%.*g", digits, value);
        double back = strtod(text, NULL);
        if (memcmp(&back, &value, sizeof value) != 0) {
            continue;
        }
        if (fabs(value) > (double)GAL_JSON_WHOLE_MAX && strchr(text, 'e') == NULL) {
            (void)snprintf(text, capacity, "%.*e", digits - 1, value);
        }
        return;
    }
    GAL_ASSERT(false); /* 17 digits name every double */
}
