#!/bin/sh
# Writes the C source of the catalogue on stdout: embed.sh FOLDER. Names of kind <kind> are the documents
# FOLDER/<kind>s/<name>.json and the rows "name, tab, words" of FOLDER/<kind>s/words.tsv; those of group <group> are
# likewise in FOLDER/<kind>s/<group>/. An entry is one string literal: at most 4095 characters, as C11 promises.
set -eu
LC_ALL=C
export LC_ALL

entries() { # folder kind group
    if [ -f "$1/words.tsv" ]; then
        sed -e 's/["\\]/\\&/g' -e "s/^\([^	]*\)	\(.*\)\$/{\"$2\", \"$3\", \"\1\", \"\2\"},/" "$1/words.tsv"
    fi
    for file in "$1"/*.json; do
        [ -f "$file" ] || continue
        echo "{\"$2\", \"$3\", \"$(basename "$file" .json)\","
        sed -e 's/^ *//' -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/"/' -e 's/$/\\n"/' "$file"
        echo '},'
    done
}

echo '#include "schemas/catalogue/catalogue.h"'
echo 'const gal_catalogue_entry gal_catalogue_entries[] = {'
for kind in "$1"/*/; do
    kind=$(basename "$kind")
    entries "$1/$kind" "${kind%s}" ''
    for group in "$1/$kind"/*/; do
        if [ -d "$group" ]; then
            entries "$1/$kind/$(basename "$group")" "${kind%s}" "$(basename "$group")"
        fi
    done
done
echo '};'
echo 'const uint32_t gal_catalogue_entry_count = sizeof gal_catalogue_entries / sizeof gal_catalogue_entries[0];'
