#!/usr/bin/env bash
# test_profile_analytic.sh BUILD: galplan profile --analytic writes a good profile without galplan-profile, and a search
# with it finds the plan and the seconds that the cluster alone gives.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=$(cd "${1:-build}" && pwd)
valid=$PWD/tests/fixtures/valid
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp "$build/galplan" "$scratch/" # alone: no galplan-profile beside it
cd "$scratch" || exit 1
status=0

verdict() { # what: by the status of the command before
    if [ $? -eq 0 ]; then echo "ok $1"; else
        echo "not ok $1"
        status=1
    fi
}

without_hash() { sed '/"profile_hash"/d' "$1"; }

same() { # cluster model search-options...: by --cluster and by --profile
    local cluster=$1 model=$2
    shift 2
    ./galplan profile --analytic "$cluster" --model "$model" -o profile.json || return 1
    ./galplan check profile.json >/dev/null || return 1
    ./galplan search --model "$model" --cluster "$cluster" "$@" -o straight.json >straight.txt || return 1
    ./galplan search --model "$model" --profile profile.json "$@" -o profiled.json >profiled.txt || return 1
    # The next commands name the profile.
    cmp <(sed '/^next:/,$d' straight.txt) <(sed '/^next:/,$d' profiled.txt) && cmp <(without_hash straight.json) <(without_hash profiled.json)
}

same titan-8 "$valid/model.json" --microbatches 1,2,4
verdict 'a cluster of the catalogue: the same plan, the same seconds'
grep -q '"op": "gemm"' profile.json && grep -q '"op": "all_reduce"' profile.json &&
    [ "$(grep -c '"source": "analytic"' profile.json)" -eq "$(grep -c '"source":' profile.json)" ]
verdict 'every entry is analytic'
same "$valid/cluster_gpu.json" "$valid/model.json"
verdict "a user's own cluster"
same titan-8 "$valid/model_t5.json" --microbatches 1,2
verdict 'an encoder-decoder'
same a100-16 gpt2-small --batch 32 --microbatches 4 --pp 1,2 --label-limit 200
verdict 'two levels of links'
sed 's/\("seconds": [0-9.]*e\)-0*\([0-9]*\)/\1-0/' profile.json >slower.json
./galplan search --model gpt2-small --profile slower.json --batch 32 --microbatches 4 --pp 1,2 --label-limit 200 >slower.txt
! cmp -s profiled.txt slower.txt
verdict 'its entries are what the search goes by'
./galplan profile --analytic=a100-16 --model gpt2-small -o again.json && cmp profile.json again.json
verdict 'the same input, the same bytes'
./galplan profile --analytic host -o - "$valid/model.json" "$valid/model_untied.json" 2>/dev/null | cmp -s - /dev/null
[ $? -ne 0 ] && ./galplan profile --analytic host -o empty.json && grep -q '"operators": \[\]' empty.json
verdict 'models are a choice'
./galplan profile --analytic titan-8 2>err
[ $? -eq 2 ] && grep -q 'output' err && ./galplan profile --analytic titan-9 -o x.json 2>err
[ $? -eq 2 ] && grep -q 'titan-9: no such file, and no cluster of that name ships' err && [ ! -e x.json ]
verdict 'what is missing is named'
./galplan profile --model gpt2-small -o x.json 2>err
[ $? -eq 4 ] && grep -q "'galplan profile --analytic CLUSTER' needs none of them" err
verdict 'without galplan-profile the way that is left is named'
exit $status
