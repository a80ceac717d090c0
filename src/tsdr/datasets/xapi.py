"""xAPI statements, one JSON object a line: actor, verb, object, result.success, timestamp.

`answered` statements are answers, `skipped` ones skipped offers, and so is an `answered` one that says nothing and is
not judged. Concepts are in an extension whose name ends in one of CONCEPT_NAMES, or else the activities of the
statement's context (category, grouping, parent).
"""

from typing import Any

import polars as pl

from tsdr.datasets.account import Account
from tsdr.datasets.interactions import JOINER, Preparation
from tsdr.datasets.raw import RawFolder
from tsdr.datasets.source import Source
from tsdr.datasets.statements import Row, at, concepts_among, events, last_part, named, table

AROUND = ("category", "grouping", "parent")


def read(raw: RawFolder, options: Preparation, account: Account) -> pl.DataFrame:
    """Every statement of every file; those with another verb are counted and left out."""
    found = (said if isinstance(said, str) else _row(said) for said in events(raw, "statements", "a statement"))
    return table(found, account, options, time="timestamp", kind="statement")


def _row(said: dict[str, Any]) -> Row | str:
    """A row, or the reason why there is none."""
    verb = last_part(at(said, "verb", "id"))
    if verb not in ("answered", "skipped"):
        return "verb other than answered"
    student, question = _actor(said.get("actor")), at(said, "object", "id")
    if not student or not question:
        return "no actor or object"
    skills = JOINER.join(_concepts(said))
    if not skills:
        return "no concept"
    success, empty = at(said, "result", "success"), _says_nothing(said.get("result"))
    judged = verb == "answered" and isinstance(success, bool)
    if not judged and verb == "answered" and not empty:
        return "no result.success"
    return Row(
        str(said["id"]) if said.get("id") else None,
        student,
        str(question),
        skills,
        int(success) if judged else None,
        str(said.get("timestamp") or ""),
        unanswered=not judged,
        empty=judged and empty and not success,
    )


def _says_nothing(result: Any) -> bool:
    """Whether a result says that there was no answer: by an empty one, or, with none at all, by not being complete."""
    response = at(result, "response")
    return not response.strip() if isinstance(response, str) else at(result, "completion") is False


def _actor(actor: Any) -> str:
    """Who it is, by whatever identifies an agent."""
    account, home = at(actor, "account", "name"), at(actor, "account", "homePage")
    if account:
        return f"{home} {account}" if home else str(account)
    names = (at(actor, kind) for kind in ("mbox", "mbox_sha1sum", "openid", "name"))
    return next((str(name) for name in names if name), "")


def _concepts(statement: Any) -> list[str]:
    places = (("object", "definition", "extensions"), ("context", "extensions"), ("result", "extensions"))
    around = (named(at(statement, "context", "contextActivities", kind)) for kind in AROUND)
    return concepts_among(*(at(statement, *place) for place in places)) or next(filter(None, around), [])


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
