#!/usr/bin/env bash
# A rank that is stopped or killed where MPI cannot tell the others: before it has started, in MPI's start and end, while
# groups are made. The launch ends within --timeout with one line that names it, exit 5; under mpirun itself the rank that
# waits says so, a few seconds later. timeout_seconds: 300 cores: 0
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/faults/common.sh
interposer=$(preloaded libjoin_count.so)
export ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0
[ -f "$interposer" ] || { echo 'no MPI: the interposer is not built'; exit 77; }
measure_overhead

# ---- not started: an mpirun before the real one, which puts a script before the program ----

mkdir "$scratch/bin"
cat >"$scratch/bin/mpirun" <<END
#!/usr/bin/env bash
words=()
for word in "\$@"; do
    [ "\$word" = "$(readlink -f "$galrun")" ] && words+=("$scratch/bin/late")
    words+=("\$word")
done
exec "$(command -v mpirun)" "\${words[@]}"
END
cat >"$scratch/bin/late" <<'END'
#!/usr/bin/env bash
[ "$OMPI_COMM_WORLD_RANK" = "$LATE_RANK" ] && kill "-$LATE_SIGNAL" $$
exec "$@"
END
chmod +x "$scratch/bin/mpirun" "$scratch/bin/late"

late() { # rank signal
    begin_clock
    PATH=$scratch/bin:$PATH LATE_RANK=$1 LATE_SIGNAL=$2 train mixed --steps 2 >"$scratch/out" 2>"$scratch/err"
    code=$?
    stop_clock
}

late none STOP
[ $code -eq 0 ]
verdict 'the wrapper alone changes nothing' $?
for rank in 0 3; do
    late $rank STOP
    [ $code -eq 5 ] && in_time &&
        one_error "not there after [0-9.]+ s: rank $rank \(not started\); rank [0-3] waits in MPI_Init_thread"
    verdict "rank $rank stopped before it has started" $?
done
late 3 KILL
[ $code -eq 5 ] && in_time && one_error '(a rank|rank [0-2]), or one that had not started \(.*rank 3\), was ended by signal 9 \(Killed\)'
verdict 'rank 3 killed before it has started' $?

# ---- inside the calls that all come to ----

faulty() { # call at kind rank command...
    begin_clock
    LD_PRELOAD=$interposer GALPLAN_FAULT_CALL=$1 GALPLAN_FAULT_AT=$2 GALPLAN_FAULT_KIND=$3 GALPLAN_FAULT_RANK=$4 \
        "${@:5}" >"$scratch/out" 2>"$scratch/err"
    code=$?
    stop_clock
}

# The third group of rank 1 is one of its program's.
for at in 'MPI_Init_thread 1 0' 'MPI_Comm_create_group 1 2' 'MPI_Comm_create_group 3 1' 'MPI_Finalize 1 3'; do
    read -r call number rank <<<"$at"
    faulty "$call" "$number" stop "$rank" train mixed --steps 1
    [ $code -eq 5 ] && in_time &&
        one_error "not there after [0-9.]+ s: rank $rank \(stopped\); rank [0-3] waits in $call"
    verdict "rank $rank stopped in $call number $number" $?
    faulty "$call" "$number" kill "$rank" train mixed --steps 1
    # In MPI's start others may not have been heard of.
    [ $code -eq 5 ] && in_time && one_error "rank $rank(, or one .*,)? was ended by signal 9 \(Killed\)"
    verdict "rank $rank killed in $call number $number" $?
done

# ---- a foreign launcher: nobody but the ranks themselves ----

# Rank r speaks 2 (r + 1) seconds late: of rank 2 and the first that waits for it, rank 0 speaks. That is what is timed:
# what mpirun then takes to end the others is its own (2 s for one that is stopped).
stagger_seconds=2
note_when_told() { # copies its input
    local line
    while IFS= read -r line; do
        [[ $line == 'galrun: error'* ]] && now_milliseconds >"$scratch/told"
        printf '%s\n' "$line"
    done
}
foreign() {
    timeout -k 5 100 mpirun -q -np 4 "$galrun" $plans/mixed.json --data "$data" --timeout "$timeout_seconds" -q --steps 1 \
        2>&1 >/dev/null | note_when_told >&2
}
for at in 'MPI_Init_thread 1 all ranks' 'MPI_Comm_create_group 1 rank 1 2 3'; do
    read -r call number whom <<<"$at"
    rm -f "$scratch/told"
    faulty "$call" "$number" stop 2 foreign
    echo "# all have ended after $took ms"
    took=$(($(cat "$scratch/told" 2>/dev/null || echo "$begin") - begin))
    [ "$(grep -c '^galrun: error' "$scratch/err")" -eq 1 ] &&
        [ $took -ge $(((timeout_seconds + stagger_seconds) * 1000)) ] && in_time $stagger_seconds &&
        grep -qx "galrun: error: rank 0 has waited for $timeout_seconds s in $call for $whom" "$scratch/err"
    verdict "mpirun: rank 2 stopped in $call" $?
done
exit $status
