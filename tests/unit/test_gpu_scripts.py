#!/usr/bin/env python3
"""make check-gpu and make bench-gpu as far as they go without a GPU: the formula of FLOP utilisation, what is read from
the output of programs, the result's document against its schema, and dry runs. Usage: test_gpu_scripts.py BUILD."""
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/gpu"))
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
    assert check.errors_of(out) == {"losses of 5 steps": 8.2e-05, "evaluation loss": float("inf")}


def test_families_are_the_schemas():
    schema = json.loads((ROOT / "schemas/model.schema.json").read_text(encoding="utf-8"))
    assert all(family in json.dumps(schema) for family in check.FAMILIES)
    listed = {json.loads(p.read_text(encoding="utf-8"))["family"] for p in (ROOT / "schemas/catalogue/models").glob("*.json")}
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
    results.put("a", "pass", "", 1.0, largest=float("inf"), all=[0.5, float("nan")])
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


def test_stopped_processes():
    done = gpu.run(["sh", "-c", "echo begun; sleep 60 & wait"], 1)
    assert done.code == 124 and done.seconds < 30 and done.reason().endswith("begun")
    assert gpu.run(["sh", "-c", "echo 'x: error: y'; echo z; exit 3"], 10).reason() == "x: error: y"


def script(name, *arguments):
    return subprocess.run([sys.executable, ROOT / f"tests/gpu/{name}.py", *arguments], capture_output=True, text=True,
                          check=False, cwd=ROOT)


def test_dry_runs():
    """Every part prepares its plans, and everything it would run is built."""
    for name in ("check",):
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
        said = script("check", str(BUILD))
        assert said.returncode == 5 and said.stderr.count("\n") == 1 and "check-gpu: no" in said.stderr
        return
    print("# there is a GPU")


def main():
    failed = False
    for name, test in [(n, t) for n, t in globals().items() if n.startswith("test_")]:
        if name == "test_dry_runs" and not (BUILD / "tests/gpu/kernels").exists():
            print(f"skip {name}: CUDA was left out of this build")
            continue
        try:
            test()
            print(f"ok {name}")
        except AssertionError as error:
            failed = True
            print(f"not ok {name}: {error} (line {error.__traceback__.tb_next.tb_lineno})")
    sys.exit(1 if failed else 0)


main()
