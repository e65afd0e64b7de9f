/* What conversions are alike: of thousands of pairs of orders of axes a few hundred differ. */
#include <string.h>

#include "costmodel/price_cache.h"

/* ---- numbers of lists ---- */

/* Words that are written one behind the other; of all that were met equal ones have one number. */
typedef struct words {
    gal_price_cache *cache;
    gal_code code;
    gal_error *err;
    uint32_t number, count; /* of what is behind; not numbered yet */
    uint64_t word[GAL_PRICE_KEY_WORDS - 2];
} words;

static void number_them(words *w)
{
    gal_price_key key = {{(uint64_t)w->number << 32 | w->count, (uint64_t)GAL_PRICE_WORDS << 24}};
    memcpy(&key.word[2], w->word, w->count * sizeof *w->word);
    void *found = gal_price_find(w->cache, &key);
    if (found == NULL && w->code == GAL_OK) {
        const uint32_t next = ++w->cache->list_count;
        w->code = gal_price_keep(w->cache, &key, &next, sizeof next, &found, w->err);
    }
    w->number = found != NULL ? *(const uint32_t *)found : 0;
    w->count = 0;
}

static void write_word(words *w, uint64_t word)
{
    if (w->count == sizeof w->word / sizeof *w->word) {
        number_them(w);
    }
    w->word[w->count++] = word;
}

/* ---- atoms by name ---- */

/* Atoms in the order in which they are met; what an atom is called elsewhere does not count. */
typedef struct names {
    words *w;
    const gal_atoms *atoms;
    gal_mesh from, to;
    uint32_t named_count;
    uint8_t name[GAL_ATOMS_MAX]; /* 0: none yet */
} names;

/* Of which axes the atom is. */
static uint64_t axes_of(const gal_mesh *mesh, uint32_t atom)
{
    const gal_group group[] = {mesh->dp, mesh->sdp, mesh->tp, mesh->column, mesh->output, mesh->sequence};
    uint64_t axes = 0;
    for (uint32_t i = 0; i < sizeof group / sizeof *group; i++) {
        axes |= (uint64_t)gal_group_has(group[i], atom) << i;
    }
    return axes;
}

/* The first time with all there is to know of it. */
static uint64_t name_of(names *n, uint32_t atom)
{
    if (n->name[atom] == 0) {
        n->name[atom] = (uint8_t)++n->named_count;
        write_word(n->w, (uint64_t)n->atoms->radix[atom] << 32 | axes_of(&n->from, atom) << 8 | axes_of(&n->to, atom));
    }
    return n->name[atom];
}

static void write_group(names *n, gal_group group)
{
    uint64_t set = 0;
    for (uint32_t atom = 0; atom < n->atoms->count; atom++) {
        set |= gal_group_has(group, atom) ? UINT64_C(1) << name_of(n, atom) : 0;
    }
    write_word(n->w, set);
}

static void write_layout(names *n, const gal_layout *layout)
{
    write_word(n->w, layout->digit_count);
    for (uint32_t i = 0; i < layout->digit_count; i++) {
        const gal_digit *digit = &layout->digit[i];
        const uint64_t owner = digit->atom < 0 ? 0 : name_of(n, (uint32_t)digit->atom);
        write_word(n->w, (uint64_t)digit->radix << 32 | digit->stride);
        write_word(n->w, owner);
    }
    write_group(n, layout->sample_group);
    write_group(n, layout->sequence_group);
    write_group(n, layout->feature_group);
}

/* ---- a conversion ---- */

static void write_levels(words *w, const gal_price_query *query, const gal_atoms *atoms, gal_group group)
{
    uint32_t counts[GAL_LINK_LEVELS_MAX] = {0};
    const gal_place_in_cluster place = {atoms, query->device_count, query->stage, query->stage_count};
    gal_group_level_counts(gal_durations_cluster(w->cache->durations), &place, group, counts);
    for (uint32_t i = 0; i + 1 < GAL_LINK_LEVELS_MAX; i += 2) {
        write_word(w, (uint64_t)counts[i] << 32 | counts[i + 1]);
    }
}

gal_code gal_price_key_of_alike(gal_price_cache *cache, const gal_price_query *from, const gal_price_query *to,
                                const gal_block_price *a, const gal_block_price *b, gal_price_key *out, gal_error *err)
{
    _Static_assert(GAL_LINK_LEVELS_MAX % 2 == 0, "pairs of levels");
    gal_atoms atoms;
    gal_layout before, behind;
    gal_layout_step steps[GAL_LAYOUT_STEPS_MAX];
    gal_atoms_of(from->device_count, &atoms);
    gal_layout_of_strategy(from->microbatch_samples, &atoms, from->strategy, &before);
    const uint32_t count = gal_layout_enter(&before, &atoms, to->strategy, steps, &behind);
    words w = {.cache = cache, .err = err};
    names n = {
        .w = &w, .atoms = &atoms, .from = gal_mesh_of(&atoms, from->strategy), .to = gal_mesh_of(&atoms, to->strategy)};
    write_word(&w, (uint64_t)(uintptr_t)a); /* one price: they differ in the order of axes alone, and lie alike */
    write_word(&w, (uint64_t)(uintptr_t)b);
    write_layout(&n, &before);
    for (uint32_t i = 0; i < count; i++) {
        write_word(&w, steps[i].kind);
        write_group(&n, steps[i].group);
        write_levels(&w, from, &atoms, steps[i].group);
        write_layout(&n, &steps[i].to);
    }
    number_them(&w);
    *out = (gal_price_key){{w.number, (uint64_t)GAL_PRICE_ALIKE << 24}};
    return w.code;
}
