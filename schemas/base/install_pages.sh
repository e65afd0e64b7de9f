#!/bin/sh
# install_pages.sh BIN MAN COMPLETION: the programs in BIN print their manual pages and completion into the two folders.
set -eu
bin=$1 man=$2 completion=$3
if [ -x "$bin/galplan" ]; then
    "$bin/galplan" --man >"$man/galplan.1"
    "$bin/galplan" --completion >"$completion/galplan"
    for name in $("$bin/galplan" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
        if [ "$name" != profile ] || [ -x "$bin/galplan-profile" ]; then
            "$bin/galplan" "$name" --man >"$man/galplan-$name.1"
        fi
    done
fi
if [ -x "$bin/galrun" ]; then
    "$bin/galrun" --man >"$man/galrun.1"
    "$bin/galrun" --completion >"$completion/galrun"
fi
