#!/usr/bin/env bash
# Damaged files and wrong surroundings: a shard that is short or has one bit flipped, an index that is cut, a token file
# that shrinks in mid-run, a plan for other devices. One line each, the documented exit code, and the last good
# checkpoint loads. timeout_seconds: 240 cores: 1
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/faults/common.sh
measure_overhead

good=$scratch/good
train mixed --steps 2 --save "$good" >"$scratch/out" 2>"$scratch/err" &&
    train mixed --steps 4 --save "$good" --resume latest >"$scratch/out" 2>"$scratch/err"
verdict 'two checkpoints' $?

if ! python3 -c "import jsonschema" 2>/dev/null; then
    echo 'skip the index agrees with its schema: no python3-jsonschema'
else
    python3 -c '
import json, jsonschema, sys
jsonschema.validate(json.load(open(sys.argv[1])), json.load(open(sys.argv[2])))' \
        "$good/step-00000004/index.json" schemas/checkpoint.schema.json 2>"$scratch/err"
    verdict 'the index agrees with its schema' $?
fi

damaged() { # name code pattern: resumes from the damaged copy, then from the checkpoint before
    train mixed --steps 5 --resume "$scratch/bad/step-00000004" >"$scratch/out" 2>"$scratch/err"
    [ $? -eq "$2" ] && one_error "$3"
    verdict "$1: refused" $?
    train mixed --steps 5 --resume "$scratch/bad/step-00000002" >"$scratch/out" 2>"$scratch/err"
    verdict "$1: the one before loads" $?
}

copy() {
    rm -rf "$scratch/bad"
    cp -r "$good" "$scratch/bad"
}

flip() { # file offset bit
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    printf "\\x$(printf %x $((byte ^ (1 << $3))))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

last=$good/step-00000004
for rank in 0 3; do
    shard=rank-0000$rank.bin
    bytes=$(stat -c %s "$last/$shard")
    copy
    truncate -s $((bytes - 1)) "$scratch/bad/step-00000004/$shard"
    damaged "rank $rank: one byte short" 3 "rank $rank: .*$shard: the file ends at byte $((bytes - 1))"
    copy
    flip "$scratch/bad/step-00000004/$shard" $((bytes / 2)) 0
    damaged "rank $rank: one bit flipped" 3 "rank $rank: .*$shard: the content is damaged: checksum [0-9a-f]{16}, the index says [0-9a-f]{16}"
done
copy
printf x >>"$scratch/bad/step-00000004/rank-00001.bin"
damaged 'one byte more' 3 'rank 1: .*rank-00001.bin: the file goes on after byte [0-9]+'
copy
truncate -s 100 "$scratch/bad/step-00000004/index.json"
damaged 'a cut index' 3 'rank 0: .*index.json:'
copy
rm "$scratch/bad/step-00000004/rank-00002.bin"
damaged 'a missing shard' 4 'rank 2: .*rank-00002.bin: No such file'

# ---- data ----

for kind in text tokens; do
    cp "$data" "$scratch/shrinking-$kind"
done
# Token file: magic, version, count, then words below 256.
python3 -c '
import struct, sys
text = open(sys.argv[1], "rb").read()
head = struct.pack("<3i", 20240520, 1, len(text)) + bytes(1024 - 12)
open(sys.argv[2], "wb").write(head + b"".join(struct.pack("<H", b) for b in text))' "$data" "$scratch/shrinking-tokens"
for kind in text tokens; do
    log=$scratch/log-$kind
    timeout -k 5 100 "$galrun" $plans/mixed.json --np 4 --timeout $timeout_seconds -q --data "$scratch/shrinking-$kind" \
        --steps 1000000 --save "$scratch/shrunk-$kind" --save-every 1 --log "$log" >"$scratch/out" 2>"$scratch/err" &
    waited=$!
    started "$log" '"event": "save"'
    truncate -s 1500 "$scratch/shrinking-$kind"
    begin_clock
    wait $waited
    code=$?
    stop_clock
    [ $code -eq 4 ] && in_time &&
        one_error "rank [0-3]: .*/shrinking-$kind: the file had [0-9]+ bytes when it was opened, byte [0-9]+ is gone"
    verdict "$kind that shrink" $?
    train mixed --steps 3 --save "$scratch/shrunk-$kind" --resume latest >"$scratch/out" 2>"$scratch/err"
    verdict "$kind that shrink: the last checkpoint loads" $?
done

# ---- devices ----

timeout 60 "$galrun" $plans/mixed.json --data "$data" --np 2 >"$scratch/out" 2>"$scratch/err"
[ $? -eq 2 ] && one_error '.*mixed.json is for 4 ranks, --np says 2: type --np 4'
verdict 'a plan for other devices: --np' $?
timeout 60 mpirun -q -np 2 "$galrun" $plans/mixed.json --data "$data" >"$scratch/out" 2>"$scratch/err"
[ $? -eq 2 ] && one_error '.*mixed.json is for 4 ranks, this run has 2'
verdict 'a plan for other devices: mpirun' $?
exit $status
