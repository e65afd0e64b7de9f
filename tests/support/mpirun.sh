#!/usr/bin/env bash
# mpirun.sh N [mpirun's options] PROGRAM ARG...: N ranks on this machine, ended after MPIRUN_TIMEOUT seconds (120).
set -eu
. "$(dirname "${BASH_SOURCE[0]}")/mpi_env.sh"
ranks=$1
shift
exec timeout -k 5 "${MPIRUN_TIMEOUT:-120}" mpirun --oversubscribe -np "$ranks" "$@"
