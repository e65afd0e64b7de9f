#!/usr/bin/env bash
# Grids of tensor parallelism on as many ranks as their sides ask for: 3 x 3, 4 x 4, 2 x 2 three deep, 3 x 3 x 3, and
# 2 x 2 x 2 inside and outside of sharded data parallelism. Each trains as one rank does, with dropout.
# timeout_seconds: 400
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/support/mpi_env.sh
galrun=${BUILD:-build}/galrun
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export ASAN_OPTIONS=detect_leaks=0
status=0
# Text with structure: numbers in words, one after the other.
seq 1 6000 | sed 's/1/one /g; s/2/two /g; s/7/seven /g' | head -c 40000 >"$scratch/text"

# 144 divides by the squares of all sides, 72 samples by all that split them.
cat >"$scratch/plans.py" <<'PYTHON'
import json, sys
def axis(name):
    kind, _, mode = name.partition('.')
    out = {'kind': kind.rstrip('0123456789'), 'degree': int(kind.lstrip('abcdefghijklmnopqrstuvwxyz'))}
    if mode.startswith('z'):
        return out, int(mode[1:])
    mode, _, depth = mode.partition('.d')
    out.update({'mode': mode} if mode else {})
    out.update({'depth': int(depth)} if depth else {})
    return out, 0
folder, names = sys.argv[1], sys.argv[2:]
for name in names:
    plan = json.load(open('tests/numerics/plans/serial.json'))
    plan['model'].update(hidden=144, head_count=12, ffn_hidden=144, vocabulary_multiple=144, global_batch_samples=144)
    plan.update(global_batch_samples=144, microbatch_count=1, prefetch_depth=2)
    axes = [axis(part) for part in name.split('-')] if name != 'serial' else []
    strategy = plan['stages'][0]['runs'][0]['strategy']
    strategy.update(axes=[a for a, _ in axes], zero_stage=max([0] + [z for _, z in axes]))
    for a, _ in axes:
        plan['cluster']['device_count'] *= a['degree']
    plan['cluster']['levels'][0]['span_devices'] = plan['cluster']['device_count']
    json.dump(plan, open(f'{folder}/{name}.json', 'w'))
    print(name, plan['cluster']['device_count'])
PYTHON

# loss and gradient norm of every step
numbers() {
    sed -n 's/.*"step": \([0-9]*\), "loss": \([^,]*\), "gradient_norm": \([^,]*\),.*/\1 \2 \3/p' "$1"
}

python3 "$scratch/plans.py" "$scratch" serial tp9.2d tp16.2d tp12.2.5d.d3 tp8.3d tp27.3d sdp2.z3-tp8.3d tp8.3d-sdp2.z2 \
    >"$scratch/list" || exit 4
while read -r name ranks; do
    timeout -k 5 100 "$galrun" "$scratch/$name.json" --data "$scratch/text" --np "$ranks" --steps 3 \
        --evaluate-batches 1 -q --log "$scratch/$name.log" >"$scratch/out" 2>&1 </dev/null || {
        echo "not ok $name runs"
        cat "$scratch/out"
        status=1
        continue
    }
    # Three steps of Adam grow rounding errors; a wrong gradient is 10 orders away.
    if numbers "$scratch/$name.log" | paste -d ' ' - <(numbers "$scratch/serial.log") | awk '
        function off(a, b) { return (a > b ? a - b : b - a) > 1e-10 * b }
        $1 != $4 || off($2, $5) || off($3, $6) { exit 1 } END { exit NR != 3 }'; then
        echo "ok $name trains as one rank does"
    else
        echo "not ok $name trains as one rank does"
        status=1
    fi
done <"$scratch/list"
exit $status
