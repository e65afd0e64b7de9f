#!/bin/sh
# check_lean.sh FOLDER: the galplan built there runs, and is linked with none of the libraries of the other programs.
set -eu
"$1/galplan" --help >/dev/null
for program in galrun galplan-profile; do
    if [ -e "$1/$program" ]; then
        echo "check-lean: $program was built" >&2
        exit 1
    fi
done
if ldd "$1/galplan" | grep -E 'libmpi|libopenblas|libcblas|libhwloc|libcuda|libnccl'; then
    echo 'check-lean: galplan links the above' >&2
    exit 1
fi
echo 'check-lean: galplan runs and needs no MPI, OpenBLAS or hwloc'
