#!/usr/bin/env bash
# test_readme.sh BUILD: the commands of the README's "Five minutes" that need no cluster, in their order, as they stand
# there but for what takes minutes: the profile's budget and the numbers of steps; and, where a sanitizer's own memory is
# part of every process that is profiled, ten times the memory. timeout_seconds: 400 cores: 1
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/support/mpi_env.sh
build=$(cd "${1:-build}" && pwd)
root=$PWD
for program in galplan galrun galplan-profile; do
    [ -x "$build/$program" ] || { echo "$program was left out of this build"; exit 77; }
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
PATH=$build:$PATH
export ASAN_OPTIONS=detect_leaks=0 # Open MPI keeps memory that is not ours to free
status=0
mkdir "$scratch/tests"
ln -s "$root/tests/demo" "$scratch/tests/demo"
cat README.md LICENSE >"$scratch/book.txt"
printf 'model,gpus,tp,global_batch\ngpt2-small,8,2,64\n' >"$scratch/layouts.csv"
cd "$scratch" || exit 1

# Indented lines that begin with a program, up to two blanks, behind which the README says what it is; and what stands
# between backquotes in a line of prose. Commands with a file of the reader's own or a NAME to fill in are left out.
section=$(sed -n '/^## Five minutes/,/^## What is there/p' "$root/README.md")
commands=$(
    sed -n 's/^    \(gal\(plan\|run\) [^ ].*\)/\1/p' <<<"$section" | sed 's/   *[a-z].*//'
    grep -o '`galplan [^`]*`' <<<"$section" | tr -d '`' | grep -v 'NAME\|measured\.csv'
)

run() { # command line
    local line
    line=$(sed -e 's/ profile --model/ profile --budget-seconds 5 --model/' -e 's/--steps 200/--steps 2/; s/--steps 400/--steps 3/' <<<"$1")
    [ -n "${SANITIZE:-}" ] && line=${line/--memory 48MiB/--memory 480MiB}
    if bash -c "$line" </dev/null >said 2>&1; then echo "ok $1"; else
        tail -n 20 said
        echo "not ok $1"
        status=1
    fi
}

while read -r command; do
    run "$command"
done <<<"$commands"
[ "$(wc -l <<<"$commands")" -ge 11 ] || { echo "not ok the README's commands are found"; status=1; }
exit $status
