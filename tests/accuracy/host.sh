#!/usr/bin/env bash
# host.sh [BUILD]: profiles this machine once, then predicts and runs 40 plans in 4 groups of equal model and batch, over as
# many ranks as there are cores (at most 4); plans over twice as many ranks as cores are reported apart. Every plan runs in
# ROUNDS rounds over all plans, the least median of a step is its measured time: a shared machine is slower at times, and
# what else runs on it only ever adds; the profiler does the same. SEED chooses the plans, STEPS the steps of each run,
# BUDGET the seconds of each profile. Exit 1 if the bounds are missed.
set -eu
build=${1:-build}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
seed=${SEED:-1} steps=${STEPS:-8} rounds=${ROUNDS:-3} budget=${BUDGET:-90}
cores=$(nproc)
ranks=4
while [ "$ranks" -gt "$cores" ]; do ranks=$((ranks / 2)); done
folder=${FOLDER:-$(mktemp -d)}
host=$build/tests/accuracy/host
[ -n "${FOLDER:-}" ] || trap 'rm -rf "$folder"' EXIT

# Text to train on: the sources of this repository.
find "$root/schemas" "$root/runtime" -name '*.[ch]' -print | LC_ALL=C sort | xargs cat > "$folder/text"

measure() { # plan ranks: median seconds of a step
    local launch=()
    [ "$2" -gt 1 ] && launch=(--np "$2")
    "$build/galrun" "$1" --data "$folder/text" --steps "$steps" --evaluate-batches 1 -q --log "$folder/log" \
        "${launch[@]}" >/dev/null
    sed -n 's/.*"final".*"seconds_per_step": *\([0-9.e+-]*\).*/\1/p' "$folder/log"
}

# run_plans RANKS FOLDER PROFILE LIST: one line per plan into FOLDER/lines
run_plans() {
    local group name round
    : > "$2/seconds"
    for round in $(seq "$rounds"); do
        while read -r group name; do
            echo "$name $(measure "$2/$name.json" "$1")" >> "$2/seconds"
            [ -t 2 ] && printf '\rround %s %s ' "$round" "$name" >&2
        done < "$4"
    done
    [ -t 2 ] && printf '\r' >&2 || true
    while read -r group name; do
        echo "$group $name $("$host" predict "$3" "$2/$name.json")" \
            "$(grep "^$name " "$2/seconds" | cut -d' ' -f2 | sort -g | head -1)"
    done < "$4" > "$2/lines"
}

echo "seed $seed, $cores cores, load $(cut -d' ' -f1 /proc/loadavg)"
mkdir -p "$folder/a" "$folder/b"
"$host" plans "$seed" "$ranks" "$folder/a" > "$folder/a/list"
"$build/galplan-profile" --model "$folder/a/model0.json" "$folder"/a/model[123].json --np "$ranks" \
    --budget-seconds "$budget" -o "$folder/a/profile.json"
run_plans "$ranks" "$folder/a" "$folder/a/profile.json" "$folder/a/list"

more=$((2 * cores))
case $more in 2 | 4 | 8) ;; *) more=0 ;; esac
if [ $more -gt 0 ]; then
    "$host" plans "$seed" "$more" "$folder/b" 1 > "$folder/b/list"
    "$build/galplan-profile" --model "$folder/b/model0.json" --np "$more" --budget-seconds "$budget" \
        -o "$folder/b/profile.json"
    run_plans "$more" "$folder/b" "$folder/b/profile.json" "$folder/b/list"
    "$host" report "$more ranks on $cores cores" < "$folder/b/lines"
fi
"$host" report "$ranks ranks on $cores cores" bounds < "$folder/a/lines"
