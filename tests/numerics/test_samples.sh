#!/usr/bin/env bash
# test_samples.sh BUILD: the sample scripts measure and train: mpirun's with mpirun, Slurm's with an srun that is mpirun
# underneath. cores: 1
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/support/mpi_env.sh
build=$(cd "${1:-build}" && pwd)
root=$PWD
samples=$root/runtime/cli/samples
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
status=0
export GALRUN=$build/galrun GALPLAN=$build/galplan GALPLAN_PROFILE=$build/galplan-profile
# Open MPI keeps memory that is not ours to free.
export ASAN_OPTIONS=detect_leaks=0

verdict() { # what: by the status of the command before; says why not
    if [ $? -eq 0 ]; then echo "ok $1"; else
        cat "$scratch"/*.err
        echo "not ok $1"
        status=1
    fi
}

"$build/galplan" search --model tests/fixtures/valid/model.json --cluster titan-8 --devices 2 --space dp \
    -o "$scratch/plan.json" >"$scratch/search.log" 2>"$scratch/search.err" || exit 1
cp README.md "$scratch/text"
cd "$scratch" || exit 1

bash "$samples/train.mpirun.sh" plan.json text --steps 2 --log mpirun.jsonl >mpirun.out 2>mpirun.err &&
    grep -q '"step": 2, "loss"' mpirun.jsonl
verdict 'train.mpirun.sh trains with as many ranks as the plan has'

# srun as this script uses it: the tasks of the job, options first.
mkdir bin
cat >bin/srun <<'S'
#!/usr/bin/env bash
while [[ $1 == --* ]]; do echo "$1" >>srun.options; shift; done
exec mpirun -n 2 --bind-to none "$@"
S
chmod +x bin/srun
PATH=$PWD/bin:$PATH bash "$samples/train.sbatch" plan.json text --steps 2 >first.out 2>first.err &&
    [ -e checkpoints/latest ]
verdict 'train.sbatch trains and saves'
PATH=$PWD/bin:$PATH bash "$samples/train.sbatch" plan.json text --steps 3 --log second.jsonl >second.out 2>second.err &&
    grep -q '"step": 3, "loss"' second.jsonl && ! grep -q '"step": 2, "loss"' second.jsonl
verdict 'train.sbatch goes on from its checkpoint'
grep -qx -e --mpi=pmix srun.options && grep -qx -e --cpu-bind=cores srun.options
verdict 'train.sbatch gives srun its options'

# Without a GPU: what galrun would run, which reads the options, the plan and the data.
PATH=$PWD/bin:$PATH CHECKPOINTS=gpu EVERY=20 bash "$samples/train.gpus.sbatch" plan.json text --dry-run >gpu.out 2>gpu.err &&
    grep -q '^plan: 2 ranks' gpu.out && [ -d gpu ] && [ -d figures ]
verdict 'train.gpus.sbatch gives galrun options that it knows'
PATH=$PWD/bin:$PATH CHECKPOINTS=checkpoints bash "$samples/train.gpus.sbatch" plan.json text --steps 9 --dry-run \
    >again.out 2>again.err && grep -q '9 steps are' again.out
verdict 'train.gpus.sbatch, where there is a checkpoint'
if command -v "$GALPLAN_PROFILE" >/dev/null; then
    PATH=$PWD/bin:$PATH DEVICE=host BUDGET_SECONDS=2 SEARCH='--batch 4 --pp 1' bash "$samples/profile.sbatch" \
        "$root/tests/fixtures/valid/model.json" --microbatches 1 >profile.out 2>profile.err &&
        "$build/galplan" check profile.json plan.json && grep -q '"global_batch_samples": 4,' plan.json
    verdict 'profile.sbatch measures two ranks and finds a plan'
else
    echo 'skip profile.sbatch: galplan-profile was left out of this build'
fi
exit $status
