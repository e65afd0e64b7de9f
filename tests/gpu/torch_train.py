"""Training speed of PyTorch on the GPU, for tests/gpu/bench.py: the model of a document of family decoder or llama.

Usage: torch_train.py MODEL.json SAMPLES MICROBATCHES STEPS [DEVICE]
Weights in fp32 with autocast to bf16, torch.compile, flash attention by scaled_dot_product_attention, fused AdamW,
clipping, vocabulary padded as the document says: how PyTorch's users train. On a device other than cuda nothing is
compiled, to see that it runs. Prints {"seconds": [of each step], "loss", "peak_bytes", "version"}; the first steps
compile."""
import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class RmsNorm(nn.Module):
    def __init__(self, hidden, epsilon):
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.ones(hidden)), epsilon

    def forward(self, x):
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.epsilon)).type_as(x) * self.weight.type_as(x)


def turn(x, angles):
    """Rotary positions: the first half of a head's features with the second."""
    a, b = x.float().chunk(2, dim=-1)
    cosine, sine = angles.cos(), angles.sin()
    return torch.cat((a * cosine - b * sine, b * cosine + a * sine), dim=-1).type_as(x)


class Block(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.llama, self.heads = m["family"] == "llama", m["head_count"]
        hidden, ffn, dim = m["hidden"], m["ffn_hidden"], m.get("head_dim", m["hidden"] // m["head_count"])
        self.dim, self.shared = dim, m["kv_head_count"] if self.llama else self.heads
        norm = (lambda: RmsNorm(hidden, m["rms_norm_epsilon"])) if self.llama else (
            lambda: nn.LayerNorm(hidden, eps=m["layer_norm_epsilon"]))
        self.norm1, self.norm2 = norm(), norm()
        self.qkv = nn.Linear(hidden, (self.heads + 2 * self.shared) * dim, bias=not self.llama)
        self.out = nn.Linear(self.heads * dim, hidden, bias=not self.llama)
        self.up = nn.Linear(hidden, (2 if self.llama else 1) * ffn, bias=not self.llama)
        self.down = nn.Linear(ffn, hidden, bias=not self.llama)

    def attend(self, x, angles):
        samples, sequence, _ = x.shape
        widths = [self.heads * self.dim, self.shared * self.dim, self.shared * self.dim]
        q, k, v = (t.view(samples, sequence, -1, self.dim).transpose(1, 2) for t in self.qkv(x).split(widths, dim=2))
        if self.llama:
            q, k = turn(q, angles), turn(k, angles)
        if self.shared != self.heads:
            k, v = (t.repeat_interleave(self.heads // self.shared, dim=1) for t in (k, v))
        ctx = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(ctx.transpose(1, 2).reshape(samples, sequence, -1))

    def forward(self, x, angles):
        x = x + self.attend(self.norm1(x), angles)
        u = self.up(self.norm2(x))
        if self.llama:
            gate, value = u.chunk(2, dim=-1)
            return x + self.down(F.silu(gate) * value)
        return x + self.down(F.gelu(u, approximate="tanh"))


class Model(nn.Module):
    def __init__(self, m):
        super().__init__()
        multiple, self.llama = m["vocabulary_multiple"], m["family"] == "llama"
        padded = (m["vocabulary"] + multiple - 1) // multiple * multiple
        self.tokens = nn.Embedding(padded, m["hidden"])
        self.positions = None if self.llama else nn.Embedding(m["sequence_length"], m["hidden"])
        self.blocks = nn.ModuleList(Block(m) for _ in range(m["layer_count"]))
        self.norm = RmsNorm(m["hidden"], m["rms_norm_epsilon"]) if self.llama else nn.LayerNorm(m["hidden"])
        self.head = nn.Linear(m["hidden"], padded, bias=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=m["initial_standard_deviation"])
        if m["tied_embeddings"]:
            self.head.weight = self.tokens.weight
        dim = m.get("head_dim", m["hidden"] // m["head_count"])
        frequencies = m.get("rotary_base", 10000.0) ** (-torch.arange(0, dim, 2).float() / dim)
        self.register_buffer("angles", torch.outer(torch.arange(m["sequence_length"]).float(), frequencies))

    def forward(self, ids, targets):
        x = self.tokens(ids)
        if self.positions is not None:
            x = x + self.positions.weight
        for block in self.blocks:
            x = block(x, self.angles)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.view(-1))


def optimizer_of(model, o, fused):
    decaying = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    groups = [{"params": decaying, "weight_decay": o["weight_decay"]}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=o["learning_rate"] * 1e-2, betas=(o["beta1"], o["beta2"]), eps=o["epsilon"],
                             **({"fused": True} if fused else {}))


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        m = json.load(file)
    samples, microbatches, steps = (int(a) for a in sys.argv[2:5])
    device = sys.argv[5] if len(sys.argv) > 5 else "cuda"
    cuda = device == "cuda"
    torch.manual_seed(1)
    if cuda:
        torch.backends.cuda.matmul.allow_tf32 = True
    model = Model(m).to(device)
    forward = torch.compile(model) if cuda else model
    optimizer = optimizer_of(model, m["optimizer"], cuda)
    shape = (microbatches, samples // microbatches, m["sequence_length"] + 1)
    tokens = torch.randint(m["vocabulary"], shape, device=device)
    seconds = []
    for _ in range(steps):
        begin = time.monotonic()
        for rows in tokens:
            with torch.autocast(device_type=device, dtype=torch.bfloat16):
                loss = forward(rows[:, :-1].contiguous(), rows[:, 1:].contiguous()) / microbatches
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), m["optimizer"]["gradient_clip_norm"])
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if cuda:
            torch.cuda.synchronize()
        seconds.append(time.monotonic() - begin)
    print(json.dumps({"seconds": seconds, "loss": float(loss) * microbatches, "version": torch.__version__,
                      "peak_bytes": torch.cuda.max_memory_allocated() if cuda else 0}))


main()
