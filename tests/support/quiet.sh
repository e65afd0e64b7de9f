#!/bin/sh
# quiet.sh WHAT LOG COMMAND...: runs a command whose output few want to read: one line, the output in LOG. If the command
# fails, the end of the output follows, and the exit code is the command's.
set -u
what=$1 log=$2
shift 2
mkdir -p "$(dirname "$log")"
printf '%s (%s)\n' "$what" "$log"
code=0
"$@" >"$log" 2>&1 </dev/null || code=$?
if [ $code -ne 0 ]; then
    tail -n 60 "$log" >&2
    echo "$what: exit $code; the whole output is in $log" >&2
fi
exit $code
