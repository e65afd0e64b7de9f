#!/usr/bin/env python3
"""Parameters of the catalogue's models against Table I of the Galvatron-BMW paper (arXiv 2307.02031), within 0.4 %.
Run from the repository root."""
import json
import os
import subprocess
import sys

TABLE_1 = {"bert-huge-32": 672e6, "bert-huge-48": 987e6, "bert-xhuge": 10.2e9,
           "vit-huge-32": 632e6, "vit-huge-48": 947e6, "vit-xhuge": 10.1e9,
           "t5-large-32": 502e6, "t5-large-48": 737e6, "t5-512-4-32": 502e6, "t5-512-4-48": 737e6,
           "swin-huge-32": 701e6, "swin-huge-48": 1016e6,
           "gpt3-15b": 15.4e9, "gpt3-39b": 39.1e9, "gpt3-65b": 64.9e9}


def main():
    galplan = os.path.join(os.environ.get("BUILD", "build"), "galplan")
    listed = json.loads(subprocess.run([galplan, "models", "--json"], capture_output=True, check=True).stdout)
    models = {m["name"]: m for m in listed["models"]}
    failed = False
    for name, wanted in TABLE_1.items():
        got = models[name]["pretraining_parameter_count"] if name in models else 0
        good = abs(got / wanted - 1) <= 0.004
        failed |= not good
        print(f"{'ok' if good else 'not ok'} {name}: {got / 1e6:.1f} M parameters, Table I {wanted / 1e6:.0f} M "
              f"({100 * (got / wanted - 1):+.2f} %)")
    return 1 if failed else 0


sys.exit(main())
