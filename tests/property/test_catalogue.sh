#!/usr/bin/env bash
# test_catalogue.sh BUILD: a search answers for every model that ships, but encoder-decoders, on every cluster of at most
# 64 devices that ships: with a plan that verifies, or with exit 1 and the limit that binds. timeout_seconds: 3600
#
# A small search for each pair: a sample for every device, two microbatch counts, three numbers of stages, and of the
# strategies those that need the least memory. By turns in the precision that the command takes by
# itself (the model's own; fp16 or fp32 where the device has no bf16), in bf16 and in fp32. PLANS (1,000 in check-all) >= 500: every pair; else PLANS * 3 / 10 of them,
# in an order that comes to every model and every cluster in the first 30.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
galplan=$(cd "${1:-build}" && pwd)/galplan
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
bad=0 fits=0 refused=0

# Name and devices of each, from the JSON lists: name, group and device_count come in this order.
models=() clusters=()
declare -A devices_of
mapfile -t models < <("$galplan" models --json | sed -n 's/^ *"name": "\(.*\)",$/\1/p')
while read -r name devices; do
    devices_of[$name]=$devices
    [ "$devices" -le 64 ] && clusters+=("$name")
done < <("$galplan" clusters --json | sed -n -e 's/^ *"name": "\(.*\)",$/\1/p' -e 's/^ *"device_count": \([0-9]*\),$/\1/p' | paste - -)

complain() { # model cluster text
    echo "$1 on $2${dtype[1]:+ in ${dtype[1]}}: $3"
    bad=$((bad + 1))
}

try() { # model cluster turn
    local devices out=$scratch/out err=$scratch/err plan=$scratch/plan.json dtype
    devices=${devices_of[$2]}
    case $(($3 % 3)) in
    0) dtype=() ;;
    1) dtype=(--dtype bf16) ;;
    2) dtype=(--dtype fp32) ;;
    esac
    "$galplan" search --model "$1" "${dtype[@]}" --cluster "$2" --batch "$devices" \
        --microbatches "1,$((devices / 4))" --pp 1,4,8 --space zero3,tp,recompute --label-limit 20 -q -o "$plan" >"$out" 2>"$err"
    case $? in
    0)
        fits=$((fits + 1))
        "$galplan" verify "$plan" >"$out" 2>&1 || complain "$1" "$2" "$(tail -n 1 "$out")"
        ;;
    1)
        refused=$((refused + 1))
        grep -Eq 'no plan fits in [0-9.]+ [GMk]B per device: the least that would do is [0-9.]+ [GMk]B|no plan is legal|must divide' \
            "$err" || complain "$1" "$2" "no limit is named: $(cat "$err")"
        ;;
    *) complain "$1" "$2" "$(cat "$err")" ;;
    esac
}

count=$((${#models[@]} * ${#clusters[@]}))
if [ "${PLANS:-100}" -ge 500 ]; then
    for ((m = 0; m < ${#models[@]}; m++)); do
        for ((c = 0; c < ${#clusters[@]}; c++)); do try "${models[m]}" "${clusters[c]}" $((m + c)); done
    done
else
    tried=$((${PLANS:-100} * 3 / 10))
    [ "$tried" -lt "$count" ] || tried=$count
    for ((i = 0; i < tried; i++)); do try "${models[i % ${#models[@]}]}" "${clusters[i % ${#clusters[@]}]}" "$i"; done
fi
echo "${#models[@]} models, ${#clusters[@]} clusters: $fits plans verified, $refused refused for a limit, $bad wrong"
[ $bad -eq 0 ] && [ $fits -gt 0 ]
