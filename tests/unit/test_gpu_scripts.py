#!/usr/bin/env python3
"""make check-gpu and make bench-gpu as far as they go without a GPU: the formula of FLOP utilisation, what is read from
the output of programs, the result's document against its schema, and dry runs. Usage: test_gpu_scripts.py BUILD."""
import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/gpu"))
import bench  # noqa: E402
import check  # noqa: E402
import documents  # noqa: E402
import flops  # noqa: E402
import gpu  # noqa: E402

BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build").resolve()


def test_flops_of_gpt2_small():
    """12 layers of 12 * 768^2 weights and a head of 50257 * 768: 84934656 + 38597376 = 123532032, times 6 is 741192192.
    Attention 6 * 12 * 1024 * 768 = 56623104."""
    model = documents.model_of("gpt2-small")
    assert flops.product_weights(model) == 123532032
    assert flops.flops_per_token(model) == 741192192 + 56623104


def test_flops_of_shared_heads():
    """tinyllama: q and o 2 * 2048^2, k and v 2 * 2048 * 4 * 64, three products of 2048 * 5632: 44040192 a layer, of which
    there are 22; a head of 32000 * 2048 = 65536000."""
    model = documents.model_of("tinyllama-1.1b")
    assert flops.product_weights(model) == 22 * (8388608 + 1048576 + 34603008) + 65536000


def test_utilisation():
    """8 samples of 1024 tokens in 0.01 s at 797815296 a token are 6.5357e14 a second: 66.08 % of 989e12."""
    share = flops.utilisation(documents.model_of("gpt2-small"), 8, 0.01, 989e12)
    assert abs(share - 8 * 1024 * 797815296 / 0.01 / 989e12) < 1e-15 and abs(share - 0.6608) < 1e-4


def test_no_formula_is_said():
    try:
        flops.product_weights(documents.model_of("bert-base"))
    except ValueError as error:
        assert "bert" in str(error)
        return
    raise AssertionError("a family without a formula is counted")


def test_cmocka_output():
    good = "[==========] 2 test(s) run.\n[  PASSED  ] 2 test(s).\n"
    bad = "[  FAILED  ] add\n[  PASSED  ] 1 test(s).\n[  FAILED  ] tests: 1 test(s), listed below:\n[  FAILED  ] add\n"
    assert check.passed_tests(good) == (2, [])
    assert check.passed_tests(bad) == (1, ["add"])
    assert check.passed_tests("Segmentation fault") == (0, [])


def test_equivalence_output():
    out = ("plan seed 3 world 2: t5, P 1, m 2\nFAILED seed 4 world 2: swin, P 1\n"
           "ok losses of 5 steps (24 plans; the largest error is 8.2e-05 of the allowed)\n"
           "not ok evaluation loss (24 plans; the largest error is inf of the allowed)\n")
    assert check.families_of(out) == {"t5", "swin"}
    assert check.shardings_of(out + "plan seed 5 world 4: vit, P 1: 2x tp2-ring2.z1-sel 1x tp4.2d 1x tp4.sp\n"
                              "  ulysses2 in a table\n") == {"ring", "2d"}
    assert check.errors_of(out) == {"losses of 5 steps": 8.2e-05, "evaluation loss": float("inf")}


def test_families_are_the_schemas():
    schema = json.loads((ROOT / "schemas/model.schema.json").read_text(encoding="utf-8"))
    assert all(family in json.dumps(schema) for family in check.FAMILIES)
    listed = {json.loads(p.read_text(encoding="utf-8"))["family"] for p in (ROOT / "schemas/catalogue/models").rglob("*.json")}
    assert listed <= check.FAMILIES


def test_losses_of_other_steps_do_not_compare():
    steps = [{"step": 1, "loss": 5.0}, {"step": 2, "loss": 4.5}]
    assert check.largest_difference(steps, [{"step": 1, "loss": 5.01}, {"step": 2, "loss": 4.0}]) == 0.5
    assert check.largest_difference(steps, steps[:1]) == float("inf")
    assert check.largest_difference([], []) == float("inf")


def test_files_that_differ():
    with tempfile.TemporaryDirectory() as folder:
        a, b = pathlib.Path(folder, "a"), pathlib.Path(folder, "b")
        for top in (a, b):
            top.mkdir()
        assert check.differing_files(a, b) != []
        for top in (a, b):
            (top / "same").write_bytes(b"1")
        assert check.differing_files(a, b) == []
        (a / "one").write_bytes(b"1")
        assert check.differing_files(a, b) == ["one"]
        (b / "one").write_bytes(b"2")
        assert check.differing_files(a, b) == ["one"]


def test_result_is_as_its_schema_says():
    import jsonschema
    schema = json.loads((ROOT / "tests/gpu/gpu_result.schema.json").read_text(encoding="utf-8"))
    device = {"name": "GPU of tests", "memory_bytes": 1, "compute_capability": "9.0", "driver_cuda_version": "13.0"}
    results = gpu.Results()
    results.put("a", "pass", "", 1.0, {"largest": float("inf"), "all": [0.5, float("nan")]})
    results.put("b", "skip", "no reason")
    document = results.document("check-gpu build", device, {"galrun": "1"})
    jsonschema.Draft202012Validator(schema).validate(document)
    assert json.loads(json.dumps(document, allow_nan=False))["checks"][0]["figures"] == {"largest": None, "all": [0.5, None]}
    assert results.exit_code() == 0 and document["pass_count"] == 1
    results.put("c", "miss", "it is wrong")
    assert results.exit_code() == 1
    document["checks"][0]["verdict"] = "good"
    assert not jsonschema.Draft202012Validator(schema).is_valid(document)


def test_nothing_passed_is_a_miss():
    results = gpu.Results()
    results.put("a", "skip", "no tool")
    assert results.exit_code() == 1


LIMITS = ('{"name": "copy", "family": "limit", "seconds": 0.001, "bytes": 4e9, "flops": 0}\n'
          '{"name": "matmul", "family": "limit", "seconds": 0.002, "bytes": 1, "flops": 1.4e12}\n')


def pretend(part, outputs, **members):
    """The verdicts of a part, if the processes that it runs print these, one after the other, and exit with 0."""
    with tempfile.TemporaryDirectory() as folder:
        context = gpu.Context(BUILD, False, pathlib.Path(folder))
        left = list(outputs)
        context.on_gpu = lambda argv, limit_seconds, environment=None: left.pop(0)
        context.program = lambda name: name
        for name, value in members.items():
            setattr(context, name, value)
        part(context)
        return {c["name"]: c for c in context.results.checks}


def test_kernels_beside_their_limits():
    """3.5e9 bytes at the copy rate of 4e12 B/s take 0.875 ms: 87.5 % of 1 ms. A product that takes 1 ms where the best
    takes 0.9: 90 %. Attention, forward 1 ms where cuDNN takes 0.95; of another shape nobody knows."""
    lines = LIMITS + "".join(json.dumps({"seconds": 0.001, "bytes": 3.5e9, "flops": 0, **line}) + "\n" for line in (
        {"name": "add", "family": "memory"}, {"name": "slow", "family": "memory", "seconds": 0.002},
        {"name": "7b up", "family": "product", "flops": 1e12, "best_seconds": 0.0009},
        {"name": "7b attention", "family": "attention", "flops": 5e11},
        {"name": "124m attention_backward", "family": "attention", "flops": 5e11}))
    found = pretend(bench.kernels, [gpu.Done(0, '{"7b": [0.00095, 0.002]}', 1.0), gpu.Done(0, lines, 1.0)])
    share = {name: c["figures"].get("share") for name, c in found.items()}
    assert abs(share["kernels add"] - 0.875) < 1e-12 and found["kernels add"]["verdict"] == "pass"
    assert found["kernels slow"]["verdict"] == "miss"
    assert abs(share["kernels 7b up"] - 0.9) < 1e-12 and found["kernels 7b up"]["verdict"] == "miss"
    assert abs(share["kernels 7b attention"] - 0.95) < 1e-12 and found["kernels 7b attention"]["verdict"] == "pass"
    assert found["kernels 124m attention_backward"]["verdict"] == "skip"


def test_a_bench_that_dies_is_a_miss():
    found = pretend(bench.kernels, [gpu.Done(1, "no torch", 1.0), gpu.Done(5, LIMITS + "rates: error: x", 1.0)])
    assert found["kernels"]["verdict"] == "miss" and found["kernels"]["text"] == "rates: error: x"


def test_utilisation_and_speed():
    """A step of 8 samples of GPT-2 small in 0.01 s is 66.08 % of 989e12; PyTorch's in 0.0104 s, so 1.04 times."""
    def part(context):
        model = documents.model_of("gpt2-small")
        theirs = gpu.Done(0, json.dumps({"seconds": [9.0] * 4 + [0.0104] * 8, "version": "2"}), 1.0)
        bench.put_utilisation(context, "a", model, 8, (0.01, gpu.Done(0, "", 1.0)), theirs, 0.66, 1.05)
        bench.put_utilisation(context, "b", model, 8, (0.01, gpu.Done(0, "", 1.0)), gpu.Done(1, "no torch", 1.0), 0.67, 1.0)
        bench.put_utilisation(context, "c", model, 8, (None, gpu.Done(5, "galrun: error: x", 1.0)), theirs, 0.0, 1.0)
    found = pretend(part, [], matmul_flops_per_second=494.5e12)
    assert found["utilisation a"]["verdict"] == "pass" and found["speed a"]["verdict"] == "miss"
    assert abs(found["utilisation a"]["figures"]["utilisation_of_measured"] - 2 * 0.6608) < 1e-4
    assert abs(found["speed a"]["figures"]["ratio"] - 1.04) < 1e-12
    assert found["utilisation b"]["verdict"] == "miss" and found["speed b"]["verdict"] == "skip"
    assert found["utilisation c"] == {**found["utilisation c"], "verdict": "miss", "text": "galrun: error: x"}


def test_order():
    """Ranks of 3, 1, 1 are 3, 1.5, 1.5. Of 1 2 3 4 against 1 2 4 3: 1 - 6 * 2 / (4 * 15) = 0.8."""
    assert bench.ranks_of([3, 1, 1]) == [3, 1.5, 1.5]
    assert abs(bench.spearman([1, 2, 3, 4], [1, 2, 4, 3]) - 0.8) < 1e-12
    assert bench.spearman([1, 2, 3], [30, 20, 10]) == -1.0
    assert bench.spearman([1, 1, 1], [1, 2, 3]) == 0.0


def test_shares_of_a_step():
    """Of 10 us 4 are gemm, 3 attention, 3 nothing; other streams do not count."""
    event = {"ph": "X", "tid": 0}
    trace = {"traceEvents": [{**event, "cat": "gemm", "ts": 0.0, "dur": 4.0}, {"ph": "M", "tid": 0},
                             {**event, "cat": "attention", "ts": 7.0, "dur": 3.0},
                             {**event, "cat": "all_reduce", "ts": 0.0, "dur": 99.0, "tid": 1}]}
    kinds = bench.shares_of(trace)
    assert list(kinds) == ["gemm", "attention", "nothing"] and abs(kinds["nothing"] - 3e-6) < 1e-15


def prediction_row(**changes):
    return {"model": "gpt2-small", "samples": 2, "recompute": "none", "predicted_seconds": 1.0, "seconds": 1.0,
            "predicted_bytes": 1000.0, "bytes": 999.0, "predicted_arena_bytes": 500.0, "arena_bytes": 500.0, **changes}


def test_predictions():
    rows = [prediction_row(seconds=1.0 + 0.001 * i, predicted_seconds=1.04 * (1.0 + 0.001 * i)) for i in range(30)]
    found = pretend(lambda context: bench.put_predictions(context, rows, None), [])
    assert {c["verdict"] for c in found.values()} == {"pass"} and len(found) == 4
    far = [{**row, "predicted_seconds": 2.0 - row["seconds"], "bytes": 1006.0, "arena_bytes": 20000.0} for row in rows]
    far = [{**row, "predicted_seconds": 1.2 * row["predicted_seconds"]} for row in far]
    found = pretend(lambda context: bench.put_predictions(context, far, None), [])
    assert {c["verdict"] for c in found.values()} == {"miss"} and len(found) == 4
    found = pretend(lambda context: bench.put_predictions(context, rows[:29], "gpt2-xl: no memory"), [])
    assert found["prediction of 30 plans"]["text"] == "gpt2-xl: no memory"


def test_bytes_that_galrun_says():
    said = "info: 2.00 MiB of the GPU are taken: arena 1.50, workspace 0.25, contexts, libraries and other ranks 0.25; 0 MiB"
    assert bench.taken_bytes(said) == (2 * 2 ** 20, 1.5 * 2 ** 20)
    assert bench.taken_bytes("nothing") is None
    with open(ROOT / "runtime/cli/report.c", encoding="utf-8") as file:
        assert "MiB of the GPU are taken: arena %.2f" in file.read()


def test_stopped_processes():
    done = gpu.run(["sh", "-c", "echo begun; sleep 60 & wait"], 1)
    assert done.code == 124 and done.seconds < 30 and done.reason().endswith("begun")
    assert gpu.run(["sh", "-c", "echo 'x: error: y'; echo z; exit 3"], 10).reason() == "x: error: y"


def script(name, *arguments):
    return subprocess.run([sys.executable, ROOT / f"tests/gpu/{name}.py", *arguments], capture_output=True, text=True,
                          check=False, cwd=ROOT)


def test_dry_runs():
    """Every part prepares its plans, and everything it would run is built."""
    for name in ("check", "bench"):
        said = script(name, "--dry-run", str(BUILD))
        assert said.returncode == 0, said.stdout + said.stderr
        assert "would run" in said.stdout and "miss" not in said.stdout


def test_unknown_parts():
    said = script("check", "--dry-run", str(BUILD), "nonsense")
    assert said.returncode == 2 and "no part is called nonsense" in said.stderr


def test_no_gpu_is_one_line():
    try:
        gpu.describe_device()
    except gpu.NoDevice:
        for name in ("check", "bench"):
            said = script(name, str(BUILD))
            assert said.returncode == 5 and said.stderr.count("\n") == 1 and f"{name}-gpu: no" in said.stderr
        return
    print("# there is a GPU")


def main():
    failed = False
    for name, test in [(n, t) for n, t in globals().items() if n.startswith("test_")]:
        if name == "test_dry_runs" and not (BUILD / "tests/gpu/kernels").exists():
            print(f"skip {name}: CUDA was left out of this build")
            continue
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # what the scripts say of pretended results
                test()
            print(f"ok {name}")
        except Exception as error:  # whatever it is, the other tests go on
            failed = True
            print(f"not ok {name}: {error!r} (line {error.__traceback__.tb_next.tb_lineno})")
    sys.exit(1 if failed else 0)


main()
