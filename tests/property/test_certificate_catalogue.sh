#!/usr/bin/env bash
# test_certificate_catalogue.sh BUILD: what searches of the catalogue claim is proved again, whatever the model's family,
# its precision and the way it is cut; make check-all (PLANS above 100) tries more. timeout_seconds: 300
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
galplan=$(cd "${1:-build}" && pwd)/galplan
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

proves() { # model cluster batch
    local name="$1 on $2, $3 samples"
    if ! "$galplan" search --model "$1" --cluster "$2" --batch "$3" -q -o "$scratch/plan.json" >"$scratch/out" 2>&1; then
        sed 's/^/    /' "$scratch/out"
        echo "not ok $name: no plan"
    elif ! "$galplan" verify "$scratch/plan.json" >"$scratch/out" 2>&1 || ! grep -q '^bound *ok: ' "$scratch/out"; then
        sed 's/^/    /' "$scratch/out"
        echo "not ok $name: the bound is not proved"
    else
        echo "ok $name"
    fi
}

# As it ships, in 16 bits.
narrow() { # model
    sed 's/"compute_dtype": *"[a-z0-9]*"/"compute_dtype": "bf16"/' "schemas/catalogue/models/$1.json" >"$scratch/$1-bf16.json"
    grep -q '"bf16"' "$scratch/$1-bf16.json" && echo "$scratch/$1-bf16.json"
}

proves swin-huge-32 a100-16 1024 # where an objective is below what its kernels take
proves gpt2-xl titan-8 16
proves llama3-8b a100-8 16
proves t5-large-48 a100-64 512
proves bert-large host 16
if [ "${PLANS:-100}" -gt 100 ]; then
    proves "$(narrow vit-huge-32)" a100-16 1024
    proves vit-huge-32 a100-16 64
    proves swin-large a10g-8 16
    proves llama2-13b rtx3090-32 64
    proves gpt3-65b v100-64 64
    proves gpt3-175b h100-64 512
    proves gpt3-175b h100-1024 512
    proves qwen2-7b b200-64 64
fi
