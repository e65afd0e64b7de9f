#!/usr/bin/env bash
# host.sh [BUILD]: profiles this machine once for each number of ranks, then predicts and runs 100 plans in 10 groups of equal
# model, batch and ranks: 30 on one rank, 70 on two; 10 plans on 4 ranks are reported apart. Every plan runs in ROUNDS rounds
# over all plans, the least median of a step is its measured time: a shared machine is slower at times, and what else runs on
# it only ever adds; the profiler does the same. SEED chooses the plans, STEPS the steps of each run, BUDGET the seconds of
# each profile, GROUPS_OF_ONE and GROUPS_OF_TWO how many groups of 10 there are. The report has Galvatron-BMW's Figure 7 too:
# the error where predictions leave out how computation and communication slow each other. Exit 1 if the bounds are missed.
set -eu
build=${1:-build}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
seed=${SEED:-1} steps=${STEPS:-8} rounds=${ROUNDS:-5} budget=${BUDGET:-90}
ones=${GROUPS_OF_ONE:-3} twos=${GROUPS_OF_TWO:-7}
cores=$(nproc)
folder=${FOLDER:-$(mktemp -d)}
host=$build/tests/accuracy/host
[ -n "${FOLDER:-}" ] || trap 'rm -rf "$folder"' EXIT

# Text to train on: the sources of this repository.
find "$root/schemas" "$root/runtime" -name '*.[ch]' -print | LC_ALL=C sort | xargs cat > "$folder/text"

measure() { # plan ranks: median seconds of a step, and in how many stages the arena is not the predicted one
    local launch=()
    [ "$2" -gt 1 ] && launch=(--np "$2")
    "$build/galrun" "$1" --data "$folder/text" --steps "$steps" --evaluate-batches 1 --log "$folder/log" \
        "${launch[@]}" >"$folder/out" 2>/dev/null
    sed -n 's/.*"final".*"seconds_per_step": *\([0-9.e+-]*\).*/\1/p' "$folder/log" | tr '\n' ' '
    awk '/of it arena/ { if ($4 != $5 || $4 == 0) wrong++; stages++ } END { print (stages > 0 ? wrong + 0 : "none") }' "$folder/out"
}

# begin RANKS FIRST COUNT: plans of so many groups, and the profile of their models
begin() {
    local into=$folder/$1 models=()
    mkdir -p "$into"
    "$host" plans "$seed" "$1" "$into" "$2" "$3" > "$into/list"
    for model in "$into"/model*.json; do models+=("$model"); done
    "$build/galplan-profile" --model "${models[@]}" --np "$1" --budget-seconds "$budget" -o "$into/profile.json"
    : > "$into/measured"
}

run_once() { # RANKS: every plan once
    local group name
    while read -r group name; do
        echo "$name $(measure "$folder/$1/$name.json" "$1")" >> "$folder/$1/measured"
        if [ -t 2 ]; then
            printf '\r%s ranks %s ' "$1" "$name" >&2
        fi
    done < "$folder/$1/list"
}

finish() { # RANKS: "group name predicted without measured wrong" per plan
    local group name
    while read -r group name; do
        echo "$group $name $("$host" predict "$folder/$1/profile.json" "$folder/$1/$name.json")" \
            "$(grep "^$name " "$folder/$1/measured" | cut -d' ' -f2 | sort -g | head -1)" \
            "$(grep "^$name " "$folder/$1/measured" | cut -d' ' -f3 | sort | tail -1)"
    done < "$folder/$1/list"
}

echo "seed $seed, $cores cores, load $(cut -d' ' -f1 /proc/loadavg)"
ranks=()
if [ "$ones" -gt 0 ]; then ranks+=(1) && begin 1 0 "$ones"; fi
if [ "$cores" -gt 1 ] && [ "$twos" -gt 0 ]; then ranks+=(2) && begin 2 "$ones" "$twos"; fi
for round in $(seq "$rounds"); do
    for count in "${ranks[@]}"; do run_once "$count"; done
done
if [ -z "${ONLY_FEW:-}" ]; then
    begin 4 0 1
    for round in $(seq "$rounds"); do run_once 4; done
    finish 4 | "$host" report "4 ranks on $cores cores"
fi
for count in "${ranks[@]}"; do finish "$count"; done > "$folder/lines"
echo "load $(cut -d' ' -f1 /proc/loadavg) at the end"
{ # Figure 7 again, by galplan: what every step took
    echo plan,profile,seconds
    for count in "${ranks[@]}"; do
        while read -r _ name; do
            grep "^$name " "$folder/$count/measured" | sort -g -k 2 | head -1 |
                awk -v at="$folder/$count" '{ print at "/" $1 ".json," at "/profile.json," $2 }'
        done < "$folder/$count/list"
    done
} > "$folder/measured.csv"
"$build/galplan" reproduce galvatron --figure 7 "$folder/measured.csv" | tail -1
"$host" report "${ranks[*]} ranks on $cores cores" bounds < "$folder/lines"
