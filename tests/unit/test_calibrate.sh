#!/usr/bin/env bash
# test_calibrate.sh BUILD: constants that made the seconds of a table are found again from it, also when the seconds are
# noisy; what no row tells is said to be uncertain; estimate reads what was fitted.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=$(cd "${1:-build}" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
PATH=$build:$PATH
status=0

verdict() { # what: by the status of the command before
    if [ $? -eq 0 ]; then echo "ok $1"; else
        echo "not ok $1"
        status=1
    fi
}

cd "$scratch" || exit 1
prices='--cluster a100-8 --prices framework:megatron-2021'
cat >true.json <<'END'
{
  "document": "constants", "version": 1, "name": "by hand", "cluster": "a100-8", "framework": "megatron-2021",
  "row_count": 1, "median_error": 0, "seconds_low_factor": 1, "seconds_high_factor": 1,
  "fitted": [
    {"constant": "gemm_fraction", "value": 0.6, "log_deviation": 0},
    {"constant": "memory_fraction", "value": 0.5, "log_deviation": 0},
    {"constant": "host_seconds", "value": 0.00003, "log_deviation": 0},
    {"constant": "inner_fraction", "value": 0.4, "log_deviation": 0},
    {"constant": "step_seconds", "value": 0.02, "log_deviation": 0}
  ]
}
END
awk 'BEGIN { print "layers,hidden,heads,seq,vocab,gpus,tp,pp,microbatch,global_batch,recompute,group"
    for (h = 1024; h <= 4096; h *= 2) for (t = 1; t <= 8; t *= 2) for (b = 1; b <= 4; b *= 2) for (g = 16; g <= 64; g *= 2)
        print "12," h ",16,1024,51200,8," t ",1," b "," g * 2 "," (g == 32 ? "none" : "full") "," h "-" t }' >layouts.csv
galplan estimate layouts.csv $prices --constants true.json >estimated.csv
# measured FACTOR: the table with the estimates, each times FACTOR of its row, as measured seconds
measured() {
    awk -F, -v OFS=, "NR == 1 { for (i = 1; i <= NF; i++) if (\$i == \"estimated_seconds\") c = i; print \"seconds\", q; next }
        { print \$c * ($1) }" estimated.csv | paste -d, layouts.csv - | sed 's/,$//'
}
value() { # FILE CONSTANT KEY
    tr -d ' \n' <"$1" | sed 's/}/}\n/g' | sed -n "s/.*\"constant\":\"$2\".*\"$3\":\([0-9.e-]*\).*/\1/p"
}
# within FILE CONSTANT TRUE DEVIATIONS
within() {
    awk -v a="$(value "$1" "$2" value)" -v b="$3" -v d="$(value "$1" "$2" log_deviation)" -v most="$4" \
        'BEGIN { if (!(a > 0)) exit 1; e = log(a / b); exit !(e < most * d && -e < most * d) }' ||
        { echo "  $2: $(value "$1" "$2" value), made with $3, deviation $(value "$1" "$2" log_deviation)"; false; }
}

measured 1 >exact.csv
galplan profile --calibrate exact.csv $prices --fit gemm_fraction,memory_fraction,host_seconds,inner_fraction,step_seconds \
    -o fitted.json >report.txt
verdict 'calibrate: a table of 108 rows'
# Nothing but the prior pulls: by deviation^2 log(true / default), and no default is a factor e^2 away.
within fitted.json gemm_fraction 0.6 1 && within fitted.json memory_fraction 0.5 1 &&
    within fitted.json host_seconds 0.00003 1 && within fitted.json inner_fraction 0.4 1 &&
    within fitted.json step_seconds 0.02 1
verdict 'exact seconds: the constants that made them'
grep -qE 'median 0\.[0-4] %' report.txt
verdict 'exact seconds: less than half a percent is left over'

# Every fifth row 40 % off, by turns either way, the others 2 %.
measured 'NR % 10 == 0 ? 1.4 : NR % 10 == 5 ? 1 / 1.4 : NR % 2 ? 1.02 : 0.98' >noisy.csv
galplan profile --calibrate noisy.csv $prices --fit gemm_fraction,memory_fraction,host_seconds,inner_fraction,step_seconds,transfer_seconds \
    -o noisy.json >report.txt
within noisy.json gemm_fraction 0.6 2 && within noisy.json host_seconds 0.00003 2 && within noisy.json memory_fraction 0.5 2
verdict 'a fifth of the rows far off: constants within 2 deviations'
[ -z "$(value noisy.json transfer_seconds value)" ]
verdict 'what no row depends on is not said to be fitted'
galplan estimate noisy.csv $prices --constants noisy.json >again.csv &&
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next } { n++; in_it += $c["seconds"] >= $c["low_seconds"] && $c["seconds"] <= $c["high_seconds"] }
        END { exit !(in_it / n >= 0.85) }' again.csv
verdict 'the interval holds 85 % of the rows or more'

galplan profile --calibrate exact.csv $prices --fit gemm >out 2>err
[ $? -eq 2 ] && grep -qF 'unknown constant "gemm"' err
verdict 'refused: a constant'
galplan profile --calibrate layouts.csv $prices >out 2>err
[ $? -eq 3 ] && grep -qF 'layouts.csv: column seconds: must be given in at least 2 rows, got 0' err
verdict 'refused: nothing measured'
galplan profile --calibrate exact.csv --cluster a100-8 --prices galrun >out 2>err
[ $? -eq 2 ] && grep -qF 'of --prices framework:NAME' err
verdict 'refused: prices that are not described'

# refused NAME RULE: exact.csv as it was changed in NAME.csv ends with 3, and says so in one line
refused() {
    galplan profile --calibrate "$1.csv" $prices >out 2>err
    [ $? -eq 3 ] && [ "$(wc -l <err)" -eq 1 ] && grep -qF "$1.csv:$2" err
}
for seconds in nan -0.3 0 0x10 1e300 fast; do
    awk -F, -v OFS=, -v s=$seconds 'NR == 5 { $NF = s } { print }' exact.csv >value.csv
    refused value '5: column seconds: must be a number from 1e-09 to 1e+09, got "'$seconds'"'
    verdict "refused: $seconds seconds, by file, line, rule and value"
done
awk -F, -v OFS=, 'NR == 4 { $2 = "4294967296" } { print }' exact.csv >size.csv
refused size '4: column hidden: must be a whole number from 1 to 262144, got "4294967296"'
verdict 'refused: a width that no model has'
sed '1s/vocab/vocables/' exact.csv >name.csv && refused name '1: unknown column "vocables"'
verdict 'refused: a column that is not known'
sed '1s/hidden/layers/' exact.csv >twice.csv && refused twice '1: column layers must not be named twice'
verdict 'refused: a column that is there twice'
head -c 1000 exact.csv >cut.csv && printf '\n' >>cut.csv && refused cut "$(wc -l <cut.csv): must have the 13 fields of the first line"
verdict 'refused: a row that is cut short'
head -c "$(($(wc -c <exact.csv) - 3))" exact.csv >end.csv
galplan profile --calibrate end.csv $prices >out 2>err && grep -qF 'end.csv:109: the last line has no end' err
verdict 'a last line without an end: a note'
{ printf '\357\273\277' && cat exact.csv; } >mark.csv && galplan profile --calibrate mark.csv $prices >out 2>err
verdict 'a mark of the byte order is skipped'
head -2 exact.csv >one.csv
galplan profile --calibrate one.csv $prices >out 2>err
[ $? -eq 3 ] && grep -qF 'one.csv: column seconds: must be given in at least 2 rows, got 1' err
verdict 'refused: one row'
{ head -1 exact.csv && for i in 1 2 3 4 5 6; do sed -n 2p exact.csv; done; } >equal.csv
galplan profile --calibrate equal.csv $prices -o equal.json >report.txt && grep -qF 'nothing is cross-validated' report.txt &&
    ! grep -qF 'error on rows not fitted' report.txt && [ "$(grep -c 'the rows hardly tell' report.txt)" -ge 3 ]
verdict 'rows all equal: no error is claimed of rows not fitted, and what they hardly tell is marked'
measured 1e-6 >fast.csv
galplan profile --calibrate fast.csv $prices -o fast.json >out 2>err
[ $? -eq 1 ] && grep -qF 'fast.csv: measured seconds are' err && [ ! -e fast.json ]
verdict 'refused: seconds that no constants explain'
exit $status
