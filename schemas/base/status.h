/* Result codes, the error record and the macros that carry them.
 *
 * A function that can fail returns gal_code, fills *err, and leaves its outputs alone unless it returns GAL_OK.
 * The codes are the exit codes of every program. The first error is kept: a second gal_fail() on a record that
 * already holds one changes nothing, so clean-up code may fail without hiding the cause. */
#ifndef GAL_SCHEMAS_BASE_STATUS_H
#define GAL_SCHEMAS_BASE_STATUS_H

typedef enum gal_code {
    GAL_OK = 0,           /* done */
    GAL_NO = 1,           /* done, and the answer is no: no feasible plan, check or verify refuses */
    GAL_ERR_USAGE = 2,    /* the command line is wrong */
    GAL_ERR_DOCUMENT = 3, /* a document is wrong */
    GAL_ERR_SYSTEM = 4,   /* file, memory, network */
    GAL_ERR_DEVICE = 5,   /* device or collective */
    GAL_BUG = 6           /* a bug in this program */
} gal_code;

enum { GAL_ERROR_TEXT_BYTES = 2048 };

typedef struct gal_error {
    gal_code code;                   /* GAL_OK: empty */
    char text[GAL_ERROR_TEXT_BYTES]; /* one line of UTF-8, no program name, no final newline */
} gal_error;

/* Fills *err (if it is empty) with the formatted line and returns code. err may be NULL. */
gal_code gal_fail(gal_error *err, gal_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Prints file, line and condition on stderr and exits with GAL_BUG (6). Never used for bad input. */
_Noreturn void gal_assert_failed(const char *condition, const char *file, int line);

#define GAL_ASSERT(condition) ((condition) ? (void)0 : gal_assert_failed(#condition, __FILE__, __LINE__))

/* Sets the local `code` and jumps to the local `cleanup` unless the call returns GAL_OK. */
#define GAL_TRY(call)                                                                                                  \
    do {                                                                                                               \
        code = (call);                                                                                                 \
        if (code != GAL_OK) {                                                                                          \
            goto cleanup;                                                                                              \
        }                                                                                                              \
    } while (0)

#endif
