"""What the readers of JSON events share: the events of files, places within one, concepts, and the table of them."""

import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from tsdr.datasets.account import Account
from tsdr.datasets.interactions import JOINER, NOTE, Preparation, date_time, ruled, skill_sets, without
from tsdr.datasets.raw import RawFolder

CONCEPT_NAMES = ("concept", "concepts", "skill", "skills", "kc", "kcs", "knowledge-component", "knowledge-components")
PATTERNS = ("*.jsonl", "*.ndjson", "*.json")
UNANSWERED = "a skip or an empty response"
NOT_JSON = object()


class Row(NamedTuple):
    """What an event says of an answer, or of an offer that was not answered."""

    id: str | None
    student: str
    question: str
    skills: str  # with JOINER between them
    correct: int | None
    time: str
    unanswered: bool = False
    part: bool = False  # of the score
    empty: bool = False  # in what was said, and yet judged


def events(raw: RawFolder, envelope: str, kind: str) -> Iterator[dict[str, Any] | str]:
    """Every event of every file, or the reason why there is none.

    A line is an event, a list of them or an envelope, which has the list under that name. So is a file as a whole.
    """
    raw.need(*PATTERNS)
    for said in (said for pattern in PATTERNS for path in raw.find(pattern) for said in _documents(raw, path)):
        listed = said.get(envelope) if isinstance(said, dict) else said
        for event in listed if isinstance(listed, list) else [said]:
            if event is NOT_JSON or not _can_be_held(event):
                yield "line that is not JSON"
            else:
                yield event if isinstance(event, dict) else f"line that is not {kind}"


def _documents(raw: RawFolder, path: Path) -> Iterator[Any]:
    """What the lines of a file say; or all of it at once, where that is JSON and its first line alone is not."""
    with raw.utf8(path).open(encoding="utf-8-sig") as file:
        first = next((line for line in file if line.strip()), "")
        if path.suffix == ".json" and _parsed(first) is NOT_JSON:
            file.seek(0)
            whole = _parsed(file.read())
            if whole is not NOT_JSON:
                yield whole
                return
            file.seek(0)
            first = ""
        yield from (_parsed(line) for line in chain([first], file) if line.strip())


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return NOT_JSON


def _can_be_held(event: Any) -> bool:
    """Whether no text in it is half of a character, which no table holds."""
    try:
        json.dumps(event, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return True


def at(thing: Any, *keys: str) -> Any:
    """What stands at a place within an event; None where there is no such place."""
    for key in keys:
        thing = thing.get(key) if isinstance(thing, dict) else None
    return thing


def identity(entity: Any) -> str:
    """The id of an entity, which is written as an object or as the id alone."""
    name = at(entity, "id") or at(entity, "@id") if isinstance(entity, dict) else entity
    return str(name).strip() if isinstance(name, str | int) and not isinstance(name, bool) else ""


def last_part(name: Any) -> str:
    """The name behind an IRI, a URN or a prefix: `answered` of `http://adlnet.gov/expapi/verbs/answered`."""
    return re.split("[/#:]", name.rstrip("/#"))[-1] if isinstance(name, str) else ""


def concepts_among(*extensions: Any) -> list[str]:
    """The concepts that extensions name, by the last part of their own names."""
    return [
        concept
        for extension in extensions
        for name, value in (extension.items() if isinstance(extension, dict) else ())
        if last_part(name).lower() in CONCEPT_NAMES
        for concept in named(value)
    ]


def named(value: Any) -> list[str]:
    """The names in a list, or the one that is given instead of it; an object's is its id."""
    several = value if isinstance(value, list) else [value]
    return [name for name in (identity(one) if isinstance(one, dict) else _text(one) for one in several) if name]


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def table(found: Iterable[Row | str], account: Account, options: Preparation, *, time: str, kind: str) -> pl.DataFrame:
    """The rows as interactions; reasons in place of rows are counted, and so is every row that is dropped here."""
    rows = []
    for row in found:
        account.read += 1
        if isinstance(row, str):
            account.drop(row, 1)
        else:
            rows.append(row)
    text, truth = pl.String, pl.Boolean
    types = (text, text, text, text, pl.Int8, text, truth, truth, truth)
    frame = pl.DataFrame(rows, schema=dict(zip(Row._fields, types, strict=True)), orient="row")
    frame = frame.with_columns(time=date_time("time")).rename(
        {
            "skills": "skill",
            "part": f"{NOTE}a part of the score, taken for a wrong answer",
            "empty": f"{NOTE}an empty response, judged wrong where it was given",
        }
    )
    frame = without(frame, account, {f"no {time}": pl.col("time").is_null()})
    again = pl.col("id").is_not_null() & ~pl.col("id").is_first_distinct()
    frame = without(frame, account, {f"the same {kind} twice": again})
    return skill_sets(ruled(frame, account, options, pl.col("unanswered"), UNANSWERED), JOINER)
