#!/usr/bin/env bash
# A save that is killed at each call by which it changes files, or finds the disk full there (of four ranks: a sample): `latest` names a whole
# checkpoint, the previous or the new one, bit by bit that of an undisturbed run, and it loads. timeout_seconds: 420 cores: 1
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/faults/common.sh
interposer=$(preloaded libfault_count.so)
export ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0
[ -f "$interposer" ] || { echo 'no MPI: the interposer is not built'; exit 77; }
save=$scratch/save

faulty() { # kind call rank plan arguments...
    local kind=$1 at=$2 rank=$3
    shift 3
    [ -n "$rank" ] && export GALPLAN_FAULT_RANK=$rank
    LD_PRELOAD=$interposer GALPLAN_FAULT_FOLDER=$save GALPLAN_FAULT_KIND=$kind GALPLAN_FAULT_AT=$at \
        GALPLAN_FAULT_FILE=$scratch/calls train "$@" --save "$save" >"$scratch/out" 2>"$scratch/err"
    local code=$?
    unset GALPLAN_FAULT_RANK
    return $code
}

restore() { # from
    rm -rf "$save"
    cp -r "$1" "$save"
}

# `latest` names one of the given directories' checkpoints, not before the last that was logged, and it loads.
whole() { # plan log reference...
    local plan=$1 log=$2 name said reference same=1
    shift 2
    name=$(cat "$save/latest") || return 1
    said=$(sed -n 's/.*"event": "save", "step": \([0-9]*\).*/\1/p' "$log" 2>/dev/null | tail -n 1)
    [ "$((10#${name#step-}))" -ge "${said:-0}" ] || return 1
    for reference in "$@"; do
        diff -rq "$save/$name" "$reference/$name" >/dev/null 2>&1 && same=0
    done
    [ $same -eq 0 ] && train "$plan" --steps 0 --resume "$save" >"$scratch/out" 2>"$scratch/err"
}

sweep() { # name kind stride rank plan from references arguments...: a fault at every stride-th call
    local name=$1 kind=$2 stride=$3 rank=$4 plan=$5 from=$6 references=$7 calls at code bad='' said=0
    shift 7
    restore "$from"
    faulty "$kind" 0 "$rank" "$plan" "$@" || bad='no fault'
    calls=$(cat "$scratch/calls")
    for at in $(seq 1 "$stride" "$calls"); do
        restore "$from"
        rm -f "$scratch/log"
        faulty "$kind" "$at" "$rank" "$plan" "$@" --log "$scratch/log"
        code=$?
        if [ "$kind" = full ]; then
            # What only gives room back may come last: then nothing is refused.
            { [ $code -eq 4 ] && one_error '.*No space left on device'; } || [ $code -eq 0 ] || bad+=" $at:$code"
            [ $code -eq 4 ] && said=$((said + 1))
        else
            [ $code -eq 137 ] || [ $code -eq 5 ] || bad+=" $at:$code"
        fi
        # shellcheck disable=SC2086 # several references
        whole "$plan" "$scratch/log" $references || bad+=" $at:lost"
    done
    echo "# $name: $calls calls, $said full; bad:$bad"
    points=$((points + (calls + stride - 1) / stride))
    [ -z "$bad" ] && [ "$calls" -gt 0 ]
    verdict "$name" $?
}

for plan in serial mixed; do
    train $plan --steps 1 --save "$scratch/$plan-1" >"$scratch/out" 2>"$scratch/err" &&
        train $plan --steps 4 --save "$scratch/$plan-all" --save-every 1 --keep 0 >"$scratch/out" 2>"$scratch/err" &&
        train $plan --steps 1 --seed 2 --save "$scratch/$plan-other" >"$scratch/out" 2>"$scratch/err"
    verdict "$plan: the undisturbed runs" $?
done
points=0
all=$scratch/serial-all
sweep 'killed: three saves, the oldest removed' kill 1 '' serial "$scratch/serial-1" "$all" \
    --steps 4 --save-every 1 --keep 1 --resume latest
sweep 'killed: a step saved again' kill 1 '' serial "$scratch/serial-1" "$all $scratch/serial-other" --steps 1 --seed 2 --overwrite
for rank in 0 2; do
    sweep "killed: rank $rank of four" kill 9 $rank mixed "$scratch/mixed-1" "$scratch/mixed-all" \
        --steps 2 --keep 1 --resume latest
done
[ $points -ge 200 ]
verdict "at least 200 points ($points)" $?
sweep 'full disk: a save and a removal' full 3 '' serial "$scratch/serial-1" "$all" --steps 2 --keep 1 --resume latest
sweep 'full disk: rank 2 of four' full 29 2 mixed "$scratch/mixed-1" "$scratch/mixed-all" --steps 2 --keep 1 --resume latest
exit $status
