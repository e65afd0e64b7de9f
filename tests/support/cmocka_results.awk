# Reads what a cmocka program printed; writes a line per test: "pass NAME", "fail NAME why" or "skip NAME: reason".
# cmocka's skip() takes no reason: it is what the test printed last before it.
function close_open(why) { if (open != "") { print "fail " open " " why; open = "" } }
/\[ RUN      \] / {
    close_open("(did not finish)")
    open = $0
    sub(/.*\[ RUN      \] /, "", open)
    last = "no reason printed"
    next
}
/\[       OK \] / { if (open != "") print "pass " open; open = ""; next }
/\[  SKIPPED \] / { if (open != "") print "skip " open ": " last; open = ""; next }
/\[  FAILED  \] / {
    if (open == "" && $0 ~ /GROUP (SETUP|TEARDOWN)|[Gg]roup (setup|teardown)/) print "fail " $NF " (group setup or teardown)"
    close_open("")
    next
}
/[^ ]/ { last = $0; gsub(/^[ \t]+|[ \t]+$/, "", last) }
END { close_open("(did not finish)") }
