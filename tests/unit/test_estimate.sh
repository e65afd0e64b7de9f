#!/usr/bin/env bash
# test_estimate.sh BUILD: galplan estimate against search and simulate, on limits that must hold, and what it refuses.
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

# field NAME FILE ROW: a field of the answer
field() { awk -F, -v name="$1" -v row="$3" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) c = i } NR == row + 1 { print $c }' "$2"; }

cd "$scratch" || exit 1

# galrun's prices: the plan of a search of one strategy, estimated as a row.
galplan search --model gpt2-small --cluster h100-8 --devices 4 --batch 32 --microbatches 4 --pp 1 --space dp \
    -o plan.json >/dev/null 2>err
galplan simulate plan.json --json >simulated.json
cat >one.csv <<'END'
model,cluster,gpus,microbatch,global_batch
gpt2-small,h100-8,4,2,32
END
galplan estimate one.csv >one.out
awk -v a="$(field estimated_seconds one.out 1)" -v b="$(sed -n 's/.*"simulated_seconds": \([0-9.e-]*\).*/\1/p' simulated.json)" \
    'BEGIN { exit !(a > 0 && (a - b) / b < 1e-5 && (b - a) / b < 1e-5) }'
verdict 'galrun: the seconds of simulate'
[ "$(field estimated_bytes one.out 1)" = "$(sed -n 's/.*"bytes": \([0-9]*\).*/\1/p' simulated.json | head -1)" ]
verdict 'galrun: the bytes of simulate'

# Intervals of a measured profile: of the repeats' spread too. One device: kernels alone, all of them in the profile.
printf 'model,gpus,microbatch,global_batch\ngpt2-small,1,4,4\n' >alone.csv
galplan profile --analytic h100-8 --model gpt2-small --dtype fp32 -o sheets.json
sed 's/"source": "analytic"/"source": "measured"/' sheets.json >measured.json
awk '/"seconds":/ { split($2, s, ","); seconds = s[1] } /"spread_seconds":/ { $0 = sprintf("      \"spread_seconds\": %.17g,", 0.3 * seconds) } 1' \
    measured.json >spread.json
for profile in sheets measured spread; do
    galplan estimate alone.csv --dtype fp32 --cluster h100-8 --profile $profile.json >$profile.out || echo "$profile fails"
done
# half a width in log units: 0.5 of data sheets, 0.2 of what was measured once, hypot(0.2, 1.645 x 0.3 / 0.6745) = 0.758
width() { awk -v low="$(field low_seconds "$1" 1)" -v high="$(field high_seconds "$1" 1)" 'BEGIN { printf "%.3f", log(high / low) / 2 }'; }
[ "$(width sheets.out) $(width measured.out) $(width spread.out)" = '0.500 0.200 0.758' ]
verdict 'galrun: the interval of a step by how its durations were had and by their spread'

# A framework: twice the work takes longer, half the memory per shard takes less; exact doubling of what is linear.
cat >many.csv <<'END'
layers,hidden,heads,seq,vocab,gpus,tp,pp,sp,zero,microbatch,global_batch,recompute
24,2048,16,1024,51200,8,1,1,0,0,4,64,none
24,2048,16,1024,51200,8,1,1,0,0,4,128,none
24,2048,16,1024,51200,8,1,1,0,0,4,64,full
24,2048,16,1024,51200,8,1,1,0,3,4,64,none
24,2048,16,1024,51200,8,8,1,0,0,4,64,none
24,2048,16,1024,51200,8,8,1,1,0,4,64,none
24,2048,16,1024,51200,8,1,4,0,0,4,64,none
END
galplan estimate many.csv --cluster a100-8 --prices framework:megatron-2021 >many.out
verdict 'framework: estimates'
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next } { s[NR - 1] = $c["estimated_seconds"]; b[NR - 1] = $c["estimated_bytes"]
    if (!($c["low_seconds"] < s[NR - 1] && s[NR - 1] < $c["high_seconds"])) exit bad = 1 }
    END { exit bad || !(s[2] > 1.5 * s[1] && s[2] < 2 * s[1] && s[3] > s[1] && s[3] < 1.5 * s[1] && b[3] < b[1] && b[4] < b[1] &&
        b[5] < b[1] && b[6] < b[5] && b[7] < b[1]) }' many.out
verdict 'framework: batch, recompute, ZeRO, TP and PP move seconds and bytes the right way'
awk 'BEGIN { print "layers,hidden,heads,seq,vocab,gpus,tp,pp,microbatch,global_batch"
    for (i = 0; i < 5000; i++) print 12 + i % 13 ",1024,16,1024,51200,8,2,2," 1 + i % 4 "," 48 }' >thousands.csv
timeout 10 galplan estimate thousands.csv --cluster a100-8 --prices framework:megatron-2021 >thousands.out &&
    [ "$(wc -l <thousands.out)" -eq 5001 ]
verdict 'framework: 5,000 rows within 10 seconds'

# refuses WHAT FILE TEXT: the table is wrong: exit 3 and that text
refuses() {
    galplan estimate "$2" --cluster a100-8 --prices framework:megatron-2021 >out 2>err
    [ $? -eq 3 ] && grep -qF -- "$3" err || { cat err; false; }
    verdict "refused: $1"
}
# row_refused WHAT FILE TEXT: the last row is refused with that text, the row in front of it has an estimate
row_refused() {
    galplan estimate "$2" --cluster a100-8 --prices framework:megatron-2021 >out 2>err &&
        tail -1 out | grep -qF -- "$3" && [ -z "$(field estimated_seconds out 2)" ] &&
        awk -v s="$(field estimated_seconds out 1)" 'BEGIN { exit !(s > 0) }' &&
        grep -qF 'note: 1 of 2 rows are refused' err || { cat out err; false; }
    verdict "row refused: $1"
}
head=layers,hidden,heads,seq,vocab,gpus,tp,microbatch,global_batch
good=24,2048,16,1024,51200,8,2,4,64
table() { printf '%s\n' "$@" >bad.csv; }
table $head $good '# a comment' 24,2048,16,1024,51200,8,x,4,64
row_refused 'no number' bad.csv '"column tp: must be a whole number from 1 to 65536, got ""x"""'
table $head $good 24,2048,16,1024,51200,8,3,4,64
row_refused 'degrees' bad.csv ',gpus 8 is no multiple of tp 3 x pp 1 = 3'
table dp,$head 4,$good 3,24,2048,16,1024,51200,8,2,4,64
row_refused 'degrees with dp' bad.csv ',gpus 8 is not dp 3 x tp 2 x pp 1 = 6'
table $head $good 24,2048,16,1024,51200,8,2,4,65
row_refused 'batch' bad.csv ',global_batch 65 is no multiple of dp x microbatch = 16'
table $head $good 24,2048,16,1024,51200,16,2,4,64
row_refused 'devices' bad.csv ',gpus 16 is more than the 8 devices of cluster a100-8'
table $head $good 24,2048,16,1024,51200,8
row_refused 'a short row' bad.csv '"must have the 9 fields of the first line, got 6"'
table $head $good $good,7
row_refused 'a long row' bad.csv '"must have the 9 fields of the first line, got 10"'
table model,gpus gpt2-small,8 'gpt2-small,"8"8'
row_refused 'quotes' bad.csv '"must be at most 128 fields, each without quotes or whole in double quotes"'
table model,layers,hidden,heads gpt2-small,,, ,,64,4
row_refused 'facts' bad.csv '"must have a model, or its layers"'
table model,layers gpt2-small, swin-tiny,4
row_refused 'facts beside a family' bad.csv 'must have no facts beside a model of this family'
table model,heads gpt2-small, bert-base,7
row_refused 'heads' bad.csv ',heads must divide hidden'
table model,microbatch gpt2-small,1 gpt2-small,2000000
row_refused 'tokens' bad.csv ',global_batch x tokens of a sample must be at most 1073741824'
table model,gpus,pp,global_batch,stage_layers 'gpt2-small,4,2,8,6;6' 'gpt2-small,4,2,8,5;6'
row_refused 'layers of stages' bad.csv 'column stage_layers: must be a number of layers for each stage, as 11;13, with the sum of all, got ""5;6""'
table model,gpus gpt2-small,8 gpt2-smal,8
row_refused 'a model that is not there' bad.csv 'did you mean ""gpt2-small""?'
table model,gpus,recompute gpt2-small,8,ckpt gpt2-small,8,ful
row_refused 'a word' bad.csv '"recompute ""ful"" is unknown; did you mean ""full""? known: none, selective, full, repeat"'
table model,gpus,cp gpt2-small,8,1 gpt2-small,8,2
row_refused 'context parallelism by a framework' bad.csv 'framework:megatron-2021 has no cp'
table model,gpus,bytes gpt2-small,8,80GB gpt2-small,8,80GX
row_refused 'a size' bad.csv 'column bytes: must be a size such as 80GB'
printf 'layer,hidden\n1,2\n' >bad.csv
refuses 'a column' bad.csv 'bad.csv:1: unknown column "layer"; did you mean "layers"? known: model, family'
printf 'model,mbs,microbatch\ngpt2-small,1,1\n' >bad.csv
refuses 'a column twice' bad.csv 'bad.csv:1: columns "mbs" and "microbatch" both say microbatch'
printf 'model,"gpus"x\ngpt2-small,8\n' >bad.csv
refuses 'quotes of names' bad.csv 'bad.csv:1: must be at most 128 fields, each without quotes or whole in double quotes'
printf 'model,gpus,pp,global_batch,stage_layers,seconds\ngpt2-small,4,2,8,,1\ngpt2-small,4,3,8,,1\n' >bad.csv
galplan profile --calibrate bad.csv --cluster a100-8 --prices framework:megatron-2021 >out 2>err
[ $? -eq 3 ] && grep -qF 'bad.csv:3: gpus 4 is no multiple of tp 1 x pp 3 = 3' err
verdict 'calibration takes no table with a wrong row'

# Positions split, as a search of that strategy alone has it; cp is zigzag for a causal model. Under a causal mask late
# positions see most: a plain ring waits for the device that has them, where attention is work and not launches.
printf 'model,gpus,mbs,gbs,cp,ring,ulysses,zero\nllama3-8b,4,2,8,4,,,\nllama3-8b,4,2,8,,4,,\nllama3-8b,4,2,8,,,4,\nllama3-8b,8,2,16,4,,,3\nllama3-8b,8,2,8,4,2,,\n' >split.csv
galplan estimate split.csv --cluster h100-8 >split.out 2>err
awk -v zigzag="$(field estimated_seconds split.out 1)" -v ring="$(field estimated_seconds split.out 2)" \
    -v ulysses="$(field estimated_seconds split.out 3)" -v both="$(field estimated_seconds split.out 4)" \
    'BEGIN { exit !(zigzag > 0 && ring > zigzag && ulysses > 0 && both > 0) }' &&
    [ "$(field refused split.out 5)" = '"of cp' ]
verdict 'galrun: cp, ring and ulysses, a ring of late positions the slower one'
galplan search --model llama3-8b --cluster h100-8 --devices 4 --batch 8 --microbatches 4 --pp 1 --space zigzag \
    --memory 1TiB -o plan.json >/dev/null 2>err
galplan simulate plan.json --json >simulated.json
awk -v a="$(field estimated_seconds split.out 1)" -v b="$(sed -n 's/.*"simulated_seconds": \([0-9.e-]*\).*/\1/p' simulated.json)" \
    'BEGIN { exit !(a > 0 && (a - b) / b < 1e-5 && (b - a) / b < 1e-5) }'
verdict 'galrun: cp has the seconds of a plan of zigzag'

printf 'model,gpus,pp,global_batch,stage_layers\ngpt2-small,4,2,8,\ngpt2-small,4,2,8,6;6\ngpt2-small,4,2,8,4;8\n' >stages.csv
for prices in galrun framework:megatron-2021; do
    galplan estimate stages.csv --cluster a100-8 --prices $prices >stages.out
    [ "$(field estimated_seconds stages.out 1)" = "$(field estimated_seconds stages.out 2)" ] &&
        awk -v even="$(field estimated_seconds stages.out 2)" -v uneven="$(field estimated_seconds stages.out 3)" \
            'BEGIN { exit !(uneven > even) }'
    verdict "$prices: layers of stages, even ones as those dealt, uneven ones slower"
done
galplan estimate one.csv --prices frame >out 2>err
[ $? -eq 2 ] && grep -qF 'must be galrun or framework:NAME, got '"'frame'" err
verdict 'refused: prices'
exit $status
