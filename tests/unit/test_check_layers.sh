#!/usr/bin/env bash
# tests/check_layers.sh against a small tree: it accepts the right arrows and names each wrong one; and against all that
# is here.
set -eu
check=$(dirname "${BASH_SOURCE[0]}")/../check_layers.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
status=0

expect() { # name exit path line: the verdict on a tree whose only file holds that line
    rm -rf "${tree:?}"/*
    mkdir -p "$tree/$(dirname "$3")"
    echo "$4" >"$tree/$3"
    local got=0
    output=$(bash "$check" "$tree") || got=$?
    [ $got -ne 0 ] && got=1
    if [ $got -eq "$2" ] && { [ "$2" -eq 0 ] || [[ $output == "$3:1:"* ]]; }; then
        echo "ok $1"
    else
        echo "not ok $1"
        echo "$output"
        status=1
    fi
}

expect right_arrow 0 costmodel/a.c '#include "runtime/program/program.h"'
expect schemas_up 1 schemas/a.c '#include "costmodel/a.h"'
expect program_to_engine 1 runtime/program/a.c '#include "runtime/engine/engine.h"'
expect planner_to_comm 1 planner/cli/a.c '#include "runtime/comm/comm.h"'
expect ops_to_train 1 runtime/ops/a.c '#include "runtime/train/train.h"'
expect cli_from_outside 1 planner/a.c '#include "planner/cli/a.h"'
expect cli_from_inside 0 planner/cli/a.c '#include "planner/cli/a.h"'
expect not_from_root 1 planner/a.c '#include "a.h"'
expect mpi_in_planner 1 planner/a.c '#include <mpi.h>'
expect glpk_in_runtime 1 runtime/a.c '#include <glpk.h>'
expect cblas_in_ops 0 runtime/ops/host/a.c '#include <cblas.h>'
if output=$(bash "$check"); then
    echo 'ok every include of this repository'
else
    echo 'not ok every include of this repository'
    echo "$output"
    status=1
fi
exit $status
