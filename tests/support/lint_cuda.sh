#!/usr/bin/env bash
# lint_cuda.sh FILE.cu=COMMAND...: by the command that compiles each file, a table of what ptxas says of every kernel on
# every architecture. Exit 1 if a kernel spills whose name holds a line of runtime/ops/cuda/hot_kernels.txt ('#' begins a
# comment), or if such a line names none.
set -euo pipefail
hot=runtime/ops/cuda/hot_kernels.txt
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for job in "$@"; do
    # shellcheck disable=SC2086
    ${job#*=} -Xptxas -v -c -o /dev/null "${job%%=*}" >>"$log" 2>&1 || { cat "$log" >&2; exit 1; }
done
{ [ -f "$hot" ] && sed 's/#.*//; s/[ \t]*$//; /^$/d; s/^/hot /' "$hot"; c++filt <"$log"; } | awk '
/^hot / { hot[substr($0, 5)] = 0; next }
/Compiling entry function/ {
    split($0, part, "\047")
    kernel = part[2]
    arch = part[4]
    sub(/^void /, "", kernel)
    # What the arguments are is in the template arguments already.
    sub(/\([^()]*\)$/, "", kernel)
}
/bytes stack frame/ {
    for (i = 1; i < NF; i++) {
        if ($(i + 1) == "bytes" && $(i + 2) == "spill" && $(i + 3) ~ /^stores/) stores = $i
        if ($(i + 1) == "bytes" && $(i + 2) == "spill" && $(i + 3) ~ /^loads/) loads = $i
    }
}
/Used [0-9]+ registers/ {
    match($0, /Used [0-9]+/)
    registers = substr($0, RSTART + 5, RLENGTH - 5)
    shared = match($0, /[0-9]+ bytes smem/) ? substr($0, RSTART, RLENGTH - 11) : 0
    if (!header++) printf "%-8s %9s %12s %12s  %s\n", "arch", "registers", "spill bytes", "shared bytes", "kernel"
    printf "%-8s %9d %12d %12d  %s\n", arch, registers, stores + loads, shared, kernel
    for (name in hot) {
        if (index(kernel, name) > 0) {
            hot[name]++
            if (stores + loads > 0) { printf "lint-cuda: %s spills on %s\n", kernel, arch > "/dev/stderr"; bad = 1 }
        }
    }
    stores = loads = 0
    kernels++
}
END {
    for (name in hot) if (!hot[name]) { printf "lint-cuda: no kernel is called %s\n", name > "/dev/stderr"; bad = 1 }
    printf "lint-cuda: %d kernels, %s\n", kernels, bad ? "failed" : "no hot one spills"
    exit bad
}'
