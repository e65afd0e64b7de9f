#!/usr/bin/env python3
"""Training a ViT and a Swin on arrays of images by galrun: they learn, any plan alike, validated on their own files or on the last
tenth, and what does not fit is refused.
timeout_seconds: 240 cores: 1"""
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
BUILD = pathlib.Path(os.environ.get("BUILD", "build")).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
PLANS = ROOT / "tests/numerics/plans"
GALRUN = BUILD / "galrun"
LABELS = 4
failed = False


def verdict(name, good, why=""):
    global failed
    print(f"{'ok' if good else 'not ok'} {name}{'' if good else ': ' + str(why)}", flush=True)
    failed = failed or not good


def write_array(path, kind, shape, numbers):
    """As numpy.save does."""
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    form = {"|u1": "B", "<i8": "q"}[kind]
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
                     + struct.pack(f"<{len(numbers)}{form}", *numbers))


def make_images(folder, name, side, count, seed):
    """Noise with one bright quarter, which is the label."""
    draw = random.Random(seed)
    pixels, labels = [], []
    for _ in range(count):
        label = draw.randrange(LABELS)
        labels.append(label)
        for y in range(side):
            for x in range(side):
                bright = 2 * (2 * y // side) + 2 * x // side == label
                pixels.append(draw.randrange(60) + (150 if bright else 0))
    write_array(folder / f"{name}.npy", "|u1", (count, side, side), pixels)
    write_array(folder / f"{name}-labels.npy", "<i8", (count,), labels)


def seeing(plan, side):
    """The plan's model with the members that say what images are."""
    model = {}
    for key, value in plan["model"].items():
        if key == "layer_norm_epsilon":
            model.update({"image_size": side, "patch_size": 2, "channel_count": 1, "pixel_mean": 0.3,
                          "pixel_standard_deviation": 0.3})
        model[key] = value
    return model


def to_vit(plan):
    """3 x 3 patches."""
    model = seeing(plan, 6)
    model.update({"family": "vit", "sequence_length": 10, "vocabulary": LABELS, "tied_embeddings": False})
    plan = {**plan, "model": model}
    plan["stages"][0]["runs"][2]["strategy"]["axes"] = [{"kind": "tp", "degree": 2}, {"kind": "dp", "degree": 2}]
    return plan  # 10 positions are a multiple of 2, not of 4


def to_swin(plan):
    """4 x 4 patches in shifted windows of 2, two layers; then 2 x 2 in one."""
    model = seeing(plan, 8)
    del model["embedding_dropout"]
    heads = model["head_count"]
    model.update({"family": "swin", "layer_count": 3, "sequence_length": 16, "vocabulary": LABELS,
                  "tied_embeddings": False, "level_layer_counts": [2, 1], "level_head_counts": [heads, 2 * heads],
                  "window_size": 2})

    def run(blocks, axes, zero_stage=0, sequence_parallel=False, recompute="none"):
        return {"block_count": blocks, "strategy": {"axes": [{"kind": k, "degree": d} for k, d in axes],
                                                    "zero_stage": zero_stage, "sequence_parallel": sequence_parallel,
                                                    "recompute": recompute}}

    runs = [run(1, [("sdp", 4)], 3), run(2, [("tp", 2), ("dp", 2)], 0, True), run(2, [("sdp", 4)], 3, False, "full"),
            run(1, [("dp", 2), ("tp", 2)], 0, True), run(2, [("tp", 2), ("sdp", 2)], 2, False, "selective"),
            run(1, [("tp", 2), ("sdp", 2)], 1)]
    return {**plan, "model": model, "stages": [{"predicted_bytes": 0, "runs": runs}]}


def serial_plan(plan):
    serial = json.loads((PLANS / "serial.json").read_text())
    serial["model"] = plan["model"]
    serial["stages"][0]["runs"][0]["block_count"] = sum(r["block_count"] for r in plan["stages"][0]["runs"])
    for key in ("global_batch_samples", "microbatch_count"):
        serial[key] = plan[key]
    return serial


def galrun(folder, plan, ranks, *arguments):
    """(exit code, stdout, stderr, the last evaluation)"""
    log = folder / "log"
    command = [GALRUN, folder / plan, "--log", log, "-q", *arguments]
    command += ["--np", str(ranks)] if ranks > 1 else []
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return done.returncode, done.stdout, done.stderr, next((x for x in reversed(lines) if x["event"] == "evaluation"), {})


def trained(folder):
    data = ["--data", folder / "train.npy", "--labels", folder / "train-labels.npy"]
    own = ["--validation", folder / "held.npy", "--validation-labels", folder / "held-labels.npy"]
    steps = ["--steps", 60, "--evaluate-batches", 4]
    code, out, errors, one = galrun(folder, "serial.json", 1, *data, *own, *steps)
    verdict("one rank learns where the bright quarter is", code == 0 and one.get("accuracy", 0) > 0.95, f"{errors} {one}")
    verdict("accuracy in the summary", "validation accuracy" in out and "nats per image" in out, out)
    code, _, errors, many = galrun(folder, "plan.json", 4, *data, *own, *steps)
    same = code == 0 and abs(many["validation_loss"] / one["validation_loss"] - 1) < 1e-7
    verdict("4 ranks learn alike", same and many["accuracy"] == one["accuracy"], f"{errors} {one} {many}")
    code, _, errors, last = galrun(folder, "serial.json", 1, *data, "--steps", 0)
    verdict("the last tenth is validated on without a file", code == 0 and last.get("batches", 0) > 0, errors)
    code, out, errors, _ = galrun(folder, "serial.json", 1, *data, "--dry-run")
    verdict("--dry-run counts images", code == 0 and "360 training images, 40 validation images" in out, out + errors)


def header_of(path):
    data = path.read_bytes()
    return json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])


def dense(name, rows, columns):
    return {name + ".weight": [rows, columns], name + ".bias": [rows]}


def vector(name, count):
    return {name + ".weight": [count], name + ".bias": [count]}


def swin_shapes(model):
    """Public names and shapes of a Swin, written down again."""
    h, f = model["hidden"], model["ffn_hidden"]
    out = {"swin.embeddings.patch_embeddings.projection.weight": [h, 1, 2, 2],
           "swin.embeddings.patch_embeddings.projection.bias": [h], **vector("swin.embeddings.norm", h)}
    for level, layers in enumerate(model["level_layer_counts"]):
        for layer in range(layers):
            at = f"swin.encoder.layers.{level}.blocks.{layer}."
            for name in ("query", "key", "value"):
                out.update(dense(f"{at}attention.self.{name}", h, h))
            out[at + "attention.self.relative_position_bias_table"] = [9, model["level_head_counts"][level]]
            out.update({**dense(at + "attention.output.dense", h, h), **dense(at + "intermediate.dense", f, h),
                        **dense(at + "output.dense", h, f), **vector(at + "layernorm_before", h),
                        **vector(at + "layernorm_after", h)})
        if level + 1 < len(model["level_layer_counts"]):
            at = f"swin.encoder.layers.{level}.downsample."
            out.update({at + "reduction.weight": [2 * h, 4 * h], **vector(at + "norm", 4 * h)})
            h, f = 2 * h, 2 * f
    return {**out, **vector("swin.layernorm", h), **dense("classifier", LABELS, h)}


def vit_shapes(model):
    """The same of a ViT."""
    h, f = model["hidden"], model["ffn_hidden"]
    out = {"embeddings.cls_token": [1, 1, h], "embeddings.position_embeddings": [1, model["sequence_length"], h],
           "embeddings.patch_embeddings.projection.weight": [h, 1, 2, 2],
           "embeddings.patch_embeddings.projection.bias": [h], "layernorm.weight": [h], "layernorm.bias": [h]}
    for i in range(model["layer_count"]):
        block = {f"attention.attention.{x}.weight": [h, h] for x in ("query", "key", "value")}
        block.update({f"attention.attention.{x}.bias": [h] for x in ("query", "key", "value")})
        block.update({"attention.output.dense.weight": [h, h], "attention.output.dense.bias": [h],
                      "intermediate.dense.weight": [f, h], "intermediate.dense.bias": [f],
                      "output.dense.weight": [h, f], "output.dense.bias": [h]})
        block.update({f"layernorm_{x}.{y}": [h] for x in ("before", "after") for y in ("weight", "bias")})
        out.update({f"encoder.layer.{i}.{name}": shape for name, shape in block.items()})
    return {**{"vit." + name: shape for name, shape in out.items()}, "classifier.weight": [LABELS, h],
            "classifier.bias": [LABELS]}


def weights(folder, wanted):
    many, one = folder / "many.safetensors", folder / "one.safetensors"
    data = ["--data", folder / "train.npy", "--labels", folder / "train-labels.npy", "--evaluate-batches", 2]
    code, _, errors, loss = galrun(folder, "plan.json", 4, *data, "--steps", 3, "--export", many)
    verdict("4 ranks write their weights", code == 0, errors)
    if code != 0:
        return
    shapes = {name: entry["shape"] for name, entry in header_of(many).items() if name != "__metadata__"}
    verdict("public names and shapes", shapes == wanted, shapes)
    code, _, errors, again = galrun(folder, "serial.json", 1, *data, "--steps", 0, "--weights", many, "--export", one)
    verdict("one rank reads them, with the same loss",
            code == 0 and abs(again["validation_loss"] / loss["validation_loss"] - 1) < 1e-10, f"{errors} {loss} {again}")
    verdict("and writes the same bytes", code == 0 and one.read_bytes() == many.read_bytes())
    prefix = next(name for name in wanted if name.endswith("projection.weight"))
    cut = many.read_bytes().replace(b'"shape": [16, 1, 2, 2]', b'"shape": [16, 1, 4, 1]')
    (folder / "bad.safetensors").write_bytes(cut)
    code, _, errors, _ = galrun(folder, "serial.json", 1, *data, "--steps", 0, "--weights", folder / "bad.safetensors")
    verdict("refused: another shape of the patches", code == 3 and "has [16, 1, 2, 2] here" in errors,
            f"{errors} {header_of(many)[prefix]}")


def refused(folder):
    images, labels = folder / "train.npy", folder / "train-labels.npy"

    def refuse(name, expected, code, *arguments):
        got, _, errors, _ = galrun(folder, "serial.json", 1, *arguments)
        lines = errors.strip().splitlines()
        verdict(f"refused: {name}", got == code and len(lines) == 1 and expected in lines[0], f"{got} {errors}")

    refuse("images without labels", "name their labels by --labels", 2, "--data", images)
    refuse("a validation file without labels", "name their labels by --validation-labels", 2, "--data", images,
           "--labels", labels, "--validation", images)
    refuse("labels of others", "one label for each of 400 images", 3, "--data", images, "--labels",
           folder / "held-labels.npy")
    refuse("text", "not an array of numpy.save", 3, "--data", __file__, "--labels", labels)
    text = json.loads((PLANS / "serial.json").read_text())
    (folder / "serial.json").write_text(json.dumps(text))
    refuse("labels of tokens", "labels go with images", 2, "--data", images, "--labels", labels)


def main():
    if not GALRUN.exists():
        print("not built, see what make left out")
        return 77
    for family, convert, shapes in (("swin", to_swin, swin_shapes), ("vit", to_vit, vit_shapes)):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            print(family)
            plan = convert(json.loads((PLANS / "mixed.json").read_text()))
            plan["model"]["optimizer"].update({"learning_rate": 0.003, "minimum_learning_rate": 0.0003,
                                               "warmup_steps": 5, "decay_steps": 60})
            (folder / "plan.json").write_text(json.dumps(plan))
            (folder / "serial.json").write_text(json.dumps(serial_plan(plan)))
            make_images(folder, "train", plan["model"]["image_size"], 400, 1)
            make_images(folder, "held", plan["model"]["image_size"], 60, 2)
            trained(folder)
            weights(folder, shapes(plan["model"]))
            if family == "vit":
                refused(folder)
    return 1 if failed else 0


sys.exit(main())
