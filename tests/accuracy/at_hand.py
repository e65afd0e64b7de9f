"""Constants that were fitted to published rows: constants/KIND-CLUSTER.json, and which rows these were: constants/rows.txt,
a digest a line. So a file of other rows can begin where these ended, and no row is ever predicted by what it was fitted to."""
import hashlib
import pathlib
import shutil

FOLDER = pathlib.Path(__file__).resolve().parent / "constants"
ROWS = FOLDER / "rows.txt"
LEFT_OUT = ("partition", "cluster", "part", "group", "framework")  # what does not say what was measured


def digest(slug, row):
    """Of what was measured, whichever the columns' order."""
    said = sorted((k, str(v)) for k, v in row.items() if k not in LEFT_OUT and v is not None)
    where = pathlib.Path(str(row["cluster"])).stem
    return hashlib.sha256(repr((slug, where, said)).encode()).hexdigest()[:16]


def knows(slug, rows):
    """Whether any of them is one that constants at hand were fitted to."""
    known = set(ROWS.read_text(encoding="utf-8").split()) if ROWS.exists() else set()
    return any(digest(slug, row) in known for row in rows)


def place(slug, cluster):
    return FOLDER / f"{slug}-{pathlib.Path(cluster).stem}.json"


def start(slug, cluster):
    """As an option of galplan; (): there are none for this kind and cluster."""
    return ("--constants", place(slug, cluster)) if place(slug, cluster).exists() else ()


def keep(slug, cluster, constants):
    """constants: as start gives them."""
    if constants:
        FOLDER.mkdir(exist_ok=True)
        shutil.copyfile(constants[1], place(slug, cluster))


def remember(fitted):
    """fitted: slug -> rows."""
    known = sorted({digest(slug, row) for slug, rows in fitted.items() for row in rows})
    ROWS.write_text("\n".join(known) + "\n", encoding="utf-8")
