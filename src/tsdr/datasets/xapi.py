"""xAPI statements, one JSON object a line: actor, verb, object, result.success, timestamp.

`answered` statements are answers, `skipped` ones skipped offers. Concepts are in an extension whose name ends in one of
CONCEPT_NAMES, or else the activities of the statement's context (category, grouping, parent).
"""

import json
from collections.abc import Iterator
from typing import Any

import polars as pl

from tsdr.datasets.account import Account
from tsdr.datasets.interactions import JOINER, Preparation, without
from tsdr.datasets.raw import RawFolder
from tsdr.datasets.source import Source

CONCEPT_NAMES = ("concept", "concepts", "skill", "skills", "kc", "kcs", "knowledge-component", "knowledge-components")
AROUND = ("category", "grouping", "parent")
COLUMNS = ("problem", "student", "question", "concept", "correct", "time", "skipped")


def read(raw: RawFolder, options: Preparation, account: Account) -> pl.DataFrame:
    """Every line of every file; statements with another verb are counted and left out."""
    lines = (line for path in raw.need("*.jsonl", "*.ndjson", "*.json") for line in _lines(raw, path))
    rows = pl.DataFrame(
        [_statement(line) for line in lines],
        schema=dict(zip(COLUMNS, (*(pl.String,) * 4, pl.Int8, pl.String, pl.Boolean), strict=True)),
        orient="row",
    )
    account.read = rows.height
    time = pl.coalesce(
        pl.col("time").str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%#z", strict=False, time_unit="us", time_zone="UTC"),
        pl.col("time").str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", strict=False, time_unit="us", time_zone="UTC"),
    )
    rows = rows.with_columns(time=time.dt.replace_time_zone(None))
    rules = {reason: pl.col("problem") == reason for reason in rows["problem"].drop_nulls().unique().sort()}
    rules["no timestamp"] = pl.col("time").is_null()
    rows = without(rows, account, rules).drop("problem")
    return rows if rows["skipped"].any() else rows.drop("skipped")


def _lines(raw: RawFolder, path: Any) -> Iterator[str]:
    with raw.utf8(path).open(encoding="utf-8") as file:
        yield from (line for line in file if line.strip())


def _statement(line: str) -> tuple[Any, ...]:
    """A row, or the reason why there is none."""

    def refused(reason: str) -> tuple[Any, ...]:
        return (reason, *(None,) * (len(COLUMNS) - 1))

    try:
        said = json.loads(line)
    except json.JSONDecodeError:
        return refused("line that is not JSON")
    if not isinstance(said, dict):
        return refused("line that is not a statement")
    verb = str(_at(said, "verb", "id") or "").rstrip("/").rpartition("/")[2]
    if verb not in ("answered", "skipped"):
        return refused("verb other than answered")
    student, question = _actor(said.get("actor")), _at(said, "object", "id")
    if not student or not question:
        return refused("no actor or object")
    concept = JOINER.join(sorted(set(_concepts(said))))
    if not concept:
        return refused("no concept")
    success = _at(said, "result", "success")
    if verb == "answered" and not isinstance(success, bool):
        return refused("no result.success")
    correct = int(success) if verb == "answered" else None
    return (None, student, str(question), concept, correct, str(said.get("timestamp") or ""), verb == "skipped")


def _at(statement: Any, *keys: str) -> Any:
    for key in keys:
        statement = statement.get(key) if isinstance(statement, dict) else None
    return statement


def _actor(actor: Any) -> str:
    """Who it is, by whatever identifies an agent."""
    named = (_at(actor, "account", "name"), _at(actor, "mbox"), _at(actor, "mbox_sha1sum"), _at(actor, "openid"))
    return next((str(name) for name in (*named, _at(actor, "name")) if name), "")


def _concepts(statement: Any) -> Iterator[str]:
    found = False
    places = (("object", "definition", "extensions"), ("context", "extensions"), ("result", "extensions"))
    for place in places:
        for name, value in (_at(statement, *place) or {}).items():
            if name.rstrip("/#").replace("#", "/").rpartition("/")[2].lower() in CONCEPT_NAMES:
                for skill in value if isinstance(value, list) else [value]:
                    found = True
                    yield str(skill).strip()
    if found:
        return
    for kind in AROUND:
        around = _at(statement, "context", "contextActivities", kind)
        activities = around if isinstance(around, list) else [around]
        named = [str(activity["id"]) for activity in activities if isinstance(activity, dict) and activity.get("id")]
        if named:
            yield from named
            return


SOURCES = [
    Source(
        name="xapi",
        what="statements of a learning record store",
        published="xapi.com",
        terms="your own",
        files="*.jsonl, *.ndjson or *.json, one statement a line",
        read=read,
    )
]
