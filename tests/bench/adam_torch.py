"""Parameters that PyTorch's AdamW updates per second on the CPU, for tests/bench/adam.sh.

Usage: adam_torch.py THREADS PARAMETERS RUNS
One tensor, its gradient kept, clipping left out. Every implementation that this PyTorch has for the CPU (fused from 2.4
on, foreach, a loop over tensors) is timed, the median of RUNS steps each; prints the best and its name.
"""
import sys
import time

import torch


def rate(count, runs, **how):
    weight = torch.nn.Parameter(torch.full((count,), 0.5))
    weight.grad = torch.full((count,), 1e-3)
    optimizer = torch.optim.AdamW([weight], lr=1e-3, weight_decay=0.01, **how)
    optimizer.step()
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    return count / sorted(seconds)[len(seconds) // 2]


def main():
    threads, count, runs = (int(word) for word in sys.argv[1:])
    torch.set_num_threads(threads)
    best = 0.0, "none"
    for how in ({"fused": True}, {"foreach": True}, {"foreach": False}):
        name = " ".join(f"{key}={value}" for key, value in how.items())
        try:
            best = max(best, (rate(count, runs, **how), name))
        except (TypeError, RuntimeError) as error:
            print(f"no {name}: {str(error).splitlines()[0]}", file=sys.stderr)
    print(f"{best[0]:.4g} {best[1]} PyTorch {torch.__version__}")


main()
