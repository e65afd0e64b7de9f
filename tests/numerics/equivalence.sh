#!/usr/bin/env bash
# Random plans against one rank in fp64, drawn from the printed SEED (1), with moments on storage among them: PLANS of
# them, at most 45 where PLANS is below 500. See equivalence.c. Four more launches: OVERLAPPED plans (10) with overlap, under every kind of it; plans carried out in
# fp32, as they are on a GPU; plans of a larger model, whose arenas are so large that 1 % of them exceeds what an
# allocator keeps for itself; and plans under the allocation counter, which must find no call by our code in steps 2 and
# later. From 500 plans on (make equivalence, make check-all) the coverage matrix must be full, and one plan in 50 is over
# 9, 12 or 16 ranks, which a grid of so many needs.
# timeout_seconds: 5400
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 4
# Open MPI unloads its modules before leaks are looked for: what they keep has no name to suppress.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
# What Open MPI's reductions work in (libnbc allocates it for each) is freed by whichever thread of a rank completes
# them. malloc_trim gives back free memory but for the end of an arena that is not the main one, so that with an arena
# per thread a step's temporary buffers stay resident by chance: one arena for all.
export MALLOC_ARENA_MAX=1
tests=${BUILD:-build}/tests
program=$tests/numerics/equivalence
# 45 that are drawn for the cells of the coverage matrix that no other has met meet 571 of 595: 4 more than 100 did that
# were drawn so that three meet each.
plans=${PLANS:-100} seed=${SEED:-1}
[ "$plans" -ge 500 ] || [ "$plans" -le 45 ] || plans=45
overlapped_plans=${OVERLAPPED:-10} counted_plans=10 large_plans=3 scale=8 fp32_plans=8
scratch=$(mktemp -d) || exit 4
trap 'rm -rf "$scratch"' EXIT
# A launch takes about a second a plan on two idle cores, four where others want them too.
export MPIRUN_TIMEOUT=$((600 + 4 * plans))
failed=0

if [ ! -x "$program" ]; then
    echo 'not built, see what make left out'
    exit 77
fi

bash tests/support/mpirun.sh 8 "$program" "$plans" "$seed" 0 1 host storage
status=$?
if [ $status -ne 0 ] && [ $status -ne 1 ]; then
    echo "not ok equivalence ends with $status"
fi
[ $status -eq 0 ] || failed=1
bash tests/support/mpirun.sh 8 "$program" "$overlapped_plans" "$seed" 0 1 host overlaps | sed 's/^ok /ok kinds of overlap, /'
status=${PIPESTATUS[0]}
[ $status -eq 0 ] || failed=1
if [ $status -ne 0 ] && [ $status -ne 1 ]; then
    echo "not ok plans with overlap end with $status"
fi

if [ "$plans" -ge 500 ]; then
    bash tests/support/mpirun.sh 16 "$program" $((plans / 50)) "$seed" 0 1 host grids | sed 's/^ok /ok grids of 9 to 16, /'
    status=${PIPESTATUS[0]}
    [ $status -eq 0 ] || failed=1
    if [ $status -ne 0 ] && [ $status -ne 1 ]; then
        echo "not ok plans with grids of 9 to 16 ranks end with $status"
    fi
fi

if grep -q '__[at]san_init' "$program"; then
    echo 'skip plans of a larger model: a sanitizer takes minutes, and its allocator keeps what is freed'
    echo 'skip no allocation in a step: a sanitizer brings its own allocator and must be loaded first'
    exit $failed
fi
bash tests/support/mpirun.sh 8 "$program" $fp32_plans "$seed" 0 1 host-fp32 >"$scratch/fp32" 2>&1
status=$?
[ $status -eq 0 ] || failed=1
grep -E '^(FAILED|not ok|rank )' "$scratch/fp32"
grep '^ok [lgwe]' "$scratch/fp32" | sed 's/^ok /ok fp32, /'
if [ $status -ne 0 ] && [ $status -ne 1 ]; then
    echo "not ok plans in fp32 end with $status"
fi
bash tests/support/mpirun.sh 8 "$program" $large_plans "$seed" 0 $scale >"$scratch/large"
status=$?
[ $status -eq 0 ] || failed=1
grep -E '^(FAILED|not ok)' "$scratch/large"
grep '^ok highest byte\|^ok resident' "$scratch/large" | sed 's/^ok /ok larger model, /'
if [ $status -ne 0 ] && [ $status -ne 1 ]; then
    echo "not ok plans of a larger model end with $status"
fi

bash tests/support/mpirun.sh 8 -x LD_PRELOAD="$tests/liballoc_count.so" -x GALPLAN_ALLOC_FILE="$scratch/alloc" \
    "$program" "$counted_plans" "$seed" >"$scratch/out" 2>&1 || cat "$scratch/out"
# Every rank that took part has named the phase; each has one line of its total, and none of another function.
ranks=$(cat "$scratch"/alloc.* | grep -c '^step total 0 0$')
others=$(cat "$scratch"/alloc.* | grep '^step ' | grep -cv '^step total 0 0$')
if [ "$ranks" -eq 8 ] && [ "$others" -eq 0 ]; then
    echo "ok no allocation by our code in steps 2 and later ($counted_plans plans, 8 ranks)"
else
    cat "$scratch"/alloc.* | grep '^step '
    echo "not ok no allocation by our code in steps 2 and later ($ranks ranks of 8 without)"
    failed=1
fi
exit $failed
