#!/usr/bin/env bash
# test_galvatron.sh BUILD: strategies of Hetu-Galvatron that galplan verifies and galrun trains by, those that it refuses,
# plans of ours as strategies, and what reproduce prints with its time.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/support/mpi_env.sh
build=$(cd "${1:-build}" && pwd)
root=$PWD
valid=$root/tests/fixtures/valid
peer=$root/tests/fixtures/galvatron
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
PATH=$build:$PATH
export ASAN_OPTIONS=detect_leaks=0 # Open MPI keeps memory that is not ours to free
status=0

verdict() { # what: by the status of the command before
    if [ $? -eq 0 ]; then echo "ok $1"; else
        echo "not ok $1"
        status=1
    fi
}

cd "$scratch" || exit 1
sed -e 's/"device_count": [0-9]*/"device_count": 2/' -e 's/"span_devices": [0-9]*/"span_devices": 2/' "$valid/cluster_one_device.json" >two.json

strategy() { # tp_sizes dp_types checkpoint vtp
    cat <<END
{"pp_deg": 1, "tp_sizes_enc": "$1", "tp_consecutive_flags": "1,1", "dp_types_enc": "$2", "use_sp": "0,0", "checkpoint": "$3",
 "world_size": 2, "global_bsz": 4, "chunks": 2, "pp_division": "2", "pipeline_type": "pipedream_flush",
 "default_dp_type": "zero2", "vtp": $4, "vsp": 0, "embed_sdp": 0}
END
}

strategy 2,1 0,1 0,1 1 >mixed.json
galplan import mixed.json --model "$valid/model.json" --cluster two.json -o plan.json &&
    galplan verify plan.json >verified.txt && grep -q ' ok: ' verified.txt
verdict 'import: a strategy of two layers is a plan that verifies'
galplan export plan.json -o back.json && galplan import back.json --name x -o back_plan.json &&
    galplan import mixed.json --name x -o mixed_plan.json && cmp -s back_plan.json mixed_plan.json
verdict 'export: the plan is the strategy that it came from'
if [ -x "$build/galrun" ]; then
    galrun plan.json --np 2 --data "$root/README.md" --steps 2 --log log.jsonl >/dev/null 2>err &&
        [ "$(grep -c '"event": "step"' log.jsonl)" -eq 2 ]
    verdict 'galrun: trains by it'
    sed 's/"use_sp": "0,0"/"use_sp": "1,0"/' mixed.json >ulysses.json
    galplan import ulysses.json -o ulysses_plan.json && galplan check ulysses_plan.json >/dev/null
    verdict 'import: Ulysses is a galvatron_plan'
    galrun ulysses_plan.json --data "$root/README.md" >/dev/null 2>err
    [ $? -eq 3 ] && grep -q 'must be "plan", got "galvatron_plan"' err
    verdict 'galrun: refuses it with exit 3'
    galplan import ulysses.json --model "$valid/model.json" --cluster two.json -o split.json &&
        galplan verify split.json >verified.txt && grep -q '"kind": "ulysses"' split.json &&
        galrun split.json --np 2 --data "$root/README.md" --steps 2 --log split.jsonl >/dev/null 2>err &&
        [ "$(grep -c '"event": "step"' split.jsonl)" -eq 2 ]
    verdict 'import: a plan of ours with Ulysses, by which galrun trains'
else
    echo 'skip galrun: it was left out of this build'
fi

# A plan of our search, as one of theirs.
galplan search --model gpt2-small --cluster h100-8 --devices 4 --batch 32 --microbatches 4 --space dp,zero2,zero3,tp,sp,recompute \
    -o searched.json >/dev/null
galplan export searched.json -o searched_export.json 2>err
case $? in
0) [ "$(grep -c '"embed_sdp"\|"vocab_sdp"' searched_export.json)" -eq 2 ] ;;
3) grep -q 'Hetu-Galvatron has no ' err ;;
*) false ;;
esac
verdict 'export: a searched plan is said, or what it is that cannot be'

galplan import "$peer"/hardware/*_1nodes_8gpus* "$peer"/hardware/overlap* "$peer"/model/* --model llama2-7b --sequence 2048 -o llama.json
verdict 'import: six files'
galplan reproduce galvatron llama.json --memory 80GiB --batch 64 --microbatches 8 --timing >timed.txt &&
    grep -q '^searched [0-9]* cells, solved [0-9]* in [0-9.]* ms$' timed.txt &&
    [ "$(galplan reproduce galvatron llama.json --memory 80GiB --batch 64 --microbatches 8 --json --timing | grep -c '"search_seconds"')" -eq 1 ] &&
    [ "$(galplan reproduce galvatron llama.json --memory 80GiB --batch 64 --microbatches 8 --json | grep -c '"search_seconds"')" -eq 0 ]
verdict 'reproduce --timing'
galplan import "$peer"/hardware/*_2nodes_8gpus* "$peer"/hardware/overlap* "$peer"/model/* --model llama2-7b --sequence 2048 -o two_nodes.json &&
    grep -q '"device_count": 16' two_nodes.json
verdict 'import: two nodes, without the times of collectives that they lack'
galplan reproduce galvatron two_nodes.json --memory 40GiB --batch 64 --microbatches 4 >dp.txt 2>err &&
    grep -q 'no row for times of all-to-alls among devices: 2' err && ! grep -q ' x tp' dp.txt
verdict 'reproduce: says what the profile lacks, and does without'
exit $status
