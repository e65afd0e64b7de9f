# Sourced by the tests of storage, behind common.sh: plans that differ in what of a block is where, a disk that fails, and
# how a run on it is judged.
interposer=$(preloaded libfault_count.so)
export ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0
[ -f "$interposer" ] || { echo 'no MPI: the interposer is not built'; exit 77; }
disk=$scratch/disk
mkdir "$disk"

plan_with() { # file offload(JSON, or null) [recompute]: the plan of storage.json with them
    python3 - "$plans/storage.json" "$1" "$2" "${3:-none}" <<'PYTHON'
import json, sys
plan, offload = json.load(open(sys.argv[1])), json.loads(sys.argv[3])
for stage in plan["stages"]:
    for run in stage["runs"]:
        del run["strategy"]["offload"]
        run["strategy"]["recompute"] = sys.argv[4]
        if offload is not None:
            run["strategy"]["offload"] = offload
json.dump(plan, open(sys.argv[2], "w"))
PYTHON
}

train() { # plan arguments...
    "$galrun" "$1" --data "$data" --evaluate-batches 1 "${@:2}" >"$scratch/out" 2>"$scratch/err"
}

refused() { # pattern: the last run said one line, an error like this
    [ "$(grep -c 'error:' "$scratch/err")" -eq 1 ] && grep -q "^galrun: error: $1" "$scratch/err"
}

# On a disk with a fault from a call on: by threads, whose calls can be caught.
train_on() { # kind call plan arguments...
    GALPLAN_FAULT_FOLDER=$disk GALPLAN_FAULT_KIND=$1 GALPLAN_FAULT_FILE=$scratch/calls GALPLAN_FAULT_AT=$2 \
        LD_PRELOAD=$interposer train "$3" --storage "$disk" --storage-io threads "${@:4}"
}

whole() { # plan twice: in $scratch/full is the checkpoint of step 2, the bytes of an undisturbed run's in `twice`, and loads
    [ "$(cat "$scratch/full/latest")" = step-00000002 ] &&
        cmp -s "$scratch/full/step-00000002/rank-00000.bin" "$2/step-00000002/rank-00000.bin" &&
        train "$1" --steps 2 --resume "$scratch/full" --storage "$disk"
}
