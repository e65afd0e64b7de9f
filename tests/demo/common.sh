# Sourced by the demos, which have set `name` and take the build's folder as their argument. Sets `here`, where the
# demos' files are, and goes to build/name; the programs are on PATH.
build=$(cd "${1:-build}" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
PATH=$build:$PATH
mkdir -p "$build/$name"
cd "$build/$name"

step() { printf '\n== %s\n' "$*"; }
run() { printf '$ %s\n' "$*"; "$@"; }

make_text() { # text.txt
    step "the text: the King James Bible (Debian package bible-kjv), verses without their references"
    command -v bible >/dev/null || { echo "demo: the command 'bible' is missing: apt-get install bible-kjv" >&2; exit 1; }
    bible -f gen1:1-rev22:21 </dev/null | sed 's/^[^ ]* //' >text.txt
    wc -c text.txt
}

final() { # key: its number at the end of the training that wrote log.jsonl
    sed -n 's/.*"event": "final".*"'"$1"'": \([0-9.e+-]*\).*/\1/p' log.jsonl
}

load() { cut -d ' ' -f 1 /proc/loadavg; } # runnable processes, mean of the last minute

# The measured step beside the 90 % interval of its prediction, and whether the machine did other work: a plan is priced
# for the machine as it was when it was measured.
say_interval() { # load-before-the-profile load-after-the-training
    awk -v seconds="$(final seconds_per_step)" -v before="$1" -v after="$2" -v ranks="$ranks" -v cores="$cores" '
        /"low_seconds"/ { low = $2 + 0 }
        /"high_seconds"/ { high = $2 + 0 }
        END {
            inside = seconds >= low && seconds <= high
            printf "a step took %.3f s, %s the 90 %% interval of its prediction, %.3f to %.3f s\n", seconds,
                inside ? "inside" : "OUTSIDE", low, high
            if (before > 1 || after > ranks + 1) {
                printf "the machine does other work: its load was %s before the profile and %s behind the training,\n", before, after
                printf "which takes %d of its %d cores; an idle one would be predicted better, and its MFU known\n", ranks, cores
            }
        }' plan.json
}
