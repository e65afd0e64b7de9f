#!/bin/sh
# setup.sh check|demo|demo-digits: sees that the Debian packages that make check or that demo needs are installed. Missing ones are
# installed as root or by sudo if that asks for no password; else the command to type is printed, and the exit is 1.
# Where there is no dpkg it says what is needed and leaves the rest to the build, which names what it cannot find.
set -eu

packages='gcc libc6-dev make pkg-config libcjson-dev libglpk-dev libhwloc-dev libopenblas-pthread-dev libopenmpi-dev
liburing-dev openmpi-bin'
case ${1-} in
check) packages="$packages g++ iproute2 libcmocka-dev procps python3 python3-jsonschema" ;;
demo) packages="$packages bible-kjv" ;; # the King James Bible, 4.4 MB of text in the public domain
demo-digits) packages="$packages python3 python3-sklearn" ;; # the digits come with it
*)
    echo 'usage: setup.sh check|demo|demo-digits' >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null; then
    echo "setup: not a Debian system; what Debian calls" $packages "must be there" >&2
    exit 0
fi

# A renamed or virtual package (pkgconf for pkg-config) is there when an installed one provides it.
installed=$(dpkg-query -W -f '${db:Status-Status}, ${Package}, ${Provides},\n' | grep '^installed,')
missing=
for package in $packages; do
    printf '%s\n' "$installed" | grep -Eq " $package(,| \()" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

install="apt-get update && apt-get install -y --no-install-recommends$missing"
if [ "$(id -u)" -eq 0 ]; then
    privileged='sh -c'
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    privileged='sudo -n sh -c'
else
    echo "setup: packages are missing; type" >&2
    echo "    sudo sh -c '$install'" >&2
    exit 1
fi
echo "setup: $install"
export DEBIAN_FRONTEND=noninteractive
if ! $privileged "$install" >&2; then
    echo "setup: that failed; once it works, type make again" >&2
    exit 1
fi
