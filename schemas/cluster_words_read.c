/* The grammar of clusters in words: from a text to what it says. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "schemas/base/nearest.h"
#include "schemas/cluster_tokens.h"
#include "schemas/cluster_words.h"
#include "schemas/limits.h"

enum { KINDS_BYTES = 512 };

typedef struct reader {
    gal_cluster_tokens tokens;
    gal_said_rate rate; /* not yet of a network */
    gal_cluster_words *out;
    gal_error *err;
} reader;

/* ---- numbers of devices ---- */

/* Behind a whole number, which is cut to what no cluster has; NULL if there is none. */
static const char *skip_number(const char *p, uint32_t *out)
{
    uint64_t value = 0;
    if (!isdigit((unsigned char)*p)) {
        return NULL;
    }
    for (; isdigit((unsigned char)*p); p++) {
        value = value > GAL_DEVICES_MAX ? value : 10 * value + (uint64_t)(*p - '0');
    }
    *out = (uint32_t)(value > GAL_DEVICES_MAX ? GAL_DEVICES_MAX + 1 : value);
    return p;
}

static bool is_device(const char *text)
{
    char plain[GAL_PLAIN_BYTES] = "";
    return gal_device_plain(text, plain) && gal_catalogue_device_find(plain) != NULL;
}

/* Whether a word that begins with a number is one, "4" or "4x", and no device, "4090". */
static bool is_count(const char *word, const char *behind_number)
{
    char whole[GAL_PLAIN_BYTES] = "";
    for (size_t i = 0; isalnum((unsigned char)word[i]) && i + 1 < sizeof whole; i++) {
        whole[i] = word[i];
    }
    const bool ends = !isalpha((unsigned char)*behind_number) || gal_skip_times(behind_number) != NULL;
    return ends && !is_device(whole);
}

/* "8x", "2x4", "2x4x" at the beginning: what they say, and what stands behind. NULL: they are not there. */
static const char *read_counts(const char *text, gal_cluster_words *out)
{
    uint32_t first = 0, second = 0;
    const char *p = skip_number(text + strspn(text, " \t\n"), &first);
    const char *behind = p == NULL ? NULL : gal_skip_times(p);
    if (behind == NULL) {
        return NULL;
    }
    out->node_count = 0;
    out->device_count = first;
    p = skip_number(behind, &second);
    if (p == NULL || !is_count(behind, p)) {
        return behind;
    }
    out->node_count = first > 0 ? first : 1; /* no nodes: no devices */
    out->device_count = first > 0 ? second : 0;
    behind = gal_skip_times(p);
    return behind == NULL ? p : behind;
}

bool gal_cluster_is_words(const char *text)
{
    gal_cluster_words words;
    const size_t length = strlen(text);
    const bool is_file = length > 5 && strcmp(text + length - 5, ".json") == 0;
    return !is_file && (read_counts(text, &words) != NULL || is_device(text));
}

/* ---- the device ---- */

static gal_code unknown_device(reader *r, const char *plain)
{
    char kinds[KINDS_BYTES];
    const char *near = gal_catalogue_device_nearest(plain);
    gal_catalogue_device_kinds(kinds, sizeof kinds);
    return gal_fail(r->err, GAL_ERR_USAGE, "unknown device '%s'%s%s%s (known: %s)", r->tokens.token[0].text,
                    near == NULL ? "" : ", did you mean \"", near == NULL ? "" : near, near == NULL ? "" : "\"?",
                    kinds);
}

/* The longest run of words from the first on that names a device. A slot behind a comma is a link: "h100, pcie". */
static gal_code read_device(reader *r)
{
    char plain[GAL_PLAIN_BYTES] = "";
    for (uint32_t i = 0; i < r->tokens.count && gal_device_plain(r->tokens.token[i].text, plain); i++) {
        const gal_catalogue_device *found = gal_catalogue_device_find(plain);
        if (r->tokens.token[i].family != NULL &&
            (r->tokens.token[i].behind_comma || r->tokens.token[i + 1].text[0] != '\0')) {
            break;
        }
        if (found != NULL) {
            r->out->device = found;
            r->tokens.at = i + 1;
        }
    }
    if (r->out->device == NULL) {
        char first[GAL_PLAIN_BYTES] = "";
        (void)gal_device_plain(r->tokens.token[0].text, first);
        return r->tokens.count == 0 ? gal_fail(r->err, GAL_ERR_USAGE, "no device is named: say '8xh100'")
                                    : unknown_device(r, first);
    }
    return GAL_OK;
}

/* ---- links ---- */

/* 4 of "4", "4.0", "gen4"; 0: no generation. */
static uint32_t generation_of(const char *word)
{
    const char *p = strncmp(word, "gen", 3) == 0 ? word + 3 : word;
    const bool ends = isdigit((unsigned char)*p) && (p[1] == '\0' || strcmp(p + 1, ".0") == 0);
    return ends ? (uint32_t)(*p - '0') : 0;
}

static void known_links(char *text, size_t capacity)
{
    size_t used = 0;
    for (uint32_t i = 0; i < gal_catalogue_link_count && used + 1 < capacity; i++) {
        char name[GAL_NAME_BYTES];
        gal_catalogue_link_name(&gal_catalogue_links[i], name);
        (void)snprintf(text + used, capacity - used, "%s%s", used == 0 ? "" : ", ", name);
        used = strlen(text);
    }
}

static gal_code unknown_word(reader *r)
{
    char known[KINDS_BYTES] = "", near_text[GAL_NAME_BYTES + 24] = "";
    const char *names[16], *word = r->tokens.token[r->tokens.at].text;
    for (uint32_t i = 0; i < gal_link_word_count; i++) {
        names[i] = gal_link_words[i].word;
    }
    const char *near = gal_nearest_name(word, names, gal_link_word_count);
    if (near != NULL) {
        (void)snprintf(near_text, sizeof near_text, ", did you mean \"%s\"?", near);
    }
    known_links(known, sizeof known);
    return gal_fail(r->err, GAL_ERR_USAGE, "'%s' is no link of a cluster%s (known: %s)", word, near_text, known);
}

/* The rate that was read becomes the network's. */
static void give_rate(reader *r)
{
    r->out->network_bytes_per_second = r->rate.bytes_per_second;
    r->out->network_per_device = r->rate.per_device;
    r->rate = (gal_said_rate){0};
}

static gal_code set_network(reader *r, const char *family)
{
    gal_cluster_words *out = r->out;
    if (out->network != NULL) {
        return gal_fail(r->err, GAL_ERR_USAGE, "nodes are joined by one network, got '%s' behind '%s'", family,
                        out->network->family);
    }
    out->network = gal_catalogue_link_find(family, 0);
    if (r->rate.bytes_per_second == 0.0) {
        r->rate = gal_cluster_take_rate(&r->tokens);
    }
    give_rate(r);
    return GAL_OK;
}

/* A card stands in its slot or an older one; other links are those of the device alone. */
static gal_code set_link(reader *r, const char *family)
{
    gal_cluster_words *out = r->out;
    const gal_catalogue_device *device = out->device;
    const uint32_t said =
        r->tokens.token[r->tokens.at].behind_comma ? 0 : generation_of(r->tokens.token[r->tokens.at].text);
    const uint32_t own = device->node_generation, generation = said > 0 ? said : own;
    const bool is_pcie = strcmp(family, "pcie") == 0;
    r->tokens.at += said > 0;
    if (out->link != NULL) {
        return gal_fail(r->err, GAL_ERR_USAGE, "a node's devices are joined by one kind of link, got '%s' behind '%s'",
                        family, out->link->family);
    }
    out->link = gal_catalogue_link_find(family, generation);
    if (out->link == NULL || strcmp(family, device->node_family) != 0 ||
        !(generation == own || (is_pcie && generation < own))) {
        char usual[GAL_NAME_BYTES];
        gal_catalogue_link_name(gal_catalogue_link_find(device->node_family, own), usual);
        return gal_fail(r->err, GAL_ERR_USAGE, "%s are joined by %s in a node, not by %s%s%.0u%s", device->device.kind,
                        usual, family, said > 0 ? "-" : "", said,
                        is_pcie ? ": cards in slots are kinds of their own, h100-pcie and a100-pcie" : "");
    }
    const gal_said_rate given =
        r->tokens.token[r->tokens.at].behind_comma ? (gal_said_rate){0} : gal_cluster_take_rate(&r->tokens);
    out->link_bytes_per_second = given.bytes_per_second;
    return given.bytes_per_second > 0.0 && given.in_bits
               ? gal_fail(r->err, GAL_ERR_USAGE, "the rate of a link in a node is in bytes: say '%s %g GB/s'", family,
                          given.bytes_per_second * 1e-9)
               : GAL_OK;
}

static gal_code set_memory(reader *r, uint64_t bytes)
{
    const gal_device *device = &r->out->device->device;
    if (bytes > device->memory_bytes) {
        return gal_fail(r->err, GAL_ERR_USAGE, "%s has %g GB: its memory can be said smaller, not %g GB", device->kind,
                        (double)device->memory_bytes * 1e-9, (double)bytes * 1e-9);
    }
    r->out->memory_bytes = bytes;
    return GAL_OK;
}

static gal_code read_part(reader *r)
{
    const gal_cluster_token *t = &r->tokens.token[r->tokens.at];
    gal_quantity q;
    if (t->family != NULL) {
        r->tokens.at++;
        return gal_catalogue_link_find(t->family, 0) != NULL && gal_catalogue_link_find(t->family, 0)->joins_nodes
                   ? set_network(r, t->family)
                   : set_link(r, t->family);
    }
    if (gal_quantity_read(&r->tokens, &q)) {
        const uint64_t memory_bytes = gal_quantity_bytes(&r->tokens, &q);
        if (strcasecmp(q.unit, "gbe") == 0) { /* Gigabit Ethernet */
            r->tokens.at += q.token_count;
            r->rate = (gal_said_rate){.bytes_per_second = q.count * q.number * 1e9 / 8.0, .in_bits = true};
            return set_network(r, "ethernet");
        }
        if (memory_bytes > 0) {
            r->tokens.at += q.token_count;
            return set_memory(r, memory_bytes);
        }
        r->rate = gal_cluster_take_rate(&r->tokens);
        return r->rate.bytes_per_second > 0.0 ? GAL_OK : unknown_word(r);
    }
    return unknown_word(r);
}

gal_code gal_cluster_words_read(const char *text, gal_cluster_words *out, gal_error *err)
{
    gal_cluster_words words = {0};
    reader r = {.out = &words, .err = err};
    const char *rest = read_counts(text, &words);
    if (rest == NULL) {
        return gal_fail(err, GAL_ERR_USAGE, "'%s' does not say how many devices: say '8x%s', or '2x8 %s' for 2 nodes",
                        text, text, text);
    }
    gal_code code = gal_cluster_split(rest, &r.tokens, err);
    if (code == GAL_OK) {
        code = read_device(&r);
    }
    while (code == GAL_OK && r.tokens.at < r.tokens.count) {
        code = read_part(&r);
    }
    if (words.network != NULL && words.network_bytes_per_second == 0.0) {
        give_rate(&r);
    }
    if (code == GAL_OK && r.rate.bytes_per_second > 0.0) {
        code =
            gal_fail(err, GAL_ERR_USAGE, "a rate without its network: say 'ethernet %g Gbit' or 'infiniband %g Gbit'",
                     8e-9 * r.rate.bytes_per_second, 8e-9 * r.rate.bytes_per_second);
    }
    if (code == GAL_OK) {
        *out = words;
    }
    return code;
}
