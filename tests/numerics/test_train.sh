#!/usr/bin/env bash
# galrun end to end on a tiny fp64 model: the loss falls, every plan trains as one rank does, a resumed run continues
# bit by bit, signals and dead ranks end it in order, wrong input is refused. timeout_seconds: 240 cores: 1
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/support/mpi_env.sh
galrun=${BUILD:-build}/galrun
plans=tests/numerics/plans
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
status=0
data=$scratch/text
# 40 kB of text with structure: numbers in words, one after the other.
seq 1 6000 | sed 's/1/one /g; s/2/two /g; s/7/seven /g' | head -c 40000 >"$data"

verdict() { # name passed(0)
    if [ "$2" -eq 0 ]; then
        echo "ok $1"
    else
        echo "not ok $1"
        status=1
    fi
}

ranks_of() { # plan
    sed -n 's/^ *"device_count": *\([0-9]*\).*/\1/p' "$1" | head -n 1
}

# Open MPI keeps memory that is not ours to free: under AddressSanitizer leaks are looked for on one rank only.
export ASAN_OPTIONS=detect_leaks=0

run() { # plan arguments...
    local plan=$plans/$1.json ranks leaks=0
    shift
    ranks=$(ranks_of "$plan")
    [ "$ranks" -eq 1 ] && leaks=1
    ASAN_OPTIONS=detect_leaks=$leaks timeout -k 5 60 "$galrun" "$plan" --data "$data" --np "$ranks" \
        --evaluate-batches 3 -q "$@"
}

numbers() { # log: loss and gradient norm of every step, and the validation loss
    sed -n 's/.*"step": \([0-9]*\), "loss": \([^,]*\), "gradient_norm": \([^,]*\),.*/\1 \2 \3/p
            /"event": "evaluation"/s/.*"validation_loss": \([^,]*\),.*/validation \1 0/p' "$1"
}

# ---- every plan trains as one rank does ----

run serial --steps 12 --log "$scratch/serial" >"$scratch/out"
verdict 'serial run' $?
numbers "$scratch/serial" | awk 'NR == 1 { first = $2 } $1 == 12 { exit !($2 < first - 0.5) }'
verdict 'the loss falls by half a nat in 12 steps' $?
grep -q '^validation loss ' "$scratch/out" && grep -q '^seconds per step ' "$scratch/out"
verdict 'the summary has losses and times' $?
for plan in tp2-dp2 zero3-pp2 mixed serial-tied-pp2; do
    run $plan --steps 12 --log "$scratch/$plan" >"$scratch/out"
    # 12 steps of Adam grow rounding errors; a wrong gradient is 10 orders away.
    numbers "$scratch/$plan" | paste -d ' ' - <(numbers "$scratch/serial") | awk '
        function off(a, b) { return (a > b ? a - b : b - a) > 1e-10 * b }
        $1 != $4 || off($2, $5) || off($3, $6) { exit 1 } END { exit NR != 13 }'
    verdict "$plan trains as one rank does" $?
done

# ---- over a slow link: later, and the same ----

for plan in tp2-dp2 zero3-pp2; do
    run $plan --steps 4 --log "$scratch/fast" >"$scratch/out" && run $plan --steps 4 --slow-link 256KiB \
        --log "$scratch/slow" >"$scratch/out" && cmp -s <(numbers "$scratch/fast") <(numbers "$scratch/slow")
    verdict "$plan over slow links computes the same, to the bit" $?
    for log in fast slow; do
        sed -n 's/.*"event": "final".*"seconds_per_step": \([^,]*\),.*/\1/p' "$scratch/$log"
    done | awk 'NR == 1 { fast = $1 } END { exit !(NR == 2 && $1 > 2 * fast) }'
    verdict "$plan over slow links takes more than twice as long" $?
done
"$galrun" "$plans/serial.json" --data "$data" --device cuda --slow-link 1MiB >"$scratch/out" 2>&1
verdict '--slow-link is refused for GPUs' $(($? != 2))

# ---- save and resume ----

for plan in serial mixed zero3-pp2; do
    run $plan --steps 6 --save "$scratch/whole-$plan" >"$scratch/out" &&
        run $plan --steps 3 --save "$scratch/parts-$plan" >"$scratch/out" &&
        run $plan --steps 6 --save "$scratch/parts-$plan" --resume latest >"$scratch/out" &&
        diff -r "$scratch/whole-$plan/step-00000006" "$scratch/parts-$plan/step-00000006" &&
        [ "$(cat "$scratch/parts-$plan/latest")" = step-00000006 ]
    verdict "$plan: 3 and 3 steps give the bits of 6" $?
done
run serial --steps 9 --save "$scratch/every" --save-every 2 --keep 2 >"$scratch/out" &&
    [ "$(cd "$scratch/every" && echo step-*)" = 'step-00000008 step-00000009' ]
verdict 'save-every and keep' $?
run tp2-dp2 --steps 9 --resume "$scratch/whole-mixed" 2>"$scratch/err" >"$scratch/out"
[ $? -eq 3 ] && grep -q 'written under another plan' "$scratch/err"
verdict 'a checkpoint of another plan is refused' $?
run serial --steps 9 --resume "$scratch/whole-serial" --seed 2 2>"$scratch/err" >"$scratch/out"
[ $? -eq 2 ] && grep -q 'was started with --seed 1, this run asks for 2' "$scratch/err"
verdict 'another seed is refused' $?
printf x | dd of="$scratch/whole-mixed/step-00000006/rank-00002.bin" bs=1 seek=77 conv=notrunc 2>"$scratch/err"
run mixed --steps 9 --resume "$scratch/whole-mixed" 2>"$scratch/err" >"$scratch/out"
[ $? -eq 3 ] && grep -q 'rank 2: .*rank-00002.bin: the content is damaged' "$scratch/err"
verdict 'a damaged checkpoint is refused, naming rank and file' $?

# ---- signals and faults ----

started() { # log: waits until the first step is logged, 30 seconds at most
    for _ in $(seq 300); do
        grep -q step "$1" 2>/dev/null && return 0
        sleep 0.1
    done
    return 1
}

for plan in serial mixed; do
    if [ "${SANITIZE:-}" = thread ] && [ $plan != serial ]; then
        echo "skip $plan: SIGTERM: ThreadSanitizer keeps a signal back until waitpid returns"
        continue
    fi
    run $plan --steps 1000000 --save "$scratch/stop-$plan" --log "$scratch/stop" >"$scratch/out" &
    waited=$!
    started "$scratch/stop"
    # `run` is a shell with timeout below it: timeout passes the signal on to galrun.
    pkill -TERM -P $waited timeout 2>/dev/null || kill -TERM $waited
    wait $waited
    [ $? -eq 0 ] && [ -f "$scratch/stop-$plan/latest" ] && grep -q interrupted "$scratch/out"
    verdict "$plan: SIGTERM ends after a step, saves, exits 0" $?
    rm -f "$scratch/stop"
done

run mixed --steps 1000000 --log "$scratch/killed" >"$scratch/out" 2>"$scratch/err" &
waited=$!
started "$scratch/killed"
victim=$(pgrep -f "galrun .*--log $scratch/killed" | tail -n 1)
begin=$SECONDS
kill -KILL "$victim"
wait $waited
[ $? -eq 5 ] && [ $((SECONDS - begin)) -le 20 ] && grep -q 'ended by signal 9' "$scratch/err"
verdict 'a killed rank ends all within seconds, exit 5' $?

sed 's/"learning_rate": 0.01/"learning_rate": 1000/; s/"gradient_clip_norm": 1/"gradient_clip_norm": 0/' \
    $plans/tp2-dp2.json >"$scratch/diverging.json"
timeout 60 "$galrun" "$scratch/diverging.json" --data "$data" --np 4 --steps 200 -q >"$scratch/out" 2>"$scratch/err"
[ $? -eq 5 ] && grep -q 'step [0-9]*: the loss is .* diverged' "$scratch/err"
verdict 'a loss that is not finite stops the run, exit 5' $?

"$galrun" $plans/mixed.json --data "$data" 2>"$scratch/err"
[ $? -eq 2 ] && grep -q 'is for 4 ranks: type --np 4' "$scratch/err"
verdict 'without --np the message says what to type' $?
timeout 60 mpirun -np 2 "$galrun" $plans/mixed.json --data "$data" 2>"$scratch/err" >"$scratch/out"
[ $? -eq 2 ] && grep -q 'is for 4 ranks, this run has 2' "$scratch/err"
verdict 'a world of another size is refused' $?
run mixed --steps 1 --validation /nonexistent 2>"$scratch/err" >"$scratch/out"
[ $? -eq 4 ] && [ "$(grep -c 'galrun: error: rank 0: /nonexistent: No such file' "$scratch/err")" -eq 1 ]
verdict 'an error of all ranks is told once' $?
"$galrun" $plans/mixed.json --data "$data" --dry-run >"$scratch/out" &&
    grep -q 'stage 0: 4 devices, blocks 0..5, arena .* MiB' "$scratch/out"
verdict 'dry run needs no ranks' $?
exit $status
