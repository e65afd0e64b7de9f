# Sourced by the demos, which have set `name` and take the build's folder as their argument. Sets `here`, where the
# demos' files are, and goes to build/name; the programs are on PATH.
build=$(cd "${1:-build}" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
PATH=$build:$PATH
mkdir -p "$build/$name"
cd "$build/$name"

step() { printf '\n== %s\n' "$*"; }
run() { printf '$ %s\n' "$*"; "$@"; }

make_text() { # text.txt
    step "the text: the King James Bible (Debian package bible-kjv), verses without their references"
    command -v bible >/dev/null || { echo "demo: the command 'bible' is missing: apt-get install bible-kjv" >&2; exit 1; }
    bible -f gen1:1-rev22:21 </dev/null | sed 's/^[^ ]* //' >text.txt
    wc -c text.txt
}

final() { # key: its number at the end of the training that wrote log.jsonl
    sed -n 's/.*"event": "final".*"'"$1"'": \([0-9.e+-]*\).*/\1/p' log.jsonl
}
