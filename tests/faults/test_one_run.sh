#!/usr/bin/env bash
# One run, one state; one folder, one writer: ranks that differ are refused before the first step, two runs never write
# in one folder, and when galrun says that it has ended its ranks have. timeout_seconds: 400
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/faults/common.sh
plan=$plans/tp2-dp2.json
save=$scratch/save
options=(--data "$data" --steps 4 --evaluate-batches 1 -q --timeout $timeout_seconds)

# ---- ranks that differ ----

differ() { # name pattern options of ranks 2 and 3...
    local name=$1 pattern=$2 other=$plan
    shift 2
    [ "${1-}" = plan ] && other=$scratch/other.json && shift
    timeout 60 mpirun -q -np 2 "$galrun" "$plan" "${options[@]}" : \
        -np 2 "$galrun" "$other" "${options[@]}" "$@" >"$scratch/out" 2>"$scratch/err"
    code=$?
    [ $code -eq 2 ] && one_error "rank 2: $pattern" && ! grep -q loss "$scratch/out"
    verdict "ranks differ: $name" $?
}

sed 's/"learning_rate": *[0-9.e-]*/"learning_rate": 0.5/' "$plan" >"$scratch/other.json"
sed 's/seven/SEVEN/' "$data" >"$scratch/other-text"
differ 'the plan' 'the plan differs: [0-9a-f]{16} here, [0-9a-f]{16} on rank 0' plan
differ 'the seed' '--seed differs: 7 here, 1 on rank 0' --seed 7
differ 'whether to save' '--save differs: given here, not given on rank 0' --save "$save"
options=(--steps 4 --evaluate-batches 1 -q --timeout $timeout_seconds)
timeout 60 mpirun -q -np 2 "$galrun" "$plan" "${options[@]}" --data "$data" : \
    -np 2 "$galrun" "$plan" "${options[@]}" --data "$scratch/other-text" >"$scratch/out" 2>"$scratch/err"
[ $? -eq 2 ] && one_error 'rank 2: the content of --data differs: '
verdict 'ranks differ: one word of the data' $?
for steps in 1 2; do
    train tp2-dp2 --steps $steps --save "$scratch/at-$steps" >"$scratch/out" 2>"$scratch/err"
done
options=(--data "$data" --steps 4 --evaluate-batches 1 -q --timeout $timeout_seconds)
timeout 60 mpirun -q -np 2 "$galrun" "$plan" "${options[@]}" --resume "$scratch/at-1/step-00000001" : \
    -np 2 "$galrun" "$plan" "${options[@]}" --resume "$scratch/at-2/step-00000002" >"$scratch/out" 2>"$scratch/err"
[ $? -eq 2 ] && one_error "rank 2: the checkpoint's step differs: 2 here, 1 on rank 0"
verdict 'ranks differ: the checkpoint' $?

# ---- one folder ----

train serial --steps 2 --save "$save" >"$scratch/out" 2>"$scratch/err"
train serial --steps 2 --save "$save" --seed 2 >"$scratch/out" 2>"$scratch/err"
[ $? -eq 2 ] && one_error ".* holds checkpoints of an earlier run \(step 2\): .*--resume latest.*--overwrite"
verdict 'checkpoints of an earlier run are not written over' $?
train serial --steps 1 --save "$save" --seed 2 --keep 1 --overwrite >"$scratch/out" 2>"$scratch/err" &&
    [ -f "$save/step-00000002/index.json" ] && [ "$(cat "$save/latest")" = step-00000001 ]
verdict '--overwrite leaves them, and prunes its own alone' $?
sed 's/one/two/' "$data" >"$scratch/same-length"
timeout 60 "$galrun" $plans/serial.json --data "$scratch/same-length" --evaluate-batches 1 -q --steps 2 \
    --resume "$save/step-00000001" >"$scratch/out" 2>"$scratch/err"
[ $? -eq 0 ] && grep -q 'warn: the checkpoint was made with other data: as many training windows, other content' "$scratch/err"
verdict 'other data of the same length are noticed' $?
rm -rf "$save"
train serial --steps 2 --save "$save" --resume latest >"$scratch/out" 2>"$scratch/err" && [ -d "$save/step-00000002" ]
verdict '--resume latest starts anew where there is nothing yet' $?
printf 'x' | dd of="$save/step-00000002/rank-00000.bin" bs=1 seek=100 conv=notrunc 2>"$scratch/err"
train serial --steps 2 --save "$save" --resume latest >"$scratch/out" 2>"$scratch/err"
[ $? -eq 3 ] && one_error '.*rank-00000.bin: the content is damaged'
verdict 'a damaged one without an older one is refused' $?

begin_clock
train serial --steps 90000000 --save "$scratch/file/below" >"$scratch/out" 2>"$scratch/err"
[ $? -eq 4 ] && one_error '.*/file/below: No such file or directory'
verdict 'a folder that cannot be made shows before the first step' $?

rm -rf "$save"
for seed in 1 2; do
    train serial --steps 90000000 --seed $seed --save "$save" --save-every 1 --keep 0 --overwrite \
        --log "$scratch/log-$seed" >"$scratch/out-$seed" 2>"$scratch/err-$seed" &
    runs[seed]=$!
done
wait -n
code=$?
cat "$scratch"/err-? >"$scratch/err"
[ $code -eq 4 ] && one_error '.*/save/owner: another run writes there: process [0-9]+ on '
verdict 'of two runs in one folder the second is refused' $?
pkill -KILL -f "galrun.*$save"
wait
bad=0
for step in "$save"/step-*; do
    train serial --steps 0 --resume "$step" >"$scratch/out" 2>"$scratch/err" || bad=$((bad + 1))
done
[ $bad -eq 0 ] && [ -f "$save/latest" ]
verdict 'and every checkpoint is whole' $?

# ---- the launcher is killed ----

program_of() { pgrep -P "$(pgrep -P "$1")"; }      # run: galrun itself, below the shell's job and timeout
launcher_of() { pgrep -P "$(program_of "$1")" mpirun; } # run: its mpirun

session_files() { find /dev/shm -maxdepth 1 \( -name 'vader*' -o -name 'galrun-*' \) -newer "$scratch/begin" | wc -l; }
touch "$scratch/begin"
for signal in KILL TERM; do
    rm -rf "$save" "$scratch/log"
    train tp2-dp2 --steps 90000000 --save "$save" --save-every 5 --log "$scratch/log" >"$scratch/out" 2>"$scratch/err" &
    run=$!
    started "$scratch/log" '"step": 10,'
    launcher=$(launcher_of $run)
    ranks=$(pgrep -P "$launcher")
    kill -$signal "$launcher"
    wait $run
    code=$?
    alive=0
    for rank in $ranks; do [ -d "/proc/$rank" ] && alive=$((alive + 1)); done
    if [ $signal = KILL ]; then
        [ $code -eq 5 ] && one_error 'mpirun was ended by signal 9'
    else # all ranks save, and nothing is lost
        [ $code -eq 0 ] || [ $code -eq 5 ]
    fi && [ $alive -eq 0 ]
    verdict "mpirun ended by $signal: the ranks have ended too ($alive alive)" $?
    train tp2-dp2 --steps 0 --resume "$save" >"$scratch/out" 2>"$scratch/err"
    verdict "mpirun ended by $signal: the newest checkpoint loads" $?
done
[ "$(session_files)" -eq 0 ]
verdict 'no shared memory is left' $?

bad=''
rm -rf "$save"
for round in 1 2 3 4 5 6; do
    train tp2-dp2 --steps 90000000 --save "$save" --save-every 2 --resume latest --log "$scratch/log-$round" \
        >"$scratch/out" 2>"$scratch/err" &
    run=$!
    started "$scratch/log-$round" '"event": "save"' || bad+=" $round: $(head -n 1 "$scratch/err")"
    if [ $((round % 2)) -eq 0 ]; then
        kill -KILL "$(launcher_of $run)" || bad+=" $round: no launcher"
    else
        kill -KILL "$(program_of $run)" || bad+=" $round: no galrun"
    fi
    wait $run
done
echo "# restarts that failed:$bad"
train tp2-dp2 --steps 0 --resume "$save" >"$scratch/out" 2>"$scratch/err" && [ -z "$bad" ]
verdict 'restarts at once after a kill of mpirun or of galrun' $?
exit $status
