#!/usr/bin/python3
"""Plans of one ViT for handwritten digits, a mode of parallelism each: DIR/MODE.json, and a line "MODE RANKS" of each.
Patches of 4 by 4, so that 5 positions are what a ring of 5 divides; 40 samples, 64 features and 12 classes what the
others do. The learning rate is a third of the demo's: rounding grows with it.
Usage: convergence.py DEMO_FOLDER PLAN DIR"""
import copy
import json
import sys

MODES = {
    "dp8": {"kind": "dp", "degree": 8},
    "tp4": {"kind": "tp", "degree": 4},
    "tp4.2d": {"kind": "tp", "degree": 4, "mode": "2d"},
    "tp8.2.5d.d2": {"kind": "tp", "degree": 8, "mode": "2.5d", "depth": 2},
    "tp8.3d": {"kind": "tp", "degree": 8, "mode": "3d"},
    "ring5": {"kind": "ring", "degree": 5},
}

demo, base, folder = sys.argv[1:]
with open(demo + "/digits.json", encoding="utf-8") as file:
    model = json.load(file)
with open(base, encoding="utf-8") as file:
    plan = json.load(file)
model.update(patch_size=4, sequence_length=5, vocabulary_multiple=4, global_batch_samples=40)
model["optimizer"].update(learning_rate=0.001)
plan.update(model=model, global_batch_samples=40, microbatch_count=1)
run = plan["stages"][0]["runs"][0]
run["block_count"] = 2 * model["layer_count"] + 2
for name, axis in MODES.items():
    own = copy.deepcopy(plan)
    own["cluster"]["device_count"] = own["cluster"]["levels"][0]["span_devices"] = axis["degree"]
    own["stages"][0]["runs"][0]["strategy"]["axes"] = [axis]
    with open(f"{folder}/{name}.json", "w", encoding="utf-8") as file:
        json.dump(own, file)
    print(name, axis["degree"])
