#!/usr/bin/env bash
# What forward keeps on storage: the run is bit by bit the one without; a disk that is full at the start or on the way,
# that fails to write or to read, or ends before what was written, is one message and exit 4, and the last checkpoint is
# whole; transfers by halves go on where they stopped. timeout_seconds: 120 cores: 1
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/faults/common.sh
. tests/faults/storage.sh
kept=$scratch/kept.json plain=$scratch/plain.json
plan_with "$plain" null
plan_with "$kept" '{"activations_percent": 100, "storage_activations_percent": 100}'

train "$plain" --steps 4 --save "$scratch/plain" --save-every 2
train "$kept" --steps 4 --save "$scratch/kept" --storage "$disk"
cmp -s "$scratch"/{plain,kept}/step-00000004/rank-00000.bin
verdict 'activations on storage give the bits of those on the device' $?
train_on short 1 "$kept" --steps 4 --save "$scratch/short"
cmp -s "$scratch"/{plain,short}/step-00000004/rank-00000.bin
verdict 'transfers that stop half-way go on from there' $?

# A fault of the third step, or from the first on, from a checkpoint of the second.
begin() { train "$kept" --steps 2 --save "$scratch/full" --storage "$disk"; }
begin
(
    ulimit -f 100
    train "$kept" --steps 4 --save "$scratch/full" --resume latest --storage "$disk"
)
[ $? -eq 4 ] && refused 'storage .*: a file of [0-9]* bytes: File too large'
verdict 'no room for the file' $?
whole "$kept" "$scratch/plain"
verdict 'no room for the file: the last checkpoint is whole' $?

fails() { # name kind words
    train_on "$2" 0 "$kept" --steps 2
    local first=$(($(cat "$scratch/calls") / 2)) # in the middle of two steps
    train_on "$2" "$first" "$kept" --steps 4 --save "$scratch/full" --resume latest
    [ $? -eq 4 ] && refused "storage .*: $3"
    verdict "$1" $?
    whole "$kept" "$scratch/plain"
    verdict "$1: the last checkpoint is whole" $?
}
fails 'a disk that is full on the way' full 'writing [0-9]* bytes at [0-9]*: No space left on device'
fails 'a disk that fails to write' broken 'writing [0-9]* bytes at [0-9]*: Input/output error'
fails 'a disk that fails to read' unreadable 'reading [0-9]* bytes at [0-9]*: Input/output error'
fails 'a file that ends too early' ended 'reading [0-9]* bytes at [0-9]*: No data available'
exit $status
