#!/usr/bin/env bash
# test_profile.sh BUILD: profiles of a tiny model over two ranks. timeout_seconds: 300
# The document is accepted; all that a plan's programs consist of is in it, measured; a second profile is like the first
# (bounds are wide: the machine may be busy); errors and Ctrl-C end with one message and no file.
set -u
build=$1
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[ -x "$build/galplan-profile" ] || { echo "galplan-profile was left out of this build"; exit 77; }
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
model=tests/fixtures/valid/model.json
failed=0

verdict() { # status name
    if [ "$1" -eq 0 ]; then echo "ok $2"; else echo "not ok $2"; failed=1; fi
}

profile() { # file, more options
    local file=$1
    shift
    "$build/galplan-profile" --model $model --np 2 --batch 4 --microbatches 2 --memory 1GiB -o "$file" "$@"
}

profile "$folder/a.json" --budget-seconds 30 --threads 1 >"$folder/said" 2>&1
verdict $? "a profile over two ranks"
cat "$folder/said"
if [ -x "$build/galplan" ]; then
    "$build/galplan" check "$folder/a.json" >/dev/null
    verdict $? "galplan check accepts it"
fi

python3 - "$folder/a.json" <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
kernels = {(e["op"], tuple(e["dims"])) for e in d["operators"]}
# Of one rank's FFN: 4 / 2 microbatches / 2 replicas = 1 sample of 32 rows, 64 -> 256, whole and halved by TP.
wanted = {("gemm", (32, 256, 64, 4)), ("layer_norm", (32, 64))}
missing = [w for w in wanted if w not in kernels]
ops = {e["op"] for e in d["operators"]}
missing += [o for o in ("embed", "embed_backward", "layer_norm_backward", "attention", "attention_backward", "activation",
                        "activation_backward", "residual", "cross_entropy_loss", "adam", "sum_squares") if o not in ops]
collectives = {e["op"] for e in d["collectives"]}
missing += [o for o in ("all_reduce", "all_gather", "reduce_scatter", "send") if o not in collectives]
assert not missing, missing
entries = d["operators"] + d["collectives"]
assert all(e["source"] == "measured" and 0 < e["seconds"] < 10 and e["spread_seconds"] >= 0 for e in entries)
assert all(x >= 1 for row in d["slowdown"] for x in row)
assert d["rank_count"] == 2 == d["cluster"]["device_count"] and d["cluster"]["device"]["memory_bytes"] == 2**30
assert 2**20 < d["fixed_bytes"] < 2**29 and 0 < d["instruction_seconds"] < 1e-3 and d["blocks"]
host = d["host"]
assert host["threads_per_rank"] == 1 and host["adam_by_threads"][0]["threads"] == 1 and host["copies_by_node"]
# A thread copies and computes in turn, so these are about 2, and by a machine's straying less.
assert len(d["slowdown"]) == 4 and all(1.1 < d["slowdown"][i][j] for i, j in ((0, 2), (2, 0), (2, 2)))
assert "OpenBLAS" in d["libraries"] and "Open MPI" in d["libraries"] and "hwloc" in d["libraries"]
END
verdict $? "every kind of kernel and collective is measured, every field is filled"

profile "$folder/b.json" --budget-seconds 30 -q >"$folder/said" 2>&1 && [ ! -s "$folder/said" ] &&
    python3 - "$folder/a.json" "$folder/b.json" <<'END'
import json, statistics, sys
a, b = ({(e["op"], tuple(e["dims"])): e["seconds"] for e in json.load(open(p))["operators"]} for p in sys.argv[1:])
both = a.keys() & b.keys()
assert len(both) > 20, len(both)
ratio = statistics.median(a[k] / b[k] for k in both)
assert 1 / 4 < ratio < 4, ratio
END
verdict $? "a second profile is like the first"

"$build/galplan-profile" --model tests/fixtures/valid/cluster.json --np 2 -o "$folder/c.json" >"$folder/said" 2>&1
[ $? -eq 3 ] && [ "$(wc -l <"$folder/said")" -eq 1 ] && [ ! -e "$folder/c.json" ]
verdict $? "a wrong document is one message and exit 3"

"$build/galplan-profile" --model $model --batch 3 --microbatches 2 -o "$folder/c.json" >"$folder/said" 2>&1
[ $? -eq 2 ] && [ "$(wc -l <"$folder/said")" -eq 1 ]
verdict $? "batches that nothing divides are one message and exit 2"

if [ "${SANITIZE:-}" = thread ]; then
    echo 'skip SIGTERM: ThreadSanitizer keeps a signal back until waitpid returns'
    exit $failed
fi
"$build/galplan-profile" --model $model --np 2 -o "$folder/c.json" >"$folder/said" 2>&1 &
child=$!
sleep 2
kill -TERM $child
wait $child
status=$?
cat "$folder/said"
[ $status -eq 4 ] && [ "$(grep -c 'error' "$folder/said")" -eq 1 ] && [ ! -e "$folder/c.json" ]
verdict $? "SIGTERM ends it with one message and no file"
exit $failed
