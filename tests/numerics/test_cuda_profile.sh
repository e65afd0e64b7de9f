#!/usr/bin/env bash
# A profile of two ranks on one GPU, which is a double, communication through the host: see cuda_profile.c.
# test_cuda_profile.sh [BUILD]: the folder that make wrote to (default build).
# timeout_seconds: 120 cores: 1
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 4
# Open MPI keeps allocations until the process ends; they are not ours to free.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
build=${1:-build}
program=$build/tests/numerics/cuda_profile
if [ ! -x "$program" ]; then
    echo 'not built, see what make left out'
    exit 77
fi
folder=$(mktemp -d) || exit 4
trap 'rm -rf "$folder"' EXIT
failed=0

verdict() { # status name
    if [ "$1" -eq 0 ]; then echo "ok $2"; else echo "not ok $2"; failed=1; fi
}

bash tests/support/mpirun.sh 2 "$program" "$folder/profile.json"
verdict $? 'two ranks come through'
"$build/galplan" check "$folder/profile.json" >/dev/null
verdict $? 'galplan check accepts it'
python3 - "$folder/profile.json" <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
# Both ranks are on the one GPU: half of its 256 MiB each.
assert d["rank_count"] == 2 and d["cluster"]["device"]["memory_bytes"] == 2**27
assert {"all_reduce", "all_gather", "reduce_scatter", "send"} <= {e["op"] for e in d["collectives"]}
# The host communicates: no multiprocessors are taken.
assert d["gpu"]["slowdown_by_ctas"] == []
# Messages are copies to the host there.
s = d["slowdown"]
assert s[1][2] == s[2][1] == s[2][2] >= 1 and len(d["host"]["copies_by_node"]) == 1
END
verdict $? 'with all collectives, and a share of the memory'
exit $failed
