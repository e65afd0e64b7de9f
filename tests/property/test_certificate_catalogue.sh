#!/usr/bin/env bash
# test_certificate_catalogue.sh BUILD: what searches of the catalogue claim is proved again, whatever the model's family,
# its precision and the way it is cut; make check-all (PLANS above 100) tries more. timeout_seconds: 300
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
galplan=$(cd "${1:-build}" && pwd)/galplan
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

proves() { # model cluster batch dtype
    local name="$1 in $4 on $2, $3 samples"
    if ! "$galplan" search --model "$1" --dtype "$4" --cluster "$2" --batch "$3" -q -o "$scratch/plan.json" >"$scratch/out" 2>&1; then
        sed 's/^/    /' "$scratch/out"
        echo "not ok $name: no plan"
    elif ! "$galplan" verify "$scratch/plan.json" >"$scratch/out" 2>&1 || ! grep -q '^bound *ok: ' "$scratch/out"; then
        sed 's/^/    /' "$scratch/out"
        echo "not ok $name: the bound is not proved"
    else
        echo "ok $name"
    fi
}

proves swin-huge-32 a100-16 1024 fp32 # where an objective is below what its kernels take
proves gpt2-xl titan-8 16 fp32
proves llama3-8b a100-8 16 fp32
proves t5-large-48 a100-64 512 fp32
proves bert-large host 16 fp32
proves gpt2-xl titan-8 16 fp16
proves llama3-8b a100-8 16 bf16
proves qwen2-7b l4-8 16 bf16 # little memory, slow links
proves llama2-7b rtx3090-32 64 bf16
proves bert-large a10g-8 16 bf16
if [ "${PLANS:-100}" -gt 100 ]; then
    for dtype in fp32 bf16; do
        proves vit-huge-32 a100-16 1024 $dtype
        proves vit-huge-32 a100-16 64 $dtype
        proves swin-large a10g-8 16 $dtype
        proves t5-large-48 a100-64 512 $dtype
        proves llama2-13b rtx3090-32 64 $dtype
        proves gpt3-175b h100-64 512 $dtype
        proves gpt3-175b h100-1024 512 $dtype
        proves qwen2-7b b200-64 64 $dtype
    done
    proves gpt3-65b v100-64 64 fp32
    proves gpt3-65b v100-64 64 fp16
    proves llama3-70b h100-64 128 bf16
fi
