#!/usr/bin/env bash
# Range test of Colossal-AI (section IV-B2, Figure 12): memory of two linear layers on 8 ranks, by batch and by width,
# measured as pages of the arena (two_linears.c), planned beside it. The paper gives neither tokens per sample nor the
# width of the batch range: its reductions are printed, not expected. Expected is the order 3D < 2.5D < 1D while a batch
# has at least as many rows as a row has features. Behind that weights decide, of which 2.5D has twice what 1D has.
# timeout_seconds: 240 cores: 1
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 4
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" LC_ALL=C
program=${BUILD:-build}/tests/numerics/two_linears
if [ ! -x "$program" ]; then
    echo 'not built, see what make left out'
    exit 77
fi
if grep -q '__[at]san_init' "$program"; then
    echo 'skip two linear layers: a sanitizer has pages of its own'
    exit 0
fi
bash tests/support/mpirun.sh 8 "$program" | awk '
    # A page more at each end of what lies between moments: at most 16 such stretches.
    { off = $5 - $4; planned = planned && off >= 0 && off <= 16 * 2 * 4096; rows++ }
    BEGIN {
        planned = ordered = 1
        print "  batch  width   1D MiB  2.5D MiB   3D MiB   2.5D, 3D less than 1D"
    }
    $1 == "tp8" { one = $5 }
    $1 == "tp8.2.5d.d2" { two = $5 }
    $1 == "tp8.3d" {
        printf "%7d %6d %8.1f %9.1f %8.1f %12.1f %% %6.1f %%\n", $2, $3, one / 2^20, two / 2^20, $5 / 2^20,
            100 * (1 - two / one), 100 * (1 - $5 / one)
        if ($2 >= $3)
            ordered = ordered && $5 < two && two < one
    }
    END {
        print "  the paper, batch 512:                       44 %     65 %"
        print "  the paper, width 16384:                     62 %   74.2 %"
        print (rows == 21 && ordered ? "ok" : "not ok") " 3D < 2.5D < 1D where a batch has as many rows as features"
        print (rows == 21 && planned ? "ok" : "not ok") " the pages are those that the plan predicts"
        exit !(rows == 21 && ordered && planned)
    }'
