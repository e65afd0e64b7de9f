#include "runtime/train/data.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/train/fingerprint.h"
#include "runtime/train/images.h"
#include "runtime/train/lines.h"
#include "runtime/train/masking.h"
#include "runtime/train/token_file.h"
#include "schemas/base/fnv.h"

/* Tokens [first, first + token_count) of a file, or images [first, first + window_count). */
typedef struct split {
    const gal_token_file *file;
    gal_images *images;   /* NULL: tokens */
    const gal_line *line; /* [window_count], NULL: windows of one length, one behind another */
    uint64_t first, token_count, window_count;
} split;

struct gal_data {
    gal_data_options options;
    gal_token_file file, validation_file;
    gal_lines lines, validation_lines;
    gal_images *images, *validation_images;
    split train, validation;
};

/* ---- splits ---- */

static gal_code make_split(const char *path, const char *name, const gal_token_file *file, uint64_t first,
                           uint64_t token_count, uint32_t sequence_length, split *out, gal_error *err)
{
    const uint64_t window_count = token_count > sequence_length ? (token_count - 1) / sequence_length : 0;
    if (window_count == 0) {
        return gal_fail(err, GAL_ERR_DOCUMENT,
                        "%s: the %s split has %llu tokens, one window needs %llu (sequence_length + 1)", path, name,
                        (unsigned long long)token_count, (unsigned long long)sequence_length + 1);
    }
    *out = (split){.file = file, .first = first, .token_count = token_count, .window_count = window_count};
    return GAL_OK;
}

static gal_code split_files(gal_data *data, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_data_options *o = &data->options;
    const uint64_t total = data->file.token_count;
    const uint64_t held_out = o->validation_path == NULL ? total / 10 : 0;
    GAL_TRY(make_split(o->path, "training", &data->file, 0, total - held_out, o->sequence_length, &data->train, err));
    if (o->validation_path == NULL) {
        GAL_TRY(make_split(o->path, "validation (last tenth)", &data->file, total - held_out, held_out,
                           o->sequence_length, &data->validation, err));
    } else {
        GAL_TRY(make_split(o->validation_path, "validation", &data->validation_file, 0,
                           data->validation_file.token_count, o->sequence_length, &data->validation, err));
    }
cleanup:
    return code;
}

static bool is_masked(const gal_data_options *o)
{
    return o->model != NULL && o->model->family == GAL_FAMILY_BERT;
}

static bool pads(const gal_data_options *o)
{
    return o->model != NULL && o->model->padding;
}

/* Lines [first, end) and the tokens from the first one's to next_token. */
static gal_code make_lines(const char *path, const char *name, const gal_token_file *file, const gal_lines *lines,
                           uint64_t first, uint64_t end, split *out, gal_error *err)
{
    if (first == end) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "%s: the %s split has no line, the file has %llu", path, name,
                        (unsigned long long)lines->count);
    }
    const uint64_t first_token = first == 0 ? 0 : lines->line[first].first;
    const uint64_t next_token = end < lines->count ? lines->line[end].first : file->token_count;
    *out = (split){.file = file,
                   .line = lines->line + first,
                   .first = first_token,
                   .token_count = next_token - first_token,
                   .window_count = end - first};
    return GAL_OK;
}

static gal_code split_lines(gal_data *data, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_data_options *o = &data->options;
    const bool followed = o->target_length == 0 && !is_masked(o);
    GAL_TRY(gal_lines_read(&data->file, o->sequence_length, followed, &data->lines, err));
    const uint64_t total = data->lines.count;
    if (o->validation_path == NULL) {
        const uint64_t trained = total - total / 10;
        GAL_TRY(make_lines(o->path, "validation (last tenth)", &data->file, &data->lines, trained, total,
                           &data->validation, err));
        return make_lines(o->path, "training", &data->file, &data->lines, 0, trained, &data->train, err);
    }
    GAL_TRY(gal_lines_read(&data->validation_file, o->sequence_length, followed, &data->validation_lines, err));
    GAL_TRY(make_lines(o->validation_path, "validation", &data->validation_file, &data->validation_lines, 0,
                       data->validation_lines.count, &data->validation, err));
    GAL_TRY(make_lines(o->path, "training", &data->file, &data->lines, 0, total, &data->train, err));
cleanup:
    return code;
}

static bool has_images(const gal_data_options *o)
{
    return o->model != NULL && gal_model_sees_images(o->model);
}

static gal_code split_images(gal_data *data, gal_error *err)
{
    const uint64_t total = gal_images_count(data->images);
    const bool own_file = data->validation_images != NULL;
    const uint64_t held_out = own_file ? gal_images_count(data->validation_images) : total / 10;
    const uint64_t trained = own_file ? total : total - held_out;
    if (held_out == 0) {
        return gal_fail(err, GAL_ERR_DOCUMENT, "%s: %llu images have no last tenth to validate on", data->options.path,
                        (unsigned long long)total);
    }
    data->train = (split){.images = data->images, .window_count = trained, .token_count = trained};
    data->validation = (split){.images = own_file ? data->validation_images : data->images,
                               .first = own_file ? 0 : trained,
                               .window_count = held_out,
                               .token_count = held_out};
    return GAL_OK;
}

static gal_code open_images(gal_data *data, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_data_options *o = &data->options;
    if (o->labels_path == NULL || (o->validation_path != NULL && o->validation_labels_path == NULL)) {
        return gal_fail(err, GAL_ERR_USAGE, "%s: the model classifies images: name their labels by --%slabels",
                        o->labels_path == NULL ? o->path : o->validation_path,
                        o->labels_path == NULL ? "" : "validation-");
    }
    GAL_TRY(gal_images_open(o->path, o->labels_path, o->model, &data->images, err));
    if (o->validation_path != NULL) {
        GAL_TRY(
            gal_images_open(o->validation_path, o->validation_labels_path, o->model, &data->validation_images, err));
    }
    GAL_TRY(split_images(data, err));
cleanup:
    return code;
}

static gal_code open_tokens(gal_data *data, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_data_options *o = &data->options;
    if (o->labels_path != NULL || o->validation_labels_path != NULL) {
        return gal_fail(err, GAL_ERR_USAGE, "%s: labels go with images, the model reads tokens",
                        o->labels_path != NULL ? o->labels_path : o->validation_labels_path);
    }
    GAL_TRY(gal_token_file_open(o->path, o->vocabulary, o->as_bytes, &data->file, err));
    if (o->validation_path != NULL) {
        GAL_TRY(gal_token_file_open(o->validation_path, o->vocabulary, o->as_bytes, &data->validation_file, err));
    }
    GAL_TRY((pads(o) ? split_lines : split_files)(data, err));
cleanup:
    return code;
}

gal_code gal_data_open(const gal_data_options *options, gal_data **out, gal_error *err)
{
    gal_code code = GAL_OK;
    gal_data *data = calloc(1, sizeof *data);
    if (data == NULL) {
        return gal_fail(err, GAL_ERR_SYSTEM, "out of memory: data");
    }
    data->options = *options;
    data->file.descriptor = data->validation_file.descriptor = -1;
    if (options->target_length > options->sequence_length) {
        code =
            gal_fail(err, GAL_ERR_DOCUMENT,
                     "%s: %u targets cannot be copied from a source of %u tokens: decoder_sequence_length must be at "
                     "most sequence_length",
                     options->path, options->target_length, options->sequence_length);
        gal_data_close(data);
        return code;
    }
    GAL_TRY((has_images(options) ? open_images : open_tokens)(data, err));
    *out = data;
    data = NULL;
cleanup:
    gal_data_close(data);
    return code;
}

void gal_data_close(gal_data *data)
{
    if (data == NULL) {
        return;
    }
    gal_images_close(data->validation_images);
    gal_images_close(data->images);
    gal_lines_free(&data->validation_lines);
    gal_lines_free(&data->lines);
    gal_token_file_close(&data->validation_file);
    gal_token_file_close(&data->file);
    free(data);
}

uint64_t gal_data_train_windows(const gal_data *data)
{
    return data->train.window_count;
}

uint64_t gal_data_validation_windows(const gal_data *data)
{
    return data->validation.window_count;
}

uint64_t gal_data_train_tokens(const gal_data *data)
{
    return data->train.token_count;
}

/* The tokens, and the index where it says how long the sequences are. */
static gal_code fingerprint_tokens(const gal_token_file *file, uint64_t *fingerprint, gal_error *err)
{
    gal_code code = GAL_OK;
    char index[GAL_TOKEN_PATH_BYTES];
    GAL_TRY(gal_fingerprint_file(file->path, fingerprint, err));
    if (file->indexed && gal_token_file_index_path(file, index)) {
        GAL_TRY(gal_fingerprint_file(index, fingerprint, err));
    }
cleanup:
    return code;
}

static gal_code fingerprint_images(const char *path, const char *labels_path, uint64_t *fingerprint, gal_error *err)
{
    const gal_code code = gal_fingerprint_file(path, fingerprint, err);
    return code == GAL_OK ? gal_fingerprint_file(labels_path, fingerprint, err) : code;
}

gal_code gal_data_fingerprint(const gal_data *data, gal_data_content *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_data_options *o = &data->options;
    const bool images = data->images != NULL;
    gal_data_content found = {.training = GAL_FNV_START, .validation = GAL_FNV_START};
    GAL_TRY(images ? fingerprint_images(o->path, o->labels_path, &found.training, err)
                   : fingerprint_tokens(&data->file, &found.training, err));
    if (o->validation_path == NULL) {
        found.validation = found.training;
    } else {
        GAL_TRY(images ? fingerprint_images(o->validation_path, o->validation_labels_path, &found.validation, err)
                       : fingerprint_tokens(&data->validation_file, &found.validation, err));
    }
    *out = found;
cleanup:
    return code;
}

static gal_code count_chunk(void *context, uint64_t first, const int32_t *tokens, size_t count, gal_error *err)
{
    uint64_t *histogram = context;
    (void)first;
    (void)err;
    for (size_t i = 0; i < count; i++) {
        histogram[tokens[i]]++;
    }
    return GAL_OK;
}

double gal_data_unigram_entropy(const gal_data *data)
{
    const split *splits[] = {&data->train, &data->validation};
    const uint64_t total = data->train.token_count + data->validation.token_count;
    uint64_t *histogram = calloc(data->options.vocabulary, sizeof *histogram);
    double entropy = histogram != NULL ? 0.0 : NAN;
    for (uint32_t s = 0; s < 2 && histogram != NULL; s++) {
        const uint64_t first = splits[s]->first;
        for (uint64_t i = 0; splits[s]->images != NULL && i < splits[s]->window_count; i++) {
            histogram[gal_images_label(splits[s]->images, first + i)]++;
        }
        if (splits[s]->images == NULL && gal_token_file_each(splits[s]->file, first, first + splits[s]->token_count,
                                                             count_chunk, histogram, NULL) != GAL_OK) {
            entropy = NAN;
        }
    }
    if (isnan(entropy)) {
        free(histogram);
        return NAN;
    }
    for (uint32_t t = 0; t < data->options.vocabulary; t++) {
        if (histogram[t] > 0) {
            const double share = (double)histogram[t] / (double)total;
            entropy -= share * log(share);
        }
    }
    free(histogram);
    return entropy;
}

/* Number of a sample in its split. */
static uint64_t window_of(const gal_data *data, const split *from, bool evaluation, uint64_t serial)
{
    const uint64_t window = serial % from->window_count, epoch = serial / from->window_count;
    return evaluation ? window : gal_permute(window, from->window_count, gal_mix(gal_mix(data->options.seed) ^ epoch));
}

static const split *split_of(const gal_data *data, bool evaluation)
{
    return evaluation ? &data->validation : &data->train;
}

/* Tokens of a window or a line. */
typedef struct sample {
    uint64_t window, first;
    uint32_t token_count; /* of the source; the rest of the sequence is padding */
} sample;

static sample sample_of(const gal_data *data, const split *from, bool evaluation, uint64_t serial)
{
    const uint32_t length = data->options.sequence_length;
    const uint64_t window = window_of(data, from, evaluation, serial);
    return from->line != NULL ? (sample){window, from->line[window].first, from->line[window].token_count}
                              : (sample){window, from->first + window * length, length};
}

/* Of a sample's targets: as many as its tokens, of an encoder-decoder at most target_length. */
static uint32_t target_count_of(const gal_data *data, const sample *s)
{
    const uint32_t most = data->options.target_length;
    return most > 0 && most < s->token_count ? most : s->token_count;
}

/* The positions asked for of one row: its tokens, without padding. */
static gal_code read_row(const gal_data *data, const split *from, const gal_token_request *request, const sample *s,
                         uint32_t token_count, int32_t *out, gal_error *err)
{
    const bool follow = request->targets && data->options.target_length == 0 && !is_masked(&data->options);
    const uint32_t begin = request->position_begin, length = request->sequence_length;
    const uint32_t left = token_count > begin ? token_count - begin : 0, count = left < length ? left : length;
    const uint64_t first = s->first + begin;
    if (!request->decoder) {
        return count == 0 ? GAL_OK : gal_token_file_read(from->file, first + (follow ? 1 : 0), count, out, err);
    }
    const uint32_t start = begin == 0 ? 1 : 0; /* one position later, behind token 0 */
    out[0] = begin == 0 ? 0 : out[0];
    return count <= start ? GAL_OK
                          : gal_token_file_read(from->file, first + start - 1, count - start, out + start, err);
}

/* The tokens or targets of one sample. */
static gal_code fill_window(const gal_data *data, const gal_token_request *request, uint64_t serial, int32_t *out,
                            gal_error *err)
{
    gal_code code = GAL_OK;
    const split *from = split_of(data, request->evaluation);
    const gal_data_options *o = &data->options;
    const sample s = sample_of(data, from, request->evaluation, serial);
    if (from->images != NULL) {
        GAL_ASSERT(request->targets && request->sequence_length == 1);
        *out = gal_images_label(from->images, from->first + s.window);
        return GAL_OK;
    }
    const bool second = o->target_length > 0 && (request->targets || request->decoder);
    const uint32_t token_count = second ? target_count_of(data, &s) : s.token_count;
    const uint32_t begin = request->position_begin, length = request->sequence_length;
    GAL_ASSERT(begin + length <= (second ? o->target_length : o->sequence_length));
    GAL_TRY(read_row(data, from, request, &s, token_count, out, err));
    for (uint32_t p = token_count > begin ? token_count - begin : 0; p < length; p++) {
        out[p] = request->targets ? -1 : 0;
    }
    if (is_masked(o)) {
        const uint64_t key = gal_mix(o->seed + request->evaluation);
        gal_mask_sample(o->model, key ^ gal_mix(request->evaluation ? s.window : serial), token_count, request->targets,
                        begin, length, out);
    }
cleanup:
    return code;
}

gal_code gal_data_fill_lengths(void *context, const gal_token_request *request, int32_t *out, gal_error *err)
{
    const gal_data *data = context;
    const split *from = split_of(data, request->evaluation);
    (void)err;
    for (uint32_t i = 0; i < request->sample_count; i++) {
        const uint64_t serial = request->batch * data->options.global_batch_samples + request->samples[i];
        out[i] = (int32_t)sample_of(data, from, request->evaluation, serial).token_count;
    }
    return GAL_OK;
}

gal_code gal_data_count_targets(void *context, uint64_t batch, bool evaluation, uint64_t *out, gal_error *err)
{
    const gal_data *data = context;
    const split *from = split_of(data, evaluation);
    const uint32_t batch_samples = data->options.global_batch_samples;
    uint64_t count = 0;
    (void)err;
    for (uint32_t i = 0; i < batch_samples; i++) {
        const sample s = sample_of(data, from, evaluation, batch * batch_samples + i);
        count += gal_model_loss_positions_of(data->options.model, target_count_of(data, &s));
    }
    *out = count;
    return GAL_OK;
}

gal_code gal_data_fill_patches(void *context, const gal_patch_request *request, void *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_data *data = context;
    const split *from = split_of(data, request->evaluation);
    for (uint32_t s = 0; s < request->sample_count; s++) {
        const uint64_t serial = request->batch * data->options.global_batch_samples + request->samples[s];
        const uint64_t image = from->first + window_of(data, from, request->evaluation, serial);
        GAL_TRY(gal_images_patches(from->images, image, s, request, out, err));
    }
cleanup:
    return code;
}

gal_code gal_data_fill(void *context, const gal_token_request *request, int32_t *out, gal_error *err)
{
    gal_code code = GAL_OK;
    const gal_data *data = context;
    for (uint32_t s = 0; s < request->sample_count; s++) {
        const uint64_t serial = request->batch * data->options.global_batch_samples + request->samples[s];
        GAL_TRY(fill_window(data, request, serial, out + (size_t)s * request->sequence_length, err));
    }
cleanup:
    return code;
}
