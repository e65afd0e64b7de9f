#!/usr/bin/env bash
# Moments and weights on storage: the run is bit by bit the one without, also when it goes on from a checkpoint, by either
# way of moving bytes; a disk that is full at the start or on the way, or is not there, is one message and exit 4, and the
# last checkpoint is whole. timeout_seconds: 120
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/faults/common.sh
interposer=$(preloaded libfault_count.so)
export ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0
[ -f "$interposer" ] || { echo 'no MPI: the interposer is not built'; exit 77; }
stored=$plans/storage.json plain=$scratch/plain.json disk=$scratch/disk
mkdir "$disk"
python3 - "$stored" "$plain" <<'END'
import json, sys
plan = json.load(open(sys.argv[1]))
del plan["storage_part_bytes"]
for stage in plan["stages"]:
    for run in stage["runs"]:
        del run["strategy"]["offload"]
json.dump(plan, open(sys.argv[2], "w"))
END

train() { # plan arguments...
    "$galrun" "$1" --data "$data" --evaluate-batches 1 "${@:2}" >"$scratch/out" 2>"$scratch/err"
}

refused() { # pattern: the last run said one line, an error like this
    [ "$(grep -c 'error:' "$scratch/err")" -eq 1 ] && grep -q "^galrun: error: $1" "$scratch/err"
}

train "$plain" --steps 4 --save "$scratch/plain"
train "$stored" --steps 4 --save "$scratch/stored" --storage "$disk"
cmp -s "$scratch"/{plain,stored}/step-00000004/rank-00000.bin
verdict 'moments and weights on storage give the bits of those on the device' $?
grep -q '  on storage  *- *1.20' "$scratch/out"
verdict 'the file is reported' $?
[ -z "$(ls -A "$disk")" ]
verdict 'no file is left' $?

train "$stored" --steps 2 --save "$scratch/twice" --storage "$disk" --storage-io threads
train "$stored" --steps 4 --save "$scratch/twice" --resume latest --storage "$disk"
cmp -s "$scratch"/{plain,twice}/step-00000004/rank-00000.bin
verdict 'a run goes on from a checkpoint of what is on storage' $?

train "$stored" --steps 4
[ $? -eq 2 ] && refused '.* has a part of what it keeps on storage: say where, --storage DIR'
verdict 'without --storage it is refused' $?
train "$stored" --steps 4 --storage "$scratch/nowhere"
[ $? -eq 4 ] && refused "storage $scratch/nowhere: No such file or directory"
verdict 'a directory that is not there is named' $?

read -r device host < <("${BUILD:-build}/galplan" simulate --json "$stored" | python3 -c '
import json, sys
stage = json.load(sys.stdin)["stages"][0]
print(stage["bytes"], stage["host_bytes"])')
train "$stored" --steps 1 --storage "$disk" --memory "$device" --host-memory "$host"
verdict 'limits of both memories that the plan just meets' $?
train "$stored" --steps 1 --storage "$disk" --memory $((device - 1))
[ $? -eq 4 ] && refused "the plan takes $device bytes of a device's memory, the limit is $((device - 1))"
verdict 'a byte less of a device: refused' $?
train "$stored" --steps 1 --storage "$disk" --host-memory $((host - 1))
[ $? -eq 4 ] && refused "the plan takes $host bytes of the host's memory, the limit is $((host - 1))"
verdict 'a byte less of the host: refused' $?

whole() { # the checkpoint of step 2 of an undisturbed run is there, and loads
    [ "$(cat "$scratch/full/latest")" = step-00000002 ] &&
        cmp -s "$scratch"/{full,twice}/step-00000002/rank-00000.bin &&
        train "$stored" --steps 2 --resume "$scratch/full" --storage "$disk"
}

train "$stored" --steps 2 --save "$scratch/full" --storage "$disk"
(
    ulimit -f 500
    train "$stored" --steps 4 --save "$scratch/full" --resume latest --storage "$disk"
)
[ $? -eq 4 ] && refused 'storage .*: a file of [0-9]* bytes: File too large'
verdict 'no room for the file' $?
whole
verdict 'no room for the file: the last checkpoint is whole' $?

# Behind what a checkpoint brings: in the first step that writes.
export GALPLAN_FAULT_FOLDER=$disk GALPLAN_FAULT_KIND=full GALPLAN_FAULT_FILE=$scratch/calls
resume=(--save "$scratch/full" --resume latest --storage "$disk" --storage-io threads)
GALPLAN_FAULT_AT=0 LD_PRELOAD=$interposer train "$stored" --steps 2 "${resume[@]}"
before=$(cat "$scratch/calls")
GALPLAN_FAULT_AT=$((before + 20)) LD_PRELOAD=$interposer train "$stored" --steps 8 "${resume[@]}"
[ $? -eq 4 ] && refused 'storage .*: writing [0-9]* bytes at [0-9]*: No space left on device'
verdict 'a disk that is full on the way' $?
unset GALPLAN_FAULT_FOLDER GALPLAN_FAULT_KIND GALPLAN_FAULT_FILE
whole
verdict 'a disk that is full on the way: the last checkpoint is whole' $?
exit $status
