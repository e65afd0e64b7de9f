# Sourced by the tests of this folder, from the root: a tiny model, its data, and how a fault is judged.
. tests/support/mpi_env.sh
galrun=${BUILD:-build}/galrun
plans=tests/numerics/plans
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
status=0
data=$scratch/text
seq 1 6000 | sed 's/1/one /g; s/2/two /g; s/7/seven /g' | head -c 40000 >"$data"
# Open MPI keeps memory that is not ours to free.
export ASAN_OPTIONS=detect_leaks=0
timeout_seconds=5
[ -n "${SANITIZE:-}" ] && timeout_seconds=15

preloaded() { # name: the path of a library that makes calls of a rank fail or stop it there
    readlink -m "${BUILD:-build}/tests/$1"
}

# A failure's line holds what was seen: of a machine that runs the tests elsewhere it may be all that there is.
verdict() { # name passed(0)
    if [ "$2" -eq 0 ]; then
        echo "ok $1"
    else
        echo "not ok $1: exit ${code:-unknown} after ${took:-unknown} ms, $(grep -c . "$scratch/err") lines: $(
            tr '\n' '|' <"$scratch/err" | cut -c 1-600)"
        sed 's/^/  # /' "$scratch/err" 2>/dev/null
        status=1
    fi
}

# ---- clocks ----

# The product promises --timeout seconds from the fault to the end of the ranks. What the test sees beside them is
# processes that start and end (and, from a fault before the work, the work): a whole run without a fault has all of it.
now_milliseconds() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }
begin_clock() { begin=$(now_milliseconds); }
stop_clock() { took=$(($(now_milliseconds) - begin)); }
measure_overhead_again() { # of a test with other overhead: its own
    cp "$scratch/err" "$scratch/err-kept"
    measure_overhead
    cp "$scratch/err-kept" "$scratch/err"
}
measure_overhead() { # the longest of three: the machine may be busy
    local i begin took
    overhead=0
    for i in 1 2 3; do
        begin_clock
        train mixed --steps 1 >/dev/null 2>"$scratch/err"
        stop_clock
        [ $took -gt $overhead ] && overhead=$took
    done
    echo "# a run that does nothing takes $overhead ms at most"
}
# Of a rank that is killed the launcher knows at once: what the end of the others takes then is its own (Open MPI's mpirun
# looks every 0.3 s), and comes after every timeout too. Of one rank in a dozen it waits for the whole second that it gives
# one to end by itself (odls_base_sigkill_timeout): seen of the same kill as 0.32 s and 1.32 s.
ending=1000
count_as_ending() { [ "$took" -gt $ending ] && ending=$took; }
in_time() { # [seconds more]: by the clock that was stopped last; the machine may have become busier since
    local taken=$took allowed=$(((timeout_seconds + ${1:-0}) * 1000 + ending))
    echo "# $taken ms"
    [ $taken -le $((allowed + overhead)) ] && return
    measure_overhead_again
    [ $taken -le $((allowed + overhead)) ]
}

ranks_of() { # plan file
    sed -n 's/^ *"device_count": *\([0-9]*\).*/\1/p' "$1" | head -n 1
}

train() { # plan arguments...
    local plan=$plans/$1.json
    shift
    timeout -k 5 100 "$galrun" "$plan" --data "$data" --np "$(ranks_of "$plan")" --timeout "$timeout_seconds" \
        --evaluate-batches 1 -q "$@"
}

started() { # log [pattern]: waits until it is there, 30 seconds at most
    for _ in $(seq 300); do
        grep -q "${2:-step}" "$1" 2>/dev/null && return 0
        sleep 0.1
    done
    return 1
}

rank_process() { # rank word: the process of that rank whose command line holds the word
    local process
    for process in $(pgrep -f "gal(run|plan-profile) .*$2"); do
        if tr '\0' '\n' <"/proc/$process/environ" 2>/dev/null | grep -qx "OMPI_COMM_WORLD_RANK=$1"; then
            echo "$process"
            return
        fi
    done
}

# What mpirun itself says as it ends is not looked at: that of Open MPI 4.1 now and then crashes in PMIx_server_finalize
# when ranks were killed, and prints where, "[host:process] ..." on each line; and its libevent may warn, "[warn] Epoll
# ...", of a descriptor that is closed already.
one_error() { # pattern: stderr holds one line of ours (galplan-profile speaks as galplan) and it matches
    [ "$(grep -Ev '^\[([^]]*:[0-9]*\]|warn\] Epoll) ' "$scratch/err" | grep -c .)" -eq 1 ] && grep -Eq "^gal(run|plan): error: $1" "$scratch/err"
}
