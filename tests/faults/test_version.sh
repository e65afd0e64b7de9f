#!/usr/bin/env bash
# A rank on another version is refused at the start: one line names it, exit 2. The other version is this program with
# its version text changed in the file. cores: 1
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/faults/common.sh
other=$scratch/galrun
LC_ALL=C sed 's/galrun 1\.0\.0/galrun 9.0.0/' "$galrun" >"$other"
chmod +x "$other"
cmp -s "$galrun" "$other"
[ $? -eq 1 ]
verdict 'there is another version' $?
options=($plans/mixed.json --data "$data" --steps 2 --evaluate-batches 1 -q)
timeout 60 mpirun -q -np 2 "$galrun" "${options[@]}" : -np 1 "$other" "${options[@]}" : \
    -np 1 "$galrun" "${options[@]}" >"$scratch/out" 2>"$scratch/err"
[ $? -eq 2 ] && one_error 'rank 2: this rank runs galrun 9.0.0, rank 0 runs galrun 1.0.0'
verdict 'rank 2 on another version' $?
exit $status
