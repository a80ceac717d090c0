"""Where records lie, and how what is made of them gets into a document: between two marks."""

import re
from pathlib import Path

from tsdr.defaults import WINDOW
from tsdr.records.changes import Change
from tsdr.records.folder import RecordFolder
from tsdr.records.run import Record
from tsdr.records.views import judged_by
from tsdr.report.results.tables import with_interval

ROOT = Path(__file__).parents[1]
END = "<!-- until here -->"


def fill(document: str, maker: str, text: str) -> None:
    """Write a text between the mark of its maker, the name of a module, and the next end."""
    path, begin = ROOT / document, f"<!-- made by {maker} -->\n"
    before, found, rest = path.read_text().partition(begin)
    if not found or END not in rest:
        raise SystemExit(f"{document} has no place for it: {begin.strip()}, and {END} after it")
    path.write_text(before + begin + text + re.split(f"(?={END})", rest, maxsplit=1)[1])


def judged_by_the_same_answers(*studies: str) -> list[Record]:
    """The records of the paper's window, and of longer ones that are judged by its answers; those of studies, too."""
    folders = "results", *(f"results/{study}" for study in ("histories", *studies))
    records = [record for folder in folders for record in RecordFolder(ROOT / folder)]
    return [
        record for record in records if not record.timed and record.size != "light" and judged_by(record) == WINDOW - 1
    ]


def changed(found: Change | None) -> str:
    """A change with its interval over students, and in how many runs it is for the better."""
    return "–" if found is None else f"{with_interval(found)}, {found.better} of {found.folds}"
