/* Rotary position embedding: feature i of a head and feature i + head_dim / 2 are a point that is turned by the angle
 * position * base^(-2 i / head_dim); backward turns the other way. The halves are paired as in the public weights of
 * Llama, not neighbours as in the paper.
 * Source: J. Su et al., "RoFormer", arXiv 2104.09864, section 3.2.2. */
#include "runtime/ops/host/kernels.h"

enum { CHUNK = 256 }; /* pairs whose sines are kept at a time */

GAL_VECTOR
static void turn(gal_real *first, gal_real *second, const gal_real *cosine, const gal_real *sine, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const gal_real a = first[i], b = second[i];
        first[i] = a * cosine[i] - b * sine[i];
        second[i] = b * cosine[i] + a * sine[i];
    }
}

/* schemas/model.h, gal_rotary_scaling. */
static double scale_frequency(const gal_rotary_scaling *scaling, double frequency)
{
    static const double turn_radians = 6.283185307179586;
    if (scaling->kind == GAL_ROTARY_SCALING_NONE) {
        return frequency;
    }
    double kept = 0.0; /* share of the frequency as it was */
    if (scaling->kind == GAL_ROTARY_SCALING_LLAMA3) {
        const double turns = scaling->original_positions * frequency / turn_radians;
        kept =
            (turns - scaling->low_frequency_factor) / (scaling->high_frequency_factor - scaling->low_frequency_factor);
        kept = fmin(fmax(kept, 0.0), 1.0);
    }
    return kept * frequency + (1.0 - kept) * frequency / scaling->factor;
}

static void find_frequencies(const gal_model *model, size_t half, size_t first, size_t count, double *frequency)
{
    for (size_t i = 0; i < count; i++) {
        frequency[i] =
            scale_frequency(&model->rotary_scaling, pow(model->rotary_base, -(double)(first + i) / (double)half));
    }
}

/* Angles in double: those of late positions are large. */
static void find_angles(double position, const double *frequency, size_t count, bool inverse, gal_real *cosine,
                        gal_real *sine)
{
    for (size_t i = 0; i < count; i++) {
        const double angle = position * frequency[i];
        cosine[i] = (gal_real)cos(angle);
        sine[i] = (gal_real)(inverse ? -sin(angle) : sin(angle));
    }
}

static void rotary_part(const void *context, uint32_t part)
{
    const gal_split *at = context;
    const gal_kernel_call *call = at->call;
    const size_t samples = call->dims[0], heads = call->dims[2], dim = call->dims[3], row = call->dims[4];
    const size_t half = dim / 2, end = gal_cut_begin(&at->cut, part + 1);
    gal_real *x = call->operand[0];
    double frequency[CHUNK];
    gal_real cosine[CHUNK], sine[CHUNK];
    for (size_t first = 0; first < half; first += CHUNK) {
        const size_t count = half - first < CHUNK ? half - first : CHUNK;
        find_frequencies(call->step->model, half, first, count, frequency);
        for (size_t p = gal_cut_begin(&at->cut, part); p < end; p++) {
            find_angles((double)(call->position_begin + p), frequency, count, call->dims[5] != 0, cosine, sine);
            for (size_t head = 0; head < samples * heads; head++) {
                gal_real *from = x + (p * samples + head / heads) * row + head % heads * dim + first;
                turn(from, from + half, cosine, sine, count);
            }
        }
    }
}

gal_code GAL_KERNEL(rotary)(const gal_kernel_call *call, gal_error *err)
{
    (void)err;
    gal_split_run(call, call->dims[1], 1, (size_t)call->dims[0] * call->dims[2] * call->dims[3], rotary_part);
    return GAL_OK;
}
