"""cuDNN's own rate of causal attention, as PyTorch calls it, for tests/gpu/bench.py. Usage: torch_attention.py CASES
CASES: a JSON list of [name, samples, sequence, heads, head_dim, kv_heads]. Prints {name: [forward, backward seconds]},
the medians of 20 calls between events, bf16."""
import json
import statistics
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


def seconds_of(call):
    taken = []
    for turn in range(25):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        if turn >= 5:
            taken.append(begin.elapsed_time(end) * 1e-3)
    return statistics.median(taken)


def measure(samples, sequence, heads, dim, kv_heads):
    def tensor(count):  # rows of positions, as programs have them
        x = torch.randn(sequence, samples, count, dim, device="cuda", dtype=torch.bfloat16)
        return x.permute(1, 2, 0, 3).requires_grad_()
    q, k, v = tensor(heads), tensor(kv_heads), tensor(kv_heads)

    def forward():
        return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=kv_heads != heads)
    out = forward()
    gradient = torch.randn_like(out)
    return [seconds_of(forward),
            seconds_of(lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True))]


with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
    print(json.dumps({name: measure(*shape) for name, *shape in json.loads(sys.argv[1])}))
