"""Training speed of PyTorch on the CPU, for tests/bench/host.sh: the model, optimizer and data of its plan.

Usage: host_torch.py MODEL.json TEXT STEPS THREADS
Prints tokens per second of each step, the loss of the last, the peak of resident memory, the versions.
Of the ways to write it that this PyTorch offers, the fastest found: weights as Linear has them, biases inside the
products (addmm), scores by baddbmm into the mask, in-place softmax input, the vocabulary padded to a multiple of 128,
AdamW and clipping over lists of tensors (foreach), gradients set to None.
"""
import json
import math
import os
import resource
import subprocess
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, m):
        super().__init__()
        hidden, ffn = m["hidden"], m["ffn_hidden"]
        self.heads = m["head_count"]
        self.dropout = m["residual_dropout"], m["attention_dropout"]
        self.norm1 = nn.LayerNorm(hidden, eps=m["layer_norm_epsilon"])
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, hidden)
        self.norm2 = nn.LayerNorm(hidden, eps=m["layer_norm_epsilon"])
        self.up = nn.Linear(hidden, ffn)
        self.down = nn.Linear(ffn, hidden)

    def attend(self, x, mask):
        samples, sequence, hidden = x.shape
        q, k, v = (t.view(samples, sequence, self.heads, -1).transpose(1, 2).reshape(samples * self.heads, sequence, -1)
                   for t in self.qkv(x).split(hidden, dim=2))
        scores = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=1.0 / math.sqrt(q.shape[-1]))
        p = F.dropout(F.softmax(scores, dim=-1), self.dropout[1])
        ctx = torch.bmm(p, v).view(samples, self.heads, sequence, -1).transpose(1, 2).reshape(samples, sequence, hidden)
        return self.out(ctx)

    def forward(self, x, mask):
        x = x + F.dropout(self.attend(self.norm1(x), mask), self.dropout[0])
        y = self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))
        return x + F.dropout(y, self.dropout[0])


class Gpt(nn.Module):
    def __init__(self, m):
        super().__init__()
        multiple = m["vocabulary_multiple"]
        padded = (m["vocabulary"] + multiple - 1) // multiple * multiple
        self.tokens = nn.Embedding(padded, m["hidden"])
        self.positions = nn.Embedding(m["sequence_length"], m["hidden"])
        self.blocks = nn.ModuleList(Block(m) for _ in range(m["layer_count"]))
        self.norm = nn.LayerNorm(m["hidden"], eps=m["layer_norm_epsilon"])
        self.dropout = m["embedding_dropout"]
        sequence = m["sequence_length"]
        self.register_buffer("mask", torch.full((1, sequence, sequence), -math.inf).triu(1))
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=m["initial_standard_deviation"])
        for block in self.blocks:
            for linear in (block.qkv, block.out, block.up, block.down):
                nn.init.zeros_(linear.bias)

    def forward(self, ids, targets):
        x = F.dropout(self.tokens(ids) + self.positions.weight, self.dropout)
        for block in self.blocks:
            x = block(x, self.mask)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def optimizer_of(gpt, o):
    decaying = [p for p in gpt.parameters() if p.dim() == 2]
    others = [p for p in gpt.parameters() if p.dim() != 2]
    groups = [{"params": decaying, "weight_decay": o["weight_decay"]}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=o["learning_rate"], betas=(o["beta1"], o["beta2"]), eps=o["epsilon"], foreach=True)


def clip(gpt, limit):
    """As torch.nn.utils.clip_grad_norm_, which has no foreach form in this version."""
    gradients = [p.grad for p in gpt.parameters()]
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    factor = min(1.0, limit / (float(norm) + 1e-6))
    if factor < 1.0:
        torch._foreach_mul_(gradients, factor)


def package():
    """The Debian package that this PyTorch is from, with its version."""
    found = subprocess.run(["dpkg-query", "-S", torch.__file__], capture_output=True, text=True, check=False)
    name = found.stdout.partition(":")[0]
    if not name:
        return "no Debian package"
    return subprocess.run(["dpkg-query", "-W", name], capture_output=True, text=True, check=False).stdout.strip().replace(
        "\t", " ")


def main():
    model_path, text_path, steps, threads = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    with open(model_path, encoding="utf-8") as file:
        m = json.load(file)
    with open(text_path, "rb") as file:
        text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    gpt = Gpt(m)
    optimizer = optimizer_of(gpt, m["optimizer"])
    sequence, batch = m["sequence_length"], m["global_batch_samples"]
    windows = (len(text) - 1) // sequence
    seconds = []
    for step in range(steps):
        first = [(step * batch + sample) % windows * sequence for sample in range(batch)]
        begin = time.monotonic()
        ids = torch.stack([text[f:f + sequence] for f in first])
        targets = torch.stack([text[f + 1:f + 1 + sequence] for f in first])
        loss = gpt(ids, targets)
        loss.backward()
        clip(gpt, m["optimizer"]["gradient_clip_norm"])
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.monotonic() - begin)
    for second in seconds:
        print(f"tokens_per_second {sequence * batch / second:.2f}")
    print(f"loss {float(loss):.4f}")
    print(f"peak_mib {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.1f}")
    with open("/proc/self/maps", encoding="ascii") as file:
        blas = sorted({os.path.basename(line.split()[-1]) for line in file if "blas" in line})
    print(f"version PyTorch {torch.__version__} ({package()}) on {', '.join(blas)}")


main()
