#!/usr/bin/env python3
"""The benches make plans by hand from one that a search wrote: what is left after its claims are taken out must still be
a plan, of other blocks too. Usage: test_bench_plans.py BUILD."""
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/bench"))
from unclaimed import CLAIMS_LEFT_OUT, without_claims  # noqa: E402

BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build").resolve()


def run(*words):
    return subprocess.run([BUILD / "galplan", *words], capture_output=True, text=True, check=False)


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "plan.json"
        found = run("search", "-q", "--model", "gpt2-small", "--cluster", "h100-8", "--devices", "2", "--batch", "8",
                    "--microbatches", "1", "--pp", "1", "--space", "dp", "-o", path)
        plan = json.loads(path.read_text(encoding="utf-8")) if found.returncode == 0 else {}
        claimed = [key for key in CLAIMS_LEFT_OUT if key in plan]
        base = without_claims(plan)
        base["model"] = dict(plan.get("model", {}), layer_count=2)
        base["stages"] = [{"predicted_bytes": 0, "runs": [
            {"block_count": 6, "strategy": plan["stages"][0]["runs"][0]["strategy"]}]}] if plan else []
        path.write_text(json.dumps(base), encoding="utf-8")
        simulated = run("simulate", "--json", path)
    results = [
        ("a search writes every claim that is left out", claimed == CLAIMS_LEFT_OUT, found.stderr),
        ("a plan without claims is simulated with other blocks", simulated.returncode == 0
         and json.loads(simulated.stdout)["simulated_seconds"] > 0, simulated.stderr),
    ]
    for name, holds, said in results:
        print(f"{'ok' if holds else 'not ok'} {name}{'' if holds else ': ' + said.strip()}")
    sys.exit(0 if all(holds for _, holds, _ in results) else 1)


main()
