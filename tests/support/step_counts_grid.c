/* T5 and Swin on grids, as sums over their products Y = X W. Of T rows, in and out features:
 *     2D on 2 x 2   X and W gathered forward and again backward, dX and dW scattered: (2 T in + 2 in out) / 4 elements
 *                   in 4 gathers, (T in + in out) / 4 in 2 scatters
 *     3D on 2^3     beside them dY gathered and Y scattered: (2 T in + 2 in out + T out) / 8 in 3 gathers and 2 of
 *                   every matrix, (T in + in out + T out) / 8 in 2 scatters and 1 of every matrix
 * A head's forward is next to its backward: X and W are gathered once. */
#include "tests/support/step_counts_internal.h"

enum {
    M = GAL_STEP_MICROBATCHES,
    B = GAL_STEP_SAMPLES,
    H = GAL_STEP_HIDDEN,
    F = GAL_STEP_FFN,
    V = GAL_STEP_PADDED_VOCABULARY
};

/* matrices: that are stored one by one and read as one. */
typedef struct product {
    uint64_t rows, in, out, matrices;
    bool head;
} product;

static void add_2d(gal_step_counts *e, const product *p)
{
    const uint64_t times = p->head ? 1 : 2, x = p->rows * p->in, w = p->in * p->out;
    gal_step_add(e, GAL_OP_ALL_GATHER, 2, M * times * 2, M * times * (x + w) / 4);
    gal_step_add(e, GAL_OP_REDUCE_SCATTER, 2, M * 2, M * (x + w) / 4);
}

static void add_3d(gal_step_counts *e, const product *p)
{
    const uint64_t times = p->head ? 1 : 2, x = p->rows * p->in, w = p->in * p->out, y = p->rows * p->out;
    gal_step_add(e, GAL_OP_ALL_GATHER, 2, M * (times * (1 + p->matrices) + 1), M * (times * (x + w) + y) / 8);
    gal_step_add(e, GAL_OP_REDUCE_SCATTER, 2, M * (2 + p->matrices), M * (x + w + y) / 8);
}

/* Of all rows of a norm a device has those of `parts`: two moments gathered forward, two sums backward. */
static void add_norm(gal_step_counts *e, uint64_t rows, uint64_t parts)
{
    gal_step_add(e, GAL_OP_ALL_GATHER, 2, M, M * 2 * rows / parts);
    gal_step_add(e, GAL_OP_ALL_REDUCE, 2, M, M * 2 * rows / parts);
}

/* Largest logit, then sum of exponentials and the target's, of this device's rows. */
static void add_loss(gal_step_counts *e, uint64_t rows, uint64_t parts)
{
    gal_step_add(e, GAL_OP_ALL_REDUCE, 2, M * 2, M * 3 * rows / parts);
}

/* ---- T5: an encoder and a decoder layer, shorter targets, heads narrower than hidden / heads ---- */

enum {
    TARGETS = 4,
    HEAD_DIM = 6,
    BUCKETS = 6,
    INNER = GAL_STEP_HEADS * HEAD_DIM,
    T5_SOURCE = B * GAL_STEP_POSITIONS,
    T5_TARGET = B * TARGETS
};

void gal_step_turn_to_t5(gal_model *model)
{
    model->family = GAL_FAMILY_T5;
    model->activation = GAL_ACTIVATION_RELU;
    model->layer_count = model->decoder_layer_count = 1;
    model->decoder_sequence_length = TARGETS;
    model->head_dim = HEAD_DIM;
    model->relative_bucket_count = BUCKETS;
    model->relative_max_distance = 8;
}

static const product t5_products[] = {
    {T5_SOURCE, H, 3 * INNER, 3, false}, {T5_SOURCE, INNER, H, 1, false}, /* the encoder's attention */
    {T5_SOURCE, H, F, 1, false},         {T5_SOURCE, F, H, 1, false},     /* and FFN */
    {T5_TARGET, H, 3 * INNER, 3, false}, {T5_TARGET, INNER, H, 1, false}, /* the decoder's */
    {T5_TARGET, H, INNER, 1, false},                                      /* queries of the target, */
    {T5_SOURCE, H, 2 * INNER, 2, false}, {T5_TARGET, INNER, H, 1, false}, /* keys and values of the source */
    {T5_TARGET, H, F, 1, false},         {T5_TARGET, F, H, 1, false},     /* FFN */
    {T5_TARGET, H, V, 1, true}};
enum { T5_PRODUCTS = sizeof t5_products / sizeof t5_products[0] };
/* In front of each of the two parts of a layer and behind the layer; three parts in the decoder. */
enum { T5_SOURCE_NORMS = 3, T5_TARGET_NORMS = 4 };

/* Both stacks look their tokens up; gains have half of the features, one unit per block; both tables of relative
 * distances are whole on every device and partial sums over all. */
static void add_t5(gal_step_counts *e, uint32_t table_group, uint32_t vectors_group, uint32_t devices, uint64_t parts)
{
    gal_step_add(e, GAL_OP_ALL_GATHER, table_group, 2 * M, 2 * (uint64_t)M * V * H / devices);
    gal_step_add(e, GAL_OP_REDUCE_SCATTER, table_group, 2 * M, 2 * (uint64_t)M * V * H / devices);
    for (uint32_t i = 0; i < T5_SOURCE_NORMS + T5_TARGET_NORMS; i++) {
        add_norm(e, i < T5_SOURCE_NORMS ? T5_SOURCE : T5_TARGET, parts);
    }
    add_loss(e, T5_TARGET, parts);
    gal_step_add(e, GAL_OP_ALL_REDUCE, vectors_group, T5_SOURCE_NORMS + T5_TARGET_NORMS,
                 (T5_SOURCE_NORMS + T5_TARGET_NORMS) * H / 2);
    gal_step_add(e, GAL_OP_ALL_REDUCE, devices, 2, 2 * BUCKETS * GAL_STEP_HEADS);
}

void gal_step_t5_2d(gal_step_counts *e, uint32_t rank)
{
    (void)rank;
    for (uint32_t i = 0; i < T5_PRODUCTS; i++) {
        add_2d(e, &t5_products[i]);
    }
    add_t5(e, 2, 2, 4, 2);
}

void gal_step_t5_3d(gal_step_counts *e, uint32_t rank)
{
    (void)rank;
    for (uint32_t i = 0; i < T5_PRODUCTS; i++) {
        add_3d(e, &t5_products[i]);
    }
    add_t5(e, 4, 4, 8, 4);
}

/* ---- Swin: two levels of one layer, 8 x 8 patches of 12 numbers, then 4 x 4 of twice the features ---- */

enum {
    SIDE = 8,
    PATCH_FEATURES = 3 * 2 * 2,
    WINDOW = 4,
    OFFSETS = (2 * WINDOW - 1) * (2 * WINDOW - 1),
    SWIN_FIRST = B * SIDE * SIDE,
    SWIN_SECOND = SWIN_FIRST / 4,
    H2 = 2 * H,
    F2 = 2 * F
};

void gal_step_turn_to_swin(gal_model *model)
{
    model->family = GAL_FAMILY_SWIN;
    model->activation = GAL_ACTIVATION_GELU_ERF;
    model->image_size = 2 * SIDE;
    model->patch_size = 2;
    model->channel_count = 3;
    model->sequence_length = SIDE * SIDE;
    model->window_size = WINDOW;
    model->pixel_mean = model->pixel_standard_deviation = 0.5;
    model->layer_count = model->level_count = 2;
    for (uint32_t level = 0; level < 2; level++) {
        model->level_head_count[level] = GAL_STEP_HEADS;
        model->level_layer_count[level] = 1;
    }
}

static const product swin_products[] = {{SWIN_FIRST, H, 3 * H, 3, false},
                                        {SWIN_FIRST, H, H, 1, false},
                                        {SWIN_FIRST, H, F, 1, false},
                                        {SWIN_FIRST, F, H, 1, false},
                                        {SWIN_SECOND, 4 * H, H2, 1, false}, /* neighbours merged */
                                        {SWIN_SECOND, H2, 3 * H2, 3, false},
                                        {SWIN_SECOND, H2, H2, 1, false},
                                        {SWIN_SECOND, H2, F2, 1, false},
                                        {SWIN_SECOND, F2, H2, 1, false},
                                        {B, H2, V, 1, true}};
enum { SWIN_PRODUCTS = sizeof swin_products / sizeof swin_products[0] };

static void add_swin_rows(gal_step_counts *e, uint64_t parts)
{
    static const uint64_t norms[] = {SWIN_FIRST,  SWIN_FIRST,  SWIN_FIRST, /* of patches, attention, FFN */
                                     SWIN_SECOND, SWIN_SECOND, SWIN_SECOND, SWIN_SECOND};
    for (uint32_t i = 0; i < sizeof norms / sizeof norms[0]; i++) {
        add_norm(e, norms[i], parts);
    }
    add_loss(e, B, parts);
}

/* Of a device half of the features, or heads, each unit a sum over so many devices. */
static void add_swin_units(gal_step_counts *e, uint32_t group, const uint64_t *units, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        gal_step_add(e, GAL_OP_ALL_REDUCE, group, 1, units[i] / 2);
    }
}

void gal_step_swin_2d(gal_step_counts *e, uint32_t rank)
{
    /* One unit each: the projection of patches with its bias, which has features of its own on every device of a row;
     * gain and shift behind it; of a layer's halves gain, shift and biases of both products, and a table of distances
     * by heads; gain and shift of four neighbours; gain, shift and the bias of the head. */
    static const uint64_t units[] = {H * PATCH_FEATURES + H,  2 * H,      (2 + 1 + 3) * H,
                                     (2 + 1) * H + F,         2 * 4 * H,  (2 + 1 + 3) * H2,
                                     (2 + 1) * H2 + F2,       2 * H2 + V, OFFSETS * GAL_STEP_HEADS,
                                     OFFSETS * GAL_STEP_HEADS};
    (void)rank;
    for (uint32_t i = 0; i < SWIN_PRODUCTS; i++) {
        add_2d(e, &swin_products[i]);
    }
    add_swin_rows(e, 2);
    add_swin_units(e, 2, units, sizeof units / sizeof units[0]);
}

void gal_step_swin_3d(gal_step_counts *e, uint32_t rank)
{
    /* As above, but biases of turned rows, of queries, keys and values, of the FFN and of the head, are units of their
     * own. */
    static const uint64_t units[] = {H * PATCH_FEATURES + H,
                                     2 * H,
                                     (2 + 1) * H,
                                     3 * H,
                                     (2 + 1) * H,
                                     F,
                                     2 * 4 * H,
                                     (2 + 1) * H2,
                                     3 * H2,
                                     (2 + 1) * H2,
                                     F2,
                                     2 * H2,
                                     V,
                                     OFFSETS * GAL_STEP_HEADS,
                                     OFFSETS * GAL_STEP_HEADS};
    /* Merged rows, turned by one product, are turned back, an 8th of them gathered and exchanged, and their gradients
     * forth. */
    const uint64_t turned = SWIN_SECOND * H2 / 8;
    (void)rank;
    gal_step_add(e, GAL_OP_ALL_GATHER, 2, 2 * M, 2 * M * turned);
    gal_step_add(e, GAL_OP_ALL_TO_ALL, 2, 2 * M, 2 * M * turned);
    for (uint32_t i = 0; i < SWIN_PRODUCTS; i++) {
        add_3d(e, &swin_products[i]);
    }
    add_swin_rows(e, 4);
    add_swin_units(e, 4, units, sizeof units / sizeof units[0]);
}
