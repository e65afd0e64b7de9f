#!/usr/bin/env bash
# Trains by a plan under mpirun:   bash train.mpirun.sh PLAN DATA [galrun's options...]
#
# RANKS   ranks to start; default: as many as the plan has devices
# HOSTS   "node1:8,node2:8" for several machines; default: this one. All must see PLAN, DATA and --save under one path.
# GALRUN  the program; default: galrun on PATH
#
# To end early and save: kill -USR1 the process of mpirun, which passes it on; SIGTERM makes mpirun kill the ranks.
set -eu
plan=${1:?give a plan} data=${2:?give the text or token file}
shift 2
ranks=${RANKS:-$(sed -n 's/^ *"device_count": *\([0-9]*\).*/\1/p' "$plan" | head -n 1)}

# --bind-to none: galrun divides the cores of a host among its ranks itself and prints them with -v.
exec mpirun -n "$ranks" ${HOSTS:+--host "$HOSTS"} --bind-to none "${GALRUN:-galrun}" "$plan" --data "$data" "$@"
