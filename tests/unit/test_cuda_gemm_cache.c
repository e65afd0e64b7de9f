/* The file of algorithms that gemm on cuBLASLt has found the fastest: written, damaged and read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/ops/cuda/gemm_cache.h"

typedef struct file {
    char path[64];
    char *text;
    size_t bytes;
} file;

static void cache_of(gal_gemm_cache *cache, uint32_t entries)
{
    gal_error err = {.code = GAL_OK};
    gal_gemm_cache_begin(cache, "A device", 9, 0, 130100);
    for (uint32_t i = 0; i < entries; i++) {
        gal_gemm_entry entry = {.key = {.rows = i + 1, .depth = 3, .epilogue = 1}};
        entry.algorithm[0] = UINT64_MAX - i;
        entry.algorithm[7] = i;
        assert_int_equal(gal_gemm_cache_put(cache, &entry, &err), GAL_OK);
    }
}

static void write_file(file *f, uint32_t entries)
{
    gal_gemm_cache cache;
    gal_error err = {.code = GAL_OK};
    snprintf(f->path, sizeof f->path, "/tmp/galplan-test-gemm-XXXXXX");
    const int descriptor = mkstemp(f->path);
    assert_true(descriptor >= 0);
    close(descriptor);
    cache_of(&cache, entries);
    assert_true(cache.changed);
    assert_int_equal(gal_gemm_cache_write(&cache, f->path, &err), GAL_OK);
    assert_false(cache.changed);
    gal_gemm_cache_free(&cache);
    FILE *stream = fopen(f->path, "rb");
    assert_non_null(stream);
    f->text = calloc(1, 1 << 16);
    assert_non_null(f->text);
    f->bytes = fread(f->text, 1, 1 << 16, stream);
    fclose(stream);
}

static size_t read_back(const file *f, const char *text, size_t bytes, uint64_t version)
{
    gal_gemm_cache cache;
    gal_error err = {.code = GAL_OK};
    FILE *stream = fopen(f->path, "wb");
    assert_non_null(stream);
    assert_int_equal(fwrite(text, 1, bytes, stream), bytes);
    fclose(stream);
    gal_gemm_cache_begin(&cache, "A device", 9, 0, version);
    assert_int_equal(gal_gemm_cache_read(&cache, f->path, &err), GAL_OK);
    const size_t count = cache.count;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(cache.entry[i].algorithm[0], UINT64_MAX - (cache.entry[i].key.rows - 1));
    }
    gal_gemm_cache_free(&cache);
    return count;
}

static void the_file_comes_back(void **state)
{
    (void)state;
    file f = {.text = NULL};
    write_file(&f, 5);
    assert_int_equal(read_back(&f, f.text, f.bytes, 130100), 5);
    assert_int_equal(read_back(&f, f.text, f.bytes, 130200), 0); /* another version's */
    unlink(f.path);
    gal_gemm_cache cache;
    gal_error err = {.code = GAL_OK};
    cache_of(&cache, 0);
    assert_int_equal(gal_gemm_cache_read(&cache, f.path, &err), GAL_OK); /* there is none */
    assert_int_equal(cache.count, 0);
    gal_gemm_cache_free(&cache);
    free(f.text);
}

/* Every truncation keeps the whole lines in front of it; every changed byte costs its line, or all if it is the head's.
 */
static void damage_costs_lines(void **state)
{
    (void)state;
    file f = {.text = NULL};
    write_file(&f, 3);
    for (size_t bytes = 0; bytes <= f.bytes; bytes++) {
        size_t lines = 0;
        for (size_t i = 0; i < bytes; i++) {
            lines += f.text[i] == '\n';
        }
        assert_int_equal(read_back(&f, f.text, bytes, 130100), lines == 0 ? 0 : lines - 1);
    }
    const size_t head = strlen("galplan gemm 1; A device; sm_90; cublasLt 130100\n");
    for (size_t i = 0; i < f.bytes; i++) {
        const char before = f.text[i];
        f.text[i] = (char)(before ^ 1);
        const size_t kept = read_back(&f, f.text, f.bytes, 130100);
        assert_true(i < head ? kept == 0 : before == '\n' ? kept <= 2 : kept == 2);
        f.text[i] = before;
    }
    unlink(f.path);
    free(f.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_comes_back),
        cmocka_unit_test(damage_costs_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
