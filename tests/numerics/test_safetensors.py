#!/usr/bin/env python3
"""Weights as safetensors files: what 4 ranks write, another plan and another dtype read, in one file or in shards, and
what is refused.
timeout_seconds: 240 cores: 1"""
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile

os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
BUILD = pathlib.Path(os.environ.get("BUILD", "build")).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
PLANS = ROOT / "tests/numerics/plans"
GALRUN = BUILD / "galrun"
failed = False


def verdict(name, good, why=""):
    global failed
    print(f"{'ok' if good else 'not ok'} {name}{'' if good else ': ' + str(why)}", flush=True)
    failed = failed or not good


def galrun(plan, folder, ranks, *arguments):
    """(exit code, stderr, validation loss)"""
    log = folder / "log"
    command = [GALRUN, plan, "--data", folder / "text", "--evaluate-batches", "2", "-q", "--log", log, *arguments]
    command += ["--np", str(ranks)] if ranks > 1 else []
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    losses = [json.loads(line).get("validation_loss") for line in log.read_text().splitlines()] if log.exists() else []
    return done.returncode, done.stderr, next((x for x in reversed(losses) if x is not None), None)


def read(path):
    """{name: (dtype, shape, values as bytes)}, after looking at the form of the file."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__")
    end = 0
    for entry in header.values():
        assert entry["data_offsets"][0] == end, "holes"
        end = entry["data_offsets"][1]
    assert end == len(data) - 8 - length and (8 + length) % 8 == 0
    return {name: (e["dtype"], e["shape"], data[8 + length:][slice(*e["data_offsets"])]) for name, e in header.items()}


def write(path, tensors, metadata=None):
    header, begin, body = {"__metadata__": metadata or {}}, 0, b""
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, begin + len(values)]}
        begin += len(values)
        body += values
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def floats(values, dtype):
    return struct.unpack(f"<{len(values) // 8}d", values) if dtype == "F64" else struct.unpack(f"<{len(values) // 4}f", values)


def shapes_of(model):
    """Public names and shapes, written down again."""
    h, f, v = model["hidden"], model["ffn_hidden"], model["vocabulary"]
    out = {}
    if model["family"] == "decoder":
        out.update({"wte.weight": [v, h], "wpe.weight": [model["sequence_length"], h]})
        for i in range(model["layer_count"]):
            block = {"ln_1.weight": [h], "ln_1.bias": [h], "attn.c_attn.weight": [h, 3 * h], "attn.c_attn.bias": [3 * h],
                     "attn.c_proj.weight": [h, h], "attn.c_proj.bias": [h], "ln_2.weight": [h], "ln_2.bias": [h],
                     "mlp.c_fc.weight": [h, f], "mlp.c_fc.bias": [f], "mlp.c_proj.weight": [f, h], "mlp.c_proj.bias": [h]}
            out.update({f"h.{i}.{name}": shape for name, shape in block.items()})
        out.update({"ln_f.weight": [h], "ln_f.bias": [h]})
    elif model["family"] == "bert":
        at = "bert.embeddings."
        out.update({at + "word_embeddings.weight": [v, h], at + "position_embeddings.weight": [model["sequence_length"], h],
                    at + "token_type_embeddings.weight": [2, h], at + "LayerNorm.weight": [h], at + "LayerNorm.bias": [h]})
        for i in range(model["layer_count"]):
            block = {f"attention.self.{x}.weight": [h, h] for x in ("query", "key", "value")}
            block.update({f"attention.self.{x}.bias": [h] for x in ("query", "key", "value")})
            block.update({"attention.output.dense.weight": [h, h], "attention.output.dense.bias": [h],
                          "intermediate.dense.weight": [f, h], "intermediate.dense.bias": [f],
                          "output.dense.weight": [h, f], "output.dense.bias": [h]})
            block.update({f"{x}.LayerNorm.{y}": [h] for x in ("attention.output", "output") for y in ("weight", "bias")})
            out.update({f"bert.encoder.layer.{i}.{name}": shape for name, shape in block.items()})
        at = "cls.predictions."
        out.update({at + "transform.dense.weight": [h, h], at + "transform.dense.bias": [h],
                    at + "transform.LayerNorm.weight": [h], at + "transform.LayerNorm.bias": [h], at + "bias": [v]})
        return out
    elif model["family"] == "t5":
        q, bias = model["head_count"] * model["head_dim"], "layer.0.SelfAttention.relative_attention_bias.weight"
        names = ["wi_0", "wi_1"] if model["gated"] else ["wi"]
        out["shared.weight"] = [v, h]
        for stack, layers, kinds in (("encoder", model["layer_count"], ("SelfAttention",)),
                                     ("decoder", model["decoder_layer_count"], ("SelfAttention", "EncDecAttention"))):
            out[f"{stack}.block.0.{bias}"] = [model["relative_bucket_count"], model["head_count"]]
            out[f"{stack}.final_layer_norm.weight"] = [h]
            for i in range(layers):
                for k, kind in enumerate(kinds):
                    at = f"{stack}.block.{i}.layer.{k}."
                    out[at + "layer_norm.weight"] = [h]
                    out.update({f"{at}{kind}.{x}.weight": [q, h] for x in "qkv"})
                    out[f"{at}{kind}.o.weight"] = [h, q]
                at = f"{stack}.block.{i}.layer.{len(kinds)}."
                out[at + "layer_norm.weight"] = [h]
                out.update({f"{at}DenseReluDense.{x}.weight": [f, h] for x in names})
                out[at + "DenseReluDense.wo.weight"] = [h, f]
    else:
        q, kv = model["head_count"] * model["head_dim"], model["kv_head_count"] * model["head_dim"]
        out["model.embed_tokens.weight"] = [v, h]
        for i in range(model["layer_count"]):
            block = {"input_layernorm.weight": [h], "self_attn.q_proj.weight": [q, h], "self_attn.k_proj.weight": [kv, h],
                     "self_attn.v_proj.weight": [kv, h], "self_attn.o_proj.weight": [h, q],
                     "post_attention_layernorm.weight": [h], "mlp.gate_proj.weight": [f, h],
                     "mlp.up_proj.weight": [f, h], "mlp.down_proj.weight": [h, f]}
            if model["qkv_bias"]:
                block.update({f"self_attn.{x}_proj.bias": [n] for x, n in (("q", q), ("k", kv), ("v", kv))})
            out.update({f"model.layers.{i}.{name}": shape for name, shape in block.items()})
        out["model.norm.weight"] = [h]
    if not model["tied_embeddings"]:
        out["lm_head.weight"] = [v, h]
    return out


def serial_plan(plan):
    """The same model on one rank."""
    serial = json.loads((PLANS / "serial.json").read_text())
    serial["model"] = plan["model"]
    blocks = sum(run["block_count"] for stage in plan["stages"] for run in stage["runs"])
    serial["stages"][0]["runs"][0]["block_count"] = blocks
    for key in ("global_batch_samples", "microbatch_count"):
        serial[key] = plan[key]
    return serial


def to_llama(plan):
    """A Llama of the sizes of a plan's model; its heads share keys and values in pairs."""
    model = {}
    for key, value in plan["model"].items():
        if key == "layer_norm_epsilon":
            model.update({"kv_head_count": plan["model"]["head_count"], "head_dim": 6, "rotary_base": 100,
                          "qkv_bias": True, "rms_norm_epsilon": 1e-5})
        elif key not in ("embedding_dropout", "residual_dropout"):
            model[key] = value
    model.update({"family": "llama", "head_count": 2 * model["head_count"], "activation": "silu"})
    return {**plan, "model": model}


def to_bert(plan):
    model = {}
    for key, value in plan["model"].items():
        if key == "layer_norm_epsilon":
            model.update({"type_count": 2, "mask_token": 7})
        if key != "embedding_dropout":
            model[key] = value
    return {**plan, "model": {**model, "family": "bert"}}


def to_t5(plan):
    """A T5 of the sizes of a plan's model, 1 + 1 layers; the blocks that hold the token table share a strategy."""
    model = {}
    for key, value in plan["model"].items():
        if key == "layer_norm_epsilon":
            model.update({"decoder_layer_count": 1, "decoder_sequence_length": 8, "head_dim": 6, "gated": True,
                          "relative_bucket_count": 8, "relative_max_distance": 20, "rms_norm_epsilon": 1e-6})
        elif key != "embedding_dropout":
            model[key] = value
    model.update({"family": "t5", "layer_count": 1, "tied_embeddings": True})
    runs = plan["stages"][0]["runs"]
    first, inner = runs[0], runs[1:5]
    stage = {**plan["stages"][0], "runs": [first, inner[0], inner[1], first, inner[2], inner[1], inner[3], first]}
    return {**plan, "model": model, "stages": [stage]}


def family(folder, name, plan):
    """4 ranks write; one rank reads and writes the same bytes, and has the same loss."""
    (folder / "plan.json").write_text(json.dumps(plan, indent=2))
    (folder / "serial.json").write_text(json.dumps(serial_plan(plan), indent=2))
    many, one = folder / "many.safetensors", folder / "one.safetensors"
    code, errors, loss = galrun(folder / "plan.json", folder, 4, "--steps", 3, "--export", many)
    verdict(f"{name}: 4 ranks write their weights", code == 0, errors)
    if code != 0:
        return
    tensors = read(many)
    verdict(f"{name}: public names and shapes", {k: t[1] for k, t in tensors.items()} == shapes_of(plan["model"]),
            {k: t[1] for k, t in tensors.items()})
    code, errors, again = galrun(folder / "serial.json", folder, 1, "--steps", 0, "--weights", many, "--export", one)
    verdict(f"{name}: one rank reads them, with the same loss", code == 0 and abs(again - loss) < 1e-10 * loss,
            f"{errors} {loss} {again}")
    verdict(f"{name}: and writes the same bytes", code == 0 and one.read_bytes() == many.read_bytes())


def narrow(folder, tensors):
    """Random bits of each narrow type mean what Python's struct says they mean."""
    numbers = random.Random(7)
    for dtype, form in (("F32", "f"), ("F16", "e"), ("BF16", "f")):
        changed = {}
        wanted = {}
        for name, (_, shape, values) in tensors.items():
            count = len(values) // 8
            small = [numbers.uniform(-1, 1) * 2.0 ** numbers.randint(-26, 3) for _ in range(count)]
            packed = struct.pack(f"<{count}{form}", *small)
            if dtype == "BF16":
                packed = b"".join(packed[4 * i + 2:4 * i + 4] for i in range(count))
                wide = b"".join(b"\0\0" + packed[2 * i:2 * i + 2] for i in range(count))
                wanted[name] = struct.unpack(f"<{count}f", wide)
            else:
                wanted[name] = struct.unpack(f"<{count}{form}", packed)
            changed[("transformer." if dtype == "F16" else "") + name] = (dtype, shape, packed)
        changed["a.tensor.of.others"] = ("I64", [1], bytes(8))
        write(folder / "narrow.safetensors", changed)
        code, errors, _ = galrun(folder / "serial.json", folder, 1, "--steps", 0, "--weights",
                                 folder / "narrow.safetensors", "--export", folder / "wide.safetensors")
        got = read(folder / "wide.safetensors") if code == 0 else {}
        verdict(f"{dtype} is read exactly", code == 0 and all(floats(got[n][2], "F64") == w for n, w in wanted.items()), errors)


def shards(folder, tensors, place, index=None):
    """Writes tensors where place says, {tensor: file}, with an index of index (default: place) beside them."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in sorted(set(place.values())):
        write(folder / name, {t: tensors[t] for t in tensors if place[t] == name})
    document = {"metadata": {"total_size": 1}, "weight_map": index or place}
    (folder / "model.safetensors.index.json").write_text(json.dumps(document))


def loads_in_shards(folder, tensors, loss_plan):
    """Two files with an index, and a folder with one file, give the bytes of the one file; faults name the file."""
    place = {t: f"model-0000{1 + i % 2}-of-00002.safetensors" for i, t in enumerate(tensors)}
    parts, out = folder / "parts", folder / "out.safetensors"
    first, second = list(tensors)[:2]
    shards(parts, tensors, place)

    def run(path, plan="serial.json", ranks=1):
        out.unlink(missing_ok=True)
        code, errors, _ = galrun(folder / plan, folder, ranks, "--steps", 0, "--weights", path, "--export", out)
        return code, errors

    def same(name, path, *ranks):
        code, errors = run(path, *ranks)
        verdict(name, code == 0 and out.read_bytes() == (folder / "many.safetensors").read_bytes(), errors)

    def refused(name, *expected, path=parts, code=3):
        got, errors = run(path)
        lines = errors.strip().splitlines()
        verdict(f"refused: {name}", got == code and len(lines) == 1 and all(e in lines[0] for e in expected), errors)

    same("an index is read", parts / "model.safetensors.index.json")
    same("a folder with an index is read", parts)
    same("and by 4 ranks", parts, loss_plan, 4)
    (parts / "model.safetensors").write_bytes((folder / "many.safetensors").read_bytes())
    refused("a folder with both", "give the one that is meant")
    (parts / "model.safetensors.index.json").unlink()
    same("a folder with one file is read", parts)
    (parts / "model.safetensors").unlink()
    refused("a folder with neither", "parts has neither model.safetensors nor model.safetensors.index.json")
    shards(parts, tensors, place)
    (parts / place[second]).unlink()
    refused("a missing shard", f"cannot open {parts / place[second]}", code=4)
    shards(parts, tensors, place, {**place, second: place[first]})
    refused("a tensor in another shard", place[first], f'the index puts tensor "{second}" there')
    shards(parts, tensors, place, {**place, "x": place[first]})
    refused("a tensor that its shard lacks", place[first], 'the index puts tensor "x" there')
    shards(parts, tensors, place, {t: f for t, f in place.items() if t != second})
    refused("a tensor outside the index", place[second], f'"{second}" is not in the index')
    shards(parts, tensors, place)
    write(parts / place[first], {t: tensors[t] for t in tensors if place[t] == place[first] or t == second})
    refused("a tensor in two shards", f'"{second}" is in two files', place[first], place[second])
    shards(parts, tensors, place, {**place, second: "../" + place[second]})
    refused("a shard outside the folder", "must be the name of a file beside the index")
    (folder / "model.pt").write_bytes(b"PK\x03\x04" + bytes(60))
    refused("a file of PyTorch", "model.pt", "this is a zip file", "save_pretrained", path=folder / "model.pt")


def leftovers(folder, tensors):
    """No tensor is passed over in silence."""
    path, dtype = folder / "left.safetensors", next(iter(tensors.values()))[0]
    vector = (dtype, [1], bytes(8))

    def run(more, *arguments):
        write(path, {**tensors, **more})
        command = [GALRUN, folder / "serial.json", "--data", folder / "text", "--evaluate-batches", "1", "--steps", "0",
                   "--weights", path, *arguments]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    code, errors = run({f"h.9.{x}.weight": vector for x in ("ln_1", "ln_2")}, "-q")
    verdict("refused: layers that the model does not have", code == 3 and 'no place for 2 of' in errors and
            'the first is "h.9.ln_1.weight"' in errors, errors)
    name = next(iter(tensors))
    code, errors = run({"transformer." + name: tensors[name]}, "-q")
    verdict("refused: a tensor under both of its names", code == 3 and f'"transformer.{name}"' in errors, errors)
    code, errors = run({"h.0.attn.bias": vector, "h.0.attn.masked_bias": vector, "other": vector})
    verdict("masks and others' tensors are told once", code == 0 and errors.count("left out") == 1 and
            "3 tensors have no part" in errors and "h.0.attn.bias, h.0.attn.masked_bias, other" in errors, errors)
    code, errors = run({"a\n\x1b[1mb": vector})
    verdict("a name is told without control characters", code == 0 and "left out: a??[1mb\n" in errors, errors)
    if "lm_head.weight" not in tensors:
        code, errors = run({"lm_head.weight": tensors["wte.weight"]})
        verdict("a tied table may stand twice", code == 0 and "left out" not in errors, errors)
        dtype, shape, values = tensors["wte.weight"]
        code, errors = run({"lm_head.weight": (dtype, shape, values[:-1] + bytes([values[-1] ^ 1]))}, "-q")
        verdict("refused: a tied table with two values", code == 3 and "their values differ" in errors, errors)


def refusals(folder, tensors):
    path = folder / "bad.safetensors"
    first = next(iter(tensors))
    dtype, shape, values = tensors[first]

    def refused(name, expected, code=3):
        got, errors, _ = galrun(folder / "serial.json", folder, 1, "--steps", 0, "--weights", path)
        lines = errors.strip().splitlines()
        verdict(f"refused: {name}", got == code and len(lines) == 1 and expected in lines[0], f"{got} {errors}")

    write(path, {k: t for k, t in tensors.items() if k != first})
    refused("a missing tensor", f'there is no tensor "{first}"')
    write(path, {**tensors, first: (dtype, [shape[1], shape[0]], values)})
    refused("another shape", f"the plan's model has [{shape[0]}, {shape[1]}] here")
    write(path, {**tensors, first: (dtype, shape, values[:-8])})
    refused("too few bytes", f"must be {len(values)} bytes apart")
    write(path, {**tensors, first: ("F8_E4M3", shape, values)})
    refused("an unknown type", "must be one of F64, F32, F16, BF16")
    whole = (folder / "many.safetensors").read_bytes()
    path.write_bytes(whole[:5])
    refused("a file of 5 bytes", "shorter than its first 8 bytes")
    path.write_bytes(b"\xff" * 8 + whole[8:])
    refused("an absurd header", "a header of 18446744073709551615 bytes")
    path.write_bytes(whole[:-1])
    refused("a file cut short", "data_offsets")
    path.write_bytes(whole[:8] + b"[" + whole[9:])
    refused("a header that is no object", "bad.safetensors")
    path.unlink()
    refused("no file", "cannot open", 4)


def main():
    if not GALRUN.exists():
        print("not built, see what make left out")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "text").write_text("to be or not to be, that is the question; " * 400)
        plan = json.loads((PLANS / "mixed.json").read_text())
        family(folder, "llama", to_llama(plan))
        family(folder, "bert", to_bert(plan))
        family(folder, "t5", to_t5(plan))
        family(folder, "gpt2", plan)
        tensors = read(folder / "many.safetensors")
        narrow(folder, tensors)
        refusals(folder, tensors)
        loads_in_shards(folder, tensors, "plan.json")
        leftovers(folder, tensors)
        code, errors, _ = galrun(folder / "serial.json", folder, 1, "--weights", "x", "--resume", "y")
        verdict("refused: --weights with --resume", code == 2 and "give one of them" in errors, errors)
        code, errors, _ = galrun(folder / "serial.json", folder, 1, "--steps", 0, "--export", "/nowhere/w.safetensors")
        verdict("refused: no folder to write to", code == 4 and "cannot create /nowhere" in errors, errors)
    return 1 if failed else 0


sys.exit(main())
