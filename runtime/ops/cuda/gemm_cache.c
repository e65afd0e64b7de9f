#include "runtime/ops/cuda/gemm_cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schemas/base/file.h"
#include "schemas/base/fnv.h"

enum { LINE_WORDS = GAL_GEMM_KEY_WORDS + GAL_GEMM_ALGORITHM_WORDS, LINE_BYTES = 17 * (LINE_WORDS + 1) };
enum { FILE_BYTES_MAX = GAL_GEMM_ID_BYTES + GAL_GEMM_ENTRIES_MAX * LINE_BYTES };

void gal_gemm_cache_begin(gal_gemm_cache *cache, const char *device_name, uint32_t capability_major,
                          uint32_t capability_minor, uint64_t library_version)
{
    memset(cache, 0, sizeof *cache);
    snprintf(cache->id, sizeof cache->id, "galplan gemm 1; %.100s; sm_%" PRIu32 "%" PRIu32 "; cublasLt %" PRIu64,
             device_name, capability_major, capability_minor, library_version);
    for (char *at = cache->id; *at != '\0'; at++) {
        if (*at == '\n') {
            *at = ' '; /* the head is one line, whatever the driver calls its device */
        }
    }
}

bool gal_gemm_cache_path(const gal_gemm_cache *cache, const char *folder, char *path, size_t path_bytes)
{
    const uint64_t name = gal_fnv(GAL_FNV_START, cache->id, strlen(cache->id));
    const int written = snprintf(path, path_bytes, "%s/gemm-%016" PRIx64 ".txt", folder, name);
    return written > 0 && (size_t)written < path_bytes;
}

const gal_gemm_entry *gal_gemm_cache_find(const gal_gemm_cache *cache, const gal_gemm_key *key)
{
    for (size_t i = 0; i < cache->count; i++) {
        if (memcmp(&cache->entry[i].key, key, sizeof *key) == 0) {
            return &cache->entry[i];
        }
    }
    return NULL;
}

static gal_code append(gal_gemm_cache *cache, const gal_gemm_entry *entry, gal_error *err)
{
    if (cache->count == cache->capacity) {
        const size_t capacity = cache->capacity == 0 ? 64 : 2 * cache->capacity;
        gal_gemm_entry *grown = realloc(cache->entry, capacity * sizeof *grown);
        if (grown == NULL) {
            return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: %zu products", capacity);
        }
        cache->entry = grown;
        cache->capacity = capacity;
    }
    cache->entry[cache->count++] = *entry;
    return GAL_OK;
}

gal_code gal_gemm_cache_put(gal_gemm_cache *cache, const gal_gemm_entry *entry, gal_error *err)
{
    const gal_gemm_entry *old = gal_gemm_cache_find(cache, &entry->key);
    if (old == NULL && cache->count == GAL_GEMM_ENTRIES_MAX) {
        return GAL_OK;
    }
    if (old != NULL) {
        cache->entry[old - cache->entry] = *entry;
    } else {
        const gal_code code = append(cache, entry, err);
        if (code != GAL_OK) {
            return code;
        }
    }
    cache->changed = true;
    return GAL_OK;
}

/* ---- lines ---- */

/* The words of an entry, and a checksum of them that the head of the file begins. */
static void words_of(const gal_gemm_entry *entry, uint64_t word[LINE_WORDS])
{
    uint32_t key[GAL_GEMM_KEY_WORDS];
    memcpy(key, &entry->key, sizeof key);
    for (size_t i = 0; i < GAL_GEMM_KEY_WORDS; i++) {
        word[i] = key[i];
    }
    memcpy(word + GAL_GEMM_KEY_WORDS, entry->algorithm, sizeof entry->algorithm);
}

static uint64_t checksum_of(const gal_gemm_cache *cache, const uint64_t word[LINE_WORDS])
{
    uint64_t hash = gal_fnv(GAL_FNV_START, cache->id, strlen(cache->id));
    for (size_t i = 0; i < LINE_WORDS; i++) {
        for (unsigned shift = 0; shift < 64; shift += 8) {
            const uint8_t byte = (uint8_t)(word[i] >> shift);
            hash = gal_fnv(hash, &byte, 1);
        }
    }
    return hash;
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One word of 1 to 16 hexadecimal digits, and the space or end of line behind it. */
static bool read_word(const char **at, const char *end, uint64_t *out)
{
    uint64_t word = 0;
    size_t digits = 0;
    while (*at < end && digit_of(**at) >= 0) {
        word = word << 4 | (uint64_t)digit_of(**at);
        digits++;
        (*at)++;
    }
    if (digits == 0 || digits > 16 || *at == end || (**at != ' ' && **at != '\n')) {
        return false;
    }
    (*at)++;
    *out = word;
    return true;
}

static bool read_line(const gal_gemm_cache *cache, const char *at, const char *end, gal_gemm_entry *out)
{
    uint64_t word[LINE_WORDS], checksum;
    uint32_t key[GAL_GEMM_KEY_WORDS];
    for (size_t i = 0; i < LINE_WORDS; i++) {
        if (!read_word(&at, end, &word[i]) || (i < GAL_GEMM_KEY_WORDS && word[i] > UINT32_MAX)) {
            return false;
        }
    }
    if (!read_word(&at, end, &checksum) || at != end || checksum != checksum_of(cache, word)) {
        return false;
    }
    for (size_t i = 0; i < GAL_GEMM_KEY_WORDS; i++) {
        key[i] = (uint32_t)word[i];
    }
    memcpy(&out->key, key, sizeof key);
    memcpy(out->algorithm, word + GAL_GEMM_KEY_WORDS, sizeof out->algorithm);
    return true;
}

static gal_code read_lines(gal_gemm_cache *cache, const char *text, size_t byte_count, gal_error *err)
{
    const size_t id_bytes = strlen(cache->id);
    const char *end = text + byte_count;
    if (byte_count <= id_bytes || memcmp(text, cache->id, id_bytes) != 0 || text[id_bytes] != '\n') {
        return GAL_OK;
    }
    for (const char *at = text + id_bytes + 1; at < end && cache->count < GAL_GEMM_ENTRIES_MAX;) {
        gal_gemm_entry entry;
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (newline == NULL) {
            break;
        }
        if (read_line(cache, at, newline + 1, &entry) && gal_gemm_cache_find(cache, &entry.key) == NULL) {
            const gal_code code = append(cache, &entry, err);
            if (code != GAL_OK) {
                return code;
            }
        }
        at = newline + 1;
    }
    return GAL_OK;
}

gal_code gal_gemm_cache_read(gal_gemm_cache *cache, const char *path, gal_error *err)
{
    char *text = NULL;
    size_t byte_count = 0;
    gal_error ignored = {.code = GAL_OK};
    if (gal_file_read(path, FILE_BYTES_MAX, &text, &byte_count, &ignored) != GAL_OK) {
        return GAL_OK;
    }
    const gal_code code = read_lines(cache, text, byte_count, err);
    free(text);
    return code;
}

gal_code gal_gemm_cache_write(gal_gemm_cache *cache, const char *path, gal_error *err)
{
    const size_t capacity = sizeof cache->id + 1 + cache->count * LINE_BYTES;
    char *text = malloc(capacity);
    if (text == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: %zu bytes", capacity);
    }
    size_t used = (size_t)snprintf(text, capacity, "%s\n", cache->id);
    for (size_t i = 0; i < cache->count; i++) {
        uint64_t word[LINE_WORDS];
        words_of(&cache->entry[i], word);
        for (size_t j = 0; j < LINE_WORDS; j++) {
            used += (size_t)snprintf(text + used, capacity - used, "%" PRIx64 " ", word[j]);
        }
        used += (size_t)snprintf(text + used, capacity - used, "%" PRIx64 "\n", checksum_of(cache, word));
    }
    const gal_code code = gal_file_replace(path, text, used, err);
    free(text);
    cache->changed = cache->changed && code != GAL_OK;
    return code;
}

void gal_gemm_cache_free(gal_gemm_cache *cache)
{
    free(cache->entry);
    cache->entry = NULL;
    cache->count = cache->capacity = 0;
}
