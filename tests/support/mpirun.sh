#!/usr/bin/env bash
# mpirun.sh N [mpirun's options] PROGRAM ARG...: N ranks on this machine, ended after MPIRUN_TIMEOUT seconds (120). Each
# stays on one core: more ranks than cores would be moved about as they give way to each other, on a busy machine to twice
# the time.
set -eu
. "$(dirname "${BASH_SOURCE[0]}")/mpi_env.sh"
ranks=$1
shift
exec timeout -k 5 "${MPIRUN_TIMEOUT:-120}" mpirun --oversubscribe --map-by core --bind-to core:overload-allowed:if-supported \
    -np "$ranks" "$@"
