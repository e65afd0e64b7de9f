/* A mutator that keeps JSON mostly whole, linked to the targets of documents under libFuzzer only: it replaces a
 * string, number or literal by another, repeats or removes an object, or leaves the work to libFuzzer. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *bytes, size_t byte_count, size_t capacity);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t byte_count, size_t capacity, unsigned seed);

typedef struct span {
    size_t first, count;
} span;

static const char *const values[] = {
    "0",
    "1",
    "2",
    "3",
    "4",
    "6",
    "8",
    "12",
    "16",
    "-1",
    "64",
    "1024",
    "65536",
    "1048576",
    "16777216",
    "1e-308",
    "1e21",
    "4294967295",
    "4294967296",
    "1e308",
    "1e-400",
    "-0",
    "0.5",
    "1.0",
    "true",
    "false",
    "null",
    "\"dp\"",
    "\"sdp\"",
    "\"tp\"",
    "\"full\"",
    "\"none\"",
    "\"gpipe\"",
    "\"1f1b\"",
    "\"fp64\"",
    "\"\"",
    "9007199254740992",
    "9007199254740993",
    "[]",
    "{}",
    "\"\\u00e9\"",
    "\"\xe2\x82\xac\"",
    "\"\xff\"",
    "262144",
};
enum { VALUES = sizeof values / sizeof values[0] };

static uint32_t next(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static bool is_word(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' ||
           c == '.';
}

/* The first token at or behind `from`; count 0 if there is none. */
static span token_behind(const uint8_t *bytes, size_t byte_count, size_t from)
{
    span found = {from, 0};
    while (found.first < byte_count && bytes[found.first] != '"' && !is_word(bytes[found.first])) {
        found.first++;
    }
    size_t end = found.first;
    if (end < byte_count && bytes[end] == '"') {
        const uint8_t *close = memchr(bytes + end + 1, '"', byte_count - end - 1);
        end = close == NULL ? byte_count : (size_t)(close - bytes) + 1;
    } else {
        while (end < byte_count && is_word(bytes[end])) {
            end++;
        }
    }
    found.count = end - found.first;
    return found;
}

/* An object with its braces, the first that begins at or behind `from`. */
static span object_behind(const uint8_t *bytes, size_t byte_count, size_t from)
{
    span found = {from, 0};
    uint32_t depth = 0;
    for (size_t i = from; i < byte_count; i++) {
        if (bytes[i] == '{') {
            found.first = depth++ == 0 ? i : found.first;
        } else if (bytes[i] == '}' && depth > 0 && --depth == 0) {
            found.count = i + 1 - found.first;
            break;
        }
    }
    return found;
}

/* Puts text in place of the span; the new count, or the old one where it does not fit. */
static size_t replace(uint8_t *bytes, size_t byte_count, size_t capacity, span at, const void *text, size_t count)
{
    if (byte_count - at.count + count > capacity) {
        return byte_count;
    }
    memmove(bytes + at.first + count, bytes + at.first + at.count, byte_count - at.first - at.count);
    memcpy(bytes + at.first, text, count);
    return byte_count - at.count + count;
}

static size_t replace_token(uint8_t *bytes, size_t byte_count, size_t capacity, uint32_t *state)
{
    uint8_t copy[128];
    const span at = token_behind(bytes, byte_count, next(state) % byte_count);
    const span from = token_behind(bytes, byte_count, next(state) % byte_count);
    if (next(state) % 3 != 0 || from.count > sizeof copy) {
        const char *value = values[next(state) % VALUES];
        return replace(bytes, byte_count, capacity, at, value, strlen(value));
    }
    memcpy(copy, bytes + from.first, from.count);
    return replace(bytes, byte_count, capacity, at, copy, from.count);
}

static size_t change_object(uint8_t *bytes, size_t byte_count, size_t capacity, uint32_t *state)
{
    uint8_t copy[4096] = ",";
    span at = object_behind(bytes, byte_count, next(state) % byte_count);
    if (next(state) % 2 == 0) {
        at.count += at.first + at.count < byte_count && bytes[at.first + at.count] == ',';
        return replace(bytes, byte_count, capacity, at, "", 0);
    }
    if (at.count == 0 || at.count + 1 > sizeof copy) {
        return byte_count;
    }
    memcpy(copy + 1, bytes + at.first, at.count);
    const span behind = {at.first + at.count, 0};
    return replace(bytes, byte_count, capacity, behind, copy, at.count + 1);
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t byte_count, size_t capacity, unsigned seed)
{
    uint32_t state = seed | 1;
    const uint32_t choice = next(&state) % 8;
    if (byte_count == 0 || choice < 3) {
        return LLVMFuzzerMutate(bytes, byte_count, capacity);
    }
    for (uint32_t repeats = 1 + next(&state) % 3; repeats > 0 && byte_count > 0; repeats--) {
        byte_count = choice == 3 ? change_object(bytes, byte_count, capacity, &state)
                                 : replace_token(bytes, byte_count, capacity, &state);
    }
    return byte_count;
}
