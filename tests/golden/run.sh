#!/usr/bin/env bash
# run.sh [BUILD [--renew]]: a case is a folder here with
#
#   cmd      what bash runs, in an empty folder of its own, with the built programs on PATH and ROOT the repository's root
#   stdout, stderr, exit   what must come of it, byte for byte; none of these: empty, empty, 0
#   filter   optional sed script that both streams pass first: for what differs by machine, and nothing else
#   files/   optional: copied into the folder first
#
# With --renew the expected output becomes what comes. timeout_seconds: 300
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/support/mpi_env.sh
export ROOT=$PWD LC_ALL=C COLUMNS=80
PATH="$(cd "${1:-build}" && pwd):$PATH"
renew=${2-}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

keep() { # from to: an empty file is left out
    if [ -s "$1" ]; then cp "$1" "$2"; else rm -f "$2"; fi
}

same() { # name expected got
    [ -f "$2" ] || set -- "$1" /dev/null "$3"
    diff -u --label "$1 expected" --label "$1 got" "$2" "$3"
}

count=0
status=0
for folder in tests/golden/*/; do
    name=$(basename "$folder")
    [ -f "$folder/cmd" ] || continue
    count=$((count + 1))
    work=$scratch/$name
    mkdir -p "$work/in" "$work/out"
    [ -d "$folder/files" ] && cp -R "$folder/files/." "$work/in"
    got=0
    (cd "$work/in" && bash "$ROOT/$folder/cmd") >"$work/out/stdout" 2>"$work/out/stderr" </dev/null || got=$?
    if [ -f "$folder/filter" ]; then
        sed -E -i -f "$folder/filter" "$work/out/stdout" "$work/out/stderr"
    fi
    : >"$work/out/exit"
    [ $got -eq 0 ] || echo $got >"$work/out/exit"
    verdict=ok
    for part in stdout stderr exit; do
        if [ -n "$renew" ]; then
            keep "$work/out/$part" "$folder/$part"
        else
            same "$name/$part" "$folder/$part" "$work/out/$part" || verdict='not ok' status=1
        fi
    done
    echo "$verdict $name"
done
if [ $count -eq 0 ]; then
    echo "golden: no case" >&2
    exit 1
fi
exit $status
