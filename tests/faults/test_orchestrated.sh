#!/usr/bin/env bash
# galrun as an orchestrator without MPI starts it: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT. What can be seen without a
# GPU: the ranks find each other, agree on what is missing, say it once, and end with one code; and what is wrong with
# the environment. test_orchestrated.sh [BUILD]: the folder that make wrote to (default build). cores: 1
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 4
build=${1:-build}
scratch=$(mktemp -d) || exit 4
trap 'rm -rf "$scratch"' EXIT
[ -x "$build/galrun" ] || { echo 'galrun was left out of this build'; exit 77; }
failed=0
two=tests/numerics/plans/serial-tied-pp2.json

# verdict NAME: by the status of the command before.
verdict() {
    if [ $? -eq 0 ]; then echo "ok $1"; else echo "not ok $1" && cat "$scratch"/err* && failed=1; fi
}

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'
}

# rank R WORLD PORT ARGUMENT...: in the background; its stderr goes to err.R, its code to code.R.
rank() {
    local r=$1 world=$2 port=$3
    shift 3
    (
        RANK=$r WORLD_SIZE=$world MASTER_ADDR=127.0.0.1 MASTER_PORT=$port LOCAL_RANK=$r LOCAL_WORLD_SIZE=$world \
            timeout 60 "$build/galrun" "$two" --data README.md --device cuda "$@" >/dev/null 2>"$scratch/err.$r"
        echo $? >"$scratch/code.$r"
    ) &
}

# said CODE TEXT: both ranks ended with the code, and one line in all was said, which holds the text.
said() {
    [ "$(cat "$scratch"/code.0 "$scratch"/code.1 | sort -u)" = "$1" ] && [ "$(cat "$scratch"/err.* | wc -l)" -eq 1 ] &&
        grep -q "^galrun: error: .*$2" "$scratch"/err.*
}

port=$(free_port)
rank 0 3 "$port"
rank 1 3 "$port"
wait
said 2 'is for 2 ranks, the environment.s WORLD_SIZE is 3'
verdict 'another number of ranks than the plan has'

rm -f "$scratch"/*
rank 1 2 "$(free_port)" --timeout 1
wait
[ "$(cat "$scratch/code.1")" = 5 ] && grep -q 'rank 1 cannot reach rank 0 at 127.0.0.1' "$scratch/err.1"
verdict 'rank 0 does not come'

RANK=0 WORLD_SIZE=2 "$build/galrun" "$two" --data README.md --device cuda >/dev/null 2>"$scratch/err.0"
[ $? -eq 2 ] && grep -q 'the environment lacks MASTER_ADDR' "$scratch/err.0"
verdict 'half of the environment'

RANK=0 WORLD_SIZE=2 "$build/galrun" "$two" --data README.md >/dev/null 2>"$scratch/err.0"
[ $? -eq 2 ] && grep -q 'type --np 2' "$scratch/err.0"
verdict 'the host does not look at it'

if [ -e /dev/nvidiactl ]; then
    echo 'skip no GPU: there is one'
    exit $failed
fi
rm -f "$scratch"/*
port=$(free_port)
rank 0 2 "$port"
rank 1 2 "$port"
wait
said 5 'no CUDA driver (libcuda.so.1)\|built without CUDA'
verdict 'two ranks without a GPU say it once'
exit $failed
