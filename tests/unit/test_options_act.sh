#!/usr/bin/env bash
# test_options_act.sh BUILD: options do what the help says: those that no other test looks at closely; the examples in
# --help run; every option is given in some test. timeout_seconds: 300
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/support/mpi_env.sh
build=$(cd "${1:-build}" && pwd)
root=$PWD
valid=$root/tests/fixtures/valid
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
PATH=$build:$PATH
export ASAN_OPTIONS=detect_leaks=0 # Open MPI keeps memory that is not ours to free
status=0

verdict() { # what: by the status of the command before
    if [ $? -eq 0 ]; then echo "ok $1"; else
        echo "not ok $1"
        status=1
    fi
}

refuses() { # words command...: usage error that says the words, and where help is
    local words=$1
    shift
    "$@" >out 2>err
    [ $? -eq 2 ] && [ ! -s out ] && grep -q -- "$words" err && [ "$(tail -n 1 err)" = "try 'galplan $2 --help'" ]
}

cd "$scratch" || exit 1
search=(galplan search --model "$valid/model.json" --cluster h100-8)

# ---- search ----

"${search[@]}" --devices 2 --pp 2 --microbatches 4 -o plan.json >plan.txt
grep -q '"schedule": "1f1b"' plan.json && grep -q '"prefetch_depth": 2' plan.json && ! grep -q searched plan.txt
verdict 'search: 1f1b and two buffers without options'
"${search[@]}" --devices 2 --pp 2 --microbatches 4 --schedule gpipe --prefetch 1 --timing --output other.json >other.txt
grep -q '"schedule": "gpipe"' other.json && grep -q '"prefetch_depth": 1' other.json &&
    grep -q '^searched 1 cells\(, [0-9]* labels\)* in [0-9.]* ms$' other.txt
verdict 'search --schedule --prefetch --timing --output'
"${search[@]}" --devices 2 --batch 4:16 --microbatches max:2 --pp 1 --json >batches.json
grep -q '"cell_count": 6,' batches.json # batches 4, 8, 16 times microbatches 1, 2
verdict 'search --batch --microbatches: ranges'
"${search[@]}" --devices 4 --pp 1,2 --microbatches 4 --top 2 | grep -A 2 'batch  microbatches  pp' >top.txt
[ "$(tail -n +2 top.txt | awk '{ print $3 }' | sort | paste -sd' ')" = '1 2' ]
verdict 'search --pp --top: one row for each cell'
hard=(galplan search --model gpt2-small --cluster h100-8 --devices 4 --batch 32 --microbatches 8 --pp 2 --memory 4GiB)
"${hard[@]}" --gap 0 --timing | grep -q '^searched 1 cells, [1-9][0-9]* labels in [0-9.]* ms$'
verdict 'search --timing: labels, where some were needed'
"${hard[@]}" --json --gap 0 >proven.json && "${hard[@]}" --json --gap 0 --label-limit 1 >unproven.json
grep -q '"unproven_cell_count": 0' proven.json && grep -q '"unproven_cell_count": 1' unproven.json
verdict 'search --label-limit: one label does not prove'
"${hard[@]}" --json --gap 20 >rough.json && grep -q '"unproven_cell_count": 1' rough.json &&
    grep -q '"optimality_gap": 0,' proven.json && ! grep -q '"optimality_gap": 0,' rough.json
verdict 'search --gap: a rough plan will do'
wide=(galplan search --json --batch 64
    --space dp,sdp,tp,sp,recompute,selective,ulysses,ring,zigzag,2d,2.5d,3d,keep,stepped,overlap)
for on in 'gpt2-small h100-8' 'vit-huge-32 a100-64'; do # cells one by one; some at the same time
    one=("${wide[@]}" --model "${on% *}" --cluster "${on#* }")
    "${one[@]}" --jobs 1 -o one.json >one.txt && "${one[@]}" -j 3 -o three.json >three.txt &&
        cmp one.json three.json && cmp one.txt three.txt && refuses --jobs "${one[@]}" --jobs 0
    verdict "search --jobs: the same plan, $on"
done
galplan search --model "$valid/model.json" --profile "$valid/profile.json" -o profiled.json >/dev/null &&
    grep -q '"profile_hash": "[0-9a-f]\{16\}"' profiled.json && grep -q '"profile_hash": ""' plan.json
verdict 'search --profile: the plan names the profile'
measured=$valid/profile_host.json
on_host=(galplan search --model "$valid/model.json" --profile "$measured")
"${on_host[@]}" --threads 2 -o threads.json >/dev/null && refuses 'ran on 2 threads per rank' "${on_host[@]}" --threads 3 &&
    refuses 'has no rates by threads' galplan search --model "$valid/model.json" --profile "$valid/profile.json" --threads 2
verdict 'search --threads: those that the profile knows'
galplan simulate threads.json --profile "$measured" --threads 2 >/dev/null &&
    refuses 'needs the --profile' galplan simulate threads.json --threads 2
verdict 'simulate --threads'
galplan verify threads.json --profile "$measured" --threads 2 >/dev/null &&
    refuses 'needs the --profile' galplan verify threads.json --threads 2
verdict 'verify --threads'
refuses 'plans have one strategy' "${search[@]}" --devices 2 --space zero3,chunk --schedule zero-bubble &&
    refuses 'without --pareto' "${search[@]}" --devices 2 --space zero3,chunk --pareto
verdict 'search --space chunk: where sizes can be chosen'
tight=(galplan search --model gpt2-small --cluster h100-8 --devices 1 --batch 4 --microbatches 1 --memory 1700MiB
    --space dp,recompute,offload)
"${tight[@]}" | grep -q 'host memory  *[0-9.]* [GM]B a device$' && ! "${tight[@]}" --host-memory 1000MiB >/dev/null 2>&1
verdict 'search --host-memory: what must lie there does not fit'
six=("${search[@]}" --devices 6 --batch 12 --microbatches 1 --json)
"${six[@]}" >all.json
"${six[@]}" --takeaways 2 --pp 1,2,3,6 >halved.json 2>none.err # stages of 6 and 3: no degree fills them
grep -q '"cell_count": 4,' all.json && grep -q '"cell_count": 2,' halved.json
verdict 'search --takeaways: 2 leaves degrees that are powers of two'
differing=(galplan search --model "$root/tests/golden/search_compare/files/model.json" --memory 60540KiB
    --cluster "$root/tests/golden/search_compare/files/cluster.json")
"${differing[@]}" --algorithm ilp --json >finished.json
"${differing[@]}" --algorithm ilp --json --time-limit 0.001 >late.json 2>late.err
grep -q '"unproven_cell_count": 0,' finished.json && ! grep -q '"unproven_cell_count": 0,' late.json
verdict 'search --algorithm ilp --time-limit: a thousandth of a second does not finish'
"${differing[@]}" --compare --json >compared.json && ! grep -q search_seconds compared.json &&
    [ "$("${differing[@]}" --compare --json --timing | grep -c search_seconds)" -eq "$(grep -c '"algorithm"' compared.json)" ]
verdict 'search --compare --json --timing: a time for each algorithm'

# ---- solve ----

solve=(galplan solve "$valid/problem.json")
"${solve[@]}" --compare >compared.txt && [ "$(grep -c 's, gap' compared.txt)" -ge 3 ] && ! grep -q ' ms$' compared.txt &&
    [ "$("${solve[@]}" --compare --timing | grep -c 'found in [0-9.]* ms$')" -eq "$(grep -c 's, gap' compared.txt)" ]
verdict 'solve --compare --timing: a line for each algorithm'
value() { "${solve[@]}" --algorithm galvatron-base --memory-unit "$1" | awk '/^galvatron-base/ { print $2 }'; }
awk -v coarse="$(value 8GiB)" -v fine="$(value 16MiB)" 'BEGIN { exit !(fine > 0 && coarse > fine) }'
verdict 'solve --algorithm --memory-unit: of too coarse a step only the least bytes are left, and that is slower'
"${solve[@]}" --json >proven.json && "${solve[@]}" --json --label-limit 1 >unproven.json
grep -q '"optimality_gap": 0,' proven.json && ! grep -q '"optimality_gap": 0,' unproven.json
verdict 'solve --label-limit --json: one label does not prove'
"${solve[@]}" --algorithm ilp --time-limit 0.001 --json >late.json 2>late.err
{ [ $? -eq 1 ] || ! grep -q '"optimality_gap": 0,' late.json; } && "${solve[@]}" --algorithm ilp | grep -q '^ilp *1.205 s'
verdict 'solve --time-limit: a thousandth of a second does not prove'

# ---- simulate, lower, verify, check, lists ----

galplan simulate plan.json --json --trace trace.json >simulated.json &&
    [ "$(grep -c '"ph": "X"' trace.json)" -gt 20 ] &&
    awk '/"simulated_seconds"/ { seconds[FILENAME] = $2 + 0 } # with a trace kernels are added one by one: rounded otherwise
        END { a = seconds["simulated.json"]; b = seconds["plan.json"]; exit !(a > 0 && (a - b) ^ 2 < (1e-12 * b) ^ 2) }' \
        simulated.json plan.json
verdict 'simulate --json --trace: the seconds of the plan, and events'
galplan simulate profiled.json --profile "$valid/profile.json" --json | grep -q '"durations": "profile"' &&
    grep -q '"durations": "analytic"' simulated.json
verdict 'simulate --profile'
galplan lower plan.json >both.txt && galplan lower plan.json --stage 0 >first.txt && galplan lower plan.json --stage 1 >second.txt &&
    { cat first.txt && echo && cat second.txt; } | cmp -s - both.txt && ! cmp -s first.txt second.txt
verdict 'lower --stage'
galplan lower plan.json --rank 1 | cmp -s - second.txt
verdict 'lower --rank: the second of two ranks is the second stage'
refuses 'give either --stage or --rank' galplan lower plan.json --stage 0 --rank 0 &&
    refuses 'the plan has 2 stages' galplan lower plan.json --stage 2 &&
    refuses 'the plan has 2 ranks' galplan lower plan.json --rank 2
verdict 'lower: stages and ranks that are not there'
galplan verify plan.json --json >verified.json && head -n 2 verified.json | grep -q '"ok": true' &&
    [ "$(grep -c '"check": ' verified.json)" -eq "$(galplan verify plan.json | grep -c ' ok: ')" ]
verdict 'verify --json: a verdict for each line'
galplan verify plan.json --no-bound >verified.txt && ! grep -q '^bound' verified.txt && galplan verify plan.json | grep -q '^bound'
verdict 'verify --no-bound: no line of it'
sed 's/"predicted_bytes": [0-9]*/"predicted_bytes": 7/' plan.json >wrong.json
galplan verify wrong.json --json >refused.json
[ $? -eq 1 ] && head -n 2 refused.json | grep -q '"ok": false' && grep -q 'the plan predicts 7 bytes' refused.json
verdict 'verify --json: bytes that are not the program'\''s are refused'
for list in models clusters; do
    # Headings of groups and of columns aside, a row begins with the name.
    listed=$(galplan $list | sed -n 's/^\([^ :][^ :]*\) .*/\1/p' | grep -v '^\(Models\|Clusters\|Samples\)$')
    [ -n "$listed" ] && [ "$listed" = "$(galplan $list --json | sed -n 's/.*"name": "\(.*\)",/\1/p')" ] &&
        for name in $listed; do galplan $list "$name" | galplan check - || exit 1; done >/dev/null
    verdict "$list: every name is a good document"
done
refuses "no model 'gpt9' ships with galplan" galplan models gpt9
verdict 'models: unknown name'

# ---- a full disk ----

full=''
for command in 'models' 'clusters a100-8' 'doctor' 'simulate plan.json' 'lower plan.json' 'verify plan.json' 'check plan.json' \
    'search --help' "${search[*]:1} --devices 1"; do
    galplan $command >/dev/full 2>err
    [ $? -eq 4 ] && grep -q '^galplan: error: cannot write to stdout' err || full="$full [$command]"
done
[ -z "$full" ] || echo "unnoticed:$full"
[ -z "$full" ]
verdict 'what cannot be written to stdout is an error'

# ---- galrun ----

if [ -x "$build/galrun" ]; then
    "${search[@]}" --devices 1 -o one.json >/dev/null
    train=(galrun one.json --data "$root/README.md" --steps 3 --evaluate-batches 1)
    "${train[@]}" --log a.jsonl >/dev/null 2>a.err && "${train[@]}" --evaluate-every 1 --log b.jsonl >/dev/null 2>b.err &&
        [ "$(grep -c '"event": "evaluation"' a.jsonl)" -eq 1 ] &&
        [ "$(grep -c '"event": "evaluation"' b.jsonl)" -eq 3 ]
    verdict 'galrun --evaluate-every'
    "${train[@]}" -q >/dev/null 2>quiet.err && "${train[@]}" --threads 2 --verbose >/dev/null 2>verbose.err &&
        [ ! -s quiet.err ] && [ -s a.err ] && ! grep -q '^detail: ' a.err &&
        grep -q '^detail: .*, 2 threads per rank$' verbose.err
    verdict 'galrun --quiet --verbose --threads'
else
    echo 'skip galrun options: galrun was left out of this build'
fi

# ---- help ----

for command in models clusters search; do
    galplan $command --help | sed -n '/^Examples:/,/^$/s/^  //p' >examples
    [ -s examples ] && bash -e examples >said 2>&1 || { cat said; false; }
    verdict "$command --help: the examples run"
done

# Every option of every command is given in a test, beside those that only look at what help lists.
given=$(cd "$root" && grep -rhoE -- '--[a-z][a-z0-9-]+|(^|[ (])-[a-z]( |$)' tests/unit/*.sh tests/unit/*.py tests/golden/*/cmd \
    tests/numerics/*.sh tests/numerics/*.py tests/faults/*.sh tests/hosts/*.sh | tr -d ' (' | sort -u)
missing=''
for command in $(galplan --help | sed -n 's/^  \([a-z]*\)  .*/\1/p') galrun; do
    help=(galplan "$command" --help)
    [ "$command" = galrun ] && help=(galrun --help)
    for option in $("${help[@]}" 2>/dev/null | sed -n 's/^  \(-[a-z], \|    \)\(--[a-z0-9-]*\).*/\2/p'); do
        grep -qx -e "$option" <<<"$given" || missing="$missing $command:$option"
    done
done
[ -z "$missing" ] || echo "in no test:$missing"
[ -z "$missing" ]
verdict 'every option is given in some test'
exit $status
