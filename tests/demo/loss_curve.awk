# The training loss of a log of JSON lines (galrun --log) as a picture: columns are steps, the mean of a few where there
# are more steps than columns; rows are losses.   awk -f loss_curve.awk [-v columns=72] [-v rows=10] log.jsonl
BEGIN { columns = columns ? columns : 72; rows = rows ? rows : 10 }
match($0, /"event": "step".*"loss": [-+.0-9e]+/) {
    split($0, part, /"loss": /)
    loss[count++] = part[2] + 0
}
END {
    if (count < 2) exit
    if (columns > count) columns = count
    for (c = 0; c < columns; c++) {
        from = int(c * count / columns); to = int((c + 1) * count / columns); sum = 0
        for (s = from; s < to; s++) sum += loss[s]
        mean[c] = sum / (to - from)
        if (c == 0 || mean[c] > most) most = mean[c]
        if (c == 0 || mean[c] < least) least = mean[c]
    }
    height = most > least ? (most - least) / (rows - 1) : 1
    for (r = rows - 1; r >= 0; r--) {
        line = ""
        for (c = 0; c < columns; c++) line = line (int((mean[c] - least) / height + 0.5) == r ? "*" : " ")
        sub(/ +$/, "", line)
        printf "%8.2f |%s\n", least + r * height, line
    }
    line = ""
    for (c = 0; c < columns; c++) line = line "-"
    printf "    loss +%s\n", line
    printf "%10ssteps 1 to %d\n", "", count
}
