#!/usr/bin/env bash
# test_catalogue_hard.sh BUILD: the catalogue's hard pairs in the whole space, in fp32 and in 16 bits: the largest models on
# the smallest devices and on 1,024 of them; little memory; slow links. A plan verifies. Where none fits, the least devices are named, and a search under the least
# memory that was said finds a plan, under a byte less none. make bench-catalogue tries every pair. timeout_seconds: 900
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
galplan=$(cd "${1:-build}" && pwd)/galplan
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
out=$scratch/out.json plan=$scratch/plan.json
name=

ok() { echo "ok $name"; }
not_ok() { # why
    echo "$name: $1"
    sed 's/^/    /' "$scratch/err"
    echo "not ok $name"
}

search() { # arguments; prints the exit code
    rm -f "$plan"
    "$galplan" search "$@" --time-limit 600 --json -q -o "$plan" >"$out" 2>"$scratch/err"
    echo $?
}

# The number at the key, of the first line that has it.
number() { sed -n "s/^ *\"$1\": \([0-9]*\),*$/\1/p" "$out" | head -n 1; }

fits() { # model cluster batch dtype
    name="$1 in $4 on $2"
    [ "$(search --model "$1" --cluster "$2" --batch "$3" --dtype "$4")" = 0 ] || { not_ok 'no plan' && return; }
    "$galplan" verify "$plan" >"$scratch/err" 2>&1 || { not_ok 'the plan does not verify' && return; }
    ok
}

does_not_fit() { # model cluster batch dtype
    local bytes devices code
    name="$1 in $4 on $2"
    [ "$(search --model "$1" --cluster "$2" --batch "$3" --dtype "$4")" = 1 ] || { not_ok 'exit 1 was due' && return; }
    bytes=$(number least_bytes) devices=$(number least_device_count)
    if [ -z "$bytes" ] || [ -z "$devices" ] || [ "$bytes" = 0 ] || [ "$devices" = 0 ]; then
        not_ok "no least memory or devices: '$bytes' '$devices'" && return
    fi
    grep -q '"least_bytes_is_exact": true' "$out" || { not_ok 'the least memory is not exact' && return; }
    code=$(search --model "$1" --cluster "$2" --batch "$3" --dtype "$4" --memory "$bytes")
    [ "$code" = 0 ] || { not_ok "with $bytes bytes exit $code" && return; }
    code=$(search --model "$1" --cluster "$2" --batch "$3" --dtype "$4" --memory "$((bytes - 1))")
    [ "$code" = 1 ] || { not_ok "with a byte less exit $code" && return; }
    ok
}

fits gpt3-175b h100-64 64 fp32
fits gpt3-175b h100-1024 1024 fp32
fits llama3-405b h100-1024 1024 fp32
fits t5-large-48 h100-8 16 fp32
fits gpt-39.1b rtx3090-32 32 fp32
fits gpt3-175b h100-64 64 bf16
fits llama3-405b h100-1024 1024 bf16
fits llama3-70b h100-64 128 bf16
fits qwen2-7b l4-8 16 bf16
fits gpt-39.1b rtx3090-32 32 bf16
does_not_fit gpt3-175b titan-8 16 fp32
does_not_fit llama3-405b titan-16 16 fp32
does_not_fit llama3-70b l4-8 16 fp32
does_not_fit vit-64l-h4096 titan-8 16 fp32
does_not_fit gpt3-175b titan-8 16 fp16
does_not_fit llama3-70b l4-8 16 bf16
