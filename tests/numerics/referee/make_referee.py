#!/usr/bin/python3
"""Writes the referee documents: small models of each family in PyTorch's own operators, fp64, on the processor.

    /usr/bin/python3 tests/numerics/referee/make_referee.py tests/numerics/referee

Debian 12: apt-get install python3-torch. Nothing is taken from galplan's code: the random numbers of the initial
weights are written again below from their definition in runtime/ops/ops.h. Dropout is off.

Of every tensor the document holds the gradient of the first step (before clipping) and the weight after the last
step: every stride-th element (all of small tensors), the sum of squares of all elements, and their sum with the factors
frac(0.6180339887498949 i) - 0.5, so that no element can be wrong unseen.
"""
import json
import math
import sys

import torch
import torch.nn.functional as F

STEPS, SAMPLES, SEED = 10, 4, 20240607
FULL_ELEMENTS, STRIDE = 800, 13


def philox(key, counter):
    """Philox 4x32-10 (Salmon et al., SC 2011)."""
    mask = 0xFFFFFFFF
    c = list(counter)
    key0, key1 = key & mask, key >> 32
    for _ in range(10):
        product0, product1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(product1 >> 32) ^ c[1] ^ key0, product1 & mask, (product0 >> 32) ^ c[3] ^ key1, product0 & mask]
        key0, key1 = (key0 + 0x9E3779B9) & mask, (key1 + 0xBB67AE85) & mask
    return c


def uniform(low, high):
    return ((((high << 32) | low) >> 12) + 0.5) * 2.0**-52


def normal(tensor, count):
    """gal_initial_normal of elements 0 .. count - 1: Box-Muller on Philox, counter (index / 2, tensor, 2^32 - 1)."""
    out = []
    for pair in range((count + 1) // 2):
        lanes = philox(SEED, (pair & 0xFFFFFFFF, pair >> 32, tensor, 0xFFFFFFFF))
        radius = math.sqrt(-2.0 * math.log(uniform(lanes[0], lanes[1])))
        angle = 6.283185307179586476925286766559 * uniform(lanes[2], lanes[3])
        out += [radius * math.cos(angle), radius * math.sin(angle)]
    return out[:count]


class Weights:
    """All tensors by public name, in the order of their numbers."""

    def __init__(self, model):
        self.model = model
        self.tensors = {}
        {"decoder": self.make_gpt2, "llama": self.make_llama, "bert": self.make_bert, "vit": self.make_vit,
         "t5": self.make_t5, "swin": self.make_swin}[model["family"]](model)

    def make_gpt2(self, model):
        """Matrices [in][out], tables [entry][hidden]."""
        h, f, layers = model["hidden"], model["ffn_hidden"], model["layer_count"]
        deviation = model["initial_standard_deviation"]
        residual = deviation / math.sqrt(2.0 * layers)
        self.draw("wte.weight", 0, (model["vocabulary"], h), deviation)
        self.draw("wpe.weight", 1, (model["sequence_length"], h), deviation)
        for layer in range(layers):
            first = 2 + 12 * layer
            at = "h.%d." % layer
            self.norm(at + "ln_1", first, h)
            self.draw(at + "attn.c_attn.weight", first + 2, (h, 3 * h), deviation)
            self.fill(at + "attn.c_attn.bias", 3 * h, 0.0)
            self.draw(at + "attn.c_proj.weight", first + 4, (h, h), residual)
            self.fill(at + "attn.c_proj.bias", h, 0.0)
            self.norm(at + "ln_2", first + 6, h)
            self.draw(at + "mlp.c_fc.weight", first + 8, (h, f), deviation)
            self.fill(at + "mlp.c_fc.bias", f, 0.0)
            self.draw(at + "mlp.c_proj.weight", first + 10, (f, h), residual)
            self.fill(at + "mlp.c_proj.bias", h, 0.0)
        self.norm("ln_f", 2 + 12 * layers, h)
        if not model["tied_embeddings"]:
            self.draw("lm_head.weight", 2 + 12 * layers + 2, (model["vocabulary"], h), deviation)

    def make_llama(self, model):
        """Matrices [out][in], as in the public weights; 8 numbers per block."""
        h, f, layers = model["hidden"], model["ffn_hidden"], model["layer_count"]
        q, kv = model["head_count"] * model["head_dim"], model["kv_head_count"] * model["head_dim"]
        deviation = model["initial_standard_deviation"]
        residual = deviation / math.sqrt(2.0 * layers)
        self.draw("model.embed_tokens.weight", 0, (model["vocabulary"], h), deviation)
        for layer in range(layers):
            first = 2 + 16 * layer
            at = "model.layers.%d." % layer
            self.fill(at + "input_layernorm.weight", h, 1.0)
            for i, (name, rows) in enumerate((("q", q), ("k", kv), ("v", kv))):
                self.draw(at + "self_attn.%s_proj.weight" % name, first + 1 + i, (rows, h), deviation)
                if model["qkv_bias"]:
                    self.fill(at + "self_attn.%s_proj.bias" % name, rows, 0.0)
            self.draw(at + "self_attn.o_proj.weight", first + 7, (h, q), residual)
            self.fill(at + "post_attention_layernorm.weight", h, 1.0)
            self.draw(at + "mlp.gate_proj.weight", first + 9, (f, h), deviation)
            self.draw(at + "mlp.up_proj.weight", first + 10, (f, h), deviation)
            self.draw(at + "mlp.down_proj.weight", first + 15, (h, f), residual)
        self.fill("model.norm.weight", h, 1.0)
        if not model["tied_embeddings"]:
            self.draw("lm_head.weight", 2 + 16 * layers + 1, (model["vocabulary"], h), deviation)

    def make_encoder(self, model, prefix, first, inner, before, after):
        """Layers of BERT and ViT: matrices [out][in], 10 numbers per block; names by what lies inside attention, and
        those of the two norms."""
        h, f, deviation = model["hidden"], model["ffn_hidden"], model["initial_standard_deviation"]
        for layer in range(model["layer_count"]):
            at = "%s%d." % (prefix, layer)
            for i, name in enumerate(("query", "key", "value")):
                self.linear("%sattention.%s.%s" % (at, inner, name), first + 2 + i, h, h, deviation)
            self.linear(at + "attention.output.dense", first + 8, h, h, deviation)
            self.norm(at + before, first, h)
            self.linear(at + "intermediate.dense", first + 12, f, h, deviation)
            self.linear(at + "output.dense", first + 18, h, f, deviation)
            self.norm(at + after, first + 10, h)
            first += 20
        return first

    def make_bert(self, model):
        h, deviation = model["hidden"], model["initial_standard_deviation"]
        at = "bert.embeddings."
        self.draw(at + "word_embeddings.weight", 0, (model["vocabulary"], h), deviation)
        self.draw(at + "position_embeddings.weight", 1, (model["sequence_length"], h), deviation)
        self.draw(at + "token_type_embeddings.weight", 2, (model["type_count"], h), deviation)
        self.norm(at + "LayerNorm", 3, h)
        first = self.make_encoder(model, "bert.encoder.layer.", 5, "self", "attention.output.LayerNorm",
                                  "output.LayerNorm")
        self.linear("cls.predictions.transform.dense", first, h, h, deviation)
        self.norm("cls.predictions.transform.LayerNorm", first + 2, h)
        self.fill("cls.predictions.bias", model["vocabulary"], 0.0)
        if not model["tied_embeddings"]:
            self.draw("cls.predictions.decoder.weight", first + 4, (model["vocabulary"], h), deviation)

    def make_vit(self, model):
        h, deviation = model["hidden"], model["initial_standard_deviation"]
        at = "vit.embeddings."
        self.linear(at + "patch_embeddings.projection", 0, h, model["channel_count"] * model["patch_size"] ** 2,
                    deviation)
        self.draw(at + "position_embeddings", 2, (model["sequence_length"], h), deviation)
        self.draw(at + "cls_token", 3, (h,), deviation)
        first = self.make_encoder(model, "vit.encoder.layer.", 4, "attention", "layernorm_before", "layernorm_after")
        self.norm("vit.layernorm", first, h)
        self.linear("classifier", first + 2, model["vocabulary"], h, deviation)

    def make_swin(self, model):
        """Matrices [out][in]; 11 numbers per block, 4 of the embedding."""
        h, f, deviation = model["hidden"], model["ffn_hidden"], model["initial_standard_deviation"]
        grid = model["image_size"] // model["patch_size"]
        self.linear("swin.embeddings.patch_embeddings.projection", 0, h,
                    model["channel_count"] * model["patch_size"] ** 2, deviation)
        self.norm("swin.embeddings.norm", 2, h)
        first = 4
        for level, (layers, heads) in enumerate(zip(model["level_layer_counts"], model["level_head_counts"])):
            offsets = (2 * min(model["window_size"], grid) - 1) ** 2
            for layer in range(layers):
                at = "swin.encoder.layers.%d.blocks.%d." % (level, layer)
                self.norm(at + "layernorm_before", first, h)
                for i, name in enumerate(("query", "key", "value")):
                    self.linear(at + "attention.self." + name, first + 2 + i, h, h, deviation)
                self.linear(at + "attention.output.dense", first + 8, h, h, deviation)
                self.draw(at + "attention.self.relative_position_bias_table", first + 10, (offsets, heads), deviation)
                self.norm(at + "layernorm_after", first + 11, h)
                self.linear(at + "intermediate.dense", first + 13, f, h, deviation)
                self.linear(at + "output.dense", first + 19, h, f, deviation)
                first += 22
            if level + 1 < len(model["level_layer_counts"]):
                at = "swin.encoder.layers.%d.downsample." % level
                self.norm(at + "norm", first, 4 * h)
                self.draw(at + "reduction.weight", first + 2, (2 * h, 4 * h), deviation)
                h, f, grid, first = 2 * h, 2 * f, grid // 2, first + 11
        self.norm("swin.layernorm", first, h)
        self.linear("classifier", first + 2, model["vocabulary"], h, deviation)

    def linear(self, name, number, rows, columns, deviation):
        self.draw(name + ".weight", number, (rows, columns), deviation)
        self.fill(name + ".bias", rows, 0.0)

    def make_t5(self, model):
        """Matrices [out][in], as in the public weights; 5 numbers per block, 2 of the embedding."""
        h, f, encoders = model["hidden"], model["ffn_hidden"], model["layer_count"]
        features, buckets = model["head_count"] * model["head_dim"], model["relative_bucket_count"]
        deviation = model["initial_standard_deviation"]
        residual = deviation / math.sqrt(2.0 * encoders)

        def attention(at, block, norm):
            first = 2 + 5 * (block - 1)
            self.fill(norm, h, 1.0)
            for i, name in enumerate("qkv"):
                self.draw(at + name + ".weight", first + 1 + i, (features, h), deviation)
            self.draw(at + "o.weight", first + 4, (h, features), residual)

        def feed_forward(at, block):
            first = 2 + 5 * (block - 1)
            self.fill(at + "layer_norm.weight", h, 1.0)
            names = ("wi_0", "wi_1") if model["gated"] else ("wi",)
            for i, name in enumerate(names):
                self.draw(at + "DenseReluDense.%s.weight" % name, first + 1 + i, (f, h), deviation)
            self.draw(at + "DenseReluDense.wo.weight", first + 4, (h, f), residual)

        bridge = 1 + 2 * encoders
        head = bridge + 1 + 3 * model["decoder_layer_count"]
        bias = "%s.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        self.draw("shared.weight", 0, (model["vocabulary"], h), deviation)
        self.draw(bias % "encoder", 1, (buckets, model["head_count"]), deviation)
        self.draw(bias % "decoder", 2 + 5 * (bridge - 1) + 1, (buckets, model["head_count"]), deviation)
        for layer in range(encoders):
            at = "encoder.block.%d.layer." % layer
            attention(at + "0.SelfAttention.", 1 + 2 * layer, at + "0.layer_norm.weight")
            feed_forward(at + "1.", 2 + 2 * layer)
        self.fill("encoder.final_layer_norm.weight", h, 1.0)
        for layer in range(model["decoder_layer_count"]):
            at, block = "decoder.block.%d.layer." % layer, bridge + 1 + 3 * layer
            attention(at + "0.SelfAttention.", block, at + "0.layer_norm.weight")
            attention(at + "1.EncDecAttention.", block + 1, at + "1.layer_norm.weight")
            feed_forward(at + "2.", block + 2)
        self.fill("decoder.final_layer_norm.weight", h, 1.0)
        if not model["tied_embeddings"]:
            self.draw("lm_head.weight", 2 + 5 * (head - 1) + 1, (model["vocabulary"], h), deviation)

    def add(self, name, values, shape):
        self.tensors[name] = torch.tensor(values, dtype=torch.float64).reshape(shape).requires_grad_(True)

    def draw(self, name, number, shape, deviation):
        self.add(name, [deviation * x for x in normal(number, math.prod(shape))], shape)

    def fill(self, name, count, value):
        self.add(name, [value] * count, (count,))

    def norm(self, name, number, hidden):
        self.fill(name + ".weight", hidden, 1.0)
        self.fill(name + ".bias", hidden, 0.0)

    def __getitem__(self, name):
        return self.tensors[name]


def mask_of(lengths, keys):
    """[sample][head][query][key], what is added to the scores: of keys behind their sample's end minus infinity."""
    behind = torch.arange(keys)[None, :] >= lengths[:, None]
    return torch.zeros(behind.shape, dtype=torch.float64).masked_fill(behind, float("-inf"))[:, None, None, :]


def causal(q, k, v):
    """[samples][heads][positions][dim]"""
    positions = q.shape[2]
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
    future = torch.ones(positions, positions, dtype=torch.bool).triu(1)
    return torch.softmax(scores.masked_fill(future, float("-inf")), dim=3) @ v


def attention(w, at, x, heads):
    samples, positions, h = x.shape
    q, k, v = (x @ w[at + "attn.c_attn.weight"] + w[at + "attn.c_attn.bias"]).split(h, dim=2)
    q, k, v = (t.reshape(samples, positions, heads, h // heads).transpose(1, 2) for t in (q, k, v))
    context = causal(q, k, v).transpose(1, 2).reshape(samples, positions, h)
    return context @ w[at + "attn.c_proj.weight"] + w[at + "attn.c_proj.bias"]


def gpt2_logits(w, inputs):
    m = w.model
    approximate = "tanh" if m["activation"] == "gelu_tanh" else "none"

    def norm(name, x):
        return F.layer_norm(x, (m["hidden"],), w[name + ".weight"], w[name + ".bias"], m["layer_norm_epsilon"])

    x = w["wte.weight"][inputs] + w["wpe.weight"]
    for layer in range(m["layer_count"]):
        at = "h.%d." % layer
        x = x + attention(w, at, norm(at + "ln_1", x), m["head_count"])
        u = norm(at + "ln_2", x) @ w[at + "mlp.c_fc.weight"] + w[at + "mlp.c_fc.bias"]
        x = x + F.gelu(u, approximate=approximate) @ w[at + "mlp.c_proj.weight"] + w[at + "mlp.c_proj.bias"]
    table = w["wte.weight"] if m["tied_embeddings"] else w["lm_head.weight"]
    return norm("ln_f", x) @ table.t()


def scale(frequency, scaling):
    """As in transformers' modeling_rope_utils: long wavelengths divided, short ones kept, smooth between."""
    if scaling is None:
        return frequency
    divided = frequency / scaling["factor"]
    if scaling["kind"] == "linear":
        return divided
    wavelength = 2 * math.pi / frequency
    low, high = scaling["low_frequency_factor"], scaling["high_frequency_factor"]
    original = scaling["original_positions"]
    smooth = (original / wavelength - low) / (high - low)
    between = (1 - smooth) * divided + smooth * frequency
    out = torch.where(wavelength > original / low, divided, between)
    return torch.where(wavelength < original / high, frequency, out)


def rotate(x, m):
    """[samples][heads][positions][dim]: feature i and i + dim / 2 are a point."""
    positions, half = x.shape[2], x.shape[3] // 2
    frequency = m["rotary_base"] ** (-torch.arange(half, dtype=torch.float64) / half)
    frequency = scale(frequency, m.get("rotary_scaling"))
    angle = torch.arange(positions, dtype=torch.float64)[:, None] * frequency
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()), dim=3)


def llama_attention(w, at, x):
    m = w.model
    samples, positions, _ = x.shape

    def project(name, heads):
        bias = w[at + name + "_proj.bias"] if m["qkv_bias"] else 0.0
        y = x @ w[at + name + "_proj.weight"].t() + bias
        return y.reshape(samples, positions, heads, m["head_dim"]).transpose(1, 2)

    shared = m["head_count"] // m["kv_head_count"]
    q = rotate(project("q", m["head_count"]), m)
    k = rotate(project("k", m["kv_head_count"]), m).repeat_interleave(shared, dim=1)
    v = project("v", m["kv_head_count"]).repeat_interleave(shared, dim=1)
    context = causal(q, k, v).transpose(1, 2).reshape(samples, positions, -1)
    return context @ w[at + "o_proj.weight"].t()


def llama_logits(w, inputs):
    m = w.model

    def norm(name, x):
        return x * torch.rsqrt(x.pow(2).mean(dim=2, keepdim=True) + m["rms_norm_epsilon"]) * w[name + ".weight"]

    x = w["model.embed_tokens.weight"][inputs]
    for layer in range(m["layer_count"]):
        at = "model.layers.%d." % layer
        x = x + llama_attention(w, at + "self_attn.", norm(at + "input_layernorm", x))
        a = norm(at + "post_attention_layernorm", x)
        gate, up = a @ w[at + "mlp.gate_proj.weight"].t(), a @ w[at + "mlp.up_proj.weight"].t()
        x = x + (F.silu(gate) * up) @ w[at + "mlp.down_proj.weight"].t()
    table = w["model.embed_tokens.weight"] if m["tied_embeddings"] else w["lm_head.weight"]
    return norm("model.norm", x) @ table.t()


def project(w, name, x):
    return F.linear(x, w[name + ".weight"], w[name + ".bias"])


def normalise(w, name, x):
    return F.layer_norm(x, (w.model["hidden"],), w[name + ".weight"], w[name + ".bias"], w.model["layer_norm_epsilon"])


def encoder_attention(w, at, inner, x, mask=0.0):
    """All positions see all."""
    samples, positions, h = x.shape
    heads = w.model["head_count"]
    q, k, v = (project(w, "%sattention.%s.%s" % (at, inner, name), x).reshape(samples, positions, heads, h // heads)
               .transpose(1, 2) for name in ("query", "key", "value"))
    weights = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(h // heads) + mask, dim=3)
    context = (weights @ v).transpose(1, 2).reshape(samples, positions, h)
    return project(w, at + "attention.output.dense", context)


def encoder_ffn(w, at, x):
    return project(w, at + "output.dense", F.gelu(project(w, at + "intermediate.dense", x)))


def bert_logits(w, inputs, lengths):
    """BertForMaskedLM, every token of type 0."""
    mask = mask_of(lengths, inputs.shape[1])
    at = "bert.embeddings."
    x = w[at + "word_embeddings.weight"][inputs] + w[at + "position_embeddings.weight"]
    x = normalise(w, at + "LayerNorm", x + w[at + "token_type_embeddings.weight"][torch.zeros_like(inputs)])
    for layer in range(w.model["layer_count"]):
        at = "bert.encoder.layer.%d." % layer
        x = normalise(w, at + "attention.output.LayerNorm", x + encoder_attention(w, at, "self", x, mask))
        x = normalise(w, at + "output.LayerNorm", x + encoder_ffn(w, at, x))
    at = "cls.predictions."
    x = normalise(w, at + "transform.LayerNorm", F.gelu(project(w, at + "transform.dense", x)))
    tied = w.model["tied_embeddings"]
    table = w["bert.embeddings.word_embeddings.weight"] if tied else w["cls.predictions.decoder.weight"]
    return F.linear(x, table, w["cls.predictions.bias"])


def vit_logits(w, pixels):
    """ViTForImageClassification; pixels [sample][row][column][channel], 0 to 255."""
    m, at = w.model, "vit.embeddings."
    images = (pixels.permute(0, 3, 1, 2) / 255.0 - m["pixel_mean"]) / m["pixel_standard_deviation"]
    side = m["patch_size"]
    kernel = w[at + "patch_embeddings.projection.weight"].reshape(-1, m["channel_count"], side, side)
    patches = F.conv2d(images, kernel, w[at + "patch_embeddings.projection.bias"], stride=side)
    token = w[at + "cls_token"].expand(pixels.shape[0], 1, -1)
    x = torch.cat((token, patches.flatten(2).transpose(1, 2)), dim=1) + w[at + "position_embeddings"]
    for layer in range(m["layer_count"]):
        at = "vit.encoder.layer.%d." % layer
        x = x + encoder_attention(w, at, "attention", normalise(w, at + "layernorm_before", x))
        x = x + encoder_ffn(w, at, normalise(w, at + "layernorm_after", x))
    return project(w, "classifier", normalise(w, "vit.layernorm", x)[:, 0])


def windows_of(x, window):
    """[sample][row][column][h] -> [sample * windows][window^2][h]"""
    samples, grid, _, h = x.shape
    x = x.reshape(samples, grid // window, window, grid // window, window, h)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, window * window, h)


def from_windows(x, window, grid):
    """The inverse."""
    across = grid // window
    x = x.reshape(-1, across, across, window, window, x.shape[-1])
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, grid, grid, x.shape[-1])


def offset_index(window):
    """The row of the table for each pair of positions of a window, as the authors number them."""
    at = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
    apart = (at[:, :, None] - at[:, None, :]).permute(1, 2, 0) + window - 1
    return apart[:, :, 0] * (2 * window - 1) + apart[:, :, 1]


def shift_mask(grid, window, shift):
    """[windows][window^2][window^2]: -100 between regions of the grid that the turn has made neighbours."""
    regions = torch.zeros(1, grid, grid, 1, dtype=torch.float64)
    parts = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
    for i, rows in enumerate(parts):
        for j, columns in enumerate(parts):
            regions[:, rows, columns] = 3 * i + j
    of = windows_of(regions, window).squeeze(2)
    return torch.where(of[:, None, :] == of[:, :, None], 0.0, -100.0).double()


def swin_attention(w, at, x, heads, window, shift):
    samples, grid, _, h = x.shape
    rows = windows_of(torch.roll(x, (-shift, -shift), (1, 2)), window)
    q, k, v = (project(w, at + "attention.self." + n, rows).reshape(-1, window * window, heads, h // heads)
               .transpose(1, 2) for n in ("query", "key", "value"))
    scores = q @ k.transpose(2, 3) / math.sqrt(h // heads)
    table = w[at + "attention.self.relative_position_bias_table"]
    scores = scores + table[offset_index(window)].permute(2, 0, 1)
    if shift > 0:
        mask = shift_mask(grid, window, shift)
        scores = (scores.reshape(samples, -1, heads, *scores.shape[2:]) + mask[None, :, None]).reshape(scores.shape)
    context = (torch.softmax(scores, dim=3) @ v).transpose(1, 2).reshape(-1, window * window, h)
    out = project(w, at + "attention.output.dense", context)
    return torch.roll(from_windows(out, window, grid), (shift, shift), (1, 2))


def swin_logits(w, pixels):
    """SwinForImageClassification; pixels [sample][row][column][channel], 0 to 255."""
    m = w.model

    def norm(name, x):
        return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], m["layer_norm_epsilon"])

    images = (pixels.permute(0, 3, 1, 2) / 255.0 - m["pixel_mean"]) / m["pixel_standard_deviation"]
    at, side = "swin.embeddings.patch_embeddings.projection", m["patch_size"]
    kernel = w[at + ".weight"].reshape(-1, m["channel_count"], side, side)
    x = norm("swin.embeddings.norm", F.conv2d(images, kernel, w[at + ".bias"], stride=side).permute(0, 2, 3, 1))
    for level, (layers, heads) in enumerate(zip(m["level_layer_counts"], m["level_head_counts"])):
        window, shifts = min(m["window_size"], x.shape[1]), x.shape[1] > m["window_size"]
        for layer in range(layers):
            at = "swin.encoder.layers.%d.blocks.%d." % (level, layer)
            shift = window // 2 if shifts and layer % 2 == 1 else 0
            x = x + swin_attention(w, at, norm(at + "layernorm_before", x), heads, window, shift)
            x = x + encoder_ffn(w, at, norm(at + "layernorm_after", x))
        if level + 1 < len(m["level_layer_counts"]):
            at = "swin.encoder.layers.%d.downsample." % level
            four = torch.cat((x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]), dim=3)
            x = norm(at + "norm", four) @ w[at + "reduction.weight"].t()
    return project(w, "classifier", norm("swin.layernorm", x).flatten(1, 2).mean(dim=1))


def t5_bucket(m, distance, both):
    """Of a key `distance` behind its query: as transformers' T5Attention._relative_position_bucket."""
    buckets = m["relative_bucket_count"] // (2 if both else 1)
    exact, first = buckets // 2, buckets if both and distance > 0 else 0
    far = abs(distance) if both else max(-distance, 0)
    if far < exact:
        return first + far
    later = exact + int(math.log(far / exact) / math.log(m["relative_max_distance"] / exact) * (buckets - exact))
    return first + min(later, buckets - 1)


def t5_logits(w, source, shifted, lengths):
    m = w.model
    mask = mask_of(lengths, source.shape[1])

    def norm(name, x):
        return x * torch.rsqrt(x.pow(2).mean(dim=2, keepdim=True) + m["rms_norm_epsilon"]) * w[name]

    def heads(x):
        return x.reshape(x.shape[0], x.shape[1], m["head_count"], m["head_dim"]).transpose(1, 2)

    def attention(at, x, memory, bias):
        q, k, v = (heads(t @ w[at + n + ".weight"].t()) for t, n in ((x, "q"), (memory, "k"), (memory, "v")))
        scores = q @ k.transpose(2, 3)
        context = torch.softmax(scores + bias, dim=3) @ v
        return context.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1) @ w[at + "o.weight"].t()

    def feed_forward(at, x):
        if m["gated"]:
            gate = F.gelu(x @ w[at + "wi_0.weight"].t(), approximate="tanh")
            return (gate * (x @ w[at + "wi_1.weight"].t())) @ w[at + "wo.weight"].t()
        return F.relu(x @ w[at + "wi.weight"].t()) @ w[at + "wo.weight"].t()

    def bias_of(stack, positions, both):
        table = w[stack + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
        buckets = torch.tensor([[t5_bucket(m, k - q, both) for k in range(positions)] for q in range(positions)])
        bias = table[buckets].permute(2, 0, 1)
        return bias if both else bias.masked_fill(torch.ones(positions, positions, dtype=torch.bool).triu(1),
                                                  float("-inf"))

    x, bias = w["shared.weight"][source], bias_of("encoder", source.shape[1], True)
    for layer in range(m["layer_count"]):
        at = "encoder.block.%d.layer." % layer
        a = norm(at + "0.layer_norm.weight", x)
        x = x + attention(at + "0.SelfAttention.", a, a, bias + mask)
        x = x + feed_forward(at + "1.DenseReluDense.", norm(at + "1.layer_norm.weight", x))
    memory = norm("encoder.final_layer_norm.weight", x)
    x, bias = w["shared.weight"][shifted], bias_of("decoder", shifted.shape[1], False)
    for layer in range(m["decoder_layer_count"]):
        at = "decoder.block.%d.layer." % layer
        a = norm(at + "0.layer_norm.weight", x)
        x = x + attention(at + "0.SelfAttention.", a, a, bias)
        x = x + attention(at + "1.EncDecAttention.", norm(at + "1.layer_norm.weight", x), memory, mask)
        x = x + feed_forward(at + "2.DenseReluDense.", norm(at + "2.layer_norm.weight", x))
    x = norm("decoder.final_layer_norm.weight", x)
    return x * m["hidden"] ** -0.5 @ w["shared.weight"].t() if m["tied_embeddings"] else x @ w["lm_head.weight"].t()


def t5_copy_logits(w, tokens, lengths):
    """Source and target in one row; the decoder reads the targets one position later, behind token 0."""
    source, targets = tokens[:, :w.model["sequence_length"]], tokens[:, w.model["sequence_length"]:]
    return t5_logits(w, source, torch.cat((torch.zeros_like(targets[:, :1]), targets[:, :-1]), dim=1), lengths)


def loss_of(w, inputs, targets, lengths):
    """Targets of -1 are not in the mean. lengths: of the samples, where attention may see all positions."""
    family = w.model["family"]
    logits = {"decoder": gpt2_logits, "llama": llama_logits, "bert": bert_logits, "vit": vit_logits,
              "t5": t5_copy_logits, "swin": swin_logits}[family](w, inputs, *[lengths] * (family in ("bert", "t5")))
    return F.cross_entropy(logits.reshape(-1, w.model["vocabulary"]), targets.reshape(-1), ignore_index=-1)


def data_of(model, generator):
    """Inputs and targets of every step, and the members that hold them."""
    length, vocabulary = model["sequence_length"], model["vocabulary"]
    if "image_size" in model:
        side = model["image_size"]
        pixels = torch.randint(256, (STEPS, SAMPLES, side, side, model["channel_count"]), generator=generator)
        labels = torch.randint(vocabulary, (STEPS, SAMPLES), generator=generator)
        return pixels.double(), labels, {"pixels": pixels.reshape(-1).tolist(), "targets": labels.reshape(-1).tolist()}
    if model["family"] == "bert":
        tokens = torch.randint(vocabulary, (STEPS, SAMPLES, length), generator=generator)
        masked = round(0.15 * length)
        order = torch.rand((STEPS, SAMPLES, length), generator=generator).argsort(dim=2)
        targets = torch.where(order < masked, tokens, -1)
        inputs = torch.where((order < masked) & (tokens % 5 > 0), model["mask_token"], tokens)
        return inputs, targets, {"tokens": inputs.reshape(-1).tolist(), "targets": targets.reshape(-1).tolist()}
    if model["family"] == "t5":
        shape = (STEPS, SAMPLES, length + model["decoder_sequence_length"])
        tokens = torch.randint(vocabulary, shape, generator=generator)
        return tokens, tokens[..., length:], {"tokens": tokens.reshape(-1).tolist()}
    tokens = torch.randint(vocabulary, (STEPS, SAMPLES, length + 1), generator=generator)
    return tokens[..., :-1], tokens[..., 1:], {"tokens": tokens.reshape(-1).tolist()}


def padded(model, generator, targets, members):
    """Samples of any lengths: [step][sample], and the targets without those behind the ends; their tokens stay, as
    nothing may depend on them. Of an encoder-decoder source and target have lengths of their own."""
    length = model["sequence_length"]
    if not model.get("padding", False):
        return targets, torch.full((STEPS, SAMPLES), length), members
    lengths = torch.randint(2, length + 1, (STEPS, SAMPLES), generator=generator)
    of_targets, members = lengths, {**members, "lengths": lengths.reshape(-1).tolist()}
    if model["family"] == "t5":
        of_targets = torch.randint(2, targets.shape[2] + 1, (STEPS, SAMPLES), generator=generator)
        members["target_lengths"] = of_targets.reshape(-1).tolist()
    targets = torch.where(torch.arange(targets.shape[2]) < of_targets[..., None], targets, -1)
    if model["family"] == "bert":
        members["targets"] = targets.reshape(-1).tolist()
    return targets, lengths, members


def learning_rate(optimizer, step):
    peak, least = optimizer["learning_rate"], optimizer["minimum_learning_rate"]
    warmup, decay = optimizer["warmup_steps"], optimizer["decay_steps"]
    if step < warmup:
        return peak * (step + 1) / warmup
    since = min(step - warmup, decay)
    return least + (peak - least) * (1.0 + math.cos(math.pi * since / decay)) / 2.0


def summary(tensor):
    flat = tensor.detach().reshape(-1).tolist()
    stride = 1 if len(flat) <= FULL_ELEMENTS else STRIDE
    return {"values": flat[::stride], "square_sum": math.fsum(x * x for x in flat),
            "projection": math.fsum(x * (math.fmod(0.6180339887498949 * i, 1.0) - 0.5) for i, x in enumerate(flat))}


def train(model):
    w = Weights(model)
    settings = model["optimizer"]
    tensors = list(w.tensors.values())
    decay = {name: t.dim() == 2 and "relative_" not in name for name, t in w.tensors.items()}
    groups = [{"params": [t for name, t in w.tensors.items() if decay[name]], "weight_decay": settings["weight_decay"]},
              {"params": [t for name, t in w.tensors.items() if not decay[name]], "weight_decay": 0.0}]
    kind = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[settings["kind"]]
    optimizer = kind(groups, lr=1.0, betas=(settings["beta1"], settings["beta2"]), eps=settings["epsilon"])
    generator = torch.Generator().manual_seed(SEED)
    inputs, targets, members = data_of(model, generator)
    targets, lengths, members = padded(model, generator, targets, members)
    losses, norms, gradients = [], [], {}
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(w, inputs[step], targets[step], lengths[step])
        loss.backward()
        if step == 0:
            gradients = {name: summary(t.grad) for name, t in w.tensors.items()}
        losses.append(loss.item())
        norms.append(torch.nn.utils.clip_grad_norm_(tensors, settings["gradient_clip_norm"]).item())
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(settings, step)
        optimizer.step()
    return {"document": "referee", "version": 1, "torch": torch.__version__, "seed": SEED, "model": model,
            **members, "losses": losses, "gradient_norms": norms,
            "tensors": [{"name": name, "elements": t.numel(), "gradient": gradients[name], "weight": summary(t)}
                        for name, t in w.tensors.items()]}


def model(name, heads, activation, tied, kind):
    return {"document": "model", "version": 1, "name": name, "family": "decoder", "layer_count": 2, "hidden": 48,
            "head_count": heads, "ffn_hidden": 192, "sequence_length": 16, "vocabulary": 101,
            "vocabulary_multiple": 128, "activation": activation, "tied_embeddings": tied, "layer_norm_epsilon": 1e-5,
            "embedding_dropout": 0, "attention_dropout": 0, "residual_dropout": 0,
            "initial_standard_deviation": 0.08, "compute_dtype": "fp64", "global_batch_samples": SAMPLES,
            "optimizer": {"kind": kind, "learning_rate": 0.003, "minimum_learning_rate": 0.0003, "warmup_steps": 3,
                          "decay_steps": 6, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "weight_decay": 0.1,
                          "gradient_clip_norm": 1.0}}


def llama(name, heads, kv_heads, head_dim, biases, tied, kind, **others):
    out = model(name, heads, "silu", tied, kind)
    for key in ("layer_norm_epsilon", "embedding_dropout", "residual_dropout"):
        del out[key]
    return {**out, "family": "llama", "kv_head_count": kv_heads, "head_dim": head_dim, "rotary_base": 500,
            "qkv_bias": biases, "rms_norm_epsilon": 1e-5, **others}


def bert(name, heads, tied, kind):
    out = model(name, heads, "gelu_erf", tied, kind)
    del out["embedding_dropout"]
    return {**out, "family": "bert", "type_count": 2, "mask_token": 100, "layer_norm_epsilon": 1e-12}


def vit(name, heads, kind):
    """9 patches."""
    out = model(name, heads, "gelu_erf", False, kind)
    return {**out, "family": "vit", "sequence_length": 10, "image_size": 12, "patch_size": 4, "channel_count": 3,
            "pixel_mean": 0.4, "pixel_standard_deviation": 0.3, "layer_norm_epsilon": 1e-12}


def t5(name, gated, tied, kind, decoder_length):
    out = model(name, 4, "gelu_tanh" if gated else "relu", tied, kind)
    for key in ("layer_norm_epsilon", "embedding_dropout"):
        del out[key]
    return {**out, "family": "t5", "hidden": 40, "ffn_hidden": 48, "decoder_layer_count": 2,
            "decoder_sequence_length": decoder_length, "head_dim": 6, "relative_bucket_count": 8,
            "relative_max_distance": 12, "gated": gated, "rms_norm_epsilon": 1e-6, "initial_standard_deviation": 0.2}


def swin(name, heads, kind, image, layers, window):
    """A grid of image / 2, then half of it and a quarter."""
    out = model(name, heads[0], "gelu_erf", False, kind)
    del out["embedding_dropout"]
    grid, hidden = image // 2, 4 * heads[0]
    return {**out, "family": "swin", "layer_count": sum(layers), "hidden": hidden, "ffn_hidden": 2 * hidden,
            "sequence_length": grid * grid, "image_size": image, "patch_size": 2, "channel_count": 2,
            "pixel_mean": 0.4, "pixel_standard_deviation": 0.3, "level_layer_counts": layers,
            "level_head_counts": heads, "window_size": window, "initial_standard_deviation": 0.2}


def write(path, document):
    """Numbers with 17 digits at most (Python's repr reads back to the same bits), one tensor or list per line."""
    with open(path, "w", encoding="ascii") as out:
        out.write("{\n")
        for key, value in document.items():
            last = key == "tensors"
            rows = ",\n".join(json.dumps(row) for row in value) if last else json.dumps(value)
            out.write("%s: %s%s\n" % (json.dumps(key), "[\n" + rows + "\n]" if last else rows, "" if last else ","))
        out.write("}\n")


def main():
    torch.set_num_threads(1)
    write(sys.argv[1] + "/gpt2_tied_adamw.json", train(model("gpt2-tied-adamw", 4, "gelu_tanh", True, "adamw")))
    write(sys.argv[1] + "/gpt2_untied_adam.json", train(model("gpt2-untied-adam", 3, "gelu_erf", False, "adam")))
    write(sys.argv[1] + "/llama_shared_adamw.json", train(llama("llama-shared-adamw", 4, 2, 10, False, False, "adamw")))
    write(sys.argv[1] + "/qwen2_tied_adam.json", train(llama("qwen2-tied-adam", 3, 3, 16, True, True, "adam")))
    # of the 8 frequencies of a head one is kept, two lie between and five are divided
    llama3 = {"kind": "llama3", "factor": 8, "low_frequency_factor": 0.2, "high_frequency_factor": 1.5,
              "original_positions": 12}
    scaled = llama("llama-scaled-adamw", 4, 2, 16, False, False, "adamw", rotary_scaling=llama3)
    write(sys.argv[1] + "/llama_scaled_adamw.json", train(scaled))
    write(sys.argv[1] + "/bert_tied_adamw.json", train(bert("bert-tied-adamw", 4, True, "adamw")))
    write(sys.argv[1] + "/bert_untied_adam.json", train(bert("bert-untied-adam", 3, False, "adam")))
    write(sys.argv[1] + "/vit_adamw.json", train(vit("vit-adamw", 4, "adamw")))
    write(sys.argv[1] + "/vit_adam.json", train(vit("vit-adam", 3, "adam")))
    write(sys.argv[1] + "/t5_tied_adamw.json", train(t5("t5-tied-adamw", False, True, "adamw", 12)))
    write(sys.argv[1] + "/t5_gated_adam.json", train(t5("t5-gated-adam", True, False, "adam", 20)))
    # 8 x 8 in windows of 4, shifted; 4 x 4 and 2 x 2, each one window
    write(sys.argv[1] + "/swin_adamw.json", train(swin("swin-adamw", [4, 4, 8], "adamw", 16, [2, 1, 1], 4)))
    small = {"hidden": 24, "ffn_hidden": 48, "padding": True}
    write(sys.argv[1] + "/gpt2_padded_adam.json",
          train({**model("gpt2-padded-adam", 4, "gelu_erf", True, "adam"), **small}))
    write(sys.argv[1] + "/bert_padded_adam.json", train({**bert("bert-padded-adam", 4, True, "adam"), **small}))
    write(sys.argv[1] + "/t5_padded_adamw.json",
          train({**t5("t5-padded-adamw", False, False, "adamw", 12), "padding": True}))
    # 12 x 12 in windows of 3; 6 x 6 likewise, shifted by 1; 3 x 3
    write(sys.argv[1] + "/swin_adam.json", train(swin("swin-adam", [3, 6, 6], "adam", 24, [1, 2, 1], 3)))


main()
