#!/bin/sh
# Writes the C source of the catalogue on stdout: embed.sh FOLDER, where FOLDER/<kind>s/<name>.json are the documents.
# An entry is one string literal: at most 4095 characters, as C11 promises.
set -eu
LC_ALL=C
export LC_ALL
echo '#include "schemas/catalogue/catalogue.h"'
echo 'const gal_catalogue_entry gal_catalogue_entries[] = {'
for file in "$1"/*/*.json; do
    kind=$(basename "$(dirname "$file")")
    echo "{\"${kind%s}\", \"$(basename "$file" .json)\","
    sed -e 's/^ *//' -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/"/' -e 's/$/\\n"/' "$file"
    echo '},'
done
echo '};'
echo 'const uint32_t gal_catalogue_entry_count = sizeof gal_catalogue_entries / sizeof gal_catalogue_entries[0];'
