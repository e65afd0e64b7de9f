#!/usr/bin/env bash
# Two hosts of two ranks each on one machine: network namespaces with host names of their own, joined by a link of 100
# Mbit/s. The profile finds the islands, the search keeps the heavy traffic inside them, and the losses are one rank's.
# Prints "ok" or "not ok" a check.
#
# The link is slow so that the islands show on a busy machine too: the rates inside a host fall with the cores that the
# ranks get, the limit of the link does not, and the first must stay above five times the second.
set -eu
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=${BUILD:-$root/build}
here=$root/tests/hosts
skip() {
    echo "skip two hosts: $1"
    exit 0
}
[ "$(id -u)" = 0 ] || skip 'needs root, for network namespaces'
for tool in ip tc unshare; do command -v $tool >/dev/null || skip "needs $tool (iproute2, util-linux)"; done
. "$root/tests/support/mpi_env.sh"
export OMPI_MCA_btl=self,vader,tcp GALPLAN_HOSTS=galplan-$$
folder=$(mktemp -d)
clean_up() {
    ip netns del "$GALPLAN_HOSTS-a" 2>/dev/null || true
    ip netns del "$GALPLAN_HOSTS-b" 2>/dev/null || true
    rm -rf "$folder"
}
trap clean_up EXIT
ip netns add "$GALPLAN_HOSTS-a" 2>"$folder/why" || skip "network namespaces are refused: $(cat "$folder/why")"
ip netns add "$GALPLAN_HOSTS-b"
ip link add gal-a netns "$GALPLAN_HOSTS-a" type veth peer name gal-b netns "$GALPLAN_HOSTS-b"
number=1
for side in a b; do
    ip -n "$GALPLAN_HOSTS-$side" addr add 10.77.0.$number/24 dev gal-$side
    ip -n "$GALPLAN_HOSTS-$side" link set lo up
    ip -n "$GALPLAN_HOSTS-$side" link set gal-$side up
    ip netns exec "$GALPLAN_HOSTS-$side" tc qdisc add dev gal-$side root tbf rate 100mbit burst 16kb latency 100ms 2>"$folder/why" ||
        skip "links cannot be limited: $(cat "$folder/why")"
    number=$((number + 1))
done

on_both() { # PROGRAM ARG...: two ranks on each host
    ip netns exec "$GALPLAN_HOSTS-a" unshare --uts bash -c 'hostname galplan-a; exec timeout -k 5 100 mpirun \
        --host 10.77.0.1:2,10.77.0.2:2 --mca plm_rsh_agent "$0" --mca oob_tcp_if_include 10.77.0.0/24 \
        --mca btl_tcp_if_include 10.77.0.0/24 "$@"' "$here/rsh_agent.sh" "$@"
}
field() { sed -n "s/.*\"$2\": \([0-9.e+-]*\).*/\1/p" "$1"; }

cd "$folder"
on_both "$build/galplan-profile" --model "$here/model.json" --microbatches 1,2,4 --budget-seconds 10 -o profile.json >profile.txt
spans=$(field profile.json span_devices | tr '\n' ' ')
[ "$spans" = '2 4 ' ] && echo 'ok islands: two devices inside, four in all' || echo "not ok islands: spans $spans"
set -- $(field profile.json bytes_per_second | tr '\n' ' ')
awk -v inside="$1" -v outside="$2" 'BEGIN { exit !(inside > 5 * outside && outside > 2.5e6 && outside < 25e6) }' &&
    echo "ok links: $1 bytes/s inside, $2 across (limited to 12.5e6)" ||
    echo "not ok links: $1 bytes/s inside, $2 across (limited to 12.5e6)"

"$build/galplan" search --model "$here/model.json" --profile profile.json --pp 1 --microbatches 1 -o plan.json >search.txt
set -- $("$build/tests/hosts/traffic" plan.json 2)
sed -n '/stage  devices/,$p' search.txt
echo "chosen: $1 bytes inside, $2 across a step"
chosen=$2 least=
for space in dp tp tp,sp sdp,zero1 sdp,zero3; do
    "$build/galplan" search --model "$here/model.json" --profile profile.json --pp 1 --microbatches 1 --space $space \
        -o other.json >/dev/null 2>&1 || continue
    set -- $("$build/tests/hosts/traffic" other.json 2)
    echo "$space over all four: $2 across"
    [ -z "$least" ] || [ "$2" -lt "$least" ] && least=$2
done
[ -n "$least" ] && [ "$chosen" -le "$least" ] && echo 'ok the plan sends no more across than any uniform one' ||
    echo "not ok the plan sends $chosen bytes across, a uniform one $least"

cat "$root"/schemas/*.h >text
"$build/galplan" search --model "$here/model.json" --cluster "$root/tests/fixtures/valid/cluster_one_device.json" -o one.json >/dev/null
for plan in plan one; do
    launch=on_both
    [ $plan = plan ] || launch=
    $launch "$build/galrun" $plan.json --data text --steps 5 --evaluate-batches 2 -q --log $plan.log >/dev/null
    sed -n 's/.*"event": "step".*"loss": \([0-9.e+-]*\),.*/\1/p; s/.*"event": "evaluation".*"validation_loss": \([0-9.e+-]*\),.*/\1/p' \
        $plan.log >$plan.losses
done
paste plan.losses one.losses | awk 'function abs(x) { return x < 0 ? -x : x }
    { n++; if (abs($1 - $2) > 1e-10 * $2) bad++ } END { exit !(n == 6 && !bad) }' &&
    echo 'ok six losses are those of one rank, to 1e-10' ||
    { echo 'not ok losses differ:'; paste plan.losses one.losses; }
