"""xAPI statements, one JSON object a line: actor, verb, object, result.success, timestamp.

`answered` statements are answers, `skipped` ones skipped offers. Concepts are in an extension whose name ends in one of
CONCEPT_NAMES, or else the activities of the statement's context (category, grouping, parent).
"""

import json
from collections.abc import Iterator
from typing import Any

import polars as pl

from tsdr.datasets.account import Account
from tsdr.datasets.interactions import JOINER, Preparation, date_time, skill_sets, without
from tsdr.datasets.raw import RawFolder
from tsdr.datasets.source import Source

CONCEPT_NAMES = ("concept", "concepts", "skill", "skills", "kc", "kcs", "knowledge-component", "knowledge-components")
AROUND = ("category", "grouping", "parent")
COLUMNS = ("problem", "id", "student", "question", "skill", "correct", "time", "skipped")


def read(raw: RawFolder, options: Preparation, account: Account) -> pl.DataFrame:
    """Every line of every file; statements with another verb are counted and left out."""
    raw.need("*.jsonl", "*.ndjson", "*.json")
    paths = [path for pattern in ("*.jsonl", "*.ndjson", "*.json") for path in raw.find(pattern)]
    rows = pl.DataFrame(
        [_statement(line) for path in paths for line in _lines(raw, path)],
        schema=dict(zip(COLUMNS, (*(pl.String,) * 5, pl.Int8, pl.String, pl.Boolean), strict=True)),
        orient="row",
    )
    account.read = rows.height
    rows = rows.with_columns(time=date_time("time"))
    rules = {reason: pl.col("problem") == reason for reason in rows["problem"].drop_nulls().unique().sort()}
    rows = without(rows, account, rules | {"no timestamp": pl.col("time").is_null()})
    again = pl.col("id").is_not_null() & ~pl.col("id").is_first_distinct()
    rows = skill_sets(without(rows, account, {"the same statement twice": again}), JOINER)
    return rows if rows["skipped"].any() else rows.drop("skipped")


def _lines(raw: RawFolder, path: Any) -> Iterator[str]:
    with raw.utf8(path).open(encoding="utf-8-sig") as file:
        yield from (line for line in file if line.strip())


def _statement(line: str) -> tuple[Any, ...]:
    """A row, or the reason why there is none."""

    def refused(reason: str) -> tuple[Any, ...]:
        return (reason, *(None,) * (len(COLUMNS) - 1))

    try:
        said = json.loads(line)
        line.encode()
        json.dumps(said, ensure_ascii=False).encode()
    except ValueError:  # not JSON, or text or numbers that nothing else can hold
        return refused("line that is not JSON")
    if not isinstance(said, dict):
        return refused("line that is not a statement")
    verb = str(_at(said, "verb", "id") or "").rstrip("/").rpartition("/")[2]
    if verb not in ("answered", "skipped"):
        return refused("verb other than answered")
    student, question = _actor(said.get("actor")), _at(said, "object", "id")
    if not student or not question:
        return refused("no actor or object")
    skills = JOINER.join(_concepts(said))
    if not skills:
        return refused("no concept")
    success = _at(said, "result", "success")
    if verb == "answered" and not isinstance(success, bool):
        return refused("no result.success")
    correct = int(success) if verb == "answered" else None
    name = str(said["id"]) if said.get("id") else None
    return (None, name, student, str(question), skills, correct, str(said.get("timestamp") or ""), verb == "skipped")


def _at(statement: Any, *keys: str) -> Any:
    for key in keys:
        statement = statement.get(key) if isinstance(statement, dict) else None
    return statement


def _actor(actor: Any) -> str:
    """Who it is, by whatever identifies an agent."""
    account, home = _at(actor, "account", "name"), _at(actor, "account", "homePage")
    if account:
        return f"{home} {account}" if home else str(account)
    names = (_at(actor, kind) for kind in ("mbox", "mbox_sha1sum", "openid", "name"))
    return next((str(name) for name in names if name), "")


def _concepts(statement: Any) -> Iterator[str]:
    found = False
    places = (("object", "definition", "extensions"), ("context", "extensions"), ("result", "extensions"))
    for place in places:
        extensions = _at(statement, *place)
        for name, value in extensions.items() if isinstance(extensions, dict) else ():
            if name.rstrip("/#").replace("#", "/").rpartition("/")[2].lower() in CONCEPT_NAMES:
                for skill in value if isinstance(value, list) else [value]:
                    if skill is not None and str(skill).strip():
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
