#!/usr/bin/env bash
# test_options_listed.sh BUILD: help, manual page and bash completion of every command name the same options, and the
# command accepts these and no other.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/support/mpi_env.sh
build=${1:-build}
status=0

verdict() { # what, good
    if [ "$2" = yes ]; then echo "ok $1"; else
        echo "not ok $1"
        status=1
    fi
}

# What each of the three lists, as sorted lines: --name or -x.
of_help() { sed -n 's/^  \(-[a-z], \|    \)\(--[a-z0-9-]*\).*/\1\2/p' | tr -d ',' | tr -s ' ' '\n' | grep . | sort; }
of_man() { sed -n 's/^\\fB\(\\-.*\)$/\1/p' | sed -e 's/ \\fI.*//' -e 's/\\fR//g; s/\\fB//g; s/\\-/-/g; s/,//' | tr ' ' '\n' | sort; }
of_completion() { sed -n "s/^    '$1 '\*) echo '\(.*\)' ;;/\1/p" | tr ' ' '\n' | sort; }

# The command refuses each of these words, if it does, for another reason than not knowing it. A value that no option
# takes ends the parse at the option.
accepts() { # word command...
    local word=$1
    shift
    [[ $("$@" "$word" </dev/null 2>&1 >/dev/null) != *'unknown option'* ]]
}

commands=$("$build/galplan" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
"$build/galplan" --completion >"$build/completion.galplan"
"$build/galrun" --completion >"$build/completion.galrun"
all=$(for name in $commands; do "$build/galplan" "$name" --help | of_help; done | sort -u
    "$build/galrun" --help | of_help)
all=$(printf '%s\n' $all --no-such-option -Z | sort -u)

check() { # title command-in-completion completion-file command...
    local title=$1 key=$2 file=$3 word bad=''
    shift 3
    local listed
    listed=$("$@" --help | of_help)
    [ -n "$listed" ] && [ "$listed" = "$("$@" --man | of_man)" ]
    verdict "$title: help and manual page" $([ $? -eq 0 ] && echo yes)
    [ "$listed" = "$(of_completion "$key" <"$file")" ]
    verdict "$title: help and completion" $([ $? -eq 0 ] && echo yes)
    for word in $all; do
        if [[ $'\n'$listed$'\n' == *$'\n'$word$'\n'* ]]; then
            accepts "$word" "$@" || bad="$bad $word"
        else
            accepts "$word" "$@" && bad="$bad $word"
        fi
    done
    [ -z "$bad" ] || echo "wrong:$bad"
    verdict "$title: help and what is accepted" $([ -z "$bad" ] && echo yes)
}

for name in $commands; do
    check "galplan $name" "$name" "$build/completion.galplan" "$build/galplan" "$name"
done
check galrun '' "$build/completion.galrun" "$build/galrun"

# Bash reads the scripts and offers what was typed halfway.
offered() { # script function words...
    (
        . "$1"
        COMP_WORDS=("${@:3}")
        COMP_CWORD=$(($# - 3))
        "$2"
        echo "${COMPREPLY[*]}"
    )
}
[ "$(offered "$build/completion.galplan" _galplan galplan sea)" = search ] &&
    [ "$(offered "$build/completion.galplan" _galplan galplan search --clu)" = --cluster ] &&
    [ "$(offered "$build/completion.galrun" _galrun galrun plan.json --on-nan st)" = stop ] &&
    [ -z "$(offered "$build/completion.galplan" _galplan galplan search --model '')" ] &&
    [ "$(offered "$build/completion.galrun" _galrun galrun plan.json --dr)" = --dry-run ]
verdict 'completion in bash' $([ $? -eq 0 ] && echo yes)

[ "$("$build/galplan" --man | sed -n 's/^\.BR galplan\\-\([a-z]*\) (1)$/\1/p')" = "$commands" ]
verdict 'manual page of galplan names every command' $([ $? -eq 0 ] && echo yes)
exit $status
