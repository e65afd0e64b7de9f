"""Models, plans and data for runs on one GPU, made by galplan from the catalogue."""
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECOMPUTE = ("none", "selective", "full")


class Refused(Exception):
    """Why galplan gives no plan."""


def model_of(name, **changes):
    """A model of the catalogue without dropout, and with these changes; a step is long in coming to its learning rate."""
    model = json.loads(next((ROOT / "schemas/catalogue/models").rglob(f"{name}.json")).read_text(encoding="utf-8"))
    for key in model:
        if key.endswith("_dropout"):
            model[key] = 0
    return {**model, **changes}


def write(path, document):
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return path


def plan_of(build, folder, name, model, samples, microbatches, recompute="none"):
    """The plan of one H200, all blocks alike; Refused with galplan's reason."""
    model_path = write(folder / f"{name}.model.json", {**model, "global_batch_samples": samples})
    plan_path = folder / f"{name}.plan.json"
    said = subprocess.run([build / "galplan", "search", "--model", model_path, "--cluster", "h200-8", "--devices", "1",
                           "--batch", str(samples), "--microbatches", str(microbatches), "--pp", "1", "--space", "dp",
                           "--memory", "4TiB", "-q", "-o", plan_path], capture_output=True, text=True, check=False)
    if said.returncode != 0:
        raise Refused((said.stderr or said.stdout).strip().splitlines()[-1])
    plan = json.loads(plan_path.read_text(encoding="utf-8"))
    for stage in plan["stages"]:
        for run in stage["runs"]:
            run["strategy"]["recompute"] = recompute
    write(plan_path, plan)
    said = subprocess.run([build / "galplan", "simulate", "--json", plan_path], capture_output=True, text=True, check=False)
    if said.returncode != 0:
        raise Refused(said.stderr.strip().splitlines()[-1])
    plan["stages"][0]["predicted_bytes"] = json.loads(said.stdout)["stages"][0]["bytes"]
    return write(plan_path, plan)


def text_of(folder):
    """This repository's sources as one text of bytes."""
    path = folder / "text"
    sources = sorted(p for top in ("schemas", "runtime", "planner", "costmodel") for p in (ROOT / top).rglob("*.[ch]"))
    path.write_bytes(b"".join(p.read_bytes() for p in sources))
    return path


def logged(path, event="step"):
    """The lines of one kind of galrun's log."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line["event"] == event]
