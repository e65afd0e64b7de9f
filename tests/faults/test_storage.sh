#!/usr/bin/env bash
# Moments and weights on storage: the run is bit by bit the one without, also when it goes on from a checkpoint, by either
# way of moving bytes; a disk that is full at the start or on the way, or is not there, is one message and exit 4, and the
# last checkpoint is whole. timeout_seconds: 120 cores: 1
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/faults/common.sh
. tests/faults/storage.sh
stored=$plans/storage.json plain=$scratch/plain.json little=$scratch/little.json
plan_with "$plain" null
plan_with "$little" '{"activations_percent": 99, "storage_activations_percent": 99}' full # of inputs alone: whole or not

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

train "$little" --steps 1
verdict 'shares that come to nothing ask for no --storage' $?

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

train "$stored" --steps 2 --save "$scratch/full" --storage "$disk"
(
    ulimit -f 500
    train "$stored" --steps 4 --save "$scratch/full" --resume latest --storage "$disk"
)
[ $? -eq 4 ] && refused 'storage .*: a file of [0-9]* bytes: File too large'
verdict 'no room for the file' $?
whole "$stored" "$scratch/twice"
verdict 'no room for the file: the last checkpoint is whole' $?

# Behind what a checkpoint brings: in the first step that writes.
resume=(--save "$scratch/full" --resume latest)
train_on full 0 "$stored" --steps 2 "${resume[@]}"
before=$(cat "$scratch/calls")
train_on full $((before + 20)) "$stored" --steps 8 "${resume[@]}"
[ $? -eq 4 ] && refused 'storage .*: writing [0-9]* bytes at [0-9]*: No space left on device'
verdict 'a disk that is full on the way' $?
whole "$stored" "$scratch/twice"
verdict 'a disk that is full on the way: the last checkpoint is whole' $?
exit $status
