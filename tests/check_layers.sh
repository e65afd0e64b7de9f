#!/usr/bin/env bash
# check_layers.sh [ROOT]: prints every #include that points the wrong way or names a library in the wrong place, and
# exits 1 if there is one. The rules are two tables: which folders a folder may include, and who may include a library.
set -eu
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/..}"

find . -path ./build -prune -o -path ./.git -prune -o -name '*.[ch]' -print | sed 's|^\./||' | LC_ALL=C sort |
    xargs -r awk '
function allow(from, to) { allowed[from] = to }
function confine(header, folders, who) { home[header] = "^(" folders ")/"; why[header] = who }
BEGIN {
    # The longest prefix of a path decides. "a/b/" also allows what lies below; "a/*" only files of a itself.
    allow("schemas/base/",      "schemas/base/")
    allow("schemas/",           "schemas/")
    allow("runtime/program/graph/",  "schemas/ runtime/program/graph/ runtime/program/*")
    allow("runtime/program/lower/",  "schemas/ runtime/program/graph/ runtime/program/lower/ runtime/program/*")
    allow("runtime/program/verify/", "schemas/ runtime/program/verify/ runtime/program/*")
    allow("runtime/program/",   "schemas/ runtime/program/*")
    allow("costmodel/",         "schemas/ runtime/program/ costmodel/")
    allow("planner/space/",     "schemas/ runtime/program/ costmodel/ planner/space/")
    allow("planner/solve/",     "schemas/ runtime/program/ costmodel/ planner/solve/")
    allow("planner/cell/",      "schemas/ runtime/program/ costmodel/ planner/space/ planner/cell/")
    allow("planner/bound/",     "schemas/ runtime/program/ costmodel/ planner/space/ planner/cell/ planner/bound/")
    allow("planner/stages/",    "schemas/ runtime/program/ costmodel/ planner/space/ planner/cell/ planner/bound/ planner/stages/")
    allow("planner/least/",     "schemas/ runtime/program/ costmodel/ planner/space/ planner/cell/ planner/bound/ planner/least/")
    allow("planner/certificate/", "schemas/ runtime/program/ costmodel/ planner/space/ planner/cell/ planner/certificate/")
    allow("planner/kinds/",     "schemas/ runtime/program/ costmodel/ planner/space/ planner/kinds/")
    allow("planner/price/",     "schemas/ runtime/program/ costmodel/ planner/space/ planner/kinds/ planner/partition/ planner/price/")
    allow("planner/hull/",      "schemas/ planner/hull/")
    allow("planner/partition/", "schemas/ planner/partition/")
    allow("planner/layered/",   "schemas/ runtime/program/ costmodel/ planner/space/ planner/cell/ planner/kinds/ planner/price/ planner/hull/ planner/partition/ planner/layered/")
    allow("planner/",           "schemas/ runtime/program/ costmodel/ planner/")
    allow("runtime/device/",    "schemas/ runtime/program/ runtime/device/ runtime/*")
    allow("runtime/ops/",       "schemas/ runtime/program/ runtime/ops/ runtime/*")
    allow("runtime/comm/",      "schemas/ runtime/program/ runtime/comm/ runtime/*")
    allow("runtime/train/",     "schemas/ runtime/")
    allow("runtime/launch/",    "schemas/ runtime/comm/ runtime/launch/ runtime/*")
    allow("runtime/engine/",    "schemas/ runtime/program/ runtime/device/ runtime/ops/ runtime/comm/ runtime/launch/ runtime/engine/ runtime/*")
    allow("runtime/",           "schemas/ runtime/program/ runtime/device/ runtime/ops/ runtime/comm/ runtime/*")
    allow("profiler/",          "schemas/ runtime/ profiler/")
    allow("planner/cli/",       "schemas/ runtime/program/ costmodel/ planner/")
    allow("runtime/cli/",       "schemas/ runtime/ costmodel/")
    allow("profiler/cli/",      "schemas/ runtime/ profiler/ costmodel/")
    allow("tests/",             "schemas/ runtime/ costmodel/ planner/ profiler/ tests/")
    confine("cJSON.h",   "schemas/base",                   "json alone calls cJSON")
    confine("glpk.h",    "planner",                        "only galplan links GLPK")
    confine("mpi.h",     "runtime/comm",                   "MPI is behind comm")
    confine("cblas.h",   "runtime/ops/host|runtime/cli|profiler/cli", "BLAS is behind ops; a main sets its threads")
    confine("hwloc.h",   "profiler|runtime/device",        "hwloc is behind the profiler and the binding of ranks")
}
function longest(path,    from, best) {
    best = ""
    for (from in allowed) {
        if (index(path, from) == 1 && length(from) > length(best)) best = from
    }
    return best
}
function may(from, target,    count, list, i, folder) {
    count = split(allowed[from], list, " ")
    for (i = 1; i <= count; i++) {
        folder = list[i]
        if (folder ~ /\*$/) {
            sub(/\*$/, "", folder)
            if (index(target, folder) == 1 && substr(target, length(folder) + 1) !~ /\//) return 1
        } else if (index(target, folder) == 1) return 1
    }
    return 0
}
function refuse(rule) {
    printf "%s:%d: %s: %s\n", FILENAME, FNR, $0, rule
    refused = 1
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, part, "\"")
    target = part[2]
    from = longest(FILENAME)
    if (from == "") refuse("a folder that the rules do not know")
    else if (target !~ /\//) refuse("includes are by path from the root")
    else if (target ~ /\/cli\// && index(FILENAME, substr(target, 1, index(target, "/cli/") + 4)) != 1)
        refuse("nobody includes a cli folder")
    else if (!may(from, target)) refuse(from " may include: " allowed[from])
}
/^[ \t]*#[ \t]*include[ \t]*</ {
    header = $0
    gsub(/.*<|>.*/, "", header)
    sub(/^(cjson|openblas|openmpi)\//, "", header)
    if (FILENAME ~ /^tests\//) next
    if (header ~ /^(cuda|cublas|cudnn|nccl|nvml)/ && FILENAME !~ /^(runtime\/(device|ops|comm)|profiler)\//)
        refuse("CUDA is behind device, ops and comm")
    if (header in home && FILENAME !~ home[header]) refuse(why[header])
}
END { exit refused }' || exit 1
