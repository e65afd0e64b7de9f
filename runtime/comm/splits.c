/* Lists travel as words: groups, then of each its stream, members and their count. A group is sent by its first member
 * alone; that the others know it too is checked on them. */
#include "runtime/comm/splits.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD_WORDS = 2, ROUND_WORDS = 1, BUSY_BITS = 64 };

/* The groups of all ranks, sorted and distinct. */
typedef struct group_list {
    uint32_t count;
    gal_channel_spec *group; /* [count], sorted; ranks point into the words */
    uint32_t *round;         /* [count] */
    uint32_t round_count;
} group_list;

int gal_channel_compare(const gal_channel_spec *a, const gal_channel_spec *b)
{
    if (a->stream != b->stream) {
        return a->stream < b->stream ? -1 : 1;
    }
    for (uint32_t i = 0; i < a->rank_count && i < b->rank_count; i++) {
        if (a->ranks[i] != b->ranks[i]) {
            return a->ranks[i] < b->ranks[i] ? -1 : 1;
        }
    }
    return (a->rank_count > b->rank_count) - (a->rank_count < b->rank_count);
}

uint32_t gal_channel_index(const gal_channel_spec *spec, uint32_t rank, uint32_t world_size)
{
    uint32_t index = UINT32_MAX;
    GAL_ASSERT(spec->rank_count >= 1);
    for (uint32_t i = 0; i < spec->rank_count; i++) {
        GAL_ASSERT(spec->ranks[i] < world_size);
        if (spec->ranks[i] == rank) {
            GAL_ASSERT(index == UINT32_MAX);
            index = i;
        }
    }
    GAL_ASSERT(index != UINT32_MAX);
    return index;
}

static int compare_groups(const void *a, const void *b)
{
    return gal_channel_compare(a, b);
}

static gal_code no_memory(gal_error *err)
{
    return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: communicators");
}

/* ---- words ---- */

static uint64_t words_of(const gal_comm *control, const gal_channel_spec *channels, uint32_t channel_count)
{
    uint64_t words = 1;
    for (uint32_t i = 0; i < channel_count; i++) {
        words += channels[i].ranks[0] == control->rank ? HEAD_WORDS + (uint64_t)channels[i].rank_count : 0;
    }
    return words;
}

static uint32_t *put_group(uint32_t *next, const gal_channel_spec *group)
{
    *next++ = group->stream;
    *next++ = group->rank_count;
    memcpy(next, group->ranks, group->rank_count * sizeof *next);
    return next + group->rank_count;
}

static void put_own(const gal_comm *control, const gal_channel_spec *channels, uint32_t channel_count, uint32_t *words)
{
    uint32_t *next = words + 1;
    words[0] = 0;
    for (uint32_t i = 0; i < channel_count; i++) {
        if (channels[i].ranks[0] == control->rank) {
            next = put_group(next, &channels[i]);
            words[0]++;
        }
    }
}

static const uint32_t *get_group(const uint32_t *next, gal_channel_spec *group)
{
    *group = (gal_channel_spec){.stream = next[0], .rank_count = next[1], .ranks = next + HEAD_WORDS};
    return next + HEAD_WORDS + group->rank_count;
}

/* Of all ranks' lists, `words` words each. */
static gal_code collect(const uint32_t *all, uint32_t world_size, uint64_t words, group_list *list, gal_error *err)
{
    size_t total = 0;
    for (uint32_t r = 0; r < world_size; r++) {
        total += all[r * words];
    }
    list->group = calloc(total + 1, sizeof *list->group);
    list->round = calloc(total + 1, sizeof *list->round);
    if (list->group == NULL || list->round == NULL) {
        return no_memory(err);
    }
    for (uint32_t r = 0; r < world_size; r++) {
        const uint32_t *next = all + r * words + 1;
        for (uint32_t i = 0; i < all[r * words]; i++) {
            next = get_group(next, &list->group[list->count++]);
        }
    }
    qsort(list->group, list->count, sizeof *list->group, compare_groups);
    uint32_t distinct = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        if (distinct == 0 || gal_channel_compare(&list->group[distinct - 1], &list->group[i]) != 0) {
            list->group[distinct++] = list->group[i];
        }
    }
    list->count = distinct;
    return GAL_OK;
}

/* ---- rounds ---- */

/* First fit. busy[rank][round]: as bits; there are at most as many rounds as groups. */
static gal_code assign_rounds(group_list *list, uint32_t world_size, gal_error *err)
{
    const size_t row = list->count / BUSY_BITS + 1;
    uint64_t *busy = calloc(world_size * row, sizeof *busy);
    if (busy == NULL) {
        return no_memory(err);
    }
    for (uint32_t g = 0; g < list->count; g++) {
        const gal_channel_spec *group = &list->group[g];
        uint32_t round = 0;
        for (size_t w = 0; w < row; w++) {
            uint64_t taken = 0;
            for (uint32_t i = 0; i < group->rank_count; i++) {
                taken |= busy[group->ranks[i] * row + w];
            }
            if (taken != UINT64_MAX) {
                round = (uint32_t)(w * BUSY_BITS) + (uint32_t)__builtin_ctzll(~taken);
                break;
            }
        }
        for (uint32_t i = 0; i < group->rank_count; i++) {
            busy[group->ranks[i] * row + round / BUSY_BITS] |= UINT64_C(1) << round % BUSY_BITS;
        }
        list->round[g] = round;
        list->round_count = round + 1 > list->round_count ? round + 1 : list->round_count;
    }
    free(busy);
    return GAL_OK;
}

/* ---- what a rank takes of it ---- */

static uint32_t find_channel(const gal_channel_spec *group, const gal_channel_spec *channels, uint32_t channel_count)
{
    uint32_t c = 0;
    while (c < channel_count && gal_channel_compare(group, &channels[c]) != 0) {
        c++;
    }
    return c;
}

static bool has_rank(const gal_channel_spec *group, uint32_t rank)
{
    for (uint32_t i = 0; i < group->rank_count; i++) {
        if (group->ranks[i] == rank) {
            return true;
        }
    }
    return false;
}

/* GAL_ERR_DEVICE unless the groups that hold this rank are its channels. */
static gal_code take_own(const gal_comm *control, const group_list *list, const gal_channel_spec *channels,
                         gal_splits *out, gal_error *err)
{
    for (uint32_t r = 0; r < out->round_count; r++) {
        out->split[r].color = GAL_NO_SPLIT;
    }
    for (uint32_t c = 0; c < out->channel_count; c++) {
        out->round_of[c] = GAL_NO_SPLIT;
    }
    for (uint32_t g = 0; g < list->count; g++) {
        if (!has_rank(&list->group[g], control->rank)) {
            continue;
        }
        const uint32_t first = find_channel(&list->group[g], channels, out->channel_count);
        if (first == out->channel_count) {
            return gal_fail(err, GAL_ERR_DEVICE,
                            "the ranks do not agree on their communication channels: rank %u has one with rank %u that "
                            "rank %u lacks",
                            list->group[g].ranks[0], control->rank, control->rank);
        }
        out->split[list->round[g]] = (gal_split){
            .color = g,
            .key = gal_channel_index(&list->group[g], control->rank, control->world_size),
            .channel = first,
        };
        for (uint32_t c = first; c < out->channel_count; c++) {
            if (gal_channel_compare(&list->group[g], &channels[c]) == 0) {
                out->round_of[c] = list->round[g];
            }
        }
    }
    for (uint32_t c = 0; c < out->channel_count; c++) {
        if (out->round_of[c] == GAL_NO_SPLIT) {
            return gal_fail(err, GAL_ERR_DEVICE,
                            "the ranks do not agree on their communication channels: rank %u has one with rank %u that "
                            "rank %u lacks",
                            control->rank, channels[c].ranks[0], channels[c].ranks[0]);
        }
    }
    return GAL_OK;
}

/* ---- all together ---- */

/* Rank 0's list to all: words of [count, rounds, then each group's stream, members, round]. */
static gal_code share_list(gal_comm *control, const group_list *mine, double deadline_seconds, uint32_t **words,
                           group_list *list, gal_error *err)
{
    gal_code code = GAL_OK;
    uint64_t count = 2;
    for (uint32_t g = 0; g < mine->count; g++) {
        count += HEAD_WORDS + mine->group[g].rank_count + ROUND_WORDS;
    }
    GAL_TRY(gal_comm_broadcast(control, 0, &count, sizeof count, deadline_seconds, err));
    *words = malloc(count * sizeof **words);
    GAL_TRY(gal_comm_agree(control, *words != NULL ? GAL_OK : no_memory(err), deadline_seconds, err));
    if (control->rank == 0) {
        uint32_t *next = *words;
        *next++ = mine->count;
        *next++ = mine->round_count;
        for (uint32_t g = 0; g < mine->count; g++) {
            next = put_group(next, &mine->group[g]);
            *next++ = mine->round[g];
        }
    }
    GAL_TRY(gal_comm_broadcast(control, 0, *words, count * sizeof **words, deadline_seconds, err));
    const uint32_t *next = *words + 2;
    list->round_count = (*words)[1];
    list->group = calloc((size_t)(*words)[0] + 1, sizeof *list->group);
    list->round = calloc((size_t)(*words)[0] + 1, sizeof *list->round);
    GAL_TRY(gal_comm_agree(control, list->group != NULL && list->round != NULL ? GAL_OK : no_memory(err),
                           deadline_seconds, err));
    for (; list->count < (*words)[0]; list->count++) {
        next = get_group(next, &list->group[list->count]);
        list->round[list->count] = *next++;
    }
cleanup:
    return code;
}

static void free_list(group_list *list)
{
    free(list->group);
    free(list->round);
}

/* On rank 0 the list of all groups; elsewhere it stays empty. *lists holds the groups' members. */
static gal_code gather_list(gal_comm *control, const gal_channel_spec *channels, uint32_t channel_count,
                            double deadline_seconds, uint32_t **lists, group_list *list, gal_error *err)
{
    gal_code code = GAL_OK;
    uint32_t *own = NULL;
    double most = (double)words_of(control, channels, channel_count);
    GAL_TRY(gal_comm_reduce_f64(control, &most, 1, GAL_REDUCE_MAX, deadline_seconds, err));
    const uint64_t words = (uint64_t)most;
    const bool first = control->rank == 0;
    own = calloc(words, sizeof *own);
    *lists = first ? calloc(words * control->world_size, sizeof **lists) : NULL;
    code = own != NULL && (!first || *lists != NULL) ? GAL_OK : no_memory(err);
    GAL_TRY(gal_comm_agree(control, code, deadline_seconds, err));
    put_own(control, channels, channel_count, own);
    GAL_TRY(gal_comm_gather(control, 0, own, words * sizeof *own, *lists, deadline_seconds, err));
    code = first ? collect(*lists, control->world_size, words, list, err) : GAL_OK;
    if (code == GAL_OK) {
        code = assign_rounds(list, control->world_size, err);
    }
    GAL_TRY(gal_comm_agree(control, code, deadline_seconds, err));
cleanup:
    free(own);
    return code;
}

gal_code gal_splits_create(gal_comm *control, const gal_channel_spec *channels, uint32_t channel_count,
                           double deadline_seconds, gal_splits *out, gal_error *err)
{
    gal_code code = GAL_OK;
    uint32_t *lists = NULL, *words = NULL;
    group_list gathered = {0}, list = {0};
    gal_splits splits = {.channel_count = channel_count};
    for (uint32_t c = 0; c < channel_count; c++) {
        (void)gal_channel_index(&channels[c], control->rank, control->world_size);
        GAL_ASSERT(channels[c].rank_count >= 2);
    }
    GAL_TRY(gather_list(control, channels, channel_count, deadline_seconds, &lists, &gathered, err));
    GAL_TRY(share_list(control, &gathered, deadline_seconds, &words, &list, err));
    splits.round_count = list.round_count;
    splits.split = calloc((size_t)list.round_count + 1, sizeof *splits.split);
    splits.round_of = calloc((size_t)channel_count + 1, sizeof *splits.round_of);
    code = splits.split != NULL && splits.round_of != NULL ? GAL_OK : no_memory(err);
    if (code == GAL_OK) {
        code = take_own(control, &list, channels, &splits, err);
    }
    GAL_TRY(gal_comm_agree(control, code, deadline_seconds, err));
    *out = splits;
    memset(&splits, 0, sizeof splits);
cleanup:
    gal_splits_free(&splits);
    free_list(&list);
    free_list(&gathered);
    free(words);
    free(lists);
    return code;
}

void gal_splits_free(gal_splits *splits)
{
    free(splits->split);
    free(splits->round_of);
    memset(splits, 0, sizeof *splits);
}
