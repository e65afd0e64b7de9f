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
        {"decoder": self.make_gpt2, "llama": self.make_llama}[model["family"]](model)

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


def loss_of(w, tokens):
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    logits = {"decoder": gpt2_logits, "llama": llama_logits}[w.model["family"]](w, inputs)
    return F.cross_entropy(logits.reshape(-1, w.model["vocabulary"]), targets.reshape(-1))


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
    groups = [{"params": [t for t in tensors if t.dim() == 2], "weight_decay": settings["weight_decay"]},
              {"params": [t for t in tensors if t.dim() == 1], "weight_decay": 0.0}]
    kind = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[settings["kind"]]
    optimizer = kind(groups, lr=1.0, betas=(settings["beta1"], settings["beta2"]), eps=settings["epsilon"])
    generator = torch.Generator().manual_seed(SEED)
    shape = (STEPS, SAMPLES, model["sequence_length"] + 1)
    tokens = torch.randint(model["vocabulary"], shape, generator=generator)
    losses, norms, gradients = [], [], {}
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(w, tokens[step])
        loss.backward()
        if step == 0:
            gradients = {name: summary(t.grad) for name, t in w.tensors.items()}
        losses.append(loss.item())
        norms.append(torch.nn.utils.clip_grad_norm_(tensors, settings["gradient_clip_norm"]).item())
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(settings, step)
        optimizer.step()
    return {"document": "referee", "version": 1, "torch": torch.__version__, "seed": SEED, "model": model,
            "tokens": tokens.reshape(-1).tolist(), "losses": losses, "gradient_norms": norms,
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


main()
