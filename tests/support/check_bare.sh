#!/usr/bin/env bash
# check_bare.sh: a bare Debian 12 by debootstrap in a temporary folder, a clone of this checkout's HEAD in it, and there the
# README's two commands. MIRROR names another mirror, KEEP=1 keeps the folder. Needs root, debootstrap and a mirror; where one
# of them is missing it says so and ends with 0.
set -eu
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
skip() {
    echo "skip check-bare: $1"
    exit 0
}
[ "$(id -u)" = 0 ] || skip 'needs root, for debootstrap and chroot'
command -v debootstrap >/dev/null || skip 'needs debootstrap: apt-get install debootstrap'
mirror=${MIRROR:-} # empty: debootstrap's own
folder=$(mktemp -d "${TMPDIR:-/tmp}/galplan-bare.XXXXXX")
mounts=(proc sys dev dev/shm)

clean_up() {
    local i
    for ((i = ${#mounts[@]} - 1; i >= 0; i--)); do
        mountpoint -q "$folder/${mounts[i]}" && umount "$folder/${mounts[i]}"
    done
    if [ -n "${KEEP:-}" ]; then
        echo "kept: $folder"
    else
        rm -rf --one-file-system "$folder"
    fi
}
trap clean_up EXIT

inside() { chroot "$folder" /usr/bin/env -i HOME=/tmp PATH=/usr/sbin:/usr/bin:/sbin:/bin CI=true bash -c "$1" </dev/null; }

echo "a bare Debian 12 from ${mirror:-debootstrap's own mirror}"
debootstrap --variant=minbase --include=ca-certificates bookworm "$folder" ${mirror:+"$mirror"} >"$folder.log" 2>&1 || {
    tail -n 20 "$folder.log"
    rm -f "$folder.log"
    skip "debootstrap could not reach ${mirror:-its own mirror}: set MIRROR"
}
rm -f "$folder.log"
for mount in "${mounts[@]}"; do mount --bind "/$mount" "$folder/$mount"; done
cp -L /etc/resolv.conf /etc/hosts "$folder/etc/"
# How this machine's apt reaches its mirrors, if it is a Debian 12 itself.
if grep -q bookworm /etc/os-release; then
    cp -r /etc/apt/apt.conf.d/. "$folder/etc/apt/apt.conf.d/"
fi
inside 'apt-get -qq update && apt-get -qq -y install --no-install-recommends git make >/dev/null'
git clone -q "$root" "$folder/srv/galplan"
for command in 'make demo' 'make check'; do
    echo "$command"
    begin=$SECONDS
    status=0
    inside "cd /srv/galplan && $command" >"$folder/srv/log" 2>&1 || status=$?
    tail -n "$([ $status = 0 ] && echo 12 || echo 60)" "$folder/srv/log"
    echo "$command: exit $status after $((SECONDS - begin)) s"
    [ $status = 0 ] || exit 1
done
echo 'check-bare: both commands of the README end well on a bare Debian 12'
