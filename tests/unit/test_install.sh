#!/usr/bin/env bash
# test_install.sh BUILD: make install puts programs, pages, completion and samples below DESTDIR and PREFIX, they work from
# there, and make uninstall takes all away.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/support/mpi_env.sh
build=$(cd "${1:-build}" && pwd)
to=$(mktemp -d)
trap 'rm -rf "$to"' EXIT
status=0

verdict() { # what: by the status of the command before
    if [ $? -eq 0 ]; then echo "ok $1"; else
        echo "not ok $1"
        status=1
    fi
}

# The programs are those of the check: nothing is compiled again.
tasks() { make --no-print-directory -o all BUILD="$build" DESTDIR="$to" PREFIX=/opt/here "$@" >"$to/log" 2>&1 || {
    cat "$to/log"
    return 1
}; }

tasks install
verdict 'make install'
here=$to/opt/here
[ "$(find "$to" -maxdepth 1 -mindepth 1 ! -name log)" = "$to/opt" ]
verdict 'nothing is outside PREFIX'
cd "$to" || exit 1
"$here/bin/galplan" search --model gpt2-small --cluster h100-8 --devices 1 --batch 8 --space dp -o plan.json >/dev/null &&
    "$here/bin/galplan" verify plan.json >/dev/null
verdict 'galplan runs from there'
"$here/bin/galplan" profile --help | grep -q '^usage: galplan profile'
verdict 'galplan finds galplan-profile beside it'
"$here/bin/galrun" --help | grep -q '^usage: galrun'
verdict 'galrun runs from there'

pages=$(cd "$here/share/man/man1" && ls)
wanted=$({
    echo galplan.1
    echo galrun.1
    "$here/bin/galplan" --help | sed -n 's/^  \([a-z]*\)  .*/galplan-\1.1/p'
} | sort)
[ "$(LC_ALL=C sort <<<"$pages")" = "$(LC_ALL=C sort <<<"$wanted")" ]
verdict 'a manual page per command'
if command -v groff >/dev/null; then
    said=$(for page in "$here"/share/man/man1/*; do groff -man -Tascii -ww -z "$page" 2>&1; done)
    [ -z "$said" ] || { echo "$said" && false; }
    verdict 'troff takes the pages without a warning'
else
    echo 'skip troff takes the pages: no groff'
fi
bash -n "$here/share/bash-completion/completions/galplan" && bash -n "$here/share/bash-completion/completions/galrun"
verdict 'completion is good bash'
for sample in "$here"/share/galplan/samples/*; do
    bash -n "$sample" || break
done
verdict 'samples are good bash'

cd "$OLDPWD" || exit 1
tasks uninstall
[ -z "$(find "$here" -type f)" ]
verdict 'make uninstall leaves no file'
exit $status
